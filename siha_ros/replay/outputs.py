"""Estimates into a bag: the node's messages on the node's topics, at the time of recording of each estimate."""

from __future__ import annotations

import numpy as np

from siha_ros.node.markers import MARKERS_TYPE, MarkerScene
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
    """A pipeline's sink that writes to a bag.

    Args:
        writer: the bag.
        node: full name of the node whose topics these are.
        body: a ~/skeleton, else a ~/recovered/<agent>/pose for each agent.
        markers: makes ~/markers; None leaves them out.
        truth: is written on /truth for every estimate, where it is given: NaN where the bag does not hold the agent.

    Attributes:
        time_ns: time of recording of what is written next.
    """

    def __init__(
        self, writer: BagWriter, node: str, *, body: bool, markers: MarkerScene | None, truth: Truth | None = None
    ) -> None:
        self._writer, self._node, self._body, self._markers, self._truth = writer, node, body, markers, truth
        self._makers = output_messages(body=body)
        self._recovered: dict[str, str] = {}
        self.time_ns = 0

    def publish(self, scene: Scene) -> None:
        """Write all messages of a scene; ValueError, and nothing written, where one is not finite."""
        require_finite(scene.estimate)
        for topic, (kind, make) in self._makers.items():
            self._write(topic, kind, make(scene))
        if not self._body:
            self._recovered |= distinct_topics(scene.estimate.names, self._recovered)
            for index, name in enumerate(scene.estimate.names):
                self._write(self._recovered[name], RECOVERED_TYPE, recovered_message(scene, index))
        if self._markers is not None:
            self._write("markers", MARKERS_TYPE, self._markers.message(scene))
        if self._truth is not None:
            self._writer.write(TRUTH_TOPIC, TRUTH_TYPE, self.time_ns, truth_message(self._truth, scene))

    def clear_markers(self) -> None:
        """Write that everything drawn is to be deleted."""
        if self._markers is not None:
            self._write("markers", MARKERS_TYPE, self._markers.clear())

    def _write(self, topic: str, kind: str, message: object) -> None:
        self._writer.write(f"{self._node}/{topic}", kind, self.time_ns, message)


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
