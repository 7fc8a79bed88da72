"""The Foxglove layout names topics and fields that exist, and shows every panel that it configures."""

from __future__ import annotations

import json
import re

import pytest
from rosbags.interfaces import Nodetype

from siha_ros.replay.bag import own_types
from siha_ros.resources import config_path

LAYOUT = json.loads(config_path("siha.foxglove.json").read_text())
TOPICS = {"/siha/states": "siha_ros/msg/ReconstructedStates"}
PATHS = [
    path
    for panel in LAYOUT["configById"].values()
    for path in [panel.get("topicPath"), *(line["value"] for line in panel.get("paths", []))]
    if path
]


def panels(node):
    return [node] if isinstance(node, str) else panels(node["first"]) + panels(node["second"])


def kind_of(kind, field):
    """Type of a field of a message; that of the entries for an array."""
    node, detail = dict(own_types().fielddefs[kind][1])[field]
    if node in (Nodetype.ARRAY, Nodetype.SEQUENCE):
        node, detail = detail[0]
    return detail if node == Nodetype.NAME else detail[0]


def test_all_panels_are_shown_once():
    assert sorted(panels(LAYOUT["layout"])) == sorted(LAYOUT["configById"])


@pytest.mark.parametrize("path", PATHS)
def test_message_paths_exist(path):
    topic, *fields = path.split(".")
    kind = TOPICS[topic]
    for field in fields:
        name, filtered = re.fullmatch(r"(\w+)(?:\[:\])?(?:\{(\w+)(?:==|>=)\d\})?", field).groups()
        kind = kind_of(kind, name)
        if filtered:
            assert kind_of(kind, filtered) == "uint8"
