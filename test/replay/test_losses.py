"""Losses in a run whose every number is known: one agent moves at 1 m/s along x, and is lost at 2 s."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from small_team import save_small_team

from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.estimator import FORECAST, FORECAST_LOST, load_estimator
from siha_ros.model.bundle import load_config
from siha_ros.replay.losses import (
    Run,
    error_table,
    error_tables,
    estimate_frames,
    live_window,
    never_seen_tables,
    noise_tables,
    report,
    run_losses,
    with_noise,
)

DT = 0.02
LOST_AT, END = 100, 150


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return save_small_team(tmp_path_factory.mktemp("bundle") / "small_team")


@pytest.fixture
def config(bundle):
    return load_config(bundle)


def run(edges=None, end=END):
    positions = np.zeros((5, 220, 2))
    positions[:, :, 1] = np.arange(5)[:, None]
    positions[2, :, 0] = DT * np.arange(220)
    return Run([f"r{i}" for i in range(5)], positions, DT, edges, np.array([2]), LOST_AT, end)


def test_a_window_of_a_run_is_on_the_bundles_grid_and_hides_the_lost_agent(config):
    window = live_window(config, run(), 110)
    assert np.allclose(window.times, 0.1 * np.arange(15, 23))  # 8 frames of 0.1 s up to 2.2 s
    assert window.observed[2].tolist() == [True] * 5 + [False] * 3  # 1.5 to 1.9 s; the last sample is at 1.98 s
    assert np.isclose(window.last_seen[2], 1.98) and np.allclose(window.last_position[2], [1.98, 2])
    assert np.allclose(window.last_velocity[2], [1, 0]) and window.hidden.tolist() == [False, False, True, False, False]


def test_agents_out_of_the_window_are_still_remembered(config):
    window = live_window(config, run(), 180)
    assert not window.observed[2].any() and np.isclose(window.last_seen[2], 1.98)


def test_a_run_must_fit_the_grid(config):
    odd = Run(["a"] * 5, np.zeros((5, 200, 2)), 0.03, None, np.array([0]), 50, 60)
    with pytest.raises(ValueError, match="do not fit the grid"):
        live_window(config, odd, 80)


def test_estimates_come_at_the_rate_from_before_the_loss_to_its_end(config):
    frames = estimate_frames(config, run(), rate=5.0, phase=0.5)
    assert frames[0] == 35 + 5 and frames[-1] < END and set(np.diff(frames)) == {10}  # a window is 35 frames long
    assert estimate_frames(config, run(), 5.0, 0.0)[0] == 35
    for rate in (0.1, 0.2, 0.5, 1.0):  # so slow that none may fall into the run
        for phase in np.linspace(0, 1, 21):
            assert all(35 <= frame < END for frame in estimate_frames(config, run(), rate, phase))


def test_errors_are_those_of_the_newest_frame_by_time_since_loss(config):
    methods = {"hold": Hold(horizon=50), "constant_velocity": ConstantVelocity(horizon=50)}
    losses = run_losses(config, methods, [run(), run()], rate=10.0)
    assert losses.count == 2 and losses.lost_agents == 1 and losses.nonfinite == 0
    trace = losses.traces["hold"]
    assert np.allclose(np.linalg.norm(trace.error, axis=-1), trace.since)  # 1 m/s
    assert min(trace.since) >= DT and max(trace.since) <= 1.0
    assert np.allclose(losses.traces["constant_velocity"].error, 0, atol=1e-9)
    found = report(losses, config, data="line", seed=0, rate=10.0)
    half = found["methods"]["hold"]["0.5-1"]
    since = np.array([s for s in trace.since if s > 0.5])
    assert np.isclose(half["rmse_cm"], 100 * np.sqrt(np.mean(since**2)))
    assert np.isclose(half["median_cm"], 100 * np.median(since)) and half["estimates"] == len(since)
    assert found["methods"]["hold"]["2-5"] is None
    assert found["against_best_baseline"] is None and found["graph_accuracy"]["vv"] is None


def test_siha_is_set_against_the_best_other_method_of_each_bin(config):
    class Half(Hold):
        """Off by half of what hold is off by."""

        def estimate(self, window, previous=None):
            estimate = super().estimate(window, previous)
            late = max(0.0, window.times[-1] - window.last_seen[2])
            estimate.positions[2, -1, 0] += late / 2
            return estimate

    edges = np.zeros((5, 5), dtype=bool)
    losses = run_losses(config, {"siha": Half(horizon=50), "hold": Hold(horizon=50)}, [run(edges)], rate=10.0)
    found = report(losses, config, data="line", seed=0, rate=10.0)
    for label in ("0-0.5", "0.5-1", "all"):
        assert found["against_best_baseline"][label]["baseline"] == "hold"
        assert np.isclose(found["against_best_baseline"][label]["ratio"], 0.5)
    assert found["against_best_baseline"]["over 5"] is None
    assert found["graph_accuracy"] == {"vv": 100, "vh": 100, "hh": None}  # one half on both types counts as type 0


def test_the_real_estimator_goes_through_losses_and_fills_the_tables(bundle):
    estimator = load_estimator(bundle, "cpu")
    losses = run_losses(
        estimator.bundle.config, {"siha": estimator, "hold": Hold(horizon=50)}, [run(end=180)], rate=20.0
    )
    tables = error_tables(losses, (0.5,))
    assert set(tables) == {"siha", "hold", "forecast", "forecast_lost"}
    assert losses.nonfinite == 0 and len(losses.ms) == 57  # from 0.7 to 3.6 s
    assert np.isclose(tables["hold"].radius[0], 1.52, atol=0.05)  # 1 m/s for 1.6 seconds


def test_the_table_of_states_is_that_of_losses_of_the_most_agents(config):
    one = run(end=180)
    two = replace(one, lost=np.array([2, 3]))  # of which one stands still

    def table(*runs):
        return error_tables(run_losses(config, {"siha": Hold(horizon=50)}, runs, rate=20.0), (0.5,))["siha"]

    assert table(two, one) == table(two) != table(one)


def test_noise_is_seen_and_errors_are_those_of_the_truth(config):
    (noisy,) = with_noise([run()], 0.01, seed=1)
    assert np.std(noisy.measured - noisy.positions) == pytest.approx(0.01, rel=0.05)
    window = live_window(config, noisy, 80)
    np.testing.assert_array_equal(window.positions[0, -1], noisy.measured[0, 80])
    losses = run_losses(config, {"hold": Hold(horizon=50)}, [noisy], rate=10.0)
    trace = losses.traces["hold"]
    off = np.array(trace.error) - np.stack([trace.since, np.zeros(len(trace.since))], 1)
    assert np.ptp(off, axis=0).max() < 1e-9 < np.abs(off).min()  # the one error of where it was last seen


def test_what_noise_does_is_told_by_its_size_and_by_time():
    """Normal errors of 2 and 4 times the spread, half of that at 1 s and one and a half times at 8."""
    random, n = np.random.default_rng(0), 20_000
    seconds = np.repeat([1.0, 8.0], n)
    times = np.where(seconds < 4, 0.5, 1.5)
    noisy = {}
    for deviation, own in ((0.01, 4.0), (0.001, 2.0)):
        errors = 0.1 * own * times[:, None] * random.normal(size=(2 * n, 2))
        loss = list(range(n)) * 2
        trace = SimpleNamespace(loss=loss, since=list(seconds), error=list(errors), spread=[0.1] * n * 2)
        trace.spread[0] = np.nan  # where nothing was predicted
        noisy[deviation] = SimpleNamespace(traces={"siha": trace})
    by_size, by_time = noise_tables(noisy)
    assert by_size.seconds == [0.001, 0.01] and by_time.seconds == [1.0, 8.0]
    assert by_size.radius[1] == pytest.approx(2 * by_size.radius[0], rel=0.05)
    for deviation, own in ((0.001, 2.0), (0.01, 4.0)):
        for second, part in ((1.0, 0.5), (8.0, 1.5)):
            size, time = by_size.at(np.array([deviation])), by_time.at(np.array([second]))
            found = [float((of_size * of_time)[0]) for of_size, of_time in zip(size, time, strict=True)]
            assert found == pytest.approx([own * part, 2.45 * own * part], rel=0.03)


def test_what_few_losses_tell_of_noise_is_stated_with_caution():
    """One loss of 30 is off by 3 m throughout, the others by 1 m: another 30 may well have two of them, over 5 %."""
    errors = np.repeat([1.0] * 29 + [3.0], 17)

    def radius(losses):
        trace = SimpleNamespace(
            loss=losses, since=[1.0] * errors.size, error=[[size, 0.0] for size in errors], spread=[1.0] * errors.size
        )
        return noise_tables({0.01: SimpleNamespace(traces={"siha": trace})})[0].radius[0]

    assert radius(list(np.repeat(np.arange(30), 17))) == 3.0
    assert radius(list(range(errors.size))) == 1.0  # as many losses as errors, of which 3 % are known to be off


def test_an_error_table_by_hand():
    seconds = np.repeat([0.1, 1.0], 1000)
    errors = np.random.default_rng(0).normal(size=(2000, 2)) * np.where(seconds < 0.5, 0.2, 0.1)[:, None]
    table = error_table(seconds, errors, (0.1, 0.4, 1.0))
    assert table.seconds == [0.1, 1.0]  # nothing was measured near 0.4 s
    assert np.isclose(table.half_width[0], 0.2, rtol=0.05)  # 68 % of a normal distribution lie within sigma
    assert np.isclose(table.radius[0], 0.2 * 2.4477, rtol=0.05)  # 95 % of a plane one within 2.45 sigma
    assert table.half_width[1] == table.half_width[0]  # what is known grows no better with time
    falling = error_table(seconds, errors, (0.1, 0.4, 1.0), falling=True)
    assert np.isclose(falling.half_width[1], 0.1, rtol=0.05) and falling.half_width[0] == table.half_width[0]
    with pytest.raises(ValueError, match="run more losses"):
        error_table(seconds[:10], errors[:10])


def test_an_error_table_borrows_from_times_near_by():
    seconds, errors = np.full(40, 0.15), np.full((40, 2), 0.3)
    table = error_table(seconds, errors, (0.05, 0.1, 0.2, 0.3))
    assert table.seconds == [0.1, 0.2, 0.3]  # 0.05 s is too far from 0.15 s
    assert np.allclose(table.half_width, 0.3)


def test_predicted_deviations_make_the_table_hold_for_sure_and_unsure_estimates_alike():
    """Errors of a normal distribution whose sigma the estimator predicts up to a factor that grows with time."""
    random = np.random.default_rng(1)
    seconds = random.choice([0.5, 1.0, 2.0], 6000)
    spread = 0.1 * np.exp(random.normal(size=6000))
    errors = random.normal(size=(6000, 2)) * (spread * seconds)[:, None]
    table = error_table(seconds, errors, (0.5, 1.0, 2.0), spread)
    assert np.isclose(table.exponent, 1, atol=0.03) and np.allclose(table.spread, 0.1, rtol=0.1)
    width, radius = table.at(seconds, spread=spread)
    for chosen in (spread < 0.05, (spread > 0.08) & (spread < 0.12), spread > 0.2):
        assert 0.65 < (np.abs(errors[chosen]) <= width[chosen, None]).mean() < 0.72
        assert 0.93 < (np.linalg.norm(errors[chosen], axis=-1) <= radius[chosen]).mean() < 0.97
    useless = error_table(seconds, errors, (0.5, 1.0, 2.0), random.permutation(spread))
    assert useless.exponent < 0.05


class Placed:
    """Puts two never seen agents a step to the right of where they are, each in the other's place; says from 3 s on
    that they explain the others, and that it is a millimetre sure of it."""

    def __init__(self, positions):
        self.positions = positions

    def estimate(self, window, previous=None):
        assert np.isnan(window.last_seen[3:]).all() and not window.observed[3:].any()
        estimate = Hold(horizon=1).estimate(window)
        now = round(window.times[-1] / DT)
        estimate.positions[[4, 3], -1] = self.positions[[3, 4], now] + [0.1, 0.0]
        estimate.forecast.positions[[4, 3], 0] = self.positions[[3, 4], now + 1] + [0.2, 0.0]
        estimate.forecast.positions[:3, 0] = self.positions[:3, now + 1] + [0.3, 0.0]
        later = window.times[-1] > 3.0
        estimate.internal = SimpleNamespace(solved=frozenset({"r3", "r4"} if later else ()))
        estimate.spread = np.full(window.observed.shape, 0.001 if later else np.nan)
        return estimate


def test_tables_of_agents_never_seen_hold_whoever_is_taken_for_whom(config):
    lost = replace(run(), lost=np.array([3, 4]), end=220)
    tables = never_seen_tables(config, Placed(lost.positions), [lost] * 3, rate=10.0, seconds=9.0)
    ahead = [f"{name}_{kind}" for name in (FORECAST, FORECAST_LOST) for kind in ("hsp", "solved")]
    assert sorted(tables) == sorted(["hsp", "solved", *ahead])
    for kind in ("hsp", "solved"):
        assert tables[kind].radius == pytest.approx([0.1, 0.1], abs=1e-5)
        assert tables[f"{FORECAST}_{kind}"].radius == pytest.approx([0.3], abs=1e-5)
        assert tables[f"{FORECAST_LOST}_{kind}"].radius == pytest.approx([0.2], abs=1e-5)
    assert not tables["hsp"].spread and tables["solved"].spread == pytest.approx([0.001, 0.001])
    early = never_seen_tables(config, Placed(lost.positions), [lost] * 3, rate=10.0, seconds=2.0)
    assert list(early) == ["hsp", f"{FORECAST}_hsp", f"{FORECAST_LOST}_hsp"]
