"""Messages of any type as a driver sends them, and as nobody should: what the fuzz tests send.

Both go by the fields that a message has, so that a type that is new to the node needs nothing here. Types that are not
installed are those of driver_messages.
"""

from __future__ import annotations

import copy
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import driver_messages
import numpy as np
from node_harness import Team, stamp
from rosbags.interfaces import Nodetype

from siha_ros.node.inputs import message_type

Place = Callable[[int, float], Sequence[float]]
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 1e300, 5e-324, 1e8, -1e8, 1e6, 1.0, -1.0)
INTEGERS = (0, 1, 2, 255, 127, 999_999_999, 2**31 - 1, -1, -(2**31), 2**32 - 1)
TEXTS = ("", "world", "nobody", "joint", "a/b", "1", "-", "é\U0001f916", " ", "x" * 300, "r0", "r1", "j0", "j1", "ann")
ALIKE = {"xsens_mvn_ros2_msgs/msg/LinkStateArray": "xsens_mvn_msgs/msg/LinkStateArray"}  # the fields are the same
ENUMERATIONS = ("action", "type", "id_type")  # 0 is what drivers send


@functools.cache
def _maker(type_name: str) -> Callable[[], Any]:
    try:
        return message_type(type_name)
    except ImportError:
        return functools.partial(driver_messages.new, ALIKE.get(type_name, type_name))


def blank(type_name: str) -> Any:
    """An empty message of a ROS type, installed or not."""
    return _maker(type_name)()


def fill(message: Any, moment: float, names: Sequence[str], index: int = 0, place: Place = Team.position) -> Any:
    """The message as a driver has it at a stream time (s): agent `index`, or all where it has sequences, each at
    `place(index, moment)` (m)."""
    for field, kind in fields(message).items():
        value = getattr(message, field)
        if re.search("2D|/Mask", kind):
            continue  # of an image, which is not for the node; to make them takes longer than all else
        if kind == "std_msgs/Header":
            value.stamp.sec, value.stamp.nanosec = (getattr(stamp(moment), part) for part in ("sec", "nanosec"))
            value.frame_id = names[index] if type(message).__name__.endswith("LinkState") else "world"
        elif field in ("position", "translation", "point"):
            value.x, value.y, value.z = place(index, moment)
        elif kind == "geometry_msgs/Quaternion":
            value.z, value.w = 0.6, 0.8
        elif kind == "string":
            setattr(message, field, "world" if field == "frame_id" else names[index])
        elif kind == "sequence<string>":
            setattr(message, field, list(names))
        elif kind == "sequence<double>":
            places = [place(agent, moment) for agent in range(len(names))]
            setattr(message, field, [coordinate for place in places for coordinate in place])
        elif kind in ("sequence<float>", "sequence<boolean>"):
            setattr(message, field, [kind == "sequence<boolean>" or 1.0] * len(names))
        elif kind.startswith("sequence<") and "/" in kind:
            entry = kind.removeprefix("sequence<").removesuffix(">").replace("/", "/msg/")
            entries = [fill(blank(entry), moment, names, agent, place) for agent in range(len(names))]
            setattr(message, field, entries)
        elif kind in ("float", "double"):
            setattr(message, field, 1.0)
        elif re.fullmatch(r"u?int\d+", kind) and field not in ENUMERATIONS:
            setattr(message, field, index + 1)
        elif "/" in kind:
            fill(value, moment, names, index, place)
    return message


def mutate(message: Any, random: np.random.Generator, share: float) -> Any:
    """The message, of which about `share` of all values, one at the least, are now odd ones."""
    places = list(_places(message))
    chosen = random.random(len(places)) < share
    chosen[random.integers(len(places))] = True
    for index in np.flatnonzero(chosen):
        owner, field, kind = places[index]
        value = _odd(getattr(owner, field), random)
        if match := re.fullmatch(r"(u?)int(\d+)", kind):  # within what the wire can hold
            low = 0 if match[1] else -(1 << int(match[2]) - 1)
            value = min(max(value, low), low + (1 << int(match[2])) - 1)
        setattr(owner, field, value)
    return message


def fields(message: Any) -> dict[str, str]:
    """Names and types of a message's fields, the types as ROS writes them for Python; none of what is no message."""
    if hasattr(message, "get_fields_and_field_types"):
        return message.get_fields_and_field_types()
    if not hasattr(message, "__msgtype__"):
        return {}
    return {name: _kind(described) for name, described in driver_messages.STORE.fielddefs[message.__msgtype__][1]}


def _kind(described: Any) -> str:
    kind, of = described
    if kind == Nodetype.BASE:
        return {"float64": "double", "float32": "float", "bool": "boolean"}.get(of[0], of[0])
    if kind == Nodetype.NAME:
        return of.replace("/msg/", "/")
    return f"sequence<{_kind(of[0])}>" if kind == Nodetype.SEQUENCE else f"{_kind(of[0])}[{of[1]}]"


def _places(message: Any) -> Iterator[tuple[Any, str, str]]:
    """All fields, at any depth, that are values or sequences of something: owner, name and type."""
    for field, kind in fields(message).items():
        value = getattr(message, field)
        if fields(value):
            yield from _places(value)
            continue
        yield message, field, kind
        for entry in value if isinstance(value, list) else ():
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
    if not fields(entries[index]):
        entries[index] = _odd(entries[index], random)
    return entries
