"""Limits of hyper-parameters: a value that no network can be made of is refused where it is read."""

from __future__ import annotations


def at_least(config: object, **limits: float) -> None:
    """Raises ValueError, in one line, where an attribute that is not None is below its limit."""
    for name, least in limits.items():
        value = getattr(config, name)
        if value is not None and value < least:
            raise ValueError(f"{name}: {value}, expected {least} or more")


def above_zero(config: object, *names: str) -> None:
    """Raises ValueError, in one line, where an attribute is not above 0."""
    for name in names:
        if getattr(config, name) <= 0:
            raise ValueError(f"{name}: {getattr(config, name)}, expected a number above 0")
