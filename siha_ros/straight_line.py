"""How wrong constant velocity is in the stream at hand: what it would have said of the agents seen in a window, against
where they then were. A bundle's own table knows only motion like that in its training."""

from __future__ import annotations

import numpy as np

from siha_ros.model.bundle import ErrorTable
from siha_ros.window.grid import backward_difference
from siha_ros.window.types import Window

FEWEST = 20  # errors that a quantile is taken of
LAGS = 16  # times, evenly in their logarithm, at which errors are measured: quantiles are dear, and tables interpolate


def straight_line_errors(window: Window) -> ErrorTable | None:
    """Errors by seconds since an agent was last seen, over all agents and moments of the window; None where it shows
    too few. Neither column falls with time."""
    positions = np.where(window.observed[..., None], window.positions, np.nan)
    velocities = backward_difference(positions, window.dt)
    velocities[:, 0] = np.nan  # it would be that of the frame after
    rows = []
    for frames in np.unique(np.geomspace(1, max(len(window.times) - 2, 1), LAGS).round().astype(int)):
        since = frames * window.dt
        error = positions[:, frames:] - positions[:, :-frames] - since * velocities[:, :-frames]
        error = error[np.isfinite(error).all(-1)]
        if len(error) < FEWEST:
            break
        radius = np.quantile(np.linalg.norm(error, axis=-1), 0.95)
        rows.append((since, np.quantile(np.abs(error), 0.6827), radius))
    if not rows:
        return None
    seconds, width, radius = np.array(rows).T
    return ErrorTable(seconds.tolist(), np.maximum.accumulate(width).tolist(), np.maximum.accumulate(radius).tolist())
