"""Inputs, intake and discovery without a node: what each message becomes, and what is dropped."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from geometry_msgs.msg import Pose, PoseArray, PoseStamped, PoseWithCovarianceStamped, TwistStamped
from nav_msgs.msg import Odometry
from siha_ros.msg import SkeletonFrame

from siha_ros.node.discovery import (
    Place,
    check_topic,
    check_twists,
    common_type,
    matching,
    matching_agents,
    resolved_template,
    unmatched,
)
from siha_ros.node.filter_pairs import FilterPairs, new_pairs
from siha_ros.node.inputs import make_input, message_type
from siha_ros.node.inputs.pose import pose_sample
from siha_ros.node.inputs.twists import NearestPairs
from siha_ros.node.intake import INBOX, Intake
from siha_ros.node.messages import to_time
from siha_ros.node.parameters import INPUT_TYPES, ParameterError, Parameters, window_parameters
from siha_ros.window.sliding_window import SlidingWindow
from siha_ros.window.types import Status

HALF = math.sqrt(0.5)


def pose(x=1.0, y=2.0, z=3.0, quaternion=(0.0, 0.0, HALF, HALF)) -> Pose:
    message = Pose()
    message.position.x, message.position.y, message.position.z = x, y, z
    message.orientation.x, message.orientation.y, message.orientation.z, message.orientation.w = quaternion
    return message


def pose_stamped(stamp=10.0, frame="world", **where) -> PoseStamped:
    message = PoseStamped(pose=pose(**where))
    message.header.stamp, message.header.frame_id = to_time(stamp), frame
    return message


def read(source, message, agent=""):
    """The one sample of a message."""
    (sample,) = source.read(message, agent)
    return sample


# Inputs


@pytest.mark.parametrize("name", INPUT_TYPES)
def test_every_offered_type_has_an_input_and_a_message_or_an_error_that_names_its_package(name):
    assert make_input(name).type_name == name
    try:
        assert message_type(name).__name__ == name.split("/")[-1]
    except ImportError as error:
        assert f"need the ROS package {name.split('/')[0]}, which is not installed or not sourced: " in str(error)
        assert name.split("/")[0] not in ("geometry_msgs", "nav_msgs", "visualization_msgs", "siha_ros")


def test_missing_message_package_is_named():
    with pytest.raises(ImportError, match="no_such_msgs/msg/Thing need the ROS package no_such_msgs"):
        message_type("no_such_msgs/msg/Thing")


def test_pose_stamped_and_pose_with_covariance_give_position_and_quaternion():
    with_covariance = PoseWithCovarianceStamped()
    with_covariance.pose.pose = pose()
    for message in (pose_stamped(), with_covariance):
        name = f"geometry_msgs/msg/{type(message).__name__}"
        sample = read(make_input(name), message, "r1")
        assert sample.names == ("r1",) and not sample.complete
        assert sample.positions.tolist() == [[1.0, 2.0, 3.0]]
        assert sample.orientations.tolist() == [[0.0, 0.0, HALF, HALF]]
        assert sample.velocities is None and sample.tracked is None


def test_odometry_turns_the_twist_into_the_frame_of_the_pose():
    message = Odometry()
    message.pose.pose = pose()  # a quarter turn to the left
    message.twist.twist.linear.x, message.twist.twist.linear.y, message.twist.twist.linear.z = 2.0, 1.0, 0.5
    sample = read(make_input("nav_msgs/msg/Odometry"), message, "r1")
    assert sample.velocities[0] == pytest.approx([-1.0, 2.0, 0.5])


@pytest.mark.parametrize("quaternion", [(0.0, 0.0, 0.0, 0.0), (math.nan, 0.0, 0.0, 1.0)])
def test_odometry_without_a_valid_orientation_has_no_velocity(quaternion):
    message = Odometry()
    message.pose.pose = pose(quaternion=quaternion)
    message.twist.twist.linear.x = 2.0
    assert np.isnan(read(make_input("nav_msgs/msg/Odometry"), message, "r1").velocities).all()


def test_odometry_is_turned_alike_by_quaternions_of_any_length_and_axis():
    rng = np.random.default_rng(3)
    for _ in range(20):
        q, v = rng.normal(size=4), rng.normal(size=3)
        x, y, z, w = q / np.linalg.norm(q)
        matrix = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        message = Odometry()
        message.pose.pose = pose(quaternion=tuple(q))
        message.twist.twist.linear.x, message.twist.twist.linear.y, message.twist.twist.linear.z = v
        assert read(make_input("nav_msgs/msg/Odometry"), message, "r1").velocities[0] == pytest.approx(matrix @ v)


def test_pose_array_takes_names_by_index():
    message = PoseArray(poses=[pose(x=1.0), pose(x=2.0)])
    sample = read(make_input("geometry_msgs/msg/PoseArray", ["a", "b", "c"]), message, "")
    assert sample.names == ["a", "b"] and sample.positions[:, 0].tolist() == [1.0, 2.0] and sample.complete
    assert read(make_input("geometry_msgs/msg/PoseArray"), message, "").names == ["agent_0", "agent_1"]
    with pytest.raises(ValueError, match="2 poses: expected at most 1"):
        read(make_input("geometry_msgs/msg/PoseArray", ["a"]), message, "")


def test_skeleton_frame_keeps_flags_and_confidence():
    frame = SkeletonFrame(
        joints=["hip", "knee"], positions=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], tracked=[True, False], confidence=[0.5, 1.0]
    )
    sample = read(make_input("siha_ros/msg/SkeletonFrame"), frame, "")
    assert sample.positions.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert sample.tracked.tolist() == [True, False] and sample.confidence.tolist() == [0.5, 1.0] and sample.complete
    frame.confidence = []
    assert read(make_input("siha_ros/msg/SkeletonFrame"), frame, "").confidence is None


@pytest.mark.parametrize("field", ["positions", "tracked", "confidence"])
def test_skeleton_frame_of_uneven_arrays_is_refused_with_the_numbers(field):
    values = {"positions": [0.0] * 6, "tracked": [True, True], "confidence": [1.0, 1.0]}
    frame = SkeletonFrame(joints=["hip", "knee"], **(values | {field: values[field][:1]}))
    with pytest.raises(ValueError, match="2 joints.*expected 6, 2 and 0 or 2"):
        read(make_input("siha_ros/msg/SkeletonFrame"), frame, "")


def test_message_filters_pair_as_the_package_itself_does():
    pytest.importorskip("message_filters", reason="needs message_filters")
    assert type(new_pairs()) is FilterPairs
    random = np.random.default_rng(6)
    for _ in range(20):
        own, filtered = NearestPairs(), FilterPairs()
        times = [(stamp + random.uniform(0.0, 0.008), stamp) for stamp in 10.0 + 0.02 * np.arange(50)]
        stream = [(pose_stamped(stamp=stamp), random.uniform(0.0, 0.05)) for _, stamp in times if random.random() < 0.9]
        for stamp, _ in times:
            twist = TwistStamped()
            twist.header.stamp = to_time(stamp)
            stream.append((twist, random.uniform(0.0, 0.05)))
        stream.sort(key=lambda entry: entry[1] + entry[0].header.stamp.sec + 1e-9 * entry[0].header.stamp.nanosec)
        for message, _ in stream:
            add = "add_twist" if isinstance(message, TwistStamped) else "add_pose"
            assert getattr(own, add)(message) is getattr(filtered, add)(message)


@pytest.mark.parametrize("twist_rate", [50.0, 100.0])
@pytest.mark.parametrize("kind", [NearestPairs, FilterPairs])
def test_poses_and_twists_are_paired_after_time_has_gone_back(kind, twist_rate):
    if kind is FilterPairs:
        pytest.importorskip("message_filters", reason="needs message_filters")
    pairs = kind()
    for begin in (100.0, 10.0):
        paired = 0
        for tick in range(50):
            for late in range(round(twist_rate / 50)):
                twist = TwistStamped()
                twist.header.stamp = to_time(begin + tick / 50 + late / twist_rate)
                pairs.add_twist(twist)
                paired += late == 0 and pairs.add_pose(pose_stamped(stamp=begin + tick / 50)) is not None
        assert paired >= 49


# Discovery


def test_agents_are_found_by_the_template():
    topics = ["/r2/pose", "/r1/pose", "/r1/odom", "/siha/recovered/r1/pose", "/pose"]
    assert matching_agents("/{agent}/pose", topics) == {"r1": "/r1/pose", "r2": "/r2/pose"}
    assert matching_agents("/mocap/{agent}_base/pose", ["/mocap/cf.1_base/pose", "/mocap/x/pose"]) == {
        "cf.1": "/mocap/cf.1_base/pose"
    }


def test_template_keeps_the_agent_through_namespace_and_remapping():
    assert resolved_template("{agent}/pose", lambda topic: f"/team/{topic}") == "/team/{agent}/pose"
    assert resolved_template("{group}/{agent}/pose", lambda topic: f"/a/{topic}") == "/a/{group}/{agent}/pose"


def test_groups_and_agents_are_found_by_the_template():
    topics = ["/red/r2/pose", "/red/r1/pose", "/blue/r1/pose", "/r1/pose", "/red/poses"]
    assert matching("/{group}/{agent}/pose", topics) == [
        Place("/blue/r1/pose", "r1", "blue"),
        Place("/red/r1/pose", "r1", "red"),
        Place("/red/r2/pose", "r2", "red"),
    ]
    assert matching("/{group}/poses", topics) == [Place("/red/poses", "", "red")]
    assert matching("/r1/pose", topics) == [Place("/r1/pose")]
    assert Place("/red/r1/pose", "r1", "red").fill("/{group}/{agent}/twist") == "/red/r1/twist"


def test_type_is_that_of_most_topics():
    graph = {"/a": ["std_msgs/msg/String", INPUT_TYPES[0]], "/b": [INPUT_TYPES[2]], "/c": [INPUT_TYPES[2]]}
    assert common_type(["/a", "/b", "/c"], graph, INPUT_TYPES) == INPUT_TYPES[2]
    assert common_type(["/a"], graph, INPUT_TYPES) == INPUT_TYPES[0]
    assert common_type(["/d"], graph, INPUT_TYPES) is None


def test_template_must_suit_the_type():
    pose_input, array_input = make_input(INPUT_TYPES[0]), make_input("geometry_msgs/msg/PoseArray")
    check_topic("/{agent}/pose", pose_input)
    check_topic("/poses", array_input)
    for template, source in (("/pose", pose_input), ("/{agent}/poses", array_input), ("/{agent}/{agent}", None)):
        with pytest.raises(ParameterError, match="parameter input.topic is"):
            check_topic(template, source)


@pytest.mark.parametrize("agent", ["robot-1", "1", "a b", "é"])
def test_listed_agent_whose_topic_would_not_be_one_is_named(agent):
    line = f"parameter input.agents has {agent!r}: expected a part of the topic /{{agent}}/pose, of letters, digits and"
    with pytest.raises(ParameterError) as error:
        check_topic("/{agent}/pose", None, ["robot_1", agent])
    assert str(error.value).startswith(line)
    check_topic("/poses", None, ["robot_1", agent])  # a PoseArray's names are nobody's topic


def test_an_agent_may_be_a_number_where_that_makes_a_topic():
    check_topic("/mocap/cf{agent}/pose", None, ["1"])


@pytest.mark.parametrize(
    ("twists", "kind", "template", "expected"),
    [
        ("/twist", "auto", "/{agent}/pose", "expected a topic with {agent} in it"),
        ("/{agent}/a twist", "auto", "/{agent}/pose", "expected a topic with {agent} in it, of letters"),
        ("/{agent}/twist", "nav_msgs/msg/Odometry", "/{agent}/odom", "expected none, as only geometry_msgs/msg/Pose"),
        ("/{agent}/twist", "auto", "/skeleton", "expected none"),
    ],
)
def test_twists_that_nothing_would_come_of_are_refused(twists, kind, template, expected):
    with pytest.raises(ParameterError) as error:
        check_twists(twists, kind, template)
    assert str(error.value).startswith(f"parameter input.twists is {twists!r}: {expected}")
    check_twists("", kind, template)
    check_twists("/{group}/{agent}/twist", "geometry_msgs/msg/PoseStamped", "/{group}/{agent}/pose")


def test_names_that_do_not_meet_are_listed_on_both_sides():
    line = unmatched(["LeftHand", "tail"], {"LeftHand": "lhand"}, ["lhand", "head"])
    assert "not in the bundle, ignored: tail" in line and "in the bundle only, never seen: head" in line
    assert unmatched(["LeftHand"], {"LeftHand": "lhand"}, ["lhand"]) == ""


# Intake


class Case:
    """An intake before an open planar window of 1 s in steps of 0.1 s, and what it said."""

    def __init__(self, source=INPUT_TYPES[0], names=None, **parameters) -> None:
        self.said: list[str] = []
        checked = Parameters.checked(parameters)
        self.window = SlidingWindow(0.1, 11, 2, names, window_parameters(checked))
        self.intake = Intake(lambda: self.window, checked, "team", self.said.append)
        self.intake.source = make_input(source)

    @property
    def feed(self):
        """The one group's."""
        (feed,) = self.intake.feeds.values()
        return feed

    def send(self, message, agent="r1", now=10.0, arrival=500.0) -> None:
        self.intake.push(message, agent, now, arrival)
        self.intake.drain()


def test_group_and_frame_come_from_the_stream():
    case = Case()
    case.send(pose_stamped(frame="map"))
    assert (case.feed.name, case.feed.named, case.feed.frame_id) == ("team", False, "map")
    assert case.window.names == ["r1"] and case.window.newest == 10.0 and case.window.heights.tolist() == [3.0]


def test_other_frames_and_groups_are_dropped_counted_and_said_once():
    case = Case(frame_id="map")
    for _ in range(3):
        case.send(pose_stamped(frame="odom"))
    case.send(pose_stamped(frame=""))  # no frame said: taken
    assert case.intake.dropped == {"other frame": 3} and case.window.names == ["r1"]
    assert case.said == [
        "message dropped: its frame is 'odom', expected 'map': there is no TF, as tf2_ros is not installed (said once)"
    ]
    body = Case("siha_ros/msg/SkeletonFrame", ["hip"], group="ann")
    for group in ("ann", "bob", "ann"):
        frame = SkeletonFrame(group=group, joints=["hip"], positions=[0.0, 0.0, 1.0], tracked=[True])
        frame.header.stamp = to_time(10.0)
        body.send(frame, "")
    assert body.feed.name == "ann" and body.intake.dropped == {"other group": 1}


def test_a_first_message_of_a_wrong_frame_keeps_the_others_out_for_ten_messages_only():
    case = Case()
    case.send(pose_stamped(frame="mop", x=7.0))
    for _ in range(9):
        case.send(pose_stamped(frame="map"))
    assert case.feed.frame_id == "mop" and case.intake.dropped == {"other frame": 9}
    case.send(pose_stamped(frame="map", x=2.0))
    assert case.feed.frame_id == case.intake.frame_id == "map" and case.intake.dropped == {"other frame": 9}
    assert case.window.resets == 1 and case.window._rings.latest[0, :2] == pytest.approx([2.0, 2.0])
    assert case.window.last_reset == "frame 'map' in place of 'mop', which few messages name"
    for _ in range(60):  # two robots in frames of their own: the first one's stays
        case.send(pose_stamped(frame="map"))
        case.send(pose_stamped(frame="odom"), "r2")
    assert case.feed.frame_id == "map" and case.intake.dropped == {"other frame": 69} and case.window.resets == 1


def test_unit_axes_and_frame_of_the_stream_become_those_of_the_outputs():
    case = Case(frame_id="map", **{"input.scale": 0.001, "input.up_axis": "y"})

    def lookup(target, source, stamp):
        if source != "camera":
            raise LookupError("not connected")
        assert (target, stamp) == ("map", 10.0)
        return np.array([0.0, 0.0, HALF, HALF]), np.array([10.0, 0.0, 0.0])

    case.intake.lookup = lookup
    case.send(pose_stamped(frame="camera", x=1000.0, y=2000.0, z=3000.0))
    # (1, -3, 2) with z up in the camera's frame; a quarter turn to the left and 10 m along x in the map's.
    assert case.window.heights.tolist() == [2.0] and case.intake.frame_id == "map"
    assert case.window._rings.latest[0, :2] == pytest.approx([13.0, 1.0])
    case.send(pose_stamped(frame="moon"))
    assert case.intake.dropped == {"other frame": 1}
    assert case.said == ["message dropped: its frame is 'moon', expected 'map': not connected (said once)"]


def test_what_tf_says_of_a_frame_is_said_once_it_has_been_heard():
    case, answers = Case(frame_id="map"), iter([LookupError(), LookupError("not connected")])

    def lookup(target, source, stamp):
        raise next(answers)

    case.intake.lookup = lookup
    case.send(pose_stamped(frame="camera"))
    assert case.intake.dropped == {"other frame": 1} and not case.said
    case.send(pose_stamped(frame="camera"))
    assert case.intake.dropped == {"other frame": 2} and "expected 'map': not connected" in case.said[0]


def test_message_without_a_header_has_the_stamp_of_its_arrival():
    case = Case()
    case.intake.push(
        SimpleNamespace(pose=pose()), "r1", 33.0, 500.0, lambda message, agent: [pose_sample(message.pose, agent)]
    )
    case.intake.drain()
    assert case.window.newest == 33.0 and case.window.names == ["r1"]


def test_stamp_zero_is_dropped_and_arrival_stands_in_by_parameter():
    case = Case()
    case.send(pose_stamped(stamp=0.0))
    assert case.intake.dropped == {"stamp 0": 1} and math.isnan(case.window.newest)
    assert len(case.said) == 1 and "stamp_source" in case.said[0]
    arrival = Case(stamp_source="arrival")
    arrival.send(pose_stamped(stamp=0.0), now=77.0)
    assert arrival.window.newest == 77.0
    arrival.send(pose_stamped(stamp=5.0), now=0.0)  # sim time without a clock
    assert arrival.intake.dropped == {"stamp 0": 1}


def test_names_are_translated():
    case = Case("siha_ros/msg/SkeletonFrame", ["lhand", "head"], name_map=["LeftHand:lhand"])
    frame = SkeletonFrame(joints=["LeftHand", "tail"], positions=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], tracked=[True, True])
    for tick in range(20):
        frame.header.stamp = to_time(10.0 + 0.1 * tick)
        case.send(frame, "")
    window = case.window.window()
    assert window.names == ["lhand", "head"]
    assert window.positions[0, -1].tolist() == [1.0, 2.0] and np.isnan(window.positions[1]).all()
    assert len(case.said) == 1 and "ignored: tail" in case.said[0] and "never seen: head" in case.said[0]


def test_low_confidence_counts_as_untracked():
    case = Case("siha_ros/msg/SkeletonFrame", ["hip", "knee"], **{"visibility.min_confidence": 0.5})
    frame = SkeletonFrame(joints=["hip", "knee"], positions=[1.0] * 6, tracked=[True, True], confidence=[0.5, 0.4])
    for tick in range(20):
        frame.header.stamp = to_time(10.0 + 0.1 * tick)
        case.send(frame, "")
    assert case.window.window().status.tolist()[0] == Status.VISIBLE
    assert case.window.window().status.tolist()[1] != Status.VISIBLE
    assert case.window.window().reason[1] == "never seen: low confidence"


def test_malformed_messages_are_dropped_and_said_once():
    case = Case("siha_ros/msg/SkeletonFrame", ["hip"])
    for _ in range(2):
        frame = SkeletonFrame(joints=["hip"])
        frame.header.stamp = to_time(10.0)
        case.send(frame, "")
    assert case.intake.dropped == {"malformed": 2} and len(case.said) == 1


def test_inbox_is_bounded_and_counts_what_falls_out():
    case = Case()
    for tick in range(INBOX + 5):
        case.intake.push(pose_stamped(stamp=10.0 + 1e-4 * tick), "r1", 0.0, 0.0)
    assert case.intake.dropped == {"inbox full": 5} and case.intake.received == INBOX + 5


def test_newest_arrival_belongs_to_the_newest_stamp():
    case = Case()
    case.send(pose_stamped(stamp=10.0), arrival=500.0)
    case.send(pose_stamped(stamp=9.9), agent="r2", arrival=501.0)  # older by less than the tolerance: not the newest
    assert case.feed.newest_arrival == 500.0
    case.send(pose_stamped(stamp=2.0), arrival=502.0)  # time went back
    assert case.feed.newest_arrival == 502.0


def test_reset_is_not_lost_in_a_flood():
    case = Case()
    case.send(pose_stamped(stamp=10.0))
    case.intake.push_reset()
    for tick in range(INBOX):
        case.intake.push(pose_stamped(stamp=10.0 + 1e-4 * tick), "r2", 0.0, 0.0)
    case.intake.drain()
    assert case.window.names == ["r2"] and case.window.resets == 1
    case.intake.drain()
    assert case.window.resets == 1


def test_reset_is_taken_in_its_turn():
    case = Case()
    case.intake.push(pose_stamped(stamp=10.0), "r1", 0.0, 0.0)
    case.intake.push_reset()
    case.intake.push(pose_stamped(stamp=11.0), "r2", 0.0, 0.0)
    case.intake.drain()
    assert case.window.names == ["r2"] and case.window.resets == 1
