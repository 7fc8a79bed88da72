"""Stage 2: HSP-sa, the structure-agnostic predictor, on visible trajectories with the hidden ones as target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from offline_training.stages.loop import Schedule, train
from offline_training.stages.samples import Sample, device_of, parts
from siha_ros.model.hidden_state import HiddenStatePredictor, reconstruction_error


def train_hsp_sa(
    name: str,
    folder: Path,
    hsp: HiddenStatePredictor,
    sample: Callable[[torch.Generator], Sample],
    validation: Tensor,
    schedule: Schedule,
    *,
    visible: int,
    batch: int,
    ordered: bool = False,
    seed: int = 0,
) -> dict[str, float]:
    """Train ``hsp`` on sample(generator): states ``[B, A, T, D]`` whose first ``visible`` agents are seen, with a mask
    where there are gaps.

    validation: states ``[n, A, T, D]``. ordered: slots stand for the hidden agents in their order. Returns the metrics
    of the best validation.
    """

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        states, known = parts(sample(generator), hsp)
        known = None if known is None else known[:, visible:]
        return reconstruction_error(hsp(states[:, :visible]), states[:, visible:], ordered, known).mean(), {}

    @torch.no_grad()
    def validate(model: nn.Module) -> dict[str, float]:
        chunks = (x.to(device_of(model)) for x in validation.split(500))
        errors = [reconstruction_error(model(x[:, :visible]), x[:, visible:], ordered) for x in chunks]
        return {"mse": float(torch.cat(errors).mean())}

    return train(name, folder, hsp, loss, validate, schedule, better="mse", seed=seed, batch=batch)
