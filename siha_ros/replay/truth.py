"""What a bag holds of its agents, as the truth of a replay in which some of them are hidden."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.replay.stream import Withheld
from siha_ros.window.grid import STAMP_TOLERANCE
from siha_ros.window.sliding_window import SlidingWindow


class RecordingWindow(SlidingWindow):
    """A window that also keeps every sample that it has ever believed.

    Attributes:
        tracks: of each agent rows of stamp, time of recording (s) and position (m), flat.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tracks: dict[str, array[float]] = {}
        self._went_back = ""

    def _keep(self, index: NDArray[np.int64], rows: NDArray[np.int64], frame: Any) -> None:
        """As that of SlidingWindow, which hands on what it has judged to be seen where it is."""
        super()._keep(index, rows, frame)
        recorded = frame.stamp if np.isnan(self._arrival) else self._arrival
        for agent, row in zip(index.tolist(), rows.tolist(), strict=True):
            track = self.tracks.setdefault(self.names[agent], array("d"))
            track.extend((frame.stamp, recorded, *frame.positions[row, : self.dims].tolist()))

    def reset(self, reason: str = "asked for") -> None:
        """As that of SlidingWindow."""
        if reason.startswith("time went back"):
            self._went_back = self._went_back or reason
        super().reset(reason)

    def truth(self) -> Truth:
        """What was kept. Raises ValueError where time went back, as then it is not one recording."""
        if self._went_back:
            raise ValueError(f"the bag cannot be scored: {self._went_back}, so it is not one recording")
        rows = {name: np.array(track).reshape(-1, 2 + self.dims) for name, track in self.tracks.items()}
        return Truth(rows, self.dims, self.parameters.max_gap)


class Truth:
    """Positions of agents at any time, linear between two samples that lie no more than a gap apart.

    Args:
        tracks: of each agent rows f8[n, 2 + P] of stamp, time of recording (s) and position (m).
        dims: P.
        max_gap: longest gap (s).
    """

    def __init__(self, tracks: dict[str, NDArray[np.float64]], dims: int, max_gap: float) -> None:
        self._tracks: dict[str, NDArray[np.float64]] = {}
        for name, rows in tracks.items():
            _, first = np.unique(rows[:, 0], return_index=True)
            self._tracks[name] = rows[first]
        self._dims, self._max_gap = dims, max_gap

    @property
    def names(self) -> list[str]:
        """Agents of which there is a sample, sorted."""
        return sorted(self._tracks)

    def at(self, name: str, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """f8[N, P] (m) at times f8[N] (s), NaN where the bag does not hold the agent."""
        if name not in self._tracks:
            return np.full((len(times), self._dims), np.nan)
        stamps = self._tracks[name][:, 0]
        right = np.clip(np.searchsorted(stamps, times - STAMP_TOLERANCE), 0, len(stamps) - 1)
        left = np.where(np.abs(stamps[right] - times) <= STAMP_TOLERANCE, right, np.maximum(right - 1, 0))
        inside = (stamps[left] <= times + STAMP_TOLERANCE) & (times <= stamps[right] + STAMP_TOLERANCE)
        known = inside & (stamps[right] - stamps[left] <= self._max_gap + STAMP_TOLERANCE)
        return np.where(known[:, None], self._between(name, times, left, right), np.nan)

    def loss(self, name: str, withheld: Withheld) -> tuple[float, float]:
        """Stamps (s) of an agent's last sample recorded before it is withheld and of the first one after; NaN where
        there is none."""
        rows = self._tracks.get(name, np.zeros((0, 2)))
        before, after = rows[rows[:, 1] < withheld.begin, 0], rows[rows[:, 1] >= withheld.end, 0]
        return before[-1] if len(before) else np.nan, after[0] if len(after) else np.nan

    def interpolated(self, name: str, withheld: Withheld, time: float) -> NDArray[np.float64]:
        """f8[P] (m) on the line from the last sample before a loss to the first one after it, which only a judge knows;
        NaN where there is not one on both sides."""
        ends = self.loss(name, withheld)
        if not ends[0] <= time <= ends[1]:
            return np.full(self._dims, np.nan)
        left, right = (np.searchsorted(self._tracks[name][:, 0], [end]) for end in ends)
        return self._between(name, np.array([time]), left, right)[0]

    def _between(
        self, name: str, times: NDArray[np.float64], left: NDArray[np.intp], right: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        rows = self._tracks[name]
        span = rows[right, 0] - rows[left, 0]
        weight = np.where(span > 0, (times - rows[left, 0]) / np.where(span > 0, span, 1.0), 0.0)[:, None]
        found: NDArray[np.float64] = rows[left, 2:] + weight * (rows[right, 2:] - rows[left, 2:])
        return found
