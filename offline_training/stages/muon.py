"""Muon: for matrices of weights, steps whose singular values are all about 1.

K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024). As :class:`torch.optim.Muon`, but
for its precision: that one multiplies in bfloat16 whatever the machine, which takes a processor without instructions
for it seventy times as long. And matrices of one shape are one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn

from offline_training.stages.precision import pays

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic that takes singular values to about 1, steepest at 0
ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, made orthogonal. rate: as of Adam, whose steps are as large (by root mean square)."""

    def __init__(self, matrices: Iterable[nn.Parameter], rate: float):
        super().__init__(matrices, {"lr": rate})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take the step by the gradients that are there, or that ``closure`` makes; returns what it returns."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            updates: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(weight)
                momentum = state["momentum_buffer"].lerp_(weight.grad, 1 - MOMENTUM)
                updates[weight.shape].append((weight, weight.grad.lerp(momentum, MOMENTUM)))
            for shape, alike in updates.items():
                weights, steps = zip(*alike, strict=True)
                size = 0.2 * max(shape) ** 0.5 * group["lr"]
                for weight, step in zip(weights, orthogonal(torch.stack(steps)), strict=True):
                    weight.sub_(step, alpha=size)
        return loss


def orthogonal(matrices: Tensor) -> Tensor:
    """``[n, rows, columns]`` with singular values of about 1 (0.7 to 1.2) in place of their own, by Newton and
    Schulz's iteration."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.to(torch.bfloat16 if pays(matrices.device.type) else torch.float32)
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
