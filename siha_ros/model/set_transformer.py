"""Set Transformer blocks (Lee et al., ICML 2019) as appendix A.2 of the SIHA paper writes them, with an attention bias.

Sets are ``[B, n, width]``. No block knows of trajectories or graphs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MultiheadAttention(nn.Module):
    """``Concat(head_1 .. head_h) W_O`` with scaled dot-product heads (appendix A.2).

    Scores, bias and softmax are float32 where the input is narrower: a bias of -1e9 overflows half precision.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of {heads} heads")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
        """Queries ``x [B, n, width]``, keys and values ``y [B, m, width]``, ``bias [B, heads, n, m]`` or none."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(x), self.key(y), self.value(y))
        )
        # width / heads is the size of a head: softmax(q k / sqrt(d / h)) of the paper
        scores = query @ key.transpose(2, 3)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) / math.sqrt(query.shape[-1])
        if bias is not None:
            scores = scores + bias
        attended = torch.softmax(scores, -1).to(value.dtype) @ value
        return self.out(attended.transpose(1, 2).flatten(2))


class LayerNorm(nn.LayerNorm):
    """On a CPU in float32 where the input is narrower: PyTorch sums the gradients of its weights in the input's type
    there, and in bfloat16 such a sum stands still after some hundreds of rows. On a GPU autocast sees to that."""

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., width]``, of whose type the result is on a CPU."""
        if x.device.type != "cpu":
            return super().forward(x)
        return super().forward(x.to(torch.promote_types(x.dtype, torch.float32))).to(x.dtype)


class MAB(nn.Module):
    """``LN(H + rFF(H))`` with ``H = LN(X + Multihead(X, Y, Y))``."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = MultiheadAttention(width, heads)
        self.norm1 = LayerNorm(width)
        self.feedforward = nn.Linear(width, width)
        self.norm2 = LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
        """``x [B, n, width]`` attends to ``y [B, m, width]``; bias as in :class:`MultiheadAttention`."""
        hidden = self.norm1(x + self.attention(x, y, bias))
        return self.norm2(hidden + F.relu(self.feedforward(hidden)))


class SAB(MAB):
    """``MAB(X, X)``."""

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """``x [B, n, width]`` attends to itself."""
        return super().forward(x, x, bias)


class PMA(nn.Module):
    """Pooling by attention: ``MAB(S, rFF(Z))`` with learned seeds ``S``, one for each element of the output set."""

    def __init__(self, width: int, heads: int, seeds: int):
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(seeds, width))
        nn.init.xavier_uniform_(self.seeds)
        self.feedforward = nn.Linear(width, width)
        self.block = MAB(width, heads)

    def forward(self, z: Tensor, bias: Tensor | None = None, seeds: Tensor | None = None) -> Tensor:
        """``z [B, m, width]`` to ``[B, k, width]``. seeds: indices of the seeds to use, all by default, or vectors
        ``[B, k, width]`` in their place."""
        if seeds is None or not seeds.is_floating_point():
            seeds = self.seeds if seeds is None else self.seeds[seeds]
        return self.block(seeds.expand(z.shape[0], -1, -1), F.relu(self.feedforward(z)), bias)
