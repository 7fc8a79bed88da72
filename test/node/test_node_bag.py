"""A bag played to the node over DDS, in the bag's time: the node says what a replay of the bag says."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from make_bags import BEGIN, lines, write_bag  # noqa: E402
from node_harness import SEEN, seconds, wait_until  # noqa: E402

VELOCITIES = np.array([[1.0, 0.0], [0.0, -2.0], [0.5, 0.5]])


@pytest.mark.ros
@pytest.mark.parametrize("form", ["mcap", "ros1"])
def test_a_bag_is_played_to_the_node_from_its_first_message_on(start, peer, form, tmp_path):
    path = write_bag(tmp_path / "team", form, lines(4.0, VELOCITIES))
    node = start(input__topic="/{agent}/pose", use_sim_time=True)
    command = [sys.executable, "-m", "siha_ros.demo.bag_player", str(path), "--wait-for", "siha"]
    player = subprocess.Popen(command, env=os.environ | {"ROS_DOMAIN_ID": str(peer.domain)})
    try:
        assert player.wait(90.0) == 0
    finally:
        player.kill()
    wait_until(lambda: node.states, 30.0, f"states; log:\n{node.log}")
    first, last = node.states[0][1], node.states[-1][1]
    # The window of 1 s is full once its newest grid time, 0.1 s behind the newest stamp, is 0.9 s after the begin.
    assert 0.9 - 1e-3 <= seconds(first.header.stamp) - BEGIN < 2.0
    assert seconds(last.header.stamp) - BEGIN <= 3.88 + 1e-3
    seen = [message for _, message in node.states if all(agent.status in SEEN for agent in message.agents)]
    assert len(seen) > 5
    for message in seen:
        since = seconds(message.header.stamp) - BEGIN
        for index, agent in enumerate(message.agents):
            expected = VELOCITIES[index] * since + [0.0, index]
            assert (agent.pose.position.x, agent.pose.position.y) == pytest.approx(expected, abs=1e-3)
