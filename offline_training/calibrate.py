"""``siha calibrate``: deviations of a bundle measured anew; its networks stay as they are. Of a team how straight its
sum goes is measured too, by which lost agents are placed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from offline_training.datasets.body import VALIDATION, walks
from offline_training.datasets.cmu_mocap import load_subject
from offline_training.datasets.simulated import springs_windows
from offline_training.springs import CHECKS, live_tables, unseen_forecasts
from offline_training.stages.calibration import part_tables
from offline_training.stages.logs import revision
from offline_training.team import motion_noise
from siha_ros.estimator import HSP, NOISY, SOLVED, TeamEstimator
from siha_ros.model.body_linear import LinearPath, ResidualCarry
from siha_ros.model.bundle import Bundle, ErrorTable, check_place, load_bundle, save_bundle
from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI

LOSSES = 140  # of a team
WINDOWS = 200  # of the set "fresh"


def calibrate(source: Path, out: Path, *, data: Path | None, losses: int | None, seed: int) -> Path:
    """Write the bundle ``out``: that of ``source`` with other deviations. data: motion capture, for a body. losses: or
    windows, for a team. Raises ValueError, in one line, for what there are no validation data of."""
    check_place(out)
    bundle = load_bundle(source)
    config, command = bundle.config, f"siha calibrate {source.name}"
    if config.identified:
        config.errors |= body_tables(bundle, data)
        command += " --data FOLDER"
    elif data is not None:
        raise ValueError(f"--data does not go with the bundle {config.name} of the system {config.system}")
    elif config.system == "springs":
        count = losses or (LOSSES if config.frame == "team" else WINDOWS)
        bundle.arrays["noise"] |= springs_motion(bundle, seed)
        unseen = tuple(f"_{kind}" for kind in (HSP, SOLVED))  # forecasts, of which few losses measure none
        kept = {
            name: table
            for name, table in config.errors.items()
            if not (name.startswith(NOISY) or name.endswith(unseen))
        }
        config.errors = kept | team_tables(bundle, count, seed)
        command += f" --losses {count} --seed {seed}"
    else:
        raise ValueError(
            f"{source} is of recordings, which it does not hold: siha train measures its deviations on their test part"
        )
    config.metrics["deviations"] = {"command": command, "revision": revision()}
    networks = {name: part for name, part in bundle.networks.items() if isinstance(part, NRI | HiddenStatePredictor)}
    save_bundle(out, config, networks, bundle.arrays)
    return out


def springs_motion(bundle: Bundle, seed: int) -> dict[str, Tensor]:
    """How a team moves, on validation windows."""
    config = bundle.config
    kind = "any" if config.frame == "team" else "fresh"
    return motion_noise(
        springs_windows(kind, "validation", CHECKS, agents=config.count, frames=config.window, seed=seed)
    )


def team_tables(bundle: Bundle, count: int, seed: int) -> dict[str, ErrorTable]:
    """Of states, and of forecasts by the number of lost robots; of the set "fresh" of forecasts, where robots were
    never seen."""
    estimator = TeamEstimator(bundle, torch.device("cpu"))
    if bundle.config.frame != "team":
        return unseen_forecasts(estimator, count, seed)
    return live_tables(estimator, count, seed)


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
