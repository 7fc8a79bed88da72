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
    """Seconds of 2s, 500ms or 2."""
    unit = 1e-3 if text.endswith("ms") else 1.0
    seconds = float(text.removesuffix("ms").removesuffix("s")) * unit
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 2s or 500ms")
    return seconds


def output_file(text: str) -> Path:
    """A file that can be written, in a folder that is there."""
    file = Path(text)
    if not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{file}: the folder {file.absolute().parent} does not exist")
    return file


for _type, _name in ((positive, "number"), (seed, "number"), (factor, "number"), (duration, "duration")):
    _type.__name__ = _name  # what argparse calls it where a text is none
