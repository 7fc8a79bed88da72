"""Recordings in ``.c3d``: markers as agents, by the library ezc3d or c3d, whichever is installed (neither is needed
otherwise). Axes stay the file's; occluded markers (NaN, or a negative residual) are gaps.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_training.recordings.recording import ReadOptions, Recording, RecordingError

METRES = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}


def read(path: Path, options: ReadOptions) -> Recording:
    """Read one file. Raises RecordingError; ImportError names the packages."""
    names, points, residuals, rate, unit = _load(path)
    if unit.lower() not in METRES:
        raise RecordingError(f"{path}: POINT:UNITS is {unit!r}, expected one of {', '.join(METRES)}")
    positions = points * METRES[unit.lower()]
    observed: NDArray[np.bool_] = np.isfinite(positions).all(-1) & (residuals >= 0)
    positions[~observed] = np.nan
    seen = np.asarray(observed.any(1))
    if not seen.any():
        raise RecordingError(f"{path}: no marker was seen in any frame")
    stamps = np.arange(positions.shape[1]) / rate
    kept = [name for name, found in zip(names, seen, strict=True) if found]
    return Recording(kept, stamps, positions[seen], observed[seen], None, str(path))


def _load(path: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64], float, str]:
    """Labels, points f8[A, T, 3], residuals f8[A, T], rate (Hz), unit."""
    try:
        import ezc3d
    except ImportError:
        try:
            import c3d
        except ImportError:
            raise ImportError(f"{path.name}: reading .c3d needs the package ezc3d or c3d: pip install ezc3d") from None
        return _by_c3d(c3d, path)
    return _by_ezc3d(ezc3d, path)


def _by_ezc3d(ezc3d: Any, path: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64], float, str]:
    try:
        file = ezc3d.c3d(str(path))
        point = file["parameters"]["POINT"]
        points = np.moveaxis(np.array(file["data"]["points"][:3], dtype=np.float64), 0, -1)
        residuals = np.array(file["data"]["meta_points"]["residuals"][0], dtype=np.float64)
        names = [str(name).strip() for name in point["LABELS"]["value"][: len(points)]]
        return names, points, residuals, float(point["RATE"]["value"][0]), str(point["UNITS"]["value"][0]).strip()
    except (OSError, RuntimeError, ValueError, KeyError, IndexError) as error:
        raise RecordingError(f"{path}: no readable .c3d file ({' '.join(str(error).split())})") from None


def _by_c3d(c3d: Any, path: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64], float, str]:
    try:
        with path.open("rb") as handle, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what files leave out and tracks do not need
            file = c3d.Reader(handle)
            frames = np.stack([points for _, points, _ in file.read_frames()]).astype(np.float64)  # [T, A, 5]
        names = [str(name).strip() for name in file.point_labels[: frames.shape[1]]]
        unit = file.get("POINT:UNITS").string_value.strip()
        rate = float(file.point_rate)
    except (OSError, AssertionError, AttributeError, ValueError, KeyError, EOFError) as error:
        raise RecordingError(f"{path}: no readable .c3d file ({' '.join(str(error).split())})") from None
    frames = frames.swapaxes(0, 1)
    return names, frames[..., :3].copy(), frames[..., 3], rate, unit
