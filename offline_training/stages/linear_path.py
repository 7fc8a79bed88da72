"""The linear path of a body, fitted in closed form: template, regression, and how its errors carry on.

Errors that anything is fitted to or judged by are out of fold: a training trial is completed by a regression that has
seen neither it nor its mirror image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from offline_training.datasets.body import FRAMES, TEST, VALIDATION, Walk, limbs, training_numbers, walks
from offline_training.datasets.cmu_mocap import Trial
from siha_ros.model.body_frame import BodyTemplate
from siha_ros.model.body_linear import CarryKernel, LinearPath, ResidualCarry, WindowRidge
from siha_ros.model.ridge import LimbRidge, fit_limb_ridge

FloatArray = NDArray[np.float64]
LONG_COMPONENTS = 14  # temporal components of 49 frames: they leave out 1 mm of a hand and 5 mm of a foot
SHORT_FRAMES, SHORT_COMPONENTS = 25, 8
POSE_COORDINATES = 6
LONG_ROWS, SHORT_ROWS = 560, 480  # rank of the second moments that is kept
EVIDENCE_STEP = 3  # frames between the moments that the carry remembers
EVIDENCE_FRAMES = 90  # how far back it remembers
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
PENALTY_SLACK = 1.02  # of all penalties whose validation error is so near the best, the largest is taken
RIDGE_PENALTIES = tuple(10.0**power for power in np.arange(-4, 1.5, 0.5))
WINDOW_LAGS = ((0,), (0, 12), (0, 12, 24), (0, 12, 24, 48))
CARRY_AGES = (1, 3, 8, 17, 30, 45, 66, 90)  # frames since a loss at which the carry is fitted
LATE_FRAMES, CARRY_GAIN = 45, 0.02
NO_VARIANCE = 1e-9
KERNEL_START = (0.1, 0.9, 2.0, 1.5, 0.2, 0.15, 0.03, 2e-3)


@dataclass
class Moments:
    """Sums over windows: count, features [D], their products [D, D]."""

    count: int
    first: FloatArray
    second: FloatArray

    @staticmethod
    def of(features: FloatArray) -> Moments:
        """Of rows [N, D]."""
        return Moments(len(features), features.sum(0), features.T @ features)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.first + other.first, self.second + other.second)

    def __sub__(self, other: Moments) -> Moments:
        return Moments(self.count - other.count, self.first - other.first, self.second - other.second)


@dataclass
class PathMoments:
    """Moments of the windows of some trials for both regressions of a path."""

    long: Moments
    short: Moments

    def __add__(self, other: PathMoments) -> PathMoments:
        return PathMoments(self.long + other.long, self.short + other.short)

    def __sub__(self, other: PathMoments) -> PathMoments:
        return PathMoments(self.long - other.long, self.short - other.short)


def fit_template(walks: Sequence[Walk], core: NDArray[np.int64], step: int = 2) -> BodyTemplate:
    """The body frame's template of training walks."""
    windows = np.concatenate([walk.windows(FRAMES, step) for walk in walks])
    headings = np.concatenate([walk.window_headings(FRAMES, step) for walk in walks])
    return BodyTemplate.of(windows, headings, core)


def body_windows(walk: Walk, template: BodyTemplate, step: int = 1) -> FloatArray:
    """Windows [N, A, T, 3] of a walk, each in its own body frame."""
    windows = walk.windows(FRAMES, step)
    return template.fit(windows, np.ones(windows.shape[1], bool)).to_body(windows)


def empty_path(walks: Sequence[Walk], template: BodyTemplate) -> LinearPath:
    """A path with its temporal components and pose coordinates, which the training walks give, and no regression
    yet.
    """
    nothing = WindowRidge(np.eye(2), *(np.zeros(0) for _ in range(3)))
    path = LinearPath(template, nothing, nothing, np.zeros(0), np.zeros((0, 0)))
    sample = np.concatenate([body_windows(walk, template, 8) for walk in walks])
    relative, _ = path.relative(sample, np.ones(len(template.pose), bool))
    bases = []
    for frames, components in ((FRAMES, LONG_COMPONENTS), (SHORT_FRAMES, SHORT_COMPONENTS)):
        series = relative[:, :, -frames:].swapaxes(2, 3).reshape(-1, frames)
        _, vectors = np.linalg.eigh(series.T @ series)
        bases.append(vectors[:, ::-1][:, :components].copy())
    poses = relative[:, :, -1].reshape(len(sample), -1)
    mean = poses.mean(0)
    _, sizes, axes = np.linalg.svd(poses - mean, full_matrices=False)
    kept = axes[:POSE_COORDINATES] / (sizes[:POSE_COORDINATES, None] / np.sqrt(len(poses)))
    long, short = (replace(nothing, basis=basis) for basis in bases)
    return LinearPath(template, long, short, mean, kept)


def trial_moments(walks: Sequence[Walk], path: LinearPath, step: int = 2) -> dict[str, PathMoments]:
    """Moments of each trial, both phases and the mirror images together."""
    moments: dict[str, PathMoments] = {}
    for walk in walks:
        windows = body_windows(walk, path.template, step)
        relative, centre = path.relative(windows, np.ones(path.agents, bool))
        reach = len(path.short.basis)
        own = PathMoments(
            Moments.of(path.long.features(relative, centre)),
            Moments.of(path.short.features(relative[:, :, -reach:], centre[:, -reach:])),
        )
        moments[walk.trial] = moments[walk.trial] + own if walk.trial in moments else own
    return moments


def with_moments(path: LinearPath, moments: PathMoments) -> LinearPath:
    """The path whose regressions have these moments."""
    return replace(
        path,
        long=_ridge_with(path.long, moments.long, LONG_ROWS),
        short=_ridge_with(path.short, moments.short, SHORT_ROWS),
    )


def _ridge_with(ridge: WindowRidge, moments: Moments, rows: int) -> WindowRidge:
    mean = moments.first / moments.count
    values, vectors = np.linalg.eigh(moments.second - moments.count * np.outer(mean, mean))
    kept = slice(-rows, None)
    return replace(ridge, mean=mean, factor=np.sqrt(np.maximum(values[kept], 0.0))[:, None] * vectors[:, kept].T)


def with_penalties(path: LinearPath, long: FloatArray, short: FloatArray) -> LinearPath:
    """The path with these penalties [A] of its joints."""
    return replace(path, long=replace(path.long, penalty=long), short=replace(path.short, penalty=short))


def total(moments: dict[str, PathMoments]) -> PathMoments:
    """All trials together."""
    first, *rest = moments.values()
    for other in rest:
        first = first + other
    return first


@dataclass(frozen=True)
class Completion:
    """What the regression makes of a hidden limb in every window of a walk.

    errors: f4 [N, H, T, 3], truth minus completion in body axes (m). poses: f4 [N, T, Q], coordinates of the completed
    poses.
    """

    trial: str
    errors: NDArray[np.float32]
    poses: NDArray[np.float32]


def complete_walk(walk: Walk, path: LinearPath, hidden: NDArray[np.int64], step: int = 1) -> Completion:
    """Hide joints in every ``step``-th window of a walk and complete them."""
    windows = body_windows(walk, path.template, step)
    visible = ~np.isin(np.arange(path.agents), hidden)
    found = path.complete(windows, visible)
    errors = windows[:, hidden] - found[:, hidden]
    return Completion(walk.trial, errors.astype(np.float32), path.pose_coordinates(found).astype(np.float32))


def out_of_fold(
    walks: Sequence[Walk], path: LinearPath, moments: dict[str, PathMoments], hidden_sets: dict[str, NDArray[np.int64]]
) -> dict[str, list[Completion]]:
    """Completions of the walks that are no mirror images, each by the regression of the other trials."""
    whole = total(moments)
    out: dict[str, list[Completion]] = {name: [] for name in hidden_sets}
    for trial, own in moments.items():
        fold = with_moments(path, whole - own)
        for walk in walks:
            if walk.trial == trial and not walk.mirrored:
                for name, hidden in hidden_sets.items():
                    out[name].append(complete_walk(walk, fold, hidden))
    return out


@dataclass(frozen=True)
class Episodes:
    """Moments after a loss, each with what the carry remembers then: n moments of evidence, m = 1 wanted.

    walk, window: [E] of the completions, and the window of that walk whose newest frame is looked at.
    since: [E] frames since the loss. times, poses, errors: [E, n], [E, n, Q], [E, n, H, 3] (s, m) of the evidence;
    wanted_pose [E, Q] and target [E, H, 3] at the moment wanted, `since` frames after the last evidence at time 0.
    """

    walk: NDArray[np.int64]
    window: NDArray[np.int64]
    since: NDArray[np.int64]
    times: FloatArray
    poses: FloatArray
    errors: FloatArray
    wanted_pose: FloatArray
    target: FloatArray

    def carried(self, carry: ResidualCarry, dt: float) -> FloatArray:
        """Carried errors [E, H, 3] (m) at the moments wanted."""
        wanted = self.since[:, None].astype(np.float64) * dt
        weights = carry.weights(self.times, self.poses, wanted, self.wanted_pose[:, None])
        return np.einsum("en,enhp->ehp", weights[:, 0], self.errors)


def episodes(
    completions: Sequence[Completion],
    since: Sequence[int],
    every: int,
    dt: float,
    reach: int = EVIDENCE_FRAMES,
    step: int = 1,
) -> Episodes:
    """Losses every few frames of each walk, looked at `since` frames later in the newest frame of a window.

    The evidence of a frame, down to `reach` frames before the loss, is the error that the newest window holding that
    frame tells, as at run time. step: of the windows that were completed, of which `every` is a multiple.
    """
    back = np.arange(0, reach + 1, EVIDENCE_STEP)[::-1]
    parts: list[tuple] = []
    for number, done in enumerate(completions):
        count = len(done.errors)
        for age in since:
            first = max(reach - FRAMES + 1, 0) + age
            newest = np.arange(-(-first // step) * step, step * (count - 1) + 1, every)
            if not len(newest):
                continue
            lost, wanted = newest - age, newest // step
            seen = lost[:, None] - back  # window whose newest frame this evidence is; down to 1 - FRAMES
            window = np.minimum(newest[:, None], seen + FRAMES - 1) // step
            frame = FRAMES - 1 - (step * window - seen)
            parts.append(
                (
                    np.full(len(lost), number),
                    wanted,
                    np.full(len(lost), age),
                    done.poses[window, frame],
                    done.errors[window, :, frame],
                    done.poses[wanted, -1],
                    done.errors[wanted, :, -1],
                )
            )
    walk, index, ages, poses, errors, pose, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    times = np.broadcast_to(-back * dt, (len(ages), len(back)))
    found = (array.astype(np.float64) for array in (poses, errors, pose, target))
    return Episodes(walk, index, ages, times, *found)


def fit_carry(training: Sequence[Episodes], dt: float, evaluations: int = 250) -> ResidualCarry:
    """The kernel with the smallest mean joint error over the episodes.

    Errors count relative to those of the regression alone on the same walk: one odd walk must not decide. What stays
    and what returns with the pose are left out of the kernel where they lower the error of old losses by less than
    CARRY_GAIN.
    """
    unit, late = [], []
    for group in training:
        alone = np.linalg.norm(group.target, axis=-1).mean(1)
        of_walk = np.bincount(group.walk, alone) / np.maximum(np.bincount(group.walk), 1)
        unit.append(of_walk[group.walk])
        late.append(group.since >= LATE_FRAMES)

    def relative(carry: ResidualCarry | None) -> FloatArray:
        """Mean joint error of every episode in units of its walk's."""
        parts = []
        for group, scale in zip(training, unit, strict=True):
            carried = 0.0 if carry is None else group.carried(carry, dt)
            parts.append(np.linalg.norm(group.target - carried, axis=-1).mean(1) / scale)
        return np.concatenate(parts)

    def best(free: NDArray[np.bool_]) -> ResidualCarry:
        start = np.log(np.where(free, KERNEL_START, NO_VARIANCE))

        def carry_of(logs: FloatArray) -> ResidualCarry:
            every = start.copy()
            every[free] = logs
            return ResidualCarry(CarryKernel(*np.exp(every).tolist()))

        def loss(logs: FloatArray) -> float:
            return 10.0 if np.abs(logs).max() > 12 else float(relative(carry_of(logs)).mean())

        first = start[free]
        simplex = first + np.vstack([np.zeros(len(first)), 0.7 * np.eye(len(first))])
        options = {"maxfev": evaluations, "initial_simplex": simplex}
        return carry_of(minimize(loss, first, method="Nelder-Mead", options=options).x)

    everything = np.ones(len(KERNEL_START), bool)
    carry = best(everything)
    old = np.concatenate(late)
    if old.any() and relative(carry)[old].mean() > (1 - CARRY_GAIN) * relative(None)[old].mean():
        return best(everything & ~np.isin(np.arange(len(KERNEL_START)), (0, 1)))
    return carry


@dataclass(frozen=True)
class LinearFit:
    """Everything of a body that is set in closed form.

    limbs: joint indices by name. carries, ridge_frame, ridge_window: by limb. training, validation: walks (training
    with mirror images).
    completions: of the training walks that are no mirror images, out of fold, by limb. report: what was chosen, and
    validation errors.
    """

    names: list[str]
    limbs: dict[str, NDArray[np.int64]]
    dt: float
    path: LinearPath
    carries: dict[str, ResidualCarry]
    ridge_frame: dict[str, LimbRidge]
    ridge_window: dict[str, LimbRidge]
    moments: dict[str, PathMoments]
    training: list[Walk]
    validation: list[Walk]
    completions: dict[str, list[Completion]]
    report: dict[str, dict]


def fit_linear(trials: Sequence[Trial], evaluations: int = 160, cache: Path | None = None) -> LinearFit:
    """Fit template, linear path, carries and the plain ridges to the training trials; the validation trials choose
    penalties.

    cache: a file for the out-of-fold completions and the kernels, which take longest; they are read where it exists.
    """
    names, dt = trials[0].joints, 2.0 / trials[0].rate
    indices = {limb: np.array([names.index(joint) for joint in joints]) for limb, joints in limbs(names).items()}
    core = np.setdiff1d(np.arange(len(names)), np.concatenate(list(indices.values())))
    training, validation = walks(trials, training_numbers(trials), mirrored=True), walks(trials, VALIDATION)
    if not training or not validation:
        known = ", ".join(trial.name for trial in trials)
        raise ValueError(
            f"trials {known}: expected some that validate ({', '.join(VALIDATION)}) and some that neither do nor test"
            f" ({', '.join(TEST)})"
        )
    template = fit_template(training, core)
    path = empty_path(training, template)
    moments = trial_moments(training, path)
    path = with_moments(path, total(moments))
    path, chosen = _choose_penalties(path, validation, indices)
    print(f"linear path: penalties {chosen}", flush=True)
    if cache is not None and cache.exists():
        completions, found = _read_cache(cache, indices)
    else:
        completions, found = out_of_fold(training, path, moments, indices), {}
    carries: dict[str, ResidualCarry] = {}
    kernels: dict[str, dict[str, float]] = {}
    for kind in ("arm", "leg"):
        sides = [f"{side}_{kind}" for side in ("left", "right")]
        carry = found.get(kind) or fit_carry(
            [episodes(completions[limb], CARRY_AGES, 24, dt) for limb in sides], dt, evaluations
        )
        carries |= dict.fromkeys(sides, carry)
        kernels[kind] = {key: float(f"{value:.4g}") for key, value in vars(carry.kernel).items()}
        print(f"carry of the {kind}s: {kernels[kind]}", flush=True)
    if cache is not None and not cache.exists():
        _write_cache(cache, completions, {kind: carries[f"left_{kind}"] for kind in ("arm", "leg")})
    ridge_frame: dict[str, LimbRidge] = {}
    ridge_window: dict[str, LimbRidge] = {}
    plain = np.concatenate([body_windows(walk, template, 4) for walk in training if not walk.mirrored])
    judge = np.concatenate([body_windows(walk, template, 4) for walk in validation])
    ridges: dict[str, list[dict]] = {}
    for limb, hidden in indices.items():
        for name, lag_sets, store in (
            ("ridge_frame", ((0,),), ridge_frame),
            ("ridge_window", WINDOW_LAGS, ridge_window),
        ):
            store[limb], ridges[f"{name} {limb}"] = fit_limb_ridge(
                plain, judge, hidden, core, lag_sets, RIDGE_PENALTIES, dt
            )
        print(f"ridges of the {limb}: {ridges[f'ridge_frame {limb}']} {ridges[f'ridge_window {limb}']}", flush=True)
    report: dict[str, dict] = {"penalties": chosen, "kernels": kernels, "ridges": ridges}
    return LinearFit(
        names, indices, dt, path, carries, ridge_frame, ridge_window, moments, training, validation, completions, report
    )


def _choose_penalties(
    path: LinearPath, validation: Sequence[Walk], indices: dict[str, NDArray[np.int64]]
) -> tuple[LinearPath, dict[str, float]]:
    """Penalties of arms and legs by the mean joint error on the validation walks; core joints share the arms'.

    The long regression is judged over its window and chosen first, then the short one by the newest frame of both
    together.
    """
    windows = np.concatenate([body_windows(walk, path.template, 2) for walk in validation])
    chosen: dict[str, float] = {}
    long, short = np.ones(path.agents), np.ones(path.agents)

    def error(kind: str, penalties: tuple[FloatArray, FloatArray], frames: slice) -> float:
        tried = with_penalties(path, *penalties)
        errors = []
        for side in ("left", "right"):
            hidden = indices[f"{side}_{kind}"]
            found = tried.complete(windows, ~np.isin(np.arange(path.agents), hidden))
            errors.append(np.linalg.norm((found - windows)[:, hidden, frames], axis=-1).mean())
        return float(np.mean(errors))

    for kind in ("arm", "leg"):
        everyone = np.ones(path.agents)
        middle = slice(0, SHORT_FRAMES)  # where the short regression has no share yet
        tries = [error(kind, (value * everyone, everyone), middle) for value in PENALTIES]
        chosen[f"long {kind}"] = _largest_good(tries)
        fixed = chosen[f"long {kind}"] * everyone
        tries = [error(kind, (fixed, value * everyone), slice(-1, None)) for value in PENALTIES]
        chosen[f"short {kind}"] = _largest_good(tries)
    for name, penalty in (("long", long), ("short", short)):
        penalty[:] = chosen[f"{name} arm"]
        for side in ("left", "right"):
            penalty[indices[f"{side}_leg"]] = chosen[f"{name} leg"]
    return with_penalties(path, long, short), chosen


def _largest_good(errors: Sequence[float]) -> float:
    """Three validation trials cannot tell penalties apart whose errors differ little; trials differ, so caution
    pays.
    """
    good = np.flatnonzero(np.array(errors) <= PENALTY_SLACK * min(errors))
    return PENALTIES[int(good[-1])]


def _write_cache(cache: Path, completions: dict[str, list[Completion]], carries: dict[str, ResidualCarry]) -> None:
    arrays: dict[str, Any] = {f"kernel {kind}": np.array(astuple(carry.kernel)) for kind, carry in carries.items()}
    for limb, done in completions.items():
        arrays[f"trials {limb}"] = np.array([one.trial for one in done])
        for number, one in enumerate(done):
            arrays[f"errors {limb} {number}"], arrays[f"poses {limb} {number}"] = one.errors, one.poses
    cache.parent.mkdir(parents=True, exist_ok=True)
    beside = cache.with_name(f"part-{cache.name}")
    np.savez(beside, **arrays)
    beside.replace(cache)


def _read_cache(
    cache: Path, limbs_wanted: dict[str, NDArray[np.int64]]
) -> tuple[dict[str, list[Completion]], dict[str, ResidualCarry]]:
    with np.load(cache, allow_pickle=False) as arrays:
        carries = {kind: ResidualCarry(CarryKernel(*arrays[f"kernel {kind}"].tolist())) for kind in ("arm", "leg")}
        completions = {
            limb: [
                Completion(str(trial), arrays[f"errors {limb} {number}"], arrays[f"poses {limb} {number}"])
                for number, trial in enumerate(arrays[f"trials {limb}"])
            ]
            for limb in limbs_wanted
        }
    return completions, carries
