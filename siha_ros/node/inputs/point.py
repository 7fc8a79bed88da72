"""Points with one topic per agent: single markers of natnet_ros2, where a lost one is zero or its last point again."""

from __future__ import annotations

from typing import Any

from siha_ros.node.inputs.sample import Input, Sample, points


class PointInput(Input):
    """geometry_msgs/PointStamped."""

    type_name = "geometry_msgs/msg/PointStamped"
    per_agent = True
    topic = "{agent}/point"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The agent's position."""
        return [Sample((agent,), points([message.point]))]
