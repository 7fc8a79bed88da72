"""Windows of complete recordings show what is observed and nothing else."""

from __future__ import annotations

import numpy as np

from siha_ros.replay.windows import Recording, window_of
from siha_ros.window.types import Status


def recording(velocities=None):
    positions = np.zeros((1, 2, 6, 2))
    positions[0, 0, :, 0] = [0, 1, 2, 3, 4, 5]
    positions[0, 1, :, 1] = [0, 1, 4, 9, 16, 25]
    return Recording(["a", "b"], positions, velocities, None, 0.5)


def test_a_hidden_agent_is_shown_before_it_is_lost_only():
    window = recording().window(0, 4, np.array([1]), 3)
    assert window.times.tolist() == [0, 0.5, 1, 1.5] and window.dt == 0.5
    assert window.observed.tolist() == [[True] * 4, [True, True, True, False]]
    assert window.positions[1, :3, 1].tolist() == [0, 1, 4] and np.isnan(window.positions[1, 3]).all()
    assert window.status.tolist() == [Status.VISIBLE, Status.HIDDEN]
    assert window.last_seen.tolist() == [1.5, 1.0]
    assert window.last_position.tolist() == [[3, 0], [0, 4]]
    assert window.last_velocity.tolist() == [[2, 0], [0, 6]]  # (4 - 1) m in 0.5 s
    assert np.isnan(window.velocities).all()


def test_an_agent_hidden_throughout_was_never_seen():
    window = recording().window(0, 4, np.array([0]), 0)
    assert np.isnan(window.last_seen[0]) and np.isnan(window.last_position[0]).all()
    assert np.isnan(window.last_velocity[0]).all()


def test_measured_velocities_are_hidden_with_their_agent_and_told_as_the_last_ones():
    velocities = np.full((1, 2, 6, 2), 7.0)
    window = recording(velocities).window(0, 4, np.array([1]), 2)
    assert window.velocities[1, :2].tolist() == [[7, 7], [7, 7]] and np.isnan(window.velocities[1, 2:]).all()
    assert window.last_velocity.tolist() == [[7, 7], [7, 7]]


def test_what_is_known_from_before_the_window_is_taken_as_given():
    positions = np.ones((2, 3, 2))
    observed = np.array([[True] * 3, [False] * 3])
    known = np.array([0.2, -4.0]), np.full((2, 2), 5.0), np.full((2, 2), 6.0)
    window = window_of(["a", "b"], np.array([0.0, 0.1, 0.2]), positions, observed, None, known)
    assert window.last_seen.tolist() == [0.2, -4.0]
    assert window.last_position.tolist() == [[5, 5], [5, 5]] and window.last_velocity.tolist() == [[6, 6], [6, 6]]
