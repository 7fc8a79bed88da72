"""A loss that is a sum over parts of a batch, with its gradient made part by part.

What autograd keeps for the backward pass is then that of one part, so memory does not grow with the batch, and one part
fits the processor's caches. Sum and gradient are those of the whole batch at once, within rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def sum_in_parts(
    function: Callable[..., Tensor], parts: Sequence[tuple], inputs: Sequence[Tensor], weights: Sequence[Tensor] = ()
) -> Tensor:
    """``sum(function(*inputs, *part) for part in parts)``, where function returns a scalar.

    weights: leaves besides the inputs that the function depends on. It can be differentiated once, by both.
    """
    if not torch.is_grad_enabled():
        return torch.stack([function(*inputs, *part) for part in parts]).sum()
    total: Tensor = _SumInParts.apply(function, parts, len(inputs), *inputs, *weights)
    return total


class _SumInParts(torch.autograd.Function):
    """The gradient is known when the sum is, up to the factor that the backward pass brings."""

    @staticmethod
    def forward(
        ctx: Any, function: Callable[..., Tensor], parts: Sequence[tuple], count: int, *given: Tensor
    ) -> Tensor:
        ctx.needed = ctx.needs_input_grad[3:]
        # cut off from how they came to be, and from one another
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in given[:count]]
        wanted = [x for x, needed in zip([*inputs, *given[count:]], ctx.needed, strict=True) if needed]
        gradients, values = [torch.zeros_like(x) for x in wanted], []
        for part in parts:
            with torch.enable_grad():
                value = function(*inputs, *part)
            values.append(value.detach())
            if wanted:
                found = torch.autograd.grad(value, wanted, allow_unused=True)
                for gradient, more in zip(gradients, found, strict=True):
                    if more is not None:
                        gradient += more
        ctx.save_for_backward(*gradients)
        return torch.stack(values).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        gradients = iter(ctx.saved_tensors)
        return None, None, None, *(factor * next(gradients) if needed else None for needed in ctx.needed)
