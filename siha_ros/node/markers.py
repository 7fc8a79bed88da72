"""What RViz draws: agents coloured by status, the spread of hidden ones, edges by strength, forecast ribbons.

A marker that is no longer drawn is deleted. All orientations are unit quaternions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from geometry_msgs.msg import Point, Quaternion, Vector3
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from siha_ros.window.types import Status

if TYPE_CHECKING:
    from siha_ros.node.outputs import Scene

COLOURS = {
    Status.UNKNOWN: (0.45, 0.45, 0.45),
    Status.VISIBLE: (0.13, 0.47, 0.71),
    Status.BRIDGED: (0.45, 0.70, 0.90),
    Status.HIDDEN: (0.90, 0.33, 0.05),
    Status.WARMING_UP: (0.60, 0.60, 0.80),
    Status.STALE: (0.45, 0.45, 0.45),
}
EDGE_COLOUR = (0.20, 0.20, 0.20)
CHI_95 = {2: 2.4477, 3: 2.7955}  # radius of the 95 % region of a unit normal, by dimensions
FLAT = 0.01  # m: thickness of an ellipsoid that has no extent in a direction


class MarkerScene:
    """Turns scenes into MarkerArray messages and remembers what is drawn.

    Attributes:
        size: diameter of an agent (m).
        edge_threshold: edges of less probability are not drawn.
    """

    def __init__(self, size: float, edge_threshold: float) -> None:
        self.size, self.edge_threshold = size, edge_threshold
        self._ids: dict[str, int] = {}
        self._drawn: set[tuple[str, int]] = set()

    def message(self, scene: Scene) -> MarkerArray:
        """The markers of a scene, and the deletion of those that the scene before had and this one has not."""
        markers = [*self._agents(scene), *self._edges(scene), *self._forecasts(scene)]
        drawn = {(marker.ns, marker.id) for marker in markers}
        gone = [
            Marker(header=scene.header, ns=ns, id=number, action=Marker.DELETE) for ns, number in self._drawn - drawn
        ]
        self._drawn = drawn
        return MarkerArray(markers=gone + markers)

    def clear(self) -> MarkerArray:
        """The deletion of everything drawn."""
        self._drawn.clear()
        return MarkerArray(markers=[Marker(action=Marker.DELETEALL)])

    def _marker(self, scene: Scene, ns: str, number: int, kind: int, scale: tuple[float, float, float]) -> Marker:
        x, y, z = scale
        return Marker(header=scene.header, ns=ns, id=number, type=kind, action=Marker.ADD, scale=Vector3(x=x, y=y, z=z))

    def _id(self, name: str) -> int:
        return self._ids.setdefault(name, len(self._ids))

    def _agents(self, scene: Scene) -> list[Marker]:
        estimate, dims = scene.estimate, scene.estimate.positions.shape[-1]
        positions = scene.positions(estimate.positions[:, -1:])[:, 0].tolist()
        markers = []
        for index, name in enumerate(estimate.names):
            status = Status(int(scene.window.status[index]))
            marker = self._marker(scene, "agents", self._id(name), Marker.SPHERE, (self.size,) * 3)
            marker.pose.position = _point(positions[index])
            marker.color = _colour(COLOURS[status], 1.0)
            markers.append(marker)
            if scene.reconstructed[index]:
                axes, orientation = ellipsoid(scene.covariances(estimate.covariance[index, -1]))
                x, y, z = (max(FLAT, 2.0 * CHI_95[dims] * axis) for axis in axes)
                spread = self._marker(scene, "spread", self._id(name), Marker.SPHERE, (x, y, z))
                spread.pose.position = _point(positions[index])
                spread.pose.orientation = orientation
                spread.color = _colour(COLOURS[status], 0.25)
                markers.append(spread)
        return markers

    def _edges(self, scene: Scene) -> list[Marker]:
        """One line per pair whose stronger direction reaches the threshold; stronger is more opaque."""
        strength = scene.estimate.adjacency[..., 1:].sum(axis=-1)
        strength = np.minimum(np.triu(np.maximum(strength, strength.T), k=1), 1.0)
        pairs = np.argwhere((strength >= self.edge_threshold) & (strength > 0.0)).tolist()
        if not pairs:
            return []
        points = [_point(p) for p in scene.positions(scene.estimate.positions[:, -1:])[:, 0].tolist()]
        marker = self._marker(scene, "edges", 0, Marker.LINE_LIST, (0.15 * self.size, 0.0, 0.0))
        marker.color = _colour(EDGE_COLOUR, 1.0)
        for sender, receiver in pairs:
            marker.points += [points[sender], points[receiver]]
            marker.colors += [_colour(EDGE_COLOUR, float(strength[sender, receiver]))] * 2
        return [marker]

    def _forecasts(self, scene: Scene) -> list[Marker]:
        """One ribbon per agent, from where it is now, fading with time."""
        estimate = scene.estimate
        planar = np.concatenate((estimate.positions[:, -1:], estimate.forecast.positions), axis=1)
        paths = scene.positions(planar).tolist()
        fading = np.linspace(0.8, 0.1, planar.shape[1]).tolist()
        markers = []
        for index, name in enumerate(estimate.names):
            colour = COLOURS[Status.HIDDEN if scene.reconstructed[index] else Status.VISIBLE]
            marker = self._marker(scene, "forecast", self._id(name), Marker.LINE_STRIP, (0.2 * self.size, 0.0, 0.0))
            marker.color = _colour(colour, 1.0)
            marker.points = [_point(point) for point in paths[index]]
            marker.colors = [_colour(colour, alpha) for alpha in fading]
            markers.append(marker)
        return markers


def ellipsoid(covariance: NDArray[np.float64]) -> tuple[NDArray[np.float64], Quaternion]:
    """Standard deviations f8[3] (m) along the principal axes of a covariance f8[3, 3], and the rotation to them."""
    variances, axes = np.linalg.eigh(covariance)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    return np.sqrt(np.maximum(variances, 0.0)), quaternion(axes)


def quaternion(rotation: NDArray[np.float64]) -> Quaternion:
    """The unit quaternion of a rotation matrix f8[3, 3] (Shepperd's method: divides by the largest component only)."""
    m = rotation
    # 4 q q^T of q = (x, y, z, w) in terms of the matrix; the row with the largest diagonal is the quaternion, scaled.
    outer = np.array(
        (
            (1 + m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[2, 1] - m[1, 2]),
            (m[0, 1] + m[1, 0], 1 - m[0, 0] + m[1, 1] - m[2, 2], m[1, 2] + m[2, 1], m[0, 2] - m[2, 0]),
            (m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], 1 - m[0, 0] - m[1, 1] + m[2, 2], m[1, 0] - m[0, 1]),
            (m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], 1 + m[0, 0] + m[1, 1] + m[2, 2]),
        )
    )
    row = outer[int(np.argmax(np.diag(outer)))]
    x, y, z, w = (row / np.linalg.norm(row)).tolist()
    return Quaternion(x=x, y=y, z=z, w=w)


def _point(position: list[float]) -> Point:
    x, y, z = position
    return Point(x=x, y=y, z=z)


def _colour(rgb: tuple[float, float, float], alpha: float) -> ColorRGBA:
    r, g, b = rgb
    return ColorRGBA(r=r, g=g, b=b, a=alpha)
