"""What to draw and what to say about the latest outputs of the node: numpy only, no ROS, no browser.

`SceneState` is given what was heard, in any order and from any thread, keeps a bounded memory of it, and answers with a
`Scene` to draw, a `Summary` for the side panel and a `History` for its curves. The latest of each kind wins.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from siha_ros.viewer.memory import UNSCORED_MEMORY, Floats, Graph, Group, Paths, States, Truth, truth_at
from siha_ros.viewer.scene import Scene, View, agent_radius, draw_group, joined
from siha_ros.viewer.skeletons import CMU_BONES, Bone, bone_indices
from siha_ros.window.types import Status

Entry = TypeVar("Entry")

CLOCK_JUMP = 1.0  # stamps going back by more than this (s) mean that the stream started anew
TRAIL_GAP = 0.5  # trails start anew after a pause in the stream longer than this (s)
TRUTH_MEMORY = 600  # truth frames kept, 5 s at 120 Hz
TRUTH_TOLERANCE = 0.2  # a ghost may be drawn where the truth last was, up to this long ago (s)
HISTORY_SECONDS = 30.0  # how far the curves reach back (s)
RATE_WINDOW = 3.0  # time over which the rate is counted (s)


@dataclass
class AgentRow:
    """One line of the side panel: since_seen in s (-1 never), position_95 in cm, error in cm or None without truth."""

    group: str
    name: str
    status: Status
    reason: str
    since_seen: float
    position_95: float
    error: float | None


@dataclass
class Summary:
    """What the side panel says.

    Attributes:
        silent: time since the last states arrived (s), None before the first.
        rate: states per second of each group (Hz); latency: median of the last hundred (ms).
        agents: number of agents in all groups; rows: the agents that are not plainly visible.
        error: root mean square error of the hidden agents (cm), None without truth or hidden agents.
        edges_seen, edges_hidden: percent of right edges between seen agents, and of those that touch a hidden one;
            None where unknown.
    """

    silent: float | None
    bundle: str
    rate: float
    latency: float
    agents: int
    rows: list[AgentRow]
    error: float | None
    edges_seen: float | None
    edges_hidden: float | None


@dataclass
class History:
    """Curves over the last seconds, f8[N] each.

    Attributes:
        age: time before the newest stamp (s), negative, increasing.
        error: rms error of the hidden agents (cm), 0 where none is hidden; None without truth.
        position_95: rms of the hidden agents' 95 % radius (cm), 0 where none is hidden; latency: (ms).
    """

    age: Floats
    error: Floats | None
    position_95: Floats
    latency: Floats


class SceneState:
    """The latest of everything, and what to draw of it. Every method may be called from any thread."""

    def __init__(
        self, bones: Iterable[Bone] = CMU_BONES, trail_seconds: float = 4.0, history_seconds: float = HISTORY_SECONDS
    ) -> None:
        """Take the bones to draw between joints of these names, and how long trails and curves reach back (s)."""
        self._bones = tuple(bones)
        self._trail_seconds = trail_seconds
        self._history_seconds = history_seconds
        self._groups: dict[str, Group] = {}
        self._truth: dict[str, deque[Truth]] = {}
        self._truth_graph: dict[str, Graph] = {}
        self._last_arrival: float | None = None
        self._lock = threading.Lock()

    def add_states(self, states: States, arrival: float) -> None:
        """Take the newest states of a group; `arrival` is a steady clock's time (s)."""
        with self._lock:
            group = self._groups.get(states.group)
            restarted = group is not None and states.stamp < group.states.stamp - CLOCK_JUMP
            if group is None or restarted or group.states.names != states.names:
                group = self._groups[states.group] = self._new_group(states)
            elif states.stamp < group.states.stamp:
                return
            if states.stamp > group.states.stamp + TRAIL_GAP:
                group.trail.clear()
            group.states = states
            self._last_arrival = arrival
            group.arrivals.append(arrival)
            while group.arrivals[0] < arrival - RATE_WINDOW:
                group.arrivals.popleft()
            group.trail.append((states.stamp, states.positions, states.status))
            while group.trail[0][0] < states.stamp - self._trail_seconds:
                group.trail.popleft()
            positions = states.positions[states.drawable]
            if len(positions):
                reach = np.linalg.norm(positions - positions.mean(axis=0), axis=1).max()
                group.extent = max(group.extent, float(reach))
            group.unscored.append(states)
            self._score(group)

    def add_window(self, window: Paths) -> None:
        """Take where the hidden agents were over the window."""
        with self._lock:
            if window.group in self._groups:
                self._groups[window.group].window = window

    def add_forecast(self, forecast: Paths) -> None:
        """Take where all agents are going."""
        with self._lock:
            if forecast.group in self._groups:
                self._groups[forecast.group].forecast = forecast

    def add_graph(self, graph: Graph) -> None:
        """Take who influences whom."""
        with self._lock:
            if graph.group in self._groups:
                self._groups[graph.group].graph = graph

    def add_truth(self, truth: Truth) -> None:
        """Take true positions; states whose stamp the truth has now reached get their error."""
        with self._lock:
            frames = self._truth.setdefault(truth.group, deque(maxlen=TRUTH_MEMORY))
            if frames and (truth.stamp < frames[-1].stamp - CLOCK_JUMP or truth.names != frames[-1].names):
                frames.clear()
            if frames and truth.stamp <= frames[-1].stamp:
                return
            frames.append(truth)
            for group in self._groups.values():
                self._score(group)

    def add_truth_graph(self, graph: Graph) -> None:
        """Take the true graph."""
        with self._lock:
            self._truth_graph[graph.group] = graph

    def scene(self, view: View) -> Scene | None:
        """What to draw now, None before the first states."""
        with self._lock:
            scenes = []
            for group in self._groups.values():
                states = group.states
                frames = _of_group(self._truth, states.group) or ()
                truth = truth_at(list(frames), states.stamp, states.names, TRUTH_TOLERANCE)
                scenes.append(draw_group(group, truth, view, self._trail_seconds))
        return joined(scenes) if scenes else None

    def names(self) -> list[str]:
        """All agent names, in the order of the messages."""
        with self._lock:
            return list(dict.fromkeys(name for group in self._groups.values() for name in group.states.names))

    def summary(self, now: float) -> Summary:
        """What the side panel says at the steady clock's time `now` (s)."""
        with self._lock:
            groups = list(self._groups.values())
            rows = [row for group in groups for row in _rows(group) if row.status != Status.VISIBLE]
            errors = [row.error for row in rows if row.status == Status.HIDDEN and row.error is not None]
            latencies = [entry[3] for group in groups for entry in list(group.history)[-100:]]
            edges_seen, edges_hidden = self._right_edges()
            return Summary(
                silent=None if self._last_arrival is None else max(now - self._last_arrival, 0.0),
                bundle=", ".join(dict.fromkeys(group.states.bundle for group in groups if group.states.bundle)),
                rate=float(np.mean([_rate(group.arrivals, now) for group in groups])) if groups else 0.0,
                latency=float(np.median(latencies)) if latencies else 0.0,
                agents=sum(len(group.states.names) for group in groups),
                rows=rows,
                error=float(np.sqrt(np.mean(np.square(errors)))) if errors else None,
                edges_seen=edges_seen,
                edges_hidden=edges_hidden,
            )

    def history(self) -> History | None:
        """Error, stated spread and latency of the first group over the last seconds, None before there are any."""
        with self._lock:
            group = next(iter(self._groups.values()), None)
            if group is None or not group.history:
                return None
            stamp, error, position_95, latency = np.array(group.history).T
            known = _of_group(self._truth, group.states.group) is not None
        return History(stamp - stamp[-1], np.nan_to_num(error) if known else None, position_95, latency)

    def _new_group(self, states: States) -> Group:
        bones = bone_indices(states.names, self._bones)
        positions = states.positions[states.drawable]
        radius = agent_radius(positions, bool(bones))
        ground = float(positions[:, 2].min()) - radius if len(positions) else 0.0
        return Group(states, bones, radius, ground, extent=10.0 * radius)

    def _score(self, group: Group) -> None:
        """Move every state whose stamp the truth has reached, or that has no truth, to the history."""
        frames = _of_group(self._truth, group.states.group)
        while group.unscored:
            states = group.unscored[0]
            early = frames is not None and bool(frames) and frames[-1].stamp < states.stamp - 1e-6
            if early and len(group.unscored) < UNSCORED_MEMORY:
                return
            group.unscored.popleft()
            truth = truth_at(list(frames), states.stamp, states.names) if frames else None
            group.errors = None if truth is None else np.linalg.norm(states.positions - truth, axis=1)
            group.history.append(
                (
                    states.stamp,
                    np.nan if group.errors is None else 100 * _rms(group.errors[states.hidden]),
                    100 * _rms(states.position_95[states.hidden]),
                    1000 * states.latency,
                )
            )
            while group.history[0][0] < states.stamp - self._history_seconds:
                group.history.popleft()

    def _right_edges(self) -> tuple[float | None, float | None]:
        """Percent of right edges: between agents that are both seen, and where at least one is hidden."""
        right: dict[bool, list[NDArray[np.bool_]]] = {False: [], True: []}
        for group in self._groups.values():
            true = _of_group(self._truth_graph, group.states.group)
            if true is None or group.graph is None or set(true.names) != set(group.graph.names):
                continue
            names = group.graph.names
            order = [true.names.index(name) for name in names]
            same = (true.probability[np.ix_(order, order)] > 0.5) == (group.graph.probability > 0.5)
            hidden_names = np.array(group.states.names)[group.states.hidden]
            hidden = np.isin(names, hidden_names)
            touches = hidden[:, None] | hidden[None, :]
            for touching in right:
                right[touching].append(same[(touches == touching) & ~np.eye(len(names), dtype=bool)])
        return _percent(right[False]), _percent(right[True])


def _rows(group: Group) -> list[AgentRow]:
    states = group.states
    errors = np.full(len(states.names), np.nan) if group.errors is None else group.errors
    return [
        AgentRow(
            group=states.group,
            name=name,
            status=Status(int(states.status[i])),
            reason=states.reason[i],
            since_seen=float(states.since_seen[i]),
            position_95=100 * float(states.position_95[i]),
            error=None if np.isnan(errors[i]) else 100 * float(errors[i]),
        )
        for i, name in enumerate(states.names)
    ]


def _of_group(by_group: dict[str, Entry], group: str) -> Entry | None:
    """The entry of that group, or the only entry there is: a simulation's truth may be named otherwise."""
    if group in by_group:
        return by_group[group]
    return next(iter(by_group.values())) if len(by_group) == 1 else None


def _rms(values: Floats) -> float:
    """Root mean square of the finite values, 0 where there is none."""
    values = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def _percent(parts: list[NDArray[np.bool_]]) -> float | None:
    right = np.concatenate(parts) if parts else np.empty(0, dtype=bool)
    return 100 * float(right.mean()) if len(right) else None


def _rate(arrivals: deque[float], now: float) -> float:
    recent = [arrival for arrival in arrivals if arrival >= now - RATE_WINDOW]
    span = recent[-1] - recent[0] if len(recent) > 1 else 0.0
    return (len(recent) - 1) / span if span > 0 else 0.0
