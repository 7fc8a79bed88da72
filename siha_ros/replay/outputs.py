"""Estimates into a bag: the node's messages on the node's topics, at the time of recording of each estimate."""

from __future__ import annotations

import numpy as np

from siha_ros.node.intake import Feed
from siha_ros.node.markers import IDS_OF_A_GROUP, MARKERS_TYPE, MarkerScene
from siha_ros.node.messages import (
    RECOVERED_TYPE,
    Scene,
    distinct_topics,
    output_messages,
    recovered_message,
    require_finite,
)
from siha_ros.replay.bag import BagWriter
from siha_ros.replay.truth import Truth

TRUTH_TOPIC, TRUTH_TYPE = "/truth", "siha_ros/msg/SkeletonFrame"  # where the viewer looks for it


class BagOutputs:
    """The node's topics in a bag; all groups share them, but for those of the recovered poses.

    Args:
        writer: the bag.
        node: full name of the node whose topics these are.
        body: a ~/skeleton, else a ~/recovered/<agent>/pose for each agent.
        size, edge_threshold: of MarkerScene.
        truth: is written on /truth for every estimate, where it is given: NaN where the bag does not hold the agent.

    Attributes:
        time_ns: time of recording of what is written next.
    """

    def __init__(
        self,
        writer: BagWriter,
        node: str,
        *,
        body: bool,
        size: float,
        edge_threshold: float,
        truth: Truth | None = None,
    ) -> None:
        self.writer, self.body, self.truth, self._node = writer, body, truth, node
        self._size, self._edge_threshold, self._opened = size, edge_threshold, 0
        self._groups: dict[str, GroupOutputs] = {}
        self.makers = output_messages(body=body)
        self.time_ns = 0

    def open(self, feed: Feed) -> GroupOutputs:
        """The outputs of one group."""
        first = self._opened * IDS_OF_A_GROUP
        self._opened += 1
        markers = MarkerScene(self._size, self._edge_threshold, self.writer.new, first)
        self._groups[feed.name] = GroupOutputs(self, feed.name if feed.named else "", markers)
        return self._groups[feed.name]

    def close(self, feed: Feed) -> None:
        """The group is gone, and what was drawn of it too."""
        self._groups.pop(feed.name).clear_markers()

    def write(self, topic: str, kind: str, message: object) -> None:
        """Write a message on one of the node's topics."""
        self.writer.write(f"{self._node}/{topic}", kind, self.time_ns, message)


class GroupOutputs:
    """A pipeline's sink: one group's messages on the node's topics."""

    def __init__(self, outputs: BagOutputs, group: str, markers: MarkerScene) -> None:
        self._outputs, self._group, self._markers = outputs, group, markers
        self._recovered: dict[str, str] = {}

    def publish(self, scene: Scene) -> None:
        """Write all messages of a scene; ValueError, and nothing written, where one is not finite."""
        require_finite(scene.estimate)
        out = self._outputs
        for topic, (kind, make) in out.makers.items():
            out.write(topic, kind, make(scene))
        if not out.body:
            self._recovered |= distinct_topics(scene.estimate.names, self._recovered, self._group)
            for index, name in enumerate(scene.estimate.names):
                out.write(self._recovered[name], RECOVERED_TYPE, recovered_message(scene, index))
        out.write("markers", MARKERS_TYPE, self._markers.message(scene))
        if out.truth is not None:
            out.writer.write(TRUTH_TOPIC, TRUTH_TYPE, out.time_ns, truth_message(out.truth, scene))

    def clear_markers(self) -> None:
        """Write that everything that was drawn of the group is to be deleted."""
        self._outputs.write("markers", MARKERS_TYPE, self._markers.erase())


def truth_message(truth: Truth, scene: Scene) -> object:
    """siha_ros/SkeletonFrame: where the agents of a scene truly are at its newest grid time."""
    names, newest = scene.estimate.names, scene.estimate.times[-1:]
    positions = scene.positions(np.stack([truth.at(name, newest) for name in names]))[:, 0]
    return scene.new(
        TRUTH_TYPE,
        header=scene.header,
        group=scene.group,
        joints=list(names),
        positions=positions.ravel(),
        tracked=scene.estimate.observed[:, -1],
    )
