"""Messages of any type as a driver sends them, and as nobody should: what the fuzz tests send.

Both go by the fields that a message has, so that a type that is new to the node needs nothing here.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from node_harness import Team, stamp

FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 1e300, 5e-324, 1e8, -1e8, 1e6, 1.0, -1.0)
INTEGERS = (0, 1, 2, 255, 127, 999_999_999, 2**31 - 1, -1, -(2**31), 2**32 - 1)
TEXTS = ("", "world", "nobody", "joint", "a/b", "1", "-", "é\U0001f916", " ", "x" * 300, "r0", "r1", "j0", "j1", "ann")


def fill(message: Any, moment: float, names: list[str], index: int = 0) -> Any:
    """The message as the driver of a Team has it at a stream time (s): agent `index`, or all where it has sequences."""
    for field, kind in message.get_fields_and_field_types().items():
        value = getattr(message, field)
        if kind == "std_msgs/Header":
            value.stamp, value.frame_id = stamp(moment), "world"
        elif field in ("position", "translation", "point"):
            value.x, value.y, value.z = Team.position(index, moment)
        elif field == "orientation" or kind == "geometry_msgs/Quaternion":
            value.w = 1.0
        elif kind == "string":
            setattr(message, field, "world" if field == "frame_id" else names[index])
        elif kind == "sequence<string>":
            setattr(message, field, list(names))
        elif kind == "sequence<double>":
            places = [Team.position(agent, moment) for agent in range(len(names))]
            setattr(message, field, [coordinate for place in places for coordinate in place])
        elif kind in ("sequence<float>", "sequence<boolean>"):
            setattr(message, field, [kind == "sequence<boolean>" or 1.0] * len(names))
        elif kind.startswith("sequence<") and "/" in kind:
            entry = _element(message, kind)
            setattr(message, field, [fill(entry(), moment, names, agent) for agent in range(len(names))])
        elif kind in ("float", "double"):
            setattr(message, field, 1.0)
        elif kind.startswith(("int", "uint")) and field != "action":  # of a marker: 0 draws it
            setattr(message, field, index)
        elif hasattr(value, "get_fields_and_field_types"):
            fill(value, moment, names, index)
    return message


def mutate(message: Any, random: np.random.Generator, share: float) -> Any:
    """A copy of a message of which about `share` of all values, one at the least, are odd ones."""
    message = copy.deepcopy(message)
    places = list(_places(message))
    chosen = random.random(len(places)) < share
    chosen[random.integers(len(places))] = True
    for index in np.flatnonzero(chosen):
        owner, field = places[index]
        value, kind = _odd(getattr(owner, field), random), owner.get_fields_and_field_types()[field]
        if match := re.fullmatch(r"(u?)int(\d+)", kind):  # within what the wire can hold
            low = 0 if match[1] else -(1 << int(match[2]) - 1)
            value = min(max(value, low), low + (1 << int(match[2])) - 1)
        setattr(owner, field, value)
    return message


def _places(message: Any) -> Iterator[tuple[Any, str]]:
    """All fields, at any depth, that are values or sequences of something."""
    for field in message.get_fields_and_field_types():
        value = getattr(message, field)
        if hasattr(value, "get_fields_and_field_types"):
            yield from _places(value)
            continue
        yield message, field
        if isinstance(value, list):
            for entry in value:
                if hasattr(entry, "get_fields_and_field_types"):
                    yield from _places(entry)


def _odd(value: Any, random: np.random.Generator) -> Any:
    """Another value of the same type; sequences lose, double, mix up or change entries."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return float(random.choice(FLOATS)) if random.random() < 0.7 else value + float(random.normal(0, 10))
    if isinstance(value, int):
        return int(random.choice(INTEGERS)) if random.random() < 0.7 else value + int(random.integers(-3, 4))
    if isinstance(value, str):
        return str(random.choice(TEXTS))
    if isinstance(value, np.ndarray):
        return np.where(random.random(value.shape) < 0.3, random.choice(FLOATS, value.shape), value)
    if not isinstance(value, bytes) and hasattr(value, "__len__"):
        return _odd_sequence(list(value), random)
    return value


def _odd_sequence(entries: list[Any], random: np.random.Generator) -> list[Any]:
    if not entries:
        return entries
    kind, index = random.integers(6), int(random.integers(len(entries)))
    if kind == 0:
        return entries[:index]
    if kind == 1:
        return [*entries, copy.deepcopy(entries[index])]
    if kind == 2:
        return [entries[place] for place in random.permutation(len(entries))]
    if kind == 3:
        return []
    if kind == 4:
        return entries * int(random.integers(2, 40))
    if not hasattr(entries[index], "get_fields_and_field_types"):
        entries[index] = _odd(entries[index], random)
    return entries


def _element(message: Any, kind: str) -> type:
    """The class of the entries of a field of type sequence<package/Name>."""
    import importlib

    package, name = kind.removeprefix("sequence<").split(">")[0].split(",")[0].split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)
