"""What a stage draws: states, and which of their entries were measured where some were not."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor, nn

from offline_training.stages.processes import share

Sample: TypeAlias = Tensor | tuple[Tensor, Tensor | None]
"""States ``[B, A, T, D]``, and bool of that shape: false where they fill a gap, that is not learned (None: nowhere)."""


def parts(sample: Sample, model: nn.Module) -> tuple[Tensor, Tensor | None]:
    """States and mask of this process's share of a sample, on the model's device."""
    known = None if isinstance(sample, Tensor) else sample[1]
    return mine(states_of(sample), model), None if known is None else mine(known, model)


def states_of(sample: Sample) -> Tensor:
    """States of a whole sample, as they are."""
    return sample if isinstance(sample, Tensor) else sample[0]


def random_losses(count: int, hidden: int, frames: int, generator: torch.Generator) -> Tensor:
    """When the hidden agents of ``count`` samples are seen, bool ``[count, hidden, frames]``. Each at random, and at
    random times: never; until it is lost; but for a gap; for a while alone."""
    kind = torch.randint(0, 4, (count, hidden, 1), generator=generator)
    lost = torch.randint(0, frames + 1, (count, hidden, 1), generator=generator)
    begin, end = torch.randint(0, frames + 1, (2, count, hidden, 1), generator=generator).sort(0).values
    frame = torch.arange(frames)
    between = (begin <= frame) & (frame < end)
    return ((kind == 1) & (frame < lost)) | ((kind == 2) & ~between) | ((kind == 3) & between)


def mine(batch: Tensor, model: nn.Module) -> Tensor:
    """This process's share of a batch, on the model's device."""
    return share(batch).to(device_of(model), non_blocking=True)


def device_of(model: nn.Module) -> torch.device:
    """Where a model's weights are."""
    return next(model.parameters()).device
