"""Weights between a network's answer and an agent's last motion: the best ones, and what an estimator makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_team import AGENTS, FRAMES, HORIZON, save_small_team

from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.bundle_info import describe
from siha_ros.estimator import MOSTLY_MOTION, TeamEstimator, load_estimator
from siha_ros.model.bundle import BundleError, load_bundle, save_bundle
from siha_ros.model.mix import AHEAD, LOST, MIX, Mix, best_weights, mixed
from siha_ros.replay.windows import window_of

OWN, MOVING, HELD = np.eye(3)


def test_the_best_weights_are_those_of_a_search_over_all():
    random = np.random.default_rng(0)
    errors = random.normal(size=(3, 200, 2)) * np.array([1.0, 0.7, 1.5])[:, None, None]
    errors[1] += 0.4 * errors[0]  # two that are wrong alike
    found = best_weights(errors)
    grid = [(a / 100, b / 100, 1 - (a + b) / 100) for a in range(101) for b in range(101 - a)]
    best = min(grid, key=lambda weights: np.square(np.einsum("k,knp->np", weights, errors)).sum())
    assert found == pytest.approx(best, abs=0.01) and found.sum() == pytest.approx(1) and (found >= 0).all()


@pytest.mark.parametrize("right", [0, 1, 2])
def test_an_answer_that_is_always_right_gets_all(right):
    errors = np.random.default_rng(right).normal(size=(3, 50, 2))
    errors[right] = 0
    assert best_weights(errors) == pytest.approx(np.eye(3)[right], abs=1e-4)


def test_one_that_is_worse_than_another_everywhere_gets_nothing():
    errors = np.random.default_rng(3).normal(size=(1, 50, 2)) * np.array([3.0, 1.0, 2.0])[:, None, None]
    assert best_weights(errors) == pytest.approx(MOVING, abs=1e-4)


def test_weights_between_and_beyond_the_times_of_a_table():
    mix = Mix.from_tensor(Mix(np.array([1.0, 3.0]), np.stack([OWN, [0.0, 0.5, 0.5]])).tensor())
    at = mix.at(np.array([[0.0, 1.0], [2.0, 9.0]]))
    assert at.tolist() == [[[1, 0, 0], [1, 0, 0]], [[0.5, 0.25, 0.25], [0, 0.5, 0.5]]]
    assert mixed(at[1], *(np.full((2, 1), value) for value in (8.0, 4.0, 0.0))).tolist() == [[5.0], [2.0]]


@pytest.mark.parametrize(
    "rows", [[1.0], [[1, 1, 0, 0.5]], [[1, -0.5, 1, 0.5]], [[2, 1, 0, 0], [1, 1, 0, 0]], [[1, np.nan, 1, 0]], []]
)
def test_tables_that_are_none_are_refused(rows, tmp_path):
    with pytest.raises(ValueError, match="expected"):
        Mix.from_tensor(torch.tensor(rows, dtype=torch.float64))
    bundle = load_bundle(save_small_team(tmp_path / "team"))
    arrays = bundle.arrays | {MIX: {LOST: torch.tensor(rows or [[0.0]], dtype=torch.float64)}}
    with pytest.raises(BundleError, match="mix(.safetensors: lost: expected|: lost holds numbers that are not finite)"):
        save_bundle(tmp_path / "odd", bundle.config, bundle.networks, arrays)
        load_estimator(tmp_path / "odd", "cpu")


def window(lost_at=4):
    """Agents that drift apart; the last one is out of sight from a frame on, and moved 0.3 m/s before."""
    times = 0.1 * np.arange(FRAMES)
    start = np.random.default_rng(4).normal(size=(AGENTS, 1, 2))
    truth = start + times[:, None] * np.linspace(-0.3, 0.3, AGENTS)[:, None, None]
    observed = np.ones((AGENTS, FRAMES), bool)
    observed[-1, lost_at:] = False
    return window_of([f"r{number}" for number in range(AGENTS)], times, truth, observed)


def estimate_with(folder, **mixes):
    """The small team's answer to the window, its networks mixed by the same weights at all times."""
    bundle = load_bundle(folder)
    tensors = {name: Mix(np.array([0.5]), weights[None]).tensor() for name, weights in mixes.items()}
    return TeamEstimator(replace(bundle, arrays=bundle.arrays | {MIX: tensors}), torch.device("cpu")).estimate(window())


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    return save_small_team(tmp_path_factory.mktemp("bundles") / "team")


def test_with_all_weight_on_them_networks_say_what_they_said(team):
    own, plain = estimate_with(team, lost=OWN, ahead=OWN), load_estimator(team, "cpu").estimate(window())
    np.testing.assert_allclose(own.positions, plain.positions, atol=1e-12)
    np.testing.assert_allclose(own.forecast.positions, plain.forecast.positions, atol=1e-12)
    assert own.reason == plain.reason == [""] * AGENTS


def test_with_no_weight_on_them_a_lost_agent_goes_on_as_it_was_last_seen(team):
    moving, held, plain = (estimate_with(team, **mixes) for mixes in ({LOST: MOVING}, {LOST: HELD}, {}))
    straight = ConstantVelocity(HORIZON).estimate(window())
    np.testing.assert_allclose(moving.positions, straight.positions, atol=1e-9)
    np.testing.assert_allclose(moving.forecast.positions[-1], straight.forecast.positions[-1], atol=1e-9)
    np.testing.assert_allclose(held.positions, Hold(HORIZON).estimate(window()).positions, atol=1e-9)
    np.testing.assert_allclose(held.forecast.positions[-1], np.repeat(held.positions[-1, -1:], HORIZON, 0), atol=1e-9)
    assert (held.velocities[-1, -1] == 0).all() and np.allclose(moving.velocities[-1, -1], window().last_velocity[-1])
    for estimate in (moving, held):  # of those that are seen the networks speak as before
        np.testing.assert_allclose(estimate.forecast.positions[:-1], plain.forecast.positions[:-1])
        assert estimate.reason == [*[""] * (AGENTS - 1), MOSTLY_MOTION] and estimate.internal is not None
    half = estimate_with(team, lost=0.5 * (OWN + MOVING))
    np.testing.assert_allclose(half.positions, (moving.positions + plain.positions) / 2, atol=1e-9)


def test_forecasts_of_agents_in_view_have_weights_of_their_own(team):
    straight = ConstantVelocity(HORIZON).estimate(window())
    moving, held, plain = (estimate_with(team, **mixes) for mixes in ({AHEAD: MOVING}, {AHEAD: HELD}, {}))
    np.testing.assert_allclose(moving.forecast.positions[:-1], straight.forecast.positions[:-1], atol=1e-9)
    np.testing.assert_allclose(held.forecast.positions[:-1], np.repeat(held.positions[:-1, -1:], HORIZON, 1), atol=1e-9)
    for estimate in (moving, held):
        np.testing.assert_allclose(estimate.positions, plain.positions)
        np.testing.assert_allclose(estimate.forecast.positions[-1], plain.forecast.positions[-1])
        assert estimate.reason == [""] * AGENTS


def test_bundle_info_tells_the_share(team, tmp_path):
    bundle = load_bundle(team)
    mix = Mix(np.array([0.25, 3.5]), np.array([[0.9, 0.1, 0.0], [0.0, 0.4, 0.6]]))
    save_bundle(tmp_path / "mixed", bundle.config, bundle.networks, bundle.arrays | {MIX: {LOST: mix.tensor()}})
    (line,) = [line for line in describe(tmp_path / "mixed").splitlines() if "0.25 s: 0.90; 3.5 s: 0.00" in line]
    assert line.split()[:3] == ["of", "lost", "agents,"] and "Share of the networks" not in describe(team)
