"""``siha reproduce shared``: HSP-sa of one and of two hidden agents with shared weights, as in bundles of any hidden
set, beside a network for each number alone, all after as many steps. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import FRAMES, Lab, Setting, seeded
from offline_training.experiments.report import bars, budget, figure, table
from offline_training.experiments.store import Trained
from offline_training.stages.samples import device_of
from offline_training.stages.together import Together
from offline_training.team import fit_hsp_sa
from siha_ros.model.hidden_state import HiddenStatePredictor, reconstruction_error
from siha_ros.replay.bootstrap import interval, ratio_interval

NUMBERS = (1, 2)  # of hidden agents, of as many as the larger one leaves the usual number of visible ones of
CHUNK = 500
METHODS = {"own": "a network of its own", "shared": "shared"}


def cells(lab: Lab, options: Options) -> list[Cell]:
    """One, on Springs."""
    setting = options.setting("springs", max(NUMBERS))

    def run() -> dict[str, Any]:
        one, two, both = predictors(lab, setting, NUMBERS[:1]), lab.hsp_sa(setting), predictors(lab, setting, NUMBERS)
        own: list[tuple[nn.Module, dict[str, Any]]] = [(one.network[1], one.cost), (two.network, two.cost)]
        states = lab.task(setting).states[:, :, :FRAMES]
        found = {}
        for number, (alone, cost) in zip(NUMBERS, own, strict=True):
            errors = {
                "own": errors_of(alone, states, number),
                "shared": errors_of(both.network[number], states, number),
            }
            ratio, bounds = ratio_interval(errors["shared"], errors["own"])
            found[str(number)] = {
                "mse": {name: [float(values.mean()), *interval(values)] for name, values in errors.items()},
                "times": [ratio**2, *(bound**2 for bound in bounds)],
                "costs": {"own": cost, "shared": both.cost},
            }
        return {"agents": setting.agents, "numbers": found}

    needs = lab.needs(setting, "hsp_sa")
    ((name, minutes),) = needs.items()
    needs |= {f"{name} {numbers}": minutes for numbers in (NUMBERS[:1], NUMBERS)}
    return [Cell("shared", setting.name, lab.cell_key(setting) | {"numbers": list(NUMBERS)}, needs, run)]


def predictors(lab: Lab, setting: Setting, numbers: tuple[int, ...]) -> Trained[Together]:
    """HSP-sa of some numbers of hidden agents of a setting's team, after the steps of the setting's own in all."""
    plan = replace(lab.plan(setting), hidden_counts=numbers)

    def fit(network: Together, folder: Path) -> None:
        own: dict[int, Any] = {number: network[number] for number in numbers}
        data, validation = lab.data(setting), lab.validation(setting)
        fit_hsp_sa("hsp_sa", plan, own, data, validation, folder, scale=setting.scale, seed=setting.seed)

    def make() -> Together:
        return Together({number: HiddenStatePredictor(replace(plan.hsp, hidden=number)) for number in numbers})

    options = lab.key(setting) | {"numbers": list(numbers)}
    return lab.store.model("hsp_sa_numbers", options, seeded(setting.seed + 1, make), fit)


@torch.inference_mode()
def errors_of(predictor: nn.Module, states: torch.Tensor, hidden: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mean squared error f8[n] of each window of ``states [n, A, T, D]``, of which the last ``hidden`` agents are not
    shown."""
    parts = []
    for part in states.to(device_of(predictor)).split(CHUNK):
        parts.append(reconstruction_error(predictor(part[:, :-hidden]), part[:, -hidden:]).cpu())
    return torch.cat(parts).double().numpy()


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/shared.png``."""
    rows, groups = [], []
    series: dict[str, list[float]] = {title: [] for title in METHODS.values()}
    bounds: dict[str, list[Any]] = {title: [] for title in METHODS.values()}
    for result in results:
        for number, found in result["numbers"].items():
            groups.append(f"{number} of {result['agents']}")
            for name, title in METHODS.items():
                series[title].append(found["mse"][name][0])
                bounds[title].append(found["mse"][name][1:])
            mean, low, high = found["times"]
            errors = (found["mse"][name] for name in METHODS)
            texts = [figure({"mse": middle, "mse_ci": ends}, "mse") for middle, *ends in errors]
            rows.append([groups[-1], *texts, f"{mean:.3f} [{low:.3f}, {high:.3f}]"])
            rows[-1] += [budget([found["costs"][name]]) for name in METHODS]
    bars(folder / "shared.png", "MSE_HSP", groups, series, bounds)
    head = ["hidden", *METHODS.values(), "times", *(f"budget, {title}" for title in METHODS.values())]
    return "HSP-sa, MSE_HSP [95 % interval]; the budget of the shared one is that of all numbers\n\n" + table(
        head, rows
    )
