"""``siha reproduce baselines``: plain methods on the hidden sets of the paper's tables, and with agents that are seen
for a part of the window, beside HSP-sa and SIHA; with the time that each takes to train and to answer. Not in the
paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offline_training.experiments import table2
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.deep_methods import MISSING, available, deep_methods
from offline_training.experiments.lab import ROUNDS, Lab, space_of
from offline_training.experiments.plain_methods import FloatArray, Method, hidden_sets, hide, plain_methods
from offline_training.experiments.report import bars, figure, table
from offline_training.experiments.store import Trained
from offline_training.stages.samples import device_of
from offline_training.systems.springs import FRAME_DT
from siha_ros.model.hidden_state import HiddenStatePredictor, align, take_slots
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import Refinement
from siha_ros.replay.bootstrap import interval

COUNTS = (1, 2, 3)
FITTED = 20_000  # windows that the closed forms are fitted to
CHUNK = 250  # windows that the networks answer together
NAMES = {
    "last_value": "last value",
    "constant_velocity": "constant velocity",
    "linear_interpolation": "linear interpolation",
    "ridge": "ridge",
    "pca": "PCA",
    "saits": "SAITS",
    "brits": "BRITS",
    "hsp_sa": "HSP-sa",
    "siha_paper": "SIHA",
}
OURS = (
    "HSP-sa and SIHA are the paper's networks, which take agents that were never seen; of agents lost for a part of the"
    " window, the shipped bundles against such methods: docs/results.md."
)
SETS = {"never": "never seen", "lost": "lost half-way", "gap": "gap of a third"}


@dataclass
class Problem:
    """Complete windows ``[n, A, T, D]``, normalised, the last ``hidden`` agents to be completed. ordered: each has a
    name; otherwise one that was never seen may be any of them. step: of a normalised position in a frame by the
    normalised velocity. groups: of test windows that overlap, as in :class:`Task`."""

    training: FloatArray
    validation: FloatArray
    test: FloatArray
    hidden: int
    ordered: bool
    step: float
    groups: NDArray[np.int64] | None = None


def cells(lab: Lab, options: Options) -> list[Cell]:
    """Springs with 1 to 3 hidden agents, of those that are asked for, and the bodies of the motion-capture table where
    ``options.data`` has them."""
    teams = [_springs(lab, options, hidden) for hidden in COUNTS if hidden in options.hidden]
    folders = table2.subjects(options) if options.data else []
    return teams + [_body(lab, options, folder, limb) for folder in folders for limb in table2.LIMBS]


def _springs(lab: Lab, options: Options, hidden: int) -> Cell:
    setting = options.setting("springs", hidden)

    def run() -> dict[str, Any]:
        nri, sa, sg = lab.nri(setting), lab.hsp_sa(setting), lab.hsp_sg(setting)
        task, scale = lab.task(setting), space_of(setting).scale
        data = lab.data(setting).states(slice(0, FITTED), setting.agents)
        problem = Problem(
            data.double().numpy(),
            lab.validation(setting).states(slice(None), setting.agents).double().numpy(),
            task.states[:, :, : task.frames].double().numpy(),
            setting.hidden,
            False,
            FRAME_DT * scale.velocity / scale.position,
        )
        return {
            "system": "springs",
            "hidden": setting.hidden,
            "methods": all_methods(problem, options.scale, nri, sa, sg),
        }

    options_of = lab.cell_key(setting) | {"fitted": FITTED, "pypots": available()}
    return Cell("baselines", setting.name, options_of, lab.needs(setting, "nri", "hsp_sa", "hsp_sg"), run)


def _body(lab: Lab, options: Options, folder: Path, limb: str) -> Cell:
    def run() -> dict[str, Any]:
        data = table2.body(folder, limb, options)
        trained = table2.models(lab, data)
        training, validation, test = (
            part.all_states[:, :, : table2.FRAMES].double().numpy()
            for part in (data.training, data.validation, data.test)
        )
        problem = Problem(training[:: table2.STRIDE], validation, test, data.hidden, True, data.step, data.groups)
        found = all_methods(problem, options.scale, trained.nri, trained.hsp_sa, trained.hsp_sg)
        return {"system": f"CMU {folder.name}", "hidden": limb, "methods": found}

    options_of = table2.cell_key(lab, options, folder, limb) | {"pypots": available()}
    needs = table2.needs(lab, options, folder, limb)
    return Cell("baselines", f"{folder.name}_{limb}", options_of, needs, run)


def all_methods(
    problem: Problem,
    scale: float,
    nri: Trained[NRI],
    hsp_sa: Trained[HiddenStatePredictor],
    hsp_sg: Trained[HiddenStatePredictor],
) -> dict[str, dict[str, Any]]:
    """The figures of the plain methods, of PyPOTS's where it is there, and of the networks. scale: of schedules."""
    methods = plain_methods(problem.step)
    if available():
        methods |= deep_methods(scale)
    else:
        print(MISSING, flush=True)
    refinement = Refinement(hsp_sa.network, hsp_sg.network, nri.network, ROUNDS)
    device = device_of(nri.network)
    models = (nri, hsp_sa, hsp_sg)
    return solve(problem, methods) | {
        "hsp_sa": network_row(problem, hsp_sa.network, models[1:2], device),
        "siha_paper": network_row(problem, lambda visible: refinement(visible).hidden, models, device),
    }


def solve(problem: Problem, methods: Mapping[str, Method]) -> dict[str, dict[str, Any]]:
    """Of each method: for each set mse and its interval, seconds of training, windows seen in it,
    and ms a window."""
    rows: dict[str, dict[str, Any]] = {}
    for which, seen in hidden_sets(problem.test.shape[2]).items():
        shown = hide(problem.test, problem.hidden, seen)
        for name, method in methods.items():
            began = perf_counter()
            method.fit(problem.training, problem.validation, problem.hidden, seen)
            fitted = perf_counter()
            found = method.complete(shown, problem.hidden, seen)
            done = perf_counter()
            rows.setdefault(name, {})[which] = {
                **errors(found, problem, seen),
                "train_seconds": fitted - began,
                "samples_seen": method.samples,
                "ms_a_window": 1e3 * (done - fitted) / len(shown),
            }
    return rows


@torch.inference_mode()
def network_row(
    problem: Problem, guess: Callable[[Tensor], Tensor], models: Sequence[Trained[Any]], device: torch.device
) -> dict[str, Any]:
    """The same of a network, for agents that were never seen. models: its parts. device: its."""
    visible = torch.from_numpy(problem.test[:, : -problem.hidden]).float()
    began = perf_counter()
    found = torch.cat([guess(part.to(device)).cpu() for part in visible.split(CHUNK)])
    seconds = perf_counter() - began
    never = hidden_sets(problem.test.shape[2])["never"]
    return {
        "never": {
            **errors(found.double().numpy(), problem, never),
            "train_seconds": 60 * sum(model.minutes for model in models),
            "samples_seen": sum(model.samples for model in models),
            "ms_a_window": 1e3 * seconds / len(visible),
        }
    }


def errors(found: FloatArray, problem: Problem, seen: np.ndarray) -> dict[str, Any]:
    """Mean squared error of the hidden agents where they are not seen, and its 95 % interval over windows. Agents that
    were never seen and have no names are put in the order of the truth."""
    truth = problem.test[:, -problem.hidden :]
    if not problem.ordered and not seen.any():
        guess, true = torch.from_numpy(found), torch.from_numpy(truth)
        found = take_slots(guess, align(guess, true)).numpy()
    squares = np.square(found - truth)[:, :, ~seen].mean((1, 2, 3))
    return {"mse": float(squares.mean()), "mse_ci": interval(squares, groups=problem.groups)}


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/baselines.png``."""
    rows = []
    for result in results:
        for name, title in NAMES.items():
            sets = result["methods"].get(name)
            if sets is None:
                continue
            cells = [_figure(sets.get(which)) for which in SETS]
            times = [f"{sets['never'][time]:.2g}" for time in ("train_seconds", "ms_a_window")]
            seen = f"{sets['never']['samples_seen'] / 1000:.0f} k"
            rows.append([result["system"], str(result["hidden"]), title, *cells, seen, *times])
    groups = [f"{one['system']} {one['hidden']}" for one in results]
    series = {
        title: [one["methods"].get(name, {}).get("never", {}).get("mse") for one in results]
        for name, title in NAMES.items()
    }
    bars(folder / "baselines.png", "MSE_HSP, never seen", groups, series)
    head = [
        "data",
        "hidden",
        "method",
        *(f"MSE {title}" for title in SETS.values()),
        "samples seen",
        "training s",
        "ms a window",
    ]
    return (
        "MSE of the hidden agents where they are not seen [95 % interval]; windows are answered in batches\n\n"
        + table(head, rows)
        + f"\n{OURS}\n"
        + (f"\n{MISSING}\n" if any(not one["options"]["pypots"] for one in results) else "")
    )


def _figure(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    return figure(found, "mse")
