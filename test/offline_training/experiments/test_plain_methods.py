"""Plain methods against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from offline_training.experiments.baselines import Problem, errors, solve
from offline_training.experiments.plain_methods import (
    ConstantVelocity,
    LastValue,
    LinearInterpolation,
    PrincipalComponents,
    RidgeRegression,
    hidden_sets,
    hide,
    plain_methods,
)

SEEN = np.array([True, True, False, False, True])


def one_walker():
    """Two agents seen at 0 and 6; a third that moves 1, 2, 3, 4 .. a frame, at a velocity of 2 units (half a frame's
    way): ``[1, 3, 5, 2]``."""
    windows = np.zeros((1, 3, 5, 2))
    windows[0, 1, :, 0] = 6.0
    windows[0, 2, :, 0], windows[0, 2, :, 1] = [1.0, 2.0, 4.0, 7.0, 11.0], 2.0
    return windows


def test_untrained_methods_in_a_gap():
    shown = hide(one_walker(), 1, SEEN)
    assert np.isnan(shown[0, 2, 2:4]).all() and np.isfinite(shown[0, :2]).all()
    held, moved, joined = (
        method.complete(shown, 1, SEEN)[0, 0] for method in (LastValue(), ConstantVelocity(0.5), LinearInterpolation())
    )
    assert held[:, 0].tolist() == [1, 2, 2, 2, 11]
    assert moved[:, 0].tolist() == [1, 2, 3, 4, 11] and (moved[:, 1] == 2).all()
    assert joined[:, 0] == pytest.approx([1, 2, 5, 8, 11])


def test_untrained_methods_after_a_loss_and_for_one_never_seen():
    lost = np.array([True, True, False, False, False])
    shown = hide(one_walker(), 1, lost)
    assert LinearInterpolation().complete(shown, 1, lost)[0, 0, :, 0].tolist() == [1, 2, 2, 2, 2]
    assert ConstantVelocity(0.5).complete(shown, 1, lost)[0, 0, :, 0].tolist() == [1, 2, 3, 4, 5]
    never = np.zeros(5, bool)
    for name, method in plain_methods(0.5).items():
        if name not in ("ridge", "pca"):
            assert method.complete(hide(one_walker(), 1, never), 1, never)[0, 0, :, 0].tolist() == [3.0] * 5


@pytest.mark.parametrize("method", [RidgeRegression(), PrincipalComponents()], ids=["ridge", "pca"])
@pytest.mark.parametrize("which", ["never", "lost", "gap"])
def test_closed_forms_find_what_is_linear(method, which):
    """The hidden agent is twice the first minus the second: known exactly, whatever is seen of it."""
    random = np.random.default_rng(3)
    windows = random.normal(size=(400, 3, 6, 2))
    windows[:, 2] = 2 * windows[:, 0] - windows[:, 1] + 0.5
    seen = hidden_sets(6)[which]
    method.fit(windows[:200], windows[200:300], 1, seen)
    test = windows[300:]
    found = method.complete(hide(test, 1, seen), 1, seen)
    assert np.allclose(found, test[:, 2:], atol=1e-3)
    assert np.array_equal(found[:, :, seen], test[:, 2:][:, :, seen])


def test_a_ridge_is_that_of_the_normal_equations_with_more_features_than_windows():
    random = np.random.default_rng(4)
    windows = random.normal(size=(30, 5, 4, 2))
    never = np.zeros(4, bool)
    ridge = RidgeRegression()
    ridge.fit(windows[:20], windows[20:25], 1, never)
    x, y = windows[:20, :4].reshape(20, -1), windows[:20, 4:].reshape(20, -1)
    centred = x - x.mean(0)
    weights = np.linalg.solve(centred.T @ centred + ridge.choice * np.eye(32), centred.T @ (y - y.mean(0)))
    expected = (windows[25:, :4].reshape(5, -1) - x.mean(0)) @ weights + y.mean(0)
    found = ridge.complete(hide(windows[25:], 1, never), 1, never)
    assert np.allclose(found.reshape(5, -1), expected, atol=1e-8)


def test_sets_and_the_alignment_of_those_never_seen():
    sets = hidden_sets(6)
    assert sets["never"].sum() == 0 and sets["lost"].tolist() == [True] * 3 + [False] * 3
    assert sets["gap"].tolist() == [True, True, False, False, True, True]
    truth = np.random.default_rng(0).normal(size=(4, 4, 6, 2))
    problem = Problem(truth, truth, truth, 2, False, 0.1)
    swapped = truth[:, [3, 2]]
    assert errors(swapped, problem, sets["never"])["mse"] == 0  # without names either may be the other
    assert errors(swapped, problem, sets["lost"])["mse"] > 0.1
    assert errors(truth[:, 2:] + 0.5, problem, sets["lost"])["mse"] == pytest.approx(0.25)
    rows = solve(problem, plain_methods(problem.step))
    assert set(rows) == {"last_value", "constant_velocity", "linear_interpolation", "ridge", "pca"}
    assert all(row[which]["train_seconds"] >= 0 for row in rows.values() for which in sets)


def test_errors_by_the_time_since_a_loss():
    """Off by the root of the frames since the loss, of a tenth of a window each: 1; 2 and 3; 4 to 9."""
    truth = np.random.default_rng(0).normal(size=(4, 4, 10, 2))
    problem, sets = Problem(truth, truth, truth, 2, False, 0.1), hidden_sets(10)
    found = errors(truth[:, 2:] + np.sqrt(np.arange(10))[:, None], problem, sets["early"])
    assert found["mse"] == found["mse_median"] == pytest.approx(5)
    assert [bin["mse"] for bin in found["ages"]] == pytest.approx([1, 2.5, 6.5])
    assert all("ages" not in errors(truth[:, 2:], problem, sets[which]) for which in ("never", "gap"))
