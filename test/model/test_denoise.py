"""Noise of positions: how much of it is found, and what smoothing leaves, against windows made with known noise."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.model.denoise import Noise, roughness, usual_roughness

FRAMES, DT = 50, 0.1


def swings(count, agents=7, seed=0):
    """Windows ``[count, agents, T, 2]`` (m) of slow swinging."""
    random = np.random.default_rng(seed)
    phase, rate = random.uniform(0, 6.3, (count, agents, 1, 2)), random.uniform(0.2, 0.5, (count, agents, 1, 2))
    return 2 * np.sin(phase + rate * DT * np.arange(FRAMES)[:, None])


USUAL = usual_roughness(swings(500))


def test_roughness_by_hand():
    cubic = np.arange(6.0)[:, None] ** 3  # its third difference is 6
    assert roughness(cubic[None]) == 36
    cubic[0] = np.nan
    assert roughness(cubic[None]) == 36
    assert roughness(np.full((2, 6, 2), np.nan)) == 0 and roughness(np.zeros((2, 2, 2))) == 0


def test_without_noise_there_is_none():
    windows = swings(200, seed=1)
    assert np.mean([Noise.of(window, USUAL).variance > 0 for window in windows]) < 0.02
    assert Noise.of(swings(1)[0, :0], USUAL).variance == 0


def test_an_agent_that_jumps_is_no_noise():
    window = swings(1, seed=6)[0]
    window[2, 30:] += 0.2
    assert roughness(window) > 100 * USUAL and Noise.of(window, USUAL).variance < 1e-4**2


@pytest.mark.parametrize("deviation", [0.001, 0.02])
def test_noise_is_found_and_smoothed(deviation):
    truth = swings(100, seed=2)
    seen = truth + np.random.default_rng(3).normal(0, deviation, truth.shape)
    found = [Noise.of(window, USUAL) for window in seen]
    assert np.sqrt([noise.variance for noise in found]) == pytest.approx(deviation, rel=0.15)
    observed = np.ones(truth.shape[1:3], dtype=bool)
    smoothed = np.stack([noise.smooth(window, observed) for noise, window in zip(found, seen, strict=True)])
    noise, off = found[0], smoothed - truth
    spread = noise.spread(np.ones(FRAMES, dtype=bool))
    # what is said to be left is left, nearly, for swings are not as independent from frame to frame as is assumed
    ratio = np.sqrt(np.square(off).mean((0, 1, 3)) / np.diag(spread))
    assert ratio.min() > 0.7 and ratio.max() < 1.6 and np.square(off).mean() < 0.4 * deviation**2
    assert np.square(np.diff(off, n=2, axis=2)).mean() < 4 * noise.of_steps(FRAMES)
    assert noise.of_steps(FRAMES) < 0.02 * 6 * deviation**2
    onward = off[:, :, -1] + 5 * (off[:, :, -1] - off[:, :, -2])
    left = [np.square(part).mean() for part in (off[:, :, -1], onward)]
    assert np.sqrt(left / noise.ahead(FRAMES, np.array([0, 5]))) == pytest.approx(1.3, abs=0.6)


def test_smoothing_by_an_independent_solution():
    """The most probable path, as one least squares problem; an agent with a gap beside one without."""
    random = np.random.default_rng(4)
    seen, observed = random.normal(size=(2, 12, 1)), np.ones((2, 12), dtype=bool)
    observed[1, 5:8] = False
    noise = Noise(0.3, 0.05)
    found = noise.smooth(seen, observed)
    for agent in range(2):
        rows = [np.eye(12)[frame] / np.sqrt(0.3) for frame in np.flatnonzero(observed[agent])]
        targets = [seen[agent, frame, 0] / np.sqrt(0.3) for frame in np.flatnonzero(observed[agent])]
        for frame in range(9):
            row = np.zeros(12)
            row[frame : frame + 4] = [-1, 3, -3, 1]
            rows.append(row / np.sqrt(0.05))
            targets.append(0.0)
        path = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]
        np.testing.assert_allclose(found[agent, observed[agent], 0], path[observed[agent]], atol=1e-9)
    np.testing.assert_array_equal(found[1, 5:8], seen[1, 5:8])


def test_what_is_hardly_seen_is_left_as_it_is():
    seen, observed = np.random.default_rng(5).normal(size=(1, 12, 2)), np.zeros((1, 12), dtype=bool)
    observed[0, :3] = True
    np.testing.assert_array_equal(Noise(0.3, 0.05).smooth(seen, observed), seen)


def test_far_from_the_origin_smoothing_is_as_good():
    random = np.random.default_rng(7)
    seen, observed = random.normal(0, 0.02, (1, 50, 2)), np.zeros((1, 50), dtype=bool)
    observed[0, -4:] = True
    noise = Noise(0.02**2, 6.5e-8)
    np.testing.assert_allclose(noise.smooth(seen + 5e6, observed) - 5e6, noise.smooth(seen, observed), atol=1e-5)
