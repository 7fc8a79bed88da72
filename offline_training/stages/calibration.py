"""Error tables that hold on the next trial, not only on the trials that they were measured on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from siha_ros.model.bundle import ErrorTable
from siha_ros.replay.losses import error_table


def calibrated_table(
    seconds: NDArray[np.float64], errors: NDArray[np.float64], trials: NDArray, places: Sequence[float]
) -> ErrorTable:
    """The table of errors f8[n, P] (m) at times since loss f8[n] (s), of n moments of several ``trials`` [n].

    How large errors are differs from trial to trial, and the quantiles of a few trials are too narrow for the next one.
    So each trial is judged by the table of the others, and both columns are stretched until 68.27 % and 95 % of all
    that was so judged lie inside (cross-conformal prediction, whose folds are trials).
    """
    table = error_table(seconds, errors, places)
    width, radius = np.empty(len(seconds)), np.empty(len(seconds))
    for trial in np.unique(trials):
        own = trials == trial
        width[own], radius[own] = error_table(seconds[~own], errors[~own], places).at(seconds[own])
    wider = np.quantile(np.abs(errors) / np.maximum(width, 1e-6)[:, None], 0.6827)
    farther = np.quantile(np.linalg.norm(errors, axis=-1) / np.maximum(radius, 1e-6), 0.95)
    return ErrorTable(
        table.seconds,
        (wider * np.array(table.half_width)).round(5).tolist(),
        (farther * np.array(table.radius)).round(5).tolist(),
    )
