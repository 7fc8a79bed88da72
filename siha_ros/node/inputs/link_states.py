"""Segments of an Xsens suit. Their order changes from message to message; one without data has the identity
quaternion, which a measured one never is."""

from __future__ import annotations

from typing import Any

from siha_ros.node.inputs.sample import Input, Sample, points, quaternions

IDENTITY = (0.0, 0.0, 0.0, 1.0)


class LinkStatesInput(Input):
    """xsens_mvn_msgs/LinkStateArray. A segment's frame is "<model>_<segment>": where the part after an underscore is a
    known name it is the agent's, else the whole is."""

    type_name = "xsens_mvn_msgs/msg/LinkStateArray"
    topic = "link_states"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """All segments of the message."""
        states = message.states
        orientations = quaternions([state.pose.orientation for state in states])
        return [
            Sample(
                [self._name(state.header.frame_id) for state in states],
                points([state.pose.position for state in states]),
                tracked=(orientations != IDENTITY).any(axis=1),
                velocities=points([state.twist.linear for state in states]),
                orientations=orientations,
                complete=True,
            )
        ]

    def _name(self, frame: str) -> str:
        known, end = self.names.known, frame
        while end not in known:
            _, underscore, end = end.partition("_")
            if not underscore:
                return frame
        return end


class LinkStatesRos2Input(LinkStatesInput):
    """xsens_mvn_ros2_msgs/LinkStateArray: the same fields, as other releases of the driver call it."""

    type_name = "xsens_mvn_ros2_msgs/msg/LinkStateArray"
