"""Springs of Kipf et al. (2018): agents in a walled square, every pair joined by a spring with probability 1/2.

The physics and constants are those of the paper's public simulator: positions N(0, 0.5^2) m, speeds 0.5 m/s, spring
constant 0.1, a box of half-width 5 m whose walls reflect, kick-and-drift steps of 1 ms, one frame every 100 steps,
frame 1 being step 100. Its force cap of 0.1/dt cannot be reached here with up to 100 agents in the box and is left
out.

Two starts: "fresh" is the paper's; "team" resamples the graph until it is connected and subtracts the mean velocity,
so that the team stays where it is. Each trajectory has a random stream of its own, named by (seed, index): results do
not depend on how a set is cut into calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from offline_training.systems.random_streams import draw_edges, open_stream, stream_base, uniform

BOX = 5.0  # half-width, m
SPRING = 0.1  # 1/s^2, for unit masses
EDGE_PROBABILITY = 0.5
POSITION_STD = 0.5  # m
SPEED = 0.5  # m/s
STEP = 0.001  # s
STEPS_PER_FRAME = 100
FRAME_DT = STEP * STEPS_PER_FRAME  # s

MAX_AGENTS = 100
LANES = 32  # trajectories that advance side by side: enough for the inner loops to become SIMD code

_START, _CUT = 0, 1  # purposes that random streams are drawn for

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class SpringsTrajectories:
    """n trajectories of A agents over T frames of 0.1 s: positions and velocities f4[n, A, T, 2] (m, m/s), edges
    bool[n, A, A] (symmetric, no self loops), first_frame i8[n] (number of the first frame kept; frame k is 0.1 k
    seconds after the start)."""

    positions: NDArray[np.float32]
    velocities: NDArray[np.float32]
    edges: NDArray[np.bool_]
    first_frame: NDArray[np.int64]


def simulate_springs(
    count: int,
    frames: int,
    *,
    agents: int = 7,
    seed: int,
    start: str = "fresh",
    first_frame: int = 1,
    first_index: int = 0,
) -> SpringsTrajectories:
    """Trajectories first_index .. first_index + count - 1 of a seed, each from first_frame on.

    start: "fresh" (Kipf et al.) or "team" (connected graph, zero total momentum).
    """
    positions, velocities, edges = draw_starts(count, agents=agents, seed=seed, start=start, first_index=first_index)
    starts = np.full((count, 1), first_frame, dtype=np.int64)
    x, v = integrate(positions, velocities, edges, frames, starts)
    return SpringsTrajectories(x[:, 0], v[:, 0], edges, starts[:, 0])


def team_windows(
    count: int,
    frames: int,
    *,
    agents: int = 7,
    seed: int,
    run_seconds: float = 60.0,
    per_run: int = 8,
    start: str = "team",
    first_index: int = 0,
) -> SpringsTrajectories:
    """Windows that begin at random times of runs of run_seconds, per_run of them (they may overlap) from each run.

    per_run = 1 gives independent windows, for test sets; first_index counts runs.
    """
    last = round(run_seconds / FRAME_DT) - frames + 1
    if last < 1:
        raise ValueError(f"team_windows: a run of {run_seconds} s is shorter than {frames} frames of {FRAME_DT} s")
    runs = -(-count // per_run)
    positions, velocities, edges = draw_starts(runs, agents=agents, seed=seed, start=start, first_index=first_index)
    starts = _draw_cuts(stream_base(seed, _CUT), first_index, runs, per_run, last)
    x, v = integrate(positions, velocities, edges, frames, starts)
    return SpringsTrajectories(
        x.reshape(-1, *x.shape[2:])[:count],
        v.reshape(-1, *v.shape[2:])[:count],
        np.repeat(edges, per_run, axis=0)[:count],
        starts.reshape(-1)[:count],
    )


def draw_starts(
    count: int, *, agents: int, seed: int, start: str, first_index: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Initial positions and velocities f8[count, A, 2] (m, m/s) and edges bool[count, A, A]."""
    if start not in ("fresh", "team"):
        raise ValueError(f'springs: start must be "fresh" or "team", not "{start}"')
    if not 2 <= agents <= MAX_AGENTS:
        raise ValueError(f"springs: 2 to {MAX_AGENTS} agents, not {agents}")
    return _draw_starts(stream_base(seed, _START), first_index, count, agents, start == "team")


def integrate(
    positions: NDArray[np.float64],
    velocities: NDArray[np.float64],
    edges: NDArray[np.bool_],
    frames: int,
    starts: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Frames starts .. starts + frames - 1 of each run: positions, velocities f4[n, W, A, frames, 2] for starts i8[n,
    W], all >= 1."""
    if starts.size and starts.min() < 1:
        raise ValueError("springs: the first frame is number 1 (0.1 s after the start)")
    n, agents = positions.shape[:2]
    x = np.empty((n, starts.shape[1], agents, frames, 2), dtype=np.float32)
    v = np.empty_like(x)
    _integrate(
        np.ascontiguousarray(positions, dtype=np.float64),
        np.ascontiguousarray(velocities, dtype=np.float64),
        np.ascontiguousarray(edges, dtype=np.bool_),
        np.ascontiguousarray(starts, dtype=np.int64),
        x,
        v,
    )
    return x, v


def energy(
    positions: NDArray[np.floating], velocities: NDArray[np.floating], edges: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Kinetic plus spring energy f8[n, T] of unit masses, from f[n, A, T, 2] and bool[n, A, A]."""
    x, v = np.asarray(positions, dtype=np.float64), np.asarray(velocities, dtype=np.float64)
    squared = ((x[:, :, None] - x[:, None]) ** 2).sum(-1)
    return 0.5 * (v**2).sum((1, 3)) + 0.25 * SPRING * np.einsum("nij,nijt->nt", edges, squared)


class SpringsStepper:
    """One team as a live simulator: the same physics, advanced as time passes. Equals trajectory `index` of the same
    seed and start."""

    def __init__(self, seed: int, agents: int = 7, start: str = "team", index: int = 0) -> None:
        x, v, edges = draw_starts(1, agents=agents, seed=seed, start=start, first_index=index)
        self.edges: NDArray[np.bool_] = edges[0]
        self._x, self._v, self._pull = _to_lanes(x, v, edges, 0)
        self._steps = 0
        self._clock = 0.0
        self.step(0.0)  # compiles what is not in the cache yet

    def step(self, seconds: float) -> None:
        """Advance by a time, in whole steps of 1 ms; what is left over counts towards the next call."""
        self._clock += seconds
        steps = round(self._clock / STEP) - self._steps
        _advance(self._x, self._v, self._pull, steps)
        self._steps += steps

    @property
    def time(self) -> float:
        """Simulated seconds since the start."""
        return self._steps * STEP

    @property
    def positions(self) -> NDArray[np.float64]:
        """f8[A, 2], m."""
        return self._x[:, :, 0].copy()

    @property
    def velocities(self) -> NDArray[np.float64]:
        """f8[A, 2], m/s."""
        return self._v[:, :, 0].copy()


@njit(cache=True, nogil=True)
def _draw_cuts(base: np.uint64, first_index: int, runs: int, per_run: int, last: int) -> NDArray[np.int64]:
    """Uniform integers 1 .. last, i8[runs, per_run]."""
    cuts = np.empty((runs, per_run), dtype=np.int64)
    state = np.empty(1, dtype=np.uint64)
    for n in range(runs):
        open_stream(state, base, first_index + n)
        for w in range(per_run):
            cuts[n, w] = 1 + int(uniform(state) * last)
    return cuts


@njit(cache=True, nogil=True)
def _draw_starts(
    base: np.uint64, first_index: int, count: int, agents: int, team: bool
) -> tuple[Array, Array, NDArray[np.bool_]]:
    x = np.empty((count, agents, 2))
    v = np.empty((count, agents, 2))
    edges = np.zeros((count, agents, agents), dtype=np.bool_)
    state = np.empty(1, dtype=np.uint64)
    for n in range(count):
        open_stream(state, base, first_index + n)
        draw_edges(state, edges[n], EDGE_PROBABILITY)
        while team and not _connected(edges[n]):
            draw_edges(state, edges[n], EDGE_PROBABILITY)
        for i in range(agents):
            radius = POSITION_STD * np.sqrt(-2.0 * np.log(1.0 - uniform(state)))
            angle = 2.0 * np.pi * uniform(state)
            heading = 2.0 * np.pi * uniform(state)
            x[n, i, 0], x[n, i, 1] = radius * np.cos(angle), radius * np.sin(angle)
            v[n, i, 0], v[n, i, 1] = SPEED * np.cos(heading), SPEED * np.sin(heading)
        if team:
            for d in range(2):
                v[n, :, d] -= v[n, :, d].sum() / agents
    return x, v, edges


@njit(cache=True, nogil=True)
def _connected(edges: NDArray[np.bool_]) -> bool:
    agents = edges.shape[0]
    reached = np.zeros(agents, dtype=np.bool_)
    queue = np.empty(agents, dtype=np.int64)
    reached[0], queue[0] = True, 0
    known = 1
    done = 0
    while done < known:
        i = queue[done]
        done += 1
        for j in range(agents):
            if edges[i, j] and not reached[j]:
                reached[j] = True
                queue[known] = j
                known += 1
    return known == agents


@njit(cache=True, nogil=True)
def _to_lanes(x: Array, v: Array, edges: NDArray[np.bool_], first: int) -> tuple[Array, Array, Array]:
    """Runs first .. first + LANES - 1 side by side: x, v [A, 2, LANES], and the velocity change per step and metre [A,
    A, LANES]. Lanes beyond the last run stay at rest."""
    count, agents = x.shape[0], x.shape[1]
    lane_x = np.zeros((agents, 2, LANES))
    lane_v = np.zeros((agents, 2, LANES))
    pull = np.zeros((agents, agents, LANES))
    for lane in range(min(LANES, count - first)):
        lane_x[:, :, lane] = x[first + lane]
        lane_v[:, :, lane] = v[first + lane]
        for i in range(agents):
            for j in range(agents):
                if edges[first + lane, i, j]:
                    pull[i, j, lane] = SPRING * STEP
                    pull[i, i, lane] -= SPRING * STEP
    return lane_x, lane_v, pull


@njit(cache=True, nogil=True, fastmath={"contract"})
def _advance(x: Array, v: Array, pull: Array, steps: int) -> None:
    """Kick, drift and reflect, in place. The innermost loops run over the lanes."""
    agents = x.shape[0]
    for _ in range(steps):
        for i in range(agents):
            for j in range(agents):
                for lane in range(LANES):
                    v[i, 0, lane] += pull[i, j, lane] * x[j, 0, lane]
                    v[i, 1, lane] += pull[i, j, lane] * x[j, 1, lane]
        for i in range(agents):
            for d in range(2):
                for lane in range(LANES):
                    p = x[i, d, lane] + STEP * v[i, d, lane]
                    inside = min(max(p, -BOX), BOX)
                    x[i, d, lane] = inside + (inside - p)
                    v[i, d, lane] = v[i, d, lane] if inside == p else -v[i, d, lane]


@njit(cache=True, nogil=True)
def _integrate(
    x: Array,
    v: Array,
    edges: NDArray[np.bool_],
    starts: NDArray[np.int64],
    out_x: NDArray[np.float32],
    out_v: NDArray[np.float32],
) -> None:
    count, agents = x.shape[0], x.shape[1]
    windows, frames = starts.shape[1], out_x.shape[3]
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        lane_x, lane_v, pull = _to_lanes(x, v, edges, first)
        for frame in range(1, starts[first : first + lanes].max() + frames):
            _advance(lane_x, lane_v, pull, STEPS_PER_FRAME)
            for lane in range(lanes):
                for w in range(windows):
                    t = frame - starts[first + lane, w]
                    if 0 <= t < frames:
                        for i in range(agents):
                            for d in range(2):
                                out_x[first + lane, w, i, t, d] = lane_x[i, d, lane]
                                out_v[first + lane, w, i, t, d] = lane_v[i, d, lane]
