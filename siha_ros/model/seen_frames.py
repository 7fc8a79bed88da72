"""Agents that were seen in a part of the window, as input of a hidden-state predictor (``HSPConfig.seen_frames``).

Not in the paper, whose hidden agents are absent throughout. What a network has to find here is by how much an agent has
left the path on which it was last seen, so that path is laid out first: :func:`carried`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

MEMORY = 8.0  # frames in which a change from frame to frame fades, and a path is left


def seen_features(seen: Tensor, mask: Tensor, gain: float) -> Tensor:
    """What a network is shown of ``seen [B, H, T, D]``, which counts where ``mask [B, H, T]`` is true: states, with a
    ``gain`` their changes between two seen frames times it, and the mask: ``[B, H, T, D + 1 or 2 D + 1]``."""
    states, shown = torch.where(mask[..., None], seen, 0.0), mask[..., None].to(seen.dtype)
    return torch.cat([states, *([_changes(states, mask) * gain] if gain else []), shown], -1)


def carried(seen: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The path ``[B, H, T, D]`` on which agents are without any forces, and how free they are to leave it,
    ``[B, H, T, 1]``: 0 where they are seen, towards 1 some MEMORY frames away from there.

    In each frame it goes on from the nearest seen frames before and after it, by their last change, which fades;
    between the two the nearer one weighs more. An agent that was never seen has zeros and 1.
    """
    states = torch.where(mask[..., None], seen, 0.0)
    onward, since = _onward(states, mask)
    back, until = (part.flip(2) for part in _onward(states.flip(2), mask.flip(2)))
    before, after = 1 / (since + 1e-3), 1 / (until + 1e-3)  # 0 where there is no such frame
    path = (onward * before + back * after) / (before + after).clamp_min(1e-9)
    return path, 1 - torch.exp(-torch.minimum(since, until) / MEMORY)


def _changes(states: Tensor, mask: Tensor) -> Tensor:
    """From the frame before, of ``[B, H, T, D]``; 0 unless both are seen."""
    both = F.pad(mask[..., 1:] & mask[..., :-1], (1, 0))[..., None]
    return torch.where(both, F.pad(states.diff(dim=2), (0, 0, 1, 0)), 0.0)


def _onward(states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """States ``[B, H, T, D]`` that go on from the last seen frame, and frames since then, ``[B, H, T, 1]``: infinite
    before the first one."""
    frames = torch.arange(mask.shape[2], device=mask.device)
    last = torch.where(mask, frames, -1).cummax(2).values[..., None]
    since = torch.where(last < 0, torch.inf, (frames[:, None] - last).to(states.dtype))
    index = last.clamp_min(0).expand_as(states)
    faded = MEMORY * (1 - torch.exp(-since / MEMORY))
    return states.gather(2, index) + _changes(states, mask).gather(2, index) * faded, since
