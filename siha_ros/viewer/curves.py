"""What the plots show of a History: the part around the time that is shown, thinned, with a line at that time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.viewer.memory import Floats
from siha_ros.viewer.scene_state import History

PLOT_SECONDS = 60.0  # of the memory
PLOT_AHEAD = 15.0  # s of them after the time shown, where there is as much
PLOT_POINTS = 200


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
    """Data of a plot: time f8[N], the lines f8[N] of each, and a last line that stands upright at a time. What is not
    known is drawn as 0: NaN would leave the plot empty."""
    place = [int(np.searchsorted(time, at))] * 3
    lines = [np.nan_to_num(line) for line in lines]
    upright = np.insert(np.zeros(len(time)), place, [0.0, max(1.0, *(float(line.max()) for line in lines)), 0.0])
    moved = [np.insert(line, place, float(np.interp(at, time, line))) for line in lines]
    return np.insert(time, place, at), *moved, upright
