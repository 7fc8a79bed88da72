"""Samples that nothing could have moved to: a spike of a tracker, a fault in a file. One of them would set the scale of
everything that is learned.

What is too fast goes by the recordings themselves: many times the largest speed that agents keep up for some samples,
which spikes do not, and than noise makes of standing agents. Small spikes stay: the node will meet them, too, and a
bundle that was trained without them forecasts badly where they are (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter, minimum_filter1d

from offline_training.recordings.recording import Recording
from offline_training.recordings.windows import GAP_INTERVALS

AROUND = 7  # samples whose median drops shorter spikes
LASTING = 3  # steps that a speed is kept up for
TIMES_LASTING = 50.0  # the largest speed that lasts, of an agent that is faster than
OF_AGENTS = 0.8  # the others; a tracker that is lost for a while is among the rest
TIMES_NOISE = 100.0  # the upper quartile of all speeds
LEAST = 1e-3  # m/s
LONGEST = 10  # samples of a spike, and
LONGEST_AT_END = 3  # of one at the beginning or the end, with nothing on its other side
SHOWN = 3  # samples that a message names

Track = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]  # frames, stamps, positions of samples


def without_spikes(recordings: Sequence[Recording]) -> tuple[list[Recording], list[str], float]:
    """The recordings with spikes made into gaps, a line for people about each that has some, or in which an agent
    jumps and stays there, which is kept, and the speed (m/s) that no motion in them is faster than."""
    tracks = [[_track(recording, agent) for agent in range(len(recording.names))] for recording in recordings]
    fastest = too_fast([track for team in tracks for track in team])
    found: list[Recording] = []
    lines: list[str] = []
    for recording, team in zip(recordings, tracks, strict=True):
        spikes = np.zeros_like(recording.observed)
        jumps = np.zeros_like(recording.observed)
        for agent, (frames, stamps, positions) in enumerate(team):
            spiky = spikes_of(stamps, positions, fastest)
            spikes[agent, frames[spiky]] = True
            left = frames[~spiky]
            fast = _speeds(stamps[~spiky], positions[~spiky]) > fastest
            usual = float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0
            jumps[agent, left[1:][fast & (np.diff(stamps[~spiky]) <= GAP_INTERVALS * usual)]] = True
        lines += _said(recording, spikes, f"taken for gaps: faster there and back than {fastest:.3g} m/s")
        lines += _said(recording, jumps, f"kept, though reached faster than {fastest:.3g} m/s: the agent stays there")
        positions = np.where(spikes[..., None], np.nan, recording.positions)
        moved = recording.velocities
        moved = None if moved is None else np.where(spikes[..., None], np.nan, moved)
        found.append(replace(recording, positions=positions, velocities=moved, observed=recording.observed & ~spikes))
    return found, lines, fastest


def too_fast(tracks: Sequence[Track]) -> float:
    """The speed (m/s) from which a sample is out of the way."""
    lasting, usual = [], [0.0]
    for _, stamps, positions in tracks:
        if len(stamps) > LASTING:
            smooth = _speeds(stamps, median_filter(positions, (AROUND, 1), mode="nearest"))
            lasting.append(float(minimum_filter1d(smooth, LASTING, mode="constant", cval=0.0).max()))
        usual += _speeds(stamps, positions).tolist()
    kept_up = float(np.quantile(lasting, OF_AGENTS)) if lasting else 0.0
    return max(TIMES_LASTING * kept_up, TIMES_NOISE * float(np.quantile(usual, 0.75)), LEAST)


def spikes_of(stamps: NDArray[np.float64], positions: NDArray[np.float64], fastest: float) -> NDArray[np.bool_]:
    """bool[n]: samples of a track in runs of up to ``LONGEST`` that are out of reach from the samples before and after,
    while those are within reach of each other."""
    spiky = np.zeros(len(stamps), bool)
    for length in range(1, LONGEST + 1):
        left = np.flatnonzero(~spiky)
        suspects = _suspects(stamps[left], positions[left], fastest)
        if not suspects:
            break
        for first in suspects:
            run = left[first : first + length]
            before, after = left[first - 1 : first], left[first + length : first + length + 1]
            if len(run) < length or spiky[run].any() or (length > LONGEST_AT_END and not (len(before) and len(after))):
                continue
            around = np.concatenate([before, after])
            if not len(around) or spiky[around].any() or len(around) == 1 and len(left) <= 2 * length:
                continue
            far = all(_out_of_reach(stamps, positions, int(one), run, fastest).all() for one in around)
            near = len(around) == 1 or not _out_of_reach(stamps, positions, int(before[0]), after, fastest).any()
            spiky[run] = far and near
    return spiky


def _suspects(stamps: NDArray[np.float64], positions: NDArray[np.float64], fastest: float) -> list[int]:
    """Where a run may begin: at the first sample, and after each step that is too fast."""
    fast = np.flatnonzero(_speeds(stamps, positions) > fastest) + 1
    return [0, *fast.tolist()] if len(fast) else []


def _out_of_reach(
    stamps: NDArray[np.float64],
    positions: NDArray[np.float64],
    start: int,
    samples: NDArray[np.int64],
    fastest: float,
) -> NDArray[np.bool_]:
    """Which samples are out of reach of sample ``start``."""
    distance = np.linalg.norm(positions[samples] - positions[start], axis=-1)
    return np.asarray(distance > fastest * np.abs(stamps[samples] - stamps[start]))


def _track(recording: Recording, agent: int) -> Track:
    frames = np.flatnonzero(recording.observed[agent])
    return frames, recording.stamps[frames], recording.positions[agent, frames]


def _speeds(stamps: NDArray[np.float64], positions: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(np.diff(positions, axis=0), axis=-1) / np.diff(stamps))


def _said(recording: Recording, where: NDArray[np.bool_], what: str) -> Iterator[str]:
    if where.any():
        some = [f"{recording.names[agent]} at {recording.stamps[frame]:.13g} s" for agent, frame in np.argwhere(where)]
        shown = ", ".join(some[:SHOWN]) + f" and {len(some) - SHOWN} more" * (len(some) > SHOWN)
        yield f"{recording.source}: {len(some)} sample{'s' * (len(some) > 1)} {what} ({shown})"
