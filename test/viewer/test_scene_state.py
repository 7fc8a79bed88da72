"""SceneState: errors, rates and graph accuracy against values worked out by hand, and what is drawn of it."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.viewer.memory import Graph, Paths, States, Truth, truth_at
from siha_ros.viewer.scene import EDGE_COLOUR, EDGE_HIDDEN_COLOUR, STATUS_COLOURS, View
from siha_ros.viewer.scene_state import EdgeRow, SceneState
from siha_ros.window.types import Status

NAMES = ["a", "b", "c"]
SEEN = [Status.VISIBLE] * 3
C_HIDDEN = [Status.VISIBLE, Status.VISIBLE, Status.HIDDEN]


def states(stamp=1.0, status=C_HIDDEN, positions=None, names=NAMES, group="team", **values):
    count = len(names)
    if positions is None:
        positions = [[float(i), 0.0, 0.0] for i in range(count)]
    return States(
        stamp=stamp,
        group=group,
        names=list(names),
        status=np.array(status, dtype=np.int8),
        reason=["silent" if value == Status.HIDDEN else "" for value in status],
        positions=np.array(positions, dtype=float),
        position_95=np.where(np.array(status) == Status.HIDDEN, 0.3, 0.0),
        since_seen=np.where(np.array(status) == Status.HIDDEN, 2.5, 0.0),
        **values,
    )


def truth(stamp, positions, names=NAMES, group="truth"):
    return Truth(stamp, group, list(names), np.array(positions, dtype=float))


def graph(probability, names=NAMES, group="team"):
    return Graph(1.0, group, list(names), np.array(probability, dtype=float))


def test_nothing_to_draw_before_the_first_states():
    state = SceneState()
    assert state.scene(View()) is None
    assert state.history() is None
    assert state.summary(now=5.0).silent is None


def test_truth_is_linear_between_frames_and_absent_outside():
    frames = [truth(1.0, [[0, 0, 0], [0, 0, 0], [0, 0, 0]]), truth(2.0, [[4, 0, 0], [0, 2, 0], [0, 0, 1]])]
    at = truth_at(frames, 1.25, ["c", "unknown", "a"])
    np.testing.assert_allclose(at, [[0, 0, 0.25], [np.nan] * 3, [1, 0, 0]])
    assert truth_at(frames, 0.9, NAMES) is None
    assert truth_at(frames, 2.1, NAMES) is None
    np.testing.assert_allclose(truth_at(frames, 2.1, ["a"], tolerance=0.2), [[4, 0, 0]])
    np.testing.assert_allclose(truth_at(frames[:1], 1.0, ["a"]), [[0, 0, 0]])


def test_error_waits_for_the_truth_and_is_taken_at_the_stamp_of_the_states():
    state = SceneState()
    state.add_truth(truth(0.9, [[0, 0, 0], [1, 0, 0], [2.0, 0.0, 0]]))
    state.add_states(states(stamp=1.0), arrival=10.0)
    assert state.summary(now=10.0).error is None
    state.add_truth(truth(1.1, [[0, 0, 0], [1, 0, 0], [2.0, 0.8, 0]]))
    summary = state.summary(now=10.0)
    (row,) = summary.rows
    assert (row.name, row.status, row.reason, row.since_seen) == ("c", Status.HIDDEN, "silent", 2.5)
    assert row.error == pytest.approx(40.0)
    assert row.position_95 == pytest.approx(30.0)
    assert summary.error == pytest.approx(40.0)
    history = state.history()
    np.testing.assert_allclose(history.error, [40.0])
    np.testing.assert_allclose(history.position_95, [30.0])


def test_error_of_several_hidden_agents_is_their_root_mean_square():
    state = SceneState()
    hidden = [Status.VISIBLE, Status.HIDDEN, Status.HIDDEN]
    state.add_states(states(status=hidden), arrival=0.0)
    state.add_truth(truth(1.0, [[0, 0, 9], [1, 0.03, 0], [2, 0, 0.04]]))
    state.add_states(states(stamp=1.0, status=hidden), arrival=0.1)
    assert state.summary(now=0.1).error == pytest.approx(np.sqrt((3.0**2 + 4.0**2) / 2))


def test_history_is_zero_while_all_are_seen_and_has_no_error_without_truth():
    state = SceneState()
    for k in range(5):
        state.add_states(states(stamp=1.0 + k, status=SEEN, latency=0.02), arrival=float(k))
    history = state.history()
    np.testing.assert_allclose(history.time, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(history.hidden, 0)
    np.testing.assert_allclose(history.position_95, 0)
    np.testing.assert_allclose(history.latency, 20)
    assert history.error is None


def test_memory_is_bounded():
    state = SceneState(trail_seconds=1.0, keep_seconds=2.0)
    for k in range(1000):
        state.add_states(states(stamp=0.1 * k), arrival=0.1 * k)
        state.add_truth(truth(0.1 * k, [[0, 0, 0], [1, 0, 0], [2, 0, 0]]))
    assert len(state.history().time) <= 22
    assert state.span() == pytest.approx((97.9, 99.9))
    assert len(state.scene(View()).trails.points) <= 3 * 11
    assert len(state._truth["truth"]) <= 22
    assert len(state._tracks["team"].unscored) == 0


def test_states_that_wait_for_a_truth_that_stopped_do_not_pile_up():
    state = SceneState()
    state.add_truth(truth(0.0, [[0, 0, 0]] * 3))
    for k in range(1000):
        state.add_states(states(stamp=1.0 + 0.01 * k), arrival=0.01 * k)
    assert len(state._tracks["team"].unscored) <= 100
    assert len(state.history().time) >= 900


def test_rate_and_silence():
    state = SceneState()
    for k in range(41):
        state.add_states(states(stamp=0.05 * k), arrival=100 + 0.05 * k)
    assert state.summary(now=102.0).rate == pytest.approx(20.0)
    late = state.summary(now=112.0)
    assert late.silent == pytest.approx(10.0)
    assert late.rate == 0.0


def test_older_states_are_dropped_and_a_clock_that_jumps_back_starts_anew():
    state = SceneState()
    state.add_states(states(stamp=10.0), arrival=0.0)
    state.add_states(states(stamp=9.9, status=SEEN), arrival=0.1)
    assert len(state.summary(now=0.1).rows) == 1
    state.add_states(states(stamp=0.0, status=SEEN), arrival=0.2)
    assert state.summary(now=0.2).rows == []
    np.testing.assert_allclose(state.history().time, [0.0])


def test_graph_accuracy_counts_both_directions_and_splits_by_hidden():
    state = SceneState()
    state.add_states(states(), arrival=0.0)
    state.add_truth_graph(graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], group="truth"))
    # a-b right both ways; a-c right one way, b-c wrong one way: 2 of 2 seen, 2 of 4 touching c
    state.add_graph(graph([[0, 0.9, 0.8], [0.7, 0, 0.6], [0.2, 0.1, 0]]))
    summary = state.summary(now=0.0)
    assert summary.edges_seen == pytest.approx(100.0)
    assert summary.edges_hidden == pytest.approx(50.0)


def test_graph_accuracy_is_unknown_for_other_agents_than_the_truth_has():
    state = SceneState()
    state.add_states(states(), arrival=0.0)
    state.add_graph(graph(np.zeros((3, 3))))
    state.add_truth_graph(graph(np.zeros((3, 3)), names=["a", "b", "x"]))
    assert state.summary(now=0.0).edges_seen is None


def test_agents_spread_and_ghosts():
    state = SceneState()
    state.add_truth(truth(1.0, [[0, 0, 0], [1, 0, 0], [2, 0.5, 0]]))
    state.add_states(states(), arrival=0.0)
    scene = state.scene(View())
    np.testing.assert_allclose(scene.agents.positions, [[0, 0, 0], [1, 0, 0], [2, 0, 0]])
    assert [tuple(colour) for colour in scene.agents.colours] == [
        STATUS_COLOURS[Status.VISIBLE],
        STATUS_COLOURS[Status.VISIBLE],
        STATUS_COLOURS[Status.HIDDEN],
    ]
    np.testing.assert_allclose(scene.spread.positions, [[2, 0, 0]])
    np.testing.assert_allclose(scene.spread.radii, [0.3])
    np.testing.assert_allclose(scene.ghosts.positions, [[2, 0.5, 0]])
    np.testing.assert_allclose(scene.misses.points, [[[2, 0, 0], [2, 0.5, 0]]])
    np.testing.assert_allclose(scene.centre, [1, 0, 0])
    assert scene.ground == pytest.approx(-scene.agents.radii[0])


def test_agents_never_seen_or_not_finite_are_not_drawn():
    state = SceneState()
    lost = states(
        status=[Status.VISIBLE, Status.UNKNOWN, Status.VISIBLE], positions=[[1, 2, 0], [0, 0, 0], [np.nan, 0, 0]]
    )
    state.add_states(lost, arrival=0.0)
    scene = state.scene(View())
    np.testing.assert_allclose(scene.agents.positions, [[1, 2, 0]])
    assert [label.text for label in scene.labels.values()] == ["a"]


def test_edges_run_from_the_sender_to_the_receiver_and_obey_threshold_and_focus():
    state = SceneState()
    state.add_states(states(), arrival=0.0)
    state.add_graph(graph([[0, 0.9, 0.0], [0.0, 0, 0.6], [0.3, 0.0, 0]]))
    edges = state.scene(View(threshold=0.5)).edges
    np.testing.assert_allclose(edges.starts, [[0, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(edges.ends, [[1, 0, 0], [2, 0, 0]])
    assert [tuple(colour) for colour in edges.colours] == [EDGE_COLOUR, EDGE_HIDDEN_COLOUR]
    assert edges.radii[0] > edges.radii[1]
    assert edges.opacities[0] > edges.opacities[1]
    assert len(state.scene(View(threshold=0.2)).edges.starts) == 3
    assert len(state.scene(View(threshold=0.6)).edges.starts) == 1, "over the threshold, not at it"
    assert len(state.scene(View(threshold=0.0)).edges.starts) == 3, "edges of probability 0 are no edges"
    np.testing.assert_allclose(state.scene(View(focus=("team", "c"))).edges.starts, [[1, 0, 0]])
    assert len(state.scene(View(focus=("team", "gone"))).edges.starts) == 2
    assert len(state.scene(View(edges=False)).edges.starts) == 0


def test_graph_in_another_order_than_the_states():
    state = SceneState()
    state.add_states(states(), arrival=0.0)
    state.add_graph(graph([[0, 1], [0, 0]], names=["c", "a"]))
    edges = state.scene(View()).edges
    np.testing.assert_allclose(edges.starts, [[2, 0, 0]])
    np.testing.assert_allclose(edges.ends, [[0, 0, 0]])


def test_forecast_band_is_one_deviation_wide_on_each_side():
    state = SceneState()
    state.add_states(states(status=SEEN), arrival=0.0)
    path = np.array([[[0.1, 0, 0], [0.2, 0, 0]]])
    covariance = np.array([[np.diag([9.0, 0.04]), np.diag([9.0, 0.16])]])
    state.add_forecast(Paths(1.0, "team", ["a"], np.array([1.1, 1.2]), path, covariance))
    scene = state.scene(View())
    np.testing.assert_allclose(scene.forecast.points, [[[0, 0, 0], [0.1, 0, 0]], [[0.1, 0, 0], [0.2, 0, 0]]])
    left, right = scene.bands_seen.vertices[0::2], scene.bands_seen.vertices[1::2]
    np.testing.assert_allclose(np.abs(right - left)[:, 1], [0.0, 0.4, 0.8], atol=1e-12)
    assert scene.bands_seen.triangles.shape == (4, 3)
    assert scene.bands_seen.triangles.max() == 5
    assert len(scene.bands_hidden.triangles) == 0


def test_forecast_steps_that_have_passed_are_not_drawn():
    state = SceneState()
    path = np.array([[[0.1, 0, 0], [0.2, 0, 0]]])
    state.add_states(states(stamp=1.0, status=SEEN), arrival=0.0)
    state.add_forecast(Paths(1.0, "team", ["a"], np.array([1.1, 1.2]), path, np.zeros((1, 2, 2, 2))))
    state.add_states(states(stamp=1.15, status=SEEN), arrival=0.1)
    np.testing.assert_allclose(state.scene(View()).forecast.points, [[[0, 0, 0], [0.2, 0, 0]]])


def test_the_trail_of_a_hidden_agent_is_the_window_that_the_model_believes():
    state = SceneState(trail_seconds=1.0)
    state.add_states(states(stamp=0.9), arrival=0.0)
    state.add_states(states(stamp=1.0), arrival=0.1)
    path = np.array([[[5, 0, 0], [6, 0, 0], [7, 0, 0]]], dtype=float)
    state.add_window(Paths(1.0, "team", ["c"], np.array([-1.0, 0.5, 1.0]), path, np.zeros((1, 0, 2, 2))))
    points = state.scene(View()).trails.points
    assert len(points) == 3
    np.testing.assert_allclose(points[2], [[6, 0, 0], [7, 0, 0]])


def test_a_pause_in_the_stream_breaks_the_trails():
    state = SceneState()
    for stamp, x in ((1.0, 0.0), (1.1, 0.1), (3.0, 9.0), (3.1, 9.1)):
        state.add_states(states(stamp=stamp, names=["a"], status=[1], positions=[[x, 0, 0]]), arrival=stamp)
    np.testing.assert_allclose(state.scene(View()).trails.points, [[[9.0, 0, 0], [9.1, 0, 0]]])


def test_labels_tell_since_when_and_how_far():
    state = SceneState()
    state.add_states(states(), arrival=0.0)
    texts = [label.text for label in state.scene(View()).labels.values()]
    assert texts == ["a", "b", "c · hidden 2.5 s · ±30 cm"]
    assert state.scene(View(names=False)).labels == {}


def test_a_body_has_bones_and_marks_its_hidden_limb_and_the_ends_only():
    from siha_ros.viewer.skeletons import CMU_BONES

    names = sorted({joint for bone in CMU_BONES for joint in bone})
    assert len(names) == 31
    assert len(CMU_BONES) == 30, "a tree of 31 joints"
    hidden = {"lwrist", "lhand", "lfingers", "lthumb", "rtibia"}
    status = [Status.HIDDEN if name in hidden else Status.VISIBLE for name in names]
    state = SceneState()
    state.add_states(states(status=status, names=names, group="body"), arrival=0.0)
    probability = 0.9 * (1 - np.eye(31))
    probability[names.index("head")] = 1.0
    probability[names.index("root"), names.index("rtibia")] = 0.95
    state.add_graph(Graph(1.0, "body", names, probability))
    scene = state.scene(View())
    assert len(scene.bones.starts) == 30
    orange = [tuple(colour) == STATUS_COLOURS[Status.HIDDEN] for colour in scene.bones.colours]
    assert sum(orange) == 6, "radius-wrist, wrist-hand, hand-fingers, wrist-thumb, femur-tibia, tibia-foot"
    assert len(scene.edges.starts) == 3 * 5, "the strongest on each hidden joint"
    on_tibia = scene.edges.ends[:, 0] == names.index("rtibia")
    assert on_tibia.sum() == 3
    assert {float(names.index("head")), float(names.index("root"))} < set(scene.edges.starts[on_tibia, 0])
    assert len(state.scene(View(focus=("body", "ltibia"))).edges.starts) == 60
    assert [label.text.split(" ")[0] for label in scene.labels.values()] == ["lfingers", "rtibia"], "one of each limb"


def test_two_groups_are_drawn_together():
    state = SceneState()
    path = np.array([[[0.1, 0, 0], [0.2, 0, 0]]])
    for group, offset in (("one", 0.0), ("two", 10.0)):
        moved = [[offset + i, 0, 0] for i in range(3)]
        state.add_states(states(group=group, status=SEEN, positions=moved), arrival=0.0)
        state.add_forecast(Paths(1.0, group, ["a"], np.array([1.1, 1.2]), path + offset, np.zeros((1, 2, 2, 2))))
    scene = state.scene(View())
    np.testing.assert_allclose(scene.agents.positions[:, 0], [0, 1, 2, 10, 11, 12])
    np.testing.assert_allclose(scene.centre, [6, 0, 0])
    assert scene.extent >= 6
    assert len(scene.labels) == 6
    assert scene.bands_seen.triangles.max() == len(scene.bands_seen.vertices) - 1
    assert state.summary(now=0.0).agents == 6
    assert state.summary(now=0.0).source == "one, two"


def test_a_group_that_falls_silent_while_another_speaks_is_gone():
    state = SceneState(keep_seconds=20.0)
    state.add_truth(truth(0.0, [[0, 0, 0]] * 3, group="gone"))
    for k in range(31):
        state.add_states(states(stamp=float(k), group="here", names=["x"], status=[1]), arrival=100.0 + k)
        if k <= 3:
            state.add_states(states(stamp=float(k), group="gone", status=SEEN), arrival=100.0 + k)
        drawn = len(state.scene(View()).agents.positions)
        assert drawn == (4 if k <= 3 + 5 else 1), f"{k} s"
        assert state.summary(now=100.0 + k).agents == drawn
        if k == 15:
            assert state.agents() == [("here", "x")]
            assert [len(state.scene(View(), at=at).labels) for at in (2.0, 8.0, 9.0)] == [4, 4, 1]
    assert list(state._tracks) == ["here"], "it is forgotten as what is older than the memory"
    assert not state._truth
    assert state.span() == (10.0, 30.0)


def test_groups_that_are_silent_together_or_have_clocks_apart_are_not_gone():
    state = SceneState(keep_seconds=20.0)
    for k in range(30):
        state.add_states(states(stamp=1000.0 + k, group="late"), arrival=float(k))
        state.add_states(states(stamp=2000.0 + k, group="early"), arrival=float(k))
    assert state.summary(now=500.0).agents == 6


def test_groups_of_a_time_that_is_to_come_again_are_forgotten():
    state = SceneState()
    for group in ("gone", "here"):
        state.add_states(states(stamp=50.0, group=group), arrival=0.0)
    state.add_states(states(stamp=1.0, group="here"), arrival=1.0)
    assert state.span() == (1.0, 1.0)
    assert state.summary(now=1.0).agents == 3


def test_a_group_of_a_recording_is_shown_until_shortly_after_its_last_states():
    state = SceneState(keep_seconds=np.inf)
    for k in range(20):
        state.add_states(states(stamp=float(k), group="all along"))
        if k <= 10:
            state.add_states(states(stamp=float(k), group="half"))
    assert [len(state.scene(View(), at=float(at)).names) for at in (0, 10, 15, 16)] == [6, 6, 6, 3]


def test_agents_of_one_name_in_two_groups_are_told_apart():
    state = SceneState()
    for group, x in (("one", 0.0), ("two", 10.0)):
        moved = [[x + i, 0, 0] for i in range(3)]
        state.add_states(states(group=group, status=SEEN, positions=moved), arrival=0.0)
        state.add_graph(graph([[0, 0.9, 0], [0, 0, 0.8 if group == "two" else 0.6], [0, 0, 0]], group=group))
    assert state.agents() == state.scene(View()).names == [(g, name) for g in ("one", "two") for name in NAMES]
    np.testing.assert_allclose(state.scene(View()).edges.starts[:, 0], [0, 1, 10, 11])
    np.testing.assert_allclose(state.scene(View(focus=("two", "c"))).edges.starts[:, 0], [11])
    assert state.edges(("two", "c"))[0] == EdgeRow("b", Status.VISIBLE, 0.0, 0.8)


def test_names_that_change_start_the_group_anew():
    state = SceneState()
    state.add_states(states(), arrival=0.0)
    state.add_states(states(stamp=2.0, names=["a", "b"], status=[1, 1]), arrival=0.1)
    assert state.agents() == [("team", "a"), ("team", "b")]
    assert len(state.scene(View()).agents.positions) == 2


def test_any_time_that_is_remembered_can_be_shown():
    state = SceneState(trail_seconds=1.0)
    for k, status in enumerate([SEEN, C_HIDDEN, C_HIDDEN, SEEN]):
        stamp = 1.0 + 0.4 * k
        moved = [[stamp, 0, 0], [stamp, 1, 0], [stamp, 2, 0]]
        state.add_states(states(stamp=stamp, status=status, positions=moved), arrival=stamp)
        state.add_graph(Graph(stamp, "team", NAMES, np.full((3, 3), 0.3 * k)))
        state.add_truth(truth(stamp, [[stamp, 0, 0], [stamp, 1, 0], [stamp, 2.25, 0]]))
    assert state.span() == pytest.approx((1.0, 2.2))
    assert state.origin == 1.0
    scene = state.scene(View(threshold=0.4), at=1.9)  # the states of 1.8
    np.testing.assert_allclose(scene.agents.positions[:, 0], 1.8)
    np.testing.assert_allclose(scene.spread.positions, [[1.8, 2, 0]])
    np.testing.assert_allclose(scene.ghosts.positions, [[1.8, 2.25, 0]])
    assert len(scene.edges.starts) == 6, "of 0.6, the graph of then"
    assert scene.trails.points[..., 0].max() == 1.8, "nothing of what came later"
    assert scene.names == [("team", name) for name in NAMES]
    summary = state.summary(now=99.0, at=1.9)
    assert [row.name for row in summary.rows] == ["c"]
    assert summary.rows[0].error == pytest.approx(25.0)
    assert (summary.silent, summary.rate) == (0.0, pytest.approx(2.5))
    assert state.summary(now=99.0, at=1.1).rows == []
    assert state.scene(View(), at=0.9) is None
    assert len(state.scene(View(threshold=0.4), at=1.1).edges.starts) == 0


def test_losses_and_steps_in_time():
    state = SceneState()
    for k, status in enumerate([SEEN, C_HIDDEN, C_HIDDEN, SEEN, C_HIDDEN]):
        state.add_states(states(stamp=float(k), status=status))
    state.add_states(states(stamp=4.0, status=C_HIDDEN))  # a stream that stands still
    assert state.losses() == [1.0, 4.0]
    np.testing.assert_array_equal(state.history().hidden, [0, 1, 1, 0, 1])
    assert state.step(2.5, 1) == 3.0
    assert state.step(2.5, -1) == 1.0
    assert state.step(4.0, 1) == 4.0
    assert state.step(0.0, -1) == 0.0


def test_the_axis_of_a_recording_begins_with_the_recording():
    state = SceneState()
    state.add_states(states(stamp=50.0), since_begin=2.0)
    state.add_states(states(stamp=51.0), since_begin=3.0)
    assert state.origin == 48.0
    assert state.summary(now=1e6).silent == 0.0, "a recording is never silent"


def test_states_at_the_end_of_a_recording_wait_for_no_truth():
    state = SceneState()
    state.add_truth(truth(1.0, [[0, 0, 0], [1, 0, 0], [2, 0.5, 0]]))
    state.add_states(states(stamp=1.0))
    state.add_states(states(stamp=2.0))
    assert len(state.history().time) == 1
    state.end()
    np.testing.assert_allclose(state.history().error, [50.0, np.nan])


def test_edges_of_one_agent_the_strongest_first():
    state = SceneState()
    state.add_states(states())
    assert state.edges(("team", "a")) == []
    state.add_graph(graph([[0, 0.1, 0.9], [0.3, 0, 0], [0.2, 0, 0]]))
    assert state.edges(("team", "a")) == [EdgeRow("c", Status.HIDDEN, 0.9, 0.2), EdgeRow("b", Status.VISIBLE, 0.1, 0.3)]
    assert state.edges(("team", "gone")) == []
    assert state.edges(("another", "a")) == []
