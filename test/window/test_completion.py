"""What is common to all estimates."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.replay.windows import window_of
from siha_ros.window.completion import isotropic, only_seen, position_95


@pytest.mark.parametrize(("dims", "radius"), [(2, 2.4477), (3, 2.7955)])  # roots of the 95 % chi-square quantiles
def test_position_95_of_isotropic_spread(dims, radius):
    assert position_95(isotropic(np.array(0.2), dims)) == pytest.approx(0.2 * radius, rel=0.01)


@pytest.mark.parametrize("deviations", [(1.0, 0.5), (1.0, 0.1), (0.3, 0.2, 0.1), (1.0, 1.0, 0.05), (1.0, 0.02, 0.02)])
def test_position_95_holds_95_percent_of_draws(deviations):
    rng = np.random.default_rng(0)
    dims = len(deviations)
    rotation = np.linalg.qr(rng.normal(size=(dims, dims)))[0]
    covariance = rotation @ np.diag(np.square(deviations)) @ rotation.T
    draws = rng.multivariate_normal(np.zeros(dims), covariance, 200_000)
    exact = np.quantile(np.linalg.norm(draws, axis=1), 0.95)
    assert position_95(covariance) == pytest.approx(exact, rel=0.03)


def test_position_95_is_finite_for_no_spread_and_scales():
    assert position_95(np.zeros((2, 3, 3))).tolist() == [0.0, 0.0]
    covariance = np.diag([1.0, 4.0, 9.0])
    assert position_95(100.0 * covariance) == pytest.approx(10.0 * position_95(covariance))


def test_what_lies_beyond_the_last_sample_was_not_seen():
    times = 0.1 * np.arange(5)
    observed = np.ones((3, 5), dtype=bool)
    observed[2, 1] = False  # a gap with samples on both sides stays as it is
    last_seen = np.array([0.4, 0.25, 0.4])
    known = last_seen, np.zeros((3, 2)), np.zeros((3, 2))
    window = window_of(["a", "b", "c"], times, np.ones((3, 5, 2)), observed, None, known)
    seen = only_seen(window)
    assert seen.observed.tolist() == [[True] * 5, [True] * 3 + [False] * 2, [True, False, True, True, True]]
    assert np.isnan(seen.positions[~seen.observed]).all() and np.isfinite(seen.positions[seen.observed]).all()
    window.last_seen[:] = 0.4
    assert only_seen(window) is window
