"""Values on a grid against hand-worked ones."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.window.grid import backward_difference, last_velocity, resample


def test_backward_difference_by_hand():
    positions = np.array([[[0.0, 1.0], [1.0, 1.0], [4.0, 0.5]]])
    expected = [[[10.0, 0.0], [10.0, 0.0], [30.0, -5.0]]]
    np.testing.assert_allclose(backward_difference(positions, 0.1), expected)


def test_backward_difference_is_the_same_in_torch():
    torch = pytest.importorskip("torch")
    positions = np.random.default_rng(0).normal(size=(2, 3, 5, 2))
    ours = backward_difference(torch.tensor(positions), 0.02)
    np.testing.assert_array_equal(ours.numpy(), backward_difference(positions, 0.02))


def test_backward_difference_needs_two_times():
    with pytest.raises(ValueError, match=r"T >= 2.*\(4, 1, 3\)"):
        backward_difference(np.zeros((4, 1, 3)), 0.1)


def test_resample_by_hand():
    nan = np.nan
    stamps = np.array([[1.0, nan, 1.4, 2.4, 2.5], [nan, 2.0, nan, nan, nan], [nan] * 5])
    values = np.array([[0.0, 99, 4.0, 8.0, 9.0], [99, 7.0, 99, 99, 99], [99] * 5])[..., None]
    times = np.array([0.9, 1.0, 1.1, 1.4, 1.9, 2.0, 2.45, 2.5, 2.6])
    result = resample(stamps, values, times, max_gap=0.5)[..., 0]
    np.testing.assert_allclose(result[0], [nan, 0.0, 1.0, 4.0, nan, nan, 8.5, 9.0, nan], atol=1e-12)
    np.testing.assert_allclose(result[1], [nan, nan, nan, nan, nan, 7.0, nan, nan, nan])
    assert np.isnan(result[2]).all()


def test_resample_at_a_sample_ignores_an_unmeasured_neighbour():
    stamps = np.array([[1.0, 2.0]])
    values = np.array([[[5.0], [np.nan]]])
    np.testing.assert_allclose(resample(stamps, values, np.array([1.0, 1.5]), 9.0)[0, :, 0], [5.0, np.nan])


def test_resample_keeps_precision_at_present_day_stamps():
    stamps = 1.7e9 + np.arange(101)[None] / 100.0
    values = (np.arange(101) / 100.0)[None, :, None]
    times = 1.7e9 + np.array([0.123, 0.5, 0.987])
    np.testing.assert_allclose(resample(stamps, values, times, 0.1)[0, :, 0], [0.123, 0.5, 0.987], atol=2e-6)


def test_resample_of_a_ring():
    stamps = np.array([[1.0, 2.0, 3.0]])
    ring = np.array([[[30.0], [10.0], [20.0]]])  # the oldest value stands in place 1
    result = resample(stamps, ring, np.array([1.0, 1.5, 2.5, 3.0]), 2.0, shift=1)
    np.testing.assert_allclose(result[0, :, 0], [10.0, 15.0, 25.0, 30.0])


def test_resample_agrees_with_numpy_on_random_samples():
    rng = np.random.default_rng(1)
    stamps = np.sort(rng.uniform(0, 5, (9, 80)), axis=1)
    values = rng.normal(size=(9, 80, 2))
    stamps[rng.random((9, 80)) < 0.4] = np.nan
    times = np.linspace(-0.5, 5.5, 200)
    result = resample(stamps, values, times, max_gap=100.0)
    for agent in range(9):
        there = np.isfinite(stamps[agent])
        for axis in range(2):
            expected = np.interp(times, stamps[agent, there], values[agent, there, axis], left=np.nan, right=np.nan)
            np.testing.assert_allclose(result[agent, :, axis], expected, atol=1e-9)


def test_last_velocity_by_hand():
    nan = np.nan
    stamps = np.array([[2.02, 2.0, 2.04, nan], [1.0, nan, nan, nan], [nan] * 4, [3.0, 1.0, 3.01, nan]])
    positions = np.zeros((4, 4, 2))
    positions[0, :3] = [[0.02, 1.0], [0.0, 1.0], [0.04, 1.0]]
    positions[3, :3] = [[0.0, 0.0], [99.0, 99.0], [0.02, -0.01]]  # the one of 1.0 s is too old to count
    velocity = last_velocity(stamps, positions, span=0.1, max_age=0.6)
    np.testing.assert_allclose(velocity[0], [1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(velocity[1], [0.0, 0.0])
    assert np.isnan(velocity[2]).all()
    np.testing.assert_allclose(velocity[3], [2.0, -1.0], atol=1e-6)


def test_last_velocity_is_least_squares_without_outliers():
    # Slope of (0, 0), (1, 1), (2, 1), (3, 2): (6 - 1.5 * 4 + ...) = sum((t - 1.5) y) / sum((t - 1.5)^2) = 3 / 5.
    stamps = np.array([[0.0, 0.01, 0.02, 0.03]])
    positions = np.array([[[0.0], [0.01], [0.01], [0.02]]])
    assert last_velocity(stamps, positions, 0.1, 0.6)[0, 0] == pytest.approx(0.6, abs=1e-9)


def test_one_outlier_hardly_bends_the_last_velocity():
    stamps = np.arange(10)[None] * 0.01
    positions = np.stack([stamps, 0 * stamps], axis=-1)
    positions[0, 8, 1] = 0.5
    plain = np.polyfit(stamps[0], positions[0, :, 1], 1)[0]
    robust = last_velocity(stamps, positions, 0.1, 0.6)[0]
    assert abs(plain) > 1.5
    assert abs(robust[1]) < 0.1
    assert robust[0] == pytest.approx(1.0, abs=0.02)


def test_slow_samples_use_the_newest_three():
    stamps = np.array([[0.0, 0.2, 0.4, 0.6]])
    positions = np.array([[[9.0], [0.0], [0.2], [0.4]]])
    assert last_velocity(stamps, positions, span=0.1, max_age=2.0)[0, 0] == pytest.approx(1.0, abs=1e-6)
