"""The queue of the experiments: what is worth most comes first, whatever is done is skipped, and after each cell its
experiment's table is written anew. It can be stopped at any moment, and goes on with the same options.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from offline_training.experiments import (
    alphas,
    baselines,
    count,
    encoders,
    explained,
    focus,
    oracle,
    seeds,
    shared,
    table1,
    table2,
    unmodeled,
    unsupervised,
)
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import Lab


class Experiment(Protocol):
    """What the module of an experiment offers."""

    def cells(self, lab: Lab, options: Options) -> list[Cell]:
        """All of its cells. Raises ValueError, in one line, where something for them is missing."""

    def write(self, results: Sequence[Mapping[str, Any]], folder: Path) -> str:
        """Markdown of the results that are there, and plots in ``folder``."""


EXPERIMENTS: dict[str, Experiment] = {
    "table1": table1,
    "table2": table2,
    "focus": focus,
    "alphas": alphas,
    "encoders": encoders,
    "unsupervised": unsupervised,
    "seeds": seeds,
    "count": count,
    "unmodeled": unmodeled,
    "oracle": oracle,
    "explained": explained,
    "shared": shared,
    "baselines": baselines,
}
SHORTEST = 0.02  # of the schedules, below which NRI of Springs has not left chance
MEASURING = 0.75  # min a cell: its data, its figures and their intervals
ORDER = (  # beginnings of EXPERIMENT/CELL: what is worth most first; whatever is not named comes last
    "table1/springs_1",
    "table1/springs_2",
    "table1/springs_3",
    "oracle",
    "explained",
    "baselines/springs",
    "shared",
    "table2/35",
    "focus",
    "baselines/35",
    "alphas",
    "encoders",
    "unmodeled",
    "seeds/springs",
    "unsupervised",
    "table1/springs",
    "count/springs",
    "table1/kuramoto_1",
    "table1/charged_1",
    "table1/kuramoto",
    "table1/charged",
    "count",
    "table2",
    "baselines",
    "seeds",
)


def all_cells(names: Sequence[str], lab: Lab, options: Options, quiet: bool = False) -> list[Cell]:
    """Cells of some experiments in the order of their worth. Of several, one that something is missing for is left
    out, with a line that says why unless ``quiet``. Raises ValueError where none is left."""
    found: list[Cell] = []
    without: list[str] = []
    for name in names:
        try:
            found += EXPERIMENTS[name].cells(lab, options)
        except ValueError as error:
            if len(names) == 1:
                raise
            without.append(f"{name}: {error}")
            if not quiet:
                print(f"{name}: left out: {error}", flush=True)
    if not found:
        raise ValueError(f"nothing to run: {'; '.join(without)}")
    return sorted(found, key=_rank)


def _rank(cell: Cell) -> int:
    name = f"{cell.experiment}/{cell.name}"
    return next((place for place, start in enumerate(ORDER) if name.startswith(start)), len(ORDER))


def minutes_of(cells: Sequence[Cell]) -> float:
    """What cells take (min, about, by the pace of their lab): all models that they need, each once, and measuring."""
    needs: dict[str, float] = {}
    for cell in cells:
        needs |= cell.needs
    return sum(needs.values()) + MEASURING * len(cells)


def scaled(names: Sequence[str], lab: Lab, options: Options, budget: float | None) -> Options:
    """Options whose schedules take about ``budget`` minutes in all (None: those of scale 1)."""
    if budget is None:
        return options
    cells = all_cells(names, lab, replace(options, scale=1.0), quiet=True)
    measuring = MEASURING * len(cells)
    share = max(budget - measuring, budget / 10) / (minutes_of(cells) - measuring)
    return replace(options, scale=float(f"{share:.2g}"))  # two digits: the same budget is the same schedule


def too_short(scale: float) -> str:
    """A warning where a budget leaves so little of the schedules that figures tell nothing, else nothing."""
    if scale >= SHORTEST:
        return ""
    return f"the budget leaves {scale:.2g} of the schedules: figures of so short trainings say nothing of the method"


def work(names: Sequence[str], lab: Lab, options: Options) -> tuple[dict[str, str], list[str]]:
    """Run all cells of some experiments; returns the Markdown of each, which is in ``FOLDER/NAME/NAME.md`` too, and
    the names of the cells that failed: one says so in a line, leaves its traceback in ``FOLDER/NAME/CELL.failed``, and
    the others go on."""
    cells = all_cells(names, lab, options)
    left = [cell for cell in cells if not lab.store.has_result(cell.experiment, cell.name, cell.options)]
    print(
        f"{len(cells)} cells, {len(cells) - len(left)} of them done; the others take about {minutes_of(left):.0f} min"
        f" ({'measured' if lab.measured else 'assumed: two cores of the machine of docs/results.md'}), less what is"
        " trained already",
        flush=True,
    )
    results: dict[str, list[dict[str, Any]]] = {}
    tables: dict[str, str] = {}
    failed: list[str] = []
    for number, cell in enumerate(cells):
        fresh = cell in left
        if fresh:
            print(f"[{number + 1}/{len(cells)}] {cell.experiment} {cell.name}, {time.strftime('%H:%M')}", flush=True)
        folder = lab.store.folder / cell.experiment
        note = folder / f"{cell.name}.failed"
        try:
            result = lab.store.result(cell.experiment, cell.name, cell.options, cell.run)
            results.setdefault(cell.experiment, []).append(result)
            note.unlink(missing_ok=True)
        except Exception as error:
            failed.append(f"{cell.experiment} {cell.name}")
            folder.mkdir(parents=True, exist_ok=True)
            note.write_text(traceback.format_exc())
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"{failed[-1]}: failed: {reason} ({note})", flush=True)
        last = all(other.experiment != cell.experiment for other in cells[number + 1 :])
        if cell.experiment in results and (fresh or last):
            tables[cell.experiment] = EXPERIMENTS[cell.experiment].write(results[cell.experiment], folder)
            (folder / f"{cell.experiment}.md").write_text(tables[cell.experiment])
    return tables, failed
