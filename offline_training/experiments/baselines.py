"""``siha reproduce baselines``: plain methods on the hidden sets of the paper's tables, and with agents that are seen
for a part of the window, beside HSP-sa and SIHA; with the time that each takes to train and to answer. Not in the
paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offline_training.experiments import table2
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.deep_methods import MISSING, available, deep_methods, deep_needs
from offline_training.experiments.lab import PARTLY, ROUNDS, Lab, space_of
from offline_training.experiments.live import completed, springs_estimator
from offline_training.experiments.plain_methods import FloatArray, Method, hidden_sets, hide, plain_methods
from offline_training.experiments.report import bars, figure, table
from offline_training.experiments.store import Trained
from offline_training.stages.samples import device_of
from offline_training.systems.springs import FRAME_DT
from offline_training.team import TeamModules
from siha_ros.estimator import TeamEstimator
from siha_ros.model.hidden_state import HiddenStatePredictor, align, take_slots
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import Refinement
from siha_ros.replay.bootstrap import interval

COUNTS = (1, 2, 3)
FITTED = 20_000  # windows that the closed forms are fitted to
LIVE = 500  # test windows that the node's estimator answers, one by one
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
    "hsp_sa_partly": "HSP-sa, seen frames as input",
    "siha_paper": "SIHA",
    "siha": "SIHA, live",
}
OURS = (
    "HSP-sa and SIHA are the paper's networks, which take agents that were never seen. HSP-sa, seen frames as input, is"
    " one network for all sets, trained with random times of loss and return. SIHA, live is the node's"
    " estimator made of the same networks, for agents that were seen: one window after another, each as if it were the"
    f" first of a stream, {LIVE} of them. That of bodies does not take these windows (its own are of 0.8 s at 60 Hz, in"
    " the body's frame, over a regression): docs/results.md has it beside ridges."
)
SETS = {"never": "never seen", "early": "lost after a tenth", "lost": "lost half-way", "gap": "gap of a third"}
LOST = ("early", "lost")  # of which figures go by the time since the loss too
AGES = (0.1, 0.3, 1.0)  # windows since the loss, that bins end at
BINS = ("up to 0.1", "0.1 to 0.3", "over 0.3")


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
        found = all_methods(problem, options.scale, nri, sa, sg)
        modules = TeamModules(nri.network, None, {hidden: sa.network}, {hidden: sg.network})
        estimator = springs_estimator(modules, setting.agents, setting.seed, device_of(nri.network))
        found["siha"] = live_rows(problem, estimator, (nri, sa, sg))
        few = replace(problem, test=problem.test[:LIVE])  # the windows of the row above
        found["hsp_sa_partly"] = partly_rows(few, lab.hsp_sa_partly(setting), sa)
        return {"system": "springs", "hidden": hidden, "methods": found}

    options_of = lab.cell_key(setting) | {"fitted": FITTED, "live": LIVE, "pypots": available()}
    needs = lab.needs(setting, "nri", "hsp_sa", "hsp_sg")
    needs |= {f"seen frames {name}": PARTLY * minutes for name, minutes in lab.needs(setting, "hsp_sa").items()}
    needs |= deep_needs(setting.name, options.scale)
    return Cell("baselines", setting.name, options_of, needs, run)


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
    needs = table2.needs(lab, options, folder, limb) | deep_needs(f"{folder.name}_{limb}", options.scale)
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
            **cost(models),
            "ms_a_window": 1e3 * seconds / len(visible),
        }
    }


@torch.inference_mode()
def partly_rows(problem: Problem, model: Trained[HiddenStatePredictor], *first: Trained[Any]) -> dict[str, Any]:
    """The same of a network that is shown the frames in which agents are seen, for each set. first: what it was trained
    from."""
    device, hidden, rows = device_of(model.network), problem.hidden, {}
    for which, seen in hidden_sets(problem.test.shape[2]).items():
        shown = torch.from_numpy(hide(problem.test, hidden, seen)).float()
        mask = torch.from_numpy(seen).expand(CHUNK, hidden, -1)
        began, found = perf_counter(), []
        for part in (part.to(device) for part in shown.split(CHUNK)):
            own = mask[: len(part)].to(device)
            found.append(model.network.complete(part[:, :-hidden], part[:, -hidden:], own).cpu())
        milliseconds = 1e3 * (perf_counter() - began) / len(shown)
        figures = errors(torch.cat(found).double().numpy(), problem, seen)
        rows[which] = {**figures, **cost([model, *first]), "ms_a_window": milliseconds}
    return rows


def live_rows(problem: Problem, estimator: TeamEstimator, models: Sequence[Trained[Any]]) -> dict[str, Any]:
    """The same of the node's estimator, for agents that are seen in a part of the window. models: what it is made
    of."""
    few = replace(problem, test=problem.test[:LIVE])
    estimator.warm_up()
    rows = {}
    for which, seen in hidden_sets(few.test.shape[2]).items():
        if not seen.any():
            continue  # it would answer as SIHA does, and search for a second for what explains the others
        began = perf_counter()
        found = completed(estimator, few.test, few.hidden, seen)
        milliseconds = 1e3 * (perf_counter() - began) / len(few.test)
        rows[which] = {**errors(found, few, seen), **cost(models), "ms_a_window": milliseconds}
    return rows


def cost(models: Sequence[Trained[Any]]) -> dict[str, float]:
    """What networks took to train."""
    return {
        "train_seconds": 60 * sum(model.minutes for model in models),
        "samples_seen": sum(model.samples for model in models),
    }


def errors(found: FloatArray, problem: Problem, seen: np.ndarray) -> dict[str, Any]:
    """Mean squared error of the hidden agents where they are not seen, its 95 % interval over windows and its median;
    after a loss also by its time: "ages", one for each of AGES. Agents that were never seen and have no names are put
    in the order of the truth."""
    truth = problem.test[:, -problem.hidden :]
    if not problem.ordered and not seen.any():
        guess, true = torch.from_numpy(found), torch.from_numpy(truth)
        found = take_slots(guess, align(guess, true)).numpy()
    squares = np.square(found - truth).mean((1, 3))
    figures = _stated(squares[:, ~seen].mean(1), problem)
    last = int(seen.sum()) - 1
    if last >= 0 and seen[: last + 1].all():
        since = (np.arange(len(seen)) - last) / len(seen)
        bins = [(since > first) & (since <= end + 1e-9) for first, end in zip((0.0, *AGES), AGES, strict=False)]
        figures["ages"] = [_stated(squares[:, part].mean(1), problem) if part.any() else None for part in bins]
    return figures


def _stated(squares: FloatArray, problem: Problem) -> dict[str, Any]:
    middle = interval(squares, groups=problem.groups)
    return {"mse": float(squares.mean()), "mse_ci": middle, "mse_median": float(np.median(squares))}


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/baselines.png``."""
    rows, ages = [], []
    for result in results:
        for name, title in NAMES.items():
            sets = result["methods"].get(name)
            if sets is None:
                continue
            cells = [_figure(sets.get(which)) for which in SETS]
            made = next(iter(sets.values()))
            seen, took = f"{made['samples_seen'] / 1000:.0f} k", f"{made['train_seconds']:.2g}"
            times = " / ".join(f"{sets[which]['ms_a_window']:.2g}" if which in sets else "-" for which in SETS)
            rows.append([result["system"], str(result["hidden"]), title, *cells, seen, took, times])
            after = [sets[which].get("ages") if which in sets else None for which in LOST]
            if any(after):
                cells = [_figure(found[bin] if found else None) for found in after for bin in range(len(AGES))]
                ages.append([result["system"], str(result["hidden"]), title, *cells])
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
        "MSE of the hidden agents where they are not seen [95 % interval]; windows are answered in batches, but for"
        " those of SIHA, live; ms are of the sets in their order\n\n"
        + table(head, rows)
        + "\nThe same by windows since the loss\n\n"
        + table(["data", "hidden", "method", *(f"{SETS[which]}: {bin}" for which in LOST for bin in BINS)], ages)
        + f"\n{OURS}\n"
        + (f"\n{MISSING}\n" if any(not one["options"]["pypots"] for one in results) else "")
    )


def _figure(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    return figure(found, "mse")
