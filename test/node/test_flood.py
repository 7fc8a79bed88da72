"""Publishers that are far faster than the node: estimates keep coming, of the newest data, and nothing piles up.

Short in the suite, a minute of each in `make soak`.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from node_harness import SEEN, Team, all_seen, finite, seconds, wait_until
from robot_processes import Robots, drive, publish_body, publish_poses, stream_time
from siha_ros.msg import AgentState

pytestmark = pytest.mark.ros

JOINTS = [f"j{index}" for index in range(31)]
LENGTHS = [4.0, pytest.param(60.0, marks=pytest.mark.soak)]
OLDEST = 5.0  # s, on a busy machine; a queue without an end would grow with the flood


@pytest.mark.parametrize("length", LENGTHS)
def test_a_team_at_ten_times_the_rate_is_seen_as_it_is(start, play, length):
    robots = play(Robots, ["a0", "a1", "a2", "a3"], rate=500.0)
    node = start()
    all_seen(node, robots.names)
    for message in flooded(node, length):
        where_they_are(message, robots.names)


@pytest.mark.parametrize("length", LENGTHS)
def test_fifty_robots_on_fifty_topics_are_seen_as_they_are(start, peer, length):
    names = [f"a{index}" for index in range(50)]
    driver = drive(publish_poses, peer.domain, {name: index for index, name in enumerate(names)}, 50.0)
    try:
        node = start()
        all_seen(node, names)
        for message in flooded(node, length):
            where_they_are(message, names)
    finally:
        driver.kill()


@pytest.mark.parametrize("length", LENGTHS)
def test_a_body_as_fast_as_its_driver_can_does_not_keep_the_node_from_estimating(start, peer, length):
    driver = drive(publish_body, peer.domain, JOINTS)
    try:
        node = start("body")
        all_seen(node, JOINTS)
        for message in flooded(node, length):
            assert [agent.name for agent in message.agents] == JOINTS
    finally:
        driver.kill()
    wait_until(lambda: node.status("j0") == AgentState.STALE, 30.0, "the flood is over")
    assert node.state() == "active"


def where_they_are(message, names: list[str]) -> None:
    """Each agent that is seen is where it is in a Team of these names."""
    for agent in message.agents:
        if agent.status == AgentState.VISIBLE:
            p = agent.pose.position
            expected = Team.position(names.index(agent.name), seconds(message.header.stamp))
            assert (p.x, p.y, p.z) == pytest.approx(expected, abs=0.3**2 / 8)  # at worst max_gap was lost


def flooded(node, length: float) -> list:
    """What the node has said of a flood in `length` seconds, none of it old; its memory stays as it was."""
    time.sleep(0.25 * length)  # queues and buffers have the size that they will have
    before = node.usage()
    node.forget()
    wait_until(lambda: len(node.states) > 2 * length, 10 * length, f"two estimates a second; log:\n{node.log}")
    heard, ages = [], []
    deadline, taken = time.monotonic() + length, 0
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if len(node.states) > taken:
            taken = len(node.states)
            heard.append(node.states[-1][1])
            ages.append(stream_time() - seconds(heard[-1].header.stamp))
    after = node.usage()
    assert np.median(ages) < OLDEST and max(ages[-10:]) < 2 * OLDEST
    assert all(finite(message) for message in heard)
    seen = [agent.status in SEEN for message in heard for agent in message.agents]
    assert np.mean(seen) > 0.9
    assert after.memory < 1.05 * before.memory + 5.0 and after.threads == before.threads
    assert "Traceback" not in node.log
    return heard
