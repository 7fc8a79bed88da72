"""``siha reproduce encoders``: the paper's ablation of HSP-sa's encoder, on Springs with 2 hidden agents. Each takes
the place of the two attention blocks over the visible agents; embedding, pooling and decoder stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import VISIBLE, Lab, space_of
from offline_training.experiments.measure import all_figures
from offline_training.experiments.report import bars, budget, figure, table
from siha_ros.model.frame import with_differences
from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import PairLinear
from siha_ros.model.set_transformer import LayerNorm
from siha_ros.replay.evaluate import network_answer

HIDDEN = 2
PAPER = {
    "mlp": "1.2e-2",
    "transformer": "1.1e-2",
    "gnn": "1.6e-2",
    "slot_attention": "1.6e-2",
    "set_transformer": "5.6e-3",
}


class MLPEncoder(nn.Module):
    """Two layers over all visible agents at once, in the order in which they come."""

    def __init__(self, width: int, heads: int, visible: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(1), nn.Linear(visible * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, visible * width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """``[B, V, width]`` to the same."""
        return self.layers(tokens).view_as(tokens)


class TransformerEncoder(nn.Module):
    """Two layers as Vaswani et al. (2017) describe them, with their sinusoidal positions: here the agents' numbers."""

    positions: Tensor

    def __init__(self, width: int, heads: int, visible: int):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        angle = torch.arange(visible)[:, None] * rate
        self.register_buffer("positions", torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width])

    def forward(self, tokens: Tensor) -> Tensor:
        """``[B, V, width]`` to the same."""
        return self.layers(tokens + self.positions)


class GraphEncoder(nn.Module):
    """Two rounds of messages between all pairs: a receiver adds what the mean of its messages makes of it."""

    def __init__(self, width: int, heads: int, visible: int):
        super().__init__()
        self.messages = nn.ModuleList(PairLinear(width, width) for _ in range(2))
        self.updates = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(2)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """``[B, V, width]`` to the same."""
        for message, update in zip(self.messages, self.updates, strict=True):
            received = F.relu(message(tokens)).mean(2)
            tokens = tokens + update(torch.cat([tokens, received], -1))
        return tokens


class SlotAttention(nn.Module):
    """Slot Attention (Locatello et al., 2020): slots compete for the agents, in three rounds. They start from learned
    vectors, not from random ones, so that an answer is always the same; there are as many as visible agents."""

    def __init__(self, width: int, heads: int, visible: int):
        super().__init__()
        self.start = nn.Parameter(torch.randn(visible, width) / math.sqrt(width))
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.norm_in, self.norm_slots, self.norm_out = (LayerNorm(width) for _ in range(3))
        self.cell = nn.GRUCell(width, width)
        self.feedforward = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """``[B, V, width]`` to slots ``[B, V, width]``."""
        tokens, kind = self.norm_in(tokens), self.start.dtype
        key, value = self.key(tokens), self.value(tokens)
        slots = self.start.expand(len(tokens), -1, -1)
        for _ in range(3):
            query = self.query(self.norm_slots(slots)) / math.sqrt(tokens.shape[-1])
            share = torch.softmax(query @ key.transpose(1, 2), 1) + 1e-8  # of each agent, over the slots
            taken = (share / share.sum(2, keepdim=True)) @ value
            slots = self.cell(taken.flatten(0, 1).to(kind), slots.flatten(0, 1).to(kind)).view_as(slots)
            slots = slots + self.feedforward(self.norm_out(slots))
        return slots


ENCODERS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "mlp": MLPEncoder,
    "transformer": TransformerEncoder,
    "gnn": GraphEncoder,
    "slot_attention": SlotAttention,
}


class OtherPredictor(HiddenStatePredictor):
    """HSP-sa with another encoder."""

    def __init__(self, config: HSPConfig, encoder: str):
        super().__init__(config)
        del self.encode1, self.encode2
        self.encoder = ENCODERS[encoder](config.width, config.heads, VISIBLE)

    def forward(
        self, visible: Tensor, structure: Tensor | None = None, names: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """``visible [B, V, T, D]`` to hidden slots ``[B, H, T, D]``."""
        config = self.config
        if config.difference_gain:
            visible = with_differences(visible, config.difference_gain)
        slots = self.decode(self.pool(self.encoder(self.embed(visible))))
        return self.out(slots).float().unflatten(-1, (config.frames, config.features))


def cells(lab: Lab, options: Options) -> list[Cell]:
    """One for each encoder; the last is the main table's HSP-sa."""
    return [_cell(lab, options, name) for name in PAPER]


def _cell(lab: Lab, options: Options, name: str) -> Cell:
    setting = options.setting("springs", HIDDEN)

    def run() -> dict[str, Any]:
        other = partial(OtherPredictor, encoder=name) if name in ENCODERS else None
        sa, nri, task = lab.hsp_sa(setting, name if other else "", other), lab.nri(setting), lab.task(setting)
        answers = {name: network_answer(name, nri.network, task, sa.network, True)}
        weights = sum(parameter.numel() for parameter in sa.network.parameters())
        found = all_figures(answers, task, space_of(setting))[name]
        return {"encoder": name, "weights": weights, "cost": sa.cost, "figures": found}

    needs = lab.needs(setting, "nri", "hsp_sa")
    if name in ENCODERS:
        needs |= {f"{name} {label}": minutes for label, minutes in lab.needs(setting, "hsp_sa").items()}
    return Cell("encoders", name, lab.cell_key(setting) | {"encoder": name}, needs, run)


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/encoders.png``."""
    rows = []
    for result in results:
        found = figure(result["figures"], "mse_hsp_mean", PAPER[result["encoder"]])
        median = figure(result["figures"], "mse_hsp_median")
        rows.append([result["encoder"], found, median, f"{result['weights'] / 1e6:.2f} M", budget([result["cost"]])])
    bars(
        folder / "encoders.png",
        "MSE_HSP",
        [result["encoder"] for result in results],
        {
            "ours": [result["figures"]["mse_hsp_mean"] for result in results],
            "paper": [float(PAPER[result["encoder"]]) for result in results],
        },
        {"ours": [result["figures"]["mse_hsp_mean_ci"] for result in results]},
    )
    head = ["encoder", "MSE_HSP", "median", "weights", "budget"]
    return "ours [95 % interval] (paper's)\n\n" + table(head, rows)
