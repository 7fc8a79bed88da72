"""Deviations of forecasts, on numbers that are worked by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from siha_ros.estimator import ahead_table, lost_ahead
from siha_ros.model.bundle import ErrorTable, by_number
from siha_ros.replay.forecasts import Forecasts, coverage
from siha_ros.replay.losses import FORECAST, FORECAST_LOST, Losses, Trace, error_tables, forecast_tables
from siha_ros.window.types import Forecast

DT = 0.05


def estimate(steps=16, width=1.0):
    """Three agents that stay at (agent, 0), 16 steps of 0.1 s ahead of 2.0 s."""
    positions = np.zeros((3, steps, 2))
    positions[..., 0] = np.arange(3)[:, None]
    covariance = np.broadcast_to(width**2 * np.eye(2), (3, steps, 2, 2))
    times = 2.0 + 0.1 * np.arange(1, steps + 1)
    ahead = Forecast(times, positions, np.zeros_like(positions), covariance, np.full((3, steps), 3 * width))
    return SimpleNamespace(times=np.array([1.9, 2.0]), forecast=ahead)


def future(frames=40):
    """The truth: agent 0 stays, agent 1 moves along x and agent 2 along y at 1 m/s."""
    positions = np.zeros((3, frames, 2))
    positions[..., 0] = np.arange(3)[:, None]
    elapsed = DT * np.arange(1, frames + 1)
    positions[1, :, 0] += elapsed
    positions[2, :, 1] += elapsed
    return positions


def test_forecasts_are_compared_with_the_truth_of_their_time():
    notes = Forecasts()
    notes.note(estimate(width=0.5), future(), DT, np.array([-1, -1, 7]))
    found = coverage(notes)
    assert list(found["seen"]) == list(found["lost"]) == ["0.1", "0.2", "0.3", "0.5", "0.7", "1.1", "1.6"]
    assert found["lost"]["0.7"]["rmse_cm"] == pytest.approx(70)
    assert found["seen"]["0.7"]["rmse_cm"] == pytest.approx(70 / np.sqrt(2))  # the one of two that stays is right
    assert [found["lost"][label]["inside_68_percent"] for label in ("0.3", "0.7")] == [100, 50]  # along x it is right
    assert [found["lost"][label]["inside_95_percent"] for label in ("1.1", "1.6")] == [100, 0]  # of 1.5 m
    assert found["seen"]["1.6"]["inside_95_percent"] == 50 and found["seen"]["1.6"]["cases"] == 2
    assert notes.rows(lost=True).state[0].tolist() == [7] * 7


def test_what_lies_beyond_the_recording_is_left_out():
    notes = Forecasts()
    notes.note(estimate(), future(frames=9), DT, np.array([-1, -1, -1]))
    assert list(coverage(notes)["seen"]) == ["0.1", "0.2", "0.3"]
    notes.note(estimate(), future(frames=0), DT, np.array([-1, -1, -1]))
    assert len(notes.ahead) == 1 and Forecasts().rows(lost=False) is None


def test_without_a_table_what_is_not_known_now_and_later_add_up():
    known = np.array([[0.3, 0.0], [0.8, 0.0]])
    later = np.full((2, 2, 1), 0.4)
    np.testing.assert_allclose(lost_ahead(None, np.array([1.0]), known, later)[:, 0, 0], [0.5, np.hypot(0.8, 0.4)])
    np.testing.assert_allclose(lost_ahead(None, np.array([1.0]), known, later)[:, 1, 0], [0.4, 0.4])


def test_the_tables_cover_forecasts_of_lost_agents_whatever_is_known_of_them():
    """Errors of lost agents are twice what adding up says, for states that are well and badly known."""
    random = np.random.default_rng(0)
    count = 4000
    known = np.where(random.random(count) < 0.5, 0.1, 0.4)
    trace = Trace(
        number=[1] * count,
        since=np.full(count, 1.0).tolist(),
        spread=known.tolist(),
        error=list(random.normal(size=(count, 2)) * known[:, None]),
    )
    losses = Losses({"siha": trace}, [], [], Forecasts(), [], 0, 1, 1)
    seen = 0.2 * random.normal(size=(count, 2))
    gone = 2 * np.hypot(known, 0.2)[:, None] * random.normal(size=(count, 2))
    for state, error in ((np.full(count, -1), seen), (np.arange(count), gone)):
        for part, values in zip(
            (losses.forecasts.state, losses.forecasts.ahead, losses.forecasts.error, losses.forecasts.agent),
            (state, np.full(count, 1.0), error, state),
            strict=True,
        ):
            part.append(values)
        losses.forecasts.lost.append(np.ones(count, int))
        losses.forecasts.width.append(np.zeros(count))
        losses.forecasts.radius.append(np.zeros(count))
    tables = error_tables(losses, (1.0,))
    assert tables[FORECAST].half_width[0] == pytest.approx(0.2, rel=0.05)
    now = np.stack(tables["siha"].at(np.full(2, 1.0), spread=np.array([0.1, 0.4])))
    later = np.stack(tables[FORECAST].at(np.full((2, 1), 1.0)))
    width, radius = lost_ahead(tables[FORECAST_LOST], np.array([1.0]), now, later)[..., 0]
    np.testing.assert_allclose(width, 2 * np.hypot([0.1, 0.4], 0.2), rtol=0.1)
    np.testing.assert_allclose(radius, 2.45 * width, rtol=0.1)
    assert isinstance(tables[FORECAST_LOST], ErrorTable) and tables[FORECAST_LOST].exponent == pytest.approx(1, abs=0.1)


def test_tables_of_forecasts_tell_numbers_of_lost_agents_apart():
    """Forecasts of agents that are seen are wrong by 1 m with one agent lost, by 3 m with two."""
    notes = Forecasts()
    for state in ([-1, -1, 0], [-1, 1, 2]):
        for _ in range(40):
            truth = np.zeros((3, 40, 2))
            truth[..., 0] = np.arange(3)[:, None] + (1.0 if state[1] < 0 else 3.0)
            notes.note(estimate(), truth, DT, np.array(state))
    tables = forecast_tables(notes, np.ones((2, 3)))
    assert {name for name in tables if name.startswith(FORECAST)} == {
        f"{name}{end}" for name in (FORECAST, FORECAST_LOST) for end in ("", "_1", "_2")
    }
    for number, radius in ((1, 1.0), (2, 3.0)):
        assert tables[f"{FORECAST}_{number}"].radius == pytest.approx([radius] * 7)
    for lost, end in ((0, "_1"), (1, "_1"), (2, "_2"), (5, "_2")):
        assert by_number(tables, FORECAST, lost) is tables[f"{FORECAST}{end}"]
    assert ahead_table(tables, FORECAST, ["siha", "hsp"], 2) is tables[f"{FORECAST}_2"]
    own = tables | {f"{FORECAST}_{kind}": replace(tables[FORECAST]) for kind in ("hsp", "solved")}
    for told, end in ((["siha", "hsp", "solved"], "_hsp"), (["siha", "solved"], "_solved"), (["siha", "siha"], "_2")):
        assert ahead_table(own, FORECAST, told, 2) is own[f"{FORECAST}{end}"]
    old = {FORECAST: tables[FORECAST]}
    assert by_number(old, FORECAST, 2) is old[FORECAST] and by_number(old, FORECAST_LOST, 2) is None
