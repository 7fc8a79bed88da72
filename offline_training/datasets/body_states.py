"""Windows of a walking body as normalised states for the networks, with what the linear path gets wrong of each
limb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offline_training.datasets.body import Walk, mirror_order
from offline_training.stages.linear_path import Completion, body_windows
from siha_ros.model.body_frame import BodyTemplate
from siha_ros.model.frame import Scale
from siha_ros.window.grid import backward_difference


@dataclass
class BodyWindows:
    """Windows in the body frame.

    positions: f4 [n, A, T, 3] (m). errors: f4 [n, A, T, 3], truth minus the linear path's completion when the joint's
    limb is hidden (zero for joints of no limb). mirrored: index of each joint's mirror image. dt: s.
    """

    positions: Tensor
    errors: Tensor
    mirrored: Tensor
    scale: Scale
    dt: float

    def __len__(self) -> int:
        return len(self.positions)

    def batch(self, index: Tensor | slice, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Positions and errors ``[B, A, T, 3]``; with a generator half of them are mirrored, by whole batches."""
        positions, errors = self.positions[index], self.errors[index]
        if generator is not None and bool(torch.randint(0, 2, (1,), generator=generator)):
            flip = torch.tensor([1.0, -1.0, 1.0])
            positions, errors = positions[:, self.mirrored] * flip, errors[:, self.mirrored] * flip
        return positions, errors

    def states(self, positions: Tensor) -> Tensor:
        """Normalised states ``[B, A, T, 6]`` of positions ``[B, A, T, 3]`` (m)."""
        return self.scale.features(positions, backward_difference(positions, self.dt))


def gather(
    walks: Sequence[Walk],
    completions: dict[str, list[Completion]],
    limbs: dict[str, NDArray[np.int64]],
    template: BodyTemplate,
    names: Sequence[str],
    scale: Scale,
    dt: float,
    step: int = 1,
) -> BodyWindows:
    """Every ``step``-th window of walks (no mirror images), with the errors of their completions by limb."""
    positions = np.concatenate([body_windows(walk, template)[::step] for walk in walks]).astype(np.float32)
    errors = np.zeros_like(positions)
    for limb, joints in limbs.items():
        if [done.trial for done in completions[limb]] != [walk.trial for walk in walks]:
            raise ValueError(f"the completions of the {limb} are of other walks")
        errors[:, joints] = np.concatenate([done.errors[::step] for done in completions[limb]])
    order = torch.from_numpy(mirror_order(names))
    return BodyWindows(torch.from_numpy(positions), torch.from_numpy(errors), order, scale, dt)
