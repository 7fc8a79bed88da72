"""What RViz draws: agents coloured by status, the 95 % radius of hidden ones, edges by strength, forecast ribbons.

A marker that is no longer drawn is deleted. All orientations are unit quaternions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from siha_ros.node.messages import NewMessage, Scene, ros_message
from siha_ros.window.types import Status

MARKER_TYPE = "visualization_msgs/msg/Marker"
MARKERS_TYPE = "visualization_msgs/msg/MarkerArray"
SPHERE, LINE_STRIP, LINE_LIST = 2, 4, 5  # visualization_msgs/Marker: type ...
ADD, DELETE, DELETEALL = 0, 2, 3  # ... and action
COLOURS = {
    Status.UNKNOWN: (0.45, 0.45, 0.45),
    Status.VISIBLE: (0.13, 0.47, 0.71),
    Status.BRIDGED: (0.45, 0.70, 0.90),
    Status.HIDDEN: (0.90, 0.33, 0.05),
    Status.WARMING_UP: (0.60, 0.60, 0.80),
    Status.STALE: (0.45, 0.45, 0.45),
}
EDGE_COLOUR = (0.20, 0.20, 0.20)
IDS_OF_A_GROUP = 100_000  # markers of a group have ids of their own
FLAT = 0.01  # m: thickness of a planar agent's spread


class MarkerScene:
    """Turns scenes into MarkerArray messages and remembers what is drawn.

    Attributes:
        size: diameter of an agent (m).
        edge_threshold: edges are drawn whose probability is over this.
        new: makes the messages.
        first: the number from which the markers' ids count; several groups draw in the same namespaces.
    """

    def __init__(self, size: float, edge_threshold: float, new: NewMessage = ros_message, first: int = 0) -> None:
        self.size, self.edge_threshold, self._new, self._first = size, edge_threshold, new, first
        self._ids: dict[str, int] = {}
        self._drawn: set[tuple[str, int]] = set()

    def message(self, scene: Scene) -> Any:
        """The markers of a scene, and the deletion of those that the scene before had and this one has not."""
        there = set(scene.estimate.names)
        self._ids = {name: number for name, number in self._ids.items() if name in there}
        markers = [*self._agents(scene), *self._edges(scene), *self._forecasts(scene)]
        drawn = {(marker.ns, marker.id) for marker in markers}
        gone = [
            self._new(MARKER_TYPE, header=scene.header, ns=ns, id=number, action=DELETE)
            for ns, number in sorted(self._drawn - drawn)
        ]
        self._drawn = drawn
        return self._new(MARKERS_TYPE, markers=gone + markers)

    def clear(self) -> Any:
        """The deletion of everything drawn."""
        self._drawn.clear()
        return self._new(MARKERS_TYPE, markers=[self._new(MARKER_TYPE, action=DELETEALL)])

    def erase(self) -> Any:
        """The deletion of everything that this has drawn, and of nothing else."""
        gone = [self._new(MARKER_TYPE, ns=ns, id=number, action=DELETE) for ns, number in sorted(self._drawn)]
        self._drawn.clear()
        return self._new(MARKERS_TYPE, markers=gone)

    def _marker(self, scene: Scene, ns: str, number: int, kind: int, scale: tuple[float, float, float]) -> Any:
        number += self._first
        marker = self._new(MARKER_TYPE, header=scene.header, ns=ns, id=number, type=kind, action=ADD)
        marker.scale.x, marker.scale.y, marker.scale.z = scale
        marker.pose.orientation.w = 1.0
        return marker

    def _id(self, name: str) -> int:
        """The agent's number, which it keeps while it is there; then it is another's."""
        if name not in self._ids:
            taken = set(self._ids.values())
            self._ids[name] = next(number for number in range(len(taken) + 1) if number not in taken)
        return self._ids[name]

    def _agents(self, scene: Scene) -> list[Any]:
        estimate, dims = scene.estimate, scene.estimate.positions.shape[-1]
        positions = scene.positions(estimate.positions[:, -1:])[:, 0].tolist()
        markers = []
        for index, name in enumerate(estimate.names):
            status = Status(int(scene.window.status[index]))
            marker = self._marker(scene, "agents", self._id(name), SPHERE, (self.size,) * 3)
            marker.pose.position = self._point(positions[index])
            marker.color = self._colour(COLOURS[status], 1.0)
            markers.append(marker)
            if scene.reconstructed[index]:
                width = max(FLAT, 2.0 * float(estimate.position_95[index, -1]))
                scale = (width, width, FLAT if dims == 2 else width)
                spread = self._marker(scene, "spread", self._id(name), SPHERE, scale)
                spread.pose.position = self._point(positions[index])
                spread.color = self._colour(COLOURS[status], 0.25)
                markers.append(spread)
        return markers

    def _edges(self, scene: Scene) -> list[Any]:
        """One line per pair whose stronger direction is over the threshold; stronger is more opaque. Types that are all
        equally likely say nothing, which is no edge."""
        adjacency = scene.estimate.adjacency
        known = adjacency.max(axis=-1) > adjacency.min(axis=-1)
        strength = np.where(known, adjacency[..., 1:].sum(axis=-1), 0.0)
        strength = np.minimum(np.triu(np.maximum(strength, strength.T), k=1), 1.0)
        pairs = np.argwhere(strength > self.edge_threshold).tolist()
        if not pairs:
            return []
        points = [self._point(p) for p in scene.positions(scene.estimate.positions[:, -1:])[:, 0].tolist()]
        marker = self._marker(scene, "edges", 0, LINE_LIST, (0.15 * self.size, 0.0, 0.0))
        marker.color = self._colour(EDGE_COLOUR, 1.0)
        for sender, receiver in pairs:
            marker.points += [points[sender], points[receiver]]
            marker.colors += [self._colour(EDGE_COLOUR, float(strength[sender, receiver]))] * 2
        return [marker]

    def _forecasts(self, scene: Scene) -> list[Any]:
        """One ribbon per agent, from where it is now, fading with time."""
        estimate = scene.estimate
        planar = np.concatenate((estimate.positions[:, -1:], estimate.forecast.positions), axis=1)
        paths = scene.positions(planar).tolist()
        fading = np.linspace(0.8, 0.1, planar.shape[1]).tolist()
        markers = []
        for index, name in enumerate(estimate.names):
            colour = COLOURS[Status.HIDDEN if scene.reconstructed[index] else Status.VISIBLE]
            marker = self._marker(scene, "forecast", self._id(name), LINE_STRIP, (0.2 * self.size, 0.0, 0.0))
            marker.color = self._colour(colour, 1.0)
            marker.points = [self._point(point) for point in paths[index]]
            marker.colors = [self._colour(colour, alpha) for alpha in fading]
            markers.append(marker)
        return markers

    def _point(self, position: list[float]) -> Any:
        x, y, z = position
        return self._new("geometry_msgs/msg/Point", x=x, y=y, z=z)

    def _colour(self, rgb: tuple[float, float, float], alpha: float) -> Any:
        r, g, b = rgb
        return self._new("std_msgs/msg/ColorRGBA", r=r, g=g, b=b, a=alpha)
