"""What has become of forecasts, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from siha_ros.baselines import ConstantVelocity
from siha_ros.foretold import APART, FEWEST, Foretold, kept, missed
from siha_ros.replay.windows import window_of

DT, STEPS, NAMES = 0.1, 20, ["a", "b", "c"]


def resting(newest, places=((0.0, 0.0), (1.0, 0.0), (2.0, 0.0))):
    """The window of three agents that rest."""
    times = newest + DT * np.arange(-9, 1)
    positions = np.repeat(np.array(places)[:, None], len(times), 1)
    return window_of(NAMES, times, positions, np.ones((3, len(times)), dtype=bool), None, None)


def forecast(made, off=(0.0, 0.0, 0.0), width=0.1):
    """Made at a time: that agents rest, wrong by so much on both axes."""
    places = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]) + np.array(off)[:, None]
    positions = np.repeat(places[:, None], STEPS, 1)
    return Foretold(made, NAMES, made + DT * np.arange(1, STEPS + 1), positions, np.full((3, STEPS), width))


def test_ratios_are_squared_errors_over_squared_half_widths():
    past = (*(forecast(made, (0.1, 0.2, 0.0)) for made in (8.5, 9.0)), forecast(9.3), forecast(9.5, (0, 0.4, 0)))
    assert missed(past, resting(10.0), 0.0) == pytest.approx([0.5, (4 + 4 + 0 + 16) / 4, 0.0])
    assert missed(past, resting(10.0), 0.1) == pytest.approx([0.25, (4 + 4 + 0 + 16) / 8, 0.0])
    moved = tuple(replace(one, width=one.width * np.linspace(0.5, 2.4, STEPS)) for one in past[:1] * 4)
    width = 0.1 * np.interp(1.5, DT * np.arange(1, STEPS + 1), np.linspace(0.5, 2.4, STEPS))
    assert missed(moved, resting(10.0), 0.0)[1] == pytest.approx((0.2 / width) ** 2)  # that of the time ahead


def test_too_few_forecasts_tell_nothing():
    past = tuple(forecast(made, (1.0, 1.0, 1.0)) for made in 9 + 0.1 * np.arange(FEWEST))
    assert (missed(past, resting(10.0), 0.0) > 50).all()
    assert np.isnan(missed(past[1:], resting(10.0), 0.0)).all()
    assert np.isnan(missed(past, resting(9.2), 0.0)).all()  # two of them are of later
    assert np.isnan(missed(past, resting(20.0), 0.0)).all()
    assert np.isnan(missed(past, replace(resting(10.0), names=["a", "b", "d"]), 0.0)).all()


def test_agents_that_were_or_are_not_seen_tell_nothing():
    past = tuple(forecast(made, (1.0, 1.0, 1.0)) for made in 9 + 0.1 * np.arange(FEWEST))
    past[0].positions[0] = np.nan
    window = resting(10.0)
    window.positions[1, -1] = np.nan
    found = missed(past, window, 0.0)
    assert np.isnan(found[:2]).all() and found[2] > 50


def test_forecasts_are_kept_until_they_have_come_true():
    method, past, seen = ConstantVelocity(horizon=STEPS), (), np.array([True, False, True])
    apart = STEPS * DT / 8
    assert apart < APART
    for newest in 10 + 0.05 * np.arange(100):
        estimate = method.estimate(resting(newest))
        past = kept(past, estimate, np.full((3, STEPS), 0.1), seen)
        made = np.array([one.time for one in past])
        assert made[-1] > newest - apart and (np.diff(made) >= apart - 0.01).all()
        assert all(one.times[-1] > newest for one in past[:-1]) and len(past) <= STEPS * DT / apart + 1
    assert np.isnan(past[-1].positions[1]).all() and (past[-1].positions[2] == [2, 0]).all()
    assert kept(past, replace(estimate, names=["a", "b", "d"]), past[0].width, seen)[0].names == ["a", "b", "d"]
