"""Types of the arguments of commands; what does not fit is said in one line."""

from __future__ import annotations

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def seed(text: str) -> int:
    """A whole number from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative, expected a whole number from 0 on")
    return number


def factor(text: str) -> float:
    """A number above 0."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def duration(text: str) -> float:
    """Seconds of 2s, 500ms, 20m, 3h or 2."""
    unit = next((unit for unit in ("ms", "s", "m", "h") if text.endswith(unit)), "")
    seconds = float(text.removesuffix(unit)) * {"ms": 1e-3, "m": 60.0, "h": 3600.0}.get(unit, 1.0)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 2s, 500ms or 20m")
    return seconds


def budget(text: str) -> float:
    """Seconds of 20m, 2h or 90s, above 0. The unit has to be there: 20 would be taken for minutes by some."""
    if not text.endswith(("s", "m", "h")) or (seconds := duration(text)) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a time above 0 with its unit, such as 20m or 2h")
    return seconds


def output_file(text: str) -> Path:
    """A file that can be written, in a folder that is there."""
    file = Path(text)
    if not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{file}: the folder {file.absolute().parent} does not exist")
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{file} is a folder, expected a file")
    return file


for _type, _name in (
    (positive, "number"),
    (seed, "number"),
    (factor, "number"),
    (duration, "duration"),
    (budget, "time"),
):
    _type.__name__ = _name  # what argparse calls it where a text is none
