"""Frames of /tf as agents: bodies of ROS4HRI, whose frames are "<link>_<id>", and frames that are listed by name.

A link that is not seen is no longer refreshed. A body's frames hang on one another; their poses are given in the first
frame above them that is none of the body's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from siha_ros.node.inputs.rotations import Floats, product, rotated
from siha_ros.node.inputs.sample import (
    Companion,
    Input,
    MalformedMessage,
    Sample,
    StreamNames,
    points,
    quaternions,
    seconds,
)

TF_TYPE = "tf2_msgs/msg/TFMessage"
IDS_TYPE = "hri_msgs/msg/IdsList"
FRESH = 0.2  # s: what a link hangs on was refreshed no longer ago than this
MOST_LINKS = 10_000  # frames that are kept
DEEPEST = 100  # links in a chain; more are a loop


class Link(NamedTuple):
    """A frame in its parent. stamp: when (s), infinite where it never changes."""

    parent: str
    stamp: float
    position: Floats
    orientation: Floats


class TransformsInput(Input):
    """tf2_msgs/TFMessage. Of a frame whose name is known the name is the agent's; of "<link>_<id>" with a known link,
    the link is the agent's name and the id the body's.

    Where hri_msgs/IdsList has been heard, only the bodies that it lists are taken.
    """

    type_name = TF_TYPE
    topic = "/tf"

    def __init__(self, names: StreamNames | None = None) -> None:
        super().__init__(names)
        self._links: dict[str, Link] = {}
        self._fixed: set[str] = set()
        self._tracked: set[str] | None = None
        self.companions = [
            Companion("/tf_static", TF_TYPE, self._read_static, latched=True),
            Companion("/humans/bodies/tracked", IDS_TYPE, self._read_ids),
        ]

    def read(self, message: Any, agent: str) -> list[Sample]:
        """The links that the message refreshes, one sample for each body. MalformedMessage where no name is known."""
        if not self.names.known:
            raise MalformedMessage("frames of /tf cannot be told from others: expected their names in input.agents")
        if len(self._links) > MOST_LINKS:
            self._make_room()
        moved = [self._put(transform, seconds(transform.header.stamp)) for transform in message.transforms]
        carried = [frame for frame in self._fixed if self._carrier(frame) in moved]
        bodies: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for frame in (*moved, *carried):
            body, name = self._agent(frame)
            if name and self._is_tracked(body) and (root := self._root(frame, body)):
                bodies[body, root][name] = frame
        samples = (self._sample(body, root, frames) for (body, root), frames in bodies.items())
        return [sample for sample in samples if sample is not None]

    def _read_static(self, message: Any, agent: str) -> list[Sample]:
        frames = [self._put(transform, np.inf) for transform in message.transforms]
        self._fixed |= {frame for frame in frames if self._agent(frame)[1]}
        return []

    def _read_ids(self, message: Any, agent: str) -> list[Sample]:
        self._tracked = set(message.ids)
        return []

    def _put(self, transform: Any, stamp: float) -> str:
        """Keep a geometry_msgs/TransformStamped, and give its child frame."""
        child, parent = transform.child_frame_id.strip("/"), transform.header.frame_id.strip("/")
        place = transform.transform
        self._links[child] = Link(parent, stamp, points([place.translation])[0], quaternions([place.rotation])[0])
        return child

    def _make_room(self) -> None:
        """Forget the older half of the frames: those of bodies that came and went."""
        newest = sorted(self._links, key=lambda frame: self._links[frame].stamp)[MOST_LINKS // 2 :]
        self._links = {frame: self._links[frame] for frame in newest}
        self._fixed &= self._links.keys()

    def _carrier(self, frame: str) -> str:
        """The frame that moves a fixed one: the first above it that is not fixed itself."""
        for _ in range(DEEPEST):
            link = self._links.get(frame)
            if link is None or link.stamp < np.inf:
                break
            frame = link.parent
        return frame

    def _is_tracked(self, body: str) -> bool:
        return not body or self._tracked is None or body in self._tracked

    def _agent(self, frame: str) -> tuple[str, str]:
        """Body and agent of a frame, both empty where it is none."""
        known = self.names.known
        if frame in known:
            return "", frame
        link, _, body = frame.rpartition("_")
        return (body, link) if link in known else ("", "")

    def _root(self, frame: str, body: str) -> str | None:
        """The first frame above that is not the body's; for a frame known by its whole name, its parent. None where it
        is not known yet, and of a frame that hangs on itself."""
        for _ in range(DEEPEST):
            link = self._links.get(frame)
            if link is None:
                return None
            frame = link.parent
            if not body or not frame.endswith(f"_{body}"):
                return frame
        return None

    def _sample(self, body: str, root: str, frames: Mapping[str, str]) -> Sample | None:
        """The frames, by agent, in the root; None where nothing on the way there ever moves, which has no stamp."""
        placed = [self._placed(frame, root) for frame in frames.values()]
        stamps = [link.stamp for link in (*placed, *(self._links[frame] for frame in frames.values()))]
        newest = max((stamp for stamp in stamps if stamp < np.inf), default=None)
        if newest is None:
            return None
        stale = [link.stamp < newest - FRESH for link in placed]
        positions = np.array([link.position for link in placed])
        positions[stale] = np.nan
        return Sample(
            list(frames),
            positions,
            orientations=np.array([link.orientation for link in placed]),
            stamp=newest,
            frame_id=root,
            group=body,
        )

    def _placed(self, frame: str, root: str) -> Link:
        """A frame in the root; its stamp is the oldest on the way."""
        link = self._links[frame]
        _, stamp, position, orientation = link
        while link.parent != root:
            link = self._links[link.parent]
            stamp = min(stamp, link.stamp)
            position = link.position + rotated(position, link.orientation)
            orientation = product(link.orientation, orientation)
        return Link(root, stamp, position, orientation)
