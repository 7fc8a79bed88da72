"""Bags are read and written with the values that went in, in every format, and ROS itself reads what was written."""

from __future__ import annotations

import numpy as np
import pytest
from make_bags import BEGIN, FORMATS, lines, skeleton, write_bag

from siha_ros.replay.bag import Bag, BagError, BagWriter, MessageFactory, own_types

VELOCITIES = np.array([[1.0, 0.0], [0.0, -2.0]])


@pytest.fixture(scope="module", params=FORMATS)
def team(request, tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp(request.param) / "team", request.param, lines(1.0, VELOCITIES))


def test_a_bag_tells_its_topics_types_and_times(team):
    with Bag(team) as bag:
        assert bag.types == {f"/r{agent}/pose": ["geometry_msgs/msg/PoseStamped"] for agent in range(2)}
        assert bag.begin == pytest.approx(BEGIN, abs=1e-6) and bag.duration == pytest.approx(0.98, abs=1e-6)
        assert bag.ros1 == (team.suffix == ".bag")


def test_messages_come_in_order_with_their_values(team):
    with Bag(team) as bag:
        entries = list(bag.messages())
        assert [entry.time_ns for entry in entries] == sorted(entry.time_ns for entry in entries)
        assert len(entries) == 100
        message = bag.read(entries[75])  # frame 37: 0.74 s; agent 1
        assert entries[75].topic == "/r1/pose"
        assert (message.header.stamp.sec, message.header.stamp.nanosec) == (BEGIN, 740_000_000)
        assert message.header.frame_id == "map"
        assert (message.pose.position.x, message.pose.position.y) == (0.0, pytest.approx(1 - 2 * 0.74))


def test_a_part_of_a_bag(team):
    with Bag(team) as bag:
        part = list(bag.messages({"/r0/pose"}, BEGIN + 0.2, BEGIN + 0.4))
    assert [entry.time - BEGIN for entry in part] == pytest.approx([0.2 + 0.02 * k for k in range(10)], abs=1e-6)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_copy_holds_the_same_messages_in_the_encoding_of_ros_2(team, storage, tmp_path):
    with Bag(team) as bag, BagWriter(tmp_path / "copy", storage, bag) as writer:
        for entry in bag.messages():
            writer.copy(entry)
    with Bag(team) as bag, Bag(tmp_path / "copy") as copy:
        assert not copy.ros1 and copy.types == bag.types
        for before, after in zip(bag.messages(), copy.messages(), strict=True):
            assert (before.topic, before.time_ns) == (after.topic, after.time_ns)
            old, new = bag.read(before), copy.read(after)
            assert (old.header.stamp, old.header.frame_id) == (new.header.stamp, new.header.frame_id)
            assert str(old.pose) == str(new.pose)
            if not bag.ros1:
                assert before.raw == after.raw


def test_ros_reads_the_messages_of_this_package_as_they_were_written(tmp_path):
    pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
    from rclpy.serialization import deserialize_message
    from siha_ros.msg import AgentState, SkeletonFrame

    positions = np.array([[[1.0, 2.0, 3.0]], [[np.nan] * 3]])
    path = write_bag(tmp_path / "body", "mcap", skeleton(["a", "b"], positions))
    with Bag(path) as bag:
        (entry,) = bag.messages()
    frame = deserialize_message(entry.raw, SkeletonFrame)
    assert (frame.group, frame.joints, list(frame.tracked)) == ("body", ["a", "b"], [True, False])
    assert list(frame.positions[:3]) == [1.0, 2.0, 3.0] and not len(frame.confidence)
    store = own_types()
    state = MessageFactory(store).new("siha_ros/msg/AgentState", name="a", status=3, position_95=0.5)
    state.position_covariance = np.arange(9.0)
    state.pose.orientation.w = 1.0
    read = deserialize_message(bytes(store.serialize_cdr(state, "siha_ros/msg/AgentState")), AgentState)
    assert read == AgentState(name="a", status=3, position_95=0.5, position_covariance=np.arange(9.0))


def test_a_new_message_is_zero_empty_and_false_but_for_what_is_given():
    new = MessageFactory(own_types()).new
    graph = new("siha_ros/msg/InteractionGraph", agents=("a",), probability=[0.5, 1])
    assert graph.agents == ["a"] and graph.edge_types == [] and graph.group == ""
    assert graph.probability.dtype == np.float32 and graph.probability.tolist() == [0.5, 1.0]
    assert graph.reconstructed.dtype == bool and len(graph.reconstructed) == 0
    one, other = new("geometry_msgs/msg/PoseArray"), new("geometry_msgs/msg/PoseArray")
    one.poses.append(new("geometry_msgs/msg/Pose"))
    assert other.poses == [] and one.header.stamp.sec == 0
    assert new("geometry_msgs/msg/PoseWithCovariance").covariance.tolist() == [0.0] * 36
    with pytest.raises(TypeError, match="speed"):
        new("siha_ros/msg/AgentState", speed=1.0)


def test_what_is_no_bag_is_one_line(tmp_path):
    with pytest.raises(BagError, match="no such file or folder"):
        Bag(tmp_path / "absent.mcap")
    for name in ("broken.mcap", "broken.bag", "broken.db3"):
        file = tmp_path / name
        file.write_bytes(b"not a bag at all" * 100)
        with pytest.raises(BagError, match="cannot be read") as caught:
            Bag(file)
        assert "\n" not in str(caught.value)
    (tmp_path / "folder").mkdir()
    with pytest.raises(BagError, match="cannot be read"):
        Bag(tmp_path / "folder")


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_bag_is_one_line_or_gives_what_it_has(tmp_path, form):
    path = write_bag(tmp_path / "whole", form, lines(0.5, VELOCITIES))
    copied = 0
    file = path if path.is_file() else next(child for child in path.iterdir() if child.suffix != ".yaml")
    whole, random, refused = file.read_bytes(), np.random.default_rng(0), 0
    for trial in range(40):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 1 + trial % 3):
            damaged[place] = random.integers(0, 256)
        file.write_bytes(damaged[: random.integers(1, len(whole))] if trial % 4 == 0 else damaged)
        try:
            with Bag(path) as bag:
                for entry in bag.messages():
                    bag.read(entry)
                    copied += len(bag.ros2(entry)[1]) > 0
        except BagError as error:
            refused += 1
            assert "\n" not in str(error) and str(path) in str(error)
    assert refused > 5 and copied > 200


def test_an_empty_bag_and_one_that_exists_already_are_refused(tmp_path):
    empty = write_bag(tmp_path / "empty", "mcap", lambda new: iter(()))
    with pytest.raises(BagError, match="holds no messages"):
        Bag(empty)
    full = write_bag(tmp_path / "full", "mcap", lines(0.1, VELOCITIES))
    with Bag(full) as bag, pytest.raises(BagError, match="exists already"):
        BagWriter(full, "mcap", bag)


def test_a_bag_that_fails_half_way_has_no_metadata(tmp_path):
    source = write_bag(tmp_path / "full", "mcap", lines(0.1, VELOCITIES))
    with pytest.raises(ZeroDivisionError), Bag(source) as bag, BagWriter(tmp_path / "half", "mcap", bag) as writer:
        for entry in bag.messages():
            writer.copy(entry)
        raise ZeroDivisionError
    assert not (tmp_path / "half" / "metadata.yaml").exists()


def test_a_recorded_bag_of_either_ros_is_read(shared_data):
    counts = {}
    for name in ("bags/evo/tf_example", "bags/evo/tf_example.bag", "bags/turtlesim/example.bag"):
        with Bag(shared_data / name) as bag:
            counts[name] = dict.fromkeys(bag.types, 0)
            for entry in bag.messages():
                counts[name][entry.topic] += 1
                bag.read(entry)
    assert counts["bags/evo/tf_example"] == counts["bags/evo/tf_example.bag"] == {"/tf": 517, "/tf_static": 1}
    assert counts["bags/turtlesim/example.bag"]["/turtle1/pose"] == 1344
