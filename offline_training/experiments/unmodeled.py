"""``siha reproduce unmodeled``: more agents act on the visible ones than any model knows of. Springs with 2 hidden
agents and up to 3 that are neither seen nor modelled, beside the paper's numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from offline_training.experiments import table1
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import Lab
from offline_training.experiments.report import bars, budget, figure, table
from offline_training.experiments.table1 import MODELS

HIDDEN, ADDED = 2, (0, 1, 2, 3)
SHARE = 1 / 3  # of the main table's schedule, with unknown agents
COLUMNS = {"mse_hsp_mean": "MSE_HSP", "mse_fsp_onestep_visible": "MSE_FSP visible, one step", "acc_vv": "V-V %"}
METHODS = {"siha_paper": "SIHA", "nri_visible": "NRI"}
PAPER = ["4.9e-3 5.0e-6 97.2", "1.2e-2 7.1e-6 92.3", "1.3e-2 7.9e-6 85.8", "1.5e-2 9.0e-6 77.1"]
PAPER_NRI = "- 3.0e-5 76.1"


def cells(lab: Lab, options: Options) -> list[Cell]:
    """One for each number of unknown agents; none for a start, with the same schedule."""
    settings = [options.setting("springs", HIDDEN, extra=extra, share=SHARE) for extra in ADDED]
    return [table1.cell(lab, setting, "unmodeled") for setting in settings]


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/unmodeled.png``."""
    rows = []
    extras = [result["options"]["setting"]["extra"] for result in results]
    for extra, result in zip(extras, results, strict=True):
        for method, title in METHODS.items():
            theirs = (PAPER[extra] if method == "siha_paper" else PAPER_NRI).split()
            paper = [None if method != "siha_paper" and extra else one for one in theirs]
            found = [figure(result["methods"][method], column, paper[place]) for place, column in enumerate(COLUMNS)]
            rows.append([str(extra), title, *found, budget([result["costs"][model] for model in MODELS[method]])])
    bars(
        folder / "unmodeled.png",
        "MSE_HSP",
        [f"{extra} unknown" for extra in extras],
        {
            "SIHA": [result["methods"]["siha_paper"]["mse_hsp_mean"] for result in results],
            "SIHA, paper": [float(PAPER[extra].split()[0]) for extra in extras],
        },
        {"SIHA": [result["methods"]["siha_paper"]["mse_hsp_mean_ci"] for result in results]},
    )
    head = ["unknown agents", "method", *COLUMNS.values(), "budget"]
    note = "The paper's first row repeats its N_hid = 3 row, though the table is said to be of N_hid = 2.\n"
    return "ours [95 % interval] (paper's)\n\n" + table(head, rows) + "\n" + note
