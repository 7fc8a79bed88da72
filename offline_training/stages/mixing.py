"""What share the networks have in a bundle of recordings, by losses in the validation part."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.demo.scoring import TEAM_BINS
from siha_ros.model.bundle import BundleConfig
from siha_ros.model.mix import LOST, MOVING, OWN, Mix, best_weights
from siha_ros.replay.losses import Run, run_losses
from siha_ros.window.types import WindowEstimator

Array = NDArray[np.float64]
LEAST_LOSSES = 5  # that weights are chosen by


class LastMotion(ConstantVelocity):
    """The best mean of the last position and that at the last velocity, by the weights of ``mix`` (none OWN): what a
    mixed answer has to be better than."""

    name = "last_motion"

    def __init__(self, mix: Mix, horizon: int):
        super().__init__(horizon)
        self._mix = mix

    def _after(self, offset: Array, velocity: Array, elapsed: Array) -> Array:
        result: Array = offset + velocity * elapsed * self._mix.at(elapsed[:, 0])[:, MOVING, None]
        return result


def measure_mix(
    config: BundleConfig,
    estimator: WindowEstimator,
    runs: Iterable[Run],
    *,
    rate: float,
    seed: int = 0,
    progress: bool = False,
    total: int | None = None,
) -> tuple[dict[str, Mix], Mix | None]:
    """The mix of least squared error in ``runs``, tables by the names that they have in a bundle, and the same without
    the networks, of all runs. What too few losses tell is not there, or None.

    estimator: without any mix. rate: estimates a second. total: runs, for ``progress``. Raises ValueError where runs do
    not fit the grid of the bundle.
    """
    methods = {"own": estimator, "moving": ConstantVelocity(config.horizon), "held": Hold(config.horizon)}
    traces = run_losses(config, methods, runs, rate=rate, seed=seed, progress=progress, total=total).traces
    told = traces["own"]
    if not told.since:
        return {}, None
    loss, number, since = (np.array(part) for part in (told.loss, told.number, told.since))
    errors: Array = np.stack([trace.error for trace in traces.values()])
    # of the others the agents are placed by what is seen, and not mixed
    mixable = np.array([not why or why.startswith("extrapolated") for why in told.reason])
    tables = {
        f"{LOST}_{lost}": _table(loss[rows], since[rows], errors[:, rows], [0, 1, 2])
        for lost in np.unique(number[mixable]).tolist()
        for rows in [mixable & (number == lost)]
    }
    motion = _table(loss[mixable], since[mixable], errors[:, mixable], [1, 2])
    return {name: mix for name, mix in tables.items() if mix is not None}, motion


def _table(loss: NDArray[np.int64], since: Array, errors: Array, answers: list[int]) -> Mix | None:
    """Of ``answers``, a weight for each time of TEAM_BINS that enough losses tell; where the networks are among them
    they have all at first, when they know what was just seen. loss: i8[n]. since: f8[n] (s). errors: f8[3, n, P] (m).
    """
    found: list[tuple[float, Array]] = [(0.0, np.eye(3)[OWN])] if OWN in answers else []
    place = np.searchsorted(list(TEAM_BINS.values()), since)
    for number in range(len(TEAM_BINS)):
        rows = place == number
        if len(np.unique(loss[rows])) >= LEAST_LOSSES:
            weights = np.zeros(3)
            weights[answers] = best_weights(errors[answers][:, rows])
            found.append((float(np.median(since[rows])), weights))
    if len(found) <= (OWN in answers):
        return None
    return Mix(*(np.array(column) for column in zip(*found, strict=True)))
