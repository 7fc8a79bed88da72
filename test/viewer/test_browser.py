"""Geometry, colours and ports of the drawing in the browser, against values that can be worked out by hand."""

from __future__ import annotations

import socket

import numpy as np
import pytest

pytest.importorskip("viser", reason="needs viser, which draws in the browser")

from siha_ros.viewer.browser import BrowserView, free_port
from siha_ros.viewer.layers import linear_colours, rotation_from_z, unit_ball, unit_tube
from siha_ros.viewer.memory import Graph, States
from siha_ros.viewer.scene_state import SceneState


def rotate(quaternion, vector):
    w, axis = quaternion[0], quaternion[1:]
    return vector + 2 * np.cross(axis, np.cross(axis, vector) + w * vector)


def test_rotation_takes_the_z_axis_to_any_direction():
    directions = np.array([[0, 0, 2.0], [0, 0, -3], [1, 0, 0], [0, -1, 0], [1, -2, 3], [1e-9, 0, -1], [0, 0, 0]])
    quaternions = rotation_from_z(directions)
    np.testing.assert_allclose(np.linalg.norm(quaternions, axis=1), 1)
    for direction, quaternion in zip(directions[:-1], quaternions[:-1], strict=True):
        expected = direction / np.linalg.norm(direction)
        np.testing.assert_allclose(rotate(quaternion, np.array([0, 0, 1.0])), expected, atol=1e-6)
    np.testing.assert_allclose(quaternions[-1], [1, 0, 0, 0])


def test_linear_light_of_srgb():
    # black, white and middle grey: 188 is the sRGB value of half the light
    np.testing.assert_array_equal(linear_colours(np.array([[0, 255, 188]], dtype=np.uint8)), [[0, 255, 128]])


@pytest.mark.parametrize(
    ("mesh", "centre"), [(unit_ball(), [0, 0, 0]), (unit_tube(), [0, 0, 0.5]), (unit_tube(0.25), [0, 0, 0.5])]
)
def test_triangles_face_outwards(mesh, centre):
    vertices, triangles = mesh
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    solid = np.linalg.norm(normal, axis=1) > 1e-9
    assert (np.einsum("fi,fi->f", normal, (a + b + c) / 3 - centre)[solid] > 0).all()


def test_ball_and_tube_have_radius_and_height_1():
    np.testing.assert_allclose(np.linalg.norm(unit_ball()[0], axis=1), 1)
    tube, _ = unit_tube()
    np.testing.assert_allclose(np.linalg.norm(tube[:, :2], axis=1), 1)
    assert set(tube[:, 2]) == {0.0, 1.0}
    cone, _ = unit_tube(0.25)
    np.testing.assert_allclose(np.linalg.norm(cone[:, :2], axis=1), np.where(cone[:, 2] == 1, 0.25, 1))


def test_a_taken_port_is_passed_over():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < free_port("127.0.0.1", port) <= port + 100


def test_a_foreign_host_is_one_line():
    with pytest.raises(OSError, match="cannot serve on 192.0.2.1:8080"):
        free_port("192.0.2.1", 8080)


def test_the_focus_names_groups_where_there_are_several_and_keeps_its_agent():
    state = SceneState()
    view = BrowserView(state, port=free_port("127.0.0.1", 20000))

    def hear(group, moment):
        zero = np.zeros(2)
        positions = np.array([[0, 0, 0], [1, 0, 0.0]])
        status = np.ones(2, dtype=np.int8)
        state.add_states(States(moment, group, ["a", "b"], status, [""] * 2, positions, zero, zero), moment)
        view._fill_panel(moment, None)
        view._draw(state.scene(view._view), at_once=True)

    try:
        hear("one", 1.0)
        assert view._focus.options == ("all agents", "a", "b")
        view._focus_on_click(1)
        assert (view._focus.value, view._view.focus) == ("b", ("one", "b"))
        hear("two", 2.0)
        assert view._focus.options == ("all agents", "one/a", "one/b", "two/a", "two/b")
        assert (view._focus.value, view._view.focus) == ("one/b", ("one", "b"))
        view._focus_on_click(3)
        assert view._view.focus == ("two", "b")
        hear("one", 20.0)
        assert (view._focus.value, view._view.focus) == ("all agents", None)
    finally:
        view.stop()


def test_frames_update_the_handles_in_place():
    state = SceneState()
    view = BrowserView(state, port=free_port("127.0.0.1", 20000))
    try:
        view._server.get_clients = lambda: {}
        view.update()
        assert not view._agents.handle.visible, "nothing is drawn while nobody looks"

        class Client:
            def __init__(self):
                self.camera, self.aspect = self, 0.5

            def atomic(self):
                return view._server.atomic()

        client = Client()
        view._server.get_clients = lambda: {0: client}
        nodes = None
        for k, count in enumerate((3, 3, 5, 2, 3)):
            names = [f"r{i}" for i in range(count)]
            positions = np.array([[i, k, 0.0] for i in range(count)])
            status = np.full(count, 1, dtype=np.int8)
            zero = np.zeros(count)
            state.add_states(States(1.0 + k, "team", names, status, [""] * count, positions, zero, zero), float(k))
            state.add_graph(Graph(1.0 + k, "team", names, 1 - np.eye(count)))
            view.update()
            np.testing.assert_allclose(view._agents.handle.batched_positions, positions)
            assert len(view._edges._handle.batched_opacities) == count * (count - 1)
            assert view._labels.keys() == {f"team/{i}" for i in range(count)}
            labels = [name for name in view._server.scene._handle_from_node_name if "/labels/" in name]
            assert len(labels) == count, "no label stays of an agent that is gone"
            now = {name for name in view._server.scene._handle_from_node_name if "/labels/" not in name}
            assert nodes in (None, now), "no node is added or removed by a frame"
            nodes = now
        way, target = view._framed
        np.testing.assert_allclose(view._server.get_clients()[0].position, target + 2 * way)
    finally:
        view.stop()
