"""``siha reproduce oracle``: HSP-sg trained and run under the true graph, the bound of what guidance can give, beside
HSP-sa and SIHA. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from offline_training.datasets.benchmarks import StateWindows
from offline_training.experiments import table1
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import UNGUIDED, Lab, Setting, seeded, space_of, warmed
from offline_training.experiments.measure import all_figures, differences
from offline_training.experiments.report import bars, budget, difference_rows, figure, table
from offline_training.experiments.store import Trained
from offline_training.experiments.table1 import GAPS, unguided_answer
from offline_training.stages.loop import Schedule, Stage, train
from offline_training.stages.samples import device_of
from offline_training.team import guided
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, reconstruction_error
from siha_ros.model.refinement import Refinement
from siha_ros.replay.evaluate import network_answer

METHODS = {
    "hsp_sa": "HSP-sa",
    "hsp_sa_long": "HSP-sa, as long as SIHA",
    "siha_paper": "SIHA",
    "oracle": "HSP-sg, true graph",
}
COLUMNS = {
    "mse_hsp_mean": "MSE_HSP",
    "mse_hsp_median": "median",
    "acc_vv": "V-V %",
    "acc_vh": "V-H %",
    "acc_hh": "H-H %",
}
MODELS = table1.MODELS | {"oracle": ("hsp_sa", "oracle")}
COUNTS = (1, 2, 3)
CHUNK = 500


def cells(lab: Lab, options: Options) -> list[Cell]:
    """Springs with 1 to 3 hidden agents, of those that are asked for."""
    settings = [options.setting("springs", hidden) for hidden in COUNTS if hidden in options.hidden]
    return [_cell(lab, setting) for setting in settings]


def _cell(lab: Lab, setting: Setting) -> Cell:
    def run() -> dict[str, Any]:
        nri, sa, sg, oracle = lab.nri(setting), lab.hsp_sa(setting), lab.hsp_sg(setting), oracle_model(lab, setting)
        task = lab.task(setting)
        assert task.edges is not None
        edges = torch.from_numpy(task.edges).float()
        refinement = Refinement(sa.network, sg.network, nri.network)
        answers = {
            "hsp_sa": network_answer("hsp_sa", nri.network, task, sa.network, True),
            "hsp_sa_long": unguided_answer(lab, setting, task),
            "siha_paper": network_answer("siha", nri.network, task, refinement, True),
            "oracle": network_answer("oracle", nri.network, task, oracle.network, True, given=edges),
        }
        costs: dict[str, Trained[Any]] = {"nri": nri, "hsp_sa": sa, "hsp_sg": sg, "oracle": oracle}
        costs["hsp_sa_long"] = lab.hsp_sg(setting, UNGUIDED)
        pairs = [("oracle", "siha_paper"), ("oracle", "hsp_sa_long"), ("siha_paper", "hsp_sa_long")]
        return {
            "system": setting.system,
            "hidden": setting.hidden,
            "costs": {name: model.cost for name, model in costs.items()},
            "methods": all_figures(answers, task, space_of(setting)),
            "differences": differences(answers, task, pairs),
        }

    needs = lab.needs(setting, "nri", "hsp_sa", "hsp_sg")
    needs |= lab.guided_needs(setting, UNGUIDED)
    needs |= {f"oracle {name}": minutes for name, minutes in lab.needs(setting, "hsp_sg").items()}
    return Cell("oracle", setting.name, lab.cell_key(setting), needs, run)


def oracle_model(lab: Lab, setting: Setting) -> Trained[HiddenStatePredictor]:
    """HSP-sg under the true graph, from the weights of HSP-sa, with the schedule of HSP-sg."""
    plan, sa = lab.plan(setting), lab.hsp_sa(setting)
    config = guided(plan.hsp, PAPER_ALPHAS)

    def fit(network: HiddenStatePredictor, folder: Path) -> None:
        schedule = plan.schedule("hsp_sg", setting.scale)
        data, validation = lab.data(setting), lab.validation(setting)
        train_oracle(folder, network, data, validation, schedule, batch=plan.hsp_batch, seed=setting.seed)

    options = lab.key(setting) | {"from": sa.key}
    make = seeded(setting.seed + 2, lambda: warmed(HiddenStatePredictor(config), sa.network))
    return lab.store.model("oracle", options, make, fit)


def train_oracle(
    folder: Path,
    hsp_sg: HiddenStatePredictor,
    data: StateWindows,
    validation: StateWindows,
    schedule: Schedule,
    *,
    batch: int,
    seed: int = 0,
) -> dict[str, float]:
    """Train under the true edges of the windows, which all runs but this one never see. Slots are aligned as always:
    hidden agents with the same neighbours are not told apart by the graph."""
    visible = data.agents - hsp_sg.config.hidden

    def errors(model: nn.Module, windows: StateWindows, index: Tensor | slice, turn: torch.Generator | None) -> Tensor:
        assert windows.edges is not None
        device = device_of(model)
        x, graph = windows.states(index, visible, turn).to(device), windows.edges[index].float().to(device)
        return reconstruction_error(model(x[:, :visible], graph), x[:, visible:])

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        index = torch.randint(0, len(data), (batch,), generator=generator)
        return errors(hsp_sg, data, index, generator).mean(), {}

    @torch.no_grad()
    def validate(model: nn.Module) -> dict[str, float]:
        parts = [errors(model, validation, slice(at, at + CHUNK), None) for at in range(0, len(validation), CHUNK)]
        return {"mse": float(torch.cat(parts).mean())}

    return train("oracle", folder, Stage(hsp_sg, loss, validate, better="mse"), schedule, seed=seed, batch=batch)


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/oracle.png``."""
    rows, apart = [], []
    for result in results:
        for method, title in METHODS.items():
            found = [figure(result["methods"][method], column) for column in COLUMNS]
            costs = [result["costs"][model] for model in MODELS[method]]
            rows.append([result["system"], str(result["hidden"]), title, *found, budget(costs)])
        who = [result["system"], str(result["hidden"])]
        apart += [[*who, *row] for row in difference_rows(result["differences"], list(GAPS), METHODS)]
    groups = [f"{one['system']} {one['hidden']}" for one in results]
    found_of = {name: [one["methods"][name] for one in results] for name in METHODS}
    bars(
        folder / "oracle.png",
        "MSE_HSP",
        groups,
        {METHODS[name]: [one["mse_hsp_mean"] for one in found] for name, found in found_of.items()},
        {METHODS[name]: [one["mse_hsp_mean_ci"] for one in found] for name, found in found_of.items()},
    )
    head = ["system", "hidden", "method", *COLUMNS.values(), "budget"]
    return (
        "ours [95 % interval]; the graph's figures are of NRI on what is reconstructed\n\n"
        + table(head, rows)
        + "\nDifferences on the same windows, mean [95 % interval]\n\n"
        + table(["system", "hidden", "difference", *GAPS.values()], apart)
    )
