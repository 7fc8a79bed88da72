"""What to draw and what to say about the latest outputs of the node: numpy only, no ROS, no browser.

`SceneState` is given messages (as the small dataclasses below) in any order and from any thread, keeps a bounded
memory of them, and answers with a `Scene` of arrays ready to draw and a `Summary` for the side panel. It never waits and
never grows: the latest message of each kind wins.

Shapes use A agents, T window times, H forecast steps, K edge types. Units are metres and seconds, z up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from siha_ros.viewer.skeletons import CMU_BONES, Bone, bone_indices, chain_ends
from siha_ros.window.types import Status

Floats = NDArray[np.float64]
Colours = NDArray[np.uint8]

# Okabe and Ito's palette: told apart with any common colour blindness, on a light background.
STATUS_COLOURS: dict[Status, tuple[int, int, int]] = {
    Status.UNKNOWN: (170, 170, 170),
    Status.VISIBLE: (0, 114, 178),
    Status.BRIDGED: (86, 180, 233),
    Status.HIDDEN: (213, 94, 0),
    Status.WARMING_UP: (0, 158, 115),
    Status.STALE: (120, 120, 120),
}
EDGE_COLOUR = (71, 85, 105)
EDGE_HIDDEN_COLOUR = (204, 121, 167)
BONE_COLOUR = (84, 132, 172)
TRUTH_COLOUR = (30, 30, 30)
BACKGROUND = (255, 255, 255)

CROWD = 12  # above this many agents only hidden ones and chain ends get trails, forecasts and names
CLOCK_JUMP = 1.0  # stamps going back by more than this (s) mean that the stream started anew
TRUTH_MEMORY = 600  # truth frames kept, enough for 5 s at 120 Hz
UNSCORED_MEMORY = 100  # states that wait for the truth around their stamp
RATE_WINDOW = 3.0  # time over which the rate is counted (s)
SILENCE = 2.0  # without a message for this long (s) the view says so


@dataclass(frozen=True)
class States:
    """The state of every agent of a group at one time (ReconstructedStates).

    Attributes:
        stamp: newest grid time (s).
        names: [A] agent names; status: int8[A] values of Status; reason: [A] one line each, "" for none.
        positions: f8[A, 3] (m); position_95: f8[A] radius (m); since_seen: f8[A] (s), -1 where never seen.
        latency: from the arrival of the newest observation to the message (s).
    """

    stamp: float
    group: str
    names: list[str]
    status: NDArray[np.int8]
    reason: list[str]
    positions: Floats
    position_95: Floats
    since_seen: Floats
    latency: float = 0.0
    bundle: str = ""


@dataclass(frozen=True)
class Paths:
    """Positions of some agents at many times: a forecast, or the window of the hidden agents.

    Attributes:
        times: f8[T] (s); names: [A]; positions: f8[A, T, 3] (m); covariance: f8[A, T, 3, 3] (m^2).
    """

    stamp: float
    group: str
    names: list[str]
    times: Floats
    positions: Floats
    covariance: Floats


@dataclass(frozen=True)
class Graph:
    """Who influences whom: f8[A, A] probability that the row's agent acts on the column's (type 1 of the message)."""

    stamp: float
    group: str
    names: list[str]
    probability: Floats


@dataclass(frozen=True)
class Truth:
    """True positions f8[A, 3] (m) of agents, known only in simulations and recordings."""

    stamp: float
    group: str
    names: list[str]
    positions: Floats


@dataclass(frozen=True)
class View:
    """What the user wants to see.

    Attributes:
        threshold: edges below this probability are not drawn.
        focus: name of the one agent whose edges are drawn, None for all.
    """

    trails: bool = True
    bones: bool = True
    edges: bool = True
    forecast: bool = True
    spread: bool = True
    truth: bool = True
    names: bool = True
    threshold: float = 0.5
    focus: str | None = None


@dataclass
class Spheres:
    """N balls: positions f8[N, 3] (m), radii f8[N] (m), colours u8[N, 3], opacities f8[N]."""

    positions: Floats
    radii: Floats
    colours: Colours
    opacities: Floats


@dataclass
class Tubes:
    """N straight tubes: starts and ends f8[N, 3] (m), radii f8[N] (m), colours u8[N, 3], opacities f8[N]."""

    starts: Floats
    ends: Floats
    radii: Floats
    colours: Colours
    opacities: Floats


@dataclass
class Lines:
    """N line segments: points f8[N, 2, 3] (m), colours u8[N, 2, 3]."""

    points: Floats
    colours: Colours


@dataclass
class Ribbons:
    """Flat bands: vertices f8[V, 3] (m), triangles i8[F, 3]."""

    vertices: Floats
    faces: NDArray[np.int64]


@dataclass
class Label:
    """A name tag at a position f8[3] (m)."""

    text: str
    position: Floats


@dataclass
class Scene:
    """Everything to draw for one frame; empty arrays where there is nothing.

    Attributes:
        spread: balls that hold a hidden agent with 95 %.
        edges: each half tube from the sender to the middle of the edge, so that a one-way influence is a half tube.
        ribbons: forecasts as bands one standard deviation wide on each side: of seen and of hidden agents.
        ghosts, ghost_bones, misses: the truth of agents that are not seen, and the way from the estimate to it.
        labels: by a key that stays the same from frame to frame.
        centre: f8[3] middle of all agents (m); ground: height of the ground (m); extent: radius of the whole scene (m).
    """

    agents: Spheres
    spread: Spheres
    bones: Tubes
    edges: Tubes
    trails: Lines
    forecast: Lines
    ribbons_seen: Ribbons
    ribbons_hidden: Ribbons
    ghosts: Spheres
    ghost_bones: Tubes
    misses: Lines
    labels: dict[str, Label]
    centre: Floats
    ground: float
    extent: float


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
        rate: states per second and group (Hz); latency: median of the last seconds (ms).
        agents: number of agents in all groups; rows: the agents that are not plainly visible.
        error: root mean square error of the hidden agents (cm), None without truth or hidden agents.
        graph_accuracy: percent of right edges between seen agents, and of those that touch a hidden one; None if unknown.
    """

    silent: float | None
    bundle: str
    rate: float
    latency: float
    agents: int
    rows: list[AgentRow]
    error: float | None
    graph_accuracy: tuple[float | None, float | None]


@dataclass
class History:
    """Curves over the last seconds, f8[N] each, NaN where there is no value.

    Attributes:
        age: time before the newest stamp (s), negative, increasing; error: rms of the hidden agents (cm);
        position_95: rms of the hidden agents' 95 % radius (cm); latency: (ms).
    """

    age: Floats
    error: Floats
    position_95: Floats
    latency: Floats


@dataclass
class _Group:
    """Memory of one team or body."""

    states: States
    bones: list[tuple[int, int]]
    radius: float
    ground: float
    extent: float
    trail: deque[tuple[float, Floats, NDArray[np.int8]]] = field(default_factory=deque)
    graph: Graph | None = None
    forecast: Paths | None = None
    window: Paths | None = None
    unscored: deque[States] = field(default_factory=lambda: deque(maxlen=UNSCORED_MEMORY))
    errors: Floats | None = None  # f8[A] (m) of the newest scored states, NaN where the truth lacks the agent
    history: deque[tuple[float, float, float, float]] = field(default_factory=deque)
    arrivals: deque[float] = field(default_factory=deque)


class SceneState:
    """The latest of everything, and what to draw of it. Every method may be called from any thread."""

    def __init__(
        self, bones: Iterable[Bone] = CMU_BONES, trail_seconds: float = 4.0, history_seconds: float = 30.0
    ) -> None:
        """Take the bones to draw between joints of these names, and how long trails and curves reach back (s)."""
        self._bones = tuple(bones)
        self._trail_seconds = trail_seconds
        self._history_seconds = history_seconds
        self._groups: dict[str, _Group] = {}
        self._truth: dict[str, deque[Truth]] = {}
        self._truth_graph: dict[str, Graph] = {}
        self._last_arrival: float | None = None
        self._lock = threading.Lock()

    def add_states(self, states: States, arrival: float) -> None:
        """Take the newest states of a group; `arrival` is a steady clock's time (s)."""
        with self._lock:
            group = self._groups.get(states.group)
            if group is None or group.states.names != states.names:
                group = self._groups[states.group] = self._new_group(states)
            elif states.stamp < group.states.stamp - CLOCK_JUMP:
                self._truth.pop(states.group, None)
                group = self._groups[states.group] = self._new_group(states)
            elif states.stamp < group.states.stamp:
                return
            group.states = states
            self._last_arrival = arrival
            group.arrivals.append(arrival)
            while group.arrivals[0] < arrival - RATE_WINDOW:
                group.arrivals.popleft()
            group.trail.append((states.stamp, states.positions, states.status))
            while group.trail[0][0] < states.stamp - self._trail_seconds:
                group.trail.popleft()
            drawn = _drawable(states)
            if drawn.any():
                centre = states.positions[drawn].mean(axis=0)
                reach = float(np.linalg.norm(states.positions[drawn] - centre, axis=1).max())
                group.extent = max(group.extent, reach)
            group.unscored.append(states)
            self._score(group)

    def add_trajectories(self, window: Paths) -> None:
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
        """Take true positions; they need no order with the states, errors wait until the truth spans their stamp."""
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
            if not self._groups:
                return None
            parts = [self._draw(group, view) for group in self._groups.values()]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def names(self) -> list[str]:
        """All agent names, in the order of the messages."""
        with self._lock:
            return list(dict.fromkeys(name for group in self._groups.values() for name in group.states.names))

    def summary(self, now: float) -> Summary:
        """What the side panel says at the steady clock's time `now` (s)."""
        with self._lock:
            groups = list(self._groups.values())
            rows = [row for group in groups for row in self._rows(group) if row.status != Status.VISIBLE]
            rates = [_rate(group.arrivals, now) for group in groups]
            latencies = [entry[3] for group in groups for entry in group.history if not np.isnan(entry[3])]
            errors = np.array([row.error for row in rows if row.status == Status.HIDDEN and row.error is not None])
            return Summary(
                silent=None if self._last_arrival is None else max(now - self._last_arrival, 0.0),
                bundle=", ".join(dict.fromkeys(group.states.bundle for group in groups if group.states.bundle)),
                rate=float(np.mean(rates)) if rates else 0.0,
                latency=float(np.median(latencies[-100:])) if latencies else 0.0,
                agents=sum(len(group.states.names) for group in groups),
                rows=rows,
                error=float(np.sqrt(np.mean(errors**2))) if len(errors) else None,
                graph_accuracy=self._graph_accuracy(groups),
            )

    def history(self) -> History:
        """Error, stated spread and latency over the last seconds, of the first group."""
        with self._lock:
            group = next(iter(self._groups.values()), None)
            if group is None or not group.history:
                return History(*(np.empty(0) for _ in range(4)))
            table = np.array(group.history)
        return History(table[:, 0] - table[-1, 0], table[:, 1], table[:, 2], table[:, 3])

    def _new_group(self, states: States) -> _Group:
        bones = bone_indices(states.names, self._bones)
        drawn = states.positions[_drawable(states)]
        radius = _agent_radius(drawn, bool(bones))
        ground = float(drawn[:, 2].min()) - radius if len(drawn) else 0.0
        return _Group(states=states, bones=bones, radius=radius, ground=ground, extent=10.0 * radius)

    def _truth_of(self, group: str) -> deque[Truth] | None:
        """The truth of the group of that name, or of the only group there is truth for."""
        if group in self._truth:
            return self._truth[group]
        return next(iter(self._truth.values())) if len(self._truth) == 1 else None

    def _score(self, group: _Group) -> None:
        """Give a place in the history to every state whose stamp the truth has reached, or that has no truth."""
        frames = self._truth_of(group.states.group)
        while group.unscored:
            states = group.unscored[0]
            if frames and states.stamp > frames[-1].stamp + 1e-6 and len(group.unscored) < UNSCORED_MEMORY:
                return
            group.unscored.popleft()
            truth = _truth_at(frames, states.stamp, states.names) if frames else None
            errors = None if truth is None else np.linalg.norm(states.positions - truth, axis=1)
            hidden = states.status == Status.HIDDEN
            group.errors = errors
            group.history.append(
                (
                    states.stamp,
                    np.nan if errors is None else 100 * _rms(errors[hidden]),
                    100 * _rms(states.position_95[hidden]),
                    1000 * states.latency,
                )
            )
            while group.history[0][0] < states.stamp - self._history_seconds:
                group.history.popleft()

    def _rows(self, group: _Group) -> list[AgentRow]:
        states = group.states
        errors = group.errors if group.errors is not None else np.full(len(states.names), np.nan)
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

    def _graph_accuracy(self, groups: list[_Group]) -> tuple[float | None, float | None]:
        seen: list[NDArray[np.bool_]] = []
        touching: list[NDArray[np.bool_]] = []
        for group in groups:
            true = self._truth_graph.get(group.states.group)
            if true is None and len(self._truth_graph) == 1:
                true = next(iter(self._truth_graph.values()))
            if true is None or group.graph is None or set(true.names) != set(group.graph.names):
                continue
            order = [true.names.index(name) for name in group.graph.names]
            right = (true.probability[np.ix_(order, order)] > 0.5) == (group.graph.probability > 0.5)
            status = dict(zip(group.states.names, group.states.status, strict=True))
            hidden = np.array([status.get(name) == Status.HIDDEN for name in group.graph.names])
            off_diagonal = ~np.eye(len(hidden), dtype=bool)
            either = hidden[:, None] | hidden[None, :]
            seen.append(right[off_diagonal & ~either])
            touching.append(right[off_diagonal & either])
        return _percent(seen), _percent(touching)

    def _draw(self, group: _Group, view: View) -> Scene:
        states = group.states
        drawn = _drawable(states)
        index = np.flatnonzero(drawn)
        hidden = drawn & (states.status == Status.HIDDEN)
        colours = status_colours(states.status)
        crowd = len(states.names) > CROWD
        ends = chain_ends(len(states.names), group.bones)
        marked = [int(i) for i in index if not crowd or hidden[i] or i in ends or states.names[i] == view.focus]
        radii = np.full(len(states.names), group.radius)

        truth = None
        if view.truth:
            frames = self._truth_of(states.group)
            truth = _truth_at(frames, states.stamp, states.names, tolerance=0.2) if frames else None
        ghosts = np.zeros(len(drawn), dtype=bool)
        if truth is not None:
            ghosts = drawn & (states.status != Status.VISIBLE) & np.isfinite(truth).all(axis=1)
        true_positions = states.positions if truth is None else truth
        bones = [(a, b) for a, b in group.bones if drawn[a] and drawn[b]] if view.bones else []
        missed_bones = [(a, b) for a, b in bones if (ghosts[a] or ghosts[b])] if ghosts.any() else []
        whole = np.where(ghosts[:, None], true_positions, states.positions)

        return Scene(
            agents=Spheres(states.positions[index], radii[index], colours[index], np.ones(len(index))),
            spread=_spread(states, hidden) if view.spread else _no_spheres(),
            bones=_bone_tubes(states.positions, bones, hidden, 0.55 * group.radius, colours),
            edges=self._edges(group, view, hidden, drawn) if view.edges else _no_tubes(),
            trails=self._trails(group, marked, hidden) if view.trails else _no_lines(),
            forecast=_forecast_lines(group, marked, colours) if view.forecast else _no_lines(),
            ribbons_seen=_ribbons(group, [i for i in marked if not hidden[i]], view),
            ribbons_hidden=_ribbons(group, [i for i in marked if hidden[i]], view),
            ghosts=Spheres(
                true_positions[ghosts], 0.9 * radii[ghosts], _colour(TRUTH_COLOUR, ghosts.sum()), np.ones(ghosts.sum())
            ),
            ghost_bones=_tubes(whole, missed_bones, 0.45 * group.radius, TRUTH_COLOUR),
            misses=Lines(
                np.stack([states.positions[ghosts], true_positions[ghosts]], axis=1),
                np.full((int(ghosts.sum()), 2, 3), TRUTH_COLOUR, dtype=np.uint8),
            ),
            labels=_labels(group, marked, hidden, crowd, view.focus) if view.names else {},
            centre=states.positions[index].mean(axis=0) if len(index) else np.zeros(3),
            ground=group.ground,
            extent=group.extent,
        )

    def _edges(self, group: _Group, view: View, hidden: NDArray[np.bool_], drawn: NDArray[np.bool_]) -> Tubes:
        if group.graph is None:
            return _no_tubes()
        states = group.states
        place = {name: i for i, name in enumerate(states.names)}
        kept = [k for k, name in enumerate(group.graph.names) if name in place and drawn[place[name]]]
        where = np.array([place[group.graph.names[k]] for k in kept], dtype=int)
        probability = group.graph.probability[np.ix_(kept, kept)]
        wanted = probability >= max(view.threshold, 1e-6)
        np.fill_diagonal(wanted, False)
        touching = hidden[where][:, None] | hidden[where][None, :]
        if view.focus is not None and view.focus in place:
            focus = where == place[view.focus]
            wanted &= focus[:, None] | focus[None, :]
        elif len(states.names) > CROWD:
            wanted &= touching
        sender, receiver = np.nonzero(wanted)
        start = states.positions[where[sender]]
        strength = probability[sender, receiver]
        of_hidden = touching[sender, receiver]
        return Tubes(
            starts=start,
            ends=0.5 * (start + states.positions[where[receiver]]),
            radii=group.radius * (0.08 + 0.14 * strength),
            colours=np.where(of_hidden[:, None], EDGE_HIDDEN_COLOUR, EDGE_COLOUR).astype(np.uint8),
            opacities=0.15 + 0.75 * strength**2,
        )

    def _trails(self, group: _Group, marked: list[int], hidden: NDArray[np.bool_]) -> Lines:
        """Where agents came from, fading with age; of a hidden agent the path that the model now believes."""
        points: list[Floats] = []
        colours: list[Colours] = []
        if len(group.trail) >= 2 and marked:
            stamps = np.array([stamp for stamp, _, _ in group.trail])
            positions = np.stack([position[marked] for _, position, _ in group.trail], axis=1)
            status = np.stack([status[marked] for _, _, status in group.trail], axis=1)
            freshness = 1 - (group.states.stamp - stamps) / self._trail_seconds
            window = group.window
            for row, i in enumerate(marked):
                name = group.states.names[i]
                if hidden[i] and window is not None and name in window.names:
                    recent = window.times > group.states.stamp - self._trail_seconds
                    path = window.positions[window.names.index(name)][recent]
                    tint = np.full((len(path), 3), STATUS_COLOURS[Status.HIDDEN])
                    fresh = 1 - (group.states.stamp - window.times[recent]) / self._trail_seconds
                else:
                    path, tint, fresh = positions[row], status_colours(status[row]), freshness
                line, colour = _strip(path, _faded(tint, 0.75 * fresh))
                points.append(line)
                colours.append(colour)
        return Lines(np.concatenate(points), np.concatenate(colours)) if points else _no_lines()


def status_colours(status: NDArray[np.int8]) -> Colours:
    """u8[..., 3] colour of each status."""
    table = np.array([STATUS_COLOURS[Status(value)] for value in range(len(Status))], dtype=np.uint8)
    return table[np.clip(status, 0, len(table) - 1)]


def _drawable(states: States) -> NDArray[np.bool_]:
    """bool[A]: agents with a place; one that was never seen has none."""
    return (states.status != Status.UNKNOWN) & np.isfinite(states.positions).all(axis=1)


def _agent_radius(positions: Floats, body: bool) -> float:
    """Radius of the balls (m): a share of the usual distance to the nearest neighbour, so that they stay apart."""
    if body:
        return 0.03
    if len(positions) < 2:
        return 0.15
    distance = np.linalg.norm(positions[:, None] - positions[None, :], axis=2)
    np.fill_diagonal(distance, np.inf)
    return float(np.clip(0.16 * np.median(distance.min(axis=1)), 0.02, 0.25))


def _truth_at(
    frames: Iterable[Truth] | None, stamp: float, names: list[str], tolerance: float = 1e-6
) -> Floats | None:
    """f8[A, 3] true positions at `stamp`, linear between frames, NaN for agents without; None outside the frames.

    Outside of the frames by no more than `tolerance` (s), the nearest one counts.
    """
    frames = list(frames or ())
    if not frames:
        return None
    stamps = np.array([frame.stamp for frame in frames])
    if stamp < stamps[0] - tolerance or stamp > stamps[-1] + tolerance:
        return None
    right = int(np.clip(np.searchsorted(stamps, stamp), 1, max(len(frames) - 1, 1)))
    before, after = frames[right - 1], frames[min(right, len(frames) - 1)]
    gap = after.stamp - before.stamp
    weight = float(np.clip((stamp - before.stamp) / gap, 0, 1)) if gap > 0 else 0.0
    between = (1 - weight) * before.positions + weight * after.positions
    index = {name: i for i, name in enumerate(after.names)}
    truth = np.full((len(names), 3), np.nan)
    for row, name in enumerate(names):
        if name in index:
            truth[row] = between[index[name]]
    return truth


def _rms(values: Floats) -> float:
    values = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(values**2))) if len(values) else float("nan")


def _percent(parts: list[NDArray[np.bool_]]) -> float | None:
    right = np.concatenate(parts) if parts else np.empty(0, dtype=bool)
    return 100 * float(right.mean()) if len(right) else None


def _rate(arrivals: deque[float], now: float) -> float:
    recent = [arrival for arrival in arrivals if arrival >= now - RATE_WINDOW]
    span = recent[-1] - recent[0] if len(recent) > 1 else 0.0
    return (len(recent) - 1) / span if span > 0 else 0.0


def _colour(colour: tuple[int, int, int], count: int) -> Colours:
    return np.tile(np.array(colour, dtype=np.uint8), (int(count), 1))


def _faded(colours: NDArray[np.generic], strength: Floats) -> Colours:
    """Mix colours [N, 3] with the background: strength 1 is the colour, 0 the background."""
    weight = np.clip(strength, 0, 1)[:, None]
    return (weight * np.asarray(colours, dtype=float) + (1 - weight) * np.array(BACKGROUND)).astype(np.uint8)


def _strip(path: Floats, colours: Colours) -> tuple[Floats, Colours]:
    """Points [N, 3] joined to segments [N - 1, 2, 3], with their colours."""
    return np.stack([path[:-1], path[1:]], axis=1), np.stack([colours[:-1], colours[1:]], axis=1)


def _spread(states: States, hidden: NDArray[np.bool_]) -> Spheres:
    return Spheres(
        states.positions[hidden],
        states.position_95[hidden],
        _colour(STATUS_COLOURS[Status.HIDDEN], hidden.sum()),
        np.ones(hidden.sum()),
    )


def _tubes(positions: Floats, pairs: list[tuple[int, int]], radius: float, colour: tuple[int, int, int]) -> Tubes:
    index = np.array(pairs, dtype=int).reshape(-1, 2)
    return Tubes(
        positions[index[:, 0]],
        positions[index[:, 1]],
        np.full(len(index), radius),
        _colour(colour, len(index)),
        np.ones(len(index)),
    )


def _bone_tubes(
    positions: Floats, pairs: list[tuple[int, int]], hidden: NDArray[np.bool_], radius: float, colours: Colours
) -> Tubes:
    tubes = _tubes(positions, pairs, radius, BONE_COLOUR)
    for row, (a, b) in enumerate(pairs):
        if hidden[a] or hidden[b]:
            tubes.colours[row] = colours[a] if hidden[a] else colours[b]
    return tubes


def _forecast_of(group: _Group, marked: list[int]) -> list[tuple[int, Floats, Floats]]:
    """(agent, path f8[H + 1, 3] from where it is now, covariance f8[H, 3, 3]) of each marked agent with a forecast."""
    forecast = group.forecast
    if forecast is None:
        return []
    place = {name: i for i, name in enumerate(forecast.names)}
    ahead = forecast.times > group.states.stamp
    found = []
    for i in marked:
        row = place.get(group.states.names[i])
        if row is not None and ahead.any():
            path = np.concatenate([group.states.positions[i : i + 1], forecast.positions[row][ahead]])
            found.append((i, path, forecast.covariance[row][ahead]))
    return found


def _forecast_lines(group: _Group, marked: list[int], colours: Colours) -> Lines:
    points, tints = [], []
    for i, path, _ in _forecast_of(group, marked):
        line, tint = _strip(path, _faded(np.tile(colours[i], (len(path), 1)), np.linspace(0.9, 0.25, len(path))))
        points.append(line)
        tints.append(tint)
    return Lines(np.concatenate(points), np.concatenate(tints)) if points else _no_lines()


def _ribbons(group: _Group, marked: list[int], view: View) -> Ribbons:
    """Bands along the forecasts, level with the ground, one standard deviation wide on each side."""
    vertices: list[Floats] = []
    faces: list[NDArray[np.int64]] = []
    offset = 0
    for _, path, covariance in _forecast_of(group, marked) if view.forecast else []:
        along = np.gradient(path, axis=0)
        across = np.stack([-along[:, 1], along[:, 0], np.zeros(len(path))], axis=1)
        length = np.linalg.norm(across, axis=1, keepdims=True)
        across = np.where(length > 1e-9, across / np.maximum(length, 1e-9), [0.0, 1.0, 0.0])
        variance = np.einsum("hi,hij,hj->h", across[1:], covariance, across[1:])
        width = np.concatenate([[0.0], np.sqrt(np.maximum(variance, 0.0))])[:, None]
        vertices.append(np.stack([path - width * across, path + width * across], axis=1).reshape(-1, 3))
        step = 2 * np.arange(len(path) - 1)[:, None, None]
        faces.append((offset + step + np.array([[0, 1, 2], [1, 3, 2]])).reshape(-1, 3))
        offset += 2 * len(path)
    if not vertices:
        return Ribbons(np.empty((0, 3)), np.empty((0, 3), dtype=np.int64))
    return Ribbons(np.concatenate(vertices), np.concatenate(faces))


def _labels(
    group: _Group, marked: list[int], hidden: NDArray[np.bool_], crowd: bool, focus: str | None
) -> dict[str, Label]:
    """Name tags; a crowd's would cover the picture, so there only hidden chain ends and the focus are named."""
    states = group.states
    ends = chain_ends(len(states.names), group.bones)
    labels = {}
    for i in marked:
        name = states.names[i]
        if crowd and name != focus and not (hidden[i] and (i in ends or not group.bones)):
            continue
        text = name
        if hidden[i]:
            text += f" · hidden {max(states.since_seen[i], 0):.0f} s · ±{100 * states.position_95[i]:.0f} cm"
        labels[f"{states.group}/{i}"] = Label(text, states.positions[i] + [0, 0, 1.5 * group.radius])
    return labels


def _no_spheres() -> Spheres:
    return Spheres(np.empty((0, 3)), np.empty(0), np.empty((0, 3), dtype=np.uint8), np.empty(0))


def _no_tubes() -> Tubes:
    return Tubes(np.empty((0, 3)), np.empty((0, 3)), np.empty(0), np.empty((0, 3), dtype=np.uint8), np.empty(0))


def _no_lines() -> Lines:
    return Lines(np.empty((0, 2, 3)), np.empty((0, 2, 3), dtype=np.uint8))


def _joined(parts: list[Scene]) -> Scene:
    """One scene of several groups."""

    def join(name: str) -> object:
        pieces = [getattr(part, name) for part in parts]
        fields = vars(pieces[0])
        return type(pieces[0])(**{key: np.concatenate([getattr(piece, key) for piece in pieces]) for key in fields})

    def join_ribbons(name: str) -> Ribbons:
        pieces: list[Ribbons] = [getattr(part, name) for part in parts]
        starts = np.cumsum([0] + [len(piece.vertices) for piece in pieces[:-1]])
        return Ribbons(
            np.concatenate([piece.vertices for piece in pieces]),
            np.concatenate([piece.faces + start for piece, start in zip(pieces, starts, strict=True)]),
        )

    arrays = ("agents", "spread", "bones", "edges", "trails", "forecast", "ghosts", "ghost_bones", "misses")
    centre = np.mean([part.centre for part in parts], axis=0)
    return Scene(
        **{name: join(name) for name in arrays},  # type: ignore[arg-type]
        ribbons_seen=join_ribbons("ribbons_seen"),
        ribbons_hidden=join_ribbons("ribbons_hidden"),
        labels={key: label for part in parts for key, label in part.labels.items()},
        centre=centre,
        ground=min(part.ground for part in parts),
        extent=max(float(np.linalg.norm(part.centre - centre)) + part.extent for part in parts),
    )
