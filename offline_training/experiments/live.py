"""The live node's estimator among plain methods: made of a cell's own networks, and asked window by window.

It is :class:`~siha_ros.estimator.TeamEstimator`, without what a stream gives it besides: each window is the first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from offline_training.datasets.simulated import HORIZON, springs_windows
from offline_training.experiments.plain_methods import BoolArray, FloatArray
from offline_training.springs import springs_config
from offline_training.stages.logs import revision
from offline_training.team import TeamModules, measure_noise, window_errors
from siha_ros.estimator import TeamEstimator
from siha_ros.model.bundle import Bundle, Training
from siha_ros.replay import windows
from siha_ros.window.types import Window

CHECKS = 200  # validation windows that the estimator's variances are measured on


def springs_estimator(modules: TeamModules, agents: int, seed: int, device: torch.device) -> TeamEstimator:
    """The estimator of a team of Springs in the paper's setting. seed: of the validation windows."""
    frames = modules.nri.config.frames
    validation = springs_windows("fresh", "validation", CHECKS, agents=agents, frames=frames, future=HORIZON, seed=seed)
    noise, errors = measure_noise(modules, validation), window_errors(modules, validation)
    training = Training("siha reproduce baselines", "simulated springs, set fresh", seed, [], {}, {}, revision(), {})
    config = springs_config("baselines", "fresh", agents, modules, errors, {}, training)
    return TeamEstimator(Bundle(Path("baselines"), config, dict(modules.networks()), {"noise": noise}), device)


def completed(estimator: TeamEstimator, states: FloatArray, hidden: int, seen: BoolArray) -> FloatArray:
    """States ``[n, H, T, D]`` of the last ``hidden`` agents of ``states [n, A, T, D]``, as they are seen in the frames
    ``seen [T]``; normalised."""
    scale, found = estimator.scale, []
    for positions, velocities in zip(*(part.numpy() for part in scale.split(torch.from_numpy(states))), strict=True):
        answer = estimator.estimate(window_of(positions, velocities, hidden, seen, estimator.bundle.config.dt))
        complete = scale.features(torch.from_numpy(answer.positions), torch.from_numpy(answer.velocities))
        found.append(complete[-hidden:].numpy())
    return np.stack(found)


def window_of(positions: FloatArray, velocities: FloatArray, hidden: int, seen: BoolArray, dt: float) -> Window:
    """A window of ``[A, T, P]`` (m, m/s), the first of its stream, of whose last ``hidden`` agents nothing is known but
    the frames ``seen``."""
    agents, frames, _ = positions.shape
    observed = np.ones((agents, frames), bool)
    observed[-hidden:] = seen
    names = [f"agent_{agent + 1}" for agent in range(agents)]
    return windows.window_of(names, np.arange(frames) * np.float64(dt), positions, observed, velocities)
