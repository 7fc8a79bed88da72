"""Scores of the demo on numbers that can be checked by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from siha_ros.demo.schedule import loss_schedule, lost_at
from siha_ros.demo.scoring import BODY_BINS, TEAM_BINS, GraphCount, Score, TruthLog


def test_losses_fall_in_the_middle_of_each_part():
    (loss,) = loss_schedule([f"robot_{i}" for i in range(1, 8)], 30.0)
    assert (loss.start, loss.end) == (5.0, 20.0)
    assert len(set(loss.agents)) == 2
    assert lost_at([loss], 4.99) == set() == lost_at([loss], 20.0)
    assert lost_at([loss], 5.0) == set(loss.agents)
    parts = loss_schedule("abcdefg", 90.0, losses=3, seed=4)
    assert [(p.start, p.end) for p in parts] == [(5, 20), (35, 50), (65, 80)]
    assert loss_schedule("abcdefg", 12.0)[0].start == 4.0
    taken = {p.agents for p in loss_schedule("abcdefg", 3000.0, losses=300, seed=4)}
    assert len(taken) == 21  # every pair of 7
    with pytest.raises(ValueError, match="1 to 6 hidden"):
        loss_schedule("abcdefg", 30.0, hidden=7)


def test_truth_is_linear_between_frames_and_knows_the_time_since_loss():
    log = TruthLog()
    assert log.at(0.0) is None
    for k in range(11):
        positions = np.array([[k, 0, 0], [0, 2 * k, 0]], dtype=float)
        log.add(10 + 0.02 * k, ["a", "b"], positions, np.array([True, not 3 < k < 9]))
    truth = log.at(10.11)
    np.testing.assert_allclose(truth.positions, [[5.5, 0, 0], [0, 11, 0]])
    assert truth.lost.tolist() == [False, True]
    np.testing.assert_allclose(truth.since_loss, [0, 0.05])
    assert not log.at(10.06).lost.any()
    assert log.at(10.061).lost[1] and not log.at(10.17).lost[1]
    assert log.at(9.99) is None and log.at(10.21) is None


def test_a_hiccup_of_the_truth_does_not_end_the_loss_and_a_pause_begins_anew():
    log, positions = TruthLog(), np.zeros((2, 3))
    for k in range(3):
        log.add(10 + 0.02 * k, ["a", "b"], positions, np.array([True, k < 1]))
    log.add(10.34, ["a", "b"], positions + 1.0, np.array([True, False]))  # 0.3 s later
    assert log.at(10.2) is None  # where the agents were in between is not known
    assert log.at(10.34).since_loss.tolist() == pytest.approx([0, 0.34])  # b was seen at 10 for the last time
    log.add(10.36, ["a", "b"], positions, np.array([True, False]))
    assert log.at(10.35).positions[0, 0] == pytest.approx(0.5)
    assert log.at(10.04).since_loss[1] == pytest.approx(0.04)
    log.add(10.78, ["a", "b"], positions, np.array([True, False]))  # 0.42 s later: another recording
    assert log.at(10.35) is None and log.at(10.78) is None  # ... in which b was never seen
    log.add(11.0, ["a", "b"], positions, np.array([True, True]))
    assert log.at(11.0).since_loss.tolist() == [0, 0]


def test_errors_fall_into_bins_of_time_since_loss():
    score = Score(TEAM_BINS)
    score.add_errors(1.0, np.array([0.5, 0.51]), {"siha": np.array([0.03, 0.04]), "hold": np.array([1.0, 2.0])})
    score.add_errors(2.0, np.array([1.5, 7.0]), {"siha": np.array([0.05, 0.12]), "hold": np.array([3.0, 0.0])})
    score.add_errors(3.0, np.array([6.0]), {"siha": np.array([0.05]), "hold": np.array([0.0])})
    table = score.rmse_cm()
    assert table["siha"] == pytest.approx(
        {
            "0-0.5": 3,
            "0.5-1": 4,
            "1-2": 5,
            "2-5": None,
            "over 5": 100 * np.sqrt((0.12**2 + 0.05**2) / 2),
            "all": 100 * np.sqrt(0.0219 / 5),
        }
    )
    assert table["hold"]["all"] == pytest.approx(100 * np.sqrt(14 / 5))
    assert list(Score(BODY_BINS).rmse_cm()) == []
    score.add_errors(4.0, np.array([6.0]), {"siha": np.array([np.nan])})
    assert score.nonfinite == 1 and score.rmse_cm()["siha"]["all"] == pytest.approx(table["siha"]["all"])


def test_edges_are_judged_under_one_renaming_of_types():
    edges = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    lost = np.array([False, False, True])
    count = GraphCount()
    count.add(np.where(edges, 0.9, 0.2), edges, lost)
    assert count.accuracy() == {"vv": 100, "vh": 100, "hh": None}
    turned = GraphCount()
    turned.add(np.where(edges, 0.2, 0.9), edges, lost)
    assert turned.swapped and turned.accuracy() == {"vv": 100, "vh": 100, "hh": None}
    wrong = np.where(edges, 0.9, 0.2)
    wrong[0, 1] = wrong[2, 0] = 1 - wrong[0, 1]
    wrong[2, 0] = 0.9
    count.add(wrong, edges, np.array([False, True, True]))
    # second sample: vv has no pair, vh: 0-1 both ways and 0-2 both ways, of which two are wrong, hh: 1-2 both ways
    assert count.accuracy() == pytest.approx({"vv": 100, "vh": 100 * 6 / 8, "hh": 100})


def test_report_has_the_schema():
    score = Score(TEAM_BINS)
    for k in range(101):
        score.add_message(100 + 0.05 * k, 0.010 + 0.0001 * k)
    for lost in ([], ["a"], ["a", "b"], [], ["b", "c"], ["b", "c"]):
        score.note_lost(lost, 7)
    score.add_errors(1.0, np.array([0.2, 0.2]), {"siha": np.array([0.03, 0.03]), "hold": np.array([1.0, 1.0])})
    score.graph.add(np.eye(3)[::-1], np.eye(3, dtype=bool)[::-1], np.array([False, False, True]))
    report = json.loads(json.dumps(score.report(), allow_nan=False))
    nothing = {"0.5-1": None, "1-2": None, "2-5": None, "over 5": None}
    assert report == {
        "schema": 1,
        "agents": 7,
        "hidden": 2,
        "losses": 3,
        "rmse_cm": {"siha": {"0-0.5": 3.0, **nothing, "all": 3.0}, "hold": {"0-0.5": 100.0, **nothing, "all": 100.0}},
        "graph_accuracy": {"vv": 100.0, "vh": 100.0, "hh": None},
        "latency_ms": {"p50": 15.0, "p99": 19.9},
        "rate_hz": 20.0,
        "frames": 101,
        "nonfinite": 0,
        "unscored": 0,
    }
    json.dumps(Score(TEAM_BINS).report(), allow_nan=False)
