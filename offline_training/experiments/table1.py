"""``siha reproduce table1``: the paper's main table. Three systems, 5 visible and 1 to 5 hidden agents; visible-only
NRI, HSP-sa and SIHA; each cell beside the paper's number.

The paper's setting: frames 1-50 from the start, world frame, the simulator's velocities, frames 51-100 for the future.
Every cell is trained and measured in a folder of its own, and is skipped once it has its result, so the table goes on
where it was stopped, in another session too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from offline_training.datasets.benchmarks import SYSTEMS, System
from offline_training.stages.logs import claim, stage_rows
from offline_training.team import TeamPlan, train_team
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import HSPConfig
from siha_ros.model.nri import NRIConfig
from siha_ros.replay.evaluate import Task, figures, network_answers

FRAMES, FUTURE, VISIBLE = 50, 50, 5
METHODS = {"nri_visible": "NRI", "hsp_sa": "HSP-sa", "siha_paper": "SIHA"}
COLUMNS = {
    "mse_hsp_mean": "MSE_HSP",
    "mse_fsp_onestep_visible": "MSE_FSP visible, one step",
    "mse_fsp_onestep_hidden": "MSE_FSP hidden, one step",
    "acc_vv": "V-V %",
    "acc_vh": "V-H %",
    "acc_hh": "H-H %",
}
PAPER: dict[str, list[str]] = {  # of the paper's table: by hidden count NRI, HSP-sa, SIHA in each column
    "springs": [
        "- 2.5e-3 2.1e-3 | 2.1e-5 1.5e-5 1.4e-5 | - 1.7e-2 1.1e-2 | 89.7 99.7 99.7 | - 98.2 98.4 | - - -",
        "- 5.6e-3 3.2e-3 | 3.0e-5 9.3e-6 7.6e-6 | - 1.6e-2 9.4e-3 | 76.1 98.7 98.9 | - 91.4 95.8 | - 68.1 79.0",
        "- 7.1e-3 4.9e-3 | 3.7e-5 6.4e-6 5.0e-6 | - 1.3e-2 1.0e-2 | 72.9 97.0 97.2 | - 83.5 88.6 | - 61.6 67.4",
        "- 8.1e-3 7.1e-3 | 3.9e-5 5.7e-6 5.0e-6 | - 1.2e-2 1.1e-2 | 70.3 95.6 96.0 | - 78.6 81.7 | - 57.9 60.5",
        "- 9.1e-3 8.8e-3 | 4.3e-5 6.0e-6 6.0e-6 | - 1.2e-2 1.1e-2 | 68.8 93.0 93.1 | - 75.2 75.9 | - 56.3 57.0",
    ],
    "charged": [
        "- 2.1e-2 1.9e-2 | 1.4e-3 1.4e-3 1.4e-3 | - 2.0e-1 1.8e-1 | 71.4 79.5 79.5 | - 70.6 71.1 | - - -",
        "- 3.8e-2 3.7e-2 | 2.0e-3 2.1e-3 2.1e-3 | - 1.7e-1 1.6e-1 | 66.8 74.5 74.9 | - 60.4 60.7 | - 52.4 53.2",
        "- 4.3e-2 4.1e-2 | 2.5e-3 2.6e-3 2.6e-3 | - 1.4e-1 1.2e-1 | 62.1 71.2 72.3 | - 57.8 58.5 | - 51.5 51.8",
        "- 4.5e-2 4.4e-2 | 2.2e-3 2.4e-3 2.4e-3 | - 1.3e-1 1.2e-1 | 61.4 68.7 69.6 | - 56.2 57.4 | - 51.6 52.6",
        "- 4.6e-2 4.5e-2 | 3.3e-3 3.6e-3 3.6e-3 | - 1.1e-1 1.1e-1 | 59.0 66.6 66.6 | - 54.5 54.7 | - 51.7 51.7",
    ],
    "kuramoto": [
        "- 3.6e-2 2.8e-2 | 4.3e-2 1.3e-2 1.3e-2 | - 4.7e-2 4.0e-2 | 85.0 91.7 91.8 | - 87.6 88.6 | - - -",
        "- 1.0e-1 9.5e-2 | 5.0e-2 1.5e-2 1.4e-2 | - 1.1e-1 9.6e-2 | 72.3 86.4 86.7 | - 73.7 74.7 | - 54.6 55.3",
        "- 1.1e-1 1.0e-1 | 4.2e-2 1.6e-2 1.5e-2 | - 1.3e-1 1.2e-1 | 65.2 83.8 84.0 | - 68.8 70.0 | - 53.5 54.5",
        "- 1.2e-1 1.0e-1 | 4.0e-2 1.5e-2 1.5e-2 | - 1.3e-1 1.2e-1 | 58.4 75.4 75.7 | - 62.4 62.4 | - 51.8 52.0",
        "- 1.2e-1 1.1e-1 | 3.7e-2 1.6e-2 1.6e-2 | - 1.2e-1 1.2e-1 | 58.3 68.5 68.5 | - 58.6 58.6 | - 51.5 51.6",
    ],
}
MINUTES = {"springs": 35.0, "charged": 60.0, "kuramoto": 60.0}  # about, a cell with one hidden agent, on two cores


def cell_plan(system: System, hidden: int) -> TeamPlan:
    """How a cell is trained: the fast options of the shipped bundles, at the paper's widths for encoder and HSP."""
    return TeamPlan(
        hidden_counts=(hidden,),
        visible_counts=(VISIBLE + hidden,),
        nri=NRIConfig(
            FRAMES,
            system.features,
            encoder=system.encoder,
            difference_gain=30.0 if system.encoder == "mlp" else 1.0,
            decoder_width=128,
            output_gain=0.05,
        ),
        hsp=HSPConfig(
            FRAMES,
            system.features,
            hidden,
            embedding=system.encoder,
            difference_gain=30.0 if system.encoder == "mlp" else 1.0,
        ),
        steps={"nri": 4500, "nri_visible": 2000, "hsp_sa": 3500, "hsp_sg": 2500},
        visible_only=True,
    )


@dataclass(frozen=True)
class Space:
    """Metres, for the figures."""

    dims: int
    scale: Scale


def run_cell(
    name: str, hidden: int, folder: Path, *, scale: float, samples: int, test: int, seed: int
) -> dict[str, Any]:
    """Train and measure one cell, or read its result from ``folder``. samples, test: trajectories."""
    done = folder / "result.json"
    if done.exists():
        return dict(json.loads(done.read_text()))
    claim(folder, system=name, hidden=hidden, scale=scale, samples=samples, test=test, seed=seed)
    system, agents = SYSTEMS[name], VISIBLE + hidden
    plan = cell_plan(system, hidden)
    began = time.monotonic()
    data = system.windows("train", samples, agents, FRAMES, seed)
    validation = system.windows("validation", min(2000, samples), agents, FRAMES, seed)
    plan = replace(plan, cached=min(plan.cached, samples))
    modules = train_team(plan, data, validation, folder, scale=scale, seed=seed)
    del data
    held_out = system.windows("test", test, agents, FRAMES + FUTURE, seed)
    assert held_out.edges is not None
    task = Task(held_out.all_states, held_out.edges.numpy(), hidden, 0, FRAMES, True)
    answers = network_answers(modules.networks(), 5, task, progress=True)
    space = Space(2, system.scale)
    result = {
        "schema": 1,
        "system": name,
        "hidden": hidden,
        "seed": seed,
        "test_trajectories": test,
        "train_trajectories": samples,
        "samples_seen": {stage: row["samples"] for stage, row in stage_rows(folder).items()},
        "minutes": {stage: round(row["seconds"] / 60, 1) for stage, row in stage_rows(folder).items()},
        "minutes_in_all": round((time.monotonic() - began) / 60, 1),
        "threads": torch.get_num_threads(),
        "plan": asdict(plan),
        "methods": {method: figures(answer, task, space) for method, answer in answers.items()},
    }
    done.write_text(json.dumps(result, indent=1) + "\n")
    return result


def table1(
    folder: Path,
    systems: Sequence[str],
    hidden: Sequence[int],
    *,
    minutes: float | None,
    samples: int,
    test: int,
    seed: int,
) -> str:
    """Run the cells, those with fewest hidden agents first, and return the table as Markdown, as it is after each.

    minutes: budget of one cell, about; None for the full schedule.
    """
    table = ""
    for count in hidden:
        for name in systems:
            whole = MINUTES[name] * (VISIBLE + count) / (VISIBLE + 1)
            scale = 1.0 if minutes is None else min(1.0, minutes / whole)
            place = folder / f"{name}_{count}"
            run_cell(name, count, place, scale=round(scale, 3), samples=samples, test=test, seed=seed)
            table = markdown(folder)
            (folder / "table1.md").write_text(table)
    return table


def markdown(folder: Path) -> str:
    """All cells that are done, each ``ours (paper)``; intervals are in the cells' JSON."""
    head = ["system", "hidden", "method", *COLUMNS.values()]
    rows = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for name, paper in PAPER.items():
        for count, line in enumerate(paper, 1):
            done = folder / f"{name}_{count}" / "result.json"
            if not done.exists():
                continue
            methods = json.loads(done.read_text())["methods"]
            theirs = [part.split() for part in line.split("|")]
            for number, (method, title) in enumerate(METHODS.items()):
                cells = [
                    f"{_short(methods[method].get(column), column)} ({theirs[place][number]})"
                    for place, column in enumerate(COLUMNS)
                ]
                rows.append("| " + " | ".join([name, str(count), title, *cells]) + " |")
    return "\n".join(rows) + "\n"


def _short(value: float | None, column: str) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if column.startswith("acc") else f"{value:.1e}".replace("e-0", "e-")
