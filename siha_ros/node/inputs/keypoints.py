"""Keypoints of people in 3-D, from a detector in camera images (yolo_ros): one that is not seen has a low score or is
missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from siha_ros.node.inputs.sample import Input, Sample, points

COCO = (
    "nose",
    "left_eye",
    "right_eye",
    "left_ear",
    "right_ear",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
    "left_hip",
    "right_hip",
    "left_knee",
    "right_knee",
    "left_ankle",
    "right_ankle",
)
"""The keypoints of COCO, by their ids 1 to 17."""


class KeypointsInput(Input):
    """yolo_msgs/KeyPoint3DArray: the keypoints of one person. It has no stamp: that of the arrival stands for it.

    A keypoint's name is the one listed in input.agents for its id (from 1 on), else that of COCO, else the id.
    """

    type_name = "yolo_msgs/msg/KeyPoint3DArray"
    topic = "keypoints"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """All keypoints of the message."""
        return [self._sample(message)]

    def _sample(self, keypoints: Any, **more: Any) -> Sample:
        found = keypoints.data
        return Sample(
            [self._name(int(keypoint.id)) for keypoint in found],
            points([keypoint.point for keypoint in found]),
            confidence=np.array([keypoint.score for keypoint in found], dtype=np.float64),
            complete=True,
            frame_id=keypoints.frame_id,
            **more,
        )

    def _name(self, number: int) -> str:
        names = self.names.listed or COCO
        return names[number - 1] if 1 <= number <= len(names) else str(number)


class DetectionsInput(KeypointsInput):
    """yolo_msgs/DetectionArray, what yolo_ros publishes: each detection with keypoints is a body of its own, the
    tracker's id its group."""

    type_name = "yolo_msgs/msg/DetectionArray"
    topic = "/yolo/detections_3d"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """All persons of the message."""
        people = [detection for detection in message.detections if detection.keypoints3d.data]
        return [self._sample(person.keypoints3d, group=str(person.id)) for person in people]
