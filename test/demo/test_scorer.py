"""The scorer on a stream made here, fed message by message: errors, the window that a baseline gets, rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs rclpy")
pytest.importorskip("siha_ros.msg", reason="needs the built messages")
pytestmark = pytest.mark.ros

NAMES = ["a", "b", "c"]
VELOCITY = np.array([[0.3, 0, 0], [0, -0.4, 0], [0.1, 0.1, 0]])
EDGES = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)


def place(stamp):
    return np.arange(9.0).reshape(3, 3) * [1, 1, 0] + VELOCITY * (stamp - 1000.0)


@dataclass
class Held:
    """What a baseline says, as far as the scorer looks."""

    names: list[str]
    positions: np.ndarray


class Hold:
    """The last position that the window knows of each agent."""

    def __init__(self):
        self.ends = []

    def estimate(self, window, previous=None):
        self.ends.append(window.times[-1])
        assert sorted(window.names) == NAMES
        return Held(window.names, np.repeat(window.last_position[:, None], len(window.times), axis=1))


class Listener:
    """In place of a node: keeps the callbacks of the subscriptions."""

    def __init__(self):
        self.callbacks = {}

    def create_subscription(self, kind, topic, callback, qos):
        self.callbacks[topic] = callback


def pose_message(time_ns, position):
    from geometry_msgs.msg import PoseStamped

    from siha_ros.demo.publishing import stamp

    message = PoseStamped()
    message.header.stamp = stamp(time_ns)
    message.pose.position.x, message.pose.position.y, message.pose.position.z = position.tolist()
    return message


def states_message(time_ns, positions, hidden):
    from siha_ros.msg import AgentState, ReconstructedStates

    from siha_ros.demo.publishing import stamp

    message = ReconstructedStates(latency=0.02)
    message.header.stamp = stamp(time_ns)
    for name, position in zip(NAMES, positions, strict=True):
        state = AgentState(name=name, status=AgentState.HIDDEN if name in hidden else AgentState.VISIBLE)
        state.pose.position.x, state.pose.position.y, state.pose.position.z = position.tolist()
        message.agents.insert(0, state)  # by name, so that the order does not matter
    return message


def graph_message(time_ns, probability, names):
    from siha_ros.msg import InteractionGraph

    from siha_ros.demo.publishing import stamp

    message = InteractionGraph(agents=names, edge_types=["none", "spring"])
    message.header.stamp = stamp(time_ns)
    message.probability = np.stack([1 - probability, probability], -1).astype(np.float32).ravel()
    return message


def test_an_error_of_3_cm_is_scored_as_3_cm():
    from siha_ros.demo.publishing import skeleton_frame
    from siha_ros.demo.scorer import Scorer
    from siha_ros.demo.scoring import TEAM_BINS, Score
    from siha_ros.window.sliding_window import SlidingWindow

    listener, hold, score = Listener(), Hold(), Score(TEAM_BINS)
    scorer = Scorer(
        listener,
        score,
        agents=NAMES,
        make_window=lambda: SlidingWindow(0.1, 11, 2),
        methods={"hold": hold},
    )
    hear = listener.callbacks
    rng = np.random.default_rng(0)
    for k in range(200):  # 4 s at 50 Hz; b is lost from 2 s to 3 s
        time_ns = 1000 * 10**9 + k * 20_000_000
        stamp = time_ns * 1e-9
        seen = np.array([True, not 100 <= k < 150, True])
        hear["/truth"](skeleton_frame(time_ns, "map", "truth", NAMES, place(stamp), seen))
        for i in rng.permutation(np.flatnonzero(seen)):
            hear[f"/{NAMES[i]}/pose"](pose_message(time_ns, place(stamp)[i]))
        if k == 0:
            hear["/truth_graph"](graph_message(time_ns, EDGES.astype(float), NAMES))
        if k % 3 == 0 and k > 60:
            at_ns = time_ns - 100_000_000
            lost = ["b"] if 2.0 <= at_ns * 1e-9 - 1000 < 3.0 else []
            off = np.array([[5.0, 5, 0], [0.0, 0.03, 0], [5.0, 5, 0]])
            hear["/siha/states"](states_message(at_ns, place(at_ns * 1e-9) + off, lost))
            wrong = np.array([[0, 0.9, 0.9], [0.9, 0, 0.9], [0.2, 0.9, 0]])[::-1, ::-1]
            hear["/siha/graph"](graph_message(at_ns, wrong, NAMES[::-1]))
        scorer.process()
        if k == 104:
            before = scorer.row()
        if k == 130:
            row = scorer.row()
    scorer.process(flush=True)
    report = score.report()
    assert report["unscored"] == 0
    assert len(score.trace) == len(hold.ends) >= 16
    np.testing.assert_allclose(hold.ends, [stamp for stamp, _, _ in score.trace], atol=1e-6)
    assert report["rmse_cm"]["siha"]["all"] == pytest.approx(3.0, abs=1e-3)
    last = 1000 + 99 * 0.02
    since = np.array([stamp - last for stamp in hold.ends])
    held = 100 * 0.4 * since
    assert report["rmse_cm"]["hold"]["0-0.5"] == pytest.approx(np.sqrt(np.mean(held[since <= 0.5] ** 2)), abs=1e-2)
    assert report["rmse_cm"]["hold"]["all"] == pytest.approx(np.sqrt(np.mean(held**2)), abs=1e-2)
    assert report["rmse_cm"]["hold"]["1-2"] is None or (since > 1).any()
    # a-c and c-a join two seen agents, of which a-c is said to be an edge; all others touch b and are right
    assert report["graph_accuracy"] == {"vv": 50.0, "vh": 100.0, "hh": None}
    assert (report["agents"], report["hidden"], report["losses"]) == (3, 1, 1)
    assert report["rate_hz"] == pytest.approx(1 / 0.06, abs=1e-3) and report["latency_ms"]["p50"] == 20.0
    assert report["nonfinite"] == 0
    assert row.seconds == pytest.approx(2.6) and row.hidden == ["b"]
    assert row.errors["siha"] == pytest.approx(3.0)
    assert before.hidden == [] and before.errors == {}
    assert before.graph == {"vv": pytest.approx(100 * 5 / 6), "vh": None, "hh": None}
    assert row.graph == {"vv": 50.0, "vh": 100.0, "hh": None} and row.latency == pytest.approx(20.0)


def test_loss_is_scored_on_after_a_hiccup_and_what_is_left_out_is_counted():
    from siha_ros.demo.publishing import skeleton_frame
    from siha_ros.demo.scorer import Scorer
    from siha_ros.demo.scoring import TEAM_BINS, Score
    from siha_ros.window.sliding_window import SlidingWindow

    listener, hold, score = Listener(), Hold(), Score(TEAM_BINS)
    scorer = Scorer(
        listener, score, agents=NAMES, make_window=lambda: SlidingWindow(0.1, 11, 2), methods={"hold": hold}
    )
    hear = listener.callbacks
    moments = [k for k in range(200) if not 112 <= k < 124]  # 0.26 s without anything, while b is lost from 2 s on
    for k in moments:
        time_ns = 1000 * 10**9 + k * 20_000_000
        seen = np.array([True, k < 100, True])
        hear["/truth"](skeleton_frame(time_ns, "map", "truth", NAMES, place(time_ns * 1e-9), seen))
        for i in np.flatnonzero(seen):
            hear[f"/{NAMES[i]}/pose"](pose_message(time_ns, place(time_ns * 1e-9)[i]))
        if k > 60:
            at_ns = time_ns - 100_000_000
            hear["/siha/states"](states_message(at_ns, place(at_ns * 1e-9) + [0, 0.03, 0], ["b"]))
    scorer.process(flush=True)
    scored = {round(50 * (stamp - 1000)) for stamp, _, _ in score.trace}
    lost = {k - 5 for k in moments if k - 5 >= 100}
    between = {k for k in lost if 112 <= k < 124}  # the truth is not known there
    assert scored == lost - between and len(between) == 5
    assert score.report()["unscored"] == len(between)
    assert score.report()["rmse_cm"]["siha"]["1-2"] == pytest.approx(3.0, abs=1e-3)


def test_numbers_that_are_not_finite_are_counted():
    from siha_ros.msg import Forecast

    from siha_ros.demo.scorer import Scorer
    from siha_ros.demo.scoring import TEAM_BINS, Score
    from siha_ros.window.sliding_window import SlidingWindow

    listener, score = Listener(), Score(TEAM_BINS)
    Scorer(listener, score, agents=NAMES, make_window=lambda: SlidingWindow(0.1, 11, 2), methods={})
    positions = np.zeros((3, 3))
    listener.callbacks["/siha/states"](states_message(10**9, positions, []))
    assert score.nonfinite == 0
    positions[1, 1] = np.inf
    listener.callbacks["/siha/states"](states_message(10**9, positions, []))
    listener.callbacks["/siha/forecast"](Forecast(positions=[0.0, np.nan]))
    assert score.nonfinite == 2
