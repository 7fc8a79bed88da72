"""``siha calibrate``: deviations of a bundle measured anew; its networks, and so its estimates, stay as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from offline_training.datasets.body import VALIDATION, walks
from offline_training.datasets.cmu_mocap import load_subject
from offline_training.stages.calibration import part_tables
from offline_training.stages.logs import revision
from siha_ros.model.body_linear import LinearPath, ResidualCarry
from siha_ros.model.bundle import Bundle, ErrorTable, load_bundle, save_bundle
from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI


def calibrate(source: Path, out: Path, command: str, *, data: Path | None) -> Path:
    """Write the bundle ``out``: that of ``source`` with other deviations. data: motion capture, for a body. command:
    that the bundle names. Raises ValueError, in one line, for what there are no validation data of."""
    bundle = load_bundle(source)
    if not bundle.config.identified:
        raise ValueError(f"{source}: no validation data for the system {bundle.config.system!r}")
    bundle.config.errors |= body_tables(bundle, data)
    bundle.config.metrics["deviations"] = {"command": command, "revision": revision()}
    networks = {name: part for name, part in bundle.networks.items() if isinstance(part, NRI | HiddenStatePredictor)}
    save_bundle(out, bundle.config, networks, bundle.arrays)
    return out


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
