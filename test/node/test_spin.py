"""The executor's loop: messages take half of the time at most, and nothing rests that need not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from siha_ros.node import main


class Run:
    """An executor and the clocks: each call of spin_once works and waits for so long (s), until the context ends. The
    worker is behind until a time (s). The signal to stop comes in the call number `stop`, counted back from the end."""

    def __init__(self, monkeypatch, calls, behind_until: float = 0.0, stop: int = -1) -> None:
        self.calls, self.worked, self.now, self.rests = list(calls), 0.0, 100.0, []
        self.context = SimpleNamespace(ok=lambda: bool(self.calls))
        clocks = SimpleNamespace(thread_time=lambda: self.worked, monotonic=lambda: self.now, sleep=self.rest)
        monkeypatch.setattr(main, "time", clocks)
        main.spin(self, lambda: self.now < behind_until, lambda: len(self.calls) == stop)

    def spin_once(self) -> None:
        work, wait = self.calls.pop(0)
        self.worked, self.now = self.worked + work, self.now + work + wait

    def rest(self, seconds: float) -> None:
        assert seconds >= 0
        self.rests.append(seconds)
        self.now += seconds


def test_messages_without_a_pause_take_half_of_the_time(monkeypatch):
    run = Run(monkeypatch, [(0.001, 0.0)] * 1000)
    assert run.worked / (run.now - 100.0) == pytest.approx(0.5, abs=0.02)
    assert max(run.rests) < 0.03  # timers and services wait no longer


@pytest.mark.parametrize("wait", [0.001, 0.05])
def test_who_waits_for_as_long_as_it_works_does_not_rest(monkeypatch, wait):
    assert sum(Run(monkeypatch, [(0.001, wait)] * 1000).rests) == pytest.approx(0.0, abs=1e-9)


def test_time_that_other_threads_took_is_not_its_own(monkeypatch):
    run = Run(monkeypatch, [(0.0003, 0.0007)] * 1000)  # the worker held the interpreter
    assert sum(run.rests) == 0.0


def test_a_burst_after_a_silence_is_slowed_too(monkeypatch):
    run = Run(monkeypatch, [(0.0, 60.0)] + [(0.001, 0.0)] * 100)
    assert sum(run.rests) == pytest.approx(0.1, abs=0.03)


def test_one_long_callback_such_as_the_loading_of_a_model_is_followed_by_no_long_rest(monkeypatch):
    assert sum(Run(monkeypatch, [(10.0, 0.0), (0.001, 0.0)]).rests) < 0.05


def test_the_worker_catches_up_in_rests_that_end(monkeypatch):
    caught_up = Run(monkeypatch, [(0.001, 0.001)] * 100, behind_until=100.09)
    assert sum(caught_up.rests) == pytest.approx(0.08, abs=0.021)  # from the first look, after 0.02 s
    stuck = Run(monkeypatch, [(0.001, 0.001)] * 100, behind_until=1e9)
    assert sum(stuck.rests) == pytest.approx(0.9, abs=0.21)  # 0.1 s after each of 9 slices of 0.022 s


def test_a_signal_whose_exception_got_lost_ends_it_too(monkeypatch):
    assert len(Run(monkeypatch, [(0.001, 0.05)] * 10, stop=7).calls) == 7
