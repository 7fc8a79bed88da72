"""``siha reproduce explained``: trajectories that explain the visible agents, as the live estimator looks for them,
beside HSP-sa and SIHA in the paper's setting. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from offline_training.datasets.simulated import springs_windows
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import FRAMES, ROUNDS, Lab, Setting, space_of
from offline_training.experiments.measure import all_figures, differences
from offline_training.experiments.report import bars, difference_rows, figure, table
from offline_training.stages.samples import device_of
from offline_training.team import TeamModules, measure_noise
from siha_ros.model.explain import EXPLAINED, explain, where_explained
from siha_ros.model.refinement import Refined, Refinement
from siha_ros.replay.evaluate import network_answer

METHODS = {
    "hsp_sa": "HSP-sa",
    "siha_paper": "SIHA",
    "siha_steady": "SIHA, steady",
    "siha_explained": "SIHA, explained",
}
COLUMNS = {
    "mse_hsp_mean": "MSE_HSP",
    "mse_hsp_median": "median",
    "acc_vv": "V-V %",
    "acc_vh": "V-H %",
    "acc_hh": "H-H %",
}
GAPS = ("mse_hsp_mean", "acc_vv", "acc_vh")
PAIRS = (("siha_steady", "hsp_sa"), ("siha_explained", "hsp_sa"), ("siha_explained", "siha_steady"))
COUNTS = (1, 2, 3)
CHECKS = 200  # validation windows that the variances are measured on
CHUNK = 24  # windows that are explained at once, each from four guesses: bounds the memory


def cells(lab: Lab, options: Options) -> list[Cell]:
    """Springs with 1 to 3 hidden agents, of those that are asked for."""
    settings = [options.setting("springs", hidden) for hidden in COUNTS if hidden in options.hidden]
    return [_cell(lab, setting) for setting in settings]


def _cell(lab: Lab, setting: Setting) -> Cell:
    def run() -> dict[str, Any]:
        nri, sa, sg = lab.nri(setting), lab.hsp_sa(setting), lab.hsp_sg(setting)
        networks = sa.network, sg.network, nri.network
        steady = Refinement(*networks, ROUNDS, steady=True)
        explaining = Explaining(steady, setting)
        guesses: dict[str, Callable[[Tensor], Tensor | Refined]] = {
            "hsp_sa": sa.network,
            "siha_paper": Refinement(*networks, ROUNDS),
            "siha_steady": steady,
            "siha_explained": explaining,
        }
        task = lab.task(setting)
        answers = {name: network_answer(name, nri.network, task, guess, True) for name, guess in guesses.items()}
        return {
            "system": setting.system,
            "hidden": setting.hidden,
            "costs": {"nri": nri.cost, "hsp_sa": sa.cost, "hsp_sg": sg.cost},
            "explained": float(torch.cat(explaining.fine).double().mean()),
            "methods": all_figures(answers, task, space_of(setting)),
            "differences": differences(answers, task, PAIRS),
        }

    return Cell("explained", setting.name, lab.cell_key(setting), lab.needs(setting, "nri", "hsp_sa", "hsp_sg"), run)


class Explaining:
    """A refinement's answers, in their place what explains the visible agents where something does. The variances that
    weigh the evidence are those of validation windows. fine: bool[n] of each call, where something did."""

    def __init__(self, refinement: Refinement, setting: Setting):
        self.refinement, self.fine = refinement, list[Tensor]()
        hidden, agents, device = setting.hidden, setting.agents, device_of(refinement.nri)
        nri = deepcopy(refinement.nri).cpu()  # the variances are measured where the windows are
        sa, sg = deepcopy(refinement.hsp_sa).cpu(), deepcopy(refinement.hsp_sg).cpu()
        checks = springs_windows("fresh", "validation", CHECKS, agents=agents, frames=FRAMES, seed=setting.seed)
        noise = measure_noise(TeamModules(nri, None, {hidden: sa}, {hidden: sg}), checks)
        self.guess, self.step = (noise[name].to(device) for name in (f"guess_variance_{hidden}", "step_variance"))
        self.farthest = 2 * checks.states(slice(None), agents).abs().amax((0, 1, 2)).to(device)

    def __call__(self, visible: Tensor) -> Refined:
        """``visible [n, V, T, D]``."""
        parts = []
        for part in visible.split(CHUNK):
            refined = self.refinement(part)
            found = explain(self.refinement, part, refined, self.guess, self.step, self.farthest, first_step=True)
            parts.append(where_explained(found, refined))
            self.fine.append(found.residual <= EXPLAINED)
        hidden, moved, graph = (
            torch.cat([getattr(part, name) for part in parts]) for name in ("hidden", "moved", "graph")
        )
        return Refined(hidden, moved, graph, parts[-1].rounds, parts[-1].change)


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/explained.png``."""
    rows, apart = [], []
    for result in results:
        who = [result["system"], str(result["hidden"])]
        for method, title in METHODS.items():
            rows.append([*who, title, *(figure(result["methods"][method], column) for column in COLUMNS)])
        apart += [[*who, *row] for row in difference_rows(result["differences"], list(GAPS), METHODS)]
    groups = [f"{one['system']} {one['hidden']}, {one['explained']:.0%} explained" for one in results]
    found_of = {name: [one["methods"][name] for one in results] for name in METHODS}
    bars(
        folder / "explained.png",
        "MSE_HSP",
        groups,
        {METHODS[name]: [one["mse_hsp_mean"] for one in found] for name, found in found_of.items()},
        {METHODS[name]: [one["mse_hsp_mean_ci"] for one in found] for name, found in found_of.items()},
    )
    return (
        "ours [95 % interval]; where no trajectories explain the visible agents, the steady answer stands\n\n"
        + f"Windows in which some do: {'; '.join(groups)}\n\n"
        + table(["system", "hidden", "method", *COLUMNS.values()], rows)
        + "\nDifferences on the same windows, mean [95 % interval]\n\n"
        + table(["system", "hidden", "difference", *(COLUMNS[gap] for gap in GAPS)], apart)
    )
