"""What was forecast in losses: how often the stated deviations hold, and the tables that they are stated by.

Agents that are seen and agents that are lost are apart: of the latter, what is not known now is not known later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.types import Estimate

TIMES_AHEAD = 8  # of a forecast that are looked at, at most
Array = NDArray[np.float64]


@dataclass
class Forecasts:
    """Rows, one for each estimate, agent and time ahead that is looked at, in parts of one estimate each.

    agent: i8[n]. state: i8[n] row of the lost agent in the trace of states, -1 for an agent that is seen. lost: i8[n],
    agents lost in that estimate. ahead: f8[n] (s). error: f8[n, P] truth minus forecast (m). width, radius: f8[n] of
    68 % per axis and of 95 % that it stated (m).
    """

    agent: list[NDArray[np.int64]] = field(default_factory=list)
    state: list[NDArray[np.int64]] = field(default_factory=list)
    lost: list[NDArray[np.int64]] = field(default_factory=list)
    ahead: list[Array] = field(default_factory=list)
    error: list[Array] = field(default_factory=list)
    width: list[Array] = field(default_factory=list)
    radius: list[Array] = field(default_factory=list)

    def note(self, estimate: Estimate, future: Array, dt: float, state: NDArray[np.int64]) -> None:
        """Add one estimate. future: f8[A, n, P] (m), the truth every ``dt`` (s) after it. state: i8[A], as ours."""
        forecast = estimate.forecast
        places = steps_looked_at(len(forecast.times)) - 1
        ahead = forecast.times[places] - estimate.times[-1]
        frames = np.round(ahead / dt).astype(int) - 1
        places, ahead, frames = (values[frames < future.shape[1]] for values in (places, ahead, frames))
        if not len(places):
            return
        agents, times = len(state), len(places)
        self.agent.append(np.repeat(np.arange(agents), times))
        self.state.append(np.repeat(state, times))
        self.lost.append(np.full(agents * times, (state >= 0).sum()))
        self.ahead.append(np.tile(ahead, agents))
        self.error.append((future[:, frames] - forecast.positions[:, places]).reshape(agents * times, -1))
        self.width.append(np.sqrt(forecast.covariance[:, places, 0, 0]).ravel())
        self.radius.append(forecast.position_95[:, places].ravel())

    def rows(self, lost: bool, number: int | None = None) -> Forecasts | None:
        """Those of lost agents, or of seen ones, as one part; of estimates with this number of lost agents, or of all;
        None without any."""
        if not self.state:
            return None
        chosen = (np.concatenate(self.state) >= 0) == lost
        if number is not None:
            chosen &= np.concatenate(self.lost) == number
        if not chosen.any():
            return None
        return Forecasts(*([np.concatenate(getattr(self, part.name))[chosen]] for part in fields(self)))


def steps_looked_at(horizon: int) -> NDArray[np.int64]:
    """Numbers of steps ahead, 1 to ``horizon``, denser where errors are still small."""
    return np.unique(np.geomspace(1, horizon, TIMES_AHEAD).round().astype(np.int64))


def coverage(forecasts: Forecasts) -> dict[str, Any]:
    """For "seen" and "lost" agents by seconds ahead: error in cm, and how often the truth lies within what was
    stated."""
    out: dict[str, Any] = {}
    for name in ("seen", "lost"):
        rows = forecasts.rows(name == "lost")
        if rows is None:
            continue
        ahead, error, width, radius = rows.ahead[0], rows.error[0], rows.width[0], rows.radius[0]
        out[name] = {}
        for seconds in np.unique(ahead.round(4)):
            at = np.isclose(ahead, seconds, atol=1e-3)
            out[name][f"{seconds:.3g}"] = {
                "rmse_cm": 100 * float(np.sqrt(np.square(error[at]).sum(-1).mean())),
                "radius_cm": 100 * float(np.median(radius[at])),
                **inside(error[at], width[at], radius[at]),
            }
    return out


def inside(error: Array, width: Array, radius: Array) -> dict[str, Any]:
    """How often errors f8[n, P] (m) lie within half-widths per axis and radii f8[n] (m) that were stated of them, %."""
    return {
        "inside_68_percent": 100 * float((np.abs(error) <= width[:, None]).mean()),
        "inside_95_percent": 100 * float((np.linalg.norm(error, axis=-1) <= radius).mean()),
        "cases": len(error),
    }
