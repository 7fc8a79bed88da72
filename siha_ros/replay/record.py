"""Recorded tracks as a bag of what a team or a tracked body would have published, for replays and for playing live."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from siha_ros.node.messages import NewMessage, to_time
from siha_ros.replay.bag import BagError, BagWriter

POSE, SKELETON = "geometry_msgs/msg/PoseStamped", "siha_ros/msg/SkeletonFrame"
LAST = 2.0**31  # s: beyond what a stamp holds
BEGIN = 1.0  # s: bags begin here, as a stamp of 0 is none


def write_tracks(
    path: Path,
    names: list[str],
    stamps: NDArray[np.float64],
    positions: NDArray[np.float64],
    *,
    skeleton: bool,
    storage: str = "mcap",
    frame_id: str = "map",
) -> int:
    """Write a bag and return the number of its messages.

    Args:
        path: folder of the bag; it must not exist.
        names: [A] agents.
        stamps: f8[T] (s), ascending. The bag begins at BEGIN with the first one.
        positions: f8[A, T, P] (m), NaN where an agent is not seen: no message then, or an untracked joint.
        skeleton: one SkeletonFrame for each stamp on /skeleton, instead of poses on /<name>/pose.
        storage: "mcap" or "sqlite3".
        frame_id: of all messages.
    """
    if stamps[-1] - stamps[0] + BEGIN >= LAST:
        raise BagError(
            f"{path}: {stamps[-1] - stamps[0]:.3g} s, longer than a stamp of ROS tells: are they in seconds?"
        )
    if positions.shape[-1] == 2:
        positions = np.concatenate([positions, np.where(np.isfinite(positions[..., :1]), 0.0, np.nan)], axis=-1)
    count = 0
    with BagWriter(path, storage) as writer:
        for frame, stamp in enumerate((stamps - stamps[0] + BEGIN).tolist()):
            header = writer.new("std_msgs/msg/Header", stamp=to_time(stamp, writer.new), frame_id=frame_id)
            now, seen = positions[:, frame], np.isfinite(positions[:, frame, 0])
            messages = [("/skeleton", SKELETON, _skeleton(writer.new, header, names, now, seen))]
            if not skeleton:
                messages = [
                    (f"/{names[agent]}/pose", POSE, _pose(writer.new, header, now[agent]))
                    for agent in np.flatnonzero(seen)
                ]
            for topic, kind, message in messages:
                writer.write(topic, kind, round(stamp * 1e9), message)
            count += len(messages)
    return count


def _pose(new: NewMessage, header: object, position: NDArray[np.float64]) -> object:
    message = new(POSE, header=header)
    at = message.pose.position
    at.x, at.y, at.z = position.tolist()
    message.pose.orientation.w = 1.0
    return message


def _skeleton(
    new: NewMessage, header: object, names: list[str], positions: NDArray[np.float64], seen: NDArray[np.bool_]
) -> object:
    return new(SKELETON, header=header, group="body", joints=names, positions=positions.ravel(), tracked=seen)
