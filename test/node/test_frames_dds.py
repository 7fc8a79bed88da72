"""Poses in another frame than the node's, moved by the TF that is heard beside them, where tf2_ros is installed."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
pytest.importorskip("tf2_ros", reason="needs tf2_ros")

from geometry_msgs.msg import TransformStamped
from node_harness import Player, Team, all_seen, seconds, stamp, wait_until
from siha_ros.msg import AgentState
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.ros


class Frames(Player):
    """The frame "world" of a Team, turned by 90 degrees about z and driven along x at 0.5 m/s, in "map" on /tf."""

    def __init__(self, peer, rate=50.0):
        self.publisher = peer.node.create_publisher(TFMessage, "/tf", 10)
        super().__init__(peer, rate)

    @staticmethod
    def origin(moment):
        return 0.5 * (moment - 1000.0)

    def publish(self, moment):
        frame = TransformStamped(child_frame_id="world")
        frame.header.stamp, frame.header.frame_id = stamp(moment), "map"
        frame.transform.translation.x = self.origin(moment)
        frame.transform.rotation.z = frame.transform.rotation.w = math.sqrt(0.5)
        self.publisher.publish(TFMessage(transforms=[frame]))

    def close(self):
        super().close()
        self.peer.run(lambda: self.peer.node.destroy_publisher(self.publisher))


def test_poses_of_another_frame_are_moved_by_tf_and_dropped_without_it(start, play):
    robots = play(Team, ["f0", "f1"])
    frames = play(Frames)
    node = start(frame_id="map")
    all_seen(node, robots.names)
    message = node.states[-1][1]
    moment = seconds(message.header.stamp)
    for index, agent in enumerate(sorted(message.agents, key=lambda agent: agent.name)):
        x, y, z = Team.position(index, moment)
        p = agent.pose.position
        assert (p.x, p.y, p.z) == pytest.approx((Frames.origin(moment) - y, x, z), abs=0.05)
    assert message.header.frame_id == "map"
    frames.pause = True
    wait_until(lambda: node.status("f0") in (AgentState.HIDDEN, AgentState.STALE), 30.0, "no TF, no positions")
    wait_until(lambda: node.lines("message dropped: its frame is 'world', expected 'map'"), 30.0, "why")
