"""Windows of history and future on a uniform grid, cut from recordings, with masks: a gap is never taken for truth.

Positions are resampled by the code of the live window (:mod:`siha_ros.window.grid`): linear between two samples, across
no gap longer than ``max_gap``. Only windows in which enough agents are known throughout are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offline_training.recordings.recording import Recording, RecordingError
from siha_ros.window.grid import STAMP_TOLERANCE, resample

GAP_INTERVALS = 2.5  # a gap longer than so many sample intervals, and than a grid step, is one that nobody fills
MOST_STEPS, MOST_STEPS_A_SAMPLE = 3_000_000, 20  # beyond both of them there is a gap that no recording has
FEWEST = 4  # agents of a window: three that are seen and one that hides


@dataclass(frozen=True)
class Grid:
    """A recording on a grid: times f8[G] (s), positions f8[A, G, P] (m), NaN where not known, known bool[A, G]."""

    names: list[str]
    times: NDArray[np.float64]
    positions: NDArray[np.float64]
    known: NDArray[np.bool_]
    source: str

    def part(self, begin: int, end: int) -> Grid:
        """Grid times begin .. end - 1."""
        span = slice(begin, end)
        return Grid(self.names, self.times[span], self.positions[:, span], self.known[:, span], self.source)


@dataclass(frozen=True)
class Windows:
    """n windows of the same number of agents.

    Attributes:
        positions: f8[n, A, T, P] (m), T = frames + future; finite throughout: where not observed, a straight line
            between the frames around (or the nearest frame), which is there to be computed with and not to be learned.
        observed: bool[n, A, T], what is measured and may be learned from.
        recording: i8[n], from which of the recordings.
        start: f8[n], time of the first frame (s).
    """

    positions: NDArray[np.float64]
    observed: NDArray[np.bool_]
    recording: NDArray[np.int64]
    start: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.positions)


def to_grid(recording: Recording, dt: float, max_gap: float | None = None) -> Grid:
    """A recording at steps of dt (s) from its first stamp to its last.

    max_gap: longest time (s) between two samples of an agent that is bridged; None is 2.5 of the recording's intervals,
    or dt where that is longer. Raises RecordingError where the stamps are so far apart that the grid would be all gaps.
    """
    if max_gap is None:
        max_gap = max(GAP_INTERVALS * recording.interval, dt)
    stamps = recording.stamps
    steps = (stamps[-1] - stamps[0] + STAMP_TOLERANCE) / dt
    if steps > max(MOST_STEPS, MOST_STEPS_A_SAMPLE * len(stamps)):
        gap = int(np.diff(stamps).argmax())
        raise RecordingError(
            f"{recording.source}: {len(stamps)} stamps on {steps:.3g} steps of {dt:.3g} s, the longest gap from"
            f" {stamps[gap]:.10g} to {stamps[gap + 1]:.10g} s: expected"
            " right stamps, recordings without long gaps, or a longer step"
        )
    count = int(steps) + 1
    times = stamps[0] + dt * np.arange(count)
    positions = _each(np.where(recording.observed, stamps, np.nan), recording.positions, times, max_gap)
    return Grid(recording.names, times, positions, np.asarray(np.isfinite(positions).all(-1)), recording.source)


def _each(
    stamps: NDArray[np.float64], positions: NDArray[np.float64], times: NDArray[np.float64], max_gap: float
) -> NDArray[np.float64]:
    """Agent by agent, for recordings in which hundreds come and go and each has few of the samples."""
    out = np.full((len(stamps), len(times), positions.shape[2]), np.nan)
    for agent in range(len(stamps)):
        seen = np.isfinite(stamps[agent])
        if seen.any():
            own = stamps[agent, seen]
            first, last = np.searchsorted(times, [own[0] - STAMP_TOLERANCE, own[-1] + STAMP_TOLERANCE])
            if first < last:
                span = slice(first, last)
                out[agent, span] = resample(own[None], positions[agent, seen][None], times[span], max_gap)[0]
    return out


def agents_together(grids: Sequence[Grid], frames: int) -> NDArray[np.int64]:
    """For every possible start of a window of ``frames``, how many agents are known throughout: i8[starts]."""
    counts = [_throughout(grid.known, frames).sum(0) for grid in grids if len(grid.times) >= frames]
    return np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)


def windows(
    grids: Sequence[Grid],
    frames: int,
    future: int,
    *,
    agents: int,
    step: int = 1,
    missing: float = 0.0,
) -> Windows:
    """All windows of ``frames`` + ``future`` frames of ``agents`` agents, starting every ``step`` frames.

    An agent takes part in a window where it is known in all frames, or, with ``missing``, in all but that share of
    them; at least three agents are known in all. Where more agents than wanted take part, those known in all frames
    go first, then those nearest to the others.
    """
    length = frames + future
    positions, observed, source, start = [], [], [], []
    for number, grid in enumerate(grids):
        if len(grid.times) < length:
            continue
        share = _throughout(grid.known, length, missing)
        whole = _throughout(grid.known, length)
        for begin in range(0, share.shape[1], step):
            there = np.flatnonzero(share[:, begin])
            if len(there) < agents or whole[:, begin].sum() < min(3, agents):
                continue
            span = slice(begin, begin + length)
            known = grid.known[there, span]
            filled = _filled(grid.positions[there, span], known)
            if len(there) > agents:
                kept = _together(filled, np.asarray(known.all(1)), agents)
                filled, known = filled[kept], known[kept]
            positions.append(filled)
            observed.append(known)
            source.append(number)
            start.append(grid.times[begin])
    dims = grids[0].positions.shape[2] if grids else 2
    return Windows(
        np.stack(positions) if positions else np.zeros((0, agents, length, dims)),
        np.stack(observed) if observed else np.zeros((0, agents, length), dtype=bool),
        np.array(source, dtype=np.int64),
        np.array(start, dtype=np.float64),
    )


def _throughout(known: NDArray[np.bool_], length: int, missing: float = 0.0) -> NDArray[np.bool_]:
    """bool[A, G - length + 1]: whether at most that share of the frames of the window from there on is unknown."""
    gaps = np.cumsum(np.pad(~known, ((0, 0), (1, 0))), axis=1)
    return np.asarray(gaps[:, length:] - gaps[:, :-length] <= missing * length)


def _filled(positions: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Straight lines across gaps, f8[A, T, P]."""
    out = positions.copy()
    frames = np.arange(positions.shape[1])
    for agent in np.flatnonzero(~known.all(1)):
        seen = known[agent]
        for axis in range(positions.shape[2]):
            out[agent, ~seen, axis] = np.interp(frames[~seen], frames[seen], positions[agent, seen, axis])
    return out


def _together(positions: NDArray[np.float64], whole: NDArray[np.bool_], agents: int) -> NDArray[np.int64]:
    """The agents that go first, in their order: known throughout, then with the least distance to the nearest ones."""
    middle = positions[:, positions.shape[1] // 2]
    apart = np.linalg.norm(middle[:, None] - middle[None], axis=-1)
    closeness = np.sort(apart, axis=1)[:, 1:agents].sum(1)
    return np.sort(np.lexsort((closeness, ~whole))[:agents])
