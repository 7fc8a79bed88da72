"""The process of the node: start, spin, and a clean end on SIGINT and SIGTERM, also while a model loads or runs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

# Before anything starts its threads: one window is too small to share, and idle threads that spin for work take the
# cores from everything else on a robot's computer. OMP_NUM_THREADS chooses otherwise.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import rclpy  # noqa: E402
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor  # noqa: E402

from siha_ros.node import HELP  # noqa: E402
from siha_ros.node.siha_node import Loader, SihaNode, load  # noqa: E402

SLICE = 0.02  # s over which the executor's share is looked at; it rests for no longer, while the worker keeps up
SHARE = 0.5  # of the time that messages may take; where a flood would take more, the middleware drops the oldest
MOST_RESTS = 5  # of a slice each, one after another, while the worker does not keep up


class Stop(BaseException):
    """Raised in the main thread by the first SIGINT or SIGTERM."""


def spin(executor: SingleThreadedExecutor, behind: Callable[[], bool], stopping: Callable[[], bool]) -> None:
    """Spin until `stopping`, but rest for as long as was worked where messages come without a pause: taking them holds
    the interpreter, and the worker would wait for it at every step of an estimate. Rest too while the worker is
    `behind` with what was taken: of each topic the middleware keeps the newest, and what waits in the inbox only grows
    old."""
    worked, began = time.thread_time(), time.monotonic()
    while executor.context.ok() and not stopping():  # Stop is lost where it meets a destructor, which may not raise
        executor.spin_once()
        if (passed := time.monotonic() - began) > SLICE:
            time.sleep(min(max(0.0, (time.thread_time() - worked) / SHARE - passed), SLICE))
            for _ in range(MOST_RESTS):
                if behind():
                    time.sleep(SLICE)
            worked, began = time.thread_time(), time.monotonic()


def main(args: list[str] | None = None, loader: Loader = load) -> NoReturn:
    """Run the node until SIGINT, SIGTERM or a shutdown of ROS, and end the process with exit code 0."""
    if (sys.argv[1:] if args is None else args)[:1] in (["--help"], ["-h"]):
        print(HELP)
        raise SystemExit(0)
    stopping = False

    def stop(number: int, frame: Any) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise Stop

    # rclpy's own handlers wake an idle executor and call those there before: a busy Python gets the exception.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    node = None
    try:
        rclpy.init(args=args)
        node = SihaNode(loader)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        if node.get_parameter("autostart").value is not False:  # a value of a wrong type is said by configure
            node.start()
        spin(executor, lambda: node.behind, lambda: stopping)
    except (Stop, ExternalShutdownException):
        pass
    except Exception:
        if not stopping:  # the context is shut down under whatever was under way
            raise
    stopping = True
    if node is not None:
        node.stop()
        node.destroy_node()  # so that others hear at once that it is gone
    rclpy.try_shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # taking down an interpreter with torch in it takes seconds, and a hung estimate must not hold it
