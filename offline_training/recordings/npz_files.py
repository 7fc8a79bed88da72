"""Recordings in ``.npz``: positions [A, T, P] (NaN in gaps), stamps [T] (s) or rate (Hz), and optionally names [A],
observed [A, T] and velocities [A, T, P].
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from offline_training.recordings.recording import ReadOptions, Recording, RecordingError


def read(path: Path, options: ReadOptions) -> Recording:
    """Read one file. Raises RecordingError."""
    try:
        with zipfile.ZipFile(path):  # NumPy would read other files under this name
            pass
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordingError(f"{path}: no readable .npz file ({' '.join(str(error).split())})") from None
    if "positions" not in arrays or arrays["positions"].ndim != 3:
        raise RecordingError(f"{path}: expected positions [A, T, P], it holds {', '.join(arrays) or 'nothing'}")
    for key in ("positions", "stamps", "rate", "observed", "velocities"):
        if key in arrays and arrays[key].dtype.kind not in "biuf":
            raise RecordingError(f"{path}: {key}: expected real numbers, got {arrays[key].dtype}")
    try:
        positions = arrays["positions"].astype(np.float64)
        agents, times, _ = positions.shape
        if agents > times and "stamps" not in arrays:
            raise RecordingError(f"{path}: positions of {agents} agents in {times} frames, expected them as [A, T, P]")
        if "stamps" in arrays:
            stamps = arrays["stamps"].astype(np.float64) * (options.time_unit or 1.0)
        elif (rate := options.rate or float(arrays.get("rate", 0.0))) > 0:
            stamps = np.arange(times) / rate
        else:
            raise RecordingError(f"{path}: neither stamps [T] nor rate in it: give the rate")
        observed = np.isfinite(positions).all(-1)
        if "observed" in arrays:
            if arrays["observed"].shape != (agents, times):
                raise RecordingError(f"{path}: observed {arrays['observed'].shape}, expected [{agents}, {times}]")
            observed &= np.nan_to_num(arrays["observed"]).astype(bool)
        velocities = arrays["velocities"].astype(np.float64) if "velocities" in arrays else None
    except (TypeError, ValueError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError(f"{path}: {' '.join(str(error).split())}") from None
    positions[~observed] = np.nan
    names = [str(name) for name in np.ravel(arrays.get("names", [f"agent_{agent}" for agent in range(agents)]))]
    return Recording(names, stamps, positions, observed, velocities, str(path))
