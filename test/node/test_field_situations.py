"""Situations from the field, one a test, with a node in a process of its own and DDS between: rows 1, 3, 5, 8 to 10.

The other rows of the node are in test_node_processes.py.
"""

from __future__ import annotations

import math
import time

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from node_harness import SEEN, Team, all_seen, finite, seconds, stamp, wait_until
from siha_ros.msg import AgentState, Forecast, HiddenTrajectories, InteractionGraph
from visualization_msgs.msg import Marker, MarkerArray

pytestmark = pytest.mark.ros

VISIBLE, HIDDEN, STALE = AgentState.VISIBLE, AgentState.HIDDEN, AgentState.STALE


@pytest.fixture(scope="module")
def team_node(peer, tmp_path_factory):
    """One node for all tests that want a default one."""
    from node_harness import NodeProcess

    node = NodeProcess(tmp_path_factory.mktemp("node"), peer)
    yield node
    node.close()


@pytest.fixture
def node(team_node):
    """The shared node with an empty window, and nothing said yet."""
    groups = int(wait_until(lambda: team_node.diagnostic("node"), 30.0, "diagnostics")["groups"])
    assert team_node.reset().success
    wait_until(lambda: not groups or team_node.lines("asked for by ~/reset"), 30.0, "reset is said")
    team_node.forget()
    return team_node


def moment(message) -> float:
    """The stream time of a message (s)."""
    return seconds(message.header.stamp)


def test_row_1_a_silent_agent_is_hidden_and_does_not_stop_the_others(node, play):
    robots = play(Team, ["a0", "a1", "a2", "a3"])
    all_seen(node, robots.names)
    robots.silent, last = {"a3"}, robots.now
    wait_until(lambda: node.status("a3") == HIDDEN, 30.0, "a3 hidden")
    begin = moment(node.states[-1][1])
    seen = [moment(m) for _, m in node.states if any(s.name == "a3" and s.status in SEEN for s in m.agents)]
    assert max(seen) <= last + 0.3 + 0.02  # silence_timeout, and a tick between the two lines
    wait_until(lambda: moment(node.states[-1][1]) > begin + 1.0, 30.0, "a second of states")
    heard = [m for _, m in node.states if moment(m) >= begin]
    assert len(heard) > 5
    for message in heard:
        by_name = {state.name: state for state in message.agents}
        assert all(by_name[name].status in SEEN for name in ("a0", "a1", "a2")) and by_name["a3"].status == HIDDEN
        assert -0.03 < by_name["a3"].time_since_seen - (moment(message) - last) < 0.3  # the last ones may be lost
        assert by_name["a3"].reason
        if by_name["a1"].status == VISIBLE:
            seen = by_name["a1"].pose.position  # interpolated, over max_gap at the most
            assert (seen.x, seen.y, seen.z) == pytest.approx(Team.position(1, moment(message)), abs=0.3**2 / 8)
    assert any(state.name == "a1" and state.status == VISIBLE for message in heard for state in message.agents)
    robots.silent = set()
    wait_until(lambda: node.status("a3") in SEEN, 30.0, "a3 back")


def test_row_3_stamps_far_back_reset_and_a_millisecond_back_does_not(node, play):
    robots = play(Team, ["b0", "b1", "b2"])

    def jitter(name, message):
        early = round(seconds(message.header.stamp) * 50) % 2
        message.header.stamp = stamp(
            seconds(message.header.stamp) - (0.021 if early else 0.0)
        )  # 1 ms before the one before it
        return message

    robots.edit = jitter
    all_seen(node, robots.names)
    time.sleep(0.5)
    assert not node.lines("window reset") and all(state.status in SEEN for state in node.latest().values())
    robots.edit = lambda name, message: message
    node.forget()
    robots.shift, since = -10.0, robots.now - 10.0
    wait_until(lambda: node.lines("window reset"), 30.0, "the reset is said")
    back = wait_until(
        lambda: [moment(m) for _, m in node.states if moment(m) < robots.now - 5.0], 30.0, "output resumes"
    )
    assert back[0] >= since + 0.9 - 0.02  # from a whole window, 0.9 s between its first grid time and its last
    wait_until(lambda: moment(node.states[-1][1]) > back[0] + 0.5, 30.0, "output goes on")
    assert len(node.lines("window reset")) == 1 and "time went back by" in node.lines("window reset")[0]


def test_row_5_zero_stamps_are_counted_dropped_and_said_once(node, play):
    robots = play(Team, ["c0", "c1", "c2"])

    def zero(name, message):
        message.header.stamp = stamp(0.0)
        return message

    robots.edit = zero
    wait_until(lambda: int(node.diagnostic("node").get("dropped, stamp 0", 0)) > 100, 30.0, "drops in the diagnostics")
    assert len(node.lines("its stamp is 0")) == 1
    assert not node.states


def test_row_8_9_10_zeros_nan_orientation_and_a_nan_position(node, play):
    robots = play(Team, ["d0", "d1", "d2", "d3"])
    outputs = {
        topic: node.listen(topic, kind)
        for topic, kind in {
            "trajectories": HiddenTrajectories,
            "graph": InteractionGraph,
            "forecast": Forecast,
            "markers": MarkerArray,
        }.items()
    }
    bad_frame = []

    def edit(name, message):
        pose = message.pose
        if name == "d1" and zeros:
            pose.position.x = pose.position.y = pose.position.z = pose.orientation.w = 0.0
        if name == "d2":
            pose.orientation.x = pose.orientation.w = math.nan
        if name == "d3" and bad_frame and bad_frame.pop():
            pose.position.x = math.nan
        return message

    def drawn(action, ns):
        return any((m.action, m.ns) == (action, ns) for _, array in outputs["markers"] for m in array.markers)

    zeros = False
    robots.edit = edit
    all_seen(node, robots.names)
    assert (
        node.status("d2") == VISIBLE
        and not node.latest()["d2"].orientation_valid
        and node.latest()["d0"].orientation_valid
    )
    bad_frame.append(True)
    node.forget()
    wait_until(lambda: not bad_frame, 30.0, "the bad frame is sent")
    goal = robots.now + 0.3
    wait_until(lambda: node.states and moment(node.states[-1][1]) > goal, 30.0, "states after the bad frame")
    assert {state.status for _, m in node.states for state in m.agents if state.name == "d3"} <= set(SEEN)
    zeros = True
    wait_until(lambda: node.status("d1") == HIDDEN, 30.0, "d1 hidden")
    wait_until(lambda: drawn(Marker.ADD, "spread"), 30.0, "the spread of a hidden agent is drawn")
    goal = robots.now + 0.4
    wait_until(lambda: moment(node.states[-1][1]) > goal, 30.0, "states with d1 hidden")
    positions = [state.pose.position for _, m in node.states for state in m.agents if state.name == "d1"]
    assert min(p.x for p in positions) > 1.9 and all(
        p.z == 1.0 for p in positions
    )  # d1 walks between x = 2 and 4 at z = 1
    assert all(finite(message) for heard in (node.states, *outputs.values()) for _, message in heard)
    assert all(heard for heard in outputs.values())
    for _, message in outputs["markers"]:
        for marker in message.markers:
            q = marker.pose.orientation
            assert q.x**2 + q.y**2 + q.z**2 + q.w**2 == pytest.approx(1.0, abs=1e-6)
    zeros = False
    wait_until(lambda: node.status("d1") in SEEN, 30.0, "d1 back")
    wait_until(lambda: drawn(Marker.DELETE, "spread"), 30.0, "the spread of an agent that is back is deleted")
    outputs["markers"].clear()
    node.reset()
    wait_until(lambda: drawn(Marker.DELETEALL, ""), 30.0, "markers deleted by a reset")


def test_stream_that_stops_is_stale_and_hides_nobody(node, play):
    robots = play(Team, ["e0", "e1", "e2"])
    all_seen(node, robots.names)
    robots.pause = True
    wait_until(lambda: node.status("e0") == STALE, 30.0, "stale")
    node.forget()
    time.sleep(0.5)
    assert not node.states  # said once, not repeated
    robots.pause = False
    all_seen(node, robots.names)
    assert not node.lines("window reset")


def test_late_joiner_is_found(node, play):
    robots = play(Team, ["f0", "f1", "f2"])
    all_seen(node, robots.names)
    late = play(Team, ["f3"])
    late.now = robots.now
    wait_until(lambda: node.status("f3") in SEEN, 30.0, "f3 seen")
