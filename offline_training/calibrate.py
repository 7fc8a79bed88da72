"""``siha calibrate``: deviations of a bundle measured anew; its networks, and so its estimates, stay as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from offline_training.datasets.body import VALIDATION, walks
from offline_training.datasets.cmu_mocap import load_subject
from offline_training.springs import live_losses, unseen_forecasts
from offline_training.stages.calibration import part_tables
from offline_training.stages.logs import revision
from siha_ros.estimator import load_estimator
from siha_ros.model.body_linear import LinearPath, ResidualCarry
from siha_ros.model.bundle import Bundle, ErrorTable, load_bundle, save_bundle
from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI
from siha_ros.replay.losses import forecast_tables

LOSSES, RATE = 140, 0.5  # of a team; estimates a second: forecasts for 5 s overlap, other losses tell more
WINDOWS = 200  # of the set "fresh"


def calibrate(source: Path, out: Path, *, data: Path | None, losses: int | None, seed: int) -> Path:
    """Write the bundle ``out``: that of ``source`` with other deviations. data: motion capture, for a body. losses: or
    windows, for a team. Raises ValueError, in one line, for what there are no validation data of."""
    bundle = load_bundle(source)
    config, command = bundle.config, f"siha calibrate {source.name}"
    if config.identified:
        config.errors |= body_tables(bundle, data)
        command += " --data FOLDER"
    elif config.system == "springs":
        count = losses or (LOSSES if config.frame == "team" else WINDOWS)
        config.errors |= team_tables(source, count, seed)
        command += f" --losses {count} --seed {seed}"
    else:
        raise ValueError(f"{source}: no validation data for the system {config.system!r}")
    config.metrics["deviations"] = {"command": command, "revision": revision()}
    networks = {name: part for name, part in bundle.networks.items() if isinstance(part, NRI | HiddenStatePredictor)}
    save_bundle(out, config, networks, bundle.arrays)
    return out


def team_tables(source: Path, count: int, seed: int) -> dict[str, ErrorTable]:
    """Of forecasts, by the number of lost robots; of the set "fresh" where they were never seen."""
    estimator = load_estimator(source, "cpu")
    if estimator.bundle.config.frame != "team":
        return unseen_forecasts(estimator, count, seed)
    losses = live_losses(estimator, count, RATE, seed)
    trace = losses.traces["siha"]
    return forecast_tables(losses.forecasts, np.array([trace.width, trace.radius]))


def body_tables(bundle: Bundle, data: Path | None) -> dict[str, ErrorTable]:
    """Of parts of limbs and of joints of the core. Those of whole limbs take regressions of other trials: they come
    with the training."""
    if data is None:
        raise ValueError(f"--data FOLDER is needed for the bundle {bundle.config.name}: the .asf and .amc files")
    trials = load_subject(data)
    validation = walks(trials, VALIDATION)
    if not validation:
        raise ValueError(f"--data {data}: none of the validation trials {', '.join(VALIDATION)} is there")
    names = bundle.config.agent_names
    if list(trials[0].joints) != names:
        raise ValueError(f"--data {data}: its joints are not those of the bundle {bundle.config.name}")
    return part_tables(
        LinearPath.from_tensors(bundle.arrays["linear"]),
        {group: ResidualCarry.from_tensor(tensor) for group, tensor in bundle.arrays["carry"].items()},
        names,
        {limb: np.array([names.index(joint) for joint in joints]) for limb, joints in bundle.config.limbs.items()},
        validation,
        bundle.config.dt,
    )
