"""Messages of an estimate: values by hand for a planar team of three and shapes for a body."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from siha_ros.msg import AgentState  # noqa: E402
from visualization_msgs.msg import Marker  # noqa: E402

from siha_ros.node import messages  # noqa: E402
from siha_ros.node.markers import FLAT, MarkerScene  # noqa: E402
from siha_ros.node.messages import Scene  # noqa: E402
from siha_ros.node.outputs import Outputs  # noqa: E402
from siha_ros.window.types import Estimate, Forecast, Status, Window  # noqa: E402

HALF = math.sqrt(0.5)


def scene(dims: int = 2, **changes) -> Scene:
    """Agents a (visible), b (hidden for 0.2 s), c (bridged); 3 grid times 0.1 s apart ending at 10.2; 2 steps ahead.

    Agent i stands at (i, 10 i[, 100 i]) and moves by (1, 2[, 3]) m/s; b's covariance is diag(0.04, 0.09[, 0.16]).
    """
    names, times = ["a", "b", "c"], np.array([10.0, 10.1, 10.2])
    velocity = np.array([1.0, 2.0, 3.0])[:dims]
    start = np.arange(3.0)[:, None] * np.array([1.0, 10.0, 100.0])[:dims]
    positions = start[:, None] + velocity * (times - times[-1])[:, None]
    velocities = np.broadcast_to(velocity, positions.shape).copy()
    observed = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=bool)
    covariance = np.zeros((3, 3, dims, dims))
    covariance[1, 1:] = np.diag([0.04, 0.09, 0.16][:dims])
    adjacency = np.zeros((3, 3, 2))
    adjacency[0, 1] = 0.1, 0.9
    adjacency[1, 0] = 0.4, 0.6
    adjacency[0, 2] = adjacency[2, 0] = adjacency[1, 2] = adjacency[2, 1] = 1.0, 0.0
    ahead = np.array([10.3, 10.4])
    forecast = Forecast(
        ahead,
        start[:, None] + velocity * (ahead - times[-1])[:, None],
        velocities[:, :2],
        covariance[:, :2],
        np.array([[0.1, 0.2], [0.7, 0.8], [0.3, 0.4]]),
    )
    window = Window(
        names,
        times,
        np.where(observed[..., None], positions, np.nan),
        np.full_like(positions, np.nan),
        observed,
        np.where(observed, 0.8, 0.0).astype(np.float32),
        np.array([Status.VISIBLE, Status.HIDDEN, Status.BRIDGED], dtype=np.int8),
        ["", "silent", "gap"],
        np.array([10.2, 10.0, 10.15]),
        positions[:, -1],
        velocities[:, -1],
    )
    estimate = Estimate(
        names,
        times,
        positions,
        velocities,
        covariance,
        np.array([[0.0] * 3, [0.0, 0.6, 0.6], [0.0] * 3]),
        observed,
        adjacency,
        forecast,
        3,
        0.01,
        5.0,
        ["", "beyond the bundle", ""],
    )
    turns = np.array([[0.0, 0.0, HALF, HALF], [0.0, 0.0, 2.0, 0.0], [np.nan] * 4])
    values = {
        "group": "team",
        "frame_id": "map",
        "bundle": "springs",
        "edge_types": ("none", "spring"),
        "latency": 0.02,
    }
    values |= {"heights": np.array([1.5, 2.5, 0.5]), "orientations": turns, "oriented": np.array([True, True, False])}
    return Scene(window, estimate, **(values | changes))


def xyz(point) -> tuple[float, float, float]:
    return point.x, point.y, point.z


def test_stamp_is_rounded_to_the_nearest_nanosecond():
    stamp = messages.to_time(12.9999999999)
    assert (stamp.sec, stamp.nanosec) == (13, 0)
    stamp = messages.to_time(1.25)
    assert (stamp.sec, stamp.nanosec) == (1, 250_000_000)


def test_states_of_a_planar_team_stand_at_the_heights_last_seen():
    message = messages.states_message(scene())
    assert (message.group, message.bundle, message.header.frame_id) == ("team", "springs", "map")
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (10, 200_000_000)
    assert message.latency == 0.02
    a, b, c = message.agents
    assert [state.name for state in message.agents] == ["a", "b", "c"]
    assert [state.status for state in message.agents] == [AgentState.VISIBLE, AgentState.HIDDEN, AgentState.BRIDGED]
    assert xyz(a.pose.position) == (0.0, 0.0, 1.5) and xyz(b.pose.position) == (1.0, 10.0, 2.5)
    assert xyz(b.velocity) == (1.0, 2.0, 0.0)
    assert b.reason == "silent; beyond the bundle" and a.reason == ""
    assert list(b.position_covariance) == [0.04, 0, 0, 0, 0.09, 0, 0, 0, 0] and b.position_95 == 0.6
    assert b.time_since_seen == pytest.approx(0.2) and a.time_since_seen == 0.0
    assert (a.orientation_valid, b.orientation_valid, c.orientation_valid) == (True, False, False)
    assert (a.pose.orientation.z, a.pose.orientation.w) == (HALF, HALF)
    assert (b.pose.orientation.z, b.pose.orientation.w) == (1.0, 0.0)  # the last seen one, made a unit
    assert (c.pose.orientation.z, c.pose.orientation.w) == (0.0, 1.0)  # identity: none was ever seen


def test_agent_that_was_never_seen_has_no_time_since_seen():
    never = scene()
    never.window.last_seen[1] = np.nan
    assert messages.states_message(never).agents[1].time_since_seen == -1.0


def test_trajectories_hold_the_hidden_agent_over_the_window():
    message = messages.trajectories_message(scene())
    assert message.agents == ["b"] and message.step == pytest.approx(0.1)
    positions = np.array(message.positions).reshape(1, 3, 3)
    assert np.allclose(positions[0], [[0.8, 9.6, 2.5], [0.9, 9.8, 2.5], [1.0, 10.0, 2.5]])
    assert np.allclose(np.array(message.velocities).reshape(3, 3), [1.0, 2.0, 0.0])
    covariance = np.array(message.covariance).reshape(3, 3, 3)
    assert not covariance[0].any() and np.allclose(covariance[2], np.diag([0.04, 0.09, 0.0]))
    assert list(message.observed) == [True, False, False]


@pytest.mark.parametrize("status", [Status.WARMING_UP, Status.STALE, Status.UNKNOWN])
def test_guessed_position_is_never_published_as_tracked(status):
    guessed = scene(dims=3)
    guessed.window.status[1] = status  # seen too shortly to count, or the stream stopped before it was seen
    assert list(messages.skeleton_message(guessed).tracked) == [True, False, True]
    assert list(messages.skeleton_message(guessed).confidence)[1] == 0.0
    assert messages.trajectories_message(guessed).agents == ["b"]
    assert list(messages.graph_message(guessed).reconstructed) == [False, True, False]


def test_observed_position_stays_tracked_when_the_stream_stops():
    stopped = scene(dims=3)
    stopped.window.status[:] = Status.STALE
    assert list(messages.skeleton_message(stopped).tracked) == [True, False, True]


def test_graph_keeps_sender_rows_and_receiver_columns():
    message = messages.graph_message(scene())
    probability = np.array(message.probability).reshape(3, 3, 2)
    assert message.edge_types == ["none", "spring"]
    assert probability[0, 1, 1] == pytest.approx(0.9) and probability[1, 0, 1] == pytest.approx(0.6)
    assert list(message.reconstructed) == [False, True, False]


def test_forecast_continues_from_the_newest_grid_time():
    message = messages.forecast_message(scene())
    positions = np.array(message.positions).reshape(3, 2, 3)
    assert message.horizon == 2
    assert np.allclose(positions[1], [[1.1, 10.2, 2.5], [1.2, 10.4, 2.5]])
    assert list(message.position_95) == [0.1, 0.2, 0.7, 0.8, 0.3, 0.4]


def test_skeleton_completes_what_is_not_tracked():
    message = messages.skeleton_message(scene(dims=3))
    assert message.joints == ["a", "b", "c"]
    assert np.allclose(np.array(message.positions).reshape(3, 3)[1], [1.0, 10.0, 100.0])
    assert list(message.tracked) == [True, False, True]
    assert list(message.confidence) == pytest.approx([0.8, 0.0, 0.8])


def test_recovered_pose_says_how_far_it_may_be_off():
    message = messages.recovered_message(scene(), 1)
    covariance = np.array(message.pose.covariance).reshape(6, 6)
    assert xyz(message.pose.pose.position) == (1.0, 10.0, 2.5)
    assert np.allclose(covariance[:3, :3], np.diag([0.04, 0.09, 0.0]))
    assert np.allclose(covariance[3:, 3:], np.eye(3) * math.pi**2)
    seen = np.array(messages.recovered_message(scene(), 0).pose.covariance)
    assert not seen.any()


@pytest.mark.parametrize("field", ["positions", "velocities", "covariance", "position_95", "adjacency"])
def test_estimate_that_is_not_finite_is_refused_by_name(field):
    broken = scene().estimate
    getattr(broken, field).flat[0] = np.nan
    with pytest.raises(ValueError, match=field):
        messages.require_finite(broken)


@pytest.mark.parametrize(
    ("name", "token"), [("robot1", "robot1"), ("cf-1", "cf_1"), ("7", "_7"), ("Left Hand", "Left_Hand"), ("_a", "_a")]
)
def test_agent_names_become_valid_topic_tokens(name, token):
    assert messages.topic_token(name) == token


def test_agents_that_would_share_a_topic_get_one_each_whatever_their_order():
    together = {"a_b": "recovered/a_b/pose", "a b": "recovered/a_b_2/pose", "a-b": "recovered/a_b_3/pose"}
    assert messages.distinct_topics(["a-b", "a_b", "a b"], {}) == together
    assert messages.distinct_topics(["a b", "a-b", "a_b"], {}) == together
    assert messages.distinct_topics(["a_b", "c"], together) == {"c": "recovered/c/pose"}
    assert messages.distinct_topics(["a.b", "a_b_2"], {"a_b": "recovered/a_b/pose"}) == {
        "a_b_2": "recovered/a_b_2/pose",
        "a.b": "recovered/a_b_3/pose",
    }


def test_long_names_are_cut_and_still_told_apart():
    first, second = "x" * 300 + "1", "x" * 300 + "2"
    short = "x" * 100
    expected = {first: f"recovered/{short}/pose", second: f"recovered/{short}_2/pose"}
    assert messages.distinct_topics([second, first], {}) == expected


class CountingNode:
    """In the place of a node: the topics of the publishers that are there, and nobody listens."""

    def __init__(self) -> None:
        self.publishers = []

    def create_publisher(self, kind, topic, qos, **more):
        self.publishers.append(topic)
        publisher = Mock(topic=topic)
        publisher.get_subscription_count.return_value = 0
        return publisher

    def destroy_publisher(self, publisher) -> None:
        self.publishers.remove(publisher.topic)


def test_publishers_of_agents_that_come_and_go_do_not_grow_without_end():
    node = CountingNode()
    outputs = Outputs(node, body=False, size=0.2, edge_threshold=0.5)
    others, group = len(node.publishers), outputs.open(SimpleNamespace(name="team", named=False))
    whole = scene()
    for number in range(200):
        names = [f"a{number}", f"b{number}", f"c{number}"]
        group.publish(replace(whole, estimate=replace(whole.estimate, names=names)))
        assert f"~/recovered/a{number}/pose" in node.publishers and len(node.publishers) - others <= 256


def test_groups_have_topics_and_markers_of_their_own_and_take_them_along():
    node = CountingNode()
    outputs = Outputs(node, body=False, size=0.2, edge_threshold=0.5)
    outputs.markers.get_subscription_count.return_value = 1
    published = outputs.markers.publish
    before = list(node.publishers)
    feeds = [SimpleNamespace(name=name, named=True) for name in ("red", "blue", "green")]
    drawn = []
    for feed in feeds[:2]:
        outputs.open(feed).publish(scene())
        drawn.append({(marker.ns, marker.id) for marker in published.call_args.args[0].markers})
    assert {ns for ns, _ in drawn[0]} == {ns for ns, _ in drawn[1]} and not drawn[0] & drawn[1]
    topics = [f"~/recovered/{group}/{agent}/pose" for group in ("red", "blue") for agent in "abc"]
    assert node.publishers == [*before, *topics]
    outputs.close(feeds[0])
    erased = {(marker.ns, marker.id): marker.action for marker in published.call_args.args[0].markers}
    assert erased == dict.fromkeys(drawn[0], Marker.DELETE)
    assert node.publishers == [*before, *topics[3:]]
    outputs.open(feeds[2]).publish(scene())
    assert {(marker.ns, marker.id) for marker in published.call_args.args[0].markers} == drawn[0]  # in the room of red


def test_markers_show_status_spread_edges_and_forecast():
    markers = {(m.ns, m.id): m for m in MarkerScene(size=0.2, edge_threshold=0.5).message(scene()).markers}
    assert {ns for ns, _ in markers} == {"agents", "spread", "edges", "forecast"}
    visible, hidden, bridged = (markers["agents", number].color for number in range(3))
    assert len({(c.r, c.g, c.b) for c in (visible, hidden, bridged)}) == 3
    spread = markers["spread", 1]
    assert (spread.scale.x, spread.scale.y, spread.scale.z) == (1.2, 1.2, FLAT)  # a disc of radius position_95
    assert len([ns for ns, _ in markers if ns == "spread"]) == 1
    assert xyz(spread.pose.position) == (1.0, 10.0, 2.5)
    edges = markers["edges", 0]
    assert [xyz(point) for point in edges.points] == [
        (0.0, 0.0, 1.5),
        (1.0, 10.0, 2.5),
    ]  # a-b only, the stronger direction
    assert edges.colors[0].a == pytest.approx(0.9)
    ribbon = [xyz(point) for point in markers["forecast", 1].points]
    assert np.allclose(ribbon, [(1.0, 10.0, 2.5), (1.1, 10.2, 2.5), (1.2, 10.4, 2.5)])
    for marker in markers.values():
        q = marker.pose.orientation
        assert q.x**2 + q.y**2 + q.z**2 + q.w**2 == pytest.approx(1.0)


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_no_edges_where_the_estimate_has_no_graph(threshold):
    unknown = scene()
    unknown.estimate.adjacency[:] = (1 - np.eye(3))[..., None] / 2
    drawn = MarkerScene(size=0.2, edge_threshold=threshold)
    assert "edges" not in {marker.ns for marker in drawn.message(unknown).markers}
    unknown.estimate.adjacency[0, 2] = 0.5 - 1e-3, 0.5 + 1e-3
    (edges,) = (marker for marker in drawn.message(unknown).markers if marker.ns == "edges")
    assert [xyz(point) for point in edges.points] == [(0.0, 0.0, 1.5), (2.0, 20.0, 0.5)]


def test_spread_of_a_joint_is_a_ball_of_radius_position_95():
    (spread,) = (
        m for m in MarkerScene(size=0.06, edge_threshold=0.5).message(scene(dims=3)).markers if m.ns == "spread"
    )
    assert (spread.scale.x, spread.scale.y, spread.scale.z) == (1.2, 1.2, 1.2)


def test_ids_of_markers_do_not_pile_up_where_names_come_and_go():
    drawn = MarkerScene(size=0.2, edge_threshold=0.5)
    for number in range(50):
        found = scene()
        found.estimate.names[1:] = [f"ghost_{number}", "c"]
        ids = [m.id for m in drawn.message(found).markers if m.ns == "agents" and m.action == m.ADD]
        assert ids == [0, 1, 2] and len(drawn._ids) == 3


def test_marker_that_is_gone_is_deleted_once():
    drawn = MarkerScene(size=0.2, edge_threshold=0.5)
    drawn.message(scene())
    found = scene()
    found.estimate.observed[1] = True
    deleted = [(m.ns, m.id) for m in drawn.message(found).markers if m.action == m.DELETE]
    assert deleted == [("spread", 1)]
    assert not [m for m in drawn.message(found).markers if m.action == m.DELETE]
    assert [m.action for m in drawn.clear().markers] == [3]  # DELETEALL
    assert not [m for m in drawn.message(found).markers if m.action == m.DELETE]
