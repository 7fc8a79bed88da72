"""Listens to the node, to the truth and to what the node hears, and scores node and baselines on the same observations.

A baseline gets a window from the node's own SlidingWindow class, filled with the observations up to the newest one
that the scored estimate can have used, so that both end at the same grid time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from numpy.typing import NDArray
from rclpy.node import Node

from siha_ros.demo.publishing import RELIABLE, TRUTH_GRAPH_TOPIC, TRUTH_TOPIC, seconds
from siha_ros.demo.scoring import NEW_RECORDING, GraphCount, Score, Truth, TruthLog
from siha_ros.msg import Forecast, HiddenTrajectories, InteractionGraph, ReconstructedStates, SkeletonFrame
from siha_ros.window.sliding_window import SlidingWindow
from siha_ros.window.types import Estimate, Status, WindowEstimator

TOLERANCE = 1e-3  # two grid times this close (s) are the same
PATIENCE = 3.0  # wall time (s) after which an estimate is scored with what has been heard


@dataclass(frozen=True)
class Row:
    """The last second of a run.

    Attributes:
        seconds: stream time since the first truth (s).
        hidden: names that the node called hidden.
        errors: root mean square error (cm) of each method, empty where nobody is lost.
        graph: accuracy (%) by kind of pair.
        rate: estimates per second; latency: median (ms), None without an estimate.
    """

    seconds: float
    hidden: list[str]
    errors: dict[str, float]
    graph: dict[str, float | None]
    rate: float
    latency: float | None


class Scorer:
    """Subscriptions of one node, and what they add up to.

    Attributes:
        score: the counts so far.
    """

    def __init__(
        self,
        node: Node,
        score: Score,
        *,
        agents: Sequence[str],
        make_window: Callable[[], SlidingWindow],
        methods: Mapping[str, WindowEstimator],
        siha: str = "/siha",
    ) -> None:
        """agents: names with a PoseStamped topic each; empty for a body on /skeleton."""
        self.score = score
        self._make_window, self._methods = make_window, dict(methods)
        self._truth = TruthLog()
        self._edges: dict[tuple[str, str], bool] = {}
        self._heard: list[_Heard] = []
        self._newest = -np.inf
        self._fed = np.inf
        self._states: deque[tuple[float, ReconstructedStates]] = deque()
        self._graphs: deque[InteractionGraph] = deque()
        self._begin: float | None = None
        self._second = _Second()
        self._restart()

        def listen(kind: type, topic: str, callback: Callable[[Any], None]) -> None:
            node.create_subscription(kind, topic, callback, RELIABLE)

        listen(SkeletonFrame, f"/{TRUTH_TOPIC}", self._on_truth)
        listen(InteractionGraph, f"/{TRUTH_GRAPH_TOPIC}", self._on_true_graph)
        for agent in agents:
            listen(PoseStamped, f"/{agent}/pose", partial(self._on_pose, agent))
        if not agents:
            listen(SkeletonFrame, "/skeleton", self._on_skeleton)
        listen(ReconstructedStates, f"{siha}/states", self._on_states)
        listen(InteractionGraph, f"{siha}/graph", self._on_graph)
        listen(Forecast, f"{siha}/forecast", self._check_finite)
        listen(HiddenTrajectories, f"{siha}/trajectories", self._check_finite)

    def process(self, flush: bool = False) -> None:
        """Score the estimates for which everything has been heard; with flush, all."""
        while self._states:
            arrival, message = self._states[0]
            stamp = seconds(message.header.stamp)
            heard = self._truth.newest >= stamp and self._newest >= stamp + self._window.grid_delay - TOLERANCE
            if not (heard or flush or time.monotonic() - arrival > PATIENCE):
                break
            self._states.popleft()
            self._score_states(stamp, message)
        while self._graphs and (flush or self._truth.newest >= seconds(self._graphs[0].header.stamp)):
            self._score_graph(self._graphs.popleft())

    @property
    def begun(self) -> bool:
        """Whether the stream has begun."""
        return self._begin is not None

    def row(self) -> Row:
        """What happened since the last call."""
        second, self._second = self._second, _Second()
        errors = {name: 100 * float(np.sqrt(np.mean(np.concatenate(parts)))) for name, parts in second.squares.items()}
        elapsed = time.monotonic() - second.begin
        return Row(
            self._truth.newest - self._begin if self._begin is not None else 0.0,
            list(second.hidden),
            errors,
            second.graph.accuracy(self.score.graph.swapped),
            len(second.latencies) / elapsed,
            1e3 * float(np.median(second.latencies)) if second.latencies else None,
        )

    def _restart(self) -> None:
        self._window = self._make_window()
        self._previous: dict[str, Estimate] = {}

    def _on_truth(self, message: SkeletonFrame) -> None:
        stamp = seconds(message.header.stamp)
        tracked = np.array(message.tracked)
        self._truth.add(stamp, message.joints, np.array(message.positions).reshape(-1, 3), tracked)
        self._begin = stamp if self._begin is None else self._begin
        self.score.note_lost(
            [name for name, seen in zip(message.joints, tracked, strict=True) if not seen], len(tracked)
        )

    def _on_true_graph(self, message: InteractionGraph) -> None:
        probability = np.array(message.probability).reshape(len(message.agents), len(message.agents), -1)
        self._edges = {
            (a, b): probability[i, j, 1] > 0.5
            for i, a in enumerate(message.agents)
            for j, b in enumerate(message.agents)
        }

    def _on_pose(self, name: str, message: PoseStamped) -> None:
        place = message.pose.position
        self._hear(
            _Heard(seconds(message.header.stamp), [name], np.array([[place.x, place.y, place.z]]), np.array([True]))
        )

    def _on_skeleton(self, message: SkeletonFrame) -> None:
        positions = np.array(message.positions).reshape(-1, 3)
        self._hear(_Heard(seconds(message.header.stamp), message.joints, positions, np.array(message.tracked)))

    def _hear(self, heard: _Heard) -> None:
        self._heard.append(heard)
        self._newest = max(self._newest, heard.stamp)

    def _on_states(self, message: ReconstructedStates) -> None:
        self._states.append((time.monotonic(), message))
        self._second.latencies.append(message.latency)
        self.score.add_message(seconds(message.header.stamp), message.latency)
        self._second.hidden |= {state.name: None for state in message.agents if state.status == Status.HIDDEN}
        values = [
            (
                s.pose.position.x,
                s.pose.position.y,
                s.pose.position.z,
                s.velocity.x,
                s.velocity.y,
                s.velocity.z,
                s.position_95,
                *s.position_covariance,
            )
            for s in message.agents
        ]
        self.score.nonfinite += int(not np.isfinite(values).all())

    def _on_graph(self, message: InteractionGraph) -> None:
        self.score.nonfinite += int(not np.isfinite(message.probability).all())
        if self._edges:
            self._graphs.append(message)

    def _check_finite(self, message: Forecast | HiddenTrajectories) -> None:
        arrays = (message.positions, message.velocities, message.covariance)
        self.score.nonfinite += int(not all(np.isfinite(values).all() for values in arrays))

    def _score_states(self, stamp: float, message: ReconstructedStates) -> None:
        self._feed(stamp + self._window.grid_delay + TOLERANCE)
        truth = self._truth.at(stamp)
        if truth is None:
            self.score.unscored += 1
            return
        if not truth.lost.any():
            return
        places = {s.name: (s.pose.position.x, s.pose.position.y, s.pose.position.z) for s in message.agents}
        errors = {"siha": _errors(truth, places)}
        window = self._window.window()
        if window is None or abs(window.times[-1] - stamp) > TOLERANCE:
            self.score.unscored += 1
            return
        for name, method in self._methods.items():
            estimate = method.estimate(window, self._previous.get(name))
            self._previous[name] = estimate
            errors[name] = _errors(truth, dict(zip(estimate.names, estimate.positions[:, -1], strict=True)))
        self.score.add_errors(stamp, truth.since_loss[truth.lost], errors)
        for name, error in errors.items():
            self._second.squares.setdefault(name, []).append(error**2)

    def _feed(self, newest: float) -> None:
        ready = sorted((heard for heard in self._heard if heard.stamp <= newest), key=lambda heard: heard.stamp)
        self._heard = [heard for heard in self._heard if heard.stamp > newest]
        for heard in ready:
            if heard.stamp - self._fed > NEW_RECORDING:
                self._restart()
            self._fed = heard.stamp
            self._window.add_frame(heard.stamp, heard.positions, heard.tracked, names=heard.names, complete=False)

    def _score_graph(self, message: InteractionGraph) -> None:
        truth = self._truth.at(seconds(message.header.stamp))
        if truth is None:
            return
        names = message.agents
        lost = dict(zip(truth.names, truth.lost, strict=True))
        probability = np.array(message.probability).reshape(len(names), len(names), -1)[..., 1]
        edges = np.array([[self._edges.get((a, b), False) for b in names] for a in names])
        lost_in_order = np.array([lost[name] for name in names])
        self._second.graph.add(probability, edges, lost_in_order)
        if truth.lost.any():
            self.score.graph.add(probability, edges, lost_in_order)


@dataclass(frozen=True)
class _Heard:
    """What one message said: positions f8[n, 3] (m) and tracked bool[n] of n agents at a stamp (s)."""

    stamp: float
    names: Sequence[str]
    positions: NDArray[np.float64]
    tracked: NDArray[np.bool_]


class _Second:
    """What is counted between two rows."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.squares: dict[str, list[NDArray[np.float64]]] = {}
        self.graph = GraphCount()
        self.latencies: list[float] = []
        self.hidden: dict[str, None] = {}


def _errors(truth: Truth, places: Mapping[str, Any]) -> NDArray[np.float64]:
    """Distance (m) of each lost agent from its truth, in the dimensions of `places`; NaN where it has no place."""
    lost = np.flatnonzero(truth.lost)
    found = [np.asarray(places.get(truth.names[i], (np.nan, np.nan))) for i in lost]
    return np.array([np.linalg.norm(truth.positions[i, : len(x)] - x) for i, x in zip(lost, found, strict=True)])
