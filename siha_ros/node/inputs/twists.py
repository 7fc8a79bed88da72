"""The twist that belongs to a pose: two topics of one agent, of which either may come first or fall silent.

A pose never waits for its twist. Where the twist comes after it, the pose is given once more, with its velocity: of two
samples with one stamp the window keeps the first and takes from the second what that lacks.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from siha_ros.node.inputs.rotations import rotated
from siha_ros.node.inputs.sample import Sample, points, quaternions, seconds

TWIST_TYPE = "geometry_msgs/msg/TwistStamped"
SLOP = 0.005  # s: stamps of a pose and of its twist differ by no more
KEPT = 20  # newest messages of each agent that wait for what belongs to them


class TwistMemory:
    """Joins the poses and twists of all agents by their stamps.

    A twist in the frame of its pose is taken as it is, one in another frame as the body's own: it is turned by the
    pose's orientation.
    """

    def __init__(self) -> None:
        self._poses: dict[str, deque[Any]] = {}
        self._twists: dict[str, deque[Any]] = {}

    def read(self, twist: Any, agent: str) -> list[Sample]:
        """The agent's pose with this geometry_msgs/TwistStamped; nothing where none has its stamp yet."""
        self._twists.setdefault(agent, deque(maxlen=KEPT)).append(twist)
        pose = _nearest(self._poses.get(agent, ()), twist)
        return [] if pose is None else [joined(pose, twist, agent)]

    def join(self, pose: Any, agent: str) -> list[Sample]:
        """The geometry_msgs/PoseStamped with its twist, or alone where that has not come."""
        self._poses.setdefault(agent, deque(maxlen=KEPT)).append(pose)
        return [joined(pose, _nearest(self._twists.get(agent, ()), pose), agent)]


def joined(pose: Any, twist: Any | None, agent: str) -> Sample:
    """One agent's PoseStamped and its TwistStamped, None for none."""
    orientations = quaternions([pose.pose.orientation])
    velocities = None
    if twist is not None:
        velocities = points([twist.twist.linear])
        if twist.header.frame_id not in ("", pose.header.frame_id):
            velocities = rotated(velocities, orientations)
    position = points([pose.pose.position])
    stamp = seconds(pose.header.stamp)
    return Sample(
        (agent,),
        position,
        velocities=velocities,
        orientations=orientations,
        stamp=stamp,
        frame_id=pose.header.frame_id,
    )


def _nearest(messages: Any, other: Any) -> Any | None:
    """Of the messages, the one nearest in time to another, if it is near enough."""
    stamp = seconds(other.header.stamp)
    near = min(messages, key=lambda message: abs(seconds(message.header.stamp) - stamp), default=None)
    return near if near is not None and abs(seconds(near.header.stamp) - stamp) <= SLOP else None
