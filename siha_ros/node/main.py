"""The process of the node: start, spin, and a clean end on SIGINT and SIGTERM, also while a model loads or runs."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from siha_ros.node.siha_node import Loader, SihaNode, load


class Stop(BaseException):
    """Raised in the main thread by the first SIGINT or SIGTERM."""


def main(args: list[str] | None = None, loader: Loader = load) -> int:
    """Run the node until it is told to stop; returns the exit code. Installs handlers for SIGINT and SIGTERM."""
    stopping = False

    def stop(number: int, frame: Any) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise Stop

    # rclpy's own handlers wake an idle executor and call those there before: a busy Python gets the exception.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    ended, node = True, None
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
        ended = node.stop()
    rclpy.try_shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    if not ended:
        os._exit(0)  # an estimate that does not return must not hold the process
    return 0
