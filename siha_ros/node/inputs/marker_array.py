"""Skeletons drawn as markers for RViz: a joint that is not seen has no marker, or one at NaN."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from siha_ros.node.inputs.sample import Input, Sample, points, quaternions, seconds

ADD = 0  # visualization_msgs/Marker: action (and that of a change) ...
SOLIDS = (0, 1, 2, 3, 10)  # ... and types that stand at one place: arrow, cube, sphere, cylinder, mesh


class MarkerArrayInput(Input):
    """visualization_msgs/MarkerArray: each solid marker is an agent, "ns/id" by name; its namespace alone, or its id
    alone, where that is a name that is known. Lines and texts are no agents."""

    type_name = "visualization_msgs/msg/MarkerArray"
    topic = "markers"

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The markers that are drawn, one sample per stamp and frame."""
        found = defaultdict(list)
        for marker in message.markers:
            if marker.action == ADD and marker.type in SOLIDS:
                found[seconds(marker.header.stamp), marker.header.frame_id].append(marker)
        return [
            Sample(
                [self._name(marker) for marker in markers],
                points([marker.pose.position for marker in markers]),
                orientations=quaternions([marker.pose.orientation for marker in markers]),
                complete=len(found) == 1,
                stamp=stamp,
                frame_id=frame_id,
            )
            for (stamp, frame_id), markers in found.items()
        ]

    def _name(self, marker: Any) -> str:
        both = f"{marker.ns}/{marker.id}" if marker.ns else str(marker.id)
        known = self.names.known
        return next((name for name in (both, marker.ns, str(marker.id)) if name in known), both)
