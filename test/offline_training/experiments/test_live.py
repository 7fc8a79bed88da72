"""The node's estimator among the plain methods: the windows it is given, and that it uses what was seen of an agent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from offline_training.datasets.benchmarks import SYSTEMS
from offline_training.experiments import baselines, live
from offline_training.experiments.baselines import Problem, live_rows, solve
from offline_training.experiments.plain_methods import plain_methods
from offline_training.systems.springs import FRAME_DT
from offline_training.team import TeamModules
from siha_ros.model.bundle import load_bundle
from siha_ros.resources import bundle_path
from siha_ros.window.types import Status


def test_a_window_holds_what_was_seen_and_nothing_else():
    positions = np.arange(3 * 4 * 2, dtype=float).reshape(3, 4, 2)
    window = live.window_of(positions, positions / 10, 1, np.array([True, True, False, False]), 0.5)
    assert window.observed.tolist() == [[True] * 4] * 2 + [[True, True, False, False]]
    assert np.isnan(window.positions[2, 2:]).all() and np.isnan(window.velocities[2, 2:]).all()
    assert np.array_equal(window.positions[:2], positions[:2])
    assert window.last_seen.tolist() == [1.5, 1.5, 0.5] and window.last_position[2].tolist() == [18.0, 19.0]
    assert window.last_velocity[2] == pytest.approx([1.8, 1.9])
    assert window.status.tolist() == [Status.VISIBLE, Status.VISIBLE, Status.HIDDEN]
    never = live.window_of(positions, positions, 2, np.zeros(4, bool), 0.5)
    assert np.isnan(never.last_seen[1:]).all() and np.isnan(never.last_position[1:]).all()
    back = live.window_of(positions, positions, 1, np.array([True, False, False, True]), 0.5)
    assert back.last_seen[2] == 1.5 and back.status[2] == Status.VISIBLE


def test_trained_networks_follow_the_agents_that_were_seen(monkeypatch):
    """The shipped networks in the setting that they are of. In some windows the graph is not clear from the half that
    was seen, and what follows a loss is far off; within a gap nothing is."""
    monkeypatch.setattr(live, "CHECKS", 40)
    monkeypatch.setattr(baselines, "LIVE", 8)
    networks = load_bundle(bundle_path("springs_fresh")).networks
    modules = TeamModules(networks["nri"], None, {2: networks["hsp_sa_2"]}, {2: networks["hsp_sg_2"]})
    estimator = live.springs_estimator(modules, 7, 0, torch.device("cpu"))
    test = SYSTEMS["springs"].windows("test", 8, 7, 50, 0).all_states.double().numpy()
    scale = SYSTEMS["springs"].scale
    problem = Problem(test, test, test, 2, False, FRAME_DT * scale.velocity / scale.position)
    rows = live_rows(problem, estimator, ())
    plain = solve(problem, {"constant_velocity": plain_methods(problem.step)["constant_velocity"]})
    assert set(rows) == {"early", "lost", "gap"}
    assert rows["lost"]["mse"] < 0.5 * plain["constant_velocity"]["lost"]["mse"]
    assert rows["gap"]["mse"] < 1e-3 * plain["constant_velocity"]["gap"]["mse"]
    seen = np.arange(50) < 25
    found = live.completed(estimator, test[:1], 2, seen)
    assert found[:, :, seen] == pytest.approx(test[:1, 5:][:, :, seen], abs=1e-9)
