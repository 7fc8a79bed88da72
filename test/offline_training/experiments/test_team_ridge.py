"""The ridge regression of a team behind the estimator's interface, where what is hidden follows from what is seen."""

from types import SimpleNamespace

import numpy as np
import pytest

from offline_training.experiments.team_ridge import PENALTIES, TeamRidge, springs_ridge
from siha_ros.replay.windows import window_of

DT, AGENTS, FRAMES = 0.1, 5, 8
NAMES = [f"robot_{number}" for number in range(AGENTS)]
TIMES = DT * np.arange(FRAMES)


def teams(count, seed):
    """Windows f8[n, A, T, 2] that start anywhere: the fourth is opposite of the first, the fifth beside the second."""
    random = np.random.default_rng(seed)
    swing = random.normal(size=(count, 3, 1, 2)) * np.sin(3 * TIMES + random.uniform(0, 6, (count, 3, 1)))[..., None]
    swing -= swing.mean(1, keepdims=True)
    agents = np.concatenate([swing, -swing[:, :1], swing[:, 1:2] + [0.5, -0.2]], 1)
    start, speed = random.normal(size=(2, count, 1, 1, 2)) * 3
    return agents + start + speed * TIMES[:, None]


@pytest.fixture(scope="module")
def ridge():
    return TeamRidge(teams(400, 1), teams(100, 2), DT, horizon=3)


def asked(ridge, truth, lost, lost_at, order=tuple(range(AGENTS))):
    observed = np.ones((AGENTS, FRAMES), bool)
    observed[lost, lost_at:] = False
    order = list(order)
    names = [NAMES[agent] for agent in order]
    return ridge.estimate(window_of(names, TIMES, truth[order], observed[order]))


@pytest.mark.parametrize("lost_at", [0, 3, FRAMES - 1])
def test_what_follows_from_the_others_is_found_wherever_the_team_is(ridge, lost_at):
    for truth in teams(3, 3):
        estimate = asked(ridge, truth, [3, 4], lost_at)
        np.testing.assert_allclose(estimate.positions, truth, atol=2e-3)
        assert estimate.forecast.positions.shape == (AGENTS, 3, 2)
        moved = asked(ridge, truth + [100.0, -50.0] + TIMES[:, None] * [1.0, 2.0], [3, 4], lost_at)
        np.testing.assert_allclose(
            moved.positions - estimate.positions, np.broadcast_to([100, -50] + TIMES[:, None] * [1.0, 2.0], truth.shape)
        )


def test_the_order_of_agents_is_the_windows_own(ridge):
    truth, order = teams(1, 4)[0], [3, 0, 4, 1, 2]
    estimate, other = asked(ridge, truth, [3, 4], 2), asked(ridge, truth, [3, 4], 2, order)
    np.testing.assert_allclose(other.positions, estimate.positions[order], atol=1e-9)
    assert other.names == [NAMES[agent] for agent in order]


def test_it_is_the_regression_of_least_squares_and_its_penalty():
    random = np.random.default_rng(5)
    training, checks = (random.normal(size=(count, AGENTS, FRAMES, 2)) for count in (60, 20))
    ridge, lost_at = TeamRidge(training, checks, DT), 2
    truth = random.normal(size=(AGENTS, FRAMES, 2))
    found = asked(ridge, truth, [4], lost_at).positions[4, lost_at:]

    def inside(windows):  # about the straight line that fits the mean of the others best
        middle = windows[:, :4].mean(1)
        line = np.polynomial.polynomial.polyfit(TIMES, middle.transpose(1, 0, 2).reshape(FRAMES, -1), 1)
        origin = (line[0] + TIMES[:, None] * line[1]).reshape(FRAMES, -1, 2).transpose(1, 0, 2)
        return windows - origin[:, None], origin

    def parts(windows):
        known = [windows[:, :4].reshape(len(windows), -1), windows[:, 4, :lost_at].reshape(len(windows), -1)]
        return np.concatenate(known, 1), windows[:, 4, lost_at:].reshape(len(windows), -1)

    (x, y), (x_checks, y_checks) = parts(inside(training)[0]), parts(inside(checks)[0])
    best, answer = np.inf, None
    here, origin = inside(truth[None])
    for penalty in PENALTIES:
        rows = np.concatenate([x - x.mean(0), np.sqrt(penalty) * np.eye(x.shape[1])])
        weights = np.linalg.lstsq(rows, np.concatenate([y - y.mean(0), np.zeros((x.shape[1], y.shape[1]))]))[0]
        error = np.square((x_checks - x.mean(0)) @ weights + y.mean(0) - y_checks).mean()
        if error < best:
            best, answer = error, (parts(here)[0] - x.mean(0)) @ weights + y.mean(0)
    np.testing.assert_allclose(found, answer.reshape(-1, 2) + origin[0, lost_at:], atol=1e-6)


def test_what_it_was_not_fitted_to_goes_on_at_constant_velocity(ridge):
    truth = teams(1, 6)[0]
    observed = np.ones((AGENTS, FRAMES), bool)
    observed[3, 4:] = observed[4, 6:] = False  # away at different times
    estimate = ridge.estimate(window_of(NAMES, TIMES, truth, observed))
    speed = (truth[4, 5] - truth[4, 4]) / DT
    np.testing.assert_allclose(estimate.positions[4, -1], truth[4, 5] + 2 * DT * speed)
    fewer = ridge.estimate(window_of(NAMES[:4], TIMES, truth[:4], observed[:4]))
    np.testing.assert_allclose(fewer.positions[3, 4], 2 * truth[3, 3] - truth[3, 2])


def test_of_springs_noise_is_asked_for(monkeypatch):
    monkeypatch.setattr("offline_training.experiments.team_ridge.TRAINING", 8)
    monkeypatch.setattr("offline_training.experiments.team_ridge.VALIDATION", 4)
    config = SimpleNamespace(count=7, window=8, horizon=3, dt=0.1)
    exact, noisy = (springs_ridge(config, noise) for noise in (0.0, 0.01))
    apart = noisy._training - exact._training
    assert apart.std() == pytest.approx(0.01, rel=0.1)
    assert noisy._validation.shape[0] == 4
    assert not (noisy._validation == exact._validation).all()
