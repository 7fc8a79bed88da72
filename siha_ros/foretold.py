"""Forecasts that have come true or not: by how much those of the last seconds missed, of what they stated.

Tables of a bundle tell how far off forecasts are of agents that move as its data. Whether those of a stream do shows
some seconds later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.grid import STAMP_TOLERANCE, between
from siha_ros.window.types import Estimate, Window

Array = NDArray[np.float64]

APART = 0.5  # s between two forecasts that are kept, or an eighth of how far ahead they look where that is less
FEWEST = 4  # forecasts that are needed to tell


@dataclass(frozen=True)
class Foretold:
    """A forecast made at ``time`` (s) of agents seen then, others NaN: positions ``[A, H, P]`` (m) at times ``[H]``,
    half-widths of 68 % ``[A, H]`` (m) that tables give it."""

    time: float
    names: list[str]
    times: Array
    positions: Array
    width: Array


def kept(past: tuple[Foretold, ...], estimate: Estimate, width: Array, seen: NDArray[np.bool_]) -> tuple[Foretold, ...]:
    """``past`` and what ``estimate`` forecasts of the agents ``seen [A]``, without those that time has passed. width:
    as of :class:`Foretold`."""
    now, ahead = float(estimate.times[-1]), estimate.forecast
    past = tuple(one for one in past if now < one.times[-1] and one.names == estimate.names)
    if past and now < past[-1].time + min(APART, (ahead.times[-1] - now) / 8) - STAMP_TOLERANCE:
        return past
    positions = np.where(seen[:, None, None], ahead.positions, np.nan)
    return (*past, Foretold(now, list(estimate.names), ahead.times.copy(), positions, width))


def missed(past: tuple[Foretold, ...], window: Window, deviation: float) -> Array:
    """``[A]``: mean squared errors, at the newest time of the window, of what was forecast for it, over the variance
    that it was given and that of positions as they are seen now, ``deviation`` (m) squared; NaN where fewer than FEWEST
    forecasts tell."""
    now = float(window.times[-1])
    true = [one for one in past if one.times[0] <= now <= one.times[-1] and one.names == window.names]
    unknown: Array = np.full(len(window.names), np.nan)
    if len(true) < FEWEST:
        return unknown
    off = np.stack([between(one.times, one.positions, now) for one in true]) - window.positions[:, -1]
    width = np.stack([between(one.times, one.width[..., None], now)[..., 0] for one in true])
    ratio = np.square(off).mean(-1) / (np.square(width) + deviation**2)
    known = np.isfinite(ratio)
    count = known.sum(0)
    mean: Array = np.where(known, ratio, 0).sum(0) / np.maximum(1, count)
    return np.where(count >= FEWEST, mean, unknown)
