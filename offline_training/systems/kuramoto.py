"""Kuramoto oscillators of Kipf et al. (2018): phases that pull on each other, each pair coupled with probability 1/2.

    d phi_i / dt = omega_i + sum_j k_ij sin(phi_j - phi_i),   k_ij = k_ji in {0, 1}

Intrinsic frequencies omega are uniform in [1, 10) rad/s, first phases in [0, 2 pi); a frame is 0.1 s, frame 0 being the
start, as in the paper and the public code that re-creates its data. The state of an oscillator in a frame is its phase
difference (over the next 0.01 s, a rate in rad/s), its amplitude sin phi, and its intrinsic frequency.
Fourth-order Runge-Kutta steps of 10 ms: phases are right within 1e-5 rad after 10 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from offline_training.systems.random_streams import draw_edges, open_stream, stream_base, uniform

COUPLING = 1.0  # rad/s
EDGE_PROBABILITY = 0.5
FREQUENCIES = (1.0, 10.0)  # rad/s
STEP = 0.01  # s; phase differences are taken over one step
STEPS_PER_FRAME = 10
FRAME_DT = STEP * STEPS_PER_FRAME  # s
TRAINING_FRAMES = 50
STEADY = 1e-3  # rad/s; phase differences that stay in a narrower range are those of an uncoupled oscillator

MAX_AGENTS = 100
LANES = 32  # trajectories that advance side by side

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class KuramotoTrajectories:
    """n trajectories of A oscillators over T frames of 0.1 s.

    states: f4[n, A, T, 3], phase difference (rad/s), amplitude (-1 to 1), intrinsic frequency (rad/s).
    phases: f4[n, A, T], wrapped to [0, 2 pi). edges: bool[n, A, A], symmetric, no self loops.
    """

    states: NDArray[np.float32]
    phases: NDArray[np.float32]
    edges: NDArray[np.bool_]

    def normalised(self) -> NDArray[np.float32]:
        """f4[n, A, T, 3], as the paper's data: phase differences by each oscillator's own range over the first 50
        frames, those that a model is given, in which they are in [-1, 1] (0 where they do not change: nothing is
        coupled to it); frequencies by theirs."""
        out = self.states.copy()
        given = out[:, :, :TRAINING_FRAMES, 0]
        low, high = given.min(-1, keepdims=True), given.max(-1, keepdims=True)
        changes = high - low > STEADY
        out[..., 0] = np.where(changes, 2 * (out[..., 0] - low) / np.where(changes, high - low, 1) - 1, 0)
        out[..., 2] = 2 * (out[..., 2] - FREQUENCIES[0]) / (FREQUENCIES[1] - FREQUENCIES[0]) - 1
        return out


def simulate_kuramoto(
    count: int, frames: int, *, agents: int = 7, seed: int, first_index: int = 0
) -> KuramotoTrajectories:
    """Trajectories first_index .. first_index + count - 1 of a seed, from frame 0 on."""
    phases, frequencies, edges = draw_starts(count, agents=agents, seed=seed, first_index=first_index)
    at, ahead = integrate(phases, frequencies, edges, frames)
    states = np.empty((*at.shape, 3), dtype=np.float32)
    states[..., 0] = (ahead - at) / STEP
    states[..., 1] = np.sin(at)
    states[..., 2] = frequencies[..., None]
    return KuramotoTrajectories(states, wrapped(at), edges)


def draw_starts(count: int, *, agents: int, seed: int, first_index: int = 0) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Initial phases f8[count, A] (rad), frequencies f8[count, A] (rad/s) and edges bool[count, A, A]."""
    if not 2 <= agents <= MAX_AGENTS:
        raise ValueError(f"kuramoto: 2 to {MAX_AGENTS} agents, not {agents}")
    return _draw_starts(stream_base(seed, 0), first_index, count, agents)


def integrate(
    phases: Array, frequencies: Array, edges: NDArray[np.bool_], frames: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Phases f8[n, A, frames] (rad, not wrapped) at frames 0 .. frames - 1, and 0.01 s after each."""
    at = np.empty((*phases.shape, frames))
    ahead = np.empty_like(at)
    _integrate(
        np.ascontiguousarray(phases, dtype=np.float64),
        np.ascontiguousarray(frequencies, dtype=np.float64),
        np.ascontiguousarray(edges, dtype=np.bool_),
        at,
        ahead,
    )
    return at, ahead


def wrapped(phases: NDArray[np.floating]) -> NDArray[np.float32]:
    """Angles in [0, 2 pi) as f4; what rounding to f4 lifts to 2 pi becomes 0."""
    angles = np.mod(phases, 2 * np.pi).astype(np.float32)
    return np.where(angles >= np.float32(2 * np.pi), np.float32(0), angles)


@njit(cache=True, nogil=True)
def _draw_starts(base: np.uint64, first_index: int, count: int, agents: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    phases = np.empty((count, agents))
    frequencies = np.empty((count, agents))
    edges = np.zeros((count, agents, agents), dtype=np.bool_)
    state = np.empty(1, dtype=np.uint64)
    for n in range(count):
        open_stream(state, base, first_index + n)
        draw_edges(state, edges[n], EDGE_PROBABILITY)
        for i in range(agents):
            frequencies[n, i] = FREQUENCIES[0] + (FREQUENCIES[1] - FREQUENCIES[0]) * uniform(state)
            phases[n, i] = 2.0 * np.pi * uniform(state)
    return phases, frequencies, edges


@njit(cache=True, nogil=True, fastmath={"contract"})
def _slope(phases: Array, frequencies: Array, coupling: Array, sin: Array, cos: Array, out: Array) -> None:
    """d phi / dt [A, LANES]; sin(phi_j - phi_i) = sin phi_j cos phi_i - cos phi_j sin phi_i takes one sine and one
    cosine an oscillator. sin, cos are scratch space."""
    agents = phases.shape[0]
    for i in range(agents):
        for lane in range(LANES):
            sin[i, lane], cos[i, lane] = np.sin(phases[i, lane]), np.cos(phases[i, lane])
    for i in range(agents):
        for lane in range(LANES):
            out[i, lane] = frequencies[i, lane]
        for j in range(agents):
            for lane in range(LANES):
                pull = sin[j, lane] * cos[i, lane] - cos[j, lane] * sin[i, lane]
                out[i, lane] += coupling[i, j, lane] * pull


@njit(cache=True, nogil=True)
def _advance(phases: Array, frequencies: Array, coupling: Array, scratch: Array, steps: int) -> None:
    """Runge-Kutta steps in place; scratch [7, A, LANES]."""
    k1, k2, k3, k4, middle, sin, cos = scratch
    for _ in range(steps):
        _slope(phases, frequencies, coupling, sin, cos, k1)
        middle[:] = phases + 0.5 * STEP * k1
        _slope(middle, frequencies, coupling, sin, cos, k2)
        middle[:] = phases + 0.5 * STEP * k2
        _slope(middle, frequencies, coupling, sin, cos, k3)
        middle[:] = phases + STEP * k3
        _slope(middle, frequencies, coupling, sin, cos, k4)
        phases += STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


@njit(cache=True, nogil=True)
def _integrate(phases: Array, frequencies: Array, edges: NDArray[np.bool_], at: Array, ahead: Array) -> None:
    count, agents, frames = at.shape
    lane_p, lane_w = np.empty((agents, LANES)), np.empty((agents, LANES))
    coupling, scratch = np.empty((agents, agents, LANES)), np.empty((7, agents, LANES))
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for lane in range(LANES):
            run = first + min(lane, lanes - 1)  # lanes beyond the last run repeat it
            lane_p[:, lane] = phases[run]
            lane_w[:, lane] = frequencies[run]
            for i in range(agents):
                for j in range(agents):
                    coupling[i, j, lane] = COUPLING if edges[run, i, j] else 0.0
        for frame in range(frames):
            for lane in range(lanes):
                for i in range(agents):
                    at[first + lane, i, frame] = lane_p[i, lane]
            _advance(lane_p, lane_w, coupling, scratch, 1)
            for lane in range(lanes):
                for i in range(agents):
                    ahead[first + lane, i, frame] = lane_p[i, lane]
            _advance(lane_p, lane_w, coupling, scratch, STEPS_PER_FRAME - 1)
