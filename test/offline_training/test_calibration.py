"""Tables that hold on trials they were not measured on, where trials differ."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from offline_training.body import fallback_errors
from offline_training.datasets.body import Walk
from offline_training.stages.calibration import calibrated_table
from siha_ros.replay.losses import error_table


def moments(trials, seed, spread):
    """Normal errors of 400 moments a trial, whose size (m) differs between trials."""
    rng = np.random.default_rng(seed)
    size = 0.01 * np.exp(spread * rng.normal(size=trials))
    errors = rng.normal(size=(trials, 400, 3)) * size[:, None, None]
    return np.full(trials * 400, 0.5), errors.reshape(-1, 3), np.repeat(np.arange(trials), 400)


def inside(table, errors):
    width, radius = table.at(np.full(len(errors), 0.5))
    return (np.abs(errors) <= width[:, None]).mean(), (np.linalg.norm(errors, axis=-1) <= radius).mean()


def test_it_holds_on_the_next_trials_where_trials_differ():
    plain, calibrated = [], []
    for seed in range(60):
        seconds, errors, trials = moments(4, seed, spread=0.6)
        _, next_errors, _ = moments(8, 1000 + seed, spread=0.6)
        plain.append(inside(error_table(seconds, errors, (0.5,)), next_errors))
        calibrated.append(inside(calibrated_table(seconds, errors, trials, (0.5,)), next_errors))
    short, left = (0.95 - np.mean(held, 0)[1] for held in (plain, calibrated))
    assert short > 0.05 and abs(left) < short / 2  # four trials cannot tell all of it
    assert np.mean(calibrated, 0)[0] == pytest.approx(0.6827, abs=0.015)


def test_trials_that_are_alike_need_no_stretch():
    seconds, errors, trials = moments(4, 0, spread=0.0)
    plain, calibrated = error_table(seconds, errors, (0.5,)), calibrated_table(seconds, errors, trials, (0.5,))
    assert calibrated.radius == pytest.approx(plain.radius, rel=0.02)
    assert calibrated.half_width == pytest.approx(plain.half_width, rel=0.02)


def test_the_fallback_is_wrong_by_how_far_joints_move_beside_the_others():
    """Four limbs of one joint drift aside at 0.2 m/s; the core walks at 1 m/s."""
    dt, frames = 1 / 60, np.arange(200)
    positions = np.zeros((7, 200, 3)) + frames[:, None] * dt * np.array([1.0, 0, 0])
    positions[3:, :, 1] = 0.2 * frames * dt
    walked = [Walk(name, False, positions, np.zeros(200)) for name in ("one", "two")]
    limbs = {name: np.array([joint]) for name, joint in zip("abcd", range(3, 7), strict=True)}
    tables = fallback_errors(SimpleNamespace(limbs=limbs, validation=walked[:1], training=walked[1:], dt=dt))
    drift = 0.75 * 0.2  # a quarter of the joints still seen drifts along
    _, radius = tables["fallback"].at(np.array([0.017, 0.5, 1.5]))
    assert drift * 0.015 <= radius[0] <= drift * 0.04
    assert drift * 0.4 <= radius[1] <= drift * 0.63  # what falls into that place
    assert drift * 1.3 <= radius[2] <= drift * 1.51
    assert tables["fallback_unseen"].radius[0] == pytest.approx(drift * 198 * dt)  # the last of twelve moments
    assert tables["fallback_forecast"].radius[-1] == pytest.approx(0, abs=1e-9)  # all go on as they did
