"""Simulated teams as model input: windows of Springs in the two settings that are reported.

*fresh*: frames 1-50 from the start, world frame, the simulator's velocities (the paper's setting). *any*: windows that
begin at any time of a 60 s run of a connected team without total momentum, in the window's inertial frame, velocities
by backward difference (what a live node meets).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from offline_training.systems.springs import FRAME_DT, simulate_springs, team_windows
from siha_ros.model.frame import Scale, team_frame
from siha_ros.window.grid import backward_difference

SPRINGS_SCALE = Scale(position=4.14, velocity=1.83)
FRAMES = 50
HORIZON = 50
SEEDS = {"train": 1_000, "validation": 2_000, "test": 3_000}


@dataclass
class SpringsWindows:
    """n windows of A agents, frames 0 .. T - 1 (history) and possibly beyond (future); agents are exchangeable, so the
    last ones hide.

    positions, velocities: f4 ``[n, A, T, 2]`` in metres; edges: bool ``[n, A, A]``.
    """

    kind: str
    positions: Tensor
    velocities: Tensor
    edges: Tensor

    def __len__(self) -> int:
        return len(self.positions)

    def states(self, index: Tensor | slice, visible: int, rotate: torch.Generator | None = None) -> Tensor:
        """Normalised states ``[B, A, T, 4]`` of the windows at ``index``, seen in the frame of the first ``visible``
        agents.

        rotate: draws a rotation or reflection for each window; the physics knows no direction.
        """
        positions, velocities = self.positions[index], self.velocities[index]
        if rotate is not None:
            turn = random_rotations(len(positions), rotate)
            positions, velocities = positions @ turn, velocities @ turn
        if self.kind == "any":
            frame = team_frame(positions[:, :visible, :FRAMES], FRAME_DT)
            frames = torch.arange(positions.shape[2]) - (FRAMES - 1)
            positions = positions - frame.at(frames).unsqueeze(1)
            velocities = backward_difference(positions, FRAME_DT)
        return SPRINGS_SCALE.features(positions, velocities)


def random_rotations(count: int, generator: torch.Generator) -> Tensor:
    """Uniform rotations and reflections of the plane, ``[count, 1, 2, 2]``."""
    angle = torch.rand(count, generator=generator) * (2 * math.pi)
    flip = torch.randint(0, 2, (count,), generator=generator) * 2.0 - 1
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([cos, sin, -sin * flip, cos * flip], -1).view(count, 1, 2, 2)


def springs_windows(
    kind: str, split: str, count: int, *, agents: int = 7, future: int = 0, seed: int = 0
) -> SpringsWindows:
    """``count`` windows of a split ("train", "validation", "test"): seeds are apart, so no run is in two splits.

    future: frames beyond the 50 of the history. Training sets take 4 windows from each run, the others one.
    """
    if kind not in ("fresh", "any"):
        raise ValueError(f"springs set {kind!r} is unknown, expected 'fresh' or 'any'")
    seed = SEEDS[split] + seed
    if kind == "fresh":
        data = simulate_springs(count, FRAMES + future, agents=agents, seed=seed)
    else:
        data = team_windows(count, FRAMES + future, agents=agents, seed=seed, per_run=4 if split == "train" else 1)
    return SpringsWindows(
        kind,
        torch.from_numpy(data.positions),
        torch.from_numpy(data.velocities),
        torch.from_numpy(np.asarray(data.edges)),
    )
