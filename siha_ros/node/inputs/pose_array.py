"""All agents in one geometry_msgs/PoseArray, known by their index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from siha_ros.node.inputs.pose import orientation_of, position_of
from siha_ros.window.sliding_window import Observation


class PoseArrayInput:
    """The agents' names come from a list, in the order of the entries; without one they are agent_0, agent_1 and so on."""

    type_name = "geometry_msgs/msg/PoseArray"
    per_agent = False

    def __init__(self, agents: Sequence[str] = ()) -> None:
        self.agents = list(agents)

    def read(self, message: Any, stamp: float, group: str, agent: str) -> list[Observation]:
        """One observation per entry. Raises ValueError where there are more entries than names."""
        poses = message.poses
        if self.agents and len(poses) > len(self.agents):
            raise ValueError(f"PoseArray with {len(poses)} poses: expected at most {len(self.agents)}, one per name of input.agents")
        names = self.agents or [f"agent_{index}" for index in range(len(poses))]
        return [
            Observation(stamp, group, name, position_of(pose), None, orientation_of(pose))
            for name, pose in zip(names, poses, strict=False)
        ]
