"""Robots whose drivers are processes of their own, which can be killed and started again.

They are forked from one server that has ROS loaded already, so that a start takes no second of its own.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.process import BaseProcess
from typing import Any

from node_harness import START, Team, stamp


def stream_time() -> float:
    """Stamps (s) of all robots, those started again included: the machine's steady clock, from START on."""
    return START + time.monotonic()


def publish(name: str, index: int, domain: int, rate: float) -> None:
    """Publish the pose of agent `index` of a Team on /<name>/pose, until killed."""
    import rclpy
    from geometry_msgs.msg import PoseStamped

    rclpy.init(domain_id=domain)
    publisher = rclpy.create_node(f"driver_of_{name}").create_publisher(PoseStamped, f"/{name}/pose", 10)
    message = PoseStamped()
    message.header.frame_id = "world"
    while True:
        moment = stream_time()
        message.header.stamp = stamp(moment)
        position = message.pose.position
        position.x, position.y, position.z = Team.position(index, moment)
        publisher.publish(message)
        time.sleep(1 / rate)


class Robots:
    """A driver for each of the names; `alive` are those that run."""

    def __init__(self, peer: Any, names: list[str], rate: float = 50.0) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["rclpy", "geometry_msgs.msg"])
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
        process = self._context.Process(
            target=publish, args=(name, self.names.index(name), self._domain, self._rate), daemon=True
        )
        process.start()
        self._processes[name] = process

    def kill(self, name: str) -> None:
        """End a robot's driver with SIGKILL: it says nothing to anybody."""
        process = self._processes.pop(name)
        process.kill()
        process.join()

    def close(self) -> None:
        """Kill all that run."""
        for name in list(self._processes):
            self.kill(name)
