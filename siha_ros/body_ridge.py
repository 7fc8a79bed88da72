"""Baselines of a body: the plain regressions of a bundle behind the estimator's interface.

Each limb is told from the other joints, frame by frame. What is said of a limb just lost is not joined to where it was
seen.
"""

from __future__ import annotations

import numpy as np

from siha_ros.baselines import ConstantVelocity
from siha_ros.model.body_linear import LinearPath
from siha_ros.model.bundle import Bundle
from siha_ros.model.ridge import LimbRidge
from siha_ros.window.grid import backward_difference
from siha_ros.window.types import Estimate, Window

KINDS = ("ridge_frame", "ridge_window")


class BodyRidge:
    """`ridge_frame` (one frame) or `ridge_window` (several lags) of a bundle of bodies.

    A limb that is not seen throughout is completed by its regression where all other joints are seen throughout; else
    unseen joints go on at constant velocity.
    """

    def __init__(self, bundle: Bundle, kind: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}: expected {' or '.join(KINDS)}")
        self.name = kind
        config = bundle.config
        self._names = config.agent_names
        self._template = LinearPath.from_tensors(bundle.arrays["linear"]).template
        self._limbs = [_limb(bundle, kind, limb) for limb in config.limbs]
        self._fallback = ConstantVelocity(horizon=max(config.horizon, 1))

    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """Complete the window."""
        estimate = self._fallback.estimate(window)
        if sorted(window.names) != sorted(self._names):
            return estimate
        order = np.array([window.names.index(name) for name in self._names])
        throughout = window.observed[order].all(axis=1)
        lost = np.flatnonzero(~throughout)
        limb = next((limb for limb in self._limbs if len(lost) and set(lost) <= set(limb.hidden.tolist())), None)
        if limb is None:
            return estimate
        positions = window.positions[order]
        frame = self._template.fit(positions, throughout)
        found = limb.complete(frame.to_body(positions)[None])[0]
        rows = order[limb.hidden]
        seen = window.observed[rows][..., None]
        estimate.positions[rows] = np.where(seen, window.positions[rows], frame.to_world(found))
        estimate.velocities = backward_difference(estimate.positions, window.dt)
        return estimate


def _limb(bundle: Bundle, kind: str, limb: str) -> LimbRidge:
    prefix = f"{kind}.{limb}."
    tensors = {
        key.removeprefix(prefix): value for key, value in bundle.arrays["ridge"].items() if key.startswith(prefix)
    }
    return LimbRidge.from_tensors(tensors)
