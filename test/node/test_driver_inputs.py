"""Inputs on messages as their drivers send them, also of a lost agent; types that are not installed stand in."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from driver_messages import header, new, point, pose, transform, twist

from siha_ros.node.discovery import parameters_input
from siha_ros.node.inputs import make_input, message_type
from siha_ros.node.inputs.rotations import product, rotated
from siha_ros.node.parameters import Parameters
from siha_ros.window.visibility import Cause, unseen_causes

HALF = math.sqrt(0.5)
QUARTER = (0.0, 0.0, HALF, HALF)  # a quarter turn to the left
NAN = math.nan


def read(source, message, agent=""):
    """The one sample of a message."""
    (sample,) = source.read(message, agent)
    return sample


def causes(sample) -> list[Cause]:
    """How each agent of a sample would be judged."""
    tracked = np.ones(len(sample.names), bool) if sample.tracked is None else sample.tracked
    found = unseen_causes(
        sample.positions,
        tracked,
        sample.orientations,
        sample.confidence,
        trusted=sample.trusted,
        min_confidence=0.3,
    )
    return [Cause(int(cause)) for cause in found]


def test_missing_packages_are_named_with_how_to_get_them(monkeypatch):
    for package in ("mocap4r2_msgs", "yolo_msgs"):
        monkeypatch.setitem(sys.modules, f"{package}.msg", None)  # also where it is installed
    with pytest.raises(
        ImportError, match=r"package mocap4r2_msgs, .* sudo apt install ros-\$ROS_DISTRO-mocap4r2-msgs$"
    ):
        message_type("mocap4r2_msgs/msg/Markers")
    with pytest.raises(ImportError, match="need the ROS package yolo_msgs.*build it from github.com/mgonzs13/yolo_ros"):
        message_type("yolo_msgs/msg/DetectionArray")


# motion_capture_tracking, crazyswarm2


def named_poses(**bodies):
    kind = "motion_capture_tracking_interfaces/msg/NamedPose"
    poses = [new(kind, name=name, pose=found) for name, found in bodies.items()]
    return new("motion_capture_tracking_interfaces/msg/NamedPoseArray", header=header(), poses=poses)


def test_named_poses():
    source = make_input("motion_capture_tracking_interfaces/msg/NamedPoseArray")
    sample = read(source, named_poses(cf2=pose((1.0, 2.0, 3.0), QUARTER), cf1=pose((4.0, 5.0, 6.0), (NAN,) * 4)))
    assert sample.names == ["cf2", "cf1"] and sample.complete  # who is not named was not seen
    assert sample.positions.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert sample.orientations[0].tolist() == list(QUARTER)
    assert causes(sample) == [Cause.SEEN, Cause.SEEN]  # a body of one marker has no orientation
    assert read(source, named_poses()).positions.shape == (0, 3)


# mocap4r2


def rigid_bodies(**bodies):
    kind = "mocap4r2_msgs/msg/RigidBody"
    found = [new(kind, rigid_body_name=name, pose=place) for name, place in bodies.items()]
    return new("mocap4r2_msgs/msg/RigidBodies", header=header(), rigidbodies=found)


def test_rigid_bodies_of_three_makers():
    sample = read(
        make_input("mocap4r2_msgs/msg/RigidBodies"),
        rigid_bodies(
            seen=pose((1.0, 2.0, 3.0), QUARTER),
            vicon=pose((0.0, 0.0, 0.0), (0.0,) * 4),
            vicon_too=pose((0.0, 0.0, 0.0)),
            qualisys=pose((NAN,) * 3),
        ),
    )
    assert sample.names == ["seen", "vicon", "vicon_too", "qualisys"] and sample.complete
    assert sample.positions[0].tolist() == [1.0, 2.0, 3.0]
    assert causes(sample) == [Cause.SEEN, Cause.ZERO, Cause.ZERO, Cause.NOT_FINITE]


def test_mocap_markers_are_named_by_name_or_index():
    kind = "mocap4r2_msgs/msg/Marker"
    markers = [
        new(kind, id_type=0, marker_index=7, marker_name="LELB", translation=point(1.0, 2.0, 3.0)),
        new(kind, id_type=1, marker_index=8, marker_name="means nothing", translation=point(4.0, 5.0, 6.0)),
        new(kind, id_type=2, marker_index=9, marker_name="RELB", translation=point(NAN, NAN, NAN)),
        new(kind, id_type=2, marker_index=10, translation=point(7.0, 8.0, 9.0)),
    ]
    sample = read(
        make_input("mocap4r2_msgs/msg/Markers"), new("mocap4r2_msgs/msg/Markers", header=header(), markers=markers)
    )
    assert sample.names == ["LELB", "8", "RELB", "10"] and sample.complete
    assert sample.positions[[0, 1, 3]].tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    assert causes(sample)[2] == Cause.NOT_FINITE


# Markers for RViz


def marker(ns="", id=0, place=(0.0, 0.0, 1.0), kind=2, action=0, stamp=10.0, frame="camera"):
    return new(
        "visualization_msgs/msg/Marker",
        header=header(stamp, frame),
        ns=ns,
        id=id,
        type=kind,
        action=action,
        pose=pose(place),
    )


def marker_array(*markers):
    return new("visualization_msgs/msg/MarkerArray", markers=markers)


def test_marker_array_names_are_those_that_are_known():
    source = make_input("visualization_msgs/msg/MarkerArray", bundle=["hip", "ann/3"], mapped=["12"])
    sample = read(
        source,
        marker_array(marker("hip", 5), marker("ann", 3, (1.0, 2.0, 3.0)), marker("x", 12), marker("x", 13), marker()),
    )
    assert sample.names == ["hip", "ann/3", "12", "x/13", "0"]
    assert sample.positions[1].tolist() == [1.0, 2.0, 3.0]
    assert (sample.stamp, sample.frame_id, sample.complete) == (10.0, "camera", True)


def test_marker_array_takes_only_what_stands_somewhere():
    line, text, deleted, cleared = marker("a", kind=4), marker("b", kind=9), marker("c", action=2), marker(action=3)
    message = marker_array(cleared, line, text, deleted, marker("d"))
    sample = read(make_input("visualization_msgs/msg/MarkerArray"), message)
    assert sample.names == ["d/0"]


def test_marker_array_of_several_stamps_and_frames_is_several_samples():
    samples = make_input("visualization_msgs/msg/MarkerArray").read(
        marker_array(marker("a"), marker("b", stamp=11.0), marker("c", frame="map")), ""
    )
    assert [(s.names, s.stamp, s.frame_id, s.complete) for s in samples] == [
        (["a/0"], 10.0, "camera", False),
        (["b/0"], 11.0, "camera", False),
        (["c/0"], 10.0, "map", False),
    ]


# natnet_ros2, Vicon receiver, vrpn_mocap


def test_point_stamped():
    message = new("geometry_msgs/msg/PointStamped", header=header(), point=point(1.0, 2.0, 3.0))
    sample = read(make_input("geometry_msgs/msg/PointStamped"), message, "m1")
    assert sample.names == ("m1",) and sample.positions.tolist() == [[1.0, 2.0, 3.0]] and sample.orientations is None
    assert causes(sample) == [Cause.SEEN]
    message.point = point(0.0, 0.0, 0.0)
    assert causes(read(make_input("geometry_msgs/msg/PointStamped"), message, "m1")) == [Cause.ZERO]


def test_odometry_and_localisation_may_be_at_the_origin():
    covered = new("geometry_msgs/msg/PoseWithCovariance", pose=pose((0.0, 0.0, 0.0)))
    twisted = new("geometry_msgs/msg/TwistWithCovariance", twist=twist(1.0, 0.0, 0.0))
    odometry = new("nav_msgs/msg/Odometry", header=header(), pose=covered, twist=twisted)
    located = new("geometry_msgs/msg/PoseWithCovarianceStamped", header=header(), pose=covered)
    for kind, message in (
        ("nav_msgs/msg/Odometry", odometry),
        ("geometry_msgs/msg/PoseWithCovarianceStamped", located),
    ):
        assert causes(read(make_input(kind), message, "r1")) == [Cause.SEEN]
    covered.pose.orientation.w = 0.0
    assert causes(read(make_input("nav_msgs/msg/Odometry"), odometry, "r1")) == [Cause.ZERO]


def test_vicon_sends_zeros_for_a_lost_body():
    source = make_input("geometry_msgs/msg/PoseStamped")
    lost = new("geometry_msgs/msg/PoseStamped", header=header(), pose=pose((0.0, 0.0, 0.0), (0.0,) * 4))
    assert causes(read(source, lost, "r1")) == [Cause.ZERO]


def pose_at(stamp, quaternion=(0.0, 0.0, 0.0, 1.0), frame="world"):
    return new("geometry_msgs/msg/PoseStamped", header=header(stamp, frame), pose=pose((stamp, 0.0, 0.0), quaternion))


def twist_at(stamp, x, frame="world"):
    return new("geometry_msgs/msg/TwistStamped", header=header(stamp, frame), twist=twist(x, 0.0, 0.0))


def test_pose_and_twist_are_paired_by_stamp_whichever_comes_first():
    source = make_input("geometry_msgs/msg/PoseStamped", twists="/vrpn_mocap/{agent}/twist")
    (companion,) = source.companions
    assert companion.topic == "/vrpn_mocap/{agent}/twist" and companion.type_name == "geometry_msgs/msg/TwistStamped"
    assert companion.read(twist_at(10.0, 1.0), "r1") == []
    assert read(source, pose_at(10.001), "r1").velocities.tolist() == [[1.0, 0.0, 0.0]]
    alone = read(source, pose_at(10.01), "r1")  # its twist is late
    assert alone.velocities is None and alone.positions[0, 0] == 10.01
    (later,) = companion.read(twist_at(10.01, 2.0), "r1")
    assert later.velocities.tolist() == [[2.0, 0.0, 0.0]] and later.stamp == pytest.approx(10.01)
    assert read(source, pose_at(10.02), "r1").velocities is None  # a twist that has fallen silent stops no pose
    assert read(source, pose_at(10.0), "r2").velocities is None  # another agent's twist


def test_twist_in_the_bodys_own_frame_is_turned():
    source = make_input("geometry_msgs/msg/PoseStamped", twists="{agent}/twist")
    source.companions[0].read(twist_at(10.0, 2.0, frame="r1"), "r1")
    assert read(source, pose_at(10.0, QUARTER), "r1").velocities[0] == pytest.approx([0.0, 2.0, 0.0])


def test_stamps_on_arrival_give_a_twist_to_the_next_pose_and_no_pose_twice():
    p = Parameters(input_twists="{agent}/twist", stamp_source="arrival")
    source = parameters_input("geometry_msgs/msg/PoseStamped", p, [])
    twists = source.companions[0].read
    for x in (1.0, 2.0):  # all stamps are zero
        assert read(source, pose_at(0.0), "r1").velocities is None
        assert twists(twist_at(0.0, 9.0), "r1") == [] and twists(twist_at(0.0, x), "r1") == []
        assert read(source, pose_at(0.0), "r1").velocities.tolist() == [[x, 0.0, 0.0]]


def test_of_twists_with_one_stamp_the_newest_counts():
    source = make_input("geometry_msgs/msg/PoseStamped", twists="{agent}/twist")
    for x in (1.0, 2.0):
        source.companions[0].read(twist_at(10.0, x), "r1")
    assert read(source, pose_at(10.0), "r1").velocities.tolist() == [[2.0, 0.0, 0.0]]


# Xsens


def link_state(frame, place, quaternion, velocity=(0.0, 0.0, 0.0)):
    return new(
        "xsens_mvn_msgs/msg/LinkState",
        header=header(10.0, frame),
        pose=pose(place, quaternion),
        twist=twist(*velocity),
    )


@pytest.mark.parametrize("package", ["xsens_mvn_msgs", "xsens_mvn_ros2_msgs"])
def test_link_states_of_a_suit_in_any_order(package):
    states = [
        link_state("ann_Left_Hand", (1.0, 2.0, 3.0), QUARTER, (0.5, 0.0, -0.5)),
        link_state("ann_Pelvis", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)),  # no data
        link_state("ann_Tail", (4.0, 5.0, 6.0), QUARTER),
    ]
    source = make_input(f"{package}/msg/LinkStateArray", bundle=["Pelvis", "Left_Hand", "Hand"])
    for order in ([0, 1, 2], [2, 0, 1]):
        message = new("xsens_mvn_msgs/msg/LinkStateArray", header=header(), states=[states[index] for index in order])
        sample = read(source, message)
        place = {name: row for row, name in enumerate(sample.names)}
        assert set(place) == {"Left_Hand", "Pelvis", "ann_Tail"}  # the longest known end, else all of it
        assert sample.positions[place["Left_Hand"]].tolist() == [1.0, 2.0, 3.0]
        assert sample.velocities[place["Left_Hand"]].tolist() == [0.5, 0.0, -0.5]
        assert causes(sample)[place["Pelvis"]] == Cause.UNTRACKED and sample.complete


# yolo_ros


def keypoints(*found, frame="camera"):
    kind = "yolo_msgs/msg/KeyPoint3D"
    data = [new(kind, id=number, point=point(*place), score=score) for number, place, score in found]
    return new("yolo_msgs/msg/KeyPoint3DArray", data=data, frame_id=frame)


def test_keypoints_are_named_by_their_ids():
    message = keypoints((1, (0.1, 0.2, 0.3), 0.9), (6, (1.0, 2.0, 3.0), 0.1), (17, (4.0, 5.0, 6.0), 0.5))
    sample = read(make_input("yolo_msgs/msg/KeyPoint3DArray", bundle=["hip", "knee"]), message)
    assert sample.names == ["nose", "left_shoulder", "right_ankle"]
    assert sample.confidence.tolist() == [0.9, 0.1, 0.5] and sample.positions[1].tolist() == [1.0, 2.0, 3.0]
    assert sample.stamp is None and sample.frame_id == "camera" and sample.complete
    assert causes(sample) == [Cause.SEEN, Cause.UNSURE, Cause.SEEN]
    listed = make_input("yolo_msgs/msg/KeyPoint3DArray", ["top"])
    assert read(listed, message).names == ["top", "6", "17"]


def test_each_detection_is_a_body():
    kind = "yolo_msgs/msg/Detection"
    people = [
        new(kind, id="3", class_name="person", keypoints3d=keypoints((1, (0.0, 0.0, 2.0), 0.9))),
        new(kind, id="5", class_name="chair"),
        new(kind, id="4", class_name="person", keypoints3d=keypoints((2, (1.0, 0.0, 2.0), 0.8))),
    ]
    message = new("yolo_msgs/msg/DetectionArray", header=header(), detections=people)
    samples = make_input("yolo_msgs/msg/DetectionArray").read(message, "")
    assert [(sample.group, sample.names) for sample in samples] == [("3", ["nose"]), ("4", ["left_eye"])]


# TF


def tf(*transforms):
    return new("tf2_msgs/msg/TFMessage", transforms=transforms)


def test_links_of_a_body_are_placed_in_the_frame_above_it():
    source = make_input("tf2_msgs/msg/TFMessage", bundle=["body", "l_arm", "l_hand"])
    static = source.companions[0]
    assert (static.topic, static.latched) == ("/tf_static", True)
    static.read(tf(transform("l_hand_x7q", "l_arm_x7q", (0.0, 0.3, 0.0))), "")
    root = read(
        source, tf(transform("body_x7q", "camera", (1.0, 2.0, 3.0), QUARTER), transform("wheel_x", "base", (9.0,) * 3))
    )
    assert (root.group, root.names, root.frame_id, root.stamp) == ("x7q", ["body"], "camera", 10.0)
    assert root.positions[0].tolist() == [1.0, 2.0, 3.0] and not root.complete
    arm = transform("l_arm_x7q", "body_x7q", (0.5, 0.0, 0.0), QUARTER, stamp=10.02)
    sample = read(source, tf(arm))  # the hand, fixed to it, moves with it
    place = dict(zip(sample.names, sample.positions.tolist(), strict=True))
    # The body is turned to the left once, the hand twice: x goes to y, y to -y.
    assert place["l_arm"] == pytest.approx([1.0, 2.5, 3.0]) and place["l_hand"] == pytest.approx([1.0, 2.2, 3.0])
    assert rotated(np.array([1.0, 0.0, 0.0]), sample.orientations[0]) == pytest.approx([-1.0, 0.0, 0.0])


def test_order_of_frames_in_a_message_does_not_matter():
    chain = [transform("b_1", "a_1", (1.0, 0.0, 0.0)), transform("a_1", "map", (0.0, 2.0, 0.0))]
    for order in (chain, chain[::-1]):
        sample = read(make_input("tf2_msgs/msg/TFMessage", bundle=["a", "b"]), tf(*order))
        place = dict(zip(sample.names, sample.positions.tolist(), strict=True))
        assert place == {"a": [0.0, 2.0, 0.0], "b": [1.0, 2.0, 0.0]} and sample.frame_id == "map"


def test_link_whose_parents_are_no_longer_refreshed_is_nowhere():
    source = make_input("tf2_msgs/msg/TFMessage", bundle=["body", "arm"])
    source.read(tf(transform("body_a", "map", (1.0, 0.0, 0.0), stamp=10.0)), "")
    fresh = read(source, tf(transform("arm_a", "body_a", (1.0, 0.0, 0.0), stamp=10.1)))
    assert fresh.positions.tolist() == [[2.0, 0.0, 0.0]]
    late = read(source, tf(transform("arm_a", "body_a", (1.0, 0.0, 0.0), stamp=10.3)))
    assert np.isnan(late.positions).all() and late.stamp == pytest.approx(10.3)


def test_only_bodies_that_are_listed_are_taken_once_a_list_has_come():
    source = make_input("tf2_msgs/msg/TFMessage", bundle=["body"])
    both = tf(transform("body_a", "map", (1.0, 0.0, 0.0)), transform("body_b", "map", (2.0, 0.0, 0.0)))
    assert [sample.group for sample in source.read(both, "")] == ["a", "b"]
    source.companions[1].read(new("hri_msgs/msg/IdsList", header=header(), ids=["b", "c"]), "")
    assert [sample.group for sample in source.read(both, "")] == ["b"]


def test_frames_that_are_listed_are_agents_of_one_team():
    source = make_input("tf2_msgs/msg/TFMessage", ["cf_1", "cf_2"])
    message = tf(
        *(transform(name, "world", (float(row), 0.0, 0.0)) for row, name in enumerate(["cf_2", "cf_9", "/cf_1"]))
    )
    sample = read(source, message)
    assert sample.names == ["cf_2", "cf_1"] and sample.group == "" and sample.positions[:, 0].tolist() == [0.0, 2.0]


def test_link_that_comes_before_what_it_hangs_on_waits_for_it():
    source = make_input("tf2_msgs/msg/TFMessage", bundle=["hips", "knee"])
    knee = tf(transform("knee_1", "hips_1", (0.0, 0.0, -0.4)))
    assert source.read(knee, "") == []  # the frame of nothing is hips_1
    assert read(source, tf(transform("hips_1", "map", (1.0, 0.0, 1.0)))).frame_id == "map"
    sample = read(source, knee)
    assert sample.frame_id == "map" and sample.positions[0] == pytest.approx([1.0, 0.0, 0.6])


def test_body_that_never_moves_in_its_frame_takes_no_other_down():
    source = make_input("tf2_msgs/msg/TFMessage", bundle=["body"])
    source.companions[0].read(tf(transform("body_doll", "cart", (0.0, 0.0, 1.0))), "")
    sample = read(source, tf(transform("cart", "map", (5.0, 0.0, 0.0)), transform("body_a", "map", (1.0, 0.0, 0.0))))
    assert sample.group == "a" and sample.positions.tolist() == [[1.0, 0.0, 0.0]]


def test_frames_need_names_and_a_loop_of_them_takes_no_other_down():
    with pytest.raises(ValueError, match=r"expected their names in input\.agents"):
        make_input("tf2_msgs/msg/TFMessage").read(tf(), "")
    source = make_input("tf2_msgs/msg/TFMessage", bundle=["a", "b"])
    loop = transform("a_1", "b_1", (0.0,) * 3), transform("b_1", "a_1", (0.0,) * 3)
    assert source.read(tf(*loop), "") == []
    assert read(source, tf(*loop, transform("a_2", "map", (0.0,) * 3))).group == "2"


# Rotations


def test_product_turns_by_the_second_and_then_by_the_first():
    random = np.random.default_rng(2)
    a, b, v = random.normal(size=(5, 4)), random.normal(size=(5, 4)), random.normal(size=(5, 3))
    assert rotated(v, product(a, b)) == pytest.approx(rotated(rotated(v, b), a))
    x_to_y, y_to_z = np.array(QUARTER), np.array([HALF, 0.0, 0.0, HALF])
    assert rotated(np.array([1.0, 0.0, 0.0]), product(y_to_z, x_to_y)) == pytest.approx([0.0, 0.0, 1.0])


def test_frames_of_bodies_that_come_and_go_do_not_pile_up(monkeypatch):
    monkeypatch.setattr("siha_ros.node.inputs.transforms.MOST_LINKS", 10)
    source = make_input("tf2_msgs/msg/TFMessage", bundle=["body"])
    source.companions[0].read(tf(transform("camera", "map", (0.0, 0.0, 1.0))), "")
    for number in range(100):
        sample = read(source, tf(transform(f"body_{number}", "camera", (1.0, 2.0, 3.0), stamp=10.0 + number)))
        assert sample.group == str(number) and sample.frame_id == "camera"
    assert len(source._links) <= 11 and {"camera", "body_99", "body_95"} <= set(source._links)
