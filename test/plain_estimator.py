"""An estimator for replays whose every number is known: Hold, with a graph and a deviation that a test chooses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from siha_ros.baselines import Hold
from siha_ros.window.completion import isotropic, position_95


def plain_config(**changes: Any) -> SimpleNamespace:
    """A team in the plane: windows of 6 frames of 0.1 s, forecasts of 3."""
    values = {
        "name": "plain",
        "identified": False,
        "agent_names": [],
        "limbs": {},
        "dims": 2,
        "dt": 0.1,
        "window": 6,
        "horizon": 3,
        "edge_types": ["none", "acts"],
    }
    return SimpleNamespace(**(values | changes))


class PlainEstimator:
    """Says that hidden agents stay where they were, within `deviation` (m) along each axis, and that everybody acts on
    everybody, unless somebody is hidden: then the first agent acts on nobody."""

    def __init__(self, deviation: float = 0.1, **config: Any) -> None:
        self.bundle, self.device = SimpleNamespace(config=plain_config(**config), arrays={}), "cpu"
        self.deviation, self._hold = deviation, Hold(horizon=self.bundle.config.horizon)
        self.windows: list[Any] = []

    def warm_up(self) -> None:
        pass

    def estimate(self, window: Any, previous: Any = None) -> Any:
        self.windows.append(window)
        estimate = self._hold.estimate(window, previous)
        estimate.covariance = isotropic(np.full(window.observed.shape, self.deviation), window.positions.shape[-1])
        estimate.position_95 = position_95(estimate.covariance)
        acts = 1.0 - np.eye(len(window.names))
        if window.hidden.any():
            acts[0] = 0.0
        estimate.adjacency = np.stack([1.0 - np.eye(len(window.names)) - acts, acts], axis=-1)
        return estimate
