"""Drivers that die and come back at random: who runs is seen, who does not is hidden, and the node stays as it was.

Short in the suite, two minutes in `make soak`. The middleware remembers a killed driver until its lease ends, so that
memory is compared from half of the time on.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from node_harness import SEEN, all_seen, finite, wait_until
from robot_processes import Robots

pytestmark = pytest.mark.ros


@pytest.mark.parametrize("length", [8.0, pytest.param(120.0, marks=pytest.mark.soak)])
def test_drivers_killed_and_started_again_at_random(start, play, length):
    random = np.random.default_rng(int(length))
    robots = play(Robots, ["a0", "a1", "a2", "a3"])
    node = start()
    all_seen(node, robots.names)
    before, begin = node.usage(), time.monotonic()
    while (passed := time.monotonic() - begin) < length:
        if passed < length / 2:
            before = node.usage()
        for name in random.choice(robots.names, random.integers(1, 4), replace=False):
            if name in robots.alive:
                robots.kill(name)
            else:
                robots.start(name)
            time.sleep(random.exponential(0.2))
        if robots.alive:
            node.forget()
            wait_until(
                lambda: seen(node) == robots.alive, 30.0, f"{robots.alive} seen, not {seen(node)}; log:\n{node.log}"
            )
            assert all(finite(message) for _, message in node.states)
    for name in set(robots.names) - robots.alive:
        robots.start(name)
    wait_until(lambda: seen(node) == set(robots.names), 30.0, f"all seen, not {seen(node)}; log:\n{node.log}")
    after = node.usage()
    print(f"memory: {before.memory:.1f} MiB in the middle, {after.memory:.1f} MiB at the end")
    assert after.threads <= before.threads and after.memory < 1.1 * before.memory
    assert "Traceback" not in node.log and not node.lines("[ERROR]")


def seen(node) -> set[str]:
    """Names of the agents that are seen now."""
    return {name for name, state in node.latest().items() if state.status in SEEN}
