"""Weights between a network's answer and an agent's last motion: the best ones, and what an estimator makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_team import AGENTS, FRAMES, HORIZON, save_small_team

from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.bundle_info import describe
from siha_ros.estimator import TeamEstimator, load_estimator
from siha_ros.model.bundle import BundleError, load_bundle, save_bundle
from siha_ros.model.mix import MIX, Mix, best_weights, between_numbers, mixed
from siha_ros.replay.windows import window_of
from siha_ros.window import Observation, SlidingWindow, WindowParameters

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
        with pytest.raises(BundleError, match="mix.safetensors: lost: expected lost_1, lost_2 and so on"):
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
    own, plain = estimate_with(team, lost_1=OWN), load_estimator(team, "cpu").estimate(window())
    np.testing.assert_allclose(own.positions, plain.positions, atol=1e-12)
    np.testing.assert_allclose(own.forecast.positions, plain.forecast.positions, atol=1e-12)


def test_with_no_weight_on_them_a_lost_agent_goes_on_as_it_was_last_seen(team):
    long = np.stack([MOVING, MOVING])  # up to 1 s, and followed for half as long again
    moving, held, plain = (estimate_with(team, **mixes) for mixes in ({ONE: long}, {ONE: HELD}, {}))
    straight, rest = ConstantVelocity(HORIZON).estimate(window()), window().last_position[-1:]
    np.testing.assert_allclose(moving.positions, straight.positions, atol=1e-9)
    until = 15 - (FRAMES - 4)  # frames ahead
    np.testing.assert_allclose(
        moving.forecast.positions[-1, :until], straight.forecast.positions[-1, :until], atol=1e-9
    )
    there = rest + 1.5 * window().last_velocity[-1]
    np.testing.assert_allclose(moving.forecast.positions[-1][until:], np.repeat(there, HORIZON - until, 0), atol=1e-9)
    np.testing.assert_allclose(held.positions, Hold(HORIZON).estimate(window()).positions, atol=1e-9)
    np.testing.assert_allclose(held.forecast.positions[-1], np.repeat(rest, HORIZON, 0), atol=1e-9)
    assert np.allclose(held.velocities[-1, -1], 0) and np.allclose(
        moving.velocities[-1, -1], window().last_velocity[-1]
    )
    for estimate in (moving, held):  # of those that are seen the networks speak as before
        np.testing.assert_allclose(estimate.forecast.positions[:-1], plain.forecast.positions[:-1])
        assert estimate.reason == [""] * AGENTS and estimate.internal is not None
    half = estimate_with(team, lost_1=0.5 * (np.stack([OWN, OWN]) + long))
    np.testing.assert_allclose(half.positions, (moving.positions + plain.positions) / 2, atol=1e-9)


def test_bundle_info_tells_the_share(team, tmp_path):
    bundle = load_bundle(team)
    mix = Mix(np.array([0.25, 3.5]), np.array([[0.9, 0.1, 0.0], [0.0, 0.4, 0.6]]))
    save_bundle(tmp_path / "mixed", bundle.config, bundle.networks, bundle.arrays | {MIX: {ONE: mix.tensor()}})
    (line,) = [line for line in describe(tmp_path / "mixed").splitlines() if "0.25 s: 0.90; 3.5 s: 0.00" in line]
    assert line.split()[:2] == ["1", "lost,"] and "Share of the networks" not in describe(team)


def test_velocities_are_those_of_the_positions_where_weights_change(team):
    estimate, plain = estimate_with(team, lost_1=np.stack([OWN, HELD])), estimate_with(team)
    path = np.concatenate([estimate.positions[-1], estimate.forecast.positions[-1]])
    speed = np.concatenate([estimate.velocities[-1], estimate.forecast.velocities[-1]])
    np.testing.assert_allclose(np.diff(path, axis=0) / 0.1, speed[1:], atol=1e-5)
    rest, gone = window().last_position[-1], 0.1 * (FRAMES - 4)  # s since it was seen
    np.testing.assert_allclose(path[-1], rest, atol=1e-9)
    now = (1 - gone) * plain.positions[-1, -1] + gone * rest
    np.testing.assert_allclose(estimate.positions[-1, -1], now, atol=1e-9)


def test_an_agent_was_last_seen_between_the_times_of_the_grid(team):
    shown, late = window(), 0.04
    shown.last_seen[-1] += late
    shown.last_position[-1] += late * shown.last_velocity[-1]
    moving, on_grid = (estimate_with(team, asked, lost_1=MOVING[None].repeat(2, 0)) for asked in (shown, window()))
    np.testing.assert_allclose(moving.positions[-1, -1], on_grid.positions[-1, -1], atol=1e-9)


def two_lost():
    shown = window()
    shown.observed[-2], shown.positions[-2, 4:] = shown.observed[-1], np.nan
    shown.last_seen[-2] = shown.last_seen[-1]
    shown.last_position[-2] = shown.positions[-2, 3]
    return shown


def test_tables_are_of_the_number_of_agents_lost(team):
    one, plain = estimate_with(team, lost_2=HELD), estimate_with(team)
    np.testing.assert_allclose(one.positions, plain.positions)
    two = estimate_with(team, two_lost(), lost_1=MOVING, lost_2=HELD)
    np.testing.assert_allclose(two.positions[-2:, -1], two_lost().last_position[-2:], atol=1e-9)


def test_between_numbers_weights_go_over_into_each_other():
    mixes = {ONE: Mix(np.array([0.0, 2.0]), np.stack([OWN, MOVING])), "lost_2": Mix(np.array([1.0]), HELD[None])}
    since = np.array([[0.0, 1.0]])
    for gone, now in ((1.0, [0.5, 0.5, 0]), (1.25, [0.375, 0.375, 0.25]), (2.0, [0, 0, 1]), (2.5, [0, 0, 1])):
        weights, longest = between_numbers(mixes, gone, since)
        assert weights[0, 1] == pytest.approx(now) and longest == (3.0 if gone < 2 else 1.5)
    weights, _ = between_numbers({"lost_2": mixes["lost_2"]}, 1.0, since)
    assert weights.tolist() == [[[1, 0, 0], [1, 0, 0]]]


def test_one_that_is_away_for_a_moment_does_not_move_the_other(team):
    """An estimate of two lost, after one in which one was: the number is followed, not leapt to."""
    bundle = load_bundle(team)
    tables = {ONE: Mix(np.array([0.0]), HELD[None]).tensor(), "lost_2": Mix(np.array([0.0]), MOVING[None]).tensor()}
    estimator = TeamEstimator(replace(bundle, arrays=bundle.arrays | {MIX: tables}), torch.device("cpu"))
    shown = window()
    first = estimator.estimate(shown)
    more = two_lost()
    more.observed[-2, :-1], more.positions[-2, :-1] = True, window().positions[-2, :-1]
    more.last_seen[-2] = more.times[-2]
    more.last_position[-2] = more.positions[-2, -2]
    second = estimator.estimate(more, first)
    assert abs(second.positions[-1, -1] - first.positions[-1, -1]).max() < 1e-9
    assert first.internal.gone == 1 and second.internal.gone == 1  # no time has passed
    assert estimator.estimate(more).internal.gone == 2


def test_who_is_placed_by_the_others_is_not_mixed(team):
    """Never seen in the window, but once before."""
    asked = window(lost_at=0)
    asked.last_seen[-1], asked.last_position[-1], asked.last_velocity[-1] = -1.0, 0.5, 0.1
    held, plain = estimate_with(team, asked, lost_1=HELD), estimate_with(team, asked)
    assert plain.reason[-1].startswith("not seen in the window")
    np.testing.assert_allclose(held.positions, plain.positions)


def test_a_spike_is_no_last_motion(team):
    shown, plain = window(lost_at=FRAMES), window(lost_at=FRAMES)
    for spiked in (shown.positions[1, -1], shown.last_position[1]):
        spiked += 900.0
    held, own = (estimate_with(team, shown, **mixes) for mixes in ({ONE: HELD}, {}))
    np.testing.assert_allclose(held.positions, own.positions)
    assert abs(held.positions[1, -1] - plain.positions[1, -1]).max() < 1  # left out, and placed by what is known


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_noise_of_the_last_velocity_is_stated_of_states_and_forecasts(team, share):
    """The bundle of this test measures noise; its tables know none."""
    bundle, shown = load_bundle(team), window()
    noise = bundle.arrays["noise"] | {"roughness": torch.tensor(1e-9)}
    weights = np.stack([share * OWN + (1 - share) * MOVING] * 2)
    mix = {ONE: Mix(np.array([0.0, 1.0]), weights).tensor()}
    estimator = TeamEstimator(replace(bundle, arrays={"noise": noise, MIX: mix}), torch.device("cpu"))
    random, scale, gone = np.random.default_rng(5), 0.1, 0.1 * (FRAMES - 4)
    noisy = replace(shown, positions=shown.positions + random.normal(size=shown.positions.shape) * scale)
    variance = estimator._noise(noisy).variance
    estimate, per_second = estimator.estimate(noisy), (1 - share) * np.sqrt(2 * variance) / 0.1
    assert 0.5 * scale < np.sqrt(variance) < 2 * scale
    assert estimate.position_95[-1, -1] >= 2.45 * per_second * gone
    assert estimate.forecast.position_95[-1, 4] >= 2.45 * per_second * (gone + 0.5)


def test_of_what_is_mixed_the_smoother_predicts_nothing(team):
    own, mixed_one = estimate_with(team), estimate_with(team, lost_1=0.5 * (OWN + MOVING))
    assert np.isfinite(own.spread[-1, 4:]).all() and np.isnan(mixed_one.spread[-1, 4:]).all()


def test_a_stream_through_a_mixed_bundle_is_finite(team):
    """Late samples, one bridged, one lost and back, as a live window has them."""
    bundle = load_bundle(team)
    tables = {ONE: Mix(np.array([0.0, 2.0]), np.stack([OWN, HELD])).tensor()}
    estimator = TeamEstimator(replace(bundle, arrays=bundle.arrays | {MIX: tables}), torch.device("cpu"))
    names = [f"r{number}" for number in range(AGENTS)]
    live = SlidingWindow(0.1, FRAMES, 2, names, WindowParameters())
    start, speed, previous, before = np.random.default_rng(6).normal(size=(AGENTS, 2)), 0.2, None, None
    for number in range(120):
        now = 0.03 * number
        for agent, name in enumerate(names):
            away = (agent == 1 and 1.5 < now < 1.7) or (agent == 2 and 2.0 < now < 3.0)
            if not away:
                live.add(Observation(now, "team", name, np.append(start[agent] + [speed * now, 0.0], 0.0)))
        if number % 5 == 0 and now > 1.2:
            shown = live.window()
            if shown is None:
                continue
            previous = estimator.estimate(shown, previous)
            assert np.isfinite(previous.positions).all() and np.isfinite(previous.forecast.positions).all()
            assert np.isfinite(previous.position_95).all() and np.isfinite(previous.forecast.position_95).all()
            if before is not None:
                assert abs(previous.positions[:, -1] - before).max() < 0.5
            before = previous.positions[:, -1]
    assert previous is not None
