"""What an input makes of one message, and what every input is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sample:
    """One or several agents of one group at one time.

    Attributes:
        names: [n] agents, as the stream names them.
        positions: f8[n, 3], NaN where the source says so; in the unit and the axes of the stream.
        tracked: bool[n] the source's own flag, None for types that have none.
        velocities: f8[n, 3] per second, in the unit, the axes and the frame of the positions, NaN where not measured.
        orientations: f8[n, 4] quaternions (x, y, z, w) as they came, None for types that have none.
        confidence: f8[n] in 0..1, None for types that have none.
        complete: the message speaks for all agents, so that one not named in it was not seen.
        stamp: (s); None for that of the message's header, or of the arrival where it has none.
        frame_id: of the positions; None for that of the message's header.
        group: the team or body; empty where the stream does not say.
        trusted: a source that says itself what it does not see, or falls silent: the origin and a pose that repeats
            are taken for what they are.
    """

    names: Sequence[str]
    positions: NDArray[np.float64]
    tracked: NDArray[np.bool_] | None = None
    velocities: NDArray[np.float64] | None = None
    orientations: NDArray[np.float64] | None = None
    confidence: NDArray[np.float64] | None = None
    complete: bool = False
    stamp: float | None = None
    frame_id: str | None = None
    group: str = ""
    trusted: bool = False


class MalformedMessage(ValueError):
    """A message that cannot be read as it is: one line on what it has and what was expected."""


class StreamNames(NamedTuple):
    """Names that are known before the first message.

    Attributes:
        listed: of the parameter input.agents; they name the entries of types that have no names, in their order.
        bundle: agents of a bundle whose agents have names.
        mapped: names of the stream in the parameter name_map.
    """

    listed: tuple[str, ...] = ()
    bundle: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()

    @property
    def known(self) -> frozenset[str]:
        """All of them."""
        return frozenset((*self.listed, *self.bundle, *self.mapped))


class Companion(NamedTuple):
    """A topic that an input reads beside its own.

    Attributes:
        topic: {agent} and {group} stand for those of the topic that it belongs to.
        type_name: ROS name of its type.
        read: what `Input.read` is for the input's own messages.
        latched: a message from before the subscription counts (transient local).
    """

    topic: str
    type_name: str
    read: Callable[[Any, str], list[Sample]]
    latched: bool = False


class Input:
    """One message type of a stream. Subclasses set the attributes and read the messages.

    Attributes:
        type_name: ROS name of the type, as `ros2 topic type` prints it.
        per_agent: true where each agent has a topic of its own.
        topic: where its drivers publish it; relative names are in the node's namespace.
        companions: topics that belong to it.
        names: see StreamNames.
    """

    type_name: str
    per_agent = False
    topic = "poses"
    companions: Sequence[Companion] = ()

    def __init__(self, names: StreamNames | None = None) -> None:
        self.names = names or StreamNames()

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The samples in a message; `agent` is the topic's where `per_agent`. Raises MalformedMessage."""
        raise NotImplementedError


def seconds(stamp: Any) -> float:
    """Seconds of a builtin_interfaces/Time."""
    return float(stamp.sec + 1e-9 * stamp.nanosec)


def point_of(point: Any) -> tuple[float, float, float]:
    """x, y, z of a geometry_msgs/Point or Vector3."""
    return point.x, point.y, point.z


def points(found: Sequence[Any]) -> NDArray[np.float64]:
    """f8[n, 3] of n geometry_msgs/Point or Vector3."""
    return np.array([point_of(point) for point in found], dtype=np.float64).reshape(-1, 3)


def quaternions(found: Sequence[Any]) -> NDArray[np.float64]:
    """f8[n, 4] of n geometry_msgs/Quaternion, as they are: x, y, z, w."""
    return np.array([(q.x, q.y, q.z, q.w) for q in found], dtype=np.float64).reshape(-1, 4)
