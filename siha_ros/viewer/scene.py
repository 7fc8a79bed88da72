"""What one frame looks like: balls, tubes, lines and bands as arrays, made from what was heard; numpy only.

Units are metres, z up; colours are u8 sRGB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siha_ros.viewer.memory import Agent, Floats, Group, States
from siha_ros.viewer.skeletons import chain_ends
from siha_ros.window.types import Status

Colours = NDArray[np.uint8]
Colour = tuple[int, int, int]

# Okabe and Ito's palette: told apart with any common colour blindness, on a light background.
STATUS_COLOURS: dict[Status, Colour] = {
    Status.UNKNOWN: (170, 170, 170),
    Status.VISIBLE: (0, 114, 178),
    Status.BRIDGED: (86, 180, 233),
    Status.HIDDEN: (213, 94, 0),
    Status.WARMING_UP: (0, 158, 115),
    Status.STALE: (120, 120, 120),
}
EDGE_COLOUR: Colour = (84, 98, 120)
EDGE_HIDDEN_COLOUR: Colour = (204, 121, 167)
BONE_COLOUR: Colour = (92, 140, 180)
TRUTH_COLOUR: Colour = (40, 44, 52)
BACKGROUND: Colour = (255, 255, 255)

CROWD = 12  # above this many agents only one hidden one of a limb and the ends of limbs get trails, forecasts and names
CROWD_EDGES = 3  # and only so many of the strongest influences on each hidden agent are drawn


@dataclass(frozen=True)
class View:
    """What the user wants to see.

    Attributes:
        threshold: edges are drawn whose probability is over this.
        focus: the one agent whose edges are drawn, None for all.
    """

    trails: bool = True
    bones: bool = True
    edges: bool = True
    forecast: bool = True
    spread: bool = True
    truth: bool = True
    names: bool = True
    threshold: float = 0.5
    focus: Agent | None = None


@dataclass
class Balls:
    """N balls: positions f8[N, 3] (m), radii f8[N] (m), colours u8[N, 3]."""

    positions: Floats
    radii: Floats
    colours: Colours


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
class Bands:
    """Flat bands: vertices f8[V, 3] (m), triangles i8[F, 3]."""

    vertices: Floats
    triangles: NDArray[np.int64]


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
        edges: from the sender to the receiver.
        bands_seen, bands_hidden: forecasts of seen and of hidden agents, one standard deviation wide on each side.
        ghosts, ghost_bones, misses: the truth of agents that are not seen, and the way from the estimate to it.
        labels: by a key that stays the same from frame to frame; names: which agents the balls are.
        centre: f8[3] middle of all agents (m); ground: height of the ground (m); extent: radius of the whole (m).
    """

    agents: Balls
    spread: Balls
    ghosts: Balls
    bones: Tubes
    ghost_bones: Tubes
    edges: Tubes
    trails: Lines
    forecast: Lines
    misses: Lines
    bands_seen: Bands
    bands_hidden: Bands
    labels: dict[str, Label]
    names: list[Agent]
    centre: Floats
    ground: float
    extent: float


def draw_group(group: Group, truth: Floats | None, view: View, trail_seconds: float) -> Scene:
    """One team or body as a scene; `truth` f8[A, 3] (m) is NaN for agents without."""
    states = group.states
    drawn = states.drawable
    hidden = drawn & states.hidden
    ghost = np.zeros(len(drawn), dtype=bool)
    if truth is not None and view.truth:
        ghost = drawn & (states.status != Status.VISIBLE) & np.isfinite(truth).all(axis=1)
    true_positions = states.positions if truth is None else np.where(ghost[:, None], truth, states.positions)
    marked = _marked(group, view)
    marked_seen, marked_hidden = [i for i in marked if not hidden[i]], [i for i in marked if hidden[i]]
    bones = [(a, b) for a, b in group.figure.bones if drawn[a] and drawn[b]] if view.bones else []

    return Scene(
        agents=_balls(states.positions[drawn], group.figure.radius, status_colours(states.status[drawn])),
        spread=_spread(states, hidden) if view.spread else _no_balls(),
        ghosts=_balls(true_positions[ghost], 0.95 * group.figure.radius, TRUTH_COLOUR),
        bones=_bones(states, bones, 0.6 * group.figure.radius),
        ghost_bones=_tubes(true_positions, [b for b in bones if ghost[b[0]] or ghost[b[1]]], 0.5 * group.figure.radius),
        edges=_edges(group, view) if view.edges else _no_tubes(),
        trails=_trails(group, marked, trail_seconds) if view.trails else _no_lines(),
        forecast=_forecast_lines(group, marked) if view.forecast else _no_lines(),
        misses=Lines(np.stack([states.positions[ghost], true_positions[ghost]], axis=1), _truth_tint(ghost.sum())),
        bands_seen=_bands(group, marked_seen) if view.forecast else _no_bands(),
        bands_hidden=_bands(group, marked_hidden) if view.forecast else _no_bands(),
        labels=_labels(group, marked, _focus(group, view)) if view.names else {},
        names=[(states.group, name) for name, shown in zip(states.names, drawn, strict=True) if shown],
        centre=states.positions[drawn].mean(axis=0) if drawn.any() else np.zeros(3),
        ground=group.figure.ground,
        extent=group.figure.extent,
    )


def joined(scenes: list[Scene]) -> Scene:
    """Several groups' scenes as one."""
    if len(scenes) == 1:
        return scenes[0]

    def join(name: str) -> dict[str, NDArray]:
        parts = [getattr(scene, name) for scene in scenes]
        return {key: np.concatenate([getattr(part, key) for part in parts]) for key in vars(parts[0])}

    def join_bands(name: str) -> Bands:
        parts: list[Bands] = [getattr(scene, name) for scene in scenes]
        first = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
        return Bands(
            np.concatenate([part.vertices for part in parts]),
            np.concatenate([part.triangles + shift for part, shift in zip(parts, first, strict=True)]),
        )

    centre = np.mean([scene.centre for scene in scenes], axis=0)
    return Scene(
        agents=Balls(**join("agents")),
        spread=Balls(**join("spread")),
        ghosts=Balls(**join("ghosts")),
        bones=Tubes(**join("bones")),
        ghost_bones=Tubes(**join("ghost_bones")),
        edges=Tubes(**join("edges")),
        trails=Lines(**join("trails")),
        forecast=Lines(**join("forecast")),
        misses=Lines(**join("misses")),
        bands_seen=join_bands("bands_seen"),
        bands_hidden=join_bands("bands_hidden"),
        labels={key: label for scene in scenes for key, label in scene.labels.items()},
        names=[name for scene in scenes for name in scene.names],
        centre=centre,
        ground=min(scene.ground for scene in scenes),
        extent=max(float(np.linalg.norm(scene.centre - centre)) + scene.extent for scene in scenes),
    )


def agent_radius(positions: Floats, body: bool) -> float:
    """Radius of the balls (m): a share of the usual distance between neighbours f8[A, 3], so that they stay apart."""
    if body:
        return 0.025
    if len(positions) < 2:
        return 0.15
    distance = np.linalg.norm(positions[:, None] - positions[None, :], axis=2)
    np.fill_diagonal(distance, np.inf)
    return float(np.clip(0.16 * np.median(distance.min(axis=1)), 0.02, 0.25))


def status_colours(status: NDArray[np.int8]) -> Colours:
    """u8[..., 3] colour of each status."""
    table = np.array([STATUS_COLOURS[Status(value)] for value in range(len(Status))], dtype=np.uint8)
    return table[np.clip(status, 0, len(table) - 1)]


def _marked(group: Group, view: View) -> list[int]:
    """Agents that get a trail, a forecast and a name."""
    states = group.states
    index = [int(i) for i in np.flatnonzero(states.drawable)]
    if len(states.names) <= CROWD:
        return index
    shown = chain_ends(len(states.names), group.figure.bones)
    shown |= _limb_ends(group)
    return [i for i in index if i in shown or states.names[i] == _focus(group, view)]


def _focus(group: Group, view: View) -> str | None:
    """Name of the agent in focus, None where it is not of this group."""
    return view.focus[1] if view.focus is not None and view.focus[0] == group.states.group else None


def _edges(group: Group, view: View) -> Tubes:
    graph, states = group.graph, group.states
    if graph is None:
        return _no_tubes()
    place = {name: i for i, name in enumerate(states.names)}
    rows = [k for k, name in enumerate(graph.names) if name in place and states.drawable[place[name]]]
    agent = np.array([place[graph.names[k]] for k in rows], dtype=int)
    probability = graph.probability[np.ix_(rows, rows)]
    touches_hidden = states.hidden[agent][:, None] | states.hidden[agent][None, :]
    wanted = probability > view.threshold
    np.fill_diagonal(wanted, False)
    focused = _focus(group, view)
    if focused in place:
        focus = agent == place[focused]
        wanted &= focus[:, None] | focus[None, :]
    elif view.focus is not None and focused is None:
        return _no_tubes()  # the focus is in another group
    elif len(states.names) > CROWD:
        rank = np.argsort(np.argsort(-probability, axis=0, kind="stable"), axis=0)
        wanted &= states.hidden[agent][None, :] & (rank < CROWD_EDGES)
    sender, receiver = np.nonzero(wanted)
    strength = probability[sender, receiver].astype(np.float64)
    return Tubes(
        starts=states.positions[agent[sender]],
        ends=states.positions[agent[receiver]],
        radii=group.figure.radius * (0.08 + 0.2 * strength),
        colours=np.where(touches_hidden[sender, receiver][:, None], EDGE_HIDDEN_COLOUR, EDGE_COLOUR).astype(np.uint8),
        opacities=0.1 + 0.8 * strength**2,
    )


def _trails(group: Group, marked: list[int], seconds: float) -> Lines:
    """Where agents came from, fading with age; of a hidden agent the path that the model now believes."""
    states, window = group.states, group.window
    if len(group.trail) < 2 or not marked:
        return _no_lines()
    stamps = np.array([earlier.stamp for earlier in group.trail])
    positions = np.stack([earlier.positions for earlier in group.trail], axis=1)
    tints = np.stack([status_colours(earlier.status) for earlier in group.trail], axis=1)
    parts = []
    for i in marked:
        times, path, tint = stamps, positions[i], tints[i]
        if states.hidden[i] and window is not None and states.names[i] in window.names:
            recent = window.times > states.stamp - seconds
            times, path = window.times[recent], window.positions[window.names.index(states.names[i])][recent]
            tint = np.tile(np.array(STATUS_COLOURS[Status.HIDDEN], dtype=np.uint8), (len(path), 1))
        parts.append(_strip(path, _faded(tint, 0.75 * (1 - (states.stamp - times) / seconds))))
    return _joined_lines(parts)


def _forecasts(group: Group, marked: list[int]) -> list[tuple[int, Floats, Floats]]:
    """(agent, path f8[H + 1, 3] from where it is now, covariance f4[H, 2, 2]) of each marked agent with a forecast."""
    forecast, states = group.forecast, group.states
    if forecast is None:
        return []
    ahead = forecast.times > states.stamp
    row = {name: i for i, name in enumerate(forecast.names)}
    return [
        (
            i,
            np.concatenate([states.positions[i : i + 1], forecast.positions[row[states.names[i]]][ahead]]),
            forecast.covariance[row[states.names[i]]][ahead],
        )
        for i in marked
        if states.names[i] in row and ahead.any()
    ]


def _forecast_lines(group: Group, marked: list[int]) -> Lines:
    parts = []
    for i, path, _ in _forecasts(group, marked):
        tint = np.tile(status_colours(group.states.status[i]), (len(path), 1))
        parts.append(_strip(path, _faded(tint, np.linspace(0.9, 0.3, len(path)))))
    return _joined_lines(parts)


def _bands(group: Group, marked: list[int]) -> Bands:
    """Bands along the forecasts, level with the ground, one standard deviation wide on each side."""
    vertices, triangles, first = [np.empty((0, 3))], [np.empty((0, 3), dtype=np.int64)], 0
    for _, path, covariance in _forecasts(group, marked):
        along = np.gradient(path, axis=0)
        across = np.stack([-along[:, 1], along[:, 0], np.zeros(len(path))], axis=1)
        length = np.linalg.norm(across, axis=1, keepdims=True)
        across = np.where(length > 1e-9, across / np.maximum(length, 1e-9), [0.0, 1.0, 0.0])
        variance = np.einsum("hi,hij,hj->h", across[1:, :2], covariance, across[1:, :2])
        width = np.concatenate([[0.0], np.sqrt(np.maximum(variance, 0.0))])[:, None]
        vertices.append(np.stack([path - width * across, path + width * across], axis=1).reshape(-1, 3))
        corner = first + 2 * np.arange(len(path) - 1)[:, None, None]
        triangles.append((corner + np.array([[0, 1, 2], [1, 3, 2]])).reshape(-1, 3))
        first += 2 * len(path)
    return Bands(np.concatenate(vertices), np.concatenate(triangles))


def _labels(group: Group, marked: list[int], focus: str | None) -> dict[str, Label]:
    """Name tags; a crowd's would cover the picture, so there only one of each hidden limb and the focus are named."""
    states = group.states
    if len(states.names) > CROWD:
        one_of_limb = _limb_ends(group)
        marked = [i for i in marked if i in one_of_limb or states.names[i] == focus]
    labels = {}
    for i in marked:
        text = states.names[i]
        if states.hidden[i]:
            text += f" · hidden {max(states.since_seen[i], 0):.1f} s · ±{100 * states.position_95[i]:.0f} cm"
        labels[f"{states.group}/{i}"] = Label(text, states.positions[i] + [0, 0, 1.6 * group.figure.radius])
    return labels


def _limb_ends(group: Group) -> set[int]:
    """Of each set of hidden agents that hang together by bones, the first that ends a limb, else the first."""
    hidden = np.flatnonzero(group.states.hidden & group.states.drawable).tolist()
    ends = chain_ends(len(group.states.names), group.figure.bones)
    limb = {i: i for i in hidden}  # to the smallest index of the limb
    for _ in hidden:
        for a, b in group.figure.bones:
            if a in limb and b in limb:
                limb[a] = limb[b] = min(limb[a], limb[b])
    members = [[i for i in hidden if limb[i] == first] for first in set(limb.values())]
    return {next((i for i in joints if i in ends), joints[0]) for joints in members}


def _spread(states: States, hidden: NDArray[np.bool_]) -> Balls:
    colours = np.tile(np.array(STATUS_COLOURS[Status.HIDDEN], dtype=np.uint8), (int(hidden.sum()), 1))
    return Balls(states.positions[hidden], states.position_95[hidden], colours)


def _bones(states: States, bones: list[tuple[int, int]], radius: float) -> Tubes:
    """A bone with a joint that is not plainly seen takes that joint's colour."""
    tubes = _tubes(states.positions, bones, radius, BONE_COLOUR)
    colours = status_colours(states.status)
    for row, pair in enumerate(bones):
        for joint in pair:
            if states.status[joint] != Status.VISIBLE:
                tubes.colours[row] = colours[joint]
    return tubes


def _balls(positions: Floats, radius: float, colours: Colours | Colour) -> Balls:
    shape = (len(positions), 3)
    return Balls(positions, np.full(len(positions), radius), np.broadcast_to(colours, shape).astype(np.uint8))


def _tubes(positions: Floats, pairs: list[tuple[int, int]], radius: float, colour: Colour = TRUTH_COLOUR) -> Tubes:
    index = np.array(pairs, dtype=int).reshape(-1, 2)
    count = len(index)
    return Tubes(
        positions[index[:, 0]],
        positions[index[:, 1]],
        np.full(count, radius),
        np.broadcast_to(colour, (count, 3)).astype(np.uint8),
        np.ones(count),
    )


def _truth_tint(count: int) -> Colours:
    return np.broadcast_to(TRUTH_COLOUR, (int(count), 2, 3)).astype(np.uint8)


def _faded(colours: Colours, strength: Floats) -> Colours:
    """Mix colours [N, 3] with the background: strength 1 is the colour, 0 the background."""
    weight = np.clip(strength, 0, 1)[:, None]
    return (weight * colours + (1 - weight) * np.array(BACKGROUND)).astype(np.uint8)


def _strip(path: Floats, colours: Colours) -> Lines:
    """Points [N, 3] joined to N - 1 segments, with their colours."""
    return Lines(np.stack([path[:-1], path[1:]], axis=1), np.stack([colours[:-1], colours[1:]], axis=1))


def _joined_lines(parts: list[Lines]) -> Lines:
    if not parts:
        return _no_lines()
    return Lines(np.concatenate([part.points for part in parts]), np.concatenate([part.colours for part in parts]))


def _no_balls() -> Balls:
    return _balls(np.empty((0, 3)), 0.0, TRUTH_COLOUR)


def _no_tubes() -> Tubes:
    return _tubes(np.empty((0, 3)), [], 0.0)


def _no_lines() -> Lines:
    return Lines(np.empty((0, 2, 3)), np.empty((0, 2, 3), dtype=np.uint8))


def _no_bands() -> Bands:
    return Bands(np.empty((0, 3)), np.empty((0, 3), dtype=np.int64))
