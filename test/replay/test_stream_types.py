"""Bags of drivers' messages through the node's code: types that no ROS here knows, companions, groups."""

from __future__ import annotations

import numpy as np
import pytest
from driver_messages import STORE, header, new, pose, transform, twist
from plain_estimator import PlainEstimator
from rosbags.rosbag2 import StoragePlugin, Writer

from siha_ros.node.parameters import Parameters
from siha_ros.replay.bag import Bag, MessageFactory, own_types
from siha_ros.replay.stream import Stream, Withheld, only, run
from siha_ros.window.types import Status

BEGIN = 1_700_000_000.0
TIMES = np.arange(150) / 50


def write(path, messages):
    """A bag of (topic, time after BEGIN in s, message)."""
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connections = {}
        for topic, time, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=STORE)
            writer.write(connections[topic], round((BEGIN + time) * 1e9), STORE.serialize_cdr(message, kind))
    return path


def replayed(path, names=(), withheld=None, begin=None, **parameters):
    """The scenes of a run, and what it said."""
    config = {"identified": True, "agent_names": list(names), "dims": 3} if names else {"dims": 3}
    estimator, scenes = PlainEstimator(**config), []

    class Kept:
        publish = staticmethod(scenes.append)

        @staticmethod
        def clear_markers():
            pass

    with Bag(path) as bag:
        stream = Stream(bag, estimator.bundle.config, Parameters(**({"rate": 10.0} | parameters)))
        new_message = MessageFactory(own_types()).new
        summary = run(stream, estimator, only(Kept()), new_message, withheld=withheld, begin=begin)
    return scenes, summary


def test_named_poses_of_a_bag_are_found_by_their_type_and_withheld_by_name(tmp_path):
    kind = "motion_capture_tracking_interfaces/msg/NamedPose"

    def messages():
        for time in TIMES:
            poses = [new(kind, name=f"cf{k}", pose=pose((float(k), time, 1.0))) for k in range(3)]
            array = "motion_capture_tracking_interfaces/msg/NamedPoseArray"
            yield "/poses", time, new(array, header=header(BEGIN + time), poses=poses)

    path = write(tmp_path / "bag", messages())
    scenes, summary = replayed(
        path, input_topic="/poses", withheld=Withheld(frozenset({"cf1"}), BEGIN + 1.5, BEGIN + 9)
    )
    assert summary.messages == 150 and scenes[-1].window.names == ["cf0", "cf1", "cf2"]
    assert scenes[-1].window.status.tolist() == [Status.VISIBLE, Status.HIDDEN, Status.VISIBLE]
    times = scenes[-1].window.times - BEGIN
    assert scenes[-1].window.positions[2, :, 1] == pytest.approx(times, abs=1e-4)


def test_pose_and_twist_of_a_bag_are_paired(tmp_path):
    def messages():
        for time in TIMES:
            stamp = header(BEGIN + time)
            yield "/r1/twist", time, new("geometry_msgs/msg/TwistStamped", header=stamp, twist=twist(7.0, 0.0, 0.0))
            yield (
                "/r1/pose",
                time + 1e-4,
                new("geometry_msgs/msg/PoseStamped", header=stamp, pose=pose((1.0, time, 0.0))),
            )

    path = write(tmp_path / "bag", messages())
    scenes, summary = replayed(path, input_twists="{agent}/twist")
    assert summary.messages == 300 and np.allclose(scenes[-1].window.velocities[0], [7.0, 0.0, 0.0])
    alone, summary = replayed(path)
    assert summary.messages == 150 and np.isnan(alone[-1].window.velocities).all()


def test_frames_of_a_bag_are_a_body_also_from_its_middle_on(tmp_path):
    def tf(*transforms):
        return new("tf2_msgs/msg/TFMessage", transforms=transforms)

    def messages():
        yield "/tf_static", 0.0, tf(transform("hand_x1", "arm_x1", (0.0, 0.0, 0.3), stamp=BEGIN))
        for time in TIMES:
            yield "/humans/bodies/tracked", time, new("hri_msgs/msg/IdsList", header=header(BEGIN + time), ids=["x1"])
            body = transform("body_x1", "camera", (time, 2.0, 3.0), stamp=BEGIN + time)
            arm = transform("arm_x1", "body_x1", (0.0, 0.5, 0.0), stamp=BEGIN + time)
            ghost = transform("body_x2", "camera", (9.0, 9.0, 9.0), stamp=BEGIN + time)
            yield "/tf", time + 1e-4, tf(body, arm if time < 2.0 else ghost, ghost)

    path = write(tmp_path / "bag", messages())
    names = ["body", "arm", "hand"]
    for begin in (None, BEGIN + 0.5):
        scenes, _ = replayed(path, names, begin=begin, input_type="tf2_msgs/msg/TFMessage")
        seen = next(scene for scene in scenes if scene.window.times[-1] >= BEGIN + 1.8)
        time = seen.window.times[-1] - BEGIN
        expected = [[time, 2.0, 3.0], [time, 2.5, 3.0], [time, 2.5, 3.3]]
        assert seen.window.positions[:, -1] == pytest.approx(np.array(expected), abs=1e-4)
        assert seen.group == "x1" and seen.frame_id == "camera"
        last = scenes[-1].window
        assert last.status.tolist() == [Status.VISIBLE, Status.HIDDEN, Status.HIDDEN]  # the arm, and what it carries
        assert last.reason[1].startswith("silent for")


def two_teams(path):
    """Teams red and blue of one robot each, r1, that move along y at x of 0 and 1 m; blue is silent from 1.5 s on."""

    def messages():
        for time in TIMES:
            for number, team in enumerate(("red", "blue")):
                if team == "red" or time < 1.5:
                    place = pose((float(number), time, 0.0))
                    stamped = new("geometry_msgs/msg/PoseStamped", header=header(BEGIN + time), pose=place)
                    yield f"/{team}/r1/pose", time, stamped

    return write(path, messages())


def test_every_group_has_a_window_of_its_own(tmp_path):
    path = two_teams(tmp_path / "bag")
    scenes, summary = replayed(path, input_topic="/{group}/{agent}/pose", groups_forget_after=1.0)
    by_group = {group: [scene for scene in scenes if scene.group == group] for group in ("blue", "red")}
    assert summary.messages == 225 and summary.estimates == 24 + 10
    for group, count, x in (("red", 24, 0.0), ("blue", 10, 1.0)):
        assert len(by_group[group]) == count and by_group[group][-1].window.names == ["r1"]
        assert np.allclose(by_group[group][-1].window.positions[0, :, 0], x)
    assert any(line.startswith("group blue is forgotten") for line in summary.lines)


def test_one_group_alone(tmp_path):
    path = two_teams(tmp_path / "bag")
    scenes, summary = replayed(path, input_topic="/{group}/{agent}/pose", group="blue")
    assert summary.messages == 75 and {scene.group for scene in scenes} == {"blue"}
    with Bag(path) as bag:
        parameters = Parameters(input_topic="/{group}/{agent}/pose")
        stream = Stream(bag, PlainEstimator(dims=3).bundle.config, parameters)
        assert stream.first_group() == "red" and [place.topic for place in stream.places] == [
            "/blue/r1/pose",
            "/red/r1/pose",
        ]
