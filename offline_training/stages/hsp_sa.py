"""Stage 2: HSP-sa, the structure-agnostic predictor, on visible trajectories with the hidden ones as target; with
``seen_frames`` hidden agents are seen in random parts of the window, and the target is the rest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from offline_training.stages.loop import Stage
from offline_training.stages.samples import Sample, device_of, mine, parts, random_losses
from siha_ros.model.hidden_state import HiddenStatePredictor, reconstruction_error


def hsp_sa_stage(
    hsp: HiddenStatePredictor,
    sample: Callable[[torch.Generator], Sample],
    validation: Tensor,
    *,
    visible: int,
    batch: int,
    ordered: bool = False,
) -> Stage:
    """``hsp`` learns from sample(generator): states ``[B, A, T, D]`` whose first ``visible`` agents are seen, with a
    mask where there are gaps.

    validation: states ``[n, A, T, D]``. ordered: slots stand for the hidden agents in their order. Of the metrics,
    "mse_absent" is that of agents that were never seen, where others are.
    """
    partly = hsp.config.seen_frames

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        states, known = parts(sample(generator), hsp)
        known = None if known is None else known[:, visible:]
        if partly:
            losses = mine(random_losses(batch, states.shape[1] - visible, states.shape[2], generator), hsp)
            return completion_error(hsp, states, visible, losses, known).mean(), {}
        return reconstruction_error(hsp(states[:, :visible]), states[:, visible:], ordered, known).mean(), {}

    count, agents, frames, _ = validation.shape
    checked = random_losses(count, agents - visible, frames, torch.Generator().manual_seed(0)) if partly else None

    @torch.no_grad()
    def validate(model: nn.Module) -> dict[str, float]:
        chunks = [x.to(device_of(model)) for x in validation.split(500)]
        errors = [reconstruction_error(model(x[:, :visible]), x[:, visible:], ordered) for x in chunks]
        absent = float(torch.cat(errors).mean())
        if checked is None:
            return {"mse": absent}
        assert isinstance(model, HiddenStatePredictor)
        losses = (x.to(device_of(model)) for x in checked.split(500))
        errors = [completion_error(model, x, visible, part) for x, part in zip(chunks, losses, strict=True)]
        return {"mse": float(torch.cat(errors).mean()), "mse_absent": absent}

    return Stage(hsp, loss, validate, better="mse")


def completion_error(
    hsp: HiddenStatePredictor, states: Tensor, visible: int, seen: Tensor, known: Tensor | None = None
) -> Tensor:
    """Mean squared error of each sample ``[B]`` of ``states [B, A, T, D]`` where the agents after the first ``visible``
    are not ``seen [B, H, T]``. known ``[B, H, T, D]``: where they were measured; None: everywhere."""
    hidden = states[:, visible:]
    wanted = ~seen[..., None].expand_as(hidden)
    if known is not None:
        seen, wanted = seen & known.all(-1), wanted & known
    found = hsp.complete(states[:, :visible], hidden, seen)
    return reconstruction_error(found, hidden, known=wanted, settled=seen.any(2))
