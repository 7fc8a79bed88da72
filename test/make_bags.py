"""Bags for tests: a simulated team and a walking figure, in every format that a replay reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from siha_ros.replay.bag import MessageFactory, own_types

FORMATS = ("mcap", "sqlite3", "ros1")
BEGIN = 1_700_000_000  # s: stamps and times of recording begin here
UNKNOWN = "gone_msgs/msg/Note"  # a type that is installed nowhere: one string, text
Message = tuple[str, str, float, Any]  # topic, type, time (s after BEGIN), message


def write_bag(path: Path, form: str, messages: Callable[[Callable[..., Any]], Iterator[Message]]) -> Path:
    """Write a bag of `messages(new)`; a ROS 1 bag gets the ending .bag. Times of recording are those given."""
    store, types = get_typestore(Stores.EMPTY), own_types().fielddefs | get_types_from_msg("string text", UNKNOWN)
    if form == "ros1":
        types["std_msgs/msg/Header"] = get_typestore(Stores.ROS1_NOETIC).fielddefs["std_msgs/msg/Header"]
        path = path.with_suffix(".bag")
        writer: Any = Writer1(path)
    else:
        writer = Writer(path, version=8, storage_plugin=StoragePlugin[form.upper()])
    store.register(types)
    connections: dict[str, Any] = {}
    with writer:
        for topic, kind, time, message in messages(MessageFactory(store).new):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            serialize = store.serialize_ros1 if form == "ros1" else store.serialize_cdr
            writer.write(connections[topic], BEGIN * 10**9 + round(time * 1e9), bytes(serialize(message, kind)))
    return path


def header(new: Callable[..., Any], time: float, frame: str = "map") -> Any:
    nanoseconds = round(time * 1e9)
    stamp = new("builtin_interfaces/msg/Time", sec=BEGIN + nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
    return new("std_msgs/msg/Header", stamp=stamp, frame_id=frame)


def pose_message(new: Callable[..., Any], time: float, x: float, y: float, z: float = 0.0) -> Any:
    """Of an upright robot as it is measured: its orientation is never the same to the bit, also where it stands."""
    message = new("geometry_msgs/msg/PoseStamped", header=header(new, time))
    message.pose.position.x, message.pose.position.y, message.pose.position.z = x, y, z
    message.pose.orientation.z, message.pose.orientation.w = 1e-6 * (1.0 + time % 1.0), 1.0
    return message


def team(
    seconds: float,
    *,
    rate: float = 50.0,
    seed: int = 1,
    agents: int = 7,
    silent: dict[str, tuple[float, float]] | None = None,
) -> Callable[[Callable[..., Any]], Iterator[Message]]:
    """The springs team, a PoseStamped topic per robot; `silent` robots say nothing between two times (s)."""

    def messages(new: Callable[..., Any]) -> Iterator[Message]:
        from offline_training.systems.springs import SpringsStepper

        springs, quiet = SpringsStepper(seed, agents=agents), silent or {}
        for frame in range(round(seconds * rate)):
            time = frame / rate
            springs.step(time - springs.time)
            for agent, (x, y) in enumerate(springs.positions.tolist()):
                name = f"robot_{agent + 1}"
                begin, end = quiet.get(name, (np.inf, np.inf))
                if not begin <= time < end:
                    yield f"/{name}/pose", "geometry_msgs/msg/PoseStamped", time, pose_message(new, time, x, y)

    return messages


def lines(
    seconds: float, velocities: np.ndarray, *, rate: float = 50.0
) -> Callable[[Callable[..., Any]], Iterator[Message]]:
    """Robots r0, r1, ... that start at (0, i) and go at constant velocities f8[A, 2] (m/s)."""

    def messages(new: Callable[..., Any]) -> Iterator[Message]:
        for frame in range(round(seconds * rate)):
            time = frame / rate
            for agent, (x, y) in enumerate((velocities * time).tolist()):
                name = f"/r{agent}/pose"
                yield name, "geometry_msgs/msg/PoseStamped", time, pose_message(new, time, x, y + agent)

    return messages


def skeleton(
    joints: list[str], positions: np.ndarray, *, rate: float = 120.0
) -> Callable[[Callable[..., Any]], Iterator[Message]]:
    """A SkeletonFrame on /skeleton for each frame of positions f8[J, F, 3] (m); a NaN joint is not tracked."""

    def messages(new: Callable[..., Any]) -> Iterator[Message]:
        for frame in range(positions.shape[1]):
            shown = positions[:, frame]
            message = new(
                "siha_ros/msg/SkeletonFrame",
                header=header(new, frame / rate),
                group="body",
                joints=joints,
                positions=np.ascontiguousarray(shown).ravel(),
                tracked=np.isfinite(shown[:, 0]),
            )
            yield "/skeleton", "siha_ros/msg/SkeletonFrame", frame / rate, message

    return messages
