"""One's own recordings as complete tracks with names, stamps and gaps: the one interface behind which readers stand.

``read_recordings`` reads a file or a folder: CSV, NPZ, bags of ROS 1 and 2, C3D. Each reader is a small module; none of
them fills anything: where an agent was not seen there is NaN, and ``observed`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class RecordingError(ValueError):
    """A recording that cannot be read; the message is one line: file (and line), what is wrong, what was expected."""


@dataclass(frozen=True)
class Recording:
    """Tracks of A agents, sampled at T stamps.

    Attributes:
        names: [A] agents, all different.
        stamps: f8[T] (s), ascending. Agents whose sources sample at different times are observed at their own stamps.
        positions: f8[A, T, P] (m), P = 2 or 3; NaN where not observed.
        observed: bool[A, T].
        velocities: f8[A, T, P] (m/s) as the source measured them, NaN where it did not; None where it never does.
        source: what it was read from, for messages.
    """

    names: list[str]
    stamps: NDArray[np.float64]
    positions: NDArray[np.float64]
    observed: NDArray[np.bool_]
    velocities: NDArray[np.float64] | None
    source: str

    def __post_init__(self) -> None:
        agents, times, dims = self.positions.shape
        velocities = self.velocities
        checks = [
            (len(self.names) == agents, f"{len(self.names)} names for {agents} tracks"),
            (len(set(self.names)) == agents, "two agents of one name"),
            (self.stamps.shape == (times,), f"{self.stamps.shape} stamps for {times} frames"),
            (bool(np.isfinite(self.stamps).all()), "stamps that are not finite"),
            (bool((np.diff(self.stamps) > 0).all()), "stamps that do not ascend"),
            (dims in (2, 3), f"{dims} coordinates, expected 2 or 3"),
            (self.observed.shape == (agents, times), "observed is not of the shape of the tracks"),
            (velocities is None or velocities.shape == self.positions.shape, "velocities are not of positions' shape"),
            (bool((np.isfinite(self.positions).all(-1) == self.observed).all()), "positions and observed do not agree"),
        ]
        for fine, message in checks:
            if not fine:
                raise RecordingError(f"{self.source}: {message}")

    @property
    def dims(self) -> int:
        """P."""
        return self.positions.shape[2]

    @property
    def interval(self) -> float:
        """Median time (s) between two samples of an agent; NaN where no agent has two."""
        steps = [np.diff(self.stamps[seen]) for seen in self.observed]
        return float(np.median(np.concatenate(steps))) if sum(map(len, steps)) else float("nan")


@dataclass(frozen=True)
class ReadOptions:
    """What a file may leave open.

    Attributes:
        rate: frames a second (Hz) of files that number frames, or give no times at all.
        unit: metres in one unit of the file; None goes by the file: what stands beside a column's name, else metres.
        time_unit: seconds in one unit of its times; None goes by the file: what a column is called, else seconds.
        agents: names to take, in this order; empty takes all.
        topic: input topic of a bag, with {agent} for a name; None is the node's default, /{agent}/pose.
        arrival: samples of a bag are of the time at which they were recorded, and not of their header's stamp.
    """

    rate: float | None = None
    unit: float | None = None
    time_unit: float | None = None
    agents: Sequence[str] = ()
    topic: str | None = None
    arrival: bool = False


Reader = Callable[[Path, ReadOptions], Recording]
_PACKAGE = "offline_training.recordings"
_READERS = {
    ".csv": "csv_files",
    ".csv.gz": "csv_files",
    ".csv.xz": "csv_files",
    ".npz": "npz_files",
    ".bag": "bags",
    ".mcap": "bags",
    ".db3": "bags",
    ".c3d": "c3d_files",
}


def read_recordings(path: str | Path, options: ReadOptions | None = None) -> list[Recording]:
    """Everything in a file or folder that a reader knows, sorted by name. Raises RecordingError or FileNotFoundError.

    A folder of CSV files that hold one agent each (times, x, y, no names) is one recording; otherwise each file is.
    """
    path, options = Path(path), options or ReadOptions()
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    files = _recordings_in(path)
    if not files:
        raise RecordingError(f"{path}: nothing to read, expected {', '.join(_READERS)} or a folder of rosbag2")
    csv = [file for file, module in files if module == "csv_files"]
    alone: set[Path] = set()
    found: list[Recording] = []
    if len(csv) > 1:
        from offline_training.recordings.csv_files import is_one_agent, read_agents

        alone = {file for file in csv if is_one_agent(file)}
        if len(alone) > 1:
            found.append(read_agents(sorted(alone), path, options))
    for file, module in files:
        if len(alone) > 1 and file in alone:
            continue
        read: Reader = import_module(f"{_PACKAGE}.{module}").read
        found.append(read(file, options))
    return [_chosen(recording, options) for recording in found]


def _recordings_in(path: Path) -> list[tuple[Path, str]]:
    """Paths to read and the modules of their readers."""
    if path.is_dir() and not (path / "metadata.yaml").is_file():
        return [entry for child in sorted(path.iterdir()) for entry in _own(child)]
    entry = _own(path)
    if not entry and path.is_file():
        raise RecordingError(f"{path}: files of this kind cannot be read, expected {', '.join(_READERS)}")
    return entry


def _own(path: Path) -> list[tuple[Path, str]]:
    if path.is_dir():
        return [(path, "bags")] if (path / "metadata.yaml").is_file() else []
    ending = next((end for end in _READERS if path.name.lower().endswith(end)), None)
    return [(path, _READERS[ending])] if ending else []


def _chosen(recording: Recording, options: ReadOptions) -> Recording:
    """The agents asked for, in metres."""
    missing = [name for name in options.agents if name not in recording.names]
    if missing:
        raise RecordingError(
            f"{recording.source}: no agent {', '.join(missing)}, it has {', '.join(recording.names[:20])}"
        )
    rows = [recording.names.index(name) for name in options.agents] or list(range(len(recording.names)))
    velocities = recording.velocities
    return replace(
        recording,
        names=[recording.names[row] for row in rows],
        positions=recording.positions[rows] * (options.unit or 1.0),
        observed=recording.observed[rows],
        velocities=None if velocities is None else velocities[rows] * (options.unit or 1.0),
    )


@dataclass
class Track:
    """Samples of one agent: stamps f8[n] (s), positions f8[n, P] (NaN where not seen), velocities f8[n, P] or None."""

    stamps: NDArray[np.float64]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float64] | None = None


def from_tracks(tracks: dict[str, Track], source: str) -> Recording:
    """One recording of agents that each have their own stamps, in any order; the later of two samples at one stamp
    counts."""
    if not tracks:
        raise RecordingError(f"{source}: no agent found")
    stamps = np.unique(np.concatenate([track.stamps for track in tracks.values()]))
    dims = next(iter(tracks.values())).positions.shape[1]
    positions = np.full((len(tracks), len(stamps), dims), np.nan)
    velocities = np.full_like(positions, np.nan)
    for row, track in enumerate(tracks.values()):
        place = np.searchsorted(stamps, track.stamps)
        positions[row, place] = track.positions
        if track.velocities is not None:
            velocities[row, place] = track.velocities
    observed = np.isfinite(positions).all(-1)
    positions[~observed] = velocities[~observed] = np.nan
    measured = any(track.velocities is not None for track in tracks.values())
    return Recording(list(tracks), stamps, positions, observed, velocities if measured else None, source)
