"""The process of the node: start, spin, and a clean end on SIGINT and SIGTERM, also while a model loads or runs."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

# Before anything starts its threads: one window is too small to share, and idle threads that spin for work take the
# cores from everything else on a robot's computer. OMP_NUM_THREADS chooses otherwise.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import rclpy  # noqa: E402
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor  # noqa: E402

from siha_ros.node.siha_node import Loader, SihaNode, load  # noqa: E402


class Stop(BaseException):
    """Raised in the main thread by the first SIGINT or SIGTERM."""


def main(args: list[str] | None = None, loader: Loader = load) -> NoReturn:
    """Run the node until SIGINT, SIGTERM or a shutdown of ROS, and end the process with exit code 0."""
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
        executor.spin()
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
