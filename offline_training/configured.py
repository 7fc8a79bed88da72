"""``siha train CONFIG.yaml``: the networks of an experiment, from its config to their weights, a record of how they
came to be, and a bundle where the node can use one.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from offline_training.budget import CHECKS, WINDOWS, choose, measure
from offline_training.config import BODY, TrainConfig, changed
from offline_training.datasets.benchmarks import SYSTEMS, BodyScale, StateWindows, body_state_windows
from offline_training.datasets.body import limbs
from offline_training.datasets.cmu_mocap import load_subject
from offline_training.springs import finish_bundle
from offline_training.stages import processes
from offline_training.stages.logs import OTHER_FOLDER, claim, plot_curves, revision, stage_rows
from offline_training.stages.loop import read_note, write_atomically, write_weights
from offline_training.stages.progress import say, say_simulating
from offline_training.team import TeamModules, train_team
from siha_ros.model.bundle import check_place
from siha_ros.tables import columns

FINISHING = 0.1  # of a budget, for the bundle
FINISHED = 300.0  # s that a bundle takes after training, about


def train_config(
    config: TrainConfig,
    work: Path,
    data: Path | None = None,
    *,
    budget: float | None = None,
    most: float = 1.0,
    device: str = "cpu",
    compiled: bool = False,
    out: Path | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Train in ``work``, going on from the checkpoints there.

    data: folder of motion capture, for the system cmu. budget: seconds that all of it may take, at most ``most`` times
    the config's schedule; what a first call chose for it is kept in ``budget.json``. device, compiled: as in
    :func:`train_team`. out: a bundle, for a config without :func:`no_bundle`; command: what it says it was made by.
    Writes ``weights/NAME`` (safetensors) of each network, ``result.json`` and curves; returns the content of
    ``result.json``: the config and, by stage, what its last validation said and what it cost. Of several processes the
    first one writes.
    """
    if config.system != BODY and data is not None:
        raise ValueError(f"--data: the data of {config.system} are simulated")
    if config.system == BODY and data is None:
        raise ValueError(f"system {BODY} needs --data FOLDER, with one .asf file and its .amc files")
    if compiled and processes.count() > 1:
        raise ValueError("--compile: goes with one process")
    out = None if no_bundle(config) else out
    noted = asdict(config) | {"budget": budget, "data": data and data.resolve()}
    if out:
        processes.agreed(lambda: check_place(out))
    processes.agreed(lambda: claim(work, **noted))
    if budget is not None:
        left = budget * (1 - FINISHING) if out else budget
        config = fit_budget(config, work, data, left, most, device, compiled)
    training, validation, hidden = load_windows(config, data)
    plan = config.plan(len(training), training.agents, hidden, len(validation))
    modules = train_team(
        plan, training, validation, work, scale=1.0, seed=config.seed, device=device, compiled=compiled
    )
    windows = {"training": len(training), "validation": len(validation)}

    def finish() -> dict[str, Any]:
        result = _write(work, modules, {"config": asdict(config), "windows": windows})
        if out:
            share = 1.0 if budget is None else min(1.0, FINISHING * budget / FINISHED)
            finish_bundle("fresh", out, work, modules, command, seed=config.seed, agents=training.agents, share=share)
        return result

    return processes.agreed(finish)


def no_bundle(config: TrainConfig) -> str:
    """Why the node could not use these networks, in a few words; empty where it can."""
    if config.system == BODY:
        return "they know one limb, in the frame of the room; siha train body makes one of a body"
    if config.system == "kuramoto":
        return "oscillators have no positions"
    if config.nri.get("edge_types", 2) != 2 or not config.nri.get("skip_first", True):
        return "the node's estimator takes the first of two edge types for none, here it acts"
    return ""


def _write(work: Path, modules: TeamModules, made: dict[str, Any]) -> dict[str, Any]:
    """Weights, curves and ``result.json``, whose content is returned."""
    weights = work / "weights"
    weights.mkdir(exist_ok=True)
    for name, network in modules.networks().items():
        write_weights(weights / f"{name}.safetensors", network, {"config": json.dumps(asdict(network.config))})
    plot_curves(work)
    result = made | {"revision": revision(), "stages": stage_rows(work)}
    write_atomically(work / "result.json", lambda path: path.write_text(json.dumps(result, indent=1) + "\n"))
    return result


def fit_budget(
    config: TrainConfig, work: Path, data: Path | None, seconds: float, most: float, device: str, compiled: bool
) -> TrainConfig:
    """A config that takes about ``seconds``, from now, in data and training, by the pace measured here and now, or
    once chosen for ``work``. Says what it chose."""
    note = work / "budget.json"
    if processes.agreed(note.exists):
        return changed(config, processes.agreed(lambda: read_note(note, OTHER_FOLDER, settings=dict)["settings"]))
    began = time.monotonic()
    data_pace = 0.0
    if config.system == BODY:
        training, validation, hidden = load_windows(config, data)
        windows, checks = len(training), len(validation)
    else:
        windows, checks = config.training, config.validation
        load_windows(replace(config, training=64, validation=64), data)  # compiles the simulator where that is to be
        simulated = time.monotonic()
        probe = replace(config, training=min(WINDOWS, windows), validation=min(CHECKS, checks))
        training, validation, hidden = load_windows(probe, data)
        data_pace = (time.monotonic() - simulated) / (len(training) + len(validation))
    plan = config.plan(len(training), training.agents, hidden, len(validation))
    if processes.number() == 0:
        say("timing a few steps of each stage, for the budget")
    pace = measure(plan, training, validation, device, compiled)
    left = seconds - (time.monotonic() - began)

    def find() -> dict[str, Any]:
        choice = choose(config, pace, left, windows=windows, checks=checks, data_pace=data_pace, most=most)
        measuring, planned = seconds - left, sum(choice.seconds.values())
        share = f"the rest is {choice.scale:.3g} of the schedule"
        say(f"{seconds / 60:.3g} min: {measuring / seconds:.0%} went into the pace, {share}")
        if planned > left:
            needed = (measuring + planned) / 60
            say(f"the shortest schedule needs about {needed:.3g} min, {seconds / 60:.3g} were asked for")
        rows = [["stage", "steps", "s a step", "minutes"]]
        rows.append(["data", "", "", f"{choice.seconds['data'] / 60:.1f}"])
        for stage, own in pace.items():
            steps = choice.settings[f"stages.{stage}.steps"]
            rows.append([stage, f"{steps}", f"{own.step:.3g}", f"{choice.seconds[stage] / 60:.1f}"])
        for line in columns(rows):
            say(line)
        kept = {"seconds": seconds, "settings": choice.settings, "scale": choice.scale, "planned": choice.seconds}
        write_atomically(note, lambda path: path.write_text(json.dumps(kept, indent=1) + "\n"))
        return choice.settings

    return changed(config, processes.agreed(find))


def load_windows(config: TrainConfig, data: Path | None) -> tuple[StateWindows, StateWindows, int]:
    """Training and validation windows, and how many of their agents, the last ones, are hidden. Raises ValueError, in
    one line, for data that do not fit."""
    if config.system != BODY:
        if processes.number() == 0:
            say_simulating(config.training + config.validation)
        system, agents = SYSTEMS[config.system], config.visible + config.hidden
        training, validation = (
            system.windows(split, count, agents, config.frames, config.seed)
            for split, count in (("train", config.training), ("validation", config.validation))
        )
        return training, validation, config.hidden
    assert config.mocap is not None and data is not None
    trials = load_subject(data)
    apart = {trial.name: trial.name.split("_")[-1] for trial in trials}
    held_out = config.mocap.validation + config.mocap.test
    train = [trial for trial in trials if apart[trial.name] not in held_out]
    check = [trial for trial in trials if apart[trial.name] in config.mocap.validation]
    if not train or not check:
        raise ValueError(
            f"{data}: {len(train)} trials to train on and {len(check)} to validate on, expected some of each"
        )
    scale = BodyScale.of(train)
    training, validation = (
        body_state_windows(part, config.mocap.limb, config.frames, config.mocap.stride, scale)
        for part in (train, check)
    )
    return training, validation, len(limbs(train[0].joints)[config.mocap.limb])


def summary(result: dict[str, Any]) -> list[list[str]]:
    """Rows of a table of a result, for people."""
    rows = [["stage", "steps", "samples", "minutes", "validation"]]
    for stage, row in result["stages"].items():
        figures = [f"{key} {row[key]:.4g}" for key in ("mse", "accuracy") if key in row]
        cost = [f"{row['step']}", f"{row['samples']}", f"{row['seconds'] / 60:.1f}"]
        rows.append([stage, *cost, ", ".join(figures)])
    return rows
