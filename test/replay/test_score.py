"""Scores of a replay whose every number is known: robots on straight lines, and an estimator that says they stay."""

from __future__ import annotations

import json

import numpy as np
import pytest
from make_bags import BEGIN, lines, pose_message, write_bag
from plain_estimator import PlainEstimator

from siha_ros.baselines import ConstantVelocity
from siha_ros.node.parameters import Parameters
from siha_ros.replay.bag import Bag, MessageFactory, own_types
from siha_ros.replay.html import html_report, plots
from siha_ros.replay.score import INTERPOLATION, Guesses, full_observation, loss_times, score_losses
from siha_ros.replay.score_report import coverage, errors, report, tables, text
from siha_ros.replay.stream import Stream, Withheld

SPEED = 0.5  # m/s of the robot that is lost, along x
LOST = Withheld(frozenset({"r1"}), BEGIN + 1.5, BEGIN + 2.5)


@pytest.fixture(scope="module")
def score(tmp_path_factory):
    """r1 is withheld from 1.5 s to 2.5 s; 20 estimates a second; 10 cm of stated deviation."""
    velocities = np.array([[0.0, 1.0], [SPEED, 0.0], [0.0, 0.0]])
    path = write_bag(tmp_path_factory.mktemp("bag") / "team", "mcap", lines(4.0, velocities))
    estimator, new = PlainEstimator(deviation=0.1), MessageFactory(own_types()).new
    with Bag(path) as bag:
        stream = Stream(bag, estimator.bundle.config, Parameters(rate=20.0))
        full = full_observation(stream, estimator, new)
        methods = {"constant_velocity": ConstantVelocity(horizon=3)}
        return score_losses(stream, estimator, methods, full, [LOST], new)


@pytest.fixture(scope="module")
def result(score):
    return report(
        score,
        body=False,
        bag="team",
        bundle="plain",
        duration_s=3.98,
        rate_hz=20.0,
        times_real_time=10.0,
        hidden=[["r1"]],
        at_s=1.5,
        for_s=1.0,
        sweep=False,
    )


def test_estimates_are_judged_while_the_agent_is_withheld(score):
    (siha,) = (Guesses.joined(score.newest["siha"]),)
    # Last sample at 1.48 s. Estimates every 0.05 s lie 0.1 s behind the newest stamp: 1.6 s is the first beyond, as of
    # 1.5 s the newest stamp is 1.5 and the grid ends at 1.4; the last one, of 2.45 s, has samples up to 2.44 s.
    assert siha.seconds[0] == pytest.approx(1.5 - 1.48, abs=1e-5) and siha.seconds[-1] == pytest.approx(0.86, abs=1e-5)
    assert len(siha.seconds) == score.estimates == 18 and set(siha.agent) == {"r1"}


def test_errors_are_those_of_the_line(score):
    newest = {method: Guesses.joined(parts) for method, parts in score.newest.items()}
    hidden = newest["siha"].seconds > 0.2  # silent for 0.3 s, 0.1 s before the newest stamp; until then bridged
    away = SPEED * newest["siha"].seconds
    assert np.allclose(newest["siha"].error[hidden, 0], away[hidden], atol=1e-4)
    assert np.abs(newest["siha"].error[~hidden]).max() < 1e-4
    for method in ("constant_velocity", INTERPOLATION):
        assert newest[method].distance.max() < 1e-4
    assert np.isnan(newest[INTERPOLATION].radius).all()


def test_coverage_counts_what_lies_within(score, result):
    siha = Guesses.joined(score.newest["siha"])
    # Within 0.1 m along x while bridged or not farther than 0.2 s; along y always.
    inside = (siha.distance <= 0.1).sum()
    assert 0 < inside < len(siha.seconds)
    found = result["deviation"]["all"]
    assert found["axis_68_percent"] == pytest.approx(100 * (inside + len(siha.seconds)) / (2 * len(siha.seconds)))
    radius = 0.1 * 2.4477  # of 95 % of two axes
    within = (siha.distance <= radius).mean()
    assert found["radius_95_percent"] == pytest.approx(100 * within)
    assert found["radius_cm"] == pytest.approx(100 * radius, rel=0.01) and found["deviation_cm"] == pytest.approx(10.0)


def test_the_graph_is_compared_with_that_of_full_observation(score):
    # The estimator takes the first agent's two edges away once someone is hidden; r0 and r2 are seen, r1 is lost.
    hidden = sum(Guesses.joined(score.newest["siha"]).seconds > 0.2)
    edges, same, apart, _ = score.agreement["vv"]
    assert edges == 2 * score.estimates and edges - same == hidden == apart
    edges, same, apart, unsaid = score.agreement["vh"]
    assert unsaid == 0
    assert edges == 4 * score.estimates and edges - same == hidden == apart
    assert not score.agreement["hh"].any()


def test_forecasts_are_judged_by_seconds_ahead(score, result):
    ahead = result["forecast"]
    assert list(ahead["seen"]["siha"]) == ["0.1", "0.2", "0.3"]
    assert ahead["seen"]["siha"]["0.3"]["rmse_cm"] < 0.01  # at constant velocity, as they go
    lost = Guesses.joined(score.ahead["lost"]["siha"])
    late = lost.error[-3:, 0]  # of the last estimate, 0.86 s after the loss: it stands where it was
    assert late == pytest.approx(SPEED * (0.86 + np.array([0.1, 0.2, 0.3])), abs=1e-3)


def test_the_report_is_read_by_people_and_machines(result):
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    found = text(result)
    assert "hidden for 1 s from 1.5 s on (1 losses, 18 estimates): r1" in found
    assert "interpolation (sees the future)" in found and "one seen, one lost" in found
    assert "hold" in found  # the reason that the estimator gives
    assert result["agents"]["r1"]["siha"] == pytest.approx(result["methods"]["siha"]["all"]["rmse_cm"])


def test_the_page_needs_nothing_but_itself(result):
    page = html_report(result | {"bag": "<team>"})
    assert page.count("data:image/png;base64,") == len(plots(result)) == 4
    assert "http" not in page and "<script" not in page and "&lt;team&gt;" in page and "<team>" not in page
    cells = [cell for _, rows in tables(result) for row in rows for cell in row]
    assert page.count("<td>") + page.count("<th>") == len(cells)


def test_figures_by_hand():
    guesses = Guesses.of(
        0, ["a", "a", "b"], np.array([0.1, 0.2, 0.3]), np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]), None
    )
    assert errors(guesses) == {
        "rmse_cm": pytest.approx(100 * np.sqrt(26 / 3)),
        "mean_cm": pytest.approx(200.0),
        "median_cm": pytest.approx(100.0),
        "cases": 3,
    }
    covariance = np.broadcast_to(np.diag([9.0, 1.0]), (3, 2, 2))
    stated = Guesses.of(0, ["a"] * 3, guesses.seconds, guesses.error, (covariance, np.array([4.9, 1.1, 0.1])))
    assert coverage(stated)["axis_68_percent"] == pytest.approx(100 * 5 / 6)  # the 4 beyond 1 is out
    assert coverage(stated)["radius_95_percent"] == pytest.approx(100 * 2 / 3)  # 5 is beyond 4.9
    nothing = (np.zeros((0, 2, 2)), np.zeros(0))
    assert coverage(Guesses.of(0, [], np.zeros(0), np.zeros((0, 2)), nothing)) is None


def test_losses_follow_one_another_until_the_end_of_the_bag():
    assert loss_times(100.0, 110.0, 2.0, 1.0, sweep=False) == [102.0]
    assert loss_times(100.0, 110.0, 2.0, 3.0, sweep=True) == [102.0, 105.0]
    assert loss_times(100.0, 110.0, 2.0, 4.0, sweep=True) == [102.0, 106.0]
    with pytest.raises(ValueError, match="--at 9 s --for 2 s: the bag is 10.0 s long"):
        loss_times(100.0, 110.0, 9.0, 2.0, sweep=False)
    with pytest.raises(ValueError, match="849999994 losses of 2 s in 1.7e.09 s, expected 10000 or fewer"):
        loss_times(10.0, 1.7e9, 1.0, 2.0, sweep=True)


def test_agents_that_were_not_withheld_and_not_seen_are_told(result, tmp_path):
    """r2 stands still to the bit from 1 s on: a tracker may have lost it, unless a parameter says not."""

    def messages(new):
        for frame in range(150):
            time = frame / 50
            for agent, x in enumerate((time, 2 * time, min(time, 1.0))):
                message = pose_message(new, time, x, agent)
                message.pose.orientation.z = 0.0
                yield f"/r{agent}/pose", "geometry_msgs/msg/PoseStamped", time, message

    estimator, new = PlainEstimator(), MessageFactory(own_types()).new
    with Bag(write_bag(tmp_path / "team", "mcap", messages)) as bag:
        for frozen_after, expected in ((0.25, {"the same pose again while others move"}), (0.0, set())):
            stream = Stream(bag, estimator.bundle.config, Parameters(rate=10.0, frozen_after=frozen_after))
            full = full_observation(stream, estimator, new)
            lost = Withheld(frozenset({"r1"}), BEGIN + 2.0, BEGIN + 2.5)
            unseen = score_losses(stream, estimator, {}, full, [lost], new).unseen
            assert {why.split(" for ")[0] for why in unseen} == expected
    titles = [title for title, _ in tables(result | {"unseen": dict(unseen)})]
    assert not any(title.startswith("Agents that were not withheld") for title in titles)
    titles = [title for title, _ in tables(result | {"unseen": {"silent": 3}})]
    assert titles[-1].startswith("Agents that were not withheld")
