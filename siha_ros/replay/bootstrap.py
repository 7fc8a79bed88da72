"""How sure a figure is: percentile bootstrap intervals, drawing whole windows, or whole losses, again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def interval(
    values: NDArray[np.float64],
    statistic: Statistic | None = None,
    seed: int = 0,
    groups: NDArray[np.int64] | None = None,
) -> list[float]:
    """The 95 % interval [low, high] of a statistic of n cases.

    values: f8[n], one number a case. statistic: f8[resamples, n] to f8[resamples]; the mean by default. groups: i8[n],
    for cases that are not independent, such as windows that overlap: whole groups are drawn then, and nothing is known
    of a single one (an empty list).
    """
    random = np.random.default_rng(seed)
    drawn = []
    if groups is None:
        for _ in range(RESAMPLES // 100):
            cases = values[random.integers(0, len(values), (100, len(values)))]
            drawn.append(cases.mean(1) if statistic is None else statistic(cases))
    else:
        members = [values[groups == group] for group in np.unique(groups)]
        if len(members) == 1:
            return []
        for _ in range(RESAMPLES):
            picked = np.concatenate([members[one] for one in random.integers(0, len(members), len(members))])[None]
            drawn.append(picked.mean(1) if statistic is None else statistic(picked))
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
