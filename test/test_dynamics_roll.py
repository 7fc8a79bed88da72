"""The roll-out baseline with the exact dynamics in the decoder's place: then it must find the exact motion."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from scipy.linalg import expm

from siha_ros.dynamics_roll import DynamicsRoll
from siha_ros.window.types import Status, Window

DT, FRAMES, SCALE, SPRING = 0.1, 20, SimpleNamespace(position=4.0, velocity=2.0), 0.1
EDGES = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 1], [0, 1, 0, 0, 1], [0, 0, 1, 1, 0]])
LAPLACIAN = SPRING * (np.diag(EDGES.sum(1)) - EDGES)
SYSTEM = np.block([[np.zeros((5, 5)), np.eye(5)], [-LAPLACIAN, np.zeros((5, 5))]])
START = np.random.default_rng(2).normal(size=(10, 2)) * 0.5


class ExactSprings(torch.nn.Module):
    """Steps of DT on positions and backward differences: x' = (2 cos(w DT) - 1) x + DT v, v' = (x' - x) / DT."""

    def __init__(self):
        super().__init__()
        squares, modes = np.linalg.eigh(LAPLACIAN)
        cosine = modes @ np.diag(np.cos(np.sqrt(np.maximum(squares, 0)) * DT)) @ modes.T
        self.step_matrix = torch.nn.Parameter(torch.tensor(2 * cosine - np.eye(5)), requires_grad=False)
        self.graphs = 0

    def graph(self, states):
        assert states.shape == (1, 5, FRAMES, 4) and bool(states.isfinite().all())
        self.graphs += 1
        return torch.tensor(np.stack([1 - EDGES, EDGES], -1))[None].float()

    def step(self, states, graph):
        x, v = states[0, :, :2].double() * SCALE.position, states[0, :, 2:].double() * SCALE.velocity
        ahead = self.step_matrix @ x + DT * v
        return torch.cat([ahead / SCALE.position, (ahead - x) / DT / SCALE.velocity], -1)[None]


def truth(times):
    """f8[5, T, 2] at times (s); the team drifts at 0.3 m/s."""
    rest = np.stack([(expm(SYSTEM * t) @ START)[:5] for t in times], 1)
    return rest + np.array([0.3, 0.0]) * np.asarray(times)[None, :, None]


def window_at(newest, lost, lost_from):
    times = newest - DT * np.arange(FRAMES - 1, -1, -1)
    positions = truth(times)
    observed = np.ones((5, FRAMES), dtype=bool)
    for agent in lost:
        observed[agent] = times < lost_from
    positions[~observed] = np.nan
    last = truth([lost_from - 1e-9])[:, 0]
    return Window(
        names=list("abcde"),
        times=times,
        positions=positions,
        velocities=np.full_like(positions, np.nan),
        observed=observed,
        confidence=observed.astype(np.float32),
        status=np.where(observed[:, -1], Status.VISIBLE, Status.HIDDEN).astype(np.int8),
        reason=[""] * 5,
        last_seen=np.where(observed[:, -1], newest, lost_from),
        last_position=last,
        last_velocity=(last - truth([lost_from - 0.01])[:, 0]) / 0.01,
    )


def make():
    nri = ExactSprings()
    config = SimpleNamespace(
        count=5, dims=2, dt=DT, window=FRAMES, horizon=5, frame="team", velocity="backward_difference", scale=SCALE
    )
    return nri, DynamicsRoll(SimpleNamespace(config=config, nri=lambda: nri))


def test_exact_dynamics_give_the_exact_motion_long_after_the_loss():
    nri, roll = make()
    estimate, errors = None, []
    for k in range(160):  # 8 s in steps of 0.05 s, so that grids alternate; a window is 1.9 s
        newest = 5.05 + 0.05 * k
        window = window_at(newest, [1, 3], 5.0)
        estimate = roll.estimate(window, estimate)
        assert np.isfinite(estimate.positions).all()
        errors.append(np.linalg.norm(estimate.positions[[1, 3]] - truth(window.times)[[1, 3]], axis=-1).max())
        np.testing.assert_array_equal(estimate.positions[0], window.positions[0])
    assert nri.graphs == 1  # read before the loss, and kept
    moved = np.linalg.norm(truth([13.0])[[1, 3], 0] - truth([5.0])[[1, 3], 0] - [2.4, 0], axis=-1)
    assert moved.min() > 0.5
    assert max(errors) < 0.02


def test_without_what_was_said_before_it_is_not_known():
    _, roll = make()
    window = window_at(12.0, [1, 3], 5.0)
    error = np.linalg.norm(roll.estimate(window).positions[[1, 3], -1] - truth([12.0])[[1, 3], 0], axis=-1)
    assert error.min() > 0.1


def test_an_agent_that_is_back_is_taken_as_seen():
    _, roll = make()
    estimate = roll.estimate(window_at(6.0, [1], 5.0))
    window = window_at(6.5, [], 5.0)
    window.positions[1, :10], window.observed[1, :10] = np.nan, False
    estimate = roll.estimate(window, estimate)
    np.testing.assert_allclose(estimate.internal.states[-1, 1, :2], truth([6.5])[1, 0], atol=1e-6)


def test_other_windows_go_on_at_constant_velocity():
    _, roll = make()
    window = window_at(5.6, [0, 1, 2], 5.0)
    estimate = roll.estimate(window)
    expected = window.last_position[0] + window.last_velocity[0] * 0.6
    np.testing.assert_allclose(estimate.positions[0, -1], expected, atol=1e-6)
    assert estimate.internal is None or not hasattr(estimate.internal, "graph")


def test_grids_that_do_not_meet_begin_anew():
    nri, roll = make()
    estimate = roll.estimate(window_at(6.0, [1], 5.0))
    roll.estimate(window_at(30.0, [1], 29.5), estimate)
    assert nri.graphs == 2
