"""The truth of a bag between its samples, and around a loss, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.replay.stream import Withheld
from siha_ros.replay.truth import RecordingWindow, Truth


@pytest.fixture
def truth():
    """Agent a at 0, 0.1, 0.2 s at x = 0, 1, 3; then a hole until 1.0 s at x = 7. Recorded 0.05 s after its stamps."""
    stamps, x = np.array([0.0, 0.1, 0.2, 1.0]), np.array([0.0, 1.0, 3.0, 7.0])
    rows = np.stack([stamps, stamps + 0.05, x, np.zeros(4)], axis=1)
    return Truth({"a": rows}, dims=2, max_gap=0.3)


def test_positions_lie_on_the_line_between_two_samples(truth):
    found = truth.at("a", np.array([0.0, 0.05, 0.1, 0.175, 0.2]))
    assert np.allclose(found[:, 0], [0.0, 0.5, 1.0, 2.5, 3.0]) and not found[:, 1].any()


def test_nothing_is_known_in_a_hole_or_outside_or_of_another(truth):
    assert np.isnan(truth.at("a", np.array([-0.1, 0.3, 0.99, 1.1]))).all()
    assert truth.at("a", np.array([1.0]))[0, 0] == 7.0
    assert np.isnan(truth.at("b", np.array([0.1]))).all()


def test_a_loss_is_bounded_by_times_of_recording(truth):
    assert truth.loss("a", Withheld(frozenset("a"), 0.2, 0.5)) == (0.1, 1.0)  # 0.2 was recorded at 0.25
    before, after = truth.loss("a", Withheld(frozenset("a"), 0.0, 2.0))
    assert np.isnan(before) and np.isnan(after)


def test_interpolation_sees_the_other_side_of_a_loss(truth):
    withheld = Withheld(frozenset("a"), 0.2, 0.5)
    assert truth.interpolated("a", withheld, 0.55)[0] == pytest.approx(1.0 + 0.5 * 6.0)
    assert np.isnan(truth.interpolated("a", Withheld(frozenset("a"), 0.2, 2.0), 0.55)).all()


def test_a_window_keeps_what_can_be_used():
    window = RecordingWindow(0.1, 3, 2, ["a", "b"])
    positions = np.array([[1.0, 2.0, 9.0], [np.nan, 0.0, 0.0], [5.0, 5.0, 5.0]])
    window.add_frame(1.0, positions, names=["a", "b", "stranger"], now=1.5)
    window.add_frame(1.1, positions[:1] + 1.0, np.array([False]), names=["a"], now=1.6)
    window.add_frame(1.2, positions[:1] + 2.0, names=["a"], now=1.7)
    truth = window.truth()
    assert truth.names == ["a"]
    assert truth.at("a", np.array([1.0, 1.1]))[:, 0] == pytest.approx([1.0, 2.0])
    assert truth.loss("a", Withheld(frozenset("a"), 1.6, 1.7)) == (1.0, 1.2)


def test_jumps_and_poses_that_repeat_while_others_move_are_no_truth():
    window = RecordingWindow(0.1, 3, 2, ["a", "b"])
    for tick in range(30):
        positions = np.array([[0.02 * tick, 0.0, 1.0], [0.02 * tick, 5.0, 1.0]])
        if tick == 10:
            positions[0, 0] += 50.0
        if tick in (20, 21):
            positions[1, 0] = 0.02 * 19
        window.add_frame(10.0 + 0.02 * tick, positions, trusted=False)
    times = 10.0 + 0.02 * np.arange(30)
    for name in ("a", "b"):
        assert window.truth().at(name, times)[:, 0] == pytest.approx(times - 10.0)


def test_a_bag_in_which_time_goes_back_is_no_truth():
    window = RecordingWindow(0.1, 3, 2, ["a"])
    for stamp in (10.0, 10.1, 1.0, 1.1, 1.5, 1.6):
        window.add_frame(stamp, np.ones((1, 3)), names=["a"])
    assert window.resets == 2 and not window.last_reset.startswith("time went back")
    with pytest.raises(ValueError, match="time went back by .* it is not one recording"):
        window.truth()
