"""The worker: latest wins, exceptions do not end it, it stops."""

from __future__ import annotations

import threading
import time

from siha_ros.node.worker import Worker


def test_wakes_while_busy_count_as_one():
    started, go_on, runs = threading.Event(), threading.Event(), []

    def step():
        runs.append(None)
        started.set()
        go_on.wait(2.0)

    worker = Worker(step, lambda error: None)
    worker.wake()
    assert started.wait(1.0)
    for _ in range(100):
        worker.wake()
    go_on.set()
    time.sleep(0.1)
    assert worker.stop(1.0) and len(runs) == 2


def test_exception_goes_to_on_error_and_the_worker_lives_on():
    done, errors = threading.Event(), []

    def step():
        if not errors:
            raise RuntimeError("once")
        done.set()

    worker = Worker(step, errors.append)
    worker.wake()
    while not errors:
        time.sleep(0.001)
    worker.wake()
    assert done.wait(1.0) and str(errors[0]) == "once"
    assert worker.stop(1.0)


def test_stop_says_when_a_step_does_not_end():
    go_on, started = threading.Event(), threading.Event()
    worker = Worker(lambda: (started.set(), go_on.wait(5.0)), lambda error: None)
    worker.wake()
    started.wait(1.0)
    assert worker.stop(0.05) is False
    go_on.set()
    assert worker.stop(1.0) is True
