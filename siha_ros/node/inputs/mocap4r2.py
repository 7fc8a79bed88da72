"""Rigid bodies and markers of mocap4r2 drivers.

A lost body or marker is its last pose again (OptiTrack), exactly zero (Vicon), NaN or not in the message (Qualisys).
"""

from __future__ import annotations

from typing import Any

from siha_ros.node.inputs.sample import Input, Sample, points, quaternions

USE_INDEX = 1  # mocap4r2_msgs/Marker: the index is the marker's identity, its name means nothing


class RigidBodiesInput(Input):
    """mocap4r2_msgs/RigidBodies: each body is an agent, its markers are not used."""

    type_name = "mocap4r2_msgs/msg/RigidBodies"
    topic = "rigid_bodies"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """All bodies of the message."""
        bodies = message.rigidbodies
        return [
            Sample(
                [body.rigid_body_name for body in bodies],
                points([body.pose.position for body in bodies]),
                orientations=quaternions([body.pose.orientation for body in bodies]),
                complete=True,
            )
        ]


class MocapMarkersInput(Input):
    """mocap4r2_msgs/Markers: each marker is an agent, by its name or, where it has none, by its index."""

    type_name = "mocap4r2_msgs/msg/Markers"
    topic = "markers"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """All markers of the message."""
        markers = message.markers
        names = [str(m.marker_index) if m.id_type == USE_INDEX or not m.marker_name else m.marker_name for m in markers]
        return [Sample(names, points([marker.translation for marker in markers]), complete=True)]
