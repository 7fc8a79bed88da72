"""Hidden-state predictors: the trajectories of hidden agents from those of the visible ones (sections 4.2 and 4.3).

HSP-sa is a Set Transformer without structure; HSP-sg has the same topology and adds ``-alpha_i (1 - A)`` to the
attention scores of head ``i`` in the encoder (visible-visible block of A), the pooling (mean of both directions between
hidden and visible) and the decoder (hidden-hidden). Both are one class: HSP-sa is the case without alphas.

Agents are ordered visible first, then hidden, in every matrix here. Trajectories are ``[B, agents, T, D]``; the
structure A ``[B, N, N]`` is the probability of the interacting edge type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import permutations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional as F

from siha_ros.model.frame import with_differences
from siha_ros.model.limits import at_least
from siha_ros.model.seen_frames import carried, seen_features
from siha_ros.model.set_transformer import PMA, SAB

PAPER_ALPHAS = (0.0, 1.0, 5.0, 1e9)
ENUMERATION_LIMIT = 5  # 120 permutations; beyond, scipy's assignment is faster


@dataclass
class HSPConfig:
    """Hyper-parameters of a hidden-state predictor.

    frames: T. features: D. hidden: number of output slots. width, heads: of the Set Transformer (paper: 256, 4).
    alphas: one structural strength per head (paper: 0, 1, 5, 1e9); empty for HSP-sa.
    embedding: "mlp" on flattened trajectories or "conv", 1-D convolutions over time.
    identities: 0 for like agents (unordered slots). Otherwise the number of named agents: slot = identity, each visible
        agent is told apart by a learned vector, and the hidden ones are named by index in forward.
    difference_gain: 0 for the paper's input; otherwise frame differences times this gain go in as further features. A
        hidden agent shows in the accelerations of the visible ones, which are some 100 times smaller than their states.
    seen_frames: for hidden agents that were seen in a part of the window too (complete); like agents, no graph.
    """

    frames: int
    features: int
    hidden: int
    width: int = 256
    heads: int = 4
    alphas: list[float] = field(default_factory=list)
    embedding: str = "mlp"
    identities: int = 0
    difference_gain: float = 0.0
    seen_frames: bool = False

    def __post_init__(self) -> None:
        at_least(self, frames=1, features=1, hidden=0, width=1, heads=1, identities=0, difference_gain=0)
        if self.width % self.heads:
            raise ValueError(f"width: {self.width}, expected a multiple of the {self.heads} heads")
        if self.alphas and len(self.alphas) != self.heads:
            raise ValueError(f"alphas: {len(self.alphas)} strengths for {self.heads} heads")
        if self.embedding not in ("mlp", "conv"):
            raise ValueError(f"embedding: {self.embedding!r} is unknown, expected 'mlp' or 'conv'")
        if self.seen_frames and (self.alphas or self.identities):
            raise ValueError("seen_frames: expected without alphas and identities")


class TrajectoryConvolution(nn.Module):
    """One vector per trajectory by 1-D convolutions over time and attentive pooling."""

    def __init__(self, features: int, width: int):
        super().__init__()
        self.conv1 = nn.Conv1d(features, width, 5, padding=2)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2)
        self.attention = nn.Conv1d(width, 1, 1)
        self.out = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[B, A, T, D]`` to ``[B, A, width]``."""
        series = x.flatten(0, 1).transpose(1, 2)
        series = F.max_pool1d(F.relu(self.conv1(series)), 2)
        series = F.relu(self.conv2(series))
        pooled = (series * torch.softmax(self.attention(series), -1)).sum(-1)
        return self.out(torch.cat([pooled, series[..., -1]], -1)).view(*x.shape[:2], -1)


def _embedding(config: HSPConfig, features: int) -> nn.Module:
    """Of ``[B, A, T, features]``, ``[B, A, width]``."""
    if config.embedding == "conv":
        return TrajectoryConvolution(features, config.width)
    return nn.Sequential(
        nn.Flatten(2),
        nn.Linear(config.frames * features, config.width),
        nn.ReLU(),
        nn.Linear(config.width, config.width),
    )


class HiddenStatePredictor(nn.Module):
    """``rFF(SAB(PMA(SAB(SAB(x_vis)))))`` (sections 4.2, 4.3)."""

    alphas: Tensor

    def __init__(self, config: HSPConfig):
        super().__init__()
        self.config = config
        width, heads, flat = config.width, config.heads, config.frames * config.features
        features = config.features * (2 if config.difference_gain else 1)
        self.embed = _embedding(config, features)
        if config.seen_frames:
            self.embed_seen = _embedding(config, features + 1)
        if config.identities:
            self.identity = nn.Parameter(torch.randn(config.identities, width) * 0.1)
        self.encode1 = SAB(width, heads)
        self.encode2 = SAB(width, heads)
        self.pool = PMA(width, heads, config.identities or config.hidden)
        self.decode = SAB(width, heads)
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, flat))
        self.register_buffer("alphas", torch.tensor(config.alphas), persistent=False)

    def forward(
        self,
        visible: Tensor,
        structure: Tensor | None = None,
        names: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """``visible [B, V, T, D]`` to hidden slots ``[B, H, T, D]``.

        structure: A ``[B, V + H, V + H]``, required with alphas, refused without.
        names: identities (visible ``[V]``, hidden ``[H]``) of a predictor with named agents.
        """
        config = self.config
        if (structure is not None) != bool(config.alphas):
            raise ValueError("structure goes with alphas: HSP-sg needs it and HSP-sa takes none")
        tokens = self._tokens(visible)
        seeds = None
        if config.identities:
            if names is None:
                raise ValueError("names: a predictor of named agents needs their identities")
            tokens = tokens + self.identity[names[0]]
            seeds = names[1]
        within = cross = among = None
        if structure is not None:
            within, cross, among = structural_bias(structure, visible.shape[1], self.alphas)
        z = self.encode2(self.encode1(tokens, within), within)
        return self._states(self.decode(self.pool(z, cross, seeds), among))

    def complete(self, visible: Tensor, seen: Tensor, mask: Tensor) -> Tensor:
        """The same of hidden agents that were seen in a part of the window (``seen_frames``): states ``seen [B, H, T,
        D]`` count where ``mask [B, H, T]`` is true. Slot j is agent j if any do, the slots of the others have no order.

        What was seen of an agent is an element of the set beside the visible ones, and its slot starts from what the
        encoder made of it; it says how the agent leaves the path on which it was seen. Where nothing was seen of any
        this is :meth:`forward`.
        """
        count, known = visible.shape[1], mask.any(2)
        tokens = torch.cat(
            [self._tokens(visible), self.embed_seen(seen_features(seen, mask, self.config.difference_gain))], 1
        )
        bias = _only(torch.cat([known.new_ones(len(known), count), known], 1))
        z = self.encode2(self.encode1(tokens, bias), bias)
        turn = (known.logical_not().cumsum(1) - 1).clamp_min(0)  # seeds are for the agents that were never seen
        seeds = torch.where(known[..., None], z[:, count:], self.pool.seeds[turn])
        path, free = carried(seen, mask)
        return path + free * self._states(self.decode(self.pool(z, bias, seeds)))

    def _tokens(self, visible: Tensor) -> Tensor:
        gain = self.config.difference_gain
        tokens: Tensor = self.embed(with_differences(visible, gain) if gain else visible)
        return tokens

    def _states(self, slots: Tensor) -> Tensor:
        states: Tensor = self.out(slots).float().unflatten(-1, (self.config.frames, self.config.features))
        return states


def _only(known: Tensor) -> Tensor:
    """The attention bias ``[B, 1, 1, n]`` by which nobody attends to elements that are not ``known [B, n]``."""
    return torch.zeros(known.shape, device=known.device).masked_fill(~known, -torch.inf)[:, None, None]


def structural_bias(structure: Tensor, visible: int, alphas: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The attention biases ``-alpha_i (1 - A)`` of section 4.3.

    structure ``[B, N, N]``, visible agents first; alphas ``[h]``. The diagonal counts as 1: an agent may always attend
    to itself. A is rounded to half precision, as the structure cache of training holds it: an edge that is sure to 2e-4
    counts as 1, or a head with alpha 1e9 would see other edges at run time than it was trained with.
    Returns float32 ``[B, h, V, V]`` (A_vv), ``[B, h, H, V]`` (A_cross = (A_hv + A_vh^T) / 2), ``[B, h, H, H]`` (A_hh).
    """
    agents = structure.shape[-1]
    eye = torch.eye(agents, dtype=torch.bool, device=structure.device)
    structure = structure.half().float().masked_fill(eye, 1.0)
    cross = (structure[:, visible:, :visible] + structure[:, :visible, visible:].transpose(1, 2)) / 2
    scale = -alphas.float()[:, None, None]
    blocks = structure[:, :visible, :visible], cross, structure[:, visible:, visible:]
    within, between, among = (scale * (1 - block).unsqueeze(1) for block in blocks)
    return within, between, among


@cache
@torch.inference_mode(False)  # kept for later calls, which may need gradients
def _permutations(slots: int) -> Tensor:
    return torch.tensor(list(permutations(range(slots))))


def align(predicted: Tensor, target: Tensor, known: Tensor | None = None, settled: Tensor | None = None) -> Tensor:
    """Indices ``[B, H]`` of the slot of ``predicted [B, H, ...]`` that stands for each agent of ``target [B, H, ...]``.

    Minimises the mean squared error of each sample exactly (Hungarian matching, section 4.5): up to five slots by
    trying every permutation on the tensors, beyond that by scipy. ``take_slots(predicted, indices)`` is then in the
    order of the target. known ``[B, H, ...]``: entries of the target that count; None: all. settled bool ``[B, H]``:
    slots that stand for the agent of their own number; None: none does.
    """
    slots = predicted.shape[1]
    with torch.no_grad():
        squared = (target.flatten(2).unsqueeze(2) - predicted.flatten(2).unsqueeze(1)).square()
        cost = (squared if known is None else squared * known.flatten(2).unsqueeze(2)).mean(-1)
        if settled is not None:
            elsewhere = ~torch.eye(slots, dtype=torch.bool, device=cost.device)
            cost = cost.masked_fill((settled.unsqueeze(1) | settled.unsqueeze(2)) & elsewhere, torch.inf)
        if slots <= ENUMERATION_LIMIT:
            orders = _permutations(slots).to(cost.device)
            rows = torch.arange(slots, device=cost.device).expand_as(orders)
            return orders[cost[:, rows, orders].sum(-1).argmin(-1)]
        matches = [linear_sum_assignment(sample)[1] for sample in cost.cpu().numpy()]
        return torch.from_numpy(np.stack(matches)).to(cost.device)


def take_slots(slots: Tensor, order: Tensor) -> Tensor:
    """``slots [B, H, ...]`` reordered by ``order [B, H]``."""
    return slots[torch.arange(slots.shape[0], device=slots.device)[:, None], order]


def reconstruction_error(
    predicted: Tensor,
    target: Tensor,
    ordered: bool = False,
    known: Tensor | None = None,
    settled: Tensor | None = None,
) -> Tensor:
    """Mean squared error of each sample ``[B]`` (section 4.5), after alignment unless slots are ``ordered``.

    known: bool, of the target's shape, false where the target was not measured; None: it was everywhere. settled: as in
    :func:`align`.
    """
    if not ordered:
        predicted = take_slots(predicted, align(predicted, target, known, settled))
    squared = (predicted - target).square().flatten(1)
    if known is None:
        return squared.mean(-1)
    known = known.flatten(1)
    return (squared * known).sum(-1) / known.sum(-1).clamp_min(1)
