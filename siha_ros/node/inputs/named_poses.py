"""Named poses of motion_capture_tracking and crazyswarm2: a body that is not seen is not in the message. Bodies of one
marker have a NaN quaternion with a valid position."""

from __future__ import annotations

from typing import Any

from siha_ros.node.inputs.sample import Input, Sample, points, quaternions


class NamedPosesInput(Input):
    """motion_capture_tracking_interfaces/NamedPoseArray."""

    type_name = "motion_capture_tracking_interfaces/msg/NamedPoseArray"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """All bodies that the message names."""
        poses = [named.pose for named in message.poses]
        return [
            Sample(
                [named.name for named in message.poses],
                points([pose.position for pose in poses]),
                orientations=quaternions([pose.orientation for pose in poses]),
                complete=True,
            )
        ]
