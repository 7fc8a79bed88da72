"""Kuramoto oscillators against scipy's integrator, the exact solution of two, and what wrapping must not change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from offline_training.systems.kuramoto import (
    FRAME_DT,
    LANES,
    STEP,
    KuramotoTrajectories,
    draw_starts,
    integrate,
    simulate_kuramoto,
    wrapped,
)


def test_starts_are_those_of_the_paper():
    phases, frequencies, edges = draw_starts(4000, agents=5, seed=3)
    assert phases.min() >= 0 and phases.max() < 2 * np.pi and abs(phases.mean() - np.pi) < 0.05
    assert frequencies.min() >= 1 and frequencies.max() < 10 and abs(frequencies.mean() - 5.5) < 0.05
    assert abs(edges.sum() / (4000 * 20) - 0.5) < 0.01


def test_agrees_with_an_independent_integration():
    count = LANES + 2
    phases, frequencies, edges = draw_starts(count, agents=6, seed=11)
    run = simulate_kuramoto(count, 100, agents=6, seed=11)
    times = FRAME_DT * np.arange(100)
    for n in (0, 7, count - 1):

        def slope(_, phi, n=n):
            rate = frequencies[n].copy()
            for i in range(6):
                for j in range(6):
                    rate[i] += edges[n, i, j] * np.sin(phi[j] - phi[i])
            return rate

        at = np.sort(np.concatenate([times, times + STEP]))
        solved = solve_ivp(slope, (0, 10.1), phases[n], "DOP853", at, rtol=1e-11, atol=1e-11).y
        phi, ahead = solved[:, ::2], solved[:, 1::2]
        np.testing.assert_allclose(run.states[n, ..., 0], (ahead - phi) / STEP, atol=2e-5)
        np.testing.assert_allclose(run.states[n, ..., 1], np.sin(phi), atol=1e-5)
        np.testing.assert_allclose(run.states[n, ..., 2], np.repeat(frequencies[n, :, None], 100, 1), atol=1e-6)
        np.testing.assert_allclose(np.exp(1j * run.phases[n]), np.exp(1j * phi), atol=1e-5)


def test_two_oscillators_lock_at_the_difference_that_theory_gives():
    """Coupled with strength 1 each way, phi_1 - phi_2 goes to arcsin((w_1 - w_2) / 2) and both turn at the mean."""
    joined = np.array([[[False, True], [True, False]]])
    at, ahead = integrate(np.array([[0.3, 5.0]]), np.array([[6.0, 5.0]]), joined, 300)
    difference = (at[0, 0, -1] - at[0, 1, -1] + np.pi) % (2 * np.pi) - np.pi
    assert difference == pytest.approx(np.arcsin(0.5), abs=1e-6)
    np.testing.assert_allclose((ahead - at)[0, :, -1] / STEP, 5.5, atol=1e-6)
    alone, _ = integrate(np.array([[0.3, 5.0]]), np.array([[6.0, 5.0]]), np.zeros_like(joined), 300)
    np.testing.assert_allclose(alone[0], [[0.3], [5.0]] + np.array([[6.0], [5.0]]) * FRAME_DT * np.arange(300))


def test_wrapping_changes_nothing():
    phases, frequencies, edges = draw_starts(3, agents=5, seed=2)
    turns = 2 * np.pi * np.array([0, 1, -2, 5, 0])
    plain, ahead = integrate(phases, frequencies, edges, 60)
    turned, _ = integrate(phases + turns, frequencies, edges, 60)
    np.testing.assert_allclose(turned - turns[:, None], plain, atol=1e-9)
    run = simulate_kuramoto(3, 60, agents=5, seed=2)
    assert run.phases.min() >= 0 and run.phases.max() < 2 * np.pi
    assert (np.diff(run.phases, axis=-1) < -np.pi).any()  # there are wraps, and the phase differences do not see them:
    assert run.states[..., 0].min() > 1 - 4 and run.states[..., 0].max() < 10 + 4
    step = (wrapped(ahead) - wrapped(plain) + np.pi) % (2 * np.pi) - np.pi
    np.testing.assert_allclose(run.states[..., 0], step / STEP, atol=1e-3)
    assert wrapped(np.array([2 * np.pi, -1e-12, 7.0])) == pytest.approx([0, 0, 7 - 2 * np.pi], abs=1e-6)


def test_normalised_as_in_the_paper():
    run = simulate_kuramoto(200, 50, agents=5, seed=4)
    states = run.normalised()
    coupled = run.edges.any(-1)
    assert coupled.any() and not coupled.all()
    np.testing.assert_allclose(states[..., 0][coupled].max(-1), 1, atol=1e-5)
    np.testing.assert_allclose(states[..., 0][coupled].min(-1), -1, atol=1e-5)
    assert not states[..., 0][~coupled].any()  # told by the phase differences alone: a model is given no edges
    assert np.array_equal(states[..., 1], run.states[..., 1])
    np.testing.assert_allclose(states[..., 2], (run.states[..., 2] - 5.5) / 4.5, atol=1e-6)


def test_what_comes_later_does_not_tell_in_the_frames_that_are_given():
    run = simulate_kuramoto(50, 100, agents=5, seed=4)
    given = KuramotoTrajectories(run.states[:, :, :50], run.phases[:, :, :50], np.zeros_like(run.edges))
    whole = run.normalised()
    assert np.array_equal(whole[:, :, :50], given.normalised())
    assert np.abs(whole[:, :, 50:, 0]).max() > 1.5  # the range is left later on


def test_edges_and_same_seed_same_bytes_however_a_set_is_cut():
    whole = simulate_kuramoto(70, 4, seed=19)
    assert np.array_equal(whole.edges, whole.edges.transpose(0, 2, 1))
    assert not whole.edges.diagonal(axis1=1, axis2=2).any()
    parts = [simulate_kuramoto(n, 4, seed=19, first_index=first) for first, n in ((0, 13), (13, 40), (53, 17))]
    for field in ("states", "phases", "edges"):
        assert getattr(whole, field).tobytes() == np.concatenate([getattr(p, field) for p in parts]).tobytes()
    with pytest.raises(ValueError, match="kuramoto: 2 to 100 agents, not 1"):
        simulate_kuramoto(1, 1, agents=1, seed=0)
