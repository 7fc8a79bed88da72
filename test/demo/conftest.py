"""A listener in a ROS domain of its own, for the processes of the demo."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from domains import own_domain

ROOT = Path(__file__).parents[2]


class Ear:
    """A node that keeps (stamp, message) by topic while a process runs."""

    def __init__(self, topics):
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        from siha_ros.demo.publishing import RELIABLE, seconds

        self.domain = own_domain()
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=self.domain)
        self.node = rclpy.create_node("demo_ear", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.heard = {topic: [] for topic in topics}
        for topic, kind in topics.items():
            self.node.create_subscription(
                kind, topic, lambda m, t=topic: self.heard[t].append((seconds(m.header.stamp), m)), RELIABLE
            )

    def answer_resets(self):
        """Serve /siha/reset; the list, growing, of the times (s) at which it was called."""
        from std_srvs.srv import Trigger

        calls = []

        def answer(request, response):
            calls.append(time.time())
            response.success = True
            return response

        self.node.create_service(Trigger, "/siha/reset", answer)
        return calls

    def run(self, module, *arguments, limit=120.0):
        """Listen while a process runs; its exit code."""
        environment = os.environ | {"ROS_DOMAIN_ID": str(self.domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], env=environment, cwd=ROOT)
        deadline = time.monotonic() + limit
        while process.poll() is None and time.monotonic() < deadline:
            self.executor.spin_once(timeout_sec=0.05)
        process.kill()
        for _ in range(50):
            self.executor.spin_once(timeout_sec=0.01)
        return process.wait()

    def close(self):
        """End the node."""
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
def ear():
    """Makes listeners: `ear({topic: type})`."""
    ears = []

    def make(topics):
        ears.append(Ear(topics))
        return ears[-1]

    yield make
    for one in ears:
        one.close()
