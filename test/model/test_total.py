"""Where all agents are together: against lines, least squares and accelerations by hand."""

from __future__ import annotations

import numpy as np
import pytest
from springs_by_hand import simulate

from siha_ros.model.total import LEAST, Total, follow, measure_total

TIMES = 3.0 + 0.1 * np.arange(50)
START, SPEED = np.array([2.0, -1.0]), np.array([0.3, 0.7])


def line(times, noise=0.0, acceleration=0.0):
    since = (times - TIMES[0])[:, None]
    wiggle = noise * np.random.default_rng(0).normal(size=(len(times), 2))
    return START + SPEED * since + acceleration * since**2 / 2 + wiggle


def test_a_sum_that_goes_straight_goes_on_so():
    total = follow(None, TIMES, line(TIMES), 0.0, 0.0)
    later = total.at(20.0)
    np.testing.assert_allclose(later.state, [line(np.array([20.0]))[0], SPEED], atol=1e-6)
    assert later.covariance[0, 0] < (10 * LEAST) ** 2


def test_without_drift_it_is_the_least_squares_line():
    seen, deviation = line(TIMES, noise=0.02), 0.05
    total = follow(None, TIMES, seen, deviation**2, 0.0)
    design = np.stack([np.ones(50), TIMES - TIMES[-1]], -1)
    fitted = np.linalg.lstsq(design, seen, rcond=None)[0]
    np.testing.assert_allclose(total.state, fitted, atol=1e-8)
    np.testing.assert_allclose(total.covariance, deviation**2 * np.linalg.inv(design.T @ design), rtol=1e-4)
    assert total.variance == deviation**2


def test_how_much_it_wiggles_is_measured_in_its_frames():
    assert follow(None, TIMES, line(TIMES, noise=0.02), 0.0, 0.0).variance == pytest.approx(0.02**2, rel=0.3)


def test_a_later_frame_by_hand():
    total = Total(0.0, np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([[0.04, 0.01], [0.01, 0.09]]), 0.05, 0.6)
    later = total.at(2.0)
    np.testing.assert_allclose(later.state, [[2.0, 0.0], [0.5, 0.0]])
    # 0.04 + 2 * 2 * 0.01 + 4 * 0.09 + 0.6 * 8 / 3; 0.01 + 2 * 0.09 + 0.6 * 2; 0.09 + 0.6 * 2
    np.testing.assert_allclose(later.covariance, [[2.04, 1.39], [1.39, 1.29]])
    there = later.seen(np.array([2.2, 0.0]))
    np.testing.assert_allclose(there.state, [[2 + 0.2 * 2.04 / 2.09, 0.0], [0.5 + 0.2 * 1.39 / 2.09, 0.0]])
    assert there.covariance[0, 0] == pytest.approx(2.04 * 0.05 / 2.09)
    assert there.covariance[1, 1] == pytest.approx(1.29 - 1.39**2 / 2.09)


def test_frames_that_are_known_count_once():
    first = follow(None, TIMES[:30], line(TIMES[:30], noise=0.01), 1e-4, 1e-5)
    more = follow(first, TIMES[10:], line(TIMES, noise=0.01)[10:], 1e-4, 1e-5)
    whole = follow(first, TIMES[30:], line(TIMES, noise=0.01)[30:], 1e-4, 1e-5)
    np.testing.assert_array_equal(more.state, whole.state)
    assert more.time == TIMES[-1]
    np.testing.assert_array_equal(follow(more, TIMES, line(TIMES), 1e-4, 1e-5).covariance, more.covariance)


@pytest.mark.parametrize("after", [5.0, 10.0])
def test_an_acceleration_is_noticed_and_makes_it_unsure(after):
    steady = follow(None, TIMES, line(TIMES, noise=1e-3), 0.0, 0.0)
    pushed = follow(None, TIMES, line(TIMES, noise=1e-3, acceleration=0.05), 0.0, 0.0)
    assert steady.drift == 0
    later = TIMES[-1:] + after
    off = np.abs(pushed.at(later[0]).state[0] - line(later, acceleration=0.05)[0])
    assert off.max() < 2 * np.sqrt(pushed.at(later[0]).covariance[0, 0])
    assert off.min() > 50 * np.sqrt(steady.at(later[0]).covariance[0, 0])  # what it would have been said to be


@pytest.mark.parametrize("at", [10, 25, 40])
def test_a_step_makes_it_unsure_too(at):
    """One of the agents was moved by hand in a few frames, before another was lost."""
    stepped = line(TIMES)
    stepped[at:] += 0.5
    total = follow(None, TIMES, stepped, 0.0, 0.0)
    later = total.at(TIMES[-1] + 10)
    off = np.abs(later.state[0] - line(TIMES[-1:] + 10)[0] - 0.5)
    assert off.max() < 2 * np.sqrt(later.covariance[0, 0])


def test_after_a_push_it_is_taken_anew():
    total = follow(None, TIMES, line(TIMES), 1e-6, 0.0)
    after = TIMES[-1] + 0.1 * np.arange(1, 21)
    moved = line(after) + np.array([0.0, 0.5])
    few = follow(total, after[:1], moved[:1], 1e-6, 0.0)
    assert few.covariance[1, 1] > 100.0  # where it goes is not known by one frame
    for whole in (follow(total, after, moved, 1e-6, 0.0), follow(few, after, moved, 1e-6, 0.0)):
        np.testing.assert_allclose(whole.state, [moved[-1], SPEED], atol=1e-6)


def test_few_frames_tell_nothing():
    assert follow(None, TIMES[:4], line(TIMES[:4]), 0.0, 0.0) is None
    assert follow(None, TIMES[:0], line(TIMES[:0]), 0.0, 0.0) is None


def springs(symmetric):
    random = np.random.default_rng(3)
    windows = []
    for _ in range(20):
        edges = random.random((5, 5)) < 0.5
        edges = np.triu(edges, 1) | np.triu(edges, 1).T if symmetric else edges & ~np.eye(5, dtype=bool)
        x, _ = simulate(random.normal(0, 1, (5, 2)), random.normal(0, 0.3, (5, 2)), edges, 40)
        windows.append(x)
    return np.stack(windows)


def test_what_acts_both_ways_cancels_and_what_does_not_is_measured():
    both, one = springs(True), springs(False)
    assert max(measure_total(both, 0.1)) < 1e-12
    variance, drift = measure_total(one, 0.1)
    assert drift > 1e-3
    sums, times = one.sum(1), 0.1 * np.arange(40)
    for last in (20, 30, 39):  # no window is farther off, in the mean, than it says
        missed = [np.polyval(np.polyfit(times[:20], one_sum[:20], 1), times[last]) - one_sum[last] for one_sum in sums]
        assert np.square(missed).mean() <= 1.001 * (variance + drift * (times[last] - times[19]) ** 3 / 3)
