"""Windows of a team of like agents as model input, simulated or recorded: frame, velocities, scale, augmentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from siha_ros.model.frame import Scale, team_frame
from siha_ros.window.grid import backward_difference


@dataclass
class TeamWindows:
    """n windows of A agents, frames 0 .. T - 1 (history) and possibly beyond (future); agents are exchangeable, so the
    last ones hide.

    positions: f4 ``[n, A, T, P]`` in metres. velocities: likewise (m/s) as measured, or None. edges: bool
    ``[n, A, A]``, or None where nobody knows them. known: bool ``[n, A, T]``, false where a position was not measured
    and must not be learned from; None where all are. frame: "world" or "team". velocity: "measured" or
    "backward_difference", what states are made of. dt: s. history: frames of the history. mixed: samples are drawn with
    their agents in any order, which tells the same of agents that do not act alike.
    """

    positions: Tensor
    velocities: Tensor | None
    edges: Tensor | None
    known: Tensor | None
    frame: str
    velocity: str
    dt: float
    history: int
    scale: Scale
    mixed: bool = False

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def agents(self) -> int:
        """A."""
        return self.positions.shape[1]

    @property
    def features(self) -> int:
        """D, twice the dimensions of a position."""
        return 2 * self.positions.shape[3]

    def first(self, count: int) -> TeamWindows:
        """The first ``count`` of them, or all."""
        velocities, edges, known = (
            None if part is None else part[:count] for part in (self.velocities, self.edges, self.known)
        )
        return replace(self, positions=self.positions[:count], velocities=velocities, edges=edges, known=known)

    @torch.autocast("cpu", enabled=False)  # a training draws within its own, whose products would round what it draws
    def states(
        self,
        index: Tensor | slice,
        visible: int,
        rotate: torch.Generator | None = None,
        order: Tensor | None = None,
    ) -> Tensor:
        """Normalised states ``[B, A, T, D]`` of the windows at ``index``, seen in the frame of the first ``visible``
        agents.

        rotate: draws a rotation or reflection (about the vertical) for each window; the physics knows no direction.
        order: ``[B, A]``, an order of the agents of each window.
        """
        positions = self.positions[index]
        velocities = None
        if self.velocity == "measured":
            assert self.velocities is not None
            velocities = self.velocities[index]
        if order is not None:
            rows = torch.arange(len(positions))[:, None]
            positions = positions[rows, order]
            velocities = None if velocities is None else velocities[rows, order]
        if rotate is not None:
            turn = random_rotations(len(positions), rotate, positions.shape[-1])
            positions = positions @ turn
            velocities = None if velocities is None else velocities @ turn
        if self.frame == "team":
            frame = team_frame(positions[:, :visible, : self.history], self.dt)
            frames = torch.arange(positions.shape[2]) - (self.history - 1)
            positions = positions - frame.at(frames).unsqueeze(1)
            velocities = None if velocities is None else velocities - frame.velocity[:, None, None]
        if velocities is None:
            velocities = backward_difference(positions, self.dt)
        return self.scale.features(positions, velocities)

    def known_states(self, index: Tensor | slice, order: Tensor | None = None) -> Tensor | None:
        """bool ``[B, A, T, D]``: which entries of :meth:`states` were measured, or None for all; a velocity by
        difference was where both its positions were."""
        if self.known is None:
            return None
        known = self.known[index]
        if order is not None:
            known = known[torch.arange(len(known))[:, None], order]
        moved = known
        if self.velocity != "measured":
            steps = known[..., 1:] & known[..., :-1]
            moved = torch.cat([steps[..., :1], steps], -1)
        dims = self.positions.shape[-1]
        return torch.cat([part.unsqueeze(-1).expand(*part.shape, dims) for part in (known, moved)], -1)

    def draw_order(self, index: Tensor, generator: torch.Generator) -> Tensor | None:
        """Orders of the agents ``[B, A]`` of the windows at ``index``, those with gaps last; None: as they are."""
        if not self.mixed:
            return None
        rank = torch.rand(len(index), self.agents, generator=generator)
        if self.known is not None:
            rank = rank + ~self.known[index].all(2)
        return rank.argsort(1)


def random_rotations(count: int, generator: torch.Generator, dims: int = 2) -> Tensor:
    """Uniform rotations and reflections of the horizontal plane, ``[count, 1, dims, dims]``."""
    angle = torch.rand(count, generator=generator) * (2 * math.pi)
    flip = torch.randint(0, 2, (count,), generator=generator) * 2.0 - 1
    cos, sin = angle.cos(), angle.sin()
    turn = torch.stack([cos, sin, -sin * flip, cos * flip], -1).view(count, 1, 2, 2)
    if dims == 2:
        return turn
    upright = torch.eye(dims).repeat(count, 1, 1, 1)
    upright[..., :2, :2] = turn
    return upright
