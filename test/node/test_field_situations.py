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
    assert team_node.reset().success
    wait_until(lambda: team_node.lines("asked for by ~/reset"), 2.0, "reset is said")
    team_node.forget()
    return team_node


def test_row_1_a_silent_agent_is_hidden_and_does_not_stop_the_others(node, play):
    robots = play(Team, ["a0", "a1", "a2", "a3"])
    all_seen(node, robots.names)
    node.forget()
    time.sleep(1.0)
    before = len(node.states)
    assert before >= 10  # of 20, on a machine that may be busy
    robots.silent, last = {"a3"}, robots.now
    wait_until(lambda: node.status("a3") == HIDDEN, 2.0, "a3 hidden")
    first = next(m for _, m in node.states if m.agents[[s.name for s in m.agents].index("a3")].status == HIDDEN)
    assert seconds(first.header.stamp) <= last + 0.3 + 0.1  # silence_timeout and two ticks
    begin = time.monotonic()
    time.sleep(1.0)
    heard = [m for at, m in node.states if begin < at <= begin + 1.0]
    assert len(heard) > 0.75 * before, f"{before} states in the second before the loss, {len(heard)} in one after it"
    for message in heard:
        by_name = {state.name: state for state in message.agents}
        assert all(by_name[name].status in SEEN for name in ("a0", "a1", "a2")) and by_name["a3"].status == HIDDEN
        assert by_name["a3"].time_since_seen == pytest.approx(seconds(message.header.stamp) - last, abs=0.05)
        assert by_name["a3"].reason
    moment = seconds(heard[-1].header.stamp)
    x, y, z = Team.position(1, moment)
    seen = {state.name: state for state in heard[-1].agents}["a1"].pose.position
    assert (seen.x, seen.y, seen.z) == pytest.approx((x, y, z), abs=2e-3)
    robots.silent = set()
    wait_until(lambda: node.status("a3") in SEEN, 2.0, "a3 back")


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
    robots.shift, since = -10.0, time.monotonic()
    wait_until(lambda: node.lines("window reset"), 1.0, "the reset is said")
    back = wait_until(
        lambda: [at for at, m in node.states if seconds(m.header.stamp) < robots.now - 5.0], 3.0, "output resumes"
    )
    assert back[0] - since < 1.0 + 0.1 + 0.5  # one window of 1 s, the grid's delay, ticks
    time.sleep(0.5)
    assert len(node.lines("window reset")) == 1 and "time went back by" in node.lines("window reset")[0]


def test_row_5_zero_stamps_are_counted_dropped_and_said_once(node, play):
    robots = play(Team, ["c0", "c1", "c2"])

    def zero(name, message):
        message.header.stamp = stamp(0.0)
        return message

    robots.edit = zero
    wait_until(lambda: int(node.diagnostic("node").get("dropped, stamp 0", 0)) > 100, 4.0, "drops in the diagnostics")
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
    time.sleep(0.6)
    assert not bad_frame
    assert {state.status for _, m in node.states for state in m.agents if state.name == "d3"} <= set(SEEN)
    zeros = True
    wait_until(lambda: node.status("d1") == HIDDEN, 2.0, "d1 hidden")
    time.sleep(0.4)
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
    assert any(m.ns == "spread" and m.action == Marker.ADD for m in outputs["markers"][-1][1].markers)
    zeros = False
    wait_until(lambda: node.status("d1") in SEEN, 2.0, "d1 back")
    spreads = [m.action for _, message in outputs["markers"] for m in message.markers if m.ns == "spread"]
    wait_until(
        lambda: (
            Marker.DELETE in spreads
            or spreads.extend(m.action for m in outputs["markers"][-1][1].markers if m.ns == "spread")
        ),
        1.0,
        "the spread of an agent that is back is deleted",
    )
    node.reset()
    wait_until(
        lambda: outputs["markers"][-1][1].markers[0].action == Marker.DELETEALL, 1.0, "markers deleted by a reset"
    )


def test_stream_that_stops_is_stale_and_hides_nobody(node, play):
    robots = play(Team, ["e0", "e1", "e2"])
    all_seen(node, robots.names)
    robots.pause = True
    wait_until(lambda: node.status("e0") == STALE, 2.5, "stale")
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
    wait_until(lambda: node.status("f3") in SEEN, 4.0, "f3 seen")
