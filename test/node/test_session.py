"""What one activation does by itself, without DDS: stand-ins for the node and for TF."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from test_node_outputs import scene

from siha_ros.node.discovery import Place
from siha_ros.node.inputs import make_input
from siha_ros.node.markers import MarkerScene
from siha_ros.node.outputs import GroupOutputs
from siha_ros.node.session import Session


def bare(**attributes) -> Session:
    """A Session that nobody has activated, with these attributes."""
    session = Session.__new__(Session)
    vars(session).update(attributes)
    return session


def test_companion_topics_are_subscribed_to_where_they_are_and_what_is_missing_is_a_trouble_while_they_are():
    subscribed = []

    def subscribe(place, type_name, read, latched):
        if type_name.startswith("hri_msgs"):
            raise ImportError("messages of type hri_msgs/msg/IdsList need the ROS package hri_msgs")
        subscribed.append((place.topic, latched))

    node = SimpleNamespace(resolve_topic_name=lambda topic: topic)
    session = bare(_node=node, _sources={"": make_input("tf2_msgs/msg/TFMessage")}, _subscribe=subscribe)
    assert session._accompany(Place("/tf"), {"/tf": []}) == {} and not subscribed
    assert session._accompany(Place("/tf"), {"/tf": [], "/tf_static": []}) == {} and subscribed == [
        ("/tf_static", True)
    ]
    troubles = session._accompany(Place("/tf"), {"/humans/bodies/tracked": []})
    assert list(troubles) == ["type of /humans/bodies/tracked"]
    assert troubles["type of /humans/bodies/tracked"].startswith("/humans/bodies/tracked is not read: messages of type")


def test_topics_that_nobody_publishes_on_are_left():
    destroyed, publishers = [], {"/a/pose": 1}
    node = SimpleNamespace(
        count_publishers=lambda topic: publishers.get(topic, 0), destroy_subscription=destroyed.append
    )
    topics = {topic: topic for topic in ("/a/pose", "/b/pose", "/listed/pose")}
    parameters = SimpleNamespace(groups_forget_after=0.0)
    session = bare(_node=node, _parameters=parameters, _subscriptions=topics, _gone={}, _unfit={"/b/pose": ()})
    session._leave({"/listed/pose"})
    assert not destroyed  # not long enough yet
    session._leave({"/listed/pose"})
    assert destroyed == ["/b/pose"] and list(session._subscriptions) == ["/a/pose", "/listed/pose"]
    assert not session._gone and not session._unfit


def test_tf_is_forgotten_when_a_window_starts_anew():
    class Transforms:
        cleared = 0

        def clear(self):
            self.cleared += 1

        def __call__(self, target, source, stamp):
            return target, source, stamp

    feed, transforms = SimpleNamespace(window=SimpleNamespace(resets=0)), Transforms()
    session = bare(intake=SimpleNamespace(feeds={"team": feed}), _transforms=None, _resets=0, _tf_is_wanted=False)
    with pytest.raises(LookupError):
        session._lookup("map", "camera", 10.0)
    assert session._tf_is_wanted
    session._transforms = transforms
    for resets, cleared in ((0, 0), (1, 1), (1, 1), (2, 2)):
        feed.window.resets = resets
        assert session._lookup("map", "camera", 10.0) == ("map", "camera", 10.0) and transforms.cleared == cleared


def test_estimate_that_ends_after_all_was_closed_is_not_published():
    class Publisher:
        def __init__(self):
            self.publish, self.sent = lambda message: self.sent.append(message), []

        def get_subscription_count(self):
            return 1

    states, markers = Publisher(), Publisher()
    outputs = SimpleNamespace(body=True, makers={states: lambda scene: "states"}, markers=markers, alone=True)
    group = GroupOutputs(outputs, "", 0, MarkerScene(0.1, 0.5))
    group.publish(scene())
    assert len(states.sent) == len(markers.sent) == 1
    group.close()
    group.publish(scene())
    group.clear_markers()
    assert len(states.sent) == 1 and len(markers.sent) == 2  # the second deletes the first
