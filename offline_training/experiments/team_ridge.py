"""Ridge regression of whole windows behind the estimator's interface: what a team's estimator is compared with."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from offline_training.datasets.simulated import springs_windows
from offline_training.experiments.plain_methods import RidgeRegression
from offline_training.stages.progress import say_simulating
from siha_ros.baselines import ConstantVelocity, constant_velocity_forecast
from siha_ros.model.bundle import BundleConfig
from siha_ros.model.frame import team_frame
from siha_ros.window.completion import complete
from siha_ros.window.types import Estimate, Window

FloatArray = NDArray[np.float64]
PENALTIES = tuple(10.0**power for power in range(-10, 3))  # m^2; the smallest are for positions without noise
TRAINING, VALIDATION = 20_000, 2_000  # windows


class TeamRidge:
    """Of like agents, seen in the frame that moves with those seen throughout. For each number of agents that are not,
    and each choice of frames in which they are, a regression of its own is fitted when it is first asked for.

    training, validation: complete windows f8[n, A, T, P] (m), with such noise as the windows have that will be asked
    for. dt: s. horizon: steps of the forecast, at constant velocity. Windows of other sizes, or whose agents are away
    at different times, are continued at constant velocity.
    """

    name = "ridge"

    def __init__(self, training: FloatArray, validation: FloatArray, dt: float, horizon: int = 50):
        self._training, self._validation, self._dt = training, validation, dt
        # by the number of agents lost and the frames in which they are seen: the regression, and deviations f8[T] (m)
        self._fitted: dict[tuple[int, bytes], tuple[RidgeRegression, FloatArray]] = {}
        self._fallback = ConstantVelocity(horizon=horizon)

    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """Complete the window; nothing that was seen before it is used."""
        began = perf_counter()
        throughout = window.observed.all(1)
        lost = np.flatnonzero(~throughout)
        seen = window.observed[lost]
        fitting = window.positions.shape == self._training.shape[1:] and abs(window.dt / self._dt - 1) < 1e-3
        if not fitting or not throughout.any() or not len(lost) or (seen != seen[0]).any():
            return self._fallback.estimate(window)
        ridge, deviations = self._ridge(len(lost), seen[0])
        order = np.concatenate([np.flatnonzero(throughout), lost])
        inside, origin = self._inside(window.positions[None, order], len(lost))
        filled = np.where(window.observed[..., None], window.positions, 0.0)
        filled[lost] = np.where(seen[..., None], filled[lost], (ridge.complete(inside, len(lost), seen[0]) + origin)[0])
        straight = self._fallback
        deviation = np.where(window.observed, straight.seen_deviation, deviations)
        forecast = constant_velocity_forecast(window, filled, straight.horizon, deviation[:, -1], straight.growth)
        estimate = complete(window, filled, deviation, forecast)
        estimate.ms = (perf_counter() - began) * 1e3
        return estimate

    def _ridge(self, lost: int, seen: NDArray[np.bool_]) -> tuple[RidgeRegression, FloatArray]:
        """The regression for the last ``lost`` agents, seen in the frames ``seen``, and its deviation (m) per axis in
        each frame, of validation windows."""
        key = lost, seen.tobytes()
        if key not in self._fitted:
            checks = self._inside(self._validation, lost)[0]
            ridge = RidgeRegression(PENALTIES)
            ridge.fit(self._inside(self._training, lost)[0], checks, lost, seen)
            errors = ridge.complete(checks, lost, seen) - checks[:, -lost:]
            self._fitted[key] = ridge, np.sqrt(np.square(errors).mean((0, 1, 3)))
        return self._fitted[key]

    def _inside(self, windows: FloatArray, lost: int) -> tuple[FloatArray, FloatArray]:
        """Windows [n, A, T, P], the lost agents last, in the frame of the others, and its origin [n, 1, T, P]."""
        frames = windows.shape[2]
        frame = team_frame(torch.from_numpy(windows[:, :-lost]), self._dt)
        origin = frame.at(torch.arange(1 - frames, 1)).numpy()[:, None]
        return windows - origin, origin


def springs_ridge(config: BundleConfig, noise: float = 0.0) -> TeamRidge:
    """Of windows of the set ``any`` of the training split, whose positions have normal noise of a deviation ``noise``
    (m) on each axis."""
    say_simulating(TRAINING)
    random = np.random.default_rng(0)

    def seen(split: str, count: int) -> FloatArray:
        windows = springs_windows("any", split, count, agents=config.count, frames=config.window)
        positions: FloatArray = windows.positions.double().numpy()
        return positions + random.normal(0.0, noise, positions.shape) if noise else positions

    return TeamRidge(seen("train", TRAINING), seen("validation", VALIDATION), config.dt, max(config.horizon, 1))
