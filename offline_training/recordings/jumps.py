"""Samples that nothing could have moved to: a spike of a tracker, a fault in a file. One of them would set the scale of
everything that is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from offline_training.recordings.recording import Recording

AROUND = 7  # samples whose median tells where an agent is
FARTHEST = 20.0  # usual steps (99 % are shorter) from it: a turn at six times the usual speed is within
BREAK = 2.5  # usual intervals without a sample, after which an agent may be anywhere
SHOWN = 3


def without_spikes(recordings: Sequence[Recording]) -> tuple[list[Recording], list[str]]:
    """The recordings with spikes made into gaps, and a line for people about each that has some, or in which an agent
    jumps and stays there, which is kept."""
    found, lines = [], []
    for recording in recordings:
        spikes, jumps = _beyond(recording)
        for kind, where, what in (
            ("spikes, taken for gaps", spikes, "away and back"),
            ("jumps, kept", jumps, "to stay"),
        ):
            if where.any():
                agents, frames = np.nonzero(where)
                some = ", ".join(
                    f"{recording.names[agent]} at {recording.stamps[frame]:.6g} s"
                    for agent, frame in list(zip(agents, frames, strict=True))[:SHOWN]
                )
                more = " and others" * (len(agents) > SHOWN)
                lines.append(
                    f"{recording.source}: {len(agents)} {kind}: {some}{more} went over {FARTHEST:g} times as far as is"
                    f" usual in a sample, {what}"
                )
        positions = np.where(spikes[..., None], np.nan, recording.positions)
        moved = recording.velocities
        moved = None if moved is None else np.where(spikes[..., None], np.nan, moved)
        found.append(replace(recording, positions=positions, velocities=moved, observed=recording.observed & ~spikes))
    return found, lines


def _beyond(recording: Recording) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Spikes, and first samples after a jump, bool[A, T] each."""
    spikes, jumps = np.zeros_like(recording.observed), np.zeros_like(recording.observed)
    stretches = [part for agent in range(len(recording.names)) for part in _stretches(recording, agent)]
    steps = [
        np.linalg.norm(np.diff(recording.positions[agent, part], axis=0), axis=-1)
        for agent, part in stretches
        if len(part) > 1
    ]
    usual = float(np.quantile(np.concatenate(steps), 0.99)) if steps else 0.0
    if not usual > 0:
        return spikes, jumps
    for agent, part in stretches:
        positions = recording.positions[agent, part]
        middle = median_filter(positions, (AROUND, 1), mode="mirror")
        far = np.linalg.norm(positions - middle, axis=-1) > FARTHEST * usual
        spikes[agent, part[far]] = True
        kept = np.flatnonzero(~far)
        step = np.linalg.norm(np.diff(positions[kept], axis=0), axis=-1)
        jumps[agent, part[kept[1:]][step > FARTHEST * usual * np.diff(kept)]] = True
    return spikes, jumps


def _stretches(recording: Recording, agent: int) -> list[tuple[int, NDArray[np.int64]]]:
    """The agent with indices of its samples, parted where it was out of sight."""
    seen = np.flatnonzero(recording.observed[agent])
    if not len(seen):
        return []
    apart = np.flatnonzero(np.diff(recording.stamps[seen]) > BREAK * recording.interval) + 1
    return [(agent, part) for part in np.split(seen, apart)]
