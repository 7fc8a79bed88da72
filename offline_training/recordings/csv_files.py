"""Recordings in ``.csv`` (also ``.csv.gz``, ``.csv.xz``), of three layouts told apart by the names of the columns.

Wide: a time and, for each agent, NAME_x, NAME_y (and NAME_z); an empty cell or NaN is a gap. Long: a row a sample, with
the agent's name or number, the time, x, y (z), and vx, vy (vz) where measured. One agent: time, x, y (z) alone; a
folder of such files is a team, each agent named by its file. Cells are parted by commas, semicolons or tabs.

Time columns are time, t, stamp or timestamp (s), or frame, whose numbers are divided by the rate. A unit in brackets
counts, x[mm] or time[min], unless the options give one. A leading # before the names is skipped, _est is left out.
"""

from __future__ import annotations

import csv
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from offline_training.recordings.recording import ReadOptions, Recording, RecordingError, Track, from_tracks

AGENT_COLUMNS = ("agent", "id", "name", "robot", "player", "track", "track_id", "person")
TIME_COLUMNS = ("time", "t", "stamp", "timestamp")
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
TIME_UNITS |= dict.fromkeys(("sec", "second", "seconds"), 1.0)
LENGTHS = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 1e-3, "km": 1e3, "in": 0.0254, "ft": 0.3048}
LENGTHS |= dict.fromkeys(("meter", "meters", "metre", "metres"), 1.0)
_KNOWN = {*AGENT_COLUMNS, *TIME_COLUMNS, "frame", "x", "y", "z", "vx", "vy", "vz"}
_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass
class _Table:
    """Columns of a file by tidy name; units of those that have one; lines of the file that the rows are from."""

    path: Path
    columns: dict[str, list[str]]
    units: dict[str, str]
    lines: list[int]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as f8[rows], NaN where empty. Raises RecordingError naming the line."""
        cells = self.columns[name]
        try:
            return np.array([cell or "nan" for cell in cells], dtype=np.float64)
        except ValueError:
            for line, cell in zip(self.lines, cells, strict=True):
                try:
                    float(cell or "nan")
                except ValueError:
                    raise RecordingError(
                        f"{self.path}:{line}: column {name}: expected a number, got {cell!r:.40}"
                    ) from None
            raise

    def measured(self, names: Sequence[str], options: ReadOptions) -> NDArray[np.float64]:
        """Coordinates, or their velocities, as f8[rows, P], in the options' unit or, where they give none, metres.
        Raises RecordingError."""
        columns = []
        for name in names:
            unit = self.units.get(name, "m").removesuffix("/s")
            if options.unit is None and unit not in LENGTHS:
                raise RecordingError(
                    f"{self.path}:1: column {name} in {unit}: expected {', '.join(LENGTHS)}, or the unit as an option"
                )
            columns.append(self.numbers(name) * (LENGTHS[unit] if options.unit is None else 1.0))
        return np.stack(columns, -1)


def read(path: Path, options: ReadOptions) -> Recording:
    """Read one file of any layout. Raises RecordingError."""
    table = _table(path)
    stamps = _stamps(table, options)
    agent = next((name for name in AGENT_COLUMNS if all(table.columns.get(name, [""]))), None)
    if "x" in table.columns and "y" in table.columns:
        if agent is None:
            return from_tracks({_agent(path): _track(table, stamps, _axes([table]), options)}, str(path))
        return _long(table, stamps, agent, options)
    return _wide(table, stamps, options)


def read_agents(files: Sequence[Path], folder: Path, options: ReadOptions) -> Recording:
    """Files of one agent each as one recording."""
    tables: dict[str, _Table] = {}
    for file in files:
        if _agent(file) in tables:
            raise RecordingError(
                f"{file}: a second file of agent {_agent(file)}, beside {tables[_agent(file)].path.name}"
            )
        tables[_agent(file)] = _table(file)
    axes = _axes(list(tables.values()))
    tracks = {name: _track(table, _stamps(table, options), axes, options) for name, table in tables.items()}
    return from_tracks(tracks, str(folder))


def is_one_agent(path: Path) -> bool:
    """Whether a file holds x and y, but neither names of agents nor columns of several."""
    names = _table(path, rows=1).columns
    return "x" in names and "y" in names and not any(name in names for name in AGENT_COLUMNS)


def _long(table: _Table, stamps: NDArray[np.float64], agent: str, options: ReadOptions) -> Recording:
    whole = _track(table, stamps, _axes([table]), options)
    labels = np.array(table.columns[agent])
    tracks = {}
    for name in dict.fromkeys(table.columns[agent]):
        rows = labels == name
        moved = None if whole.velocities is None else whole.velocities[rows]
        tracks[name] = Track(whole.stamps[rows], whole.positions[rows], moved)
    return from_tracks(tracks, str(table.path))


def _wide(table: _Table, stamps: NDArray[np.float64], options: ReadOptions) -> Recording:
    names = [name.removesuffix("_x") for name in table.columns if name.endswith("_x")]
    if not any(f"{name}_y" in table.columns for name in names):
        raise RecordingError(
            f"{table.path}:1: no positions: expected x and y, or NAME_x and NAME_y, got {', '.join(table.columns)}"
        )
    if options.agents and set(options.agents) <= set(names):
        names = list(options.agents)
    half = [name for name in names if f"{name}_y" not in table.columns]
    if half:
        raise RecordingError(
            f"{table.path}:1: {half[0]}_x without {half[0]}_y (no agent? --names tells which ones are)"
        )
    axes = "xyz" if all(f"{name}_z" in table.columns for name in names) else "xy"
    return from_tracks(
        {name: Track(stamps, table.measured([f"{name}_{axis}" for axis in axes], options)) for name in names},
        str(table.path),
    )


def _axes(tables: Sequence[_Table]) -> str:
    """Of the agents of some tables: a z that some rows do not give, or that is 0 in all, is none."""
    if any("z" not in table.columns for table in tables):
        return "xy"
    heights = [
        table.numbers("z")[np.isfinite(table.numbers("x")) & np.isfinite(table.numbers("y"))] for table in tables
    ]
    return "xyz" if all(np.isfinite(part).all() for part in heights) and any(map(np.any, heights)) else "xy"


def _track(table: _Table, stamps: NDArray[np.float64], axes: str, options: ReadOptions) -> Track:
    measured = all(f"v{axis}" in table.columns for axis in axes)
    velocities = table.measured([f"v{axis}" for axis in axes], options) if measured else None
    return Track(stamps, table.measured(list(axes), options), velocities)


def _stamps(table: _Table, options: ReadOptions) -> NDArray[np.float64]:
    name = next((name for name in TIME_COLUMNS if name in table.columns), None)
    if name is not None:
        unit = table.units.get(name, "s")
        if options.time_unit is None and unit not in TIME_UNITS:
            raise RecordingError(
                f"{table.path}:1: column {name} in {unit}: expected {', '.join(TIME_UNITS)}, or the unit as an option"
            )
        stamps = table.numbers(name) * (options.time_unit or TIME_UNITS[unit])
    elif options.rate is None:
        held = "numbers frames" if "frame" in table.columns else "gives no times"
        raise RecordingError(f"{table.path}: {held}: give the rate, or a column {' or '.join(TIME_COLUMNS)}")
    else:
        frames = table.numbers("frame") if "frame" in table.columns else np.arange(len(table.lines), dtype=np.float64)
        stamps = frames / options.rate
    wrong = np.flatnonzero(~np.isfinite(stamps))
    if len(wrong):
        raise RecordingError(f"{table.path}:{table.lines[wrong[0]]}: a row without a time")
    return stamps


def _table(path: Path, rows: int | None = None) -> _Table:
    """All rows, or the first few, of a file; blank ones and comments are left out."""
    try:
        with _OPEN.get(path.suffix.lower(), open)(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=_delimiter(file))
            titles: list[str] = []
            for titles in reader:
                if any(title.strip(" #") for title in titles):
                    break
            names, units = _tidy(path, titles)
            content: list[list[str]] = []
            lines: list[int] = []
            for row in reader:
                if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
                    continue
                if len(row) != len(names):
                    raise RecordingError(
                        f"{path}:{reader.line_num}: {len(row)} cells, expected {len(names)}, one for each column"
                    )
                content.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
                if len(content) == rows:
                    break
    except (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise RecordingError(f"{path}: cannot be read ({' '.join(str(error).split())})") from None
    if not content:
        raise RecordingError(f"{path}: {'no rows under the names of the columns' if titles else 'empty'}")
    return _Table(path, dict(zip(names, map(list, zip(*content, strict=True)), strict=True)), units, lines)


def _delimiter(file: TextIO) -> str:
    """The one of , ; and tab that is most often in the first line that is not blank."""
    first = next((line for line in file if line.strip(" #\r\n")), "")
    file.seek(0)
    return max(",;\t", key=first.count)


def _tidy(path: Path, titles: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Names of columns, those that are read without units and in lower case, and their units."""
    names: list[str] = []
    units: dict[str, str] = {}
    for number, title in enumerate(titles):
        title = title.strip().removeprefix("#").strip() or f"column_{number}"
        bare, _, unit = re.sub(r"[\])]$", "", title).replace("(", "[").partition("[")
        name = re.sub(r"[._ ]([xyz])$", r"_\1", bare.strip().removesuffix("_est"), flags=re.IGNORECASE)
        if name.lower() in _KNOWN:
            name = name.lower()
        elif re.fullmatch(r".+_[xyzXYZ]", name):
            name = name[:-1] + name[-1].lower()
        else:
            name = title  # not one that is read: units may be what tells it from another
        if name in names:
            raise RecordingError(f"{path}:1: two columns are called {name}")
        names.append(name)
        if unit:
            units[name] = unit.strip()
    return names, units


def _agent(path: Path) -> str:
    """The name of a file without what says its kind; a name may have dots of its own."""
    return re.sub(r"\.csv(\.gz|\.xz)?$", "", path.name, flags=re.IGNORECASE)
