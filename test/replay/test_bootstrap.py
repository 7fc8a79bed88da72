"""Bootstrap intervals against what theory says of them."""

from __future__ import annotations

import numpy as np

from siha_ros.replay.bootstrap import interval, ratio_interval


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = interval(values)
    middle, half = values.mean(), 1.96 * values.std() / 20  # standard error: sigma / sqrt(400)
    assert abs(low - (middle - half)) < 0.03 and abs(high - (middle + half)) < 0.03


def test_cases_that_are_not_independent_are_drawn_by_groups():
    """Twenty copies of each of 30 numbers say as much as the numbers."""
    numbers = np.random.default_rng(4).normal(size=30)
    copies, groups = np.repeat(numbers, 20), np.repeat(np.arange(30), 20)
    width = 2 * 1.96 * numbers.std() / np.sqrt(30)
    low, high = interval(copies, groups=groups)
    assert abs((high - low) / width - 1) < 0.1
    low, high = interval(copies)
    assert (high - low) * np.sqrt(20) / width < 1.1
    assert interval(np.array([0.0, 0.0, 3.0]), groups=np.array([0, 0, 1])) == [0.0, 3.0]  # unequal ones
    assert interval(copies, groups=np.zeros(600, int)) == []


def test_equal_cases_leave_nothing_unsure():
    assert interval(np.full(10, 0.5)) == [0.5, 0.5]
    assert interval(np.full(10, 4.0), lambda x: np.sqrt(x.mean(-1))) == [2.0, 2.0]


def test_a_median_is_drawn_as_a_median():
    values = np.array([0.0] * 6 + [1e9] * 3)
    assert interval(values, lambda x: np.median(x, axis=-1))[0] == 0.0


def test_the_ratio_of_root_mean_squares():
    rivals = np.random.default_rng(2).uniform(1, 2, 50)
    ratio, (low, high) = ratio_interval(0.25 * rivals, rivals)
    assert np.allclose([ratio, low, high], 0.5)
    ratio, (low, high) = ratio_interval(np.ones(50), rivals)
    assert low < ratio < high and np.isclose(ratio, 1 / np.sqrt(rivals.mean()))
