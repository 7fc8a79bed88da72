"""The joints of a body: this package's own SkeletonFrame, which says which joints are tracked."""

from __future__ import annotations

from typing import Any

import numpy as np

from siha_ros.window.sliding_window import Observation


class SkeletonFrameInput:
    """siha_ros/SkeletonFrame."""

    type_name = "siha_ros/msg/SkeletonFrame"
    per_agent = False

    def read(self, message: Any, stamp: float, group: str, agent: str) -> list[Observation]:
        """One observation per joint. Raises ValueError where the arrays do not fit each other."""
        joints, tracked, confidence = message.joints, message.tracked, message.confidence
        count = len(joints)
        if len(message.positions) != 3 * count or len(tracked) != count or len(confidence) not in (0, count):
            raise ValueError(
                f"SkeletonFrame with {count} joints, {len(message.positions)} positions, {len(tracked)} tracked and {len(confidence)}"
                f" confidence: expected {3 * count}, {count} and 0 or {count}"
            )
        positions = np.array(message.positions, dtype=np.float64).reshape(count, 3)
        confidence = confidence or [1.0] * count
        return [
            Observation(stamp, group, joint, position, None, None, float(sure), bool(seen))
            for joint, position, seen, sure in zip(joints, positions, tracked, confidence, strict=True)
        ]
