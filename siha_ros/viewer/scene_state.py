"""What to draw and what to say about the outputs of the node at any time that is remembered: numpy only.

`SceneState` is given what was heard, in any order and from any thread, and remembers the last seconds of it (all of a
recording). It answers for a time with a `Scene` to draw and a `Summary` for the side panel (without a time: of the
latest of each kind) and for all of its memory with a `History` for the curves.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from siha_ros.viewer.memory import (
    CLOCK_JUMP,
    Agent,
    Figure,
    Floats,
    Graph,
    Group,
    Paths,
    Score,
    Scores,
    Series,
    States,
    Truth,
    truth_at,
)
from siha_ros.viewer.scene import Scene, View, agent_radius, draw_group, joined
from siha_ros.viewer.skeletons import CMU_BONES, Bone, bone_indices
from siha_ros.window.types import Status

Entry = TypeVar("Entry")

MEMORY_SECONDS = 120.0  # how far the memory of a live run reaches back (s)
TRAIL_GAP = 0.5  # trails start anew after a pause in the stream longer than this (s)
TRUTH_TOLERANCE = 0.2  # a ghost may be drawn where the truth last was, up to this long ago (s)
SCORE_TOLERANCE = 1e-6  # but an error is only taken between two frames of the truth (s)
GONE_AFTER = 5.0  # a group that is silent for longer (s) while another one speaks is no longer shown
RATE_WINDOW = 3.0  # time over which rate, latency and the newest known error are looked for (s)
UNSCORED_MEMORY = 100  # states that may wait for the truth around their stamp


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
        source: groups, bundles and frames of what is shown.
        silent: time since the last states arrived (s), None before the first; 0 for a time of the past.
        rate: states per second of each group (Hz of the stream's time); latency: median of the last seconds (ms).
        agents: number of agents in all groups; rows: the agents that are not plainly visible.
        error: root mean square error of the hidden agents (cm), None without truth or hidden agents.
        edges_seen, edges_hidden: percent of right edges between seen agents, and of those that touch a hidden one;
            None where unknown.
    """

    source: str
    silent: float | None
    rate: float
    latency: float
    agents: int
    rows: list[AgentRow]
    error: float | None
    edges_seen: float | None
    edges_hidden: float | None


@dataclass
class EdgeRow:
    """How probable it is that the agent in focus acts on this one, and this one on it."""

    name: str
    status: Status
    acts_on: float
    acted_by: float


@dataclass
class History:
    """Curves over the memory of the first group, N entries each.

    Attributes:
        time: stamps (s), increasing; error, position_95, latency: see Score; error is None where no truth was heard.
        hidden: i8[N] how many agents are hidden.
    """

    time: Floats
    error: Floats | None
    position_95: Floats
    latency: Floats
    hidden: NDArray[np.int64]


class SceneState:
    """What was heard, and what to draw of it. Every method may be called from any thread; times are stamps (s).

    Attributes:
        origin: stamp (s) that is the zero of the time axis: the first one heard, or the beginning of the recording.
    """

    def __init__(
        self, bones: Iterable[Bone] = CMU_BONES, trail_seconds: float = 4.0, keep_seconds: float = MEMORY_SECONDS
    ) -> None:
        """Take the bones to draw between joints of these names, how long trails are, and how far the memory goes back
        (s; infinite: a whole recording)."""
        self.origin: float | None = None
        self._bones = tuple(bones)
        self._trail_seconds = trail_seconds
        self._keep = keep_seconds
        self._tracks: dict[str, _Track] = {}
        self._truth: dict[str, Series[Truth]] = {}
        self._truth_graph: dict[str, Series[Graph]] = {}
        self._last_arrival: float | None = None
        self._lock = threading.Lock()

    def add_states(self, states: States, arrival: float | None = None, since_begin: float = 0.0) -> None:
        """Take states of a group. `arrival`: a steady clock's time (s), None for those of a recording; `since_begin`:
        when they were recorded after its beginning (s)."""
        with self._lock:
            if self.origin is None or states.stamp < self.origin - CLOCK_JUMP:
                self.origin = states.stamp - since_begin
            track = self._tracks.setdefault(states.group, _Track(self._keep))
            before = track.states.latest()
            if track.add(states, self._bones):
                self._last_arrival = track.last_arrival = arrival
                self._score(track)
                self._forget_others(track, anew=before is not None and states.stamp < before.stamp)

    def add_window(self, window: Paths) -> None:
        """Take where the hidden agents were over the window."""
        with self._lock:
            self._tracks.setdefault(window.group, _Track(self._keep)).windows.add(window)

    def add_forecast(self, forecast: Paths) -> None:
        """Take where all agents are going."""
        with self._lock:
            self._tracks.setdefault(forecast.group, _Track(self._keep)).forecasts.add(forecast)

    def add_graph(self, graph: Graph) -> None:
        """Take who influences whom."""
        with self._lock:
            self._tracks.setdefault(graph.group, _Track(self._keep)).graphs.add(graph)

    def add_truth(self, truth: Truth) -> None:
        """Take true positions; states whose stamp the truth has now reached get their error."""
        with self._lock:
            frames = self._truth.setdefault(truth.group, Series(self._keep))
            if frames.entries and truth.names != frames.entries[-1].names:
                frames.clear()
            frames.add(truth)
            for track in self._tracks.values():
                self._score(track)

    def add_truth_graph(self, graph: Graph) -> None:
        """Take the true graph."""
        with self._lock:
            self._truth_graph.setdefault(graph.group, Series(self._keep)).add(graph)

    def end(self) -> None:
        """Nothing more will come, also no truth that states wait for."""
        with self._lock:
            for track in self._tracks.values():
                self._score(track, to_the_end=True)

    def span(self) -> tuple[float, float] | None:
        """The oldest and the newest stamp of states (s), None before there are any."""
        with self._lock:
            stamps = [track.states.entries[k].stamp for track in self._heard() for k in (0, -1)]
        return (min(stamps), max(stamps)) if stamps else None

    def losses(self) -> list[float]:
        """Stamps at which an agent of any group was lost, in order."""
        with self._lock:
            rows = [track.scores.rows for track in self._heard()]
            return sorted(stamp for some in rows for stamp in some[some[:, 5] > 0, 0].tolist())

    def step(self, at: float, count: int) -> float:
        """The stamp that is `count` states after (before, where negative) the ones of a time, at most the last."""
        with self._lock:
            stamps = sorted({states.stamp for track in self._heard() for states in track.states.entries})
        place = int(np.searchsorted(stamps, at, side="right")) - 1 + count
        return stamps[min(max(place, 0), len(stamps) - 1)] if stamps else at

    def scene(self, view: View, at: float | None = None) -> Scene | None:
        """What to draw, None before the first states."""
        with self._lock:
            scenes = []
            for group in self._groups(at):
                states = group.states
                frames = _of_group(self._truth, states.group)
                near = frames.around(states.stamp) if frames else []
                truth = truth_at(near, states.stamp, states.names, TRUTH_TOLERANCE)
                scenes.append(draw_group(group, truth, view, self._trail_seconds))
        return joined(scenes) if scenes else None

    def agents(self) -> list[Agent]:
        """All agents, in the order of the newest messages."""
        with self._lock:
            return [(group.states.group, name) for group in self._groups(None) for name in group.states.names]

    def summary(self, now: float, at: float | None = None) -> Summary:
        """What the side panel says; `now` is the steady clock's time (s)."""
        with self._lock:
            groups = self._groups(at)
            rows = [row for group in groups for row in self._rows(group) if row.status != Status.VISIBLE]
            errors = [row.error for row in rows if row.status == Status.HIDDEN and row.error is not None]
            recent = [self._tracks[g.states.group].recent(g.states.stamp) for g in groups]
            latencies = [1000 * states.latency for some in recent for states in some]
            silent = None if not groups else 0.0
            if groups and at is None and self._last_arrival is not None:
                silent = max(now - self._last_arrival, 0.0)
            rates = [0.0] if silent is None or silent > RATE_WINDOW else [_rate(some) for some in recent]
            edges_seen, edges_hidden = self._right_edges(groups)
            return Summary(
                source=_source([group.states for group in groups]),
                silent=silent,
                rate=float(np.mean(rates)),
                latency=float(np.median(latencies)) if latencies else 0.0,
                agents=sum(len(group.states.names) for group in groups),
                rows=rows,
                error=float(np.sqrt(np.mean(np.square(errors)))) if errors else None,
                edges_seen=edges_seen,
                edges_hidden=edges_hidden,
            )

    def edges(self, agent: Agent, at: float | None = None) -> list[EdgeRow]:
        """Who the agent acts on and is acted on by, the strongest first; none where it has no graph."""
        of_group, name = agent
        with self._lock:
            for group in self._groups(at):
                graph, states = group.graph, group.states
                if states.group != of_group or graph is None or name not in graph.names or name not in states.names:
                    continue
                me = graph.names.index(name)
                status = dict(zip(states.names, states.status.tolist(), strict=True))
                rows = [
                    EdgeRow(other, Status(status[other]), float(to), float(by))
                    for k, (other, to, by) in enumerate(
                        zip(graph.names, graph.probability[me], graph.probability[:, me], strict=True)
                    )
                    if k != me and other in status
                ]
                return sorted(rows, key=lambda row: -max(row.acts_on, row.acted_by))
        return []

    def history(self) -> History | None:
        """Error, stated spread and latency of the first group over the whole memory, None before there are any."""
        with self._lock:
            track = next(iter(self._speaking()), None)
            if track is None or not len(track.scores):
                return None
            time, error, position_95, latency, hidden, _ = track.scores.rows.T.copy()
            known = _of_group(self._truth, track.states.entries[-1].group) is not None
        return History(time, error if known else None, position_95, latency, hidden.astype(np.int64))

    def _heard(self) -> list[_Track]:
        return [track for track in self._tracks.values() if len(track.states)]

    def _silent(self, track: _Track) -> float:
        """How long a live group has been silent while others spoke (s), by arrivals: groups' clocks may be apart."""
        if self._last_arrival is None or track.last_arrival is None:
            return 0.0
        return self._last_arrival - track.last_arrival

    def _forget_others(self, spoken: _Track, anew: bool) -> None:
        """Drop groups that are silent for as long as the memory reaches, and where the clock jumped back (`anew`)
        those of the time that is now to come."""
        for name, track in list(self._tracks.items()):
            newest = track.states.latest()
            ahead = newest.stamp - spoken.states.entries[-1].stamp if newest is not None else 0.0
            if self._silent(track) > self._keep or (anew and ahead > CLOCK_JUMP):
                for memory in (self._tracks, self._truth, self._truth_graph):
                    memory.pop(name, None)

    def _speaking(self) -> list[_Track]:
        """The groups that have not fallen silent; all of a recording."""
        return [track for track in self._heard() if self._silent(track) <= GONE_AFTER]

    def _groups(self, at: float | None) -> list[Group]:
        """Every group at a time: those of which there are states by then, and that have not fallen silent."""
        tracks = self._speaking() if at is None else self._heard()
        found = [group for track in tracks if (group := track.group(at, self._trail_seconds)) is not None]
        if at is None:
            return found
        newest = max((group.states.stamp for group in found), default=0.0)
        return [group for group in found if newest - group.states.stamp <= GONE_AFTER]

    def _errors(self, states: States) -> Floats | None:
        """f8[A] distance to the truth (m) at the stamp of the states, NaN where unknown; None without truth then."""
        frames = _of_group(self._truth, states.group)
        near = frames.around(states.stamp) if frames else []
        truth = truth_at(near, states.stamp, states.names, SCORE_TOLERANCE)
        return None if truth is None else np.linalg.norm(states.positions - truth, axis=1)

    def _score(self, track: _Track, to_the_end: bool = False) -> None:
        """Score every state whose stamp the truth has reached, or that has no truth."""
        while track.unscored:
            states = track.unscored[0]
            frames = _of_group(self._truth, states.group)
            newest = frames.latest() if frames else None
            early = newest is not None and newest.stamp < states.stamp - SCORE_TOLERANCE
            if early and len(track.unscored) < UNSCORED_MEMORY and not to_the_end:
                return
            track.unscored.popleft()
            track.score(states, self._errors(states))

    def _rows(self, group: Group) -> list[AgentRow]:
        states, errors = group.states, None
        for known in reversed(self._tracks[states.group].recent(states.stamp)):  # the truth may come a little later
            if known.names != states.names:
                break
            errors = self._errors(known)
            if errors is not None:
                break
        if errors is None:
            errors = np.full(len(states.names), np.nan)
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

    def _right_edges(self, groups: list[Group]) -> tuple[float | None, float | None]:
        """Percent of right edges: between agents that are both seen, and where at least one is hidden."""
        right: dict[bool, list[NDArray[np.bool_]]] = {False: [], True: []}
        for group in groups:
            heard = _of_group(self._truth_graph, group.states.group)
            # the first true graph counts for the time before it too: it comes once a second only
            true = (heard.latest(group.states.stamp) or heard.entries[0]) if heard and len(heard) else None
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


class _Track:
    """What was heard of one group."""

    def __init__(self, keep: float) -> None:
        self.states: Series[States] = Series(keep)
        self.graphs: Series[Graph] = Series(keep)
        self.forecasts: Series[Paths] = Series(keep)
        self.windows: Series[Paths] = Series(keep)
        self.scores = Scores(keep)
        self.last_arrival: float | None = None  # steady clock (s)
        self.unscored: deque[States] = deque()
        self._figures: dict[tuple[str, ...], Figure] = {}
        self._hidden: set[str] = set()

    def add(self, states: States, bones: tuple[Bone, ...]) -> bool:
        """Take newer states; False where they came too late."""
        newest = self.states.latest()
        if not self.states.add(states):
            return False
        if newest is not None and states.stamp < newest.stamp:  # the stream started anew
            self.unscored.clear()
            self.scores.clear()
        positions = states.positions[states.drawable]
        figure = self._figures.get(tuple(states.names))
        if figure is None:
            pairs = bone_indices(states.names, bones)
            radius = agent_radius(positions, bool(pairs))
            ground = float(positions[:, 2].min()) - radius if len(positions) else 0.0
            figure = self._figures[tuple(states.names)] = Figure(pairs, radius, ground, extent=10.0 * radius)
        if len(positions):
            reach = np.linalg.norm(positions - positions.mean(axis=0), axis=1).max()
            figure.extent = max(figure.extent, float(reach))
        self.unscored.append(states)
        return True

    def score(self, states: States, errors: Floats | None) -> None:
        """Note what the curves need of states with the distances f8[A] to the truth (m), None where unknown."""
        hidden = {name for name, lost in zip(states.names, states.hidden, strict=True) if lost}
        before = Score(*self.scores.rows[-1]) if len(self.scores) else None
        again = before is not None and before.stamp == states.stamp and before.lost  # a stream that stands still
        self.scores.add(
            Score(
                stamp=states.stamp,
                error=math.nan if errors is None else 100 * _rms(errors[states.hidden]),
                position_95=100 * _rms(states.position_95[states.hidden]),
                latency=1000 * states.latency,
                hidden=len(hidden),
                lost=bool(hidden - self._hidden or again),
            )
        )
        self._hidden = hidden

    def recent(self, stamp: float) -> list[States]:
        """States of the last seconds before a stamp, in order."""
        return self.states.between(stamp - RATE_WINDOW, stamp)

    def group(self, at: float | None, trail_seconds: float) -> Group | None:
        """The group at a time, None where there are no states by then."""
        states = self.states.latest(math.inf if at is None else at)
        if states is None:
            return None
        until = math.inf if at is None else states.stamp  # now: whichever of an estimate's messages came first
        trail: deque[States] = deque()
        for earlier in reversed(self.states.between(states.stamp - trail_seconds, states.stamp)):
            if trail and (trail[0].stamp - earlier.stamp > TRAIL_GAP or earlier.names != states.names):
                break
            trail.appendleft(earlier)
        return Group(
            states,
            self._figures[tuple(states.names)],
            list(trail),
            self.graphs.latest(until),
            self.forecasts.latest(until),
            self.windows.latest(until),
        )


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


def _source(shown: list[States]) -> str:
    """Groups, bundles and frames, each once."""
    parts = ([s.group for s in shown], [s.bundle for s in shown], [f"frame {s.frame_id}" for s in shown if s.frame_id])
    return " · ".join(filter(None, (", ".join(dict.fromkeys(filter(None, part))) for part in parts)))


def _rate(recent: list[States]) -> float:
    span = recent[-1].stamp - recent[0].stamp if len(recent) > 1 else 0.0
    return (len(recent) - 1) / span if span > 0 else 0.0
