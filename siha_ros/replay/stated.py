"""What an estimator states of windows by themselves, in which agents are hidden: how often it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.replay.forecasts import Forecasts, coverage, inside
from siha_ros.window.types import Estimate

Array = NDArray[np.float64]


@dataclass
class Stated:
    """Parts of one window each. error: f8[H, P] truth minus estimate (m) of the agents that are hidden in the newest
    frame. known: f8[2, H] half-widths of 68 % per axis and radii of 95 % (m) that were stated of them. forecasts: of
    all agents, their states those of the hidden ones."""

    error: list[Array] = field(default_factory=list)
    known: list[Array] = field(default_factory=list)
    forecasts: Forecasts = field(default_factory=Forecasts)

    def note(self, estimate: Estimate, truth: Array, dt: float) -> None:
        """Add a window. truth: f8[A, T + n, P] (m) of its agents, in the window and after it."""
        frames = len(estimate.times)
        hidden = np.flatnonzero(~estimate.observed[:, -1])
        state = np.full(len(truth), -1)
        state[hidden] = sum(map(len, self.error)) + np.arange(len(hidden))
        self.error.append(truth[hidden, frames - 1] - estimate.positions[hidden, -1])
        self.known.append(np.stack([np.sqrt(estimate.covariance[hidden, -1, 0, 0]), estimate.position_95[hidden, -1]]))
        self.forecasts.note(estimate, truth[:, frames:], dt, state)

    def coverage(self) -> dict[str, Any]:
        """Of hidden agents in the newest frame, and of forecasts as :func:`coverage`: how often the truth lies within
        what was stated."""
        error, (width, radius) = np.concatenate(self.error), np.concatenate(self.known, 1)
        newest = inside(error, width, radius) if len(error) else None
        return {"newest": newest, "forecast": coverage(self.forecasts)}
