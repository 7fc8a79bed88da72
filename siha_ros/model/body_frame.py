"""The frame of a body: one turn about the vertical and one translation per window, from the joints of no limb.

The frame fits a template (the mean pose of a walking body that faces +x, and how each joint strays from it) to the
agents seen in the whole window at its newest time. As the spine alone is nearly a vertical line, the way it travelled
during the window counts as one more vector of the template. Only the core (the joints of no limb) is used while at
least three of them are seen, so losing a limb does not move the frame at all; otherwise whatever is seen. Numpy only;
leading axes are batch axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
POSITION_FLOOR = 0.01  # m, noise that every joint has besides the pose: it must not be blown up
CORE_MINIMUM = 3  # core joints that must be seen to do without the limbs


@dataclass(frozen=True)
class BodyFrame:
    """Body axes: heading ``[...]`` (rad, about the vertical, counter-clockwise from above) and origin ``[..., 3]``
    (m).
    """

    heading: FloatArray
    origin: FloatArray

    @property
    def rotation(self) -> FloatArray:
        """``[..., 3, 3]``, turns vectors of the body frame into the world's."""
        cos, sin = np.cos(self.heading), np.sin(self.heading)
        zero, one = np.zeros_like(cos), np.ones_like(cos)
        rows = [cos, -sin, zero, sin, cos, zero, zero, zero, one]
        return np.stack(rows, -1).reshape(*np.shape(self.heading), 3, 3)

    def to_body(self, positions: FloatArray) -> FloatArray:
        """World positions ``[..., A, T, 3]`` in the body frame."""
        return self.turn_to_body(positions - self.origin[..., None, None, :])

    def to_world(self, positions: FloatArray) -> FloatArray:
        """Positions ``[..., A, T, 3]`` of the body frame in the world."""
        return self.turn_to_world(positions) + self.origin[..., None, None, :]

    def turn_to_body(self, vectors: FloatArray) -> FloatArray:
        """Velocities or other vectors ``[..., A, T, 3]`` of the world in body axes."""
        return vectors @ self.rotation[..., None, :, :]

    def turn_to_world(self, vectors: FloatArray) -> FloatArray:
        """Vectors ``[..., A, T, 3]`` of the body frame in world axes."""
        return vectors @ self.rotation.swapaxes(-1, -2)[..., None, :, :]


@dataclass(frozen=True)
class BodyTemplate:
    """What a body looks like in its own frame at the newest time of a window.

    pose: f8 [A, 3], mean positions (m), facing +x. travel: mean way (m) of the core during a window, along +x.
    covariance: c16 [A + 1, A + 1] of the horizontal positions x + i y about the pose, relative to the mean of the
    core, and of the travel (last). core: indices of the joints that belong to no limb.
    """

    pose: FloatArray
    travel: float
    covariance: NDArray[np.complex128]
    core: NDArray[np.int64]

    @staticmethod
    def of(positions: FloatArray, headings: FloatArray, core: NDArray[np.int64]) -> BodyTemplate:
        """The template of complete windows ``[N, A, T, 3]`` (m) whose true headings ``[N]`` (rad) are known."""
        newest = positions[:, :, -1] - positions[:, core, -1].mean(1, keepdims=True)
        way = (positions[:, core, -1] - positions[:, core, 0]).mean(1)
        turn = np.exp(-1j * headings)[:, None]
        plane = np.concatenate([_plane(newest), _plane(way)[:, None]], 1) * turn
        mean = plane.mean(0)
        spread = plane - mean
        pose = np.stack([mean[:-1].real, mean[:-1].imag, newest[..., 2].mean(0)], -1)
        return BodyTemplate(pose, float(mean[-1].real), spread.T @ spread.conj() / len(plane), np.asarray(core))

    def fit(self, positions: FloatArray, seen: NDArray[np.bool_]) -> BodyFrame:
        """The frame of windows ``positions [..., A, T, 3]`` (m); ``seen [A]`` tells which agents are there in the
        whole window.

        Raises ValueError when fewer than two agents are seen.
        """
        used = self.core[seen[self.core]]
        if len(used) < CORE_MINIMUM:
            used = np.flatnonzero(seen)
        if len(used) < 2:
            raise ValueError("a body frame needs two agents that are seen in the whole window")
        newest, oldest = positions[..., used, -1, :], positions[..., used, 0, :]
        centre = newest.mean(-2)
        vectors = np.concatenate(
            [_plane(newest - centre[..., None, :]), _plane(centre - oldest.mean(-2))[..., None]], -1
        )
        heading = np.angle(vectors @ self._weights(used).conj())
        frame = BodyFrame(heading, np.zeros((*heading.shape, 3)))
        origin = centre - (frame.rotation @ self.pose[used].mean(0)[:, None])[..., 0]
        return BodyFrame(heading, origin)

    def _weights(self, used: NDArray[np.int64]) -> NDArray[np.complex128]:
        """Generalised least squares: the template's vectors, weighted by how little each strays from it ``[used +
        1]``.
        """
        count = len(used)
        centring = np.eye(count + 1)
        centring[:count, :count] -= 1.0 / count
        index = np.append(used, len(self.pose))
        template = centring @ np.append(_plane(self.pose[used]), self.travel)
        covariance = centring @ self.covariance[np.ix_(index, index)] @ centring.T
        return np.linalg.solve(covariance + POSITION_FLOOR**2 * np.eye(count + 1), template)


def _plane(positions: FloatArray) -> NDArray[np.complex128]:
    """Horizontal positions as complex numbers: a turn about the vertical is a factor."""
    return positions[..., 0] + 1j * positions[..., 1]
