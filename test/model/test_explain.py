"""Trajectories of agents never seen that explain the others: on exact springs, from a poor guess."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from springs_by_hand import SCALE, graph, spring_nri, states
from test_dynamics import AGENTS, DIMS, FEATURES, HIDDEN, STEP, VISIBLE, team

from siha_ros.model.edges import matrix_to_incoming
from siha_ros.model.explain import EXPLAINED, explain, step_residual
from siha_ros.model.refinement import Refined

FRAMES = 30


class Knowing(torch.nn.Module):
    """An encoder that is rather sure of the true edges, all but those among the hidden agents: of them it is as sure of
    the contrary."""

    def __init__(self, edges):
        super().__init__()
        believed = edges.copy()
        believed[:, VISIBLE:, VISIBLE:] ^= True
        self.logits = 10.0 * matrix_to_incoming(torch.cat([graph(team) for team in believed]))

    def forward(self, x):
        return self.logits.repeat(len(x) // len(self.logits), 1, 1, 1)


def answer(seed, wrong_pair=False):
    """Two teams; the paper's loop as if it guessed the truth 20 cm off. Truth, edges and what explains the first."""
    torch.manual_seed(seed)
    nri = spring_nri(frames=FRAMES).double()
    teams = [team(FRAMES, seed + number) for number in range(2)]
    x = torch.cat([states(positions, velocities) for positions, velocities, _ in teams])
    edges = np.stack([edges for *_, edges in teams])
    nri.encoder = Knowing(edges)
    visible, truth = x[:, :VISIBLE], x[:, VISIBLE:]
    guess = truth + 0.2 / SCALE.position * torch.randn(2, HIDDEN, 1, FEATURES, dtype=torch.float64)
    if wrong_pair:
        guess[1] = -truth[1]
    refinement = SimpleNamespace(nri=nri, hsp_sa=lambda _: guess, hsp_sg=lambda *_: guess)
    variance = torch.full((FEATURES,), 0.1**2, dtype=torch.float64)
    refined = Refined(guess, torch.zeros_like(guess), nri.graph(x), 5, 0.0)
    found = explain(
        refinement, visible, refined, variance, torch.full_like(variance, STEP**2), 3 * x.abs().amax((0, 1, 2))
    )
    return nri, visible, truth, edges, found


def test_hidden_agents_and_their_edges_are_found():
    _, _, truth, edges, found = answer(seed=2)
    assert found.residual.max() < EXPLAINED
    error = (found.smoothed.hidden - truth)[..., :DIMS].abs().max() * SCALE.position
    assert error < 0.001  # metres, of a guess 20 cm off
    off_diagonal = ~np.eye(AGENTS, dtype=bool)
    assert ((found.log_odds.numpy() > 0) == edges)[:, off_diagonal].all()


def test_what_explains_nothing_has_a_large_residual_and_does_not_spoil_the_other_sample():
    _, _, truth, _, found = answer(seed=2, wrong_pair=True)
    assert found.residual[0] < EXPLAINED < found.residual[1]
    assert (found.smoothed.hidden - truth)[0, ..., :DIMS].abs().max() * SCALE.position < 0.02


def test_the_residual_is_the_mean_squared_step_error_of_whoever_is_explained_worse():
    nri, visible, truth, edges, _ = answer(seed=3)
    odds = torch.from_numpy(np.where(edges, 60.0, -60.0))
    variance = torch.full((FEATURES,), STEP**2, dtype=torch.float64)
    assert step_residual(nri, visible, truth, odds, variance).max() < 1e-6
    off = truth.clone()
    off[:, :, 5, 0] += 3 * STEP  # one position of T - 2 steps: missed by 3 deviations once, and left from 3 away once
    residual = step_residual(nri, visible, off, odds, variance)
    assert residual == pytest.approx(2 * 9 / (FEATURES * (FRAMES - 2)), rel=0.05)
