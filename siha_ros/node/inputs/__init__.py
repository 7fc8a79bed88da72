"""Streams in: one small file per source of messages, all behind the `Input` interface.

An input turns one message into samples and nothing else: units, frames, stamps, names and visibility are judged once,
for all types, in `siha_ros.node.intake` and in the window.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from siha_ros.node.inputs.keypoints import DetectionsInput, KeypointsInput
from siha_ros.node.inputs.link_states import LinkStatesInput, LinkStatesRos2Input
from siha_ros.node.inputs.marker_array import MarkerArrayInput
from siha_ros.node.inputs.mocap4r2 import MocapMarkersInput, RigidBodiesInput
from siha_ros.node.inputs.named_poses import NamedPosesInput
from siha_ros.node.inputs.point import PointInput
from siha_ros.node.inputs.pose import OdometryInput, PoseInput, PoseWithCovarianceInput
from siha_ros.node.inputs.pose_array import PoseArrayInput
from siha_ros.node.inputs.sample import Companion, Input, Sample, StreamNames
from siha_ros.node.inputs.skeleton_frame import SkeletonFrameInput
from siha_ros.node.inputs.transforms import TransformsInput
from siha_ros.node.inputs.twists import NearestPairs, Pairs

INPUTS: dict[str, type[Input]] = {
    kind.type_name: kind
    for kind in (
        PoseInput,
        PoseWithCovarianceInput,
        OdometryInput,
        PoseArrayInput,
        SkeletonFrameInput,
        PointInput,
        MarkerArrayInput,
        NamedPosesInput,
        RigidBodiesInput,
        MocapMarkersInput,
        LinkStatesInput,
        LinkStatesRos2Input,
        TransformsInput,
        DetectionsInput,
        KeypointsInput,
    )
}
INPUT_TYPES = tuple(INPUTS)

SOURCES = {
    "xsens_mvn_msgs": "github.com/xsens/xsens_mvn_ros2",
    "xsens_mvn_ros2_msgs": "github.com/xsens/xsens_mvn_ros2",
    "yolo_msgs": "github.com/mgonzs13/yolo_ros",
}
"""Where packages are that ROS does not distribute."""


def make_input(
    type_name: str,
    agents: Sequence[str] = (),
    *,
    bundle: Sequence[str] = (),
    mapped: Sequence[str] = (),
    twists: str = "",
    pairs: Callable[[], Pairs] = NearestPairs,
) -> Input:
    """The input of a ROS type.

    Args:
        type_name: the type, as `ros2 topic type` prints it.
        agents, bundle, mapped: see StreamNames.
        twists: topic of the twists that belong to poses, {agent} in it; empty for none.
        pairs: what pairs the poses and twists of an agent.
    """
    if type_name not in INPUTS:
        raise ValueError(f"no input for messages of type {type_name}")
    names = StreamNames(tuple(agents), tuple(bundle), tuple(mapped))
    if twists and type_name == PoseInput.type_name:
        return PoseInput(names, twists, pairs)
    return INPUTS[type_name](names)


def message_type(type_name: str) -> type:
    """The Python class of a ROS type, "nav_msgs/msg/Odometry" for one. ImportError names the missing package."""
    package, _, name = type_name.split("/")
    try:
        kind: type = getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError) as error:
        apt = f"ros-$ROS_DISTRO-{package.replace('_', '-')}"
        where = f"build it from {SOURCES[package]}" if package in SOURCES else f"sudo apt install {apt}"
        raise ImportError(
            f"messages of type {type_name} need the ROS package {package}, which is not installed or not sourced:"
            f" {where}"
        ) from error
    return kind


__all__ = ["INPUTS", "INPUT_TYPES", "Companion", "Input", "Sample", "StreamNames", "make_input", "message_type"]
