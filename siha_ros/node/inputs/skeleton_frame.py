"""The joints of a body: this package's own SkeletonFrame, which says which joints are tracked."""

from __future__ import annotations

from typing import Any

import numpy as np

from siha_ros.node.inputs.sample import Input, MalformedMessage, Sample


class SkeletonFrameInput(Input):
    """siha_ros/SkeletonFrame."""

    type_name = "siha_ros/msg/SkeletonFrame"
    topic = "skeleton"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """All joints. Raises MalformedMessage where the arrays do not fit each other."""
        joints, tracked, confidence = message.joints, message.tracked, message.confidence
        count = len(joints)
        if len(message.positions) != 3 * count or len(tracked) != count or len(confidence) not in (0, count):
            raise MalformedMessage(
                f"a SkeletonFrame has {count} joints, {len(message.positions)} positions, {len(tracked)} tracked and"
                f" {len(confidence)} confidence: expected {3 * count}, {count} and 0 or {count}"
            )
        return [
            Sample(
                joints,
                np.array(message.positions, dtype=np.float64).reshape(count, 3),
                np.array(tracked, dtype=bool),
                confidence=np.array(confidence, dtype=np.float64) if len(confidence) else None,
                complete=True,
                group=message.group,
                trusted=True,
            )
        ]
