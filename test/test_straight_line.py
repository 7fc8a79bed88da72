"""What constant velocity gets wrong in a window, on motion whose errors are known."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.replay.windows import window_of
from siha_ros.straight_line import straight_line_errors

DT = 0.1


def window(positions, observed=None):
    """A window of agents at f8[A, T, P]."""
    agents, frames, _ = positions.shape
    times = 5.0 + DT * np.arange(frames)
    seen = np.ones((agents, frames), dtype=bool) if observed is None else observed
    known = np.full(agents, times[-1]), positions[:, -1], np.zeros((agents, positions.shape[2]))
    return window_of([f"r{agent}" for agent in range(agents)], times, positions, seen, None, known)


def accelerating(acceleration, frames=50, agents=3):
    times = DT * np.arange(frames)
    positions = np.zeros((agents, frames, 2))
    positions[..., 0] = 0.5 * acceleration * times**2 + 2.0 * times
    return positions


def test_constant_acceleration_by_hand():
    table = straight_line_errors(window(accelerating(4.0)))
    # the backward difference is the velocity half a step ago: x(t + s) - x(t) - s v(t - dt / 2) is a s (s + dt) / 2
    since = np.array(table.seconds)
    assert table.radius == pytest.approx(0.5 * 4.0 * since * (since + DT))
    assert table.half_width == pytest.approx(table.radius)  # only half of all, those along y, are 0
    assert since[0] == pytest.approx(DT) and since[-1] == pytest.approx(3.7)  # the last of 20 errors or more
    assert np.diff(since).max() < 0.23 * since[-1]


def test_straight_motion_has_no_errors_and_few_agents_say_nothing():
    table = straight_line_errors(window(accelerating(0.0)))
    assert max(table.radius) == pytest.approx(0.0, abs=1e-9)
    assert straight_line_errors(window(accelerating(1.0, frames=8, agents=2))) is None


def test_gaps_count_for_nothing():
    positions = accelerating(0.0)
    observed = np.ones((3, 50), dtype=bool)
    observed[1, 20:] = False
    positions[1, 20:] = 100.0
    assert max(straight_line_errors(window(positions, observed)).radius) == pytest.approx(0.0, abs=1e-9)
