"""The paper's benchmark systems as windows of normalised states, in its own setting: frames from the start, the world's
frame, measured velocities; walking bodies at the full rate of their recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offline_training.datasets.body import limbs
from offline_training.datasets.cmu_mocap import Trial
from offline_training.datasets.simulated import SPRINGS_SCALE, split_seed
from offline_training.datasets.team import random_rotations
from offline_training.systems.charged import simulate_charged
from offline_training.systems.kuramoto import simulate_kuramoto
from offline_training.systems.springs import simulate_springs
from siha_ros.model.frame import Scale

CHARGED_SCALE = Scale(position=5.0, velocity=7.0)  # the walls; nearly the fastest after close encounters


@dataclass
class StateWindows:
    """n windows of agents as they are: states f4 ``[n, A, T, D]`` normalised, edges bool ``[n, A, A]`` or None where
    nobody knows them. It offers what training asks of :class:`~offline_training.datasets.team.TeamWindows`, in the
    world's frame.

    turned: samples may be turned, about the origin and at random: nothing but the agents themselves acts on them.
    """

    all_states: Tensor
    edges: Tensor | None
    turned: bool

    def __len__(self) -> int:
        return len(self.all_states)

    @property
    def agents(self) -> int:
        """A."""
        return self.all_states.shape[1]

    def first(self, count: int) -> StateWindows:
        """The first ``count`` of them, or all."""
        return StateWindows(self.all_states[:count], None if self.edges is None else self.edges[:count], self.turned)

    @torch.autocast("cpu", enabled=False)  # as in TeamWindows
    def states(
        self, index: Tensor | slice, visible: int, rotate: torch.Generator | None = None, order: Tensor | None = None
    ) -> Tensor:
        """States ``[B, A, T, D]`` of the windows at ``index``."""
        states = self.all_states[index]
        if rotate is None or not self.turned:
            return states
        turn = random_rotations(len(states), rotate)
        return torch.cat([part @ turn for part in states.chunk(2, -1)], -1)

    def known_states(self, index: Tensor | slice, order: Tensor | None = None) -> None:
        """Everything was measured."""

    def draw_order(self, index: Tensor, generator: torch.Generator) -> None:
        """Agents stay in their order: they are alike already, or have names."""


@dataclass(frozen=True)
class System:
    """A simulated benchmark. simulate(count, frames, agents, seed): normalised states f4[n, A, T, D] and edges.
    encoder: of trajectories. features: D. scale: of the positions in metres, where there are any."""

    simulate: Callable[[int, int, int, int], tuple[NDArray[np.float32], NDArray[np.bool_]]]
    encoder: str
    features: int
    turned: bool
    scale: Scale

    def windows(self, split: str, count: int, agents: int, frames: int, seed: int) -> StateWindows:
        """Windows of a split; seeds are apart."""
        states, edges = self.simulate(count, frames, agents, split_seed(split, seed))
        return StateWindows(torch.from_numpy(states), torch.from_numpy(np.ascontiguousarray(edges)), self.turned)


def _springs(count: int, frames: int, agents: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    data = simulate_springs(count, frames, agents=agents, seed=seed)
    return _scaled(data.positions, data.velocities, SPRINGS_SCALE), data.edges


def _charged(count: int, frames: int, agents: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    data = simulate_charged(count, frames, agents=agents, seed=seed)
    return _scaled(data.positions, data.velocities, CHARGED_SCALE), data.edges


def _kuramoto(count: int, frames: int, agents: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    data = simulate_kuramoto(count, frames, agents=agents, seed=seed)
    return data.normalised(), data.edges


def _scaled(positions: NDArray[np.float32], velocities: NDArray[np.float32], scale: Scale) -> NDArray[np.float32]:
    return np.concatenate([positions / scale.position, velocities / scale.velocity], -1, dtype=np.float32)


SYSTEMS = {
    "springs": System(_springs, "mlp", 4, True, SPRINGS_SCALE),
    "charged": System(_charged, "conv", 4, False, CHARGED_SCALE),
    "kuramoto": System(_kuramoto, "conv", 3, False, Scale(1.0, 1.0)),
}


@dataclass(frozen=True)
class BodyScale:
    """Positions are mapped from their range in training, ``low`` to ``high`` (m), to [-1, 1]; velocities are divided by
    the largest, ``speed`` (m/s, of any axis)."""

    low: float
    high: float
    speed: float

    @staticmethod
    def of(trials: Sequence[Trial]) -> BodyScale:
        """Of the trials that train."""
        low = min(float(trial.positions.min()) for trial in trials)
        high = max(float(trial.positions.max()) for trial in trials)
        speed = max(float(np.abs(np.diff(trial.positions, axis=1)).max() * trial.rate) for trial in trials)
        return BodyScale(low, high, speed)


def body_state_windows(
    trials: Sequence[Trial], limb: str, frames: int, stride: int, scale: BodyScale, future: int = 0
) -> StateWindows:
    """Windows of walking bodies, the joints of ``limb`` last: ``frames`` and ``future`` frames long, one every
    ``stride`` frames. Velocities are backward differences, that of the first frame is the next one's.
    """
    names = list(trials[0].joints)
    known = limbs(names)
    if limb not in known:
        raise ValueError(f"limb {limb!r} is unknown, expected {', '.join(known)}")
    hidden = [names.index(joint) for joint in known[limb]]
    order = [joint for joint in range(len(names)) if joint not in hidden] + hidden
    length = frames + future
    windows = []
    for trial in trials:
        steps = np.diff(trial.positions, axis=1) * trial.rate
        velocities = np.concatenate([steps[:, :1], steps], 1)
        placed = 2 * (trial.positions - scale.low) / (scale.high - scale.low) - 1
        states = np.concatenate([placed, velocities / scale.speed], -1)[order]
        starts = range(0, states.shape[1] - length + 1, stride)
        windows += [states[:, start : start + length] for start in starts]
    if not windows:
        raise ValueError(f"no trial is as long as {length} frames")
    return StateWindows(torch.from_numpy(np.stack(windows).astype(np.float32)), None, False)
