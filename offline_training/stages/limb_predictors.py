"""Stages 2 and 3 for bodies: HSP-sa and HSP-sg over the linear path, one network of each for all limbs.

A predictor sees the joints outside a limb, each told apart by a learned vector, and its slots are the limb's joints.
Its output is what the linear path lacks, in units of what it typically lacks (``gain``); the training targets are out
of fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from offline_training.datasets.body_states import BodyWindows
from offline_training.stages.hsp_sg import refresher
from offline_training.stages.loop import Schedule, Stage, train
from offline_training.stages.precision import autocast
from siha_ros.body_estimator import SETTLED, OverLinearPath
from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import GUIDING_TYPE, Refinement

CHUNK = 128


@dataclass
class Limb:
    """Indices of the joints outside and inside a limb, and all of them in that order."""

    visible: Tensor
    hidden: Tensor

    @staticmethod
    def of(hidden: NDArray[np.int64], agents: int) -> Limb:
        """The limb with these joints."""
        outside = np.setdiff1d(np.arange(agents), hidden)
        return Limb(torch.from_numpy(outside), torch.from_numpy(np.asarray(hidden)))

    @property
    def names(self) -> tuple[Tensor, Tensor]:
        """What a predictor of named agents is told."""
        return self.visible, self.hidden


def measure_gain(data: BodyWindows, limbs: dict[str, Limb]) -> Tensor:
    """Root mean square ``[6]`` of what the linear path lacks, in normalised positions and velocities."""
    hidden = torch.cat([limb.hidden for limb in limbs.values()])
    lacking = data.states(data.errors[::4, hidden])
    kinds = lacking.square().mean((0, 1, 2)).view(2, 3).mean(1).sqrt()
    return kinds.repeat_interleave(3)


def split(data: BodyWindows, positions: Tensor, errors: Tensor, limb: Limb) -> tuple[Tensor, Tensor, Tensor]:
    """Visible states, first completion and true states of a limb, normalised ``[B, V or H, T, 6]``."""
    hidden = positions[:, limb.hidden]
    return (
        data.states(positions[:, limb.visible]),
        data.states(hidden - errors[:, limb.hidden]),
        data.states(hidden),
    )


def centimetres(data: BodyWindows, found: Tensor, truth: Tensor) -> float:
    """Mean joint error (cm) of states ``[B, H, T, 6]``."""
    return float((found - truth)[..., :3].norm(dim=-1).mean() * data.scale.position * 100)


def train_limb_hsp_sa(
    name: str,
    folder: Path,
    hsp: HiddenStatePredictor,
    data: BodyWindows,
    validation: BodyWindows,
    limbs: dict[str, Limb],
    gain: Tensor,
    schedule: Schedule,
    batch: int,
    seed: int = 0,
) -> dict[str, float]:
    """Direct joint-wise MSE (the paper's for bodies) of a random limb in each step."""
    ordered = list(limbs.values())

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        limb = ordered[int(torch.randint(0, len(ordered), (1,), generator=generator))]
        index = torch.randint(0, len(data), (batch,), generator=generator)
        visible, first, truth = split(data, *data.batch(index, generator), limb)
        return (hsp(visible, names=limb.names) - (truth - first) / gain).square().mean(), {}

    @torch.no_grad()
    def validate(model: nn.Module) -> dict[str, float]:
        figures = {}
        for which, limb in limbs.items():
            visible, first, truth = split(data, *validation.batch(slice(None)), limb)
            parts = [model(x, names=limb.names) for x in visible.split(CHUNK)]
            figures[f"cm_{which}"] = centimetres(data, first + gain * torch.cat(parts), truth)
        return {"cm": float(np.mean(list(figures.values())))} | figures

    return train(name, folder, Stage(hsp, loss, validate, better="cm"), schedule, seed=seed, batch=batch)


class LimbCache:
    """Structure cache: A ``[n, N, N]`` for every sample and limb, agents outside the limb first."""

    def __init__(self, nri: NRI, data: BodyWindows, limbs: dict[str, Limb], gain: Tensor):
        self.nri, self.data, self.limbs, self.gain = nri, data, limbs, gain
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def fill(self, hsp: HiddenStatePredictor) -> None:
        """Infer all graphs anew with ``hsp``; an HSP-sg works under the graphs cached so far."""
        for which, limb in self.limbs.items():
            parts = []
            for begin in range(0, len(self.data), CHUNK):
                part = slice(begin, begin + CHUNK)
                visible, first, _ = split(self.data, *self.data.batch(part), limb)
                with autocast(torch.device("cpu"), True):
                    guided = self.kept[which][part].float() if hsp.config.alphas else None
                    hidden = OverLinearPath(hsp, first, self.gain)(visible, guided, limb.names)
                    graph = self.nri.graph(torch.cat([visible, hidden], 1))
                parts.append(graph[..., GUIDING_TYPE].half())
            self.kept[which] = torch.cat(parts)


def refine(
    data: BodyWindows,
    hsp_sa: HiddenStatePredictor,
    hsp_sg: HiddenStatePredictor,
    nri: NRI,
    limb: Limb,
    gain: Tensor,
    rounds: int,
) -> Tensor:
    """The refined states ``[n, H, T, 6]`` of a limb in all windows of a set, each until it settles, as at run time."""
    found = []
    for begin in range(0, len(data), CHUNK):
        visible, first, _ = split(data, *data.batch(slice(begin, begin + CHUNK)), limb)
        guess, guided = (OverLinearPath(network, first, gain) for network in (hsp_sa, hsp_sg))
        loop = Refinement(cast(Any, guess), cast(Any, guided), nri, rounds)
        found.append(loop(visible, names=limb.names, tolerance=SETTLED).hidden)
    return torch.cat(found)


def train_limb_hsp_sg(
    name: str,
    folder: Path,
    hsp_sg: HiddenStatePredictor,
    hsp_sa: HiddenStatePredictor,
    nri: NRI,
    data: BodyWindows,
    validation: BodyWindows,
    limbs: dict[str, Limb],
    gain: Tensor,
    schedule: Schedule,
    *,
    batch: int,
    warmup_epochs: float,
    refresh_epochs: float,
    rounds: int = 3,
    seed: int = 0,
) -> dict[str, float]:
    """Train under the structure cache, as :func:`offline_training.stages.hsp_sg.hsp_sg_stage` does for like agents.

    The samples are not mirrored: their cached graphs would have to be.
    """
    cache = LimbCache(nri, data, limbs, gain)
    which = list(limbs)
    first_refresh, every = (max(1, round(epochs * len(data) / batch)) for epochs in (warmup_epochs, refresh_epochs))

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        chosen = which[int(torch.randint(0, len(which), (1,), generator=generator))]
        limb = limbs[chosen]
        index = torch.randint(0, len(data), (batch,), generator=generator)
        visible, first, truth = split(data, *data.batch(index), limb)
        found = hsp_sg(visible, cache.kept[chosen][index].float(), limb.names)
        return (found - (truth - first) / gain).square().mean(), {}

    @torch.no_grad()
    def validate(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, HiddenStatePredictor)
        figures = {}
        for name_of, limb in limbs.items():
            _, _, truth = split(data, *validation.batch(slice(None)), limb)
            figures[f"cm_{name_of}"] = centimetres(
                data, refine(validation, hsp_sa, model, nri, limb, gain, rounds), truth
            )
        return {"cm": float(np.mean(list(figures.values())))} | figures

    refresh = refresher(name, cache, hsp_sa, first_refresh, every)
    stage = Stage(hsp_sg, loss, validate, better="cm", each_step=refresh, kept=[cache.kept])
    return train(name, folder, stage, schedule, seed=seed, batch=batch)
