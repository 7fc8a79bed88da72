"""``siha bench curves``: accuracy of NRI over minutes of training, one curve for each set of choices.

All train on the same Springs (7 agents) from the same seed for the same time, each with the steps that fit it at the
pace measured just before, or for the same number of samples; the choices are options of ``springs.yaml``. Validation is
part of the minutes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from offline_training.config import load_config
from offline_training.configured import load_windows
from offline_training.datasets.benchmarks import StateWindows
from offline_training.stages.edge_evidence import NAMED
from offline_training.stages.logs import claim, stage_rows
from offline_training.stages.loop import read_rows, write_atomically
from offline_training.team import TeamPlan, fit_nri
from siha_ros.machine import machine
from siha_ros.model.nri import NRI
from siha_ros.tables import columns

CHOICES = {  # each adds to the one before
    "paper": [],
    "features": ["accelerations", "small_steps"],
    "bf16": ["bf16"],
    "narrow_decoder": ["narrow_decoder"],
    "one_start": ["one_start"],
    "muon": ["muon", "decay", "turned"],
    "evidence": ["evidence"],
}
AGENTS = 7
TRAINING, VALIDATION = 100_000, 1000  # windows
POINTS = 10  # validations of a curve
PACE_STEPS = 4
REACHED = (60.0, 80.0, 90.0, 95.0, 97.5)  # percent of the edges


def bench_curves(
    names: Sequence[str],
    minutes: float,
    work: Path,
    seed: int,
    device: str,
    samples: int | None = None,
    without: str | None = None,
) -> dict[str, Any]:
    """Train each choice in ``work``, going on from what is there. samples: that each sees, in place of the minutes.
    without: an option that each choice has, and that it is trained without as well. Returns the report, schema 1, and
    writes it to ``work/curves.json``, with a picture beside it."""
    curves = {name: options_of(name) for name in names}
    for name, options in list(curves.items()) if without else []:
        if without not in options:
            raise ValueError(f"--without {without}: the choice {name} stands for {', '.join(options) or 'no option'}")
        curves[f"{name}_without_{without}"] = [option for option in options if option != without]
    threads, length = torch.get_num_threads(), {"minutes": None if samples else minutes, "samples": samples}
    report: dict[str, Any] = {"schema": 1, "machine": machine(device), "device": device, "threads": threads}
    here = {"processor": report["machine"]["processor"], "device": device, "threads": threads}  # whose minutes they are
    claim(work, **length, seed=seed, training=TRAINING, **here)
    report |= length | {"seed": seed, "curves": {}}
    for name, options in curves.items():
        sizes = [f"hidden={AGENTS - 5}", f"training={TRAINING}", f"validation={VALIDATION}", f"seed={seed}"]
        config = load_config("springs", options, sizes)
        training, validation, hidden = load_windows(config, None)
        plan = config.plan(len(training), AGENTS, hidden, len(validation))
        rows = train_for(name, plan, training, validation, minutes, work, seed, device, samples)
        curve = {"options": options, "begin": begin(rows), "points": points(rows), "reached": reached(rows)}
        report["curves"][name] = curve
        (work / "curves.json").write_text(json.dumps(report, indent=2) + "\n")
        plot(report, work / "curves.png")
    return report


def options_of(name: str) -> list[str]:
    """The options of ``springs.yaml`` that a choice stands for: its own, and those of the ones before it."""
    order = list(CHOICES)
    return [option for one in order[: order.index(name) + 1] for option in CHOICES[one]]


def train_for(
    name: str,
    plan: TeamPlan,
    training: StateWindows,
    validation: StateWindows,
    minutes: float,
    work: Path,
    seed: int,
    device: str,
    samples: int | None = None,
) -> list[dict[str, Any]]:
    """Rows of the log of an NRI trained for so many minutes, or samples."""

    def fit(folder: Path, steps: int, points: int) -> list[dict[str, Any]]:
        torch.manual_seed(seed)
        schedule = replace(plan.schedules["nri"], validate_every=max(1, -(-steps // points)))
        short = replace(plan, steps=plan.steps | {name: steps}, schedules={name: schedule})
        nri = NRI(plan.nri).to(device)
        fit_nri(name, short, nri, training, validation, folder, agents=AGENTS, scale=1.0, seed=seed)
        rows = read_rows(folder / f"{name}.jsonl")
        if plan.evidence:  # its minutes are of this curve
            edges = stage_rows(folder)[name + NAMED]
            shares = {"seconds": 1.0, "step_seconds": plan.evidence, "validation_seconds": 1.0}
            more = [{key: row[key] + share * edges[key] for key, share in shares.items()} for row in rows]
            rows = [row | own | {"begin": edges["seconds"]} for row, own in zip(rows, more, strict=True)]
        return rows

    if samples:
        return fit(work, max(POINTS, round(samples / plan.nri_batch)), POINTS)
    note = work / f"{name}.steps"
    if not note.exists():
        with TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            steps = steps_that_fit(minutes, fit(Path(folder), PACE_STEPS, 1)[-1])
        write_atomically(note, lambda path: path.write_text(f"{steps}"))
    return fit(work, int(note.read_text()), POINTS)


def steps_that_fit(minutes: float, pace: Mapping[str, Any]) -> int:
    """Steps that so many minutes hold beside the validations, by the pace of a log's row; at least one a validation."""
    left = 60 * minutes - POINTS * pace["validation_seconds"]
    return max(POINTS, round(left / pace["step_seconds"]))


def points(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Minutes, samples seen, percent of the edges right and mean squared error of the decoder, by validation."""
    return [
        {"minutes": row["seconds"] / 60, **{key: row[key] for key in ("samples", "accuracy", "mse")}} for row in rows
    ]


def begin(rows: Sequence[Mapping[str, Any]]) -> float:
    """Minutes at the first step of NRI: after what teaches it, where something does."""
    return float(rows[0].get("begin", 0.0)) / 60


def reached(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Minutes after which so many percent of the edges were right for the first time, between two validations by a
    straight line from 50 % at the begin; None: not reached."""
    out: dict[str, float | None] = {}
    for percent in REACHED:
        before = (begin(rows), 50.0)
        out[f"{percent:g}"] = None
        for row in rows:
            now = (row["seconds"] / 60, row["accuracy"])
            if now[1] >= percent:
                share = (percent - before[1]) / (now[1] - before[1])
                out[f"{percent:g}"] = before[0] + share * (now[0] - before[0])
                break
            before = now
    return out


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Accuracy over minutes."""
    figure = Figure(figsize=(7, 4.5), layout="tight")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for name, curve in report["curves"].items():
        minutes, accuracy = ([point[key] for point in curve["points"]] for key in ("minutes", "accuracy"))
        axis.plot([curve["begin"], *minutes], [50.0, *accuracy], marker=".", label=_title(name))
    axis.set(xlabel="minutes of training, validation included", ylabel="edges right, % (7 agents, Springs)")
    axis.legend()
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def table(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    rows = [["choices", "samples seen", "edges %", "mse", *(f"min to {percent:g} %" for percent in REACHED)]]
    for name, curve in report["curves"].items():
        last = curve["points"][-1]
        marks = ["-" if minutes is None else f"{minutes:.1f}" for minutes in curve["reached"].values()]
        rows.append([_title(name), f"{last['samples']}", f"{last['accuracy']:.1f}", f"{last['mse']:.2e}", *marks])
    each = f"{report['samples']} samples" if report["samples"] else f"{report['minutes']:g} min"
    return "\n".join([f"{each} each, {report['threads']} threads", "", *columns(rows)])


def _title(name: str) -> str:
    return name if name.startswith("paper") else f"+ {name.replace('_without_', ' without ')}"
