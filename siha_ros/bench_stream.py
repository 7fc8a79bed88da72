"""A made-up stream for the benches: a team on a circle or a body walking straight on, some of which is lost.

Run as a module it publishes in real time, to measure the node over DDS.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.estimator import Estimator

FRAME_ID = "map"
SPIN = 0.1  # rad/s of a team on its circle


@dataclass(frozen=True)
class Motion:
    """names[A]; pose[A][3] (m) at time 0, which moves at velocity[3] (m/s) or turns at spin (rad/s) about the vertical.
    lost: indices of those that are lost. body: joints of a body, else robots of a team."""

    names: list[str]
    pose: list[list[float]]
    velocity: list[float]
    spin: float
    lost: list[int]
    body: bool

    def at(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Positions f8[A, T, 3] (m) at times f8[T] (s)."""
        x, y, z = np.array(self.pose)[:, None].transpose(2, 0, 1)
        cosine, sine = np.cos(self.spin * times), np.sin(self.spin * times)
        turned = np.stack([x * cosine - y * sine, x * sine + y * cosine, z + 0 * times], -1)
        return turned + times[:, None] * np.array(self.velocity)

    def messages(
        self, new: Callable[..., Any], seconds: float, time_ns: int, lost: bool, groups: int = 1
    ) -> Iterator[tuple[str, str, Any]]:
        """Topic, type and message of all that is published of a moment (s), with this stamp: a topic for each robot of
        a team, one for all of so many bodies. new: makes messages."""
        stamp = new("builtin_interfaces/msg/Time", sec=time_ns // 10**9, nanosec=time_ns % 10**9)
        header = new("std_msgs/msg/Header", stamp=stamp, frame_id=FRAME_ID)
        positions = self.at(np.array([seconds]))[:, 0]
        gone = set(self.lost) if lost else set()
        if self.body:
            kind = "siha_ros/msg/SkeletonFrame"
            tracked = [index not in gone for index in range(len(self.names))]
            fields = {"joints": self.names, "positions": positions.ravel(), "tracked": tracked}
            for group in range(groups):
                yield "/skeleton", kind, new(kind, header=header, group=f"body_{group + 1}", **fields)
            return
        kind = "geometry_msgs/msg/PoseStamped"
        for index, name in enumerate(self.names):
            if index not in gone:
                message = new(kind, header=header)
                place = message.pose.position
                place.x, place.y, place.z = positions[index].tolist()
                message.pose.orientation.w = 1.0
                yield f"/{name}/pose", kind, message


def motion(estimator: Estimator, agents: int | None = None) -> Motion:
    """What a bundle may be shown; agents: of a team, those of the bundle by default."""
    from siha_ros.body_estimator import BodyEstimator

    config = estimator.bundle.config
    if isinstance(estimator, BodyEstimator):
        template = estimator.path.template
        speed = template.travel / ((config.window - 1) * config.dt)
        lost = max(estimator.limbs.values(), key=len).tolist()
        return Motion(list(estimator.names), template.pose.tolist(), [float(speed), 0.0, 0.0], 0.0, lost, True)
    count = agents or config.count
    angle = np.linspace(0, 2 * np.pi, count, endpoint=False)
    radius = max(1.0, count / config.count)  # neighbours as far apart, however many there are
    pose = radius * np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1)
    lost = list(range(count - config.max_hidden, count))
    return Motion([f"robot_{index + 1}" for index in range(count)], pose.tolist(), [0.0] * 3, SPIN, lost, False)


def save(moving: Motion, file: Path) -> None:
    """Write it for the process that publishes."""
    file.write_text(json.dumps(asdict(moving)))


def main() -> None:
    """Publish to the node; prints when it began, messages and missed ticks."""
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    from siha_ros.demo.publishing import RELIABLE, end, paced, stop_on_signals, wait_for_subscribers
    from siha_ros.node.inputs import message_type
    from siha_ros.node.messages import ros_message

    parser = argparse.ArgumentParser("python -m siha_ros.bench_stream")
    parser.add_argument("motion", type=Path)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--groups", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--lost-at", type=float, required=True)
    options = parser.parse_args()
    moving = Motion(**json.loads(options.motion.read_text()))
    stop = stop_on_signals()
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("bench_stream")
    publishers: dict[str, Any] = {
        topic: node.create_publisher(message_type(kind), topic, RELIABLE)
        for topic, kind, _ in moving.messages(ros_message, 0.0, 0, False)
    }
    wait_for_subscribers(node, list(publishers), ["siha"], stop)
    begin_ns, ticks, messages = time.time_ns(), 0, 0
    for elapsed in paced(options.rate, stop):
        if elapsed >= options.seconds:
            break
        ticks += 1
        lost = elapsed >= options.lost_at
        for topic, _, message in moving.messages(ros_message, elapsed, time.time_ns(), lost, options.groups):
            publishers[topic].publish(message)
            messages += 1
    missed = round(options.seconds * options.rate) - ticks
    print(json.dumps({"begin_ns": begin_ns, "messages": messages, "ticks_missed": missed}), flush=True)
    time.sleep(2.0)  # until the diagnostics have counted the last
    end()


if __name__ == "__main__":
    main()
