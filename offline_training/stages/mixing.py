"""What share the networks have in a bundle of recordings, by losses in recordings that they have not learned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.demo.scoring import TEAM_BINS
from siha_ros.model.bundle import BundleConfig
from siha_ros.model.mix import AHEAD, LOST, Mix, best_weights
from siha_ros.progress import shown
from siha_ros.replay.forecasts import steps_looked_at
from siha_ros.replay.losses import LEAST_ERRORS, Run, estimate_frames, live_window
from siha_ros.window.types import Estimate, WindowEstimator

Array = NDArray[np.float64]


def measure_mix(
    config: BundleConfig,
    estimator: WindowEstimator,
    runs: Iterable[Run],
    *,
    rate: float,
    seed: int = 0,
    progress: bool = False,
    total: int | None = None,
) -> dict[str, Mix]:
    """The mix of least squared error in ``runs``, at ``rate`` estimates a second; a table of which there are too few
    errors is not there. estimator: without any mix."""
    methods: list[WindowEstimator] = [estimator, ConstantVelocity(config.horizon), Hold(config.horizon)]
    random, steps = np.random.default_rng(seed), steps_looked_at(config.horizon)
    states: list[tuple[float, Array]] = []  # s since the loss, errors [3, P]
    ahead: dict[int, list[Array]] = {int(step): [] for step in steps}  # errors [3, n, P]
    for run in shown(runs, "mixing", total, progress=progress):
        previous: list[Estimate | None] = [None] * len(methods)
        stride = round(config.dt / run.dt)
        for frame in estimate_frames(config, run, rate, float(random.random())):
            window = live_window(config, run, frame)
            answers = [method.estimate(window, before) for method, before in zip(methods, previous, strict=True)]
            previous = list(answers)
            if frame < run.lost_at:
                continue
            newest = np.stack([answer.positions[run.lost, -1] for answer in answers])
            wrong = run.positions[run.lost, frame] - newest
            states += [((frame - run.lost_at + 1) * run.dt, wrong[:, agent]) for agent in range(len(run.lost))]
            seen = np.setdiff1d(np.arange(len(run.names)), run.lost)
            for step in steps[frame + steps * stride < run.positions.shape[1]]:
                own, moving = (answer.forecast.positions[seen, step - 1] for answer in answers[:2])
                told = np.stack([own, moving, run.shown[seen, frame]])
                ahead[int(step)].append(run.positions[seen, frame + step * stride] - told)
    return {
        name: mix
        for name, mix in (
            (LOST, _by_bin(states)),
            (AHEAD, _table({step * config.dt: np.concatenate(parts, 1) for step, parts in ahead.items() if parts})),
        )
        if mix is not None
    }


def _by_bin(states: list[tuple[float, Array]]) -> Mix | None:
    if not states:
        return None
    since, errors = np.array([row[0] for row in states]), np.stack([row[1] for row in states], 1)
    place = np.searchsorted(list(TEAM_BINS.values()), since)
    return _table(
        {float(np.median(since[place == number])): errors[:, place == number] for number in np.unique(place).tolist()}
    )


def _table(errors: Mapping[float, Array]) -> Mix | None:
    """Of errors ``[3, n, P]`` by time; times with too few are left out."""
    enough = {seconds: part for seconds, part in sorted(errors.items()) if part.shape[1] >= LEAST_ERRORS}
    if not enough:
        return None
    return Mix(np.array(list(enough)), np.stack([best_weights(part) for part in enough.values()]))
