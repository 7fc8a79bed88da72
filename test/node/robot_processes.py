"""Drivers that are processes of their own: they can be killed and started again, and outrun the node.

They are forked from one server that has ROS loaded already, so that a start takes no second of its own.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
from node_harness import START, Team, seconds, stamp

LEAD = 1.0  # s of a stream that may be under way to the node
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["rclpy", "geometry_msgs.msg", "siha_ros.msg"])


def stream_time() -> float:
    """Stamps (s) of all drivers, those started again included: the machine's steady clock, from START on."""
    return START + time.monotonic()


def drive(publish: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """A process that runs `publish(*arguments)`."""
    process = _CONTEXT.Process(target=publish, args=arguments, daemon=True)
    process.start()
    return process


def publish_poses(domain: int, indices: dict[str, int], rate: float) -> None:
    """Publish the poses of agents of a Team, by name, each on /<name>/pose, `rate` times a second, until killed."""
    import rclpy
    from geometry_msgs.msg import PoseStamped

    rclpy.init(domain_id=domain)
    node = rclpy.create_node(f"driver_of_{next(iter(indices))}")
    publishers = {name: node.create_publisher(PoseStamped, f"/{name}/pose", 10) for name in indices}
    message = PoseStamped()
    message.header.frame_id = "world"
    while True:
        moment = stream_time()
        message.header.stamp = stamp(moment)
        position = message.pose.position
        for name, index in indices.items():
            position.x, position.y, position.z = Team.position(index, moment)
            publishers[name].publish(message)
        time.sleep(1 / rate)


def publish_body(domain: int, joints: list[str]) -> None:
    """Publish a SkeletonFrame on /skeleton, joint i at (cos t, i / 10, 1), as fast as it goes, until killed."""
    import rclpy
    from siha_ros.msg import SkeletonFrame

    rclpy.init(domain_id=domain)
    publisher = rclpy.create_node("driver").create_publisher(SkeletonFrame, "/skeleton", 10)
    message = SkeletonFrame(group="ann", joints=joints, tracked=[True] * len(joints))
    message.header.frame_id = "world"
    while True:
        moment = stream_time()
        message.header.stamp = stamp(moment)
        x = math.cos(moment)
        message.positions = [value for index in range(len(joints)) for value in (x, index / 10, 1.0)]
        publisher.publish(message)


def publish_springs(domain: int, names: list[str], length: float, states: str) -> None:
    """Publish a springs team at 20 Hz on /<name>/pose for `length` s of its own time, as fast as a node can follow: no
    further than LEAD ahead of its newest ~/states. Of every 20 s one or two are silent for 10."""
    import rclpy
    from geometry_msgs.msg import PoseStamped
    from siha_ros.msg import ReconstructedStates

    from offline_training.systems.springs import SpringsStepper

    springs, random, lost = SpringsStepper(seed=5, agents=len(names)), np.random.default_rng(5), set[str]()
    rclpy.init(domain_id=domain)
    node = rclpy.create_node("team")
    publishers = {name: node.create_publisher(PoseStamped, f"/{name}/pose", 50) for name in names}
    newest, stalls = [], 0
    node.create_subscription(ReconstructedStates, states, lambda m: newest.append(seconds(m.header.stamp)), 10)
    message = PoseStamped()
    message.header.frame_id = "world"
    for frame in range(round(20 * length)):
        moment = START + frame / 20
        if not newest:
            rclpy.spin_once(node, timeout_sec=0.05)
        patience = time.monotonic() + 3.0  # a message that was lost must not let both wait for one another
        while newest and moment > newest[-1] + LEAD and time.monotonic() < patience:
            rclpy.spin_once(node, timeout_sec=0.1)
        stalls = stalls + 1 if time.monotonic() > patience else 0
        if stalls > 20:
            raise TimeoutError(f"no estimate for {3 * stalls} s, {moment - START:.1f} s into the stream")
        if frame % 400 == 100:
            lost = set(random.choice(names, random.integers(1, 3), replace=False))
        elif frame % 400 == 300:
            lost = set()
        springs.step(0.05)
        message.header.stamp = stamp(moment)
        for name, (x, y) in zip(names, springs.positions.tolist(), strict=True):
            message.pose.position.x, message.pose.position.y = x, y
            if name not in lost:
                publishers[name].publish(message)
    while newest[-1] < moment - 1.0:
        rclpy.spin_once(node, timeout_sec=0.1)


class Robots:
    """A driver for each of the names; `alive` are those that run."""

    def __init__(self, peer: Any, names: list[str], rate: float = 50.0) -> None:
        self._domain, self._rate = peer.domain, rate
        self.names, self._processes = names, dict[str, BaseProcess]()
        for name in names:
            self.start(name)

    @property
    def alive(self) -> set[str]:
        """Names of the robots whose driver runs."""
        return set(self._processes)

    def start(self, name: str) -> None:
        """Start a robot's driver."""
        self._processes[name] = drive(publish_poses, self._domain, {name: self.names.index(name)}, self._rate)

    def kill(self, name: str) -> None:
        """End a robot's driver with SIGKILL: it says nothing to anybody."""
        process = self._processes.pop(name)
        process.kill()
        process.join()

    def close(self) -> None:
        """Kill all that run."""
        for name in list(self._processes):
            self.kill(name)
