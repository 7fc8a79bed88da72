"""``siha train body``: the bundle of a walking body, from a folder of motion capture to a folder that the node
loads.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import siha_ros
from offline_training.datasets.body import FRAMES, TEST, Walk, walks
from offline_training.datasets.body_states import BodyWindows, gather
from offline_training.datasets.cmu_mocap import load_subject
from offline_training.experiments.body_linear import evaluate
from offline_training.stages.calibration import AGES, TABLE_SECONDS, calibrated_table, part_tables, unseen_table
from offline_training.stages.limb_predictors import (
    Limb,
    measure_gain,
    refine,
    train_limb_hsp_sa,
    train_limb_hsp_sg,
)
from offline_training.stages.linear_path import Completion, Episodes, LinearFit, complete_walk, episodes, fit_linear
from offline_training.stages.logs import claim, plot_curves, revision, stage_rows
from offline_training.stages.loop import Schedule
from offline_training.stages.nri import train_nri
from siha_ros.body_estimator import CORE, FALLBACK, SHARE, TWO, UNSEEN
from siha_ros.estimator import FORECAST
from siha_ros.model.body_linear import ResidualCarry
from siha_ros.model.bundle import BundleConfig, ErrorTable, Ranges, Training, check_place, save_bundle
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.replay.forecasts import steps_looked_at
from siha_ros.replay.losses import error_table

HORIZON, FEATURES = 25, 6
ROUNDS = 5
SHARE_SECONDS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 3.0)  # the last one: nothing was ever seen of the limb

FloatArray = NDArray[np.float64]


@dataclass
class BodyNetworks:
    """The networks of a body's bundle; gain ``[6]`` is the unit of the predictors' output."""

    nri: NRI
    hsp_sa: HiddenStatePredictor
    hsp_sg: HiddenStatePredictor
    gain: Tensor


def train_bundle(data: Path, out: Path, work: Path, *, scale: float = 1.0, seed: int = 0) -> Path:
    """Fit, train, measure on the validation trials, write the bundle ``out``. Goes on from what is in ``work``."""
    check_place(out)
    trials = load_subject(data)
    claim(work, data=data.resolve(), scale=scale, seed=seed)
    began = time.monotonic()
    fit = fit_linear(trials, cache=work / "linear.npz")
    minutes = {"linear_path": round((time.monotonic() - began) / 60, 1)}
    limbs = {name: Limb.of(joints, len(fit.names)) for name, joints in fit.limbs.items()}
    plain = [walk for walk in fit.training if not walk.mirrored]
    ranges = measure_ranges(fit, plain)
    unit = Scale(position=round(ranges.extent / 1.2, 2), velocity=round(ranges.speed / 1.2, 2))
    checks = {
        limb: [complete_walk(walk, fit.path, hidden) for walk in fit.validation] for limb, hidden in fit.limbs.items()
    }
    training = gather(plain, fit.completions, fit.limbs, fit.path.template, fit.names, unit, fit.dt)
    validation = gather(fit.validation, checks, fit.limbs, fit.path.template, fit.names, unit, fit.dt, step=6)
    networks = train_networks(training, validation, limbs, work, scale=scale, seed=seed)
    added = {
        limb: [
            added_by_networks(fit, networks, unit, walk, done, limb)
            for walk, done in zip(fit.validation, checks[limb], strict=True)
        ]
        for limb in fit.limbs
    }
    share = measure_share(fit, checks, added)
    errors = measure_errors(fit, checks, added, share) | fallback_errors(fit)
    errors |= forecast_errors(fit, networks, unit)
    errors |= part_tables(fit.path, carries(fit), fit.names, fit.limbs, fit.validation, fit.dt)
    rows = stage_rows(work)
    plot_curves(work)
    test = walks(trials, TEST)
    metrics = {
        "validation": {name: {key: row[key] for key in ("mse", "cm") if key in row} for name, row in rows.items()},
        "test": evaluate(fit, trials),
        "test_refined_cm": refined_test_errors(fit, networks, unit, share, test),
    }
    config = BundleConfig(
        format=1,
        name=out.name,
        system="body",
        purpose="a walking body of 31 joints that loses an arm or a leg; one subject",
        count=len(fit.names),
        agent_names=list(fit.names),
        limbs={limb: [fit.names[joint] for joint in joints] for limb, joints in fit.limbs.items()},
        dims=3,
        dt=fit.dt,
        window=FRAMES,
        horizon=HORIZON,
        frame="body",
        velocity="backward_difference",
        scale=unit,
        edge_types=["none", "interaction"],
        max_hidden=0,
        hidden_sets=list(fit.limbs),
        rounds=ROUNDS,
        ranges=ranges,
        errors=errors,
        training=Training(
            command=f"siha train body --seed {seed}",
            data=f"CMU motion capture, {len(trials)} walking trials of one subject",
            seed=seed,
            trials=sorted({walk.trial for walk in plain}),
            samples={"linear_path": sum(moments.long.count for moments in fit.moments.values())}
            | {name: row["samples"] for name, row in rows.items()},
            minutes=minutes | {name: round(row["seconds"] / 60, 1) for name, row in rows.items()},
            revision=revision(),
            versions={"siha_ros": siha_ros.__version__, "torch": str(torch.__version__), "numpy": np.__version__},
        ),
        metrics=metrics,
    )
    arrays = {
        "linear": fit.path.tensors(),
        "carry": {group: carry.tensor() for group, carry in carries(fit).items()},
        "refinement": {"gain": networks.gain, SHARE: share},
        "ridge": {
            f"{kind}.{limb}.{key}": tensor
            for kind, ridges in (("ridge_frame", fit.ridge_frame), ("ridge_window", fit.ridge_window))
            for limb, ridge in ridges.items()
            for key, tensor in ridge.tensors().items()
        },
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    save_bundle(out, config, {"nri": networks.nri, "hsp_sa": networks.hsp_sa, "hsp_sg": networks.hsp_sg}, arrays)
    return out


def measure_ranges(fit: LinearFit, training: Sequence[Walk]) -> Ranges:
    """What the training walks cover, in the body frame, and a fifth more."""
    extent, speed = 0.0, 0.0
    everyone = np.ones(len(fit.names), bool)
    for walk in training:
        windows = walk.windows(FRAMES, 4)
        frames = fit.path.template.fit(windows, everyone)
        extent = max(extent, float(np.linalg.norm(frames.to_body(windows), axis=-1).max()))
        speed = max(speed, float(np.linalg.norm(np.diff(walk.positions, axis=1), axis=-1).max() / fit.dt))
    return Ranges([len(fit.names)] * 2, [1 / fit.dt, 1000.0], speed=1.2 * speed, extent=1.2 * extent)


def train_networks(
    training: BodyWindows,
    validation: BodyWindows,
    limbs: dict[str, Limb],
    work: Path,
    *,
    scale: float,
    seed: int,
) -> BodyNetworks:
    """NRI on all joints, then both predictors over the linear path."""

    def steps(count: float) -> int:
        return max(4, round(count * scale))

    torch.manual_seed(seed)
    agents = training.positions.shape[1]
    nri = NRI(NRIConfig(FRAMES, FEATURES, difference_gain=10.0, decoder_width=128, output_gain=0.05))
    config = HSPConfig(
        FRAMES, FEATURES, hidden=max(len(limb.hidden) for limb in limbs.values()), identities=agents, width=128
    )
    hsp_sa = HiddenStatePredictor(config)
    hsp_sg = HiddenStatePredictor(replace(config, alphas=list(PAPER_ALPHAS)))
    gain = measure_gain(training, limbs)

    def sample(generator: torch.Generator) -> Tensor:
        index = torch.randint(0, len(training), (16,), generator=generator)
        return training.states(training.batch(index, generator)[0])

    train_nri(
        "nri",
        work,
        nri,
        sample,
        validation.states(validation.positions[::4]),
        None,
        Schedule(steps(700), rate=1e-3, validate_every=max(1, steps(700) // 12)),
        batch=16,
        starts=1,
        seed=seed,
    )
    train_limb_hsp_sa(
        "hsp_sa",
        work,
        hsp_sa,
        training,
        validation,
        limbs,
        gain,
        _schedule(steps(1500), 5e-4, checks=10),
        batch=64,
        seed=seed,
    )
    own = hsp_sg.state_dict()
    hsp_sg.load_state_dict({key: value for key, value in hsp_sa.state_dict().items() if key in own}, strict=False)
    sparse = BodyWindows(
        training.positions[::3].clone(), training.errors[::3].clone(), training.mirrored, training.scale, training.dt
    )
    train_limb_hsp_sg(
        "hsp_sg",
        work,
        hsp_sg,
        hsp_sa,
        nri,
        sparse,
        validation,
        limbs,
        gain,
        _schedule(steps(1000), 3e-4, checks=5),
        batch=64,
        warmup_epochs=20 * scale,
        refresh_epochs=40 * scale,
        seed=seed,
    )
    return BodyNetworks(nri, hsp_sa, hsp_sg, gain)


def _schedule(steps: int, rate: float, checks: int) -> Schedule:
    """For few data: weights that decay, and validation often enough to stop in time."""
    return Schedule(steps, rate=rate, weight_decay=1e-4, average=0.998, validate_every=max(1, steps // checks))


def added_by_networks(
    fit: LinearFit, networks: BodyNetworks, unit: Scale, walk: Walk, done: Completion, limb: str
) -> FloatArray:
    """What the refinement adds to the linear path in every window of a walk: ``[N, H, T, 3]`` (m, body axes)."""
    hidden = fit.limbs[limb]
    windows = gather([walk], {limb: [done]}, {limb: hidden}, fit.path.template, fit.names, unit, fit.dt)
    which = Limb.of(hidden, len(fit.names))
    found = refine(windows, networks.hsp_sa, networks.hsp_sg, networks.nri, which, networks.gain, ROUNDS)
    first = windows.positions[:, hidden] - windows.errors[:, hidden]
    added: FloatArray = (found[..., :3] * unit.position - first).double().numpy()
    return added


def measure_share(fit: LinearFit, checks: dict[str, list[Completion]], added: dict[str, list[FloatArray]]) -> Tensor:
    """How much of what the networks add lowers the validation error most (least squares, 0 to 1), by time since loss.

    One for all limbs: of each limb by itself, three trials said 0 here and 1 there. ``[limbs, 2, n]``: seconds, share.
    At the loss it is 0, so that nothing jumps.
    """
    losses = {limb: episodes(completions, AGES, 6, fit.dt) for limb, completions in checks.items()}
    left = _flat(lost.target - lost.carried(fit.carries[limb], fit.dt) for limb, lost in losses.items())
    new = _flat(_newest(added[limb], lost) for limb, lost in losses.items())
    seconds = np.concatenate([np.repeat(x.since * fit.dt, x.target[0].size) for x in losses.values()])
    share = [0.0]
    for before, after in zip(SHARE_SECONDS[:-2], SHARE_SECONDS[2:], strict=True):
        chosen = (seconds > before) & (seconds <= after)
        share.append(best_share(left[chosen], new[chosen]))
    errors = _flat(done.errors for completions in checks.values() for done in completions)
    share.append(best_share(errors, _flat(part for parts in added.values() for part in parts)))
    print(f"share of the refinement {[round(value, 2) for value in share]}", flush=True)
    return torch.tensor([[SHARE_SECONDS, share]] * len(checks), dtype=torch.float32)


def _flat(parts: Iterable[NDArray[Any]]) -> FloatArray:
    return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])


def best_share(left: FloatArray, new: FloatArray) -> float:
    """The share of ``new`` that leaves the least of ``left``, between 0 and 1; arrays of one shape."""
    return float(np.clip((left * new).sum() / max(np.square(new).sum(), 1e-12), 0.0, 1.0))


def measure_errors(
    fit: LinearFit, checks: dict[str, list[Completion]], added: dict[str, list[FloatArray]], share: Tensor
) -> dict[str, ErrorTable]:
    """Error tables of walks that nothing was fitted to, of each joint of a limb that hides as a whole: by time since
    its loss (NAME), never seen (NAME_unseen), with another limb hidden too (NAME_two).

    Of limbs the training walks count beside the validation walks: out of fold, and without the networks, which know
    them. Three trials alone say too little of the next one.
    """
    tables: dict[str, ErrorTable] = {}
    for number, (limb, completions) in enumerate(checks.items()):
        lost = episodes(completions, AGES, 6, fit.dt)
        seconds, left, trials = after_losses(fit, completions, limb, lost)
        left -= np.interp(seconds, *share[number].double().numpy())[:, None, None] * _newest(added[limb], lost)
        folds = after_losses(fit, fit.completions[limb], limb, episodes(fit.completions[limb], AGES, 12, fit.dt))
        seconds, left, trials = (np.concatenate(pair) for pair in zip((seconds, left, trials), folds, strict=True))
        whole = [
            replace(done, errors=(done.errors - float(share[number, 1, -1]) * new).astype(np.float32))
            for done, new in zip(completions, added[limb], strict=True)
        ]
        for row, joint in enumerate(fit.limbs[limb]):
            name = fit.names[joint]
            tables[name] = calibrated_table(seconds, left[:, row], trials, TABLE_SECONDS)
            tables[f"{name}_{UNSEEN}"] = unseen_table([*whole, *fit.completions[limb]], row, step=12)
    for pair in combinations(fit.limbs, 2):
        both = np.concatenate([fit.limbs[limb] for limb in pair])
        together = [complete_walk(walk, fit.path, both, step=12) for walk in fit.validation]
        for row, joint in enumerate(both):
            name = f"{fit.names[joint]}_{TWO}"
            table = unseen_table(together, row, step=1)
            if name not in tables or table.radius[0] > tables[name].radius[0]:
                tables[name] = table
    return tables


def after_losses(
    fit: LinearFit, completions: list[Completion], group: str, lost: Episodes
) -> tuple[FloatArray, FloatArray, NDArray]:
    """Of episodes of completions: seconds since the loss [E], errors [E, H, 3] (m) of linear path and carry, trials."""
    left = lost.target - lost.carried(carries(fit)[group], fit.dt)
    return lost.since.astype(np.float64) * fit.dt, left, _trials(completions)[lost.walk]


def carries(fit: LinearFit) -> dict[str, ResidualCarry]:
    """Of the limbs, and the legs' for the joints of the core: on validation walks it fades before it does harm there,
    which the arms' does not.
    """
    return fit.carries | {CORE: fit.carries["left_leg"]}


def fallback_errors(fit: LinearFit) -> dict[str, ErrorTable]:
    """Tables of what the bundle was not made for, measured with three limbs lost; nothing is fitted here.

    By time since the loss, of joints that keep their place beside the mean of the joints still seen; of joints never
    seen, which are put at that mean; and of the forecast at constant velocity, by seconds ahead.
    """
    walked = [*fit.validation, *(walk for walk in fit.training if not walk.mirrored)]
    lost: list[tuple[Walk, int, FloatArray]] = []
    never: list[tuple[Walk, int, FloatArray]] = []
    ahead: list[tuple[Walk, int, FloatArray]] = []
    for walk in walked:
        for kept in fit.limbs:
            gone = np.concatenate([joints for limb, joints in fit.limbs.items() if limb != kept])
            place = walk.positions[gone] - np.delete(walk.positions, gone, 0).mean(0)
            never.append((walk, 0, place[:, ::18]))
            lost += [(walk, age, (place[:, age:] - place[:, :-age])[:, ::18]) for age in AGES]
        steps = np.diff(walk.positions, axis=1)
        for age in range(1, HORIZON + 1, 3):
            error = walk.positions[:, 1 + age :] - walk.positions[:, 1:-age] - age * steps[:, :-age]
            ahead.append((walk, age, error[:, ::18]))
    tables = {}
    for name, parts, places in (
        (FALLBACK, lost, TABLE_SECONDS),
        (f"{FALLBACK}_{UNSEEN}", never, TABLE_SECONDS[:1]),
        (f"{FALLBACK}_{FORECAST}", ahead, TABLE_SECONDS[:6]),
    ):
        counts = [error[..., 0].size for _, _, error in parts]
        seconds = np.repeat([max(age, 1) * fit.dt for _, age, _ in parts], counts)
        trials = np.repeat([walk.trial for walk, _, _ in parts], counts)
        errors = np.concatenate([error.reshape(-1, 3) for _, _, error in parts])
        tables[name] = calibrated_table(seconds, errors, trials, places)
    return tables


def _newest(arrays: list[FloatArray], lost: Episodes) -> FloatArray:
    """Of arrays [N, H, T, 3] of walks the newest frames [E, H, 3] that episodes look at."""
    return np.stack([arrays[walk][window][:, -1] for walk, window in zip(lost.walk, lost.window, strict=True)])


def _trials(completions: list[Completion]) -> NDArray:
    return np.array([done.trial for done in completions])


@torch.no_grad()
def forecast_errors(fit: LinearFit, networks: BodyNetworks, unit: Scale) -> dict[str, ErrorTable]:
    """Of the forecast of complete validation windows, by seconds ahead, for each joint (NAME_forecast): a foot is
    harder to tell than a hip."""
    steps = steps_looked_at(HORIZON)
    errors = []
    for walk in fit.validation:
        windows = walk.windows(FRAMES + HORIZON, 6)
        frames = fit.path.template.fit(windows[:, :, :FRAMES], np.ones(len(fit.names), bool))
        body = torch.from_numpy(frames.to_body(windows).astype(np.float32))
        states = BodyWindows(body, body, torch.arange(body.shape[1]), unit, fit.dt).states(body[:, :, :FRAMES])
        ahead = networks.nri.forecast(states[:, :, -1], networks.nri.graph(states), HORIZON)[:, :, steps - 1]
        errors.append((ahead[..., :3] * unit.position - body[:, :, FRAMES + steps - 1]).double().numpy())
    error, seconds = np.concatenate(errors), (steps * fit.dt).round(5)
    times = np.tile(seconds, len(error))
    return {
        f"{name}_{FORECAST}": error_table(times, error[:, joint].reshape(-1, 3), seconds.tolist())
        for joint, name in enumerate(fit.names)
    }


def refined_test_errors(
    fit: LinearFit, networks: BodyNetworks, unit: Scale, share: Tensor, test: Sequence[Walk]
) -> dict[str, float]:
    """Mean joint error (cm) of a limb that is hidden throughout, with the share of the refinement that validation
    chose.
    """
    out = {}
    for number, (limb, hidden) in enumerate(fit.limbs.items()):
        errors = []
        for walk in test:
            done = complete_walk(walk, fit.path, hidden)
            added = added_by_networks(fit, networks, unit, walk, done, limb)
            errors.append(np.linalg.norm(done.errors - float(share[number, 1, -1]) * added, axis=-1).mean())
        out[limb] = round(float(np.mean(errors)) * 100, 3)
    return out
