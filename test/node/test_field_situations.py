"""Situations from the field, one test a row, with the node in its own process and DDS between: see shared numbers in each name.

Rows that only concern the window (2, 6, 7) or the bundle's files (19) are tested there.
"""

from __future__ import annotations

import math
import signal
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from geometry_msgs.msg import PoseArray, PoseStamped, PoseWithCovarianceStamped
from harness import Body, Player, Team, seconds, stamp, wait_until
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile, ReliabilityPolicy
from visualization_msgs.msg import Marker, MarkerArray

from siha_ros.msg import AgentState, Forecast, HiddenTrajectories, InteractionGraph, SkeletonFrame

pytestmark = pytest.mark.ros

JOINTS = [f"j{index}" for index in range(31)]
VISIBLE, BRIDGED, HIDDEN, STALE = AgentState.VISIBLE, AgentState.BRIDGED, AgentState.HIDDEN, AgentState.STALE
SEEN = (VISIBLE, BRIDGED)


@pytest.fixture(scope="module")
def team_node(peer, tmp_path_factory):
    """One node for all tests that want a default one."""
    from harness import NodeProcess

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


def all_seen(node, names):
    """Wait until every agent is seen, and no other is there."""
    wait_until(lambda: set(node.latest()) == set(names), 4.0, f"{names} in ~/states; log:\n{node.log}")
    wait_until(lambda: all(state.status in SEEN for state in node.latest().values()), 3.0, "all seen")


def finite(message) -> bool:
    """Whether every number of a message, at any depth, is finite."""
    if isinstance(message, float):
        return math.isfinite(message)
    if hasattr(message, "get_fields_and_field_types"):
        return all(finite(getattr(message, field)) for field in message.get_fields_and_field_types())
    if isinstance(message, (list, tuple)) or type(message).__module__ in ("array", "numpy"):
        return all(finite(item) for item in message) if not hasattr(message, "dtype") else bool(np.isfinite(message).all())
    return True


def test_row_1_a_silent_agent_is_hidden_and_does_not_stop_the_others(node, play):
    robots = play(Team, ["a0", "a1", "a2", "a3"])
    all_seen(node, robots.names)
    node.forget()
    robots.silent, last = {"a3"}, robots.now
    wait_until(lambda: node.status("a3") == HIDDEN, 2.0, "a3 hidden")
    first = next(m for _, m in node.states if m.agents[[s.name for s in m.agents].index("a3")].status == HIDDEN)
    assert seconds(first.header.stamp) <= last + 0.3 + 0.1  # silence_timeout and two ticks
    begin, count = time.monotonic(), len(node.states)
    time.sleep(1.0)
    heard = [m for at, m in node.states if begin < at <= begin + 1.0]
    assert 17 <= len(heard) <= 23, f"{len(heard)} states in a second at 20 Hz, {count} before"
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
        message.header.stamp = stamp(seconds(message.header.stamp) - (0.021 if early else 0.0))  # 1 ms before the one before it
        return message

    robots.edit = jitter
    all_seen(node, robots.names)
    time.sleep(0.5)
    assert not node.lines("window reset") and all(state.status in SEEN for state in node.latest().values())
    robots.edit = lambda name, message: message
    node.forget()
    robots.shift, since = -10.0, time.monotonic()
    wait_until(lambda: node.lines("window reset"), 1.0, "the reset is said")
    back = wait_until(lambda: [at for at, m in node.states if seconds(m.header.stamp) < robots.now - 5.0], 3.0, "output resumes")
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


def test_row_5_stamps_on_arrival_by_parameter(start, play):
    robots = play(Team, ["c0", "c1", "c2"])
    robots.edit = lambda name, message: setattr(message.header, "stamp", stamp(0.0)) or message
    node = start(stamp_source="arrival")
    all_seen(node, robots.names)
    assert seconds(node.states[-1][1].header.stamp) == pytest.approx(time.time(), abs=1.0)


def test_row_8_9_10_zeros_nan_orientation_and_a_nan_position(node, play):
    robots = play(Team, ["d0", "d1", "d2", "d3"])
    outputs = {
        topic: node.listen(topic, kind)
        for topic, kind in {"trajectories": HiddenTrajectories, "graph": InteractionGraph, "forecast": Forecast, "markers": MarkerArray}.items()
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
    assert node.status("d2") == VISIBLE and not node.latest()["d2"].orientation_valid and node.latest()["d0"].orientation_valid
    bad_frame.append(True)
    node.forget()
    time.sleep(0.6)
    assert not bad_frame
    assert {state.status for _, m in node.states for state in m.agents if state.name == "d3"} <= set(SEEN)
    zeros = True
    wait_until(lambda: node.status("d1") == HIDDEN, 2.0, "d1 hidden")
    time.sleep(0.4)
    positions = [state.pose.position for _, m in node.states for state in m.agents if state.name == "d1"]
    assert min(p.x for p in positions) > 1.9 and all(p.z == 1.0 for p in positions)  # d1 walks between x = 2 and 4 at z = 1
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
    wait_until(lambda: Marker.DELETE in spreads or spreads.extend(
        m.action for m in outputs["markers"][-1][1].markers if m.ns == "spread"), 1.0, "the spread of an agent that is back is deleted")
    node.reset()
    wait_until(lambda: outputs["markers"][-1][1].markers[0].action == Marker.DELETEALL, 1.0, "markers deleted by a reset")


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


def test_row_12_unknown_missing_and_doubled_joints(start, play):
    body = play(Body, [*JOINTS[:30], "thumb", "j0"])
    node = start("body")
    wait_until(lambda: node.states, 5.0, f"states; log:\n{node.log}")
    time.sleep(0.5)
    states = node.latest()
    assert list(states) == JOINTS
    assert states["j30"].status == AgentState.UNKNOWN and states["j0"].status in SEEN
    assert states["j0"].pose.position.y == pytest.approx(0.0, abs=1e-6)  # the first of the two, at 0 m; the second stands at 3.1 m
    assert len(node.lines("thumb")) <= 2 and node.lines("j30") and node.state() == "active"
    assert len(node.lines("name twice")) == 1
    body.close()


def test_row_15_best_effort_and_reliable_publishers_are_heard_and_an_incompatible_one_is_named(start, play):
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    robots = play(Team, ["g0", "g1", "g2"], qos={"g0": best_effort, "g1": QoSProfile(depth=10)})
    node = start(qos_overrides={"/g0/pose": {"subscription": {"reliability": "best_effort"}}})
    all_seen(node, robots.names)
    strict = start(qos_overrides={"/g0/pose": {"subscription": {"reliability": "reliable"}}}, wait=False)
    wait_until(lambda: strict.lines("/g0/pose"), 5.0, "the incompatible topic is named")
    assert "RELIABILITY" in strict.lines("/g0/pose")[0]


def test_row_16_parameters(start):
    node = start(rate=500.0, autostart=False)
    assert node.change("configure") is False
    (line,) = node.lines("parameter rate")
    assert "parameter rate is 500.0: expected a number from 0.1 to 200" in line
    assert node.set("rate", 50).successful  # a whole number for a float
    refused = node.set("rate", 0.0)
    assert not refused.successful and "rate" in refused.reason and "0.1" in refused.reason
    assert not node.set("autostart", True).successful  # read-only
    assert node.change("configure") is True
    late = node.set("bundle", "body")
    assert not late.successful and "takes effect at configure" in late.reason
    wrong = start(autostart="true", wait=False)
    wait_until(lambda: wrong.lines("parameter autostart is 'true': expected true or false"), 5.0, "the wrong type is said")
    assert wrong.state() == "unconfigured" and "Traceback" not in wrong.log + node.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_row_20_signals_while_busy(start, play, number):
    play(Team, ["h0", "h1", "h2"])
    node = start("slow_team")
    wait_until(lambda: node.states, 5.0, "estimates under way")
    code, taken = node.stop(number)
    assert code == 0 and taken < 2.0 and "Traceback" not in node.log, node.log


def test_row_20_signal_while_loading(start):
    node = start("slow_loading_team", wait=False)
    wait_until(lambda: node.lines("loading"), 5.0, "configure under way")
    code, taken = node.stop(signal.SIGTERM)
    assert code == 0 and taken < 2.0 and "Traceback" not in node.log, node.log


def test_row_21_deactivated_node_hears_and_says_nothing_and_starts_clean(start, play, peer):
    robots = play(Team, ["i0", "i1", "i2"])
    node = start()
    all_seen(node, robots.names)
    assert node.change("deactivate")
    time.sleep(0.2)
    node.forget()
    assert peer.node.count_subscribers("/i0/pose") == 0
    time.sleep(0.5)
    assert not node.states and node.diagnostic("node")["state"] == "inactive"
    assert not node.reset().success
    since = robots.now
    assert node.change("activate")
    wait_until(lambda: node.states, 4.0, "output after activation")
    assert seconds(node.states[0][1].header.stamp) >= since + 0.9  # a whole window of 1 s that was heard after activation
    all_seen(node, robots.names)
    assert node.change("deactivate") and node.change("cleanup") and node.change("configure") and node.change("activate")
    all_seen(node, robots.names)


def test_row_22_body_at_120_hz_with_a_slow_model_keeps_up(start, play):
    body = play(Body, JOINTS)
    node = start("slow_body")
    heard = node.listen("skeleton", SkeletonFrame)
    wait_until(lambda: len(heard) > 2, 6.0, "skeletons")
    body.lost = {"j7"}
    wait_until(lambda: not heard[-1][1].tracked[7], 3.0, "j7 not tracked")
    ages = []
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        count = len(heard)
        wait_until(lambda: len(heard) > count, 2.0, "next skeleton")
        ages.append(body.now - seconds(heard[-1][1].header.stamp))
    assert max(ages) < 0.3 + 0.3 + 0.1, ages  # an estimate takes 0.3 s, and begins with the newest window
    values = node.diagnostic("node")
    assert int(values["messages received"]) > 0.9 * (body.sent - 120)
    assert "dropped, inbox full" not in values
    skeleton = heard[-1][1]
    assert skeleton.group == "ann" and skeleton.joints == JOINTS and finite(skeleton)
    assert [joint for joint, seen in zip(JOINTS, skeleton.tracked, strict=True) if not seen] == ["j7"]


def test_exception_in_the_model_is_one_line_and_the_node_goes_on(start, play):
    robots = play(Team, ["k0", "k1", "k2"])
    node = start("broken_team")
    all_seen(node, robots.names)
    wait_until(lambda: "broken on purpose" in node.diagnostic("node").get("message", ""), 3.0, "the error in the diagnostics")
    count = len(node.states)
    time.sleep(1.0)
    assert 8 <= len(node.states) - count <= 18  # two of three at 20 Hz
    assert len(node.lines("broken on purpose")) == 1 and "RuntimeError" in node.log and "Traceback" not in node.log


def test_row_4_sim_time_without_a_clock(start, play):
    begin = time.monotonic()
    node = start(use_sim_time=True, stamp_source="arrival")
    play(Team, ["l0", "l1", "l2"])
    wait_until(lambda: node.lines("/clock"), 5.0 - (time.monotonic() - begin), "a warning within 5 s")
    wait_until(lambda: "/clock" in node.diagnostic("node").get("message", ""), 2.0, "a diagnostic")
    assert not node.states
    assert all(array.header.stamp.sec > 0 for _, array in node.diagnostics)


class Array(Player):
    """A PoseArray of three agents on circles."""

    def __init__(self, peer) -> None:
        self.publisher = peer.node.create_publisher(PoseArray, "/poses", 10)
        super().__init__(peer, 50.0)

    def publish(self, moment: float) -> None:
        message = PoseArray()
        message.header.stamp, message.header.frame_id = stamp(moment), "world"
        for index in range(3):
            pose = PoseStamped().pose
            pose.position.x, pose.position.y, pose.position.z = Team.position(index, moment)
            message.poses.append(pose)
        self.publisher.publish(message)

    def close(self) -> None:
        super().close()
        self.peer.run(lambda: self.peer.node.destroy_publisher(self.publisher))


@pytest.mark.parametrize("kind", [PoseWithCovarianceStamped, Odometry, PoseArray])
def test_types_are_asked_from_the_graph_and_positions_arrive(start, play, kind):
    if kind is PoseArray:
        play(Array)
        node = start(input__topic="/poses", input__agents=["m0", "m1", "m2"])
    else:
        play(Team, ["m0", "m1", "m2"], kind=kind)
        node = start()
    all_seen(node, ["m0", "m1", "m2"])
    message = node.states[-1][1]
    for index, state in enumerate(sorted(message.agents, key=lambda state: state.name)):
        expected = Team.position(index, seconds(message.header.stamp))
        assert (state.pose.position.x, state.pose.position.y, state.pose.position.z) == pytest.approx(expected, abs=2e-3)


def test_listed_agents_are_there_before_they_are_seen(start, play):
    play(Team, ["n0", "n1", "n2"])
    node = start(input__agents=["n0", "n1", "n2", "n3"], input__type="geometry_msgs/msg/PoseStamped")
    recovered = node.listen("recovered/n1/pose", PoseWithCovarianceStamped)
    wait_until(lambda: node.status("n3") == AgentState.UNKNOWN, 4.0, "n3 unknown")
    assert list(node.latest()) == ["n0", "n1", "n2", "n3"]
    _, message = wait_until(lambda: recovered[-1:], 2.0, "recovered pose")[0]
    moment = seconds(message.header.stamp)
    p = message.pose.pose.position
    assert (p.x, p.y, p.z) == pytest.approx(Team.position(1, moment), abs=2e-3)
