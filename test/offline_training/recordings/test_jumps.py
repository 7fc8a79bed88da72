"""Samples that nothing could have moved to: spikes become gaps, jumps are said and kept, fast motion is neither."""

from __future__ import annotations

import numpy as np
import pytest

from offline_training.recordings.jumps import without_spikes
from offline_training.recordings.recording import Recording

RATE, FRAMES = 10.0, 400


def circling(agents=3):
    """On circles of 1 m, 1 cm to 2 cm a sample, f8[A, T, 2]."""
    turn = np.linspace(0.01, 0.02, agents)[:, None] * np.arange(FRAMES)
    return np.stack([np.cos(turn), np.sin(turn)], -1)


def recording(positions, velocities=None):
    observed = np.isfinite(positions).all(-1)
    return Recording(["a", "b", "c"], np.arange(FRAMES) / RATE, positions, observed, velocities, "runs.csv")


@pytest.mark.parametrize("frames", [[200], [0], [FRAMES - 1], [200, 201, 202], [50, 300]])
def test_a_spike_is_a_gap(frames):
    positions, velocities = circling(), np.ones((3, FRAMES, 2))
    positions[1, frames] += [5.0, 0.0]
    (found,), (line,) = without_spikes([recording(positions, velocities)])
    wanted = np.ones((3, FRAMES), bool)
    wanted[1, frames] = False
    np.testing.assert_array_equal(found.observed, wanted)
    assert np.isnan(found.velocities[1, frames]).all() and np.isfinite(found.velocities[wanted]).all()
    assert line.startswith(f"runs.csv: {len(frames)} spikes, taken for gaps: b at {frames[0] / RATE:g} s")


def test_a_jump_that_stays_is_said_and_kept():
    positions = circling()
    positions[0, 150:] += [0.0, 8.0]
    given = recording(positions)
    (found,), (line,) = without_spikes([given])
    np.testing.assert_array_equal(found.positions, given.positions)
    assert line.startswith("runs.csv: 1 jumps, kept: a at 15 s went over 20 times")


def test_what_moves_or_comes_back_elsewhere_is_neither():
    """A dash of five times the usual speed there and back, and an agent that comes back 9 m from where it was lost."""
    positions = circling()
    positions[0, 100:111, 0] += 0.1 * (5 - np.abs(np.arange(-5, 6)))
    positions[2, 200:210] = np.nan
    positions[2, 210:] += 9.0
    given = recording(positions)
    (found,), lines = without_spikes([given])
    np.testing.assert_array_equal(found.positions, given.positions)
    assert lines == []


def test_nothing_moves():
    given = recording(np.zeros((3, FRAMES, 2)))
    (found,), lines = without_spikes([given])
    assert found.observed.all() and lines == []
