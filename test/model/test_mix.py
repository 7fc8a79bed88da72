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
from siha_ros.model.mix import AHEAD, MIX, Mix, best_weights, mixed
from siha_ros.replay.windows import window_of

OWN, MOVING, HELD = np.eye(3)
ONE = "lost_1"  # the table of one lost agent


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
    arrays = bundle.arrays | {MIX: {ONE: torch.tensor(rows or [[0.0]], dtype=torch.float64)}}
    with pytest.raises(
        BundleError, match="mix(.safetensors: lost_1: expected|: lost_1 holds numbers that are not finite)"
    ):
        save_bundle(tmp_path / "odd", bundle.config, bundle.networks, arrays)
        load_estimator(tmp_path / "odd", "cpu")


def test_a_table_of_an_unknown_name_is_refused(tmp_path, team):
    bundle = load_bundle(team)
    tables = {"lost": Mix(np.array([1.0]), OWN[None]).tensor()}
    save_bundle(tmp_path / "odd", bundle.config, bundle.networks, bundle.arrays | {MIX: tables})
    for asked in (describe, lambda path: load_estimator(path, "cpu")):
        with pytest.raises(BundleError, match="mix.safetensors: lost: expected lost_1, lost_2 and so on, or ahead"):
            asked(tmp_path / "odd")


def window(lost_at=4):
    """Agents that drift apart; the last one is out of sight from a frame on, and moved 0.3 m/s before."""
    times = 0.1 * np.arange(FRAMES)
    start = np.random.default_rng(4).normal(size=(AGENTS, 1, 2))
    truth = start + times[:, None] * np.linspace(-0.3, 0.3, AGENTS)[:, None, None]
    observed = np.ones((AGENTS, FRAMES), bool)
    observed[-1, lost_at:] = False
    return window_of([f"r{number}" for number in range(AGENTS)], times, truth, observed)


def estimate_with(folder, shown=None, **mixes):
    """The small team's answer to a window (that above), its networks mixed by the same weights at all times, or by
    some at 0 s and others at 1 s."""
    bundle = load_bundle(folder)
    tensors = {
        name: Mix(np.arange(len(weights.reshape(-1, 3))).astype(float), weights.reshape(-1, 3)).tensor()
        for name, weights in mixes.items()
    }
    estimator = TeamEstimator(replace(bundle, arrays=bundle.arrays | {MIX: tensors}), torch.device("cpu"))
    return estimator.estimate(window() if shown is None else shown)


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    return save_small_team(tmp_path_factory.mktemp("bundles") / "team")


def test_with_all_weight_on_them_networks_say_what_they_said(team):
    own, plain = estimate_with(team, lost_1=OWN, ahead=OWN), load_estimator(team, "cpu").estimate(window())
    np.testing.assert_allclose(own.positions, plain.positions, atol=1e-12)
    np.testing.assert_allclose(own.forecast.positions, plain.forecast.positions, atol=1e-12)
    assert own.reason == plain.reason == [""] * AGENTS


def test_with_no_weight_on_them_a_lost_agent_goes_on_as_it_was_last_seen(team):
    moving, held, plain = (estimate_with(team, **mixes) for mixes in ({ONE: MOVING}, {ONE: HELD}, {}))
    straight = ConstantVelocity(HORIZON).estimate(window())
    np.testing.assert_allclose(moving.positions, straight.positions, atol=1e-9)
    np.testing.assert_allclose(moving.forecast.positions[-1], straight.forecast.positions[-1], atol=1e-9)
    np.testing.assert_allclose(held.positions, Hold(HORIZON).estimate(window()).positions, atol=1e-9)
    np.testing.assert_allclose(held.forecast.positions[-1], np.repeat(held.positions[-1, -1:], HORIZON, 0), atol=1e-9)
    assert (held.velocities[-1, -1] == 0).all() and np.allclose(moving.velocities[-1, -1], window().last_velocity[-1])
    for estimate in (moving, held):  # of those that are seen the networks speak as before
        np.testing.assert_allclose(estimate.forecast.positions[:-1], plain.forecast.positions[:-1])
        assert estimate.reason == [*[""] * (AGENTS - 1), MOSTLY_MOTION] and estimate.internal is not None
    half = estimate_with(team, lost_1=0.5 * (OWN + MOVING))
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
    save_bundle(tmp_path / "mixed", bundle.config, bundle.networks, bundle.arrays | {MIX: {ONE: mix.tensor()}})
    (line,) = [line for line in describe(tmp_path / "mixed").splitlines() if "0.25 s: 0.90; 3.5 s: 0.00" in line]
    assert line.split()[:2] == ["1", "lost,"] and "Share of the networks" not in describe(team)


def test_velocities_are_those_of_the_positions_where_weights_change(team):
    estimate = estimate_with(team, lost_1=np.stack([OWN, HELD]), ahead=np.stack([MOVING, OWN]))
    for agent, known in ((AGENTS - 1, FRAMES), (0, 1)):
        path = np.concatenate([estimate.positions[agent, FRAMES - known :], estimate.forecast.positions[agent]])
        speed = np.concatenate([estimate.velocities[agent, FRAMES - known :], estimate.forecast.velocities[agent]])
        np.testing.assert_allclose(np.diff(path, axis=0) / 0.1, speed[1:], atol=1e-5)
    plain, rest = estimate_with(team), np.repeat(window().last_position[-1:], HORIZON, 0)
    np.testing.assert_allclose(estimate.forecast.positions[-1, 20:], rest[20:], atol=1e-9)  # beyond 1 s
    np.testing.assert_allclose(estimate.forecast.positions[0, 20:], plain.forecast.positions[0, 20:], atol=1e-9)
    gone, now = 0.1 * (FRAMES - 4), estimate.positions[-1, -1]  # s since it was seen
    np.testing.assert_allclose(now, (1 - gone) * plain.positions[-1, -1] + gone * rest[0], atol=1e-9)


def test_a_table_for_two_is_none_for_one(team):
    one, plain = estimate_with(team, lost_2=HELD), estimate_with(team)
    np.testing.assert_allclose(one.positions, plain.positions)
    shown = window()
    shown.observed[-2], shown.positions[-2, 4:] = shown.observed[-1], np.nan
    shown.last_seen[-2] = shown.last_seen[-1]
    shown.last_position[-2] = shown.positions[-2, 3]
    two = estimate_with(team, shown, lost_1=MOVING, lost_2=HELD)
    np.testing.assert_allclose(two.positions[-2:, -1], shown.last_position[-2:], atol=1e-9)


def test_forecasts_start_where_agents_are_at_the_newest_grid_time(team):
    """A live window's last samples are newer than its grid."""
    shown = window(lost_at=FRAMES)
    later = replace(
        shown, last_seen=shown.last_seen + 0.1, last_position=shown.last_position + 0.1 * shown.last_velocity
    )
    estimate = estimate_with(team, later, ahead=MOVING)
    np.testing.assert_allclose(estimate.forecast.positions[:, 0], later.last_position, atol=1e-9)


def test_a_spike_is_no_last_motion(team):
    shown, plain = window(lost_at=FRAMES), window(lost_at=FRAMES)
    for spiked in (shown.positions[1, -1], shown.last_position[1]):
        spiked += 900.0
    held, own = (estimate_with(team, shown, **mixes) for mixes in ({ONE: HELD}, {}))
    assert np.isfinite(held.positions).all() and MOSTLY_MOTION not in held.reason
    np.testing.assert_allclose(held.positions, own.positions)
    assert abs(held.positions[1, -1] - plain.positions[1, -1]).max() < 1  # left out, and placed by what is known


def test_noise_of_the_last_velocity_is_stated(team):
    """The bundle of this test measures noise; its tables know none."""
    bundle, shown = load_bundle(team), window()
    noise = bundle.arrays["noise"] | {"roughness": torch.tensor(1e-9)}
    mix = {ONE: Mix(np.array([0.0]), MOVING[None]).tensor()}
    estimator = TeamEstimator(replace(bundle, arrays={"noise": noise, MIX: mix}), torch.device("cpu"))
    exact = estimator.estimate(shown).position_95[-1, -1]
    random = np.random.default_rng(5)
    for scale in (0.05, 0.1):
        noisy = replace(shown, positions=shown.positions + random.normal(size=shown.positions.shape) * scale)
        stated = estimator.estimate(noisy).position_95[-1, -1]
        assert stated > 0.3 * 2.45 * np.sqrt(2) * scale / 0.1 * 0.4 and stated > 3 * exact


def test_of_what_is_mixed_the_smoother_predicts_nothing(team):
    own, mixed_one = estimate_with(team), estimate_with(team, lost_1=0.5 * (OWN + MOVING))
    assert np.isfinite(own.spread[-1, 4:]).all() and np.isnan(mixed_one.spread[-1, 4:]).all()
