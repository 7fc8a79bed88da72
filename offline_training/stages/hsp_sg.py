"""Stage 3: HSP-sg under a structure cache (section 4.4, Algorithm 1).

One graph per training sample, inferred by HSP-sa and NRI at the start, kept for a warm-up, then refreshed from HSP-sg's
own reconstructions every few epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from offline_training.stages import processes
from offline_training.stages.loop import Stage
from offline_training.stages.precision import autocast
from offline_training.stages.progress import say
from offline_training.stages.samples import Sample, device_of, mine, parts, states_of
from siha_ros.model.hidden_state import HiddenStatePredictor, reconstruction_error
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import GUIDING_TYPE, Refinement
from siha_ros.progress import shown

CHUNK = 500
TRAINING, VALIDATION = "structure", "validation"  # sets of the cache


class Cache(Protocol):
    """Graphs of a fixed set, and what of them a checkpoint holds."""

    kept: dict[str, Tensor]

    def fill(self, hsp: HiddenStatePredictor) -> None:
        """Infer all graphs anew with ``hsp``."""


def refresher(
    name: str, cache: Cache, hsp_sa: HiddenStatePredictor, first: int, every: int
) -> Callable[[int, nn.Module], None]:
    """What is to be called before each step: fills the cache by HSP-sa where nothing is in it yet, and anew by the
    averaged HSP-sg from step ``first`` on, ``every`` so many steps."""

    def refresh(step: int, averaged: nn.Module) -> None:
        if not cache.kept:
            if processes.number() == 0:
                say(f"{name}: filling the structure cache")
            cache.fill(hsp_sa)
        elif step >= first and (step - first) % every == 0:
            assert isinstance(averaged, HiddenStatePredictor)
            cache.fill(averaged)

    return refresh


class StructureCache:
    """A ``[n, N, N]`` for every sample of fixed sets, visible agents first. sets: by name, the states of samples
    and how many there are."""

    def __init__(self, nri: NRI, sets: dict[str, tuple[Callable[[slice], Sample], int]], visible: int):
        self.nri, self.sets, self.visible = nri, sets, visible
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def fill(self, hsp: HiddenStatePredictor) -> None:
        """Infer all graphs anew with ``hsp``; an HSP-sg works under the graphs cached so far."""
        device = device_of(hsp)
        precision = autocast(device, True)  # all processes ask for it, though some may have nothing to infer
        for name, (states, count) in self.sets.items():
            agents = states_of(states(slice(0, 1))).shape[1]
            graphs = torch.zeros(count, agents, agents, dtype=torch.half)
            chunks = range(CHUNK * processes.number(), count, CHUNK * processes.count())
            for begin in shown(chunks, f"graphs of {CHUNK} samples", progress=processes.number() == 0):
                part = slice(begin, min(begin + CHUNK, count))
                visible = states_of(states(part))[:, : self.visible].to(device)
                with precision:
                    cached = self.kept[name][part].to(device).float() if hsp.config.alphas else None
                    hidden = hsp(visible, cached)
                    graph = self.nri.graph(torch.cat([visible, hidden], 1))
                graphs[part] = graph[..., GUIDING_TYPE].half().cpu()
            self.kept[name] = processes.summed(graphs)


def hsp_sg_stage(
    name: str,
    hsp_sg: HiddenStatePredictor,
    hsp_sa: HiddenStatePredictor,
    nri: NRI,
    states: Callable[[Tensor | slice, torch.Generator | None], Sample],
    count: int,
    validation: Tensor,
    *,
    visible: int,
    batch: int,
    warmup_epochs: float,
    refresh_epochs: float,
    rounds: int | None = 5,
    ordered: bool = False,
) -> Stage:
    """``hsp_sg`` learns from states(index, generator): states ``[B, A, T, D]`` of ``batch`` samples of the fixed set of
    ``count``, whose first ``visible`` agents are seen, with a mask where there are gaps.

    They are augmented when a generator is given. The structure cache is filled at the start by ``hsp_sa`` and ``nri``,
    which are trained, first refreshed after ``warmup_epochs``, then every ``refresh_epochs``; checkpoints hold it.
    validation: states ``[n, A, T, D]``, for which the whole refinement of ``rounds`` rounds runs, or, with None, one
    pass under the graphs of a cache of its own, which is refreshed with the other. ordered: slots stand for the hidden
    agents in their order. name: of the stage, in what is said of the cache.
    """
    sets = {TRAINING: (lambda part: states(part, None), count)}
    if rounds is None:
        sets[VALIDATION] = (lambda part: validation[part], len(validation))
    cache = StructureCache(nri, sets, visible)
    first, every = (max(1, round(epochs * count / batch)) for epochs in (warmup_epochs, refresh_epochs))

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        index = torch.randint(0, count, (batch,), generator=generator)
        x, known = parts(states(index, generator), hsp_sg)
        known = None if known is None else known[:, visible:]
        hidden = hsp_sg(x[:, :visible], mine(cache.kept[TRAINING][index], hsp_sg).float())
        return reconstruction_error(hidden, x[:, visible:], ordered, known).mean(), {}

    @torch.no_grad()
    def validate(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, HiddenStatePredictor)
        errors, device = [], device_of(model)
        for begin in range(0, len(validation), CHUNK):
            part = slice(begin, begin + CHUNK)
            seen, truth = (x.to(device) for x in (validation[part, :visible], validation[part, visible:]))
            if rounds is None:
                hidden = model(seen, cache.kept[VALIDATION][part].to(device).float())
            else:
                hidden = Refinement(hsp_sa, model, nri, rounds)(seen).hidden
            errors.append(reconstruction_error(hidden, truth, ordered))
        return {"mse": float(torch.cat(errors).mean())}

    refresh = refresher(name, cache, hsp_sa, first, every)
    return Stage(hsp_sg, loss, validate, better="mse", each_step=refresh, kept=[cache.kept])
