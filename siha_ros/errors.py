"""What an error says, for people."""

from __future__ import annotations


def one_line(error: BaseException) -> str:
    """What an exception says, on one line; its type where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__
