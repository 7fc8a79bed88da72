"""Units, axes and frames of samples, by hand."""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from siha_ros.node.frames import TransformBuffer, metric, moved
from siha_ros.node.inputs import Sample
from siha_ros.node.inputs.rotations import rotated

HALF = math.sqrt(0.5)
SAMPLE = Sample(
    ["a"],
    np.array([[1000.0, 2000.0, 3000.0]]),
    velocities=np.array([[0.0, 500.0, 1.0]]),
    orientations=np.array([[0.0, HALF, 0.0, HALF]]),
)


def test_millimetres_with_y_up_become_metres_with_z_up():
    sample = metric(SAMPLE, 0.001, "y")
    assert sample.positions.tolist() == [[1.0, -3.0, 2.0]]  # what was up, y, is z, and the axes stay right-handed
    assert sample.velocities[0] == pytest.approx([0.0, -0.001, 0.5])
    # It was turned about the vertical, and is so still: x goes to y, as it went to -z.
    assert rotated(np.array([1.0, 0.0, 0.0]), sample.orientations[0]) == pytest.approx([0.0, 1.0, 0.0])
    assert metric(SAMPLE, 1.0, "z") is SAMPLE


def test_a_point_alone_has_no_velocity_and_no_orientation_in_another_frame_either():
    bare = Sample(["a"], np.array([[1.0, 2.0, 3.0]]))
    turned = moved(metric(bare, 2.0, "y"), (np.array([0.0, 0.0, HALF, HALF]), np.array([10.0, 0.0, 0.0])))
    assert turned.positions[0] == pytest.approx([16.0, 2.0, 4.0])
    assert turned.velocities is None and turned.orientations is None


def test_moved_turns_and_shifts_positions_and_turns_the_rest():
    sample = moved(SAMPLE, (np.array([0.0, 0.0, HALF, HALF]), np.array([1.0, 0.0, 0.0])))
    assert sample.positions[0] == pytest.approx([-1999.0, 1000.0, 3000.0])
    assert sample.velocities[0] == pytest.approx([-500.0, 0.0, 1.0])
    z = np.array([0.0, 0.0, 1.0])  # the sample's turn about y takes z to x, that of the frame x to y
    assert rotated(z, sample.orientations[0]) == pytest.approx([0.0, 1.0, 0.0])


class Buffer:
    """What TransformBuffer asks of tf2_ros.Buffer: camera in map is known from 10 s on, at its newest at 12 s."""

    def lookup_transform(self, target, source, time):
        nanoseconds = time.nanoseconds
        if (target, source) != ("map", "camera") or (nanoseconds and not 10e9 <= nanoseconds <= 12e9):
            raise TransformException("cannot be\nreached")
        x = (nanoseconds or 12e9) * 1e-9
        place = SimpleNamespace(x=x, y=0.0, z=0.0)
        seconds, rest = divmod(nanoseconds or 12 * 10**9, 10**9)
        return SimpleNamespace(
            header=SimpleNamespace(stamp=SimpleNamespace(sec=seconds, nanosec=rest)),
            transform=SimpleNamespace(translation=place, rotation=SimpleNamespace(x=0.0, y=0.0, z=0.0, w=1.0)),
        )


class TransformException(Exception):
    pass


def test_tf2_gives_the_transform_of_the_stamp_or_the_newest(monkeypatch):
    pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
    tf2_ros = ModuleType("tf2_ros")
    closed = []
    tf2_ros.Buffer, tf2_ros.TransformException = Buffer, TransformException
    tf2_ros.TransformListener = lambda buffer, node: SimpleNamespace(unregister=lambda: closed.append(node))
    monkeypatch.setitem(sys.modules, "tf2_ros", tf2_ros)
    lookup = TransformBuffer("node")
    assert lookup("map", "camera", 11.0)[1].tolist() == [11.0, 0.0, 0.0]
    quaternion, translation = lookup("map", "camera", 12.4)  # an image that is newer than what TF knows
    assert translation.tolist() == [12.0, 0.0, 0.0] and quaternion.tolist() == [0.0, 0.0, 0.0, 1.0]
    with pytest.raises(LookupError, match="cannot be reached"):
        lookup("map", "moon", 11.0)
    for stamp in (9.0, 13.0):  # the newest one is of another time
        with pytest.raises(LookupError, match="cannot be reached"):
            lookup("map", "camera", stamp)
    lookup.close()
    assert closed == ["node"]
