"""A bag with the node's outputs, read into what the viewer remembers."""

from __future__ import annotations

import threading

import circles
import numpy as np
import pytest

from siha_ros.replay.bag import BagError, BagWriter
from siha_ros.viewer.bag import BagReader
from siha_ros.viewer.scene import View
from siha_ros.viewer.scene_state import SceneState

TOPICS = ("/siha", "truth", "truth_graph")


def read(path, *topics):
    state = SceneState(keep_seconds=np.inf)
    with BagReader(path, state, *(topics or TOPICS)) as reader:
        reader.read(threading.Event())
    return state


def test_all_of_a_bag_is_remembered(tmp_path):
    state = read(circles.write_circles(tmp_path / "bag", seconds=4.0, hidden=(1.0, 3.0)))
    assert state.span() == pytest.approx((circles.BEGIN, circles.BEGIN + 4))
    assert state.losses() == pytest.approx([circles.BEGIN + 1])
    history = state.history()
    hidden = (history.time > circles.BEGIN + 0.95) & (history.time < circles.BEGIN + 2.95)
    np.testing.assert_allclose(history.error, np.where(hidden, 100 * circles.ERROR, 0), atol=1e-6)
    np.testing.assert_allclose(history.position_95, np.where(hidden, 80, 0))
    scene = state.scene(View(), at=circles.BEGIN + 2.03)
    np.testing.assert_allclose(scene.ghosts.positions, circles.at(2.0)[[circles.LOST], 0], atol=1e-9)
    assert len(scene.edges.starts) == 6
    assert len(scene.bands_hidden.triangles) == 20


def test_a_bag_without_outputs_says_how_to_get_them(tmp_path):
    path = circles.write_circles(tmp_path / "bag", seconds=0.5, hidden=(0.0, 0.0))
    with pytest.raises(BagError, match="no estimates on /other/states .*siha replay"):
        BagReader(path, SceneState(), "/other", "truth", "truth_graph")


def test_malformed_messages_are_left_out_and_said_once(tmp_path, capsys):
    with BagWriter(tmp_path / "bag", "mcap") as writer:
        for k in range(4):
            messages = circles.outputs(writer.new, circles.BEGIN + k, float(k), hidden=False)
            messages["/siha/graph"].probability = np.zeros(5, dtype=np.float32)
            for topic, message in messages.items():
                writer.write(topic, circles.KINDS[topic], round((circles.BEGIN + k) * 1e9), message)
    state = read(tmp_path / "bag")
    assert [name for _, name in state.agents()] == circles.NAMES
    assert len(state.scene(View()).edges.starts) == 0
    assert capsys.readouterr().err.count("/siha/graph: malformed message left out") == 1


def test_a_recording_of_other_clocks_begins_with_itself(tmp_path):
    with BagWriter(tmp_path / "bag", "mcap") as writer:
        for moment in (5.0, 7.0):
            stamp = writer.new("std_msgs/msg/Header")
            writer.write("/siha/note", "std_msgs/msg/Header", round(5e9), stamp)
            states = circles.outputs(writer.new, 1000 + moment, moment, hidden=False)["/siha/states"]
            writer.write("/siha/states", circles.KINDS["/siha/states"], round((moment + 1.5) * 1e9), states)
    assert read(tmp_path / "bag").origin == pytest.approx(1005.0 - 1.5)
