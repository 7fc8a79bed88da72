"""Charged Particles of Kipf et al. (2018): agents in a walled square that attract or repel each other.

The physics and constants are those of the paper's public simulator: charges +1 or -1 with probability 1/2 each, unit
masses, Coulomb's force q_i q_j r / |r|^3, positions N(0, 1) m, speeds 0.5 m/s, a box of half-width 5 m whose walls
reflect, kick-and-drift steps of 1 ms, one frame every 100 steps, frame 1 being step 100. What softens close encounters
is the simulator's cap: no component of the force on an agent exceeds 0.1/dt = 100 m/s^2, which a single pair reaches
at 0.1 m. Energy is kept but for those encounters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from offline_training.systems.random_streams import open_stream, stream_base, uniform

BOX = 5.0  # half-width, m
STRENGTH = 1.0  # m^3/s^2, for unit masses and charges
POSITION_STD = 1.0  # m
SPEED = 0.5  # m/s
STEP = 0.001  # s
STEPS_PER_FRAME = 100
FRAME_DT = STEP * STEPS_PER_FRAME  # s
LARGEST_FORCE = 0.1 / STEP  # m/s^2, each component of the sum on an agent

MAX_AGENTS = 100
LANES = 32  # trajectories that advance side by side: enough for the inner loops to become SIMD code

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ChargedTrajectories:
    """n trajectories of A agents over T frames of 0.1 s: positions and velocities f4[n, A, T, 2] (m, m/s), charges
    f4[n, A] (+1 or -1)."""

    positions: NDArray[np.float32]
    velocities: NDArray[np.float32]
    charges: NDArray[np.float32]

    @property
    def edges(self) -> NDArray[np.bool_]:
        """bool[n, A, A]: true between like charges, which repel; the other pairs attract. Symmetric, false on the
        diagonal."""
        like = self.charges[:, :, None] == self.charges[:, None]
        return np.asarray(like & ~np.eye(self.charges.shape[1], dtype=bool))


def simulate_charged(
    count: int, frames: int, *, agents: int = 7, seed: int, first_index: int = 0
) -> ChargedTrajectories:
    """Trajectories first_index .. first_index + count - 1 of a seed, from frame 1 on."""
    positions, velocities, charges = draw_starts(count, agents=agents, seed=seed, first_index=first_index)
    x, v = integrate(positions, velocities, charges, frames)
    return ChargedTrajectories(x, v, charges.astype(np.float32))


def draw_starts(count: int, *, agents: int, seed: int, first_index: int = 0) -> tuple[Array, Array, Array]:
    """Initial positions and velocities f8[count, A, 2] (m, m/s) and charges f8[count, A]."""
    if not 2 <= agents <= MAX_AGENTS:
        raise ValueError(f"charged: 2 to {MAX_AGENTS} agents, not {agents}")
    return _draw_starts(stream_base(seed, 0), first_index, count, agents)


def integrate(
    positions: Array, velocities: Array, charges: Array, frames: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Frames 1 .. ``frames`` of each run: positions and velocities f4[n, A, frames, 2], from f8[n, A, 2] twice and
    charges f8[n, A]."""
    n, agents = charges.shape
    x = np.empty((n, agents, frames, 2), dtype=np.float32)
    v = np.empty_like(x)
    _integrate(
        np.ascontiguousarray(positions, dtype=np.float64),
        np.ascontiguousarray(velocities, dtype=np.float64),
        np.ascontiguousarray(charges, dtype=np.float64),
        x,
        v,
    )
    return x, v


def energy(
    positions: NDArray[np.floating], velocities: NDArray[np.floating], charges: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Kinetic plus Coulomb energy f8[n, T] of unit masses, from f[n, A, T, 2] twice and f[n, A]."""
    x, v = np.asarray(positions, dtype=np.float64), np.asarray(velocities, dtype=np.float64)
    first, second = np.triu_indices(x.shape[1], 1)
    distance = np.linalg.norm(x[:, first] - x[:, second], axis=-1)
    product = np.asarray(charges, dtype=np.float64)[:, first] * charges[:, second]
    return 0.5 * (v**2).sum((1, 3)) + STRENGTH * (product[..., None] / distance).sum(1)


@njit(cache=True, nogil=True)
def _draw_starts(base: np.uint64, first_index: int, count: int, agents: int) -> tuple[Array, Array, Array]:
    x = np.empty((count, agents, 2))
    v = np.empty((count, agents, 2))
    charges = np.empty((count, agents))
    state = np.empty(1, dtype=np.uint64)
    for n in range(count):
        open_stream(state, base, first_index + n)
        for i in range(agents):
            charges[n, i] = 1.0 if uniform(state) < 0.5 else -1.0
            radius = POSITION_STD * np.sqrt(-2.0 * np.log(1.0 - uniform(state)))
            angle = 2.0 * np.pi * uniform(state)
            heading = 2.0 * np.pi * uniform(state)
            x[n, i, 0], x[n, i, 1] = radius * np.cos(angle), radius * np.sin(angle)
            v[n, i, 0], v[n, i, 1] = SPEED * np.cos(heading), SPEED * np.sin(heading)
    return x, v, charges


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _advance(x: Array, v: Array, charges: Array, force: Array, steps: int) -> None:
    """Kick, drift and reflect x, v [A, 2, LANES] in place; force is scratch space of their shape. The innermost loops
    run over the lanes."""
    agents = x.shape[0]
    for _ in range(steps):
        force[:] = 0.0
        for i in range(agents):
            for j in range(i):
                for lane in range(LANES):
                    dx = x[i, 0, lane] - x[j, 0, lane]
                    dy = x[i, 1, lane] - x[j, 1, lane]
                    square = dx * dx + dy * dy
                    push = STRENGTH * charges[i, lane] * charges[j, lane] / (square * np.sqrt(square))
                    force[i, 0, lane] += push * dx
                    force[i, 1, lane] += push * dy
                    force[j, 0, lane] -= push * dx
                    force[j, 1, lane] -= push * dy
        for i in range(agents):
            for d in range(2):
                for lane in range(LANES):
                    capped = min(max(force[i, d, lane], -LARGEST_FORCE), LARGEST_FORCE)
                    speed = v[i, d, lane] + STEP * capped
                    p = x[i, d, lane] + STEP * speed
                    inside = min(max(p, -BOX), BOX)
                    x[i, d, lane] = inside + (inside - p)
                    v[i, d, lane] = speed if inside == p else -speed


@njit(cache=True, nogil=True)
def _integrate(x: Array, v: Array, charges: Array, out_x: NDArray[np.float32], out_v: NDArray[np.float32]) -> None:
    count, agents, frames = out_x.shape[:3]
    lane_x, lane_v = np.empty((agents, 2, LANES)), np.empty((agents, 2, LANES))
    lane_q, force = np.empty((agents, LANES)), np.empty((agents, 2, LANES))
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for lane in range(LANES):
            run = first + min(lane, lanes - 1)  # lanes beyond the last run repeat it
            lane_x[:, :, lane] = x[run]
            lane_v[:, :, lane] = v[run]
            lane_q[:, lane] = charges[run]
        for frame in range(frames):
            _advance(lane_x, lane_v, lane_q, force, STEPS_PER_FRAME)
            for lane in range(lanes):
                for i in range(agents):
                    for d in range(2):
                        out_x[first + lane, i, frame, d] = lane_x[i, d, lane]
                        out_v[first + lane, i, frame, d] = lane_v[i, d, lane]
