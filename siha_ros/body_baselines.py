"""The two plain regressions of a body behind the estimator's interface: ridge_frame and ridge_window.

They come with a body's bundle, fitted to the same training trials, and complete one hidden limb; anything else is
continued at constant velocity.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from siha_ros.baselines import ConstantVelocity, constant_velocity_forecast
from siha_ros.model.body_linear import LinearPath
from siha_ros.model.bundle import Bundle
from siha_ros.model.ridge import LimbRidge
from siha_ros.window.completion import complete
from siha_ros.window.types import Estimate, Window

DEVIATION = 0.02  # m per axis of a joint that a regression puts in
ACCELERATION = 5.0  # m/s^2 by which the deviation of its forecast grows


class RidgeEstimator:
    """One of the regressions of a bundle, ``"ridge_frame"`` or ``"ridge_window"``."""

    def __init__(self, bundle: Bundle, name: str):
        config = bundle.config
        self.name, self._names, self._horizon = name, config.agent_names, max(config.horizon, 1)
        self._template = LinearPath.from_tensors(bundle.arrays["linear"]).template
        stored = bundle.arrays["ridge"]
        self._limbs: dict[str, LimbRidge] = {}
        for limb in config.limbs:
            start = f"{name}.{limb}."
            tensors = {key[len(start) :]: tensor for key, tensor in stored.items() if key.startswith(start)}
            self._limbs[limb] = LimbRidge.from_tensors(tensors)
        self._fallback = ConstantVelocity(horizon=self._horizon)

    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """Complete the window; nothing that was last seen of a limb is used."""
        began = perf_counter()
        fallback = self._fallback.estimate(window)
        if sorted(window.names) != sorted(self._names):
            return fallback
        order = np.array([window.names.index(name) for name in self._names])
        limb = self._hidden_limb(window.observed[order].all(1))
        if limb is None:
            return fallback
        frame = self._template.fit(window.positions[order], ~np.isin(np.arange(len(order)), limb.hidden))
        found = frame.to_world(limb.complete(frame.to_body(window.positions[order])[None])[0])
        filled = np.where(window.observed[..., None], window.positions, fallback.positions)
        filled[order[limb.hidden]] = np.where(
            window.observed[order[limb.hidden]][..., None], filled[order[limb.hidden]], found
        )
        deviation = np.full(window.observed.shape, DEVIATION)
        forecast = constant_velocity_forecast(window, filled, self._horizon, deviation[:, -1], ACCELERATION)
        estimate = complete(window, filled, deviation, forecast)
        estimate.ms = (perf_counter() - began) * 1e3
        return estimate

    def _hidden_limb(self, throughout: NDArray[np.bool_]) -> LimbRidge | None:
        """The limb that holds every joint not seen throughout, or None."""
        missing = np.flatnonzero(~throughout)
        fitting = [limb for limb in self._limbs.values() if len(missing) and np.isin(missing, limb.hidden).all()]
        return fitting[0] if fitting else None


def ridge_estimators(bundle: Bundle) -> dict[str, RidgeEstimator]:
    """The regressions of a body's bundle by name; empty for other bundles."""
    if "ridge" not in bundle.arrays:
        return {}
    return {name: RidgeEstimator(bundle, name) for name in ("ridge_frame", "ridge_window")}
