"""Poses with one topic per agent: PoseStamped, PoseWithCovarianceStamped and Odometry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.sliding_window import Observation


def position_of(pose: Any) -> NDArray[np.float64]:
    """f8[3] position (m) of a geometry_msgs/Pose."""
    p = pose.position
    return np.array((p.x, p.y, p.z))


def orientation_of(pose: Any) -> NDArray[np.float64] | None:
    """f8[4] quaternion x, y, z, w of a geometry_msgs/Pose as it is, None where it is not finite."""
    q = pose.orientation
    orientation = np.array((q.x, q.y, q.z, q.w))
    return orientation if np.isfinite(orientation).all() else None


def rotated(vector: NDArray[np.float64], orientation: NDArray[np.float64]) -> NDArray[np.float64]:
    """f8[3]: `vector` turned by a quaternion x, y, z, w of any length but zero."""
    axis, w = orientation[:3], orientation[3]
    return vector + 2.0 * np.cross(axis, np.cross(axis, vector) + w * vector) / (orientation @ orientation)


class PoseInput:
    """geometry_msgs/PoseStamped."""

    type_name = "geometry_msgs/msg/PoseStamped"
    per_agent = True

    def read(self, message: Any, stamp: float, group: str, agent: str) -> list[Observation]:
        """The one observation of a message."""
        pose = message.pose
        return [Observation(stamp, group, agent, position_of(pose), None, orientation_of(pose))]


class PoseWithCovarianceInput:
    """geometry_msgs/PoseWithCovarianceStamped; the covariance is not used."""

    type_name = "geometry_msgs/msg/PoseWithCovarianceStamped"
    per_agent = True

    def read(self, message: Any, stamp: float, group: str, agent: str) -> list[Observation]:
        """The one observation of a message."""
        pose = message.pose.pose
        return [Observation(stamp, group, agent, position_of(pose), None, orientation_of(pose))]


class OdometryInput:
    """nav_msgs/Odometry: the twist is in the child frame, and is turned into the frame of the pose."""

    type_name = "nav_msgs/msg/Odometry"
    per_agent = True

    def read(self, message: Any, stamp: float, group: str, agent: str) -> list[Observation]:
        """The one observation of a message; its velocity is None where the orientation or the twist is not valid."""
        pose, linear = message.pose.pose, message.twist.twist.linear
        orientation = orientation_of(pose)
        velocity = None
        if orientation is not None and orientation.any():
            velocity = rotated(np.array((linear.x, linear.y, linear.z)), orientation)
            velocity = velocity if np.isfinite(velocity).all() else None
        return [Observation(stamp, group, agent, position_of(pose), velocity, orientation)]
