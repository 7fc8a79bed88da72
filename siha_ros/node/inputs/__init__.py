"""Streams in: one small file per message type, all behind the `Input` interface.

An input turns one message into a sample and nothing else: stamps, frames, names and visibility are judged once, for all
types, in `siha_ros.node.intake` and in the window.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from siha_ros.node.inputs.pose import OdometryInput, PoseInput, PoseWithCovarianceInput
from siha_ros.node.inputs.pose_array import PoseArrayInput
from siha_ros.node.inputs.sample import Sample
from siha_ros.node.inputs.skeleton_frame import SkeletonFrameInput


class Input(Protocol):
    """One message type of a stream.

    Attributes:
        type_name: ROS name of the type, as `ros2 topic type` prints it.
        per_agent: true where each agent has a topic of its own.
    """

    type_name: str
    per_agent: bool

    def read(self, message: Any, agent: str) -> Sample:
        """The sample in a message; `agent` is the topic's where `per_agent`. Raises ValueError, in one line."""
        ...


def make_input(type_name: str, agents: Sequence[str] = ()) -> Input:
    """The input of a ROS type; `agents` names the entries of types that have no names (PoseArray)."""
    if type_name == PoseArrayInput.type_name:
        return PoseArrayInput(agents)
    kinds: tuple[type[Input], ...] = (PoseInput, PoseWithCovarianceInput, OdometryInput, SkeletonFrameInput)
    for kind in kinds:
        if kind.type_name == type_name:
            return kind()
    raise ValueError(f"no input for messages of type {type_name}")


def message_type(type_name: str) -> type:
    """The Python class of a ROS type, "nav_msgs/msg/Odometry" for one. ImportError names the missing package."""
    package, _, name = type_name.split("/")
    try:
        kind: type = getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"messages of type {type_name} need the ROS package {package}, which is not installed or not sourced"
        ) from error
    return kind


__all__ = ["Input", "Sample", "make_input", "message_type"]
