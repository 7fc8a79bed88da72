"""Poses with one topic per agent: PoseStamped, PoseWithCovarianceStamped and Odometry.

PoseStamped is what robots, vrpn_mocap, natnet_ros2 and Vicon receivers publish. The last sends zeros, quaternion
included, for a lost body, and natnet_ros2 repeats the last pose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from siha_ros.node.inputs.rotations import rotated
from siha_ros.node.inputs.sample import Companion, Input, Sample, StreamNames, points, quaternions
from siha_ros.node.inputs.twists import TWIST_TYPE, NearestPairs, Pairs, TwistMemory


class PoseInput(Input):
    """geometry_msgs/PoseStamped; with `twists`, the topic of a geometry_msgs/TwistStamped of the same agent, its
    velocity too."""

    type_name = "geometry_msgs/msg/PoseStamped"
    per_agent = True
    topic = "{agent}/pose"

    def __init__(
        self, names: StreamNames | None = None, twists: str = "", pairs: Callable[[], Pairs] = NearestPairs
    ) -> None:
        super().__init__(names)
        self._twists = TwistMemory(pairs)
        self.companions = [Companion(twists, TWIST_TYPE, self._twists.read)] if twists else []

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The agent's pose."""
        return self._twists.join(message, agent) if self.companions else [pose_sample(message.pose, agent)]


class PoseWithCovarianceInput(Input):
    """geometry_msgs/PoseWithCovarianceStamped, what localisation says; the covariance is not used."""

    type_name = "geometry_msgs/msg/PoseWithCovarianceStamped"
    per_agent = True
    topic = "{agent}/pose"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The agent's pose."""
        return [pose_sample(message.pose.pose, agent, trusted=True)]


class OdometryInput(Input):
    """nav_msgs/Odometry, which begins at the origin: the twist is in the child frame, and is turned into the frame of
    the pose."""

    type_name = "nav_msgs/msg/Odometry"
    per_agent = True
    topic = "{agent}/odom"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The agent's pose and velocity; no velocity where the orientation is not valid."""
        pose, twist = message.pose.pose, message.twist.twist
        velocities = rotated(points([twist.linear]), quaternions([pose.orientation]))
        return [pose_sample(pose, agent, velocities=velocities, trusted=True)]


def pose_sample(pose: Any, agent: str, **more: Any) -> Sample:
    """One agent at a geometry_msgs/Pose; `more` are other fields of the Sample."""
    orientations = quaternions([pose.orientation])
    return Sample((agent,), points([pose.position]), orientations=orientations, **more)
