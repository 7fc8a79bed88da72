"""From metres to what a model sees, and back: the inertial frame of a window and the frozen scale of a bundle.

A *team* frame is a translation at constant velocity: the straight line that best fits the centroid of the agents seen
in the whole window. Springs, charges and robots that interact through relative positions obey the same dynamics in it,
wherever the team drifts. The *world* frame leaves positions as they are (walls and fields matter there).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class TeamFrame:
    """origin ``[..., P]`` (m) at the newest frame, velocity ``[..., P]`` (m/s), dt (s)."""

    origin: Tensor
    velocity: Tensor
    dt: float

    def at(self, frames: Tensor) -> Tensor:
        """Origin ``[..., F, P]`` at frame numbers ``[F]`` counted from the newest (0)."""
        return self.origin.unsqueeze(-2) + self.velocity.unsqueeze(-2) * (frames.to(self.origin) * self.dt)[:, None]


def team_frame(seen: Tensor, dt: float) -> TeamFrame:
    """The frame of a window from the agents seen throughout: ``seen [..., V, T, P]`` in metres."""
    centroid = seen.mean(-3)
    frames = torch.arange(1 - seen.shape[-2], 1, dtype=seen.dtype, device=seen.device) * dt
    middle = frames.mean()
    spread = frames - middle
    velocity = (spread[:, None] * centroid).sum(-2) / spread.square().sum()
    return TeamFrame(centroid.mean(-2) - middle * velocity, velocity, dt)


def still_frame(like: Tensor, dt: float) -> TeamFrame:
    """The world frame for positions ``[..., A, T, P]``."""
    zero = like.new_zeros(*like.shape[:-3], like.shape[-1])
    return TeamFrame(zero, zero, dt)


@dataclass(frozen=True)
class Scale:
    """Half-ranges that normalise a state: position (m), velocity (m/s). Frozen: they set the scale of every MSE."""

    position: float
    velocity: float

    def features(self, positions: Tensor, velocities: Tensor) -> Tensor:
        """``[..., P]`` twice to ``[..., 2 P]``."""
        return torch.cat([positions / self.position, velocities / self.velocity], -1)

    def split(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """``[..., 2 P]`` to positions (m) and velocities (m/s)."""
        positions, velocities = features.chunk(2, -1)
        return positions * self.position, velocities * self.velocity


def with_differences(states: Tensor, gain: float) -> Tensor:
    """States ``[..., T, D]`` and, beside them, their changes from frame to frame times ``gain``: ``[..., T, 2 D]``, the
    first of which is 0."""
    return torch.cat([states, F.pad(states.diff(dim=-2), (0, 0, 1, 0)) * gain], -1)
