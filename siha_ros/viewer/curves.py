"""What the plots show of a History: the part around the time that is shown, thinned, with a line at that time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.viewer.memory import Floats
from siha_ros.viewer.scene_state import History

PLOT_SECONDS = 60.0  # of the memory
PLOT_AHEAD = 15.0  # s of them after the time shown, where there is as much
PLOT_POINTS = 500


def plotted(history: History, shown: float, origin: float) -> History:
    """The part of a history around the stamp shown (s) that the plots have room for: the largest of each few entries,
    times after `origin` (s)."""
    begin, end = history.time[[0, -1]]
    right = min(end, max(shown + PLOT_AHEAD, begin + PLOT_SECONDS))
    rows = (history.time >= right - PLOT_SECONDS) & (history.time <= right)
    first = np.arange(0, int(rows.sum()), int(rows.sum()) // PLOT_POINTS + 1)

    def largest(values: NDArray[Any]) -> NDArray[Any]:
        return np.fmax.reduceat(values[rows], first)

    return History(
        largest(history.time) - origin,
        None if history.error is None else largest(history.error),
        largest(history.position_95),
        largest(history.latency),
        largest(history.hidden),
    )


def with_cursor(time: Floats, lines: list[Floats], at: float) -> tuple[Floats, ...]:
    """Data of a plot: time f8[N], the lines f8[N] of each, and a last line that stands upright at a time."""
    place = int(np.searchsorted(time, at))
    height = max((float(np.nanmax(line)) for line in lines if not np.isnan(line).all()), default=0.0)
    upright = np.insert(np.full(len(time), np.nan), [place, place], [0.0, max(height, 1.0)])
    there = [float(np.interp(at, time, line)) for line in lines]
    moved = [np.insert(line, [place, place], value) for line, value in zip(lines, there, strict=True)]
    return np.insert(time, [place, place], at), *moved, upright
