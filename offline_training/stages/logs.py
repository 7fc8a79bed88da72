"""What a training leaves beside its weights: its options, the logs of its stages, curves of them, the revision of the
code."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from offline_training.stages.loop import read_note, read_rows, write_atomically
from offline_training.stages.noisy_encoder import BOTH
from offline_training.stages.together import BETWEEN

SHOWN = 5  # options that a message names
OTHER_FOLDER = "choose another folder, or remove this one"
BEGUN = (".pt", ".jsonl", ".npz")  # files that a training has left once it has begun
_HELD: dict[Path, IO[str]] = {}  # folders that this process trains in


def claim(work: Path, **options: object) -> None:
    """Note in ``work/options.json`` what is trained there. Raises ValueError, in one line, where a training with other
    options has begun: going on from that would make a bundle that says what is not so. A folder counts as other than it
    was where the names or sizes of its files are. Likewise where another process trains there now: the folder is held
    until this one ends."""
    work.mkdir(parents=True, exist_ok=True)
    _hold(work)
    note = work / "options.json"
    mine = json.loads(json.dumps(options, default=_told))
    if note.exists() and any(file.suffix in BEGUN for file in work.iterdir()):
        theirs = read_note(note, OTHER_FOLDER)
        other = [line for key in mine for line in _apart(key, theirs.get(key), mine[key])]
        if other:
            more = f" and {len(other) - SHOWN} more" * (len(other) > SHOWN)
            raise ValueError(
                f"{work} holds a training with {', '.join(other[:SHOWN])}{more}: choose another folder, or remove it"
            )
        return
    (work / "budget.json").unlink(missing_ok=True)  # chosen for other options
    write_atomically(note, lambda path: path.write_text(json.dumps(mine) + "\n"))


def _hold(work: Path) -> None:
    path = (work / ".lock").resolve()
    if path in _HELD:
        return
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(f"another training is running in {work}: choose another folder, or wait for it") from None
    except OSError:  # a file system without locks
        pass
    _HELD[path] = file


def _told(value: object) -> str:
    if not (isinstance(value, Path) and value.is_dir()):
        return str(value)
    files = sorted((file.name, file.stat().st_size) for file in value.iterdir() if file.is_file())
    return f"{value} ({len(files)} files, {hashlib.sha256(repr(files).encode()).hexdigest()[:8]})"


def _apart(key: str, theirs: Any, mine: Any) -> Iterator[str]:
    """What is asked for otherwise now, by dotted keys."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for name in sorted(theirs.keys() | mine.keys()):
            yield from _apart(f"{key}.{name}", theirs.get(name), mine.get(name))
    elif theirs != mine:
        yield f"{key} {theirs} (now {mine})"


def plot_curves(work: Path) -> None:
    """``work/curves.png``: what each stage was validated by, over its steps."""
    logs = _logs(work)
    figure = Figure(figsize=(4 * len(logs), 3), layout="tight")
    FigureCanvasAgg(figure)
    for axis, log in zip(np.atleast_1d(figure.subplots(1, len(logs))), logs, strict=True):
        rows = _rows(log)
        key = next(key for key in ("cm", "mse", BETWEEN, "nll", BOTH) if key in rows[-1])
        axis.plot([row["step"] for row in rows], [row[key] for row in rows])
        axis.set(title=log.stem, xlabel="step", ylabel=f"validation {key}", yscale="linear" if key == "nll" else "log")
    figure.savefig(work / "curves.png", dpi=120)


def stage_rows(work: Path) -> dict[str, dict[str, Any]]:
    """The last row of each stage's log."""
    return {log.stem: _rows(log)[-1] for log in _logs(work)}


def _rows(log: Path) -> list[dict[str, Any]]:
    rows = read_rows(log)
    if not rows:
        raise ValueError(f"{log}: empty, expected the rows of its stage: {OTHER_FOLDER}")
    return rows


def _logs(work: Path) -> list[Path]:
    """Of the stages, in the order in which they run: NRI after what teaches it, then HSP."""

    def place(log: Path) -> tuple[bool, str, bool]:
        name = log.stem
        return not name.startswith("nri"), name.removesuffix("_edges"), not name.endswith("_edges")

    return sorted(work.glob("*.jsonl"), key=place)


def revision() -> str:
    """The git revision of the code, or "unknown" outside a checkout."""
    folder = Path(__file__).parent
    run = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=folder, capture_output=True, text=True, check=False
    )
    return run.stdout.strip() or "unknown"
