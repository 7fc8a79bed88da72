"""Poses with one topic per agent: PoseStamped, PoseWithCovarianceStamped and Odometry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.node.inputs.sample import Sample
from siha_ros.window.visibility import FARTHEST, valid_orientations


def position_of(pose: Any) -> tuple[float, float, float]:
    """Position (m) of a geometry_msgs/Pose."""
    p = pose.position
    return p.x, p.y, p.z


def orientation_of(pose: Any) -> tuple[float, float, float, float]:
    """Quaternion x, y, z, w of a geometry_msgs/Pose, as it is."""
    q = pose.orientation
    return q.x, q.y, q.z, q.w


def rotated(vector: NDArray[np.float64], orientation: NDArray[np.float64]) -> NDArray[np.float64]:
    """f8[3]: `vector` turned by a quaternion x, y, z, w of any length; NaN where either is no such thing."""
    if not (valid_orientations(orientation[None])[0] and (np.abs(vector) < FARTHEST).all()):
        return np.full(3, np.nan)
    axis, w, square = orientation[:3], orientation[3], orientation @ orientation
    return vector + 2.0 * np.cross(axis, np.cross(axis, vector) + w * vector) / square


class PoseInput:
    """geometry_msgs/PoseStamped."""

    type_name = "geometry_msgs/msg/PoseStamped"
    per_agent = True

    def read(self, message: Any, agent: str) -> Sample:
        """The agent's pose."""
        pose = message.pose
        return Sample((agent,), np.array([position_of(pose)]), orientations=np.array([orientation_of(pose)]))


class PoseWithCovarianceInput:
    """geometry_msgs/PoseWithCovarianceStamped; the covariance is not used."""

    type_name = "geometry_msgs/msg/PoseWithCovarianceStamped"
    per_agent = True

    def read(self, message: Any, agent: str) -> Sample:
        """The agent's pose."""
        pose = message.pose.pose
        return Sample((agent,), np.array([position_of(pose)]), orientations=np.array([orientation_of(pose)]))


class OdometryInput:
    """nav_msgs/Odometry: the twist is in the child frame, and is turned into the frame of the pose."""

    type_name = "nav_msgs/msg/Odometry"
    per_agent = True

    def read(self, message: Any, agent: str) -> Sample:
        """The agent's pose and velocity; no velocity where the orientation is not valid."""
        pose, linear = message.pose.pose, message.twist.twist.linear
        orientation = np.array(orientation_of(pose))
        velocity = rotated(np.array((linear.x, linear.y, linear.z)), orientation)
        return Sample(
            (agent,), np.array([position_of(pose)]), velocities=velocity[None], orientations=orientation[None]
        )
