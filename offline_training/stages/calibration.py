"""Error tables of bodies that hold on the next trial, not only on the trials that they were measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from offline_training.datasets.body import FRAMES, Walk
from offline_training.stages.linear_path import EVIDENCE_STEP, Completion, complete_walk, episodes
from siha_ros.body_estimator import ALONE, CORE, HALF, UNSEEN, halves, unlike
from siha_ros.model.body_linear import LinearPath, ResidualCarry
from siha_ros.model.bundle import ErrorTable
from siha_ros.replay.losses import error_table

AGES = (1, 2, 3, 4, 5, 6, 9, 12, 15, 18, 24, 30, 36, 45, 54, 60, 66, 72, 78, 84, 90)  # frames since a loss
TABLE_SECONDS = (0.017, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5)
STEP = EVIDENCE_STEP  # frames between the windows that parts of limbs are hidden in


def calibrated_table(
    seconds: NDArray[np.float64],
    errors: NDArray[np.float64],
    trials: NDArray,
    places: Sequence[float],
    falling: bool = False,
) -> ErrorTable:
    """The table of errors f8[n, P] (m) at times since loss f8[n] (s), of n moments of several ``trials`` [n]; falling:
    as in :func:`error_table`.

    How large errors are differs from trial to trial, and the quantiles of a few trials are too narrow for the next one.
    So each trial is judged by the table of the others, and both columns are stretched until 68.27 % and 95 % of all
    that was so judged lie inside (cross-conformal prediction, whose folds are trials).
    """
    table = error_table(seconds, errors, places, falling=falling)
    width, radius = np.empty(len(seconds)), np.empty(len(seconds))
    for trial in np.unique(trials):
        own = trials == trial
        width[own], radius[own] = error_table(seconds[~own], errors[~own], places, falling=falling).at(seconds[own])
    wider = np.quantile(np.abs(errors) / np.maximum(width, 1e-6)[:, None], 0.6827)
    farther = np.quantile(np.linalg.norm(errors, axis=-1) / np.maximum(radius, 1e-6), 0.95)
    return ErrorTable(
        table.seconds,
        (wider * np.array(table.half_width)).round(5).tolist(),
        (farther * np.array(table.radius)).round(5).tolist(),
    )


def unseen_table(completions: Sequence[Completion], row: int, step: int) -> ErrorTable:
    """Of one hidden joint in all frames of every so many windows: a table of one time."""
    errors = [done.errors[::step, row].reshape(-1, 3).astype(np.float64) for done in completions]
    trials = np.repeat([done.trial for done in completions], [len(part) for part in errors])
    return calibrated_table(np.full(len(trials), TABLE_SECONDS[0]), np.concatenate(errors), trials, TABLE_SECONDS[:1])


def part_tables(
    path: LinearPath,
    carries: Mapping[str, ResidualCarry],
    names: Sequence[str],
    limbs: Mapping[str, NDArray[np.int64]],
    validation: Sequence[Walk],
    dt: float,
) -> dict[str, ErrorTable]:
    """Error tables of what is less than a limb, on walks that nothing was fitted to: of joints that hide with their
    half of a limb (NAME_half), or alone (NAME_alone; NAME where it belongs to no limb), by time since the loss and
    never seen. carries: by limb, and of the joints of no limb ("core").

    Errors count as multiples of what :func:`unlike` says of the same loss, as the estimator multiplies by that. They
    may fall with time: what is carried over a loss does some harm, for a while, where the linear path is good by
    itself. Without the networks, which add a millimetre or less here.
    """
    hidden: list[tuple[str, NDArray[np.int64], str]] = [
        (limb, part, f"_{HALF}") for limb, joints in limbs.items() for part in halves(joints) if len(part)
    ]
    hidden += [
        (limb, joints[row : row + 1], f"_{ALONE}") for limb, joints in limbs.items() for row in range(len(joints))
    ]
    hidden += [(CORE, np.array([joint]), "") for joint in path.template.core]
    tables: dict[str, ErrorTable] = {}
    for group, joints, end in hidden:
        done = [complete_walk(walk, path, joints, STEP) for walk in validation]
        ends = [f"{names[joint]}{end}" for joint in joints]
        tables |= {f"{name}_{UNSEEN}": unseen_table(done, row, 12 // STEP) for row, name in enumerate(ends)}
        # only windows after the loss know the part by itself: what they tell reaches back by less than a window
        lost = episodes(done, AGES, 2 * STEP, dt, reach=FRAMES - 1 - STEP, step=STEP)
        usual = np.array([tables[f"{name}_{UNSEEN}"].half_width[0] for name in ends])
        multiple = np.maximum(1.0, unlike(lost.errors, usual))
        left = (lost.target - lost.carried(carries[group], dt)) / multiple[:, None, None]
        seconds, trials = lost.since * np.float64(dt), np.array([one.trial for one in done])[lost.walk]
        tables |= {
            name: calibrated_table(seconds, left[:, row], trials, TABLE_SECONDS, falling=True)
            for row, name in enumerate(ends)
        }
    return tables
