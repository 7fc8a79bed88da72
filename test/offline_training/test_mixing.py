"""The share of a bundle's networks, where it is known which answer is right."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from offline_training.stages.mixing import LastMotion, measure_mix
from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.model.mix import HELD, MOVING, OWN
from siha_ros.replay.losses import Run, live_window

TWO = "lost_2"
CONFIG = SimpleNamespace(window=8, dt=0.1, horizon=6)


class Knowing:
    """Says the truth, but for an error that grows with the time since the loss, as long as it knows the run."""

    def __init__(self, wrong):
        self.wrong, self.plain, self.truth = wrong, ConstantVelocity(CONFIG.horizon), None

    def estimate(self, window, previous=None):
        estimate, frames = self.plain.estimate(window), np.round(window.times / CONFIG.dt).astype(int)
        since = (window.times - window.last_seen[:, None]).clip(0)[..., None]
        estimate.positions = self.truth[:, frames] + self.wrong * since
        later = frames[-1] + 1 + np.arange(CONFIG.horizon)
        estimate.reason = [""] * len(self.truth)
        estimate.forecast.positions = self.truth[:, np.minimum(later, self.truth.shape[1] - 1)] + self.wrong
        return estimate


def runs(count, knowing, turn):
    """Agents on straight lines, that wheel about by chance where ``turn`` is above 0."""
    random = np.random.default_rng(1)
    for _ in range(count):
        speed = random.normal(size=(4, 1, 2)) + turn * random.normal(size=(4, 130, 2)).cumsum(1)
        knowing.truth = random.normal(size=(4, 1, 2)) + CONFIG.dt * speed.repeat(130 // speed.shape[1], 1).cumsum(1)
        yield Run(list("abcd"), knowing.truth, CONFIG.dt, None, np.array([1, 3]), 40, 120)


@pytest.mark.parametrize(("wrong", "turn", "best"), [(0.0, 0.5, OWN), (5.0, 0.0, MOVING)])
def test_who_is_right_gets_the_weight(wrong, turn, best):
    knowing = Knowing(wrong)
    found, motion = measure_mix(CONFIG, knowing, runs(20, knowing, turn), rate=2.0)
    assert found[TWO].weights[0].tolist() == [1, 0, 0] and found[TWO].seconds[0] == 0
    assert found[TWO].weights[1:, best] == pytest.approx(np.ones(5), abs=1e-3)
    assert found[TWO].seconds[1] < 0.5 < found[TWO].seconds[2] < 1 and found[TWO].seconds[-1] > 5
    assert motion is not None and (motion.weights[:, OWN] == 0).all()


def test_agents_that_stay_are_held():
    knowing = Knowing(5.0)

    def still():
        random = np.random.default_rng(2)
        for run in runs(20, knowing, 0.0):
            places = random.normal(size=(4, 1, 2))
            knowing.truth = places + 0.1 * random.normal(size=(4, 130, 2))  # and shake: no velocity lasts
            yield Run(run.names, knowing.truth, run.dt, None, run.lost, run.lost_at, run.end)

    found, motion = measure_mix(CONFIG, knowing, still(), rate=2.0)
    assert motion is not None
    assert (found[TWO].weights[2:, HELD] > 0.9).all() and (motion.weights[1:, HELD] > 0.9).all()
    run = next(still())
    window = live_window(CONFIG, run, 100)
    last, held = LastMotion(motion, CONFIG.horizon).estimate(window), Hold(CONFIG.horizon).estimate(window)
    part = motion.at(np.array(6.1))[MOVING]  # s since the loss
    expected = held.positions[1, -1] + part * 6.1 * window.last_velocity[1]
    assert last.positions[1, -1] == pytest.approx(expected)


def test_too_few_losses_tell_nothing():
    knowing = Knowing(0.0)
    assert measure_mix(CONFIG, knowing, runs(4, knowing, 0.0), rate=5.0) == ({}, None)
    assert measure_mix(CONFIG, Hold(CONFIG.horizon), [], rate=2.0) == ({}, None)


def test_answers_that_are_not_mixed_are_not_counted():
    """Of the agents that the others place, however wrong they are."""
    knowing = Knowing(0.0)

    class Placing(Knowing):
        def estimate(self, window, previous=None):
            self.truth = knowing.truth
            estimate = super().estimate(window)
            if previous is not None and previous.internal:
                estimate.positions[3] += 1e3
                estimate.reason[3] = "not seen in the window: placed by what the others do"
            estimate.internal = "the one before"
            return estimate

    placing = Placing(0.0)
    found, _ = measure_mix(CONFIG, placing, runs(12, knowing, 0.5), rate=2.0)
    assert found[TWO].weights[:, OWN] == pytest.approx(np.ones(6), abs=1e-3)
