"""What share the networks have in a bundle of recordings, by losses in the validation part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from siha_ros.baselines import ConstantVelocity, Hold
from siha_ros.demo.scoring import TEAM_BINS
from siha_ros.model.bundle import BundleConfig
from siha_ros.model.mix import LOST, MOVING, OWN, Mix, best_weights
from siha_ros.progress import shown
from siha_ros.replay.losses import Run, estimate_frames, live_window
from siha_ros.window.types import Estimate, WindowEstimator

Array = NDArray[np.float64]
LEAST_LOSSES = 5  # that weights are chosen by
Row = tuple[int, float, Array]  # which loss, s since it, errors [3, P] (m)


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
    methods: list[WindowEstimator] = [estimator, ConstantVelocity(config.horizon), Hold(config.horizon)]
    random, rows = np.random.default_rng(seed), dict[int, list[Row]]()
    for number, run in enumerate(shown(runs, "mixing", total, progress=progress)):
        previous: list[Estimate | None] = [None] * len(methods)
        for frame in estimate_frames(config, run, rate, float(random.random())):
            window = live_window(config, run, frame)
            answers = [method.estimate(window, before) for method, before in zip(methods, previous, strict=True)]
            previous = list(answers)
            for agent in np.flatnonzero(~window.observed[:, -1]):
                why = answers[0].reason[agent]
                if not why or why.startswith("extrapolated"):  # else it is placed by the others, and not mixed
                    wrong = run.positions[agent, frame] - np.stack([answer.positions[agent, -1] for answer in answers])
                    rows.setdefault(len(run.lost), []).append((number, (frame - run.lost_at + 1) * run.dt, wrong))
    tables = {f"{LOST}_{lost}": _table(part, [0, 1, 2]) for lost, part in sorted(rows.items())}
    motion = _table([row for part in rows.values() for row in part], [1, 2])
    return {name: mix for name, mix in tables.items() if mix is not None}, motion


def _table(rows: Sequence[Row], answers: list[int]) -> Mix | None:
    """Of ``answers``, a weight for each time of TEAM_BINS that enough losses tell; where the networks are among them
    they have all at first, when they know what was just seen."""
    found: list[tuple[float, Array]] = [(0.0, np.eye(3)[answers[0]])] if OWN in answers else []
    begin = 0.0
    for end in TEAM_BINS.values():
        part = [row for row in rows if begin < row[1] <= end]
        begin = end
        if len({loss for loss, _, _ in part}) >= LEAST_LOSSES:
            weights = np.zeros(3)
            weights[answers] = best_weights(np.stack([row[2][answers] for row in part], 1))
            found.append((float(np.median([since for _, since, _ in part])), weights))
    if len(found) <= (OWN in answers):
        return None
    return Mix(*(np.array(column) for column in zip(*found, strict=True)))
