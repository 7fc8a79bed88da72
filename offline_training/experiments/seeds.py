"""``siha reproduce seeds``: what chance does. Systems with 3 hidden agents, everything trained anew from five seeds:
mean and standard deviation, beside the paper's, and those of the differences between methods in the same run. Each run
has a third of the main table's schedule.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from offline_training.experiments import table1
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import Lab
from offline_training.experiments.report import bars, budget, pair_title, short, table
from offline_training.experiments.table1 import COLUMNS, GAPS, MODELS

RUNS, HIDDEN, SHARE = 5, 3, 1 / 3
METHODS = {"nri_visible": "NRI", "hsp_sa": "HSP-sa", "siha_paper": "SIHA"}
PAPER = {  # NRI, HSP-sa, SIHA in each column: mean and deviation
    "springs": [
        "- 7.1e-3±4.0e-5 4.9e-3±6.7e-5",
        "3.7e-5±2.3e-6 6.3e-6±3.4e-7 5.0e-6±3.1e-7",
        "- 1.3e-2±1.7e-3 1.0e-2±1.6e-3",
        "72.9±0.2 97.0±0.4 97.2±0.4",
        "- 83.4±0.8 88.7±0.6",
        "- 61.3±1.1 67.6±1.0",
    ],
    "charged": [
        "- 4.3e-2±2.0e-4 4.1e-2±3.8e-4",
        "2.5e-3±1.7e-4 2.6e-3±2.2e-4 2.6e-3±2.3e-4",
        "- 1.3e-1±1.8e-2 1.2e-1±1.7e-2",
        "62.1±0.4 71.3±0.7 72.4±0.8",
        "- 57.5±2.2 58.9±2.5",
        "- 52.1±2.4 52.1±2.7",
    ],
    "kuramoto": [
        "- 1.1e-1±6.0e-4 1.0e-1±6.3e-4",
        "4.2e-2±1.9e-3 1.6e-2±1.2e-3 1.5e-2±1.3e-3",
        "- 1.3e-1±1.8e-2 1.2e-1±1.6e-2",
        "65.2±0.3 83.6±0.5 84.0±0.7",
        "- 68.6±0.7 70.2±0.9",
        "- 53.3±1.8 54.8±2.0",
    ],
}


def cells(lab: Lab, options: Options) -> list[Cell]:
    """Five runs of each system."""
    runs = [(system, run) for system in options.systems for run in range(RUNS)]
    settings = [options.setting(system, HIDDEN, share=SHARE, seed=run) for system, run in runs]
    return [table1.cell(lab, setting, "seeds") for setting in settings]


def spread(values: Sequence[float | None]) -> tuple[float, float] | None:
    """Mean and standard deviation (of a sample: n - 1; 0 of one value); None where there is no value."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/seeds.png``."""
    rows, apart, groups = [], [], []
    heights: dict[str, list[float | None]] = {title: [] for title in METHODS.values()}
    ends: dict[str, list[Sequence[float] | None]] = {title: [] for title in METHODS.values()}
    for system, paper in PAPER.items():
        runs = [one for one in results if one["system"] == system]
        if not runs:
            continue
        groups.append(system)
        for number, (method, title) in enumerate(METHODS.items()):
            row = [system, title, str(len(runs))]
            for column, theirs in zip(COLUMNS, paper, strict=True):
                found = spread([run["methods"][method][column] for run in runs])
                row.append(f"{_short(found, column)} ({theirs.split()[number]})")
                if column == "mse_hsp_mean":
                    heights[title].append(found and found[0])
                    ends[title].append(found and [found[0] - found[1], found[0] + found[1]])
            rows.append([*row, budget([run["costs"][model] for run in runs for model in MODELS[method]])])
        apart += [[system, *row] for row in paired([run["differences"] for run in runs])]
    bars(folder / "seeds.png", f"MSE_HSP, {HIDDEN} hidden", groups, heights, ends)
    head = ["system", "method", "runs", *COLUMNS.values(), "budget of all"]
    return (
        "ours, mean ± standard deviation over the runs (paper's)\n\n"
        + table(head, rows)
        + "\nDifferences between methods of the same run, mean ± deviation over the runs, and in how many below 0\n\n"
        + table(["system", "difference", *GAPS.values()], apart)
    )


def paired(runs: Sequence[Mapping[str, Mapping[str, Sequence[float]]]]) -> list[list[str]]:
    """A row for each pair of methods, of the differences (see :mod:`offline_training.experiments.measure`) of all
    runs."""
    rows = []
    for pair in runs[0]:
        row = [pair_title(pair, table1.METHODS)]
        for name in GAPS:
            values = [run[pair][name][0] for run in runs if name in run[pair]]
            below = f", {sum(value < 0 for value in values)} of {len(values)}" if values else ""
            row.append(_short(spread(values), name) + below)
        rows.append(row)
    return rows


def _short(found: tuple[float, float] | None, column: str) -> str:
    percent = column.startswith("acc")
    return "-" if found is None else f"{short(found[0], percent)}±{short(found[1], percent)}"
