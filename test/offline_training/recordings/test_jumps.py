"""Samples that nothing could have moved to: spikes become gaps, jumps are said and kept, motion is neither."""

from __future__ import annotations

import numpy as np
import pytest

from offline_training.recordings.jumps import without_spikes
from offline_training.recordings.recording import Recording, Track, from_tracks

RATE, FRAMES = 10.0, 400
NAMES = ["a", "b", "c"]


def circling(frames=FRAMES):
    """On circles of 1 m, 1 cm to 2 cm a sample, f8[3, T, 2]."""
    turn = np.linspace(0.01, 0.02, 3)[:, None] * np.arange(frames)
    return np.stack([np.cos(turn), np.sin(turn)], -1)


def recording(positions, velocities=None):
    observed = np.isfinite(positions).all(-1)
    stamps = np.arange(positions.shape[1]) / RATE
    return Recording(NAMES, stamps, positions, observed, velocities, "runs.csv")


def unchanged(given):
    (found,), lines, _ = without_spikes([given])
    np.testing.assert_array_equal(found.positions, given.positions)
    return lines


@pytest.mark.parametrize("far", [20.0, 1e9])
@pytest.mark.parametrize("frames", [[200], [0], [FRAMES - 1], [200, 201, 202], [50, 300], [*range(100, 109)]])
def test_a_spike_is_a_gap(frames, far):
    positions, velocities = circling(), np.ones((3, FRAMES, 2))
    positions[1, frames] += [far, 0.0]
    (found,), (line,), _ = without_spikes([recording(positions, velocities)])
    wanted = np.ones((3, FRAMES), bool)
    wanted[1, frames] = False
    np.testing.assert_array_equal(found.observed, wanted)
    assert np.isnan(found.velocities[1, frames]).all() and np.isfinite(found.velocities[wanted]).all()
    plural = "s" * (len(frames) > 1)
    assert line.startswith(f"runs.csv: {len(frames)} sample{plural} taken for gaps: faster there and back than ")
    assert f"(b at {frames[0] / RATE:g} s" in line


@pytest.mark.parametrize("share", [0.001, 0.01, 0.03])
@pytest.mark.parametrize("frames", [60, 3000])
def test_a_tracker_may_be_bad(share, frames):
    positions, random = circling(frames), np.random.default_rng(5)
    spiky = random.random((3, frames)) < share
    spiky[0, 30] = True
    positions[spiky] += 1000 * random.normal(size=(int(spiky.sum()), 2))
    (found,), _, _ = without_spikes([recording(positions)])
    np.testing.assert_array_equal(found.observed, ~spiky)


def test_one_sample_while_an_agent_is_lost():
    positions = circling()
    positions[2, 196:205] = np.nan
    positions[2, 200] = [1000.0, 0.0]
    (found,), (line,), _ = without_spikes([recording(positions)])
    assert not found.observed[2, 196:205].any() and "(c at 20 s)" in line


def test_agents_have_rates_of_their_own():
    fast, slow = circling(2000), circling(200)
    slow[1, 100] = [1e6, 0.0]
    tracks = {name: Track(np.arange(2000) / 100, fast[0]) for name in "ab"}
    tracks |= {"c": Track(np.arange(200) / 10 + 0.003, slow[1]), "d": Track(np.arange(200) / 10 + 0.003, slow[2])}
    (found,), (line,), _ = without_spikes([from_tracks(tracks, "here")])
    assert found.observed.sum() == 4399 and "(c at 10.003 s)" in line


def test_a_jump_that_stays_is_said_and_kept():
    positions = circling()
    positions[0, 150:] += [0.0, 8.0]
    (line,) = unchanged(recording(positions))
    fastest = without_spikes([recording(positions)])[2]
    assert 0.2 < fastest < 8.0 * RATE  # m/s: above the fastest on the circle, below the jump
    assert line.startswith("runs.csv: 1 sample kept, though reached faster than ") and line.endswith("(a at 15 s)")


def test_what_comes_back_elsewhere_is_neither():
    positions = circling()
    positions[2, 200:210] = np.nan
    positions[2, 210:] += 9.0
    assert unchanged(recording(positions)) == []


@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-3])
def test_agents_mostly_at_rest_that_drive_at_times(noise):
    """1 m out and back at 1 m/s, once in five minutes, and away at the end."""
    positions = np.random.default_rng(3).normal(0, noise, (3, 3000, 2))
    there = np.concatenate([np.linspace(0, 1, 11), np.linspace(0.9, 0, 10)])
    for agent in range(3):
        positions[agent, 500 * agent + 100 : 500 * agent + 121, 0] += there
        positions[agent, -10:, 1] += 0.1 * np.arange(10)
    assert unchanged(recording(positions)) == []
    positions[1, 700] = 1e6
    (found,), _, _ = without_spikes([recording(positions)])
    assert np.argwhere(~found.observed).tolist() == [[1, 700]]


def test_standing_agents():
    positions = np.zeros((3, FRAMES, 2))
    assert unchanged(recording(positions)) == []
    positions[0, 7] = 1e6
    (found,), _, _ = without_spikes([recording(positions)])
    assert np.argwhere(~found.observed).tolist() == [[0, 7]]


@pytest.mark.parametrize("frames", [1, 2])
def test_recordings_too_short_to_tell(frames):
    positions = circling(frames)
    positions[0, -1] += 50.0
    given = recording(positions)
    (found,), _, _ = without_spikes([given])
    assert found.observed.all()
