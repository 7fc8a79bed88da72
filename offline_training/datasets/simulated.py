"""Simulated teams as model input: windows of Springs in the two settings that are reported.

*fresh*: frames 1-50 from the start, world frame, the simulator's velocities (the paper's setting). *any*: windows that
begin at any time of a 60 s run of a connected team without total momentum, in the window's inertial frame, velocities
by backward difference (what a live node meets).
"""

from __future__ import annotations

import numpy as np
import torch

from offline_training.datasets.team import TeamWindows
from offline_training.systems.springs import FRAME_DT, simulate_springs, team_windows
from siha_ros.model.bundle import BundleConfig
from siha_ros.model.frame import Scale
from siha_ros.replay.windows import Recording

SPRINGS_SCALE = Scale(position=4.14, velocity=1.83)
FRAMES = 50
HORIZON = 50
SEEDS = {"train": 1_000, "validation": 2_000, "test": 3_000}
APART = 1_000  # seeds of a split


def split_seed(split: str, seed: int) -> int:
    """The simulator's seed for a split's runs. Raises ValueError for one that belongs to another split."""
    if not 0 <= seed < APART:
        raise ValueError(f"seed {seed}: expected 0 to {APART - 1}, or the splits would share runs")
    return SEEDS[split] + seed


def springs_windows(
    kind: str, split: str, count: int, *, agents: int = 7, frames: int = FRAMES, future: int = 0, seed: int = 0
) -> TeamWindows:
    """``count`` windows of a split ("train", "validation", "test"): seeds are apart, so no run is in two splits.

    frames: of the history. future: frames beyond it. Training sets take 4 windows from each run, the others one.
    """
    if kind not in ("fresh", "any"):
        raise ValueError(f"springs set {kind!r} is unknown, expected 'fresh' or 'any'")
    seed = split_seed(split, seed)
    if kind == "fresh":
        data = simulate_springs(count, frames + future, agents=agents, seed=seed)
    else:
        data = team_windows(count, frames + future, agents=agents, seed=seed, per_run=4 if split == "train" else 1)
    return TeamWindows(
        torch.from_numpy(data.positions),
        torch.from_numpy(data.velocities),
        torch.from_numpy(np.asarray(data.edges)),
        None,
        "world" if kind == "fresh" else "team",
        "measured" if kind == "fresh" else "backward_difference",
        FRAME_DT,
        frames,
        SPRINGS_SCALE,
    )


def springs_recording(config: BundleConfig, kind: str, split: str, count: int, seed: int) -> Recording:
    """``count`` windows of a split and what comes after them, as a bundle wants them."""
    windows = springs_windows(
        kind, split, count, agents=config.count, frames=config.window, future=config.horizon, seed=seed
    )
    measured = windows.velocities if config.velocity == "measured" else None
    return Recording(
        [f"robot_{agent + 1}" for agent in range(config.count)],
        windows.positions.double().numpy(),
        None if measured is None else measured.double().numpy(),
        None if windows.edges is None else windows.edges.numpy(),
        config.dt,
    )
