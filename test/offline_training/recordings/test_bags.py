"""Bags of both ROS versions: the stamps and positions that were written, what the node takes for not seen is a gap."""

from __future__ import annotations

import numpy as np
import pytest
from make_bags import BEGIN, FORMATS, header, lines, pose_message, skeleton, write_bag

from offline_training.recordings.recording import ReadOptions, RecordingError, read_recordings

VELOCITIES = np.array([[1.0, 0.5], [0.0, -0.25], [0.5, 0.0]])


@pytest.mark.parametrize("form", FORMATS)
def test_a_team_with_a_topic_each(tmp_path, form):
    write_bag(tmp_path / "run", form, lines(2.0, VELOCITIES, rate=10))
    (found,) = read_recordings(tmp_path)
    assert found.names == ["r0", "r1", "r2"] and found.dims == 2 and found.velocities is None
    np.testing.assert_allclose(found.stamps - BEGIN, 0.1 * np.arange(20), atol=1e-6)
    starts = np.stack([np.zeros(3), np.arange(3)], -1)
    np.testing.assert_allclose(
        found.positions, starts[:, None] + VELOCITIES[:, None] * 0.1 * np.arange(20)[:, None], atol=1e-12
    )
    assert found.observed.all()


def test_what_the_node_takes_for_not_seen_is_a_gap(tmp_path):
    def messages(new):
        for frame in range(6):
            time = frame / 10
            yield "/a/pose", "geometry_msgs/msg/PoseStamped", time, pose_message(new, time, frame, 1.0, 2.0 + frame)
            shown = pose_message(new, time, 5.0, np.nan if frame == 2 else 5.0, 1.0)
            if frame == 4:  # a zero pose with a zero quaternion
                shown = pose_message(new, time, 0.0, 0.0)
                shown.pose.orientation.z = shown.pose.orientation.w = 0.0
            yield "/b/pose", "geometry_msgs/msg/PoseStamped", time + 0.5, shown

    (found,) = read_recordings(write_bag(tmp_path / "run", "sqlite3", messages))
    assert found.dims == 3
    np.testing.assert_array_equal(found.observed[1], [1, 1, 0, 1, 0, 1])
    assert found.observed[0].all()
    np.testing.assert_allclose(found.stamps - BEGIN, 0.1 * np.arange(6), atol=1e-6)  # of the headers, not of recording


def test_samples_without_a_time_are_left_out_unless_arrival_tells_it(tmp_path, capsys):
    def messages(new, zero):
        for frame in range(6):
            stamp = -BEGIN if zero(frame) else frame / 10
            yield "/a/pose", "geometry_msgs/msg/PoseStamped", frame / 10, pose_message(new, stamp, frame, 1.0)

    some = write_bag(tmp_path / "some", "mcap", lambda new: messages(new, lambda frame: frame in (0, 3)))
    (found,) = read_recordings(some)
    np.testing.assert_allclose(found.stamps - BEGIN, [0.1, 0.2, 0.4, 0.5], atol=1e-6)
    np.testing.assert_array_equal(found.positions[0, :, 0], [1, 2, 4, 5])
    assert "some: /{agent}/pose: 2 of 6 samples left out, with stamps of 0 or less" in capsys.readouterr().err
    every = write_bag(tmp_path / "every", "mcap", lambda new: messages(new, lambda frame: True))
    with pytest.raises(RecordingError, match="all 6 samples have stamps of 0 or less .siha train --stamp-source"):
        read_recordings(every)
    (found,) = read_recordings(every, ReadOptions(arrival=True))
    np.testing.assert_allclose(found.stamps - BEGIN, 0.1 * np.arange(6), atol=1e-6)
    assert capsys.readouterr().err == ""


def test_arrival_is_an_option_of_transforms_too(tmp_path):
    def messages(new):
        for frame in range(3):
            moved = new("geometry_msgs/msg/TransformStamped", header=header(new, 5.0 + frame), child_frame_id="a")
            moved.transform.translation.x = 1.0 + frame
            yield "/tf", "tf2_msgs/msg/TFMessage", frame / 10, new("tf2_msgs/msg/TFMessage", transforms=[moved])

    path = write_bag(tmp_path / "run", "mcap", messages)
    for arrival, stamps in ((False, [5.0, 6.0, 7.0]), (True, [0.0, 0.1, 0.2])):
        (found,) = read_recordings(path, ReadOptions(arrival=arrival))
        np.testing.assert_allclose(found.stamps - BEGIN, stamps, atol=1e-6)
        np.testing.assert_array_equal(found.positions[0, :, 0], [1, 2, 3])


def test_odometry_measures_velocities_and_has_a_topic_of_its_own(tmp_path):
    def messages(new):
        for frame in range(3):
            message = new("nav_msgs/msg/Odometry", header=header(new, frame / 10))
            message.pose.pose.position.x = 1.0 + frame
            half = np.sqrt(0.5)
            message.pose.pose.orientation.z = message.pose.pose.orientation.w = half  # looks along +y
            message.twist.twist.linear.x = 2.0
            yield "/fleet/a/odom", "nav_msgs/msg/Odometry", frame / 10, message

    path = write_bag(tmp_path / "run", "mcap", messages)
    (found,) = read_recordings(path, ReadOptions(topic="/fleet/{agent}/odom"))
    assert found.names == ["a"]
    np.testing.assert_allclose(found.velocities[0], [[0, 2]] * 3, atol=1e-12)
    with pytest.raises(RecordingError, match="no agents on /{agent}/pose or /skeleton or /tf of a type that can be"):
        read_recordings(path)


def test_a_skeleton_with_lost_joints(tmp_path):
    positions = np.arange(3 * 5 * 3, dtype=float).reshape(3, 5, 3)
    positions[1, 2:4] = np.nan
    (found,) = read_recordings(write_bag(tmp_path / "run", "mcap", skeleton(["hip", "knee", "foot"], positions)))
    assert found.names == ["foot", "hip", "knee"]
    np.testing.assert_allclose(found.positions, positions[[2, 0, 1]])
    np.testing.assert_array_equal(found.observed[2], [1, 1, 0, 0, 1])


@pytest.mark.data
def test_real_bags_of_transforms(shared_data):
    one, other = read_recordings(shared_data / "bags" / "evo")  # the same run as rosbag2 and as a ROS 1 bag
    assert one.names == other.names == ["base_footprint"] and one.positions.shape == (1, 517, 2)
    np.testing.assert_allclose(one.stamps, other.stamps, atol=1e-6)
    np.testing.assert_array_equal(one.positions, other.positions)
    (turtles,) = read_recordings(shared_data / "bags" / "turtlesim")
    assert turtles.names == ["turtle1", "turtle2"] and turtles.observed.sum(1).min() > 1300
    assert np.nanmin(turtles.positions) > 0 and np.nanmax(turtles.positions) < 11.1  # the simulator's arena
