"""Estimates out: the publishers of the node's topics. What they say is made in messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rclpy.qos import QoSProfile
from rclpy.qos_overriding_options import QoSOverridingOptions

from siha_ros.node.inputs import message_type
from siha_ros.node.intake import Feed
from siha_ros.node.markers import IDS_OF_A_GROUP, MARKERS_TYPE, MarkerScene
from siha_ros.node.messages import (
    RECOVERED_TYPE,
    Scene,
    distinct_topics,
    output_messages,
    recovered_message,
    recovered_topic,
    require_finite,
)

if TYPE_CHECKING:
    from rclpy.node import Node
    from rclpy.publisher import Publisher

MOST_RECOVERED = 256  # publishers of agents that are kept, also while a window that starts anew is without them


class Outputs:
    """The publishers of a configured node; a topic that nobody hears is not made. All groups share them, but for
    those of the recovered poses."""

    def __init__(self, node: Node, *, body: bool, size: float, edge_threshold: float) -> None:
        """Create the publishers: `body` gives ~/skeleton, else each agent has its ~/recovered/<agent>/pose. The others
        are for MarkerScene."""
        self.node, self.body, self._size, self._edge_threshold = node, body, size, edge_threshold
        self.makers = {
            self.publisher(kind, f"~/{topic}"): make for topic, (kind, make) in output_messages(body=body).items()
        }
        self.markers = self.publisher(MARKERS_TYPE, "~/markers")
        self._groups: dict[str, GroupOutputs] = {}

    def publisher(self, kind: str, topic: str) -> Publisher[Any]:
        """Reliable, keep last 10; qos_overrides.<topic>.publisher.* parameters change it."""
        return self.node.create_publisher(
            message_type(kind),
            topic,
            QoSProfile(depth=10),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def open(self, feed: Feed) -> GroupOutputs:
        """The outputs of one group."""
        taken = {outputs.slot for outputs in self._groups.values()}
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        markers = MarkerScene(self._size, self._edge_threshold, first=slot * IDS_OF_A_GROUP)
        self._groups[feed.name] = GroupOutputs(self, feed.name if feed.named else "", slot, markers)
        return self._groups[feed.name]

    def close(self, feed: Feed) -> None:
        """The group is gone: its markers, and the publishers that it had alone, too."""
        self._groups.pop(feed.name).close()

    @property
    def alone(self) -> bool:
        """Whether there is but one group."""
        return len(self._groups) == 1

    def clear_markers(self) -> None:
        """Take everything that was drawn off the screen."""
        self.markers.publish(MarkerScene(self._size, self._edge_threshold).clear())

    def close_groups(self) -> None:
        """All groups are gone."""
        while self._groups:
            self._groups.popitem()[1].close()

    def destroy(self) -> None:
        """Destroy the publishers."""
        self.close_groups()
        for publisher in (*self.makers, self.markers):
            self.node.destroy_publisher(publisher)


class GroupOutputs:
    """A pipeline's sink: one group's messages on the node's topics."""

    def __init__(self, outputs: Outputs, group: str, slot: int, markers: MarkerScene) -> None:
        self._outputs, self._group, self.slot, self._markers = outputs, group, slot, markers
        self._recovered: dict[str, Publisher[Any]] = {}
        self._topics: dict[str, str] = {}
        self._closed = False

    def publish(self, scene: Scene) -> None:
        """Publish a scene on every topic that is heard; ValueError, and nothing published, where one is not finite.

        Nothing once it is closed: an estimate may have been under way for longer than anybody waits.
        """
        if self._closed:
            return
        require_finite(scene.estimate)
        for publisher, make in self._outputs.makers.items():
            if publisher.get_subscription_count():
                publisher.publish(make(scene))
        if not self._outputs.body:
            self._join(scene.estimate.names)
            for index, name in enumerate(scene.estimate.names):
                if self._recovered[name].get_subscription_count():
                    self._recovered[name].publish(recovered_message(scene, index))
        if self._outputs.markers.get_subscription_count():
            self._outputs.markers.publish(self._markers.message(scene))

    def _join(self, names: Sequence[str]) -> None:
        """Make the publishers of agents that are new, each on a topic of its own; where names come and go, those of
        agents long gone make room."""
        for name, topic in distinct_topics(names, self._topics, self._group).items():
            plain = recovered_topic(name, group=self._group)
            if topic != plain:
                self._outputs.node.get_logger().warning(f"agent {name!r} is on ~/{topic}: another has ~/{plain}")
            self._topics[name] = topic
            self._recovered[name] = self._outputs.publisher(RECOVERED_TYPE, f"~/{topic}")
        if len(self._recovered) > MOST_RECOVERED:
            for name in self._recovered.keys() - set(names):
                self._outputs.node.destroy_publisher(self._recovered.pop(name))
                del self._topics[name]

    def clear_markers(self) -> None:
        """Take what was drawn of the group off the screen; all that is there where it is the only one."""
        if self._closed:
            return
        self._outputs.markers.publish(self._markers.clear() if self._outputs.alone else self._markers.erase())

    def close(self) -> None:
        """Delete what was drawn, destroy the publishers of the recovered poses."""
        self._closed = True
        self._outputs.markers.publish(self._markers.erase())
        for publisher in self._recovered.values():
            self._outputs.node.destroy_publisher(publisher)
