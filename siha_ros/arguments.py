"""Types of the arguments of commands; what does not fit is said in one line."""

from __future__ import annotations

import argparse


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


for _type in (positive, seed, factor):
    _type.__name__ = "number"  # what argparse calls it where a text is none
