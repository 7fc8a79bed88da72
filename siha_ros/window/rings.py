"""Bounded memory of the samples of a group: one ring of time cells per agent, and the few newest samples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.grid import last_velocity, resample


class SampleRings:
    """Samples of A agents in rings of cells of 1 / rate seconds, each cell holding the newest sample that fell into it.

    Samples in any order find their place, and a flood of them takes no more memory. A sample's values are
    position (P), confidence (1), measured velocity (P, NaN where not measured).

    Args:
        cells: number of cells of each ring; what is older than cells / rate seconds is overwritten.
        rate: cells per second (Hz).
        dims: P.
        recent: number of newest samples kept aside for the velocity at the last one.

    Attributes:
        latest: f8[A, 2P + 1] values of the newest sample of each agent.
        measured: whether any sample came with a velocity.
    """

    def __init__(self, cells: int, rate: float, dims: int, recent: int) -> None:
        self.cells, self.rate, self.dims = cells, rate, dims
        self.measured = False
        self.latest = np.zeros((0, 2 * dims + 1))
        self._stamps = np.zeros((0, cells))
        self._values = np.zeros((0, cells, 2 * dims + 1))
        self._recent_stamps = np.zeros((0, recent))
        self._recent_positions = np.zeros((0, recent, dims))
        self._turn = np.zeros(0, dtype=np.int64)

    def grow(self, agents: int) -> None:
        """Make room, empty, for agents that joined."""
        self.latest = grown(self.latest, agents)
        self._stamps = grown(self._stamps, agents)
        self._values = grown(self._values, agents)
        self._recent_stamps = grown(self._recent_stamps, agents)
        self._recent_positions = grown(self._recent_positions, agents)
        self._turn = np.concatenate([self._turn, np.zeros(agents - len(self._turn), dtype=np.int64)])

    def keep(self, agents: NDArray[np.int64]) -> None:
        """Forget all agents but those."""
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                setattr(self, name, array[agents])

    def write(self, index: NDArray[np.int64], stamp: float, values: NDArray[np.float64], newest: NDArray) -> int:
        """Keep one sample of each indexed agent; the first of two with the same stamp stays, with the velocity of the
        second where it had none.

        Args:
            index: i8[n] agents.
            stamp: (s).
            values: f8[n, 2P + 1].
            newest: bool[n], whether this is the agent's newest sample.

        Returns:
            Number of samples that had a stamp which was there already, and nothing new.
        """
        slot = self._cell(stamp) % self.cells
        stamps = self._stamps[:, slot]
        present = stamps[index]
        passed = present >= stamp
        duplicates = 0
        if passed.any():
            again, fresh = present == stamp, ~passed
            duplicates = int(again.sum()) - self._complete(index[again], slot, values[again])
            index, values, newest = index[fresh], values[fresh], newest[fresh]
        stamps[index] = stamp
        self._values[index, slot] = values
        turn = self._turn[index]
        self._recent_stamps[index, turn] = stamp
        self._recent_positions[index, turn] = values[:, : self.dims]
        self._turn[index] = (turn + 1) % self._recent_stamps.shape[1]
        if newest.all():
            self.latest[index] = values
        else:
            self.latest[index[newest]] = values[newest]
        return duplicates

    def _complete(self, index: NDArray[np.int64], slot: int, values: NDArray[np.float64]) -> int:
        """Add the measured velocities that the samples in a slot lack; the number of samples that gained by it."""
        kept = self._values[index, slot]
        gained = np.isnan(kept[:, self.dims + 1 :]).any(axis=1) & np.isfinite(values[:, self.dims + 1 :]).all(axis=1)
        kept[gained, self.dims + 1 :] = values[gained, self.dims + 1 :]
        self._values[index, slot] = kept
        return int(gained.sum())

    def holds(self, index: NDArray[np.int64], stamp: float) -> NDArray[np.bool_]:
        """bool[n]: whether there is a sample of this very stamp (s) of each indexed agent."""
        return np.asarray(self._stamps[index, self._cell(stamp) % self.cells] == stamp)

    def beside(self, index: NDArray[np.int64], stamp: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Stamps f8[n, 2] (s) and positions f8[n, 2, P] of the samples just before and just after a stamp of each
        indexed agent, NaN where there is none."""
        stamps = self._stamps[index]
        before = np.where(stamps < stamp, stamps, -np.inf).argmax(axis=1)
        after = np.where(stamps > stamp, stamps, np.inf).argmin(axis=1)
        rows, cells = np.arange(len(index))[:, None], np.stack([before, after], axis=1)
        found, positions = stamps[rows, cells], self._values[index[:, None], cells, : self.dims]
        there = np.stack([found[:, 0] < stamp, found[:, 1] > stamp], axis=1)
        return np.where(there, found, np.nan), np.where(there[..., None], positions, np.nan)

    def forget_recent(self, index: NDArray[np.int64]) -> None:
        """Let the velocity at the last sample start anew."""
        self._recent_stamps[index] = np.nan

    def forget_after(self, index: NDArray[np.int64], stamps: NDArray[np.float64]) -> None:
        """Drop the samples of each indexed agent that are newer than its stamp."""
        self._stamps[index] = np.where(self._stamps[index] > stamps[:, None], np.nan, self._stamps[index])
        self.forget_recent(index)

    def forget_until(self, index: NDArray[np.int64], stamps: NDArray[np.float64]) -> None:
        """Drop the samples of each indexed agent that are no newer than its stamp."""
        if len(index):
            self._stamps[index] = np.where(self._stamps[index] <= stamps[:, None], np.nan, self._stamps[index])

    def last_velocity(self, index: NDArray[np.int64], span: float, max_age: float) -> NDArray[np.float64]:
        """f8[n, P] velocity (m/s) at the newest sample of the indexed agents; see grid.last_velocity."""
        return last_velocity(self._recent_stamps[index], self._recent_positions[index], span, max_age)

    def on_grid(
        self, newest: float, until: NDArray[np.float64], times: NDArray[np.float64], max_gap: float
    ) -> NDArray[np.float64]:
        """Values interpolated at `times`, from samples no newer than `until`.

        Args:
            newest: newest stamp of the group (s).
            until: f8[A] (s).
            times: f8[T] (s).
            max_gap: longest gap that is interpolated (s).

        Returns:
            f8[A, T, P + 1], or f8[A, T, 2P + 1] once velocities were measured; NaN where not known.
        """
        oldest = (self._cell(newest) + 1) % self.cells
        stamps = np.concatenate([self._stamps[:, oldest:], self._stamps[:, :oldest]], axis=1)
        valid = (stamps >= newest - (self.cells - 2) / self.rate) & (stamps <= until[:, None])
        stamps[~valid] = np.nan
        values = self._values if self.measured else self._values[..., : self.dims + 1]
        return resample(stamps, values, times, max_gap, shift=oldest)

    def sample_rate(self, since: float) -> float:
        """Samples a second of an agent (Hz), by the middle one of all steps between stamps from `since` (s) on, so that
        gaps do not count; NaN where there is no step."""
        stamps = np.sort(np.where(self._stamps >= since, self._stamps, np.nan), axis=1)
        steps = np.diff(stamps, axis=1)
        known = steps[np.isfinite(steps)]
        return 1.0 / float(np.median(known)) if len(known) else math.nan

    def _cell(self, stamp: float) -> int:
        return math.floor(stamp * self.rate)


def grown(array: NDArray[np.float64], agents: int) -> NDArray[np.float64]:
    """The array with rows of NaN appended up to `agents` rows."""
    return np.concatenate([array, np.full((agents - len(array), *array.shape[1:]), np.nan)])
