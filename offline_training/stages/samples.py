"""What a stage draws: states, and which of their entries were measured where some were not."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor

Sample: TypeAlias = Tensor | tuple[Tensor, Tensor | None]
"""States ``[B, A, T, D]``, and bool of that shape: false where they fill a gap, that is not learned (None: nowhere)."""


def parts(sample: Sample) -> tuple[Tensor, Tensor | None]:
    """States and mask of a sample."""
    return (sample, None) if isinstance(sample, Tensor) else sample
