"""Estimates out: the publishers of the node's topics. What they say is made in messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rclpy.qos import QoSProfile
from rclpy.qos_overriding_options import QoSOverridingOptions

from siha_ros.node.inputs import message_type
from siha_ros.node.markers import MARKERS_TYPE, MarkerScene
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
    """The publishers of a configured node; a topic that nobody hears is not made."""

    def __init__(self, node: Node, *, body: bool, markers: MarkerScene) -> None:
        """Create the publishers: `body` gives ~/skeleton, else each agent has its ~/recovered/<agent>/pose."""
        self._node, self._markers = node, markers
        self._makers = {
            self._publisher(kind, f"~/{topic}"): make for topic, (kind, make) in output_messages(body=body).items()
        }
        self._recovered: dict[str, Publisher[Any]] | None = None if body else {}
        self._topics: dict[str, str] = {}
        self._marker_publisher = self._publisher(MARKERS_TYPE, "~/markers")

    def _publisher(self, kind: str, topic: str) -> Publisher[Any]:
        # Reliable, keep last 10; qos_overrides.<topic>.publisher.* parameters change it.
        return self._node.create_publisher(
            message_type(kind),
            topic,
            QoSProfile(depth=10),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def publish(self, scene: Scene) -> None:
        """Publish a scene on every topic that is heard; ValueError, and nothing published, where one is not finite."""
        require_finite(scene.estimate)
        for publisher, make in self._makers.items():
            if publisher.get_subscription_count():
                publisher.publish(make(scene))
        if self._recovered is not None:
            self._join(scene.estimate.names)
            for index, name in enumerate(scene.estimate.names):
                if self._recovered[name].get_subscription_count():
                    self._recovered[name].publish(recovered_message(scene, index))
        if self._marker_publisher.get_subscription_count():
            self._marker_publisher.publish(self._markers.message(scene))

    def _join(self, names: Sequence[str]) -> None:
        """Make the publishers of agents that are new, each on a topic of its own; where names come and go, those of
        agents long gone make room."""
        assert self._recovered is not None
        for name, topic in distinct_topics(names, self._topics).items():
            if topic != recovered_topic(name):
                self._node.get_logger().warning(
                    f"agent {name!r} is on ~/{topic}: another has ~/{recovered_topic(name)}"
                )
            self._topics[name] = topic
            self._recovered[name] = self._publisher(RECOVERED_TYPE, f"~/{topic}")
        if len(self._recovered) > MOST_RECOVERED:
            for name in self._recovered.keys() - set(names):
                self._node.destroy_publisher(self._recovered.pop(name))
                del self._topics[name]

    def clear_markers(self) -> None:
        """Take everything that was drawn off the screen."""
        self._marker_publisher.publish(self._markers.clear())

    def destroy(self) -> None:
        """Destroy the publishers."""
        for publisher in (*self._makers, *(self._recovered or {}).values(), self._marker_publisher):
            self._node.destroy_publisher(publisher)
