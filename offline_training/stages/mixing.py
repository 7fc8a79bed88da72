"""What share the networks have in a bundle of recordings, by losses in recordings that they have not learned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.demo.scoring import TEAM_BINS
from siha_ros.estimator import UNEXPLAINED
from siha_ros.model.bundle import BundleConfig
from siha_ros.model.mix import AHEAD, LOST, OWN, Mix, best_weights
from siha_ros.progress import shown
from siha_ros.replay.forecasts import steps_looked_at
from siha_ros.replay.losses import Run, estimate_frames, live_window
from siha_ros.window.types import Estimate, WindowEstimator

Array = NDArray[np.float64]
LEAST_ERRORS = 15  # that weights are chosen by


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
    """The mix of least squared error in ``runs``, tables by the names that they have in a bundle; one of which there
    are too few errors is not there.

    estimator: without any mix. rate: estimates a second. total: runs, for ``progress``. Raises ValueError where runs do
    not fit the grid of the bundle.
    """
    methods: list[WindowEstimator] = [estimator, ConstantVelocity(config.horizon), Hold(config.horizon)]
    random, steps = np.random.default_rng(seed), steps_looked_at(config.horizon)
    states: dict[int, list[tuple[float, Array]]] = {}  # by number lost: s since the loss, errors [3, P]
    ahead: dict[float, list[Array]] = {float(step * config.dt): [] for step in steps}  # errors [3, n, P]
    for run in shown(runs, "mixing", total, progress=progress):
        previous: list[Estimate | None] = [None] * len(methods)
        stride = round(config.dt / run.dt)
        for frame in estimate_frames(config, run, rate, float(random.random())):
            window = live_window(config, run, frame)
            answers = [method.estimate(window, before) for method, before in zip(methods, previous, strict=True)]
            previous = list(answers)
            own, moving, _ = answers
            seen = np.flatnonzero(window.observed[:, -1])
            for step in steps[frame + steps * stride < run.positions.shape[1]]:
                told = [own.forecast.positions[seen, step - 1], moving.forecast.positions[seen, step - 1]]
                later = run.positions[seen, frame + step * stride]
                ahead[float(step * config.dt)].append(later - np.stack([*told, run.shown[seen, frame]]))
            for agent in np.setdiff1d(run.lost, seen):
                if own.reason[agent] in ("", f"extrapolated: {UNEXPLAINED}"):  # else it is no answer that is mixed
                    wrong = run.positions[agent, frame] - np.stack([answer.positions[agent, -1] for answer in answers])
                    states.setdefault(len(run.lost), []).append(((frame - run.lost_at + 1) * run.dt, wrong))
    tables = {f"{LOST}_{number}": _by_bin(rows) for number, rows in sorted(states.items())}
    tables[AHEAD] = _table({at: np.concatenate(parts, 1) for at, parts in ahead.items() if parts})
    return {name: mix for name, mix in tables.items() if mix is not None}


def _by_bin(rows: list[tuple[float, Array]]) -> Mix | None:
    """Of errors since a loss, in which the networks have all at first: there they know what was just seen."""
    since, errors = np.array([row[0] for row in rows]), np.stack([row[1] for row in rows], 1)
    place = np.searchsorted(list(TEAM_BINS.values()), since)
    bins = {float(np.median(since[place == one])): errors[:, place == one] for one in np.unique(place).tolist()}
    found = _table(bins)
    if found is None:
        return None
    return Mix(np.append(0.0, found.seconds), np.concatenate([np.eye(3)[[OWN]], found.weights]))


def _table(errors: Mapping[float, Array]) -> Mix | None:
    """Of errors ``[3, n, P]`` by time; times with too few are left out."""
    enough = {seconds: part for seconds, part in sorted(errors.items()) if part.shape[1] >= LEAST_ERRORS}
    if not enough:
        return None
    return Mix(np.array(list(enough)), np.stack([best_weights(part) for part in enough.values()]))
