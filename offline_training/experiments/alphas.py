"""``siha reproduce alphas``: the paper's ablation of the attention's strengths, on Springs with 3 hidden agents. Only
HSP-sg is trained anew; NRI and HSP-sa are those of the main table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import ROUNDS, UNGUIDED, Lab, space_of
from offline_training.experiments.measure import all_figures
from offline_training.experiments.report import bars, budget, figure, table
from siha_ros.model.hidden_state import PAPER_ALPHAS
from siha_ros.replay.evaluate import network_answers

HIDDEN = 3
VARIANTS = {
    "siha": PAPER_ALPHAS,
    "no_unguided": (1.0, 1.0, 5.0, 1e9),
    "no_hard_mask": (0.0, 1.0, 5.0, 5.0),
    "no_intermediate": (0.0, 0.0, 1e9, 1e9),
    "unguided": UNGUIDED,  # not in the paper: what the training of HSP-sg brings without a graph
}
COLUMNS = {"mse_hsp_mean": "MSE_HSP", "mse_fsp_onestep_visible": "MSE_FSP visible, one step", "acc_vv": "V-V %"}
PAPER = {
    "siha": "4.9e-3 5.0e-6 97.2",
    "no_unguided": "2.0e-2 1.3e-5 91.5",
    "no_hard_mask": "4.9e-3 5.0e-6 97.2",
    "no_intermediate": "8.2e-3 6.1e-6 96.6",
}


def cells(lab: Lab, options: Options) -> list[Cell]:
    """One for each set of strengths."""
    return [_cell(lab, options, name) for name in VARIANTS]


def _cell(lab: Lab, options: Options, name: str) -> Cell:
    setting, alphas = options.setting("springs", HIDDEN), VARIANTS[name]

    def run() -> dict[str, Any]:
        nri, sa, sg = lab.nri(setting), lab.hsp_sa(setting), lab.hsp_sg(setting, alphas)
        task = lab.task(setting)
        networks = {"nri": nri.network, f"hsp_sa_{HIDDEN}": sa.network, f"hsp_sg_{HIDDEN}": sg.network}
        answers = {"siha_paper": network_answers(networks, ROUNDS, task, progress=True)["siha_paper"]}
        return {
            "variant": name,
            "alphas": list(alphas),
            "cost": sg.cost,
            "figures": all_figures(answers, task, space_of(setting))["siha_paper"],
        }

    needs = lab.needs(setting, "nri", "hsp_sa", "hsp_sg")
    if alphas != PAPER_ALPHAS:
        needs |= lab.guided_needs(setting, alphas)
    options_of = lab.cell_key(setting) | {"alphas": list(alphas)}
    return Cell("alphas", name, options_of, needs, run)


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/alphas.png``."""
    rows = []
    for result in results:
        theirs = PAPER.get(result["variant"], "- - -").split()
        found = [figure(result["figures"], column, theirs[place]) for place, column in enumerate(COLUMNS)]
        strengths = ", ".join(f"{alpha:g}" for alpha in result["alphas"])
        rows.append([result["variant"], strengths, *found, budget([result["cost"]])])
    bars(
        folder / "alphas.png",
        "MSE_HSP",
        [result["variant"] for result in results],
        {
            "ours": [result["figures"]["mse_hsp_mean"] for result in results],
            "paper": [float(PAPER.get(result["variant"], "nan").split()[0]) for result in results],
        },
        {"ours": [result["figures"]["mse_hsp_mean_ci"] for result in results]},
    )
    head = ["variant", "alphas", *COLUMNS.values(), "budget of HSP-sg"]
    return "ours [95 % interval] (paper's)\n\n" + table(head, rows)
