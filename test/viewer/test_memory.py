"""The memory in order of time, on entries that can be counted by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from siha_ros.viewer.memory import Score, Scores, Series


@dataclass(frozen=True)
class Note:
    stamp: float
    text: str = ""


@pytest.fixture
def series():
    filled = Series(keep=2.0)
    for stamp in (1.0, 2.0, 3.0):
        assert filled.add(Note(stamp))
    return filled


def stamps(entries):
    return [entry.stamp for entry in entries]


def test_it_answers_for_any_time(series):
    assert series.latest().stamp == 3.0
    assert series.latest(2.9).stamp == 2.0
    assert series.latest(2.0).stamp == 2.0
    assert series.latest(0.9) is None
    assert stamps(series.between(2.0, 3.0)) == [2.0, 3.0]
    assert stamps(series.between(2.1, 2.9)) == []
    assert stamps(series.around(2.5)) == [2.0, 3.0]
    assert stamps(series.around(2.0)) == [1.0, 2.0]
    assert stamps(series.around(0.0)) == [1.0]
    assert stamps(series.around(9.0)) == [3.0]


def test_what_comes_late_is_left_out_and_what_comes_again_replaces(series):
    assert not series.add(Note(2.5))
    assert stamps(series.entries) == [1.0, 2.0, 3.0]
    assert series.add(Note(3.0, "again"))
    assert stamps(series.entries) == [1.0, 2.0, 3.0]
    assert series.latest().text == "again"


def test_only_the_last_seconds_are_kept(series):
    assert series.add(Note(4.5))
    assert stamps(series.entries) == [3.0, 4.5]


def test_a_clock_that_jumps_back_starts_it_anew(series):
    assert series.add(Note(1.5))
    assert stamps(series.entries) == [1.5]


def score(stamp, latency=0.0):
    return Score(float(stamp), error=0.0, position_95=0.0, latency=latency, hidden=0, lost=False)


def test_scores_are_rows_in_order_of_time_however_many():
    scores = Scores()
    for k in range(1000):
        scores.add(score(k, latency=1.0))
        scores.add(score(k, latency=2.0 * k))  # what comes again replaces
    np.testing.assert_array_equal(scores.rows[:, 0], np.arange(1000))
    np.testing.assert_array_equal(scores.rows[:, 3], 2 * np.arange(1000))
    scores.clear()
    assert len(scores) == 0
    scores.add(score(3))
    assert scores.rows.tolist() == [[3, 0, 0, 0, 0, 0]]


def test_scores_of_the_last_seconds_take_bounded_room():
    scores = Scores(keep=100.0)
    for k in range(5000):
        scores.add(score(k))
    np.testing.assert_array_equal(scores.rows[:, 0], np.arange(4899, 5000))
    assert len(scores._data) <= 512
