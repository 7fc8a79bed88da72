"""What simulator and player share: messages from arrays, pacing in real time, waiting for subscribers."""

from __future__ import annotations

import array
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.qos import QoSProfile, ReliabilityPolicy

from siha_ros.msg import SkeletonFrame

RELIABLE = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
# Relative, as all topics of simulator and player: in a namespace, teams do not hear each other.
TRUTH_TOPIC = "truth"  # siha_ros/SkeletonFrame; tracked is false where the node was not given the agent
TRUTH_GRAPH_TOPIC = "truth_graph"  # siha_ros/InteractionGraph, once a second


def stamp(nanoseconds: int) -> Time:
    """A stamp message of nanoseconds since the epoch."""
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def seconds(message: Time) -> float:
    """Seconds since the epoch of a stamp message."""
    return message.sec + 1e-9 * message.nanosec


def skeleton_frame(
    time_ns: int,
    frame_id: str,
    group: str,
    names: Sequence[str],
    positions: NDArray[np.float64],
    tracked: NDArray[np.bool_],
) -> SkeletonFrame:
    """A SkeletonFrame of positions f8[A, 3] (m) and tracked bool[A]."""
    message = SkeletonFrame(group=group, joints=list(names), tracked=tracked.tolist())
    message.header.stamp = stamp(time_ns)
    message.header.frame_id = frame_id
    message.positions = array.array("d", positions.ravel())
    return message


def end_on_signals() -> None:
    """SIGINT and SIGTERM end the process at once: for the time before anything is published, when what compiles and
    loads would look at no event for seconds."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end())


def end() -> NoReturn:
    """End the process with exit code 0, now: taking down an interpreter with numba's compiler in it takes seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set, in place of their usual effect."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def paced(rate: float, stop: threading.Event) -> Iterator[float]:
    """Yields `rate` times a second the time since the first yield (s) to which this tick belongs, until stopped.

    Times are multiples of 1 / rate and ascend; ticks that were missed are left out.
    """
    begin = time.monotonic()
    tick = 0
    while not stop.wait(max(0.0, begin + tick / rate - time.monotonic())):
        tick = max(tick, int((time.monotonic() - begin) * rate))
        yield tick / rate
        tick += 1


def wait_for_subscribers(
    node: Any, topics: Sequence[str], nodes: Sequence[str], stop: threading.Event, timeout: float = 180.0
) -> None:
    """Until every named node subscribes to every topic. Raises TimeoutError, in one line."""
    deadline = time.monotonic() + timeout
    missing = [(topic, name) for topic in topics for name in nodes]
    while missing and not stop.wait(0.05):
        missing = [
            (topic, name)
            for topic, name in missing
            if name not in {info.node_name for info in node.get_subscriptions_info_by_topic(topic)}
        ]
        if time.monotonic() > deadline:
            topic, name = missing[0]
            raise TimeoutError(f"node {name} did not subscribe to {topic} within {timeout:g} s")
