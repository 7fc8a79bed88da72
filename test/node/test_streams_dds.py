"""Streams of many kinds over DDS: groups by topic and by message, markers, twists beside poses."""

from __future__ import annotations

import math
import time

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from geometry_msgs.msg import TwistStamped
from node_harness import SEEN, Player, Team, stamp, wait_until
from siha_ros.msg import AgentState, SkeletonFrame
from visualization_msgs.msg import Marker, MarkerArray

pytestmark = pytest.mark.ros


def agents(node, group):
    """AgentState by name of a group's newest ~/states."""
    newest = next((m for _, m in reversed(node.states) if m.group == group), None)
    return {} if newest is None else {state.name: state for state in newest.agents}


def group_seen(node, group, names):
    """Wait until the agents of a group, and no others, are seen."""
    wait_until(
        lambda: {name for name, state in agents(node, group).items() if state.status in SEEN} == set(names),
        15.0,
        f"{group}; log:\n{node.log}",
    )


def test_two_teams_by_topic_are_two_groups(start, play):
    node = start(input__topic="/{group}/{agent}/pose")
    names = {"red": ["r1", "r2"], "blue": ["r1", "r3"]}
    teams = {team: play(Team, [f"{team}/{agent}" for agent in robots]) for team, robots in names.items()}
    for team in names:
        group_seen(node, team, names[team])
    teams["red"].silent = {"red/r1"}
    wait_until(lambda: agents(node, "red")["r1"].status == AgentState.HIDDEN, 30.0, "red/r1 hidden")
    assert agents(node, "blue")["r1"].status in SEEN and agents(node, "red")["r2"].status in SEEN
    topics = {name for name, _ in node.peer.node.get_topic_names_and_types()}
    assert {f"{node.namespace}/siha/recovered/{team}/r1/pose" for team in names} <= topics


class Bodies(Player):
    """SkeletonFrames of several bodies on one topic, `groups`, in which joint j0 of those in `lost` is not tracked."""

    def __init__(self, peer, groups, rate=60.0):
        self.groups, self.lost = list(groups), set()
        self.publisher = peer.node.create_publisher(SkeletonFrame, "/skeleton", 10)
        super().__init__(peer, rate)

    def publish(self, moment):
        for number, group in enumerate(list(self.groups)):
            tracked = [joint > 0 or group not in self.lost for joint in range(31)]
            frame = SkeletonFrame(group=group, joints=[f"j{joint}" for joint in range(31)], tracked=tracked)
            frame.header.stamp, frame.header.frame_id = stamp(moment), "world"
            frame.positions = [x for joint in range(31) for x in (math.cos(moment) + number, joint / 10, 1.0)]
            self.publisher.publish(frame)

    def close(self):
        super().close()
        self.peer.run(lambda: self.peer.node.destroy_publisher(self.publisher))


def test_bodies_come_and_go(start, play):
    node = start("body", groups__max=2, groups__forget_after=1.5)
    bodies, joints = play(Bodies, ["ann", "bob"]), [f"j{joint}" for joint in range(31)]
    group_seen(node, "ann", joints)
    group_seen(node, "bob", joints)
    bodies.lost = {"bob"}
    wait_until(lambda: agents(node, "bob")["j0"].status == AgentState.HIDDEN, 30.0, "bob's j0 hidden")
    assert agents(node, "ann")["j0"].status in SEEN
    bodies.groups = ["ann", "cat"]
    group_seen(node, "cat", joints)
    assert node.lines("group bob is forgotten: silent for 1.5 s")
    assert len(node.lines("group 'cat' is one more than groups.max, 2")) == 1


class Markers(Player):
    """Joints as markers in one message: r0, r1 and r2 as /{ns}/{id}; those in `lost` are left out."""

    def __init__(self, peer, rate=50.0):
        self.lost = set()
        self.publisher = peer.node.create_publisher(MarkerArray, "/drawn", 10)
        super().__init__(peer, rate)

    def publish(self, moment):
        array = MarkerArray()
        for number in range(3):
            marker = Marker(ns="r", id=number, type=Marker.SPHERE)
            marker.header.stamp, marker.header.frame_id = stamp(moment), "world"
            marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = Team.position(number, moment)
            if number not in self.lost:
                array.markers.append(marker)
        self.publisher.publish(array)

    def close(self):
        super().close()
        self.peer.run(lambda: self.peer.node.destroy_publisher(self.publisher))


def test_markers_are_found_by_their_type_and_a_missing_one_is_hidden(start, play):
    markers = play(Markers)
    node = start(input__topic="/drawn")
    group_seen(node, "team", ["r/0", "r/1", "r/2"])
    assert node.lines("input type: visualization_msgs/msg/MarkerArray")
    markers.lost = {1}
    wait_until(lambda: node.status("r/1") == AgentState.HIDDEN, 30.0, "r/1 hidden")
    assert "missing from the message" in node.latest()["r/1"].reason


def test_twists_beside_poses_are_the_velocities(start, play, peer):
    robots = play(Team, ["t0", "t1"])
    publishers = {
        name: peer.run(lambda name=name: peer.node.create_publisher(TwistStamped, f"/{name}/twist", 10))
        for name in robots.names
    }

    def twist(name, message):
        measured = TwistStamped(header=message.header)
        measured.twist.linear.x = 7.0  # not what the poses say, so that it is known where it comes from
        if sending:
            publishers[name].publish(measured)
        return message

    sending = True
    robots.edit = twist
    node = start(input__twists="/{agent}/twist")
    group_seen(node, "team", robots.names)
    wait_until(lambda: node.latest()["t0"].velocity.x == pytest.approx(7.0), 30.0, "the twist's velocity")
    sending = False
    time.sleep(0.6)
    assert all(state.status in SEEN for state in node.latest().values())  # a twist that falls silent hides nobody
    peer.run(lambda: [peer.node.destroy_publisher(publisher) for publisher in publishers.values()])
