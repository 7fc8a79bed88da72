"""``siha reproduce count``: the number of hidden agents is not known. Models for 0 to 5 of them all answer, and the
number is chosen whose prediction of the visible agents' future is best; how often it is right, beside the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import FRAMES, VISIBLE, Lab, Setting
from offline_training.experiments.report import bars, table
from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI
from siha_ros.replay.bootstrap import interval
from siha_ros.replay.evaluate import Task, network_answer

COUNTS = (0, 1, 2, 3, 4, 5)
WINDOWS = 1000  # of each test set: all models answer each of them
RULES = {"onestep": "one step", "openloop": "open loop"}
PAPER = {
    "springs": "99.9 99.1 90.5 88.8 87.2 83.7",
    "charged": "92.3 88.2 76.5 69.1 56.2 45.5",
    "kuramoto": "87.5 67.0 49.5 36.7 28.4 24.7",
}


def cells(lab: Lab, options: Options) -> list[Cell]:
    """One for each system."""
    return [_cell(lab, options, system) for system in options.systems]


def _cell(lab: Lab, options: Options, system: str) -> Cell:
    # one schedule for all: models that were trained longer would be chosen more often
    settings = [options.setting(system, hidden, like=COUNTS[-1]) for hidden in COUNTS]

    def run() -> dict[str, Any]:
        models = [(lab.nri(one), lab.hsp_sa(one) if one.hidden else None) for one in settings]
        errors: dict[str, list[list[NDArray[np.float64]]]] = {rule: [] for rule in RULES}
        for true in settings:
            states = lab.task(true).states[:WINDOWS, :VISIBLE]  # all that is known
            found = [
                visible_errors(nri.network, sa.network if sa else None, states, setting)
                for (nri, sa), setting in zip(models, settings, strict=True)
            ]
            for rule in RULES:
                errors[rule].append([one[rule] for one in found])
        return {"system": system, "rules": {rule: chosen(np.array(errors[rule])) for rule in RULES}}

    needs: dict[str, float] = {}
    for setting in settings:
        needs |= lab.needs(setting, *(("nri", "hsp_sa") if setting.hidden else ("nri",)))
    options_of = {"settings": [lab.key(setting) for setting in settings], "test": min(lab.test, WINDOWS)}
    return Cell("count", system, options_of, needs, run)


def visible_errors(
    nri: NRI, hsp_sa: HiddenStatePredictor | None, states: Tensor, setting: Setting
) -> dict[str, NDArray[np.float64]]:
    """Squared errors f8[n] of the visible agents' future, one step and open loop, when the models of a setting take
    ``states [n, V, T + F, D]`` for the visible agents of theirs."""
    hidden = setting.hidden
    unknown = states.new_zeros(len(states), hidden, *states.shape[2:])  # no true state of a hidden agent is used
    task = Task(torch.cat([states, unknown], 1), None, hidden, 0, FRAMES, True)
    answer = network_answer(f"{setting.name} models", nri, task, hsp_sa, True, ordered=True)
    future = states[:, :, FRAMES:]
    out = {}
    for rule, predicted in (("onestep", answer.onestep), ("openloop", answer.openloop)):
        assert predicted is not None
        out[rule] = (predicted[:, :VISIBLE] - future).square().mean((1, 2, 3)).double().numpy()
    return out


def chosen(errors: NDArray[np.float64]) -> dict[str, Any]:
    """Of errors f8[true number, number of the models, n]: how often the models of each number are best (percent, row:
    true number), and accuracy with its 95 % interval by true number."""
    best = errors.argmin(1)  # [true, n]
    right = 100.0 * (best == np.arange(len(errors))[:, None])
    shares = [[float(100 * (row == number).mean()) for number in range(errors.shape[1])] for row in best]
    return {
        "confusion_percent": shares,
        "accuracy": [float(row.mean()) for row in right],
        "accuracy_ci": [interval(row) for row in right],
    }


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The tables as Markdown, and a plot ``folder/count_SYSTEM.png`` for each system."""
    rows = []
    for result in results:
        paper = PAPER[result["system"]].split()
        series: dict[str, list[float | None]] = {"paper": [float(text) for text in paper]}
        for rule, title in RULES.items():
            found = result["rules"][rule]
            series[title] = found["accuracy"]
            row = [
                f"{value:.1f} [{low:.1f}, {high:.1f}]" + (f" ({theirs})" if rule == "onestep" else "")
                for value, (low, high), theirs in zip(found["accuracy"], found["accuracy_ci"], paper, strict=True)
            ]
            rows.append([result["system"], title, *row])
        groups = [str(number) for number in COUNTS]
        bars(folder / f"count_{result['system']}.png", f"{result['system']}: % right", groups, series, log=False)
    head = ["system", "error of the future", *(f"{number} hidden" for number in COUNTS)]
    return "accuracy in percent [95 % interval] (paper's)\n\n" + table(head, rows)
