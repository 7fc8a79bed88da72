"""Recordings in bags of ROS 1 and 2, on the topics that the node listens to; where there are none, frames of ``/tf``.

Stamps are those of the headers, unless the options ask for when messages were recorded. What the node would take for
not seen (NaN, untracked, a zero pose) is a gap.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from offline_training.recordings.recording import ReadOptions, Recording, RecordingError, Track, from_tracks
from siha_ros.node.discovery import AGENT, input_type, matching_agents
from siha_ros.node.inputs import Sample, make_input
from siha_ros.node.inputs.sample import seconds
from siha_ros.replay.bag import Bag
from siha_ros.window.visibility import Cause, unseen_causes

TF_TOPIC, TF_TYPES = "/tf", ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage")
DEFAULT_TOPICS = (f"/{AGENT}/pose", "/skeleton", TF_TOPIC)
FLAT = 1e-6  # m: a z that never changes by more is none


def read(path: Path, options: ReadOptions) -> Recording:
    """Read one bag. Raises RecordingError."""
    try:
        with Bag(path) as bag:
            for topic in [options.topic] if options.topic else DEFAULT_TOPICS:
                tracks = _tracks(bag, topic, options)
                if tracks:
                    return from_tracks(_stamped(tracks, f"{path}: {topic}"), str(path))
            held = ", ".join(f"{topic} ({', '.join(kinds)})" for topic, kinds in bag.types.items())
    except RecordingError:
        raise
    except ValueError as error:
        raise RecordingError(str(error)) from None
    wanted = options.topic or " or ".join(DEFAULT_TOPICS)
    raise RecordingError(f"{path}: no agents on {wanted} of a type that can be read; it holds {held}")


def _tracks(bag: Bag, topic: str, options: ReadOptions) -> dict[str, Track]:
    """Samples on a topic by agent; empty where the bag has none that can be read."""
    stamps: dict[str, list[float]] = defaultdict(list)
    positions: dict[str, list[np.ndarray]] = defaultdict(list)
    velocities: dict[str, list[np.ndarray]] = defaultdict(list)
    samples = _transforms(bag, options) if topic == TF_TOPIC else _samples(bag, topic, options)
    for stamp, sample in samples:
        tracked = np.ones(len(sample.names), bool) if sample.tracked is None else sample.tracked
        causes = unseen_causes(sample.positions, tracked, sample.orientations, trusted=sample.trusted)
        unseen = causes != Cause.SEEN
        where = np.where(unseen[:, None], np.nan, sample.positions)
        moved = np.full_like(where, np.nan) if sample.velocities is None else sample.velocities
        for row, name in enumerate(sample.names):
            stamps[name].append(stamp)
            positions[name].append(where[row])
            velocities[name].append(moved[row])
    if not stamps:
        return {}
    every = np.concatenate([np.stack(rows) for rows in positions.values()])
    height = every[np.isfinite(every[:, 2]), 2]
    dims = 2 if not len(height) or np.ptp(height) <= FLAT else 3
    measured = np.isfinite(np.concatenate([np.stack(rows) for rows in velocities.values()])).any()
    return {
        name: Track(
            np.array(stamps[name]),
            np.stack(positions[name])[:, :dims],
            np.stack(velocities[name])[:, :dims] if measured else None,
        )
        for name in sorted(stamps)
    }


def _stamped(tracks: dict[str, Track], where: str) -> dict[str, Track]:
    """Without samples that have no time, which the node drops as well. Raises RecordingError where none has."""
    kept = {name: track.stamps > 0 for name, track in tracks.items()}
    count, right = sum(map(len, kept.values())), sum(int(good.sum()) for good in kept.values())
    if not right:
        raise RecordingError(
            f"{where}: all {count} samples have stamps of 0 or less (siha train --stamp-source arrival takes when they"
            " came)"
        )
    if right < count:
        print(f"{where}: {count - right} of {count} samples left out, with stamps of 0 or less", file=sys.stderr)
    return {
        name: Track(track.stamps[good], track.positions[good], None if (v := track.velocities) is None else v[good])
        for (name, track), good in zip(tracks.items(), kept.values(), strict=True)
        if good.any()
    }


def _samples(bag: Bag, topic: str, options: ReadOptions) -> Iterator[tuple[float, Sample]]:
    """Stamp (s) and samples of each message on a topic of the node's, of the group that comes first."""
    per_agent = AGENT in topic
    agents = matching_agents(topic, bag.types) if per_agent else {"": topic} if topic in bag.types else {}
    kind = input_type(topic, agents.values(), bag.types)
    if kind is None:
        return
    source = make_input(kind, () if per_agent else options.agents)
    names, group = {found: agent for agent, found in agents.items()}, ""
    for entry in bag.messages(set(names)):
        if entry.connection.msgtype == kind:
            message = bag.read(entry)
            header = getattr(message, "header", None)
            for sample in source.read(message, names[entry.topic]):
                group = group or sample.group
                if sample.group == group:
                    stamp = sample.stamp
                    if stamp is None:
                        stamp = entry.time if header is None else seconds(header.stamp)
                    yield entry.time if options.arrival else stamp, sample


def _transforms(bag: Bag, options: ReadOptions) -> Iterator[tuple[float, Sample]]:
    """Each child frame of the frame that has most children is an agent."""
    found: dict[str, list[tuple[float, str, np.ndarray]]] = defaultdict(list)
    for entry in bag.messages({TF_TOPIC}):
        if entry.connection.msgtype in TF_TYPES:
            for transform in bag.read(entry).transforms:
                at = transform.transform.translation
                child = transform.child_frame_id.strip("/")
                stamp = entry.time if options.arrival else seconds(transform.header.stamp)
                found[transform.header.frame_id].append((stamp, child, np.array([at.x, at.y, at.z])))
    if found:
        parent = max(found, key=lambda frame: len({child for _, child, _ in found[frame]}))
        for stamp, child, position in found[parent]:
            yield stamp, Sample((child,), position[None])
