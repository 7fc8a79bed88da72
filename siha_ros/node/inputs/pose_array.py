"""All agents in one geometry_msgs/PoseArray, known by their index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from siha_ros.node.inputs.pose import orientation_of, position_of
from siha_ros.node.inputs.sample import Sample


class PoseArrayInput:
    """The agents' names come from a list, in the order of the entries; without one they are agent_0, agent_1, ..."""

    type_name = "geometry_msgs/msg/PoseArray"
    per_agent = False

    def __init__(self, agents: Sequence[str] = ()) -> None:
        self.agents = list(agents)

    def read(self, message: Any, agent: str) -> Sample:
        """The poses of all entries. Raises ValueError where there are more entries than names."""
        poses = message.poses
        if self.agents and len(poses) > len(self.agents):
            raise ValueError(f"a PoseArray has {len(poses)} poses: expected at most {len(self.agents)}, one per agent")
        names = self.agents[: len(poses)] or [f"agent_{index}" for index in range(len(poses))]
        positions = np.array([position_of(pose) for pose in poses]).reshape(-1, 3)
        orientations = np.array([orientation_of(pose) for pose in poses]).reshape(-1, 4)
        return Sample(names, positions, orientations=orientations, complete=True)
