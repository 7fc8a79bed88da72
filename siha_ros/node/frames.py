"""Units, axes and frames of samples: metres, z up, in one frame, whatever the source has.

Other frames are reached by TF, where tf2_ros is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from siha_ros.node.inputs import Sample
from siha_ros.node.inputs.rotations import Floats, product, rotated
from siha_ros.node.inputs.sample import seconds

Transform = tuple[Floats, Floats]
"""Quaternion f8[4] (x, y, z, w) and translation f8[3] (m) that take what is in a source frame to a target frame."""

Lookup = Callable[[str, str, float], Transform]
"""lookup(target, source, stamp in s); raises LookupError, in one line, where the frames are not connected, without a
word where that is not known yet."""

NEWEST = 0.5  # s: the newest transform stands for one that is not known at a stamp no farther off


def metric(sample: Sample, scale: float, up_axis: str) -> Sample:
    """The sample in metres with z up: `scale` metres are one unit of the source, "y" or "z" is up there.

    With y up, x stays and y becomes z, for bodies as for the world: what stood upright does so still.
    """
    if scale == 1.0 and up_axis == "z":
        return sample
    positions, velocities, orientations = scale * sample.positions, sample.velocities, sample.orientations
    velocities = None if velocities is None else scale * velocities
    if up_axis == "y":
        positions = _z_up(positions)
        velocities = None if velocities is None else _z_up(velocities)
        orientations = None if orientations is None else np.hstack([_z_up(orientations[:, :3]), orientations[:, 3:]])
    return replace(sample, positions=positions, velocities=velocities, orientations=orientations)


def _z_up(vectors: Floats) -> Floats:
    return vectors[:, [0, 2, 1]] * [1.0, -1.0, 1.0]


def moved(sample: Sample, transform: Transform) -> Sample:
    """The sample in the target frame of a transform."""
    quaternion, translation = transform
    velocities, orientations = sample.velocities, sample.orientations
    return replace(
        sample,
        positions=rotated(sample.positions, quaternion) + translation,
        velocities=None if velocities is None else rotated(velocities, quaternion),
        orientations=None if orientations is None else product(quaternion, orientations),
    )


class TransformBuffer:
    """What tf2_ros knows of the frames, as a Lookup; made by a node, whose executor fills it.

    The transform is that of the sample's stamp; where that is not known, as it is for a while after a camera's image,
    the newest one, if it is of about that time.
    """

    def __init__(self, node: Any) -> None:
        """Raises ImportError where tf2_ros is not installed."""
        import tf2_ros
        from rclpy.time import Time

        self._time, self._error = Time, tf2_ros.TransformException
        self._buffer = tf2_ros.Buffer()
        self._listener = tf2_ros.TransformListener(self._buffer, node)

    def __call__(self, target: str, source: str, stamp: float) -> Transform:
        """See Lookup."""
        when = self._time(nanoseconds=round(stamp * 1e9))
        try:
            found = self._buffer.lookup_transform(target, source, when)
        except self._error as error:
            try:
                found = self._buffer.lookup_transform(target, source, self._time())
            except self._error:
                raise LookupError(" ".join(str(error).split())) from None
            if abs(seconds(found.header.stamp) - stamp) > NEWEST:
                raise LookupError(" ".join(str(error).split())) from None
        q, p = found.transform.rotation, found.transform.translation
        return np.array([q.x, q.y, q.z, q.w]), np.array([p.x, p.y, p.z])

    def clear(self) -> None:
        """Time starts anew: what is known of frames that move is of another time."""
        self._buffer.clear()

    def close(self) -> None:
        """Destroy the subscriptions."""
        self._listener.unregister()
