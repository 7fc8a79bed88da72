"""Stage 1: NRI on complete trajectories, by the evidence lower bound or taught by a model of single steps. Edge labels
are seen by the validation only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from offline_training.stages import processes
from offline_training.stages.loop import Schedule, Stage, train
from offline_training.stages.samples import Sample, device_of, mine, parts
from siha_ros.model.edges import incoming_to_matrix
from siha_ros.model.nri import NRI
from siha_ros.replay.metrics import edge_accuracy


def train_nri(
    name: str,
    folder: Path,
    nri: NRI,
    sample: Callable[[torch.Generator], Sample],
    validation: Tensor,
    edges: Tensor | None,
    schedule: Schedule,
    *,
    batch: int,
    starts: int | None = None,
    taught_by: Callable[[Tensor, Tensor | None], Tensor] | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Train ``nri`` on sample(generator): a batch of states ``[B, A, T, D]``, with a mask where there are gaps.

    validation: states ``[n, A, T, D]`` with true edges ``[n, A, A]`` or None. starts: as in :meth:`NRI.elbo_loss`.
    taught_by(states, mask): edges ``[B, A, A - 1, K]`` that :meth:`NRI.taught_loss` learns from, in place of the bound;
    of each process's share, random by torch's own generator.
    The model kept is the one with the lowest validation loss, which needs no labels.
    """

    def validate(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, NRI)
        return evaluate_nri(model, validation, edges)

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        states, known = parts(sample(generator), nri)
        if taught_by is not None:
            return nri.taught_loss(states, taught_by(states, known), starts, known)
        agents = states.shape[1]
        whole = len(states) * processes.count()  # drawn for the whole batch, so that every process's share is the same
        noise = torch.empty(whole, agents, agents - 1, nri.config.edge_types).exponential_()
        return nri.elbo_loss(states, starts, known, mine(noise, nri))

    return train(name, folder, Stage(nri, loss, validate, better="nll"), schedule, seed=seed, batch=batch)


@torch.no_grad()
def evaluate_nri(nri: NRI, states: Tensor, edges: Tensor | None) -> dict[str, float]:
    """Likelihood term under the most probable graph and, where edges are known, their accuracy in percent."""
    squared, guesses = [], []
    device = device_of(nri)
    with torch.autocast(device.type, torch.bfloat16, enabled=False):
        for x in (part.to(device) for part in states.split(256)):
            logits = nri.encoder(x)
            types = torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(x)
            squared.append((nri.predict(x, types) - x[:, :, 1:]).square().flatten(1).mean(1))
            guesses.append(incoming_to_matrix(types).argmax(-1))
    mse = float(torch.cat(squared).mean())
    frames, features = states.shape[2] - 1, states.shape[3]
    metrics = {"mse": mse, "nll": mse * frames * features / (2 * nri.config.variance)}
    return metrics | known_accuracy(guesses, edges, nri.config.edge_types)


def known_accuracy(guesses: list[Tensor], edges: Tensor | None, types: int) -> dict[str, float]:
    """Percent of the edges right, as ``accuracy``, of guessed types in parts ``[B, A, A]``; nothing where the edges
    ``[n, A, A]`` are not known."""
    if edges is None:
        return {}
    guess = torch.cat(guesses).cpu().numpy()
    hidden = np.zeros(guess.shape[1], dtype=bool)
    accuracy = edge_accuracy(guess, edges.numpy().astype(int), hidden, types)["acc_vv"]
    assert accuracy is not None
    return {"accuracy": accuracy}
