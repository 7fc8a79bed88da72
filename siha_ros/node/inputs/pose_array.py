"""All agents in one geometry_msgs/PoseArray, known by their index."""

from __future__ import annotations

from typing import Any

from siha_ros.node.inputs.sample import Input, MalformedMessage, Sample, points, quaternions


class PoseArrayInput(Input):
    """The agents' names are those listed or the bundle's, in the order of the entries; without any they are agent_0,
    agent_1, ..."""

    type_name = "geometry_msgs/msg/PoseArray"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The poses of all entries. Raises MalformedMessage where there are more entries than names."""
        poses, agents = message.poses, self.names.listed or self.names.bundle
        if agents and len(poses) > len(agents):
            raise MalformedMessage(f"a PoseArray has {len(poses)} poses: expected at most {len(agents)}, one per agent")
        names = list(agents[: len(poses)]) or [f"agent_{index}" for index in range(len(poses))]
        orientations = quaternions([pose.orientation for pose in poses])
        positions = points([pose.position for pose in poses])
        return [Sample(names, positions, orientations=orientations, complete=True)]
