"""How sure a figure is: percentile bootstrap intervals, drawing whole windows, or whole losses, again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def interval(values: NDArray[np.float64], statistic: Statistic | None = None, seed: int = 0) -> list[float]:
    """The 95 % interval [low, high] of a statistic of n independent cases.

    values: f8[n], one number a case. statistic: f8[resamples, n] to f8[resamples]; the mean by default.
    """
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(RESAMPLES // 100):
        cases = values[random.integers(0, len(values), (100, len(values)))]
        drawn.append(cases.mean(1) if statistic is None else statistic(cases))
    low, high = np.percentile(np.concatenate(drawn), (2.5, 97.5))
    return [float(low), float(high)]


def ratio_interval(
    squares: NDArray[np.float64], rivals: NDArray[np.float64], seed: int = 0
) -> tuple[float, list[float]]:
    """Root mean square of one method over that of another on the same n cases, and its 95 % interval.

    squares, rivals: f8[n], sums of squared errors of each case, over the same frames.
    """
    random = np.random.default_rng(seed)
    weights = random.multinomial(len(squares), np.full(len(squares), 1 / len(squares)), RESAMPLES)
    drawn = np.sqrt((weights @ squares) / np.maximum(weights @ rivals, 1e-300))
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(np.sqrt(squares.sum() / max(float(rivals.sum()), 1e-300))), [float(low), float(high)]
