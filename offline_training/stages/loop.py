"""The loop that every stage trains in: schedule, averaged weights, validation, checkpoints, logs, resuming.

A stage is a model, a function that computes the loss of a step and one that validates. Everything random of a step
comes from a generator seeded by (seed, step), so that a run that was killed goes on as if it had not been.
"""

from __future__ import annotations

import copy
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from offline_training.stages import processes
from offline_training.stages.muon import Muon
from offline_training.stages.precision import autocast
from offline_training.stages.progress import Progress, Stopwatch, say
from siha_ros.errors import one_line
from siha_ros.memory import lacks_memory
from siha_ros.model.limits import above_zero, at_least

OPTIMISERS = ("adam", "muon")


@dataclass
class Schedule:
    """How long and how fast a stage learns.

    steps: optimiser steps. rate: peak learning rate. optimiser: "adam", the paper's, or "muon", which learns from fewer
    samples: orthogonalised steps for matrices, Adam for the rest. weight_decay: L2 of Adam. warmup: share of the steps
    that the rate rises in; it then falls to zero on a half cosine, or stays if ``constant``. clip: gradient norm.
    average: decay of the weights' running mean, which is what is validated and kept (0 keeps the raw weights).
    validate_every (steps), checkpoint_seconds: how often. bf16: autocast of the loss, where the machine has it.
    """

    steps: int
    rate: float = 5e-4
    optimiser: str = "adam"
    weight_decay: float = 0.0
    warmup: float = 0.02
    constant: bool = False
    clip: float = 10.0
    average: float = 0.999
    validate_every: int = 500
    checkpoint_seconds: float = 60.0
    bf16: bool = True

    def __post_init__(self) -> None:
        at_least(self, steps=0, validate_every=0, weight_decay=0, warmup=0, average=0)
        above_zero(self, "rate", "clip")
        if self.average >= 1:
            raise ValueError(f"average: {self.average:g}, expected less than 1")
        if self.warmup > 1:
            raise ValueError(f"warmup: {self.warmup:g}, expected a share of 1")
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser: {self.optimiser!r} is unknown, expected {' or '.join(OPTIMISERS)}")

    def rate_at(self, step: int) -> float:
        """Learning rate of a step."""
        if self.constant:
            return self.rate
        rise = max(1, round(self.warmup * self.steps))
        if step < rise:
            return self.rate * (step + 1) / rise
        return self.rate * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, self.steps - rise)))


def optimisers(model: nn.Module, schedule: Schedule) -> list[torch.optim.Optimizer]:
    """The optimisers of all weights."""
    matrices = [weight for weight in model.parameters() if weight.ndim == 2 and schedule.optimiser == "muon"]
    known = {id(weight) for weight in matrices}
    rest = [weight for weight in model.parameters() if id(weight) not in known]
    out: list[torch.optim.Optimizer] = [
        torch.optim.Adam(rest, schedule.rate, weight_decay=schedule.weight_decay, fused=True)
    ]
    if matrices:  # steps of the size that Adam's have, so that one rate fits both
        out.append(Muon(matrices, schedule.rate))
    return out


def write_atomically(path: Path, save: Callable[[Path], Any]) -> None:
    """Write beside and rename: a kill leaves the old file or the new one."""
    beside = path.with_name(path.name + ".part")
    save(beside)
    os.replace(beside, path)


def read_note(path: Path, remedy: str, **kinds: type) -> dict[str, Any]:
    """A mapping that was written as JSON into a folder of a training, with values of these kinds; empty where there is
    no file. Raises ValueError, in one line that ends with the remedy, where it holds something else."""
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not (isinstance(content, dict) and all(isinstance(content.get(key), kind) for key, kind in kinds.items())):
        wanted = f" with {', '.join(f'{key} ({kind.__name__})' for key, kind in kinds.items())}" * bool(kinds)
        raise ValueError(f"{path}: damaged, expected a mapping{wanted} in JSON: {remedy}")
    return content


def read_rows(log: Path) -> list[dict[str, Any]]:
    """Rows of a stage's log; half a line at its end is left out. Raises ValueError, in one line, for other rows."""
    rows = []
    for number, line in enumerate(log.read_bytes().splitlines(keepends=True), 1):
        if line.endswith(b"\n"):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not (isinstance(row, dict) and isinstance(row.get("step"), int)):
                raise ValueError(f"{log}:{number}: damaged, expected a row in JSON with its step, got {line[:60]!r}")
            rows.append(row)
    return rows


def write_weights(path: Path, network: nn.Module, settings: dict[str, str] | None = None) -> None:
    """``network``'s tensors as safetensors, with ``settings`` beside them; others may read the file."""
    # Copies: safetensors takes no weights that networks share.
    tensors = {
        name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in network.state_dict().items()
    }
    content = safetensors.torch.save(tensors, settings)
    write_atomically(path, lambda beside: beside.write_bytes(content))


class Averaged:
    """A copy of a model whose weights are a running mean of the original's, faster at the start; buffers are copied."""

    def __init__(self, model: nn.Module, decay: float):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Follow ``model`` after its step number ``step``."""
        decay = min(self.decay, (1 + step) / (10 + step))
        mine: list[Tensor] = list(self.model.parameters())
        torch._foreach_lerp_(mine, [parameter.detach() for parameter in model.parameters()], 1 - decay)
        for buffer, source in zip(self.model.buffers(), model.buffers(), strict=True):
            buffer.copy_(source)


@dataclass
class Stage:
    """A model, and how it learns.

    loss(step, generator): loss, the mean over this process's share of the batch, and parts to log, which need not be
    the same in each step. validate(model): metrics; ``better`` names the one that is minimised. each_step(step,
    averaged model): called before each step (cache refreshes). kept: what each_step fills and a checkpoint must hold
    for a resumed run to end as if it had not been killed.
    """

    model: nn.Module
    loss: Callable[[int, torch.Generator], tuple[Tensor, dict[str, Tensor]]]
    validate: Callable[[nn.Module], dict[str, float]]
    better: str
    each_step: Callable[[int, nn.Module], None] | None = None
    kept: Sequence[dict[str, Tensor]] = ()


def train(
    name: str, folder: Path, stage: Stage, schedule: Schedule, *, seed: int = 0, batch: int = 1
) -> dict[str, float]:
    """Train the model of ``stage`` in place: it ends with the averaged weights of the best validation, whose metrics
    are returned. batch: samples a step, for the log.

    Writes ``folder/NAME.jsonl`` and ``folder/NAME.pt`` (checkpoint); goes on from the latter where it exists
    (what the log has beyond it is done, and logged, again, and half a line is dropped). Of several processes the first
    one writes, and validates.
    """
    model, better, first = stage.model, stage.better, processes.number() == 0
    checkpoint, log = folder / f"{name}.pt", folder / f"{name}.jsonl"
    device = next(model.parameters()).device
    learners = optimisers(model, schedule)
    average = Averaged(model, schedule.average)
    state: dict[str, Any] = {"step": 0, "seconds": 0.0, "best": math.inf, "best_metrics": {}, "best_model": None}
    saved = processes.agreed(lambda: _read_checkpoint(checkpoint))
    if saved is not None:
        try:
            model.load_state_dict(saved["model"])
            average.model.load_state_dict(saved["average"])
            for learner, state_of in zip(learners, saved["optimisers"], strict=True):
                learner.load_state_dict(state_of)
            state.update(saved["state"])
            for mine, theirs in zip(stage.kept, saved["kept"], strict=True):
                mine.update(theirs)
        except (RuntimeError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise error if lacks_memory(error) else _damaged(checkpoint, error) from None
        if first:
            say(f"{name}: goes on at step {state['step']} of {schedule.steps}")
    if first and log.exists():
        done = [json.dumps(row) + "\n" for row in read_rows(log) if row["step"] <= state["step"]]
        write_atomically(log, lambda path: path.write_text("".join(done)))

    def save() -> None:
        content = {
            "model": model.state_dict(),
            "average": average.model.state_dict(),
            "optimisers": [learner.state_dict() for learner in learners],
            "state": state,
            "kept": list(stage.kept),
        }
        try:
            write_atomically(checkpoint, lambda path: torch.save(content, path))
        except RuntimeError as error:  # PyTorch's writer hides why, such as a full disk
            raise OSError(f"{checkpoint} cannot be written: {one_line(error)}") from error

    began, saved_at = time.monotonic() - state["seconds"], time.monotonic()
    logged: dict[str, list[float]] = {}
    watch = Stopwatch()
    precision = autocast(device, schedule.bf16)
    progress = Progress(name, folder, state["step"], schedule.steps, batch, first)
    with progress, processes.in_step(model, stage.loss) as compute:
        for step in range(state["step"], schedule.steps):
            generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))  # another stream than the generator's
            if stage.each_step is not None:
                with watch("refresh"):
                    stage.each_step(step, average.model)
            model.train()
            with watch("step"):
                for learner in learners:
                    for group in learner.param_groups:
                        group["lr"] = schedule.rate_at(step)
                with precision:
                    value, parts = compute(step, generator)
                model.zero_grad(set_to_none=True)
                value.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
                for learner in learners:
                    learner.step()
                average.update(model, step)
                if step % 10 == 0:
                    for key, part in {"loss": value.detach(), **parts}.items():
                        logged.setdefault(key, []).append(float(processes.mean(part)))
            progress.step()
            state["step"], state["seconds"] = step + 1, time.monotonic() - began
            last = step + 1 == schedule.steps
            if (step + 1) % schedule.validate_every == 0 or last:
                with watch("validation"):
                    metrics = processes.agreed(lambda: stage.validate(average.model))
                if math.isnan(metrics[better]) or (last and min(metrics[better], state["best"]) == math.inf):
                    raise FloatingPointError(
                        f"{name}: {better} is {metrics[better]} at step {step + 1}; lower the rate and start anew in an"
                        " empty folder"
                    )
                if metrics[better] < state["best"]:
                    state["best"], state["best_metrics"] = metrics[better], metrics
                    state["best_model"] = copy.deepcopy(average.model.state_dict())
                row = {"stage": name, "step": step + 1, "samples": (step + 1) * batch}
                row |= {"seconds": round(state["seconds"], 1)}
                row |= {f"train_{key}": sum(values) / len(values) for key, values in logged.items()} | metrics
                progress.row(row | watch.read(), metrics)
                logged = {}
            if first and (last or time.monotonic() - saved_at > schedule.checkpoint_seconds):
                save()
                saved_at = time.monotonic()
    model.load_state_dict(state["best_model"])
    model.eval()
    return dict(state["best_metrics"])


def _read_checkpoint(path: Path) -> dict[str, Any] | None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return None
    try:
        return dict(torch.load(path, weights_only=True, map_location="cpu"))
    except Exception as error:  # damaged files make PyTorch fail in many ways
        raise error if isinstance(error, OSError) or lacks_memory(error) else _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path}: no checkpoint of this training ({one_line(error):.120}): remove it, and the stage begins anew"
    )
