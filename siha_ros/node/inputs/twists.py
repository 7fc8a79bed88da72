"""The twist that belongs to a pose: two topics of one agent, of which either may come first or fall silent.

A pose never waits for its twist. Where the twist comes after it, the pose is given once more, with its velocity: of two
samples with one stamp the window keeps the first and takes from the second what that lacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from siha_ros.node.inputs.rotations import rotated
from siha_ros.node.inputs.sample import Sample, points, quaternions, seconds

TWIST_TYPE = "geometry_msgs/msg/TwistStamped"
SLOP = 0.005  # s: stamps of a pose and of its twist differ by less
KEPT = 20  # newest messages of each agent that wait for what belongs to them


class Pairs(Protocol):
    """Pairs the poses and twists of one agent by their stamps."""

    def add_pose(self, pose: Any) -> Any | None:
        """Take a PoseStamped; the TwistStamped that belongs to it, where that has come before."""
        ...

    def add_twist(self, twist: Any) -> Any | None:
        """Take a TwistStamped; the PoseStamped that it belongs to, where that has come before."""
        ...


class NearestPairs:
    """Pairs what is nearest in time; needs no ROS. The node pairs by message_filters where that is installed."""

    def __init__(self) -> None:
        self._poses: deque[Any] = deque(maxlen=KEPT)
        self._twists: deque[Any] = deque(maxlen=KEPT)

    def add_pose(self, pose: Any) -> Any | None:
        """See Pairs."""
        self._poses.append(pose)
        return _nearest(self._twists, pose)

    def add_twist(self, twist: Any) -> Any | None:
        """See Pairs."""
        self._twists.append(twist)
        return _nearest(self._poses, twist)


class NewestPairs:
    """Gives a twist to the next pose, where time is that of arrival: a pose that came again would be newer."""

    def __init__(self) -> None:
        self._twist: Any | None = None

    def add_pose(self, pose: Any) -> Any | None:
        """See Pairs."""
        twist, self._twist = self._twist, None
        return twist

    def add_twist(self, twist: Any) -> Any | None:
        """See Pairs."""
        self._twist = twist
        return None


class TwistMemory:
    """Joins the poses and twists of all agents.

    A twist in the frame of its pose is taken as it is, one in another frame as the body's own: it is turned by the
    pose's orientation.
    """

    def __init__(self, pairs: Callable[[], Pairs] = NearestPairs) -> None:
        self._new_pairs = pairs
        self._pairs: dict[str, Pairs] = {}

    def read(self, twist: Any, agent: str) -> list[Sample]:
        """The agent's pose with this geometry_msgs/TwistStamped; nothing where none has its stamp yet."""
        pose = self._of(agent).add_twist(twist)
        return [] if pose is None else [joined(pose, twist, agent)]

    def join(self, pose: Any, agent: str) -> list[Sample]:
        """The geometry_msgs/PoseStamped with its twist, or alone where that has not come."""
        return [joined(pose, self._of(agent).add_pose(pose), agent)]

    def _of(self, agent: str) -> Pairs:
        if agent not in self._pairs:
            self._pairs[agent] = self._new_pairs()
        return self._pairs[agent]


def joined(pose: Any, twist: Any | None, agent: str) -> Sample:
    """One agent's PoseStamped and its TwistStamped, None for none."""
    orientations = quaternions([pose.pose.orientation])
    velocities = None
    if twist is not None:
        velocities = points([twist.twist.linear])
        if twist.header.frame_id not in ("", pose.header.frame_id):
            velocities = rotated(velocities, orientations)
    return Sample(
        (agent,),
        points([pose.pose.position]),
        velocities=velocities,
        orientations=orientations,
        stamp=seconds(pose.header.stamp),
        frame_id=pose.header.frame_id,
    )


def _nearest(messages: deque[Any], other: Any) -> Any | None:
    """Of the messages, the one nearest in time to another, if it is near enough; of several the newest."""
    stamp = seconds(other.header.stamp)
    near = min(reversed(messages), key=lambda message: abs(seconds(message.header.stamp) - stamp), default=None)
    return near if near is not None and abs(seconds(near.header.stamp) - stamp) < SLOP else None
