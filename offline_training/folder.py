"""``siha train FOLDER``: a bundle of one's own team of like agents, from recordings of it.

What can be inferred is, and is said. Windows are in the team's inertial frame, velocities are backward differences,
agents have no order, gaps are masked; training, validation and test share no moment. The errors in the bundle are
those of the test part, beside simple baselines.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from offline_training.budget import measure, scale_within, seconds_of
from offline_training.datasets.team import TeamWindows
from offline_training.recordings.jumps import without_spikes
from offline_training.recordings.recording import Recording, RecordingError
from offline_training.recordings.team_data import (
    LEAST_CHECKS,
    MOST_CHECKS,
    MOST_MISSING,
    Split,
    TeamSpec,
    infer,
    losses,
    measure_scale,
    split,
    team_windows,
)
from offline_training.stages.logs import OTHER_FOLDER, claim, plot_curves
from offline_training.stages.loop import read_note, write_atomically
from offline_training.stages.mixing import LastMotion, measure_mix
from offline_training.team import (
    TeamPlan,
    measure_noise,
    save_team,
    train_team,
    training_record,
    unseen_tables,
    validation_metrics,
    window_errors,
)
from siha_ros.baselines import ConstantVelocity, Hold, MeanVisible
from siha_ros.estimator import FORECAST, load_estimator
from siha_ros.model.bundle import RECORDED, BundleConfig, ErrorTable, Ranges, Training, check_place
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import HSPConfig
from siha_ros.model.mix import Mix, shares
from siha_ros.model.nri import NRIConfig
from siha_ros.replay.losses import error_tables, never_seen_tables, report, run_losses
from siha_ros.window.types import WindowEstimator

STEPS = {"nri": 7500, "nri_visible": 0, "hsp_sa": 3500, "hsp_sg": 2500}
LOSSES = 100  # of each number of agents, on the test part
NEVER_SEEN = 0.4  # of the runs of most lost, in which these are never seen instead
FEWEST_MIXED = 20  # losses of each number of agents, on the validation part, where there are as many
LOSS_RATE = 2.5  # estimates a second
TYPICAL_CHANGE = 0.3  # rms that frame differences are scaled to, so that networks see accelerations
BEYOND = 1.1  # of the largest distance and speed seen that a bundle takes
MOST_METRES = 1e12  # beyond which squares of positions overflow a float32 sooner or later
DOUBTED_SPEED = 100.0  # m/s, beyond which units are asked about
SHOWN_NAMES = 12
SLOW = 1.5  # steps of the grid between two samples, from which a recording is slower than the others


def train_folder(
    recordings: Sequence[Recording],
    out: Path,
    work: Path,
    *,
    source: str,
    dt: float | None = None,
    agents: int | None = None,
    window: int | None = None,
    hidden: int = 2,
    scale: float = 1.0,
    budget: float | None = None,
    seed: int = 0,
    width: int = 256,
    device: str = "cpu",
    command: str = "",
    say: Callable[[str], object] = print,
) -> dict[str, Any] | None:
    """Train on recordings, measure on those kept apart, write the bundle ``out``; goes on from what is in ``work``.

    source: what the recordings are, for the bundle. dt, agents, window, hidden: as in :func:`infer`. budget: seconds
    that training the networks may take, in place of ``scale``; what a first call chose is kept in
    ``work/budget.json``. width: of the networks. device: where they train. command: what the bundle says it was made
    by. Returns the report of losses on the test part, None where the recordings are too short for any.
    """
    check_place(out)
    with np.errstate(over="ignore", invalid="ignore"):  # of samples that are refused below, or spikes
        recordings, odd, fastest = without_spikes(recordings)
    for line in odd:
        say(line)
    for recording in recordings:
        farthest = float(np.abs(recording.positions[recording.observed]).max(initial=0.0))
        if farthest > MOST_METRES:
            raise RecordingError(f"{recording.source}: positions up to {farthest:.3g}, expected metres (--unit)")
    spec, grids = infer(recordings, dt=dt, agents=agents, window=window, hidden=hidden)
    parts = split(grids, spec)
    raw = team_windows(parts.training, spec, Scale(1.0, 1.0), future=0, missing=MOST_MISSING, seed=seed)
    units, extent, speed = measure_scale(raw, spec)
    speed = min(speed, fastest)  # jumps are no motion that the bundle knows
    data = replace(raw, scale=units)
    validation, test = (
        team_windows(part, spec, units, future=spec.horizon, most=MOST_CHECKS, seed=seed)
        for part in (parts.validation, parts.test)
    )
    for line in _inferred(recordings, spec, parts, data, validation, test, extent, speed):
        say(line)
    for name, part in (("validation", validation), ("test", test)):
        if len(part) < LEAST_CHECKS:
            raise RecordingError(
                f"{source}: {len(part)} windows without gaps for {name}, expected {LEAST_CHECKS} or more:"
                " more or longer recordings are needed, or a shorter --window"
            )
    history = replace(validation, positions=validation.positions[:, :, : spec.window])
    plan, digest, note = _plan(data, spec, width), _digest(recordings), work / "budget.json"
    chosen = {"seconds": budget, "recordings": digest}
    if budget is not None:
        kept = read_note(note, OTHER_FOLDER, scale=float)
        if kept.items() >= chosen.items():
            scale = kept["scale"]
        else:
            scale = _scale_within(plan, data, history, budget, device, say)
    claim(
        work,
        source=source,
        recordings=digest,
        spec=vars(spec),
        windows=len(data),
        scale=scale,
        seed=seed,
        width=width,
        steps=STEPS,
    )
    if budget is not None:
        write_atomically(note, lambda path: path.write_text(json.dumps(chosen | {"scale": scale}) + "\n"))
        command += f" --scale {scale:g}"
    modules = train_team(plan, data, history, work, scale=scale, seed=seed, device=device)
    say("measuring its deviations")
    noise = measure_noise(modules, history)
    errors = window_errors(modules, test) | unseen_tables(modules, test, noise)
    plot_curves(work)
    trials = sorted({Path(grid.source).name for grid in parts.training})
    training = training_record(work, command or f"siha train {source}", f"{source}; {parts.how}", seed, trials)
    ranges = Ranges([spec.agents, spec.agents], [1 / spec.dt, 1000.0], speed=BEYOND * speed, extent=BEYOND * extent)

    mixes: dict[str, Mix] = {}

    def save(metrics: dict[str, Any]) -> None:
        config = _config(out, source, spec, units, ranges, errors, training, metrics)
        save_team(out, config, modules, noise, {name: mix.tensor() for name, mix in mixes.items()})

    metrics: dict[str, Any] = {"validation": validation_metrics(work)}
    save(metrics)
    count = max(5, round(LOSSES * min(scale, 1.0)))
    found, motion = _mixes(out, parts, spec, count=max(count, FEWEST_MIXED), seed=seed)
    mixes |= found
    for whose, text in shares(mixes):
        say(f"share of the networks beside a last motion, on validation losses, {whose}: {text}")
    save(metrics)
    measured = _test(out, parts, spec, source, motion, count=count, seed=seed)
    if measured is None:
        mixes.clear()  # errors are those of the networks alone
        save(metrics)
        say("the test part is too short for losses in long runs: errors are those of single windows")
        return None
    result, tables = measured
    errors |= tables
    metrics["test"] = {
        "losses": result["losses"],
        "rmse_cm": {
            method: {label: row and round(row["rmse_cm"], 2) for label, row in bins.items()}
            for method, bins in result["methods"].items()
        },
    }
    save(metrics)
    return result


def _scale_within(
    plan: TeamPlan,
    data: TeamWindows,
    validation: TeamWindows,
    seconds: float,
    device: str,
    say: Callable[[str], object],
) -> float:
    """What the schedules are multiplied by to take so many seconds, by the pace measured here and now."""
    say("timing a few steps of each stage, for the budget")
    began = time.monotonic()
    pace = measure(plan, data, validation, device, False)
    left, sizes = seconds - (time.monotonic() - began), {"windows": len(data), "checks": len(validation)}
    scale = scale_within(plan, pace, left, **sizes)
    takes = seconds_of(plan, pace, scale, **sizes)
    short = f"; it is the shortest schedule, {seconds / 60:.3g} min were asked for" * (takes > left)
    say(
        f"--scale {scale:g}: the networks take about {takes / 60:.1f} min, measuring their deviations some minutes"
        f" more{short}"
    )
    return scale


def _inferred(
    recordings: Sequence[Recording],
    spec: TeamSpec,
    parts: Split,
    data: TeamWindows,
    validation: TeamWindows,
    test: TeamWindows,
    extent: float,
    speed: float,
) -> list[str]:
    """What was inferred, for people. extent (m), speed (m/s): largest in the team's frame."""
    masked = 0.0 if data.known is None else 1 - float(data.known.float().mean())
    sizes = sorted({len(recording.names) for recording in recordings})
    names = list(dict.fromkeys(name for recording in recordings for name in recording.names))
    more = f" and {len(names) - SHOWN_NAMES} more" * (len(names) > SHOWN_NAMES)
    doubt = ": are positions in metres (--unit)?" * (speed > DOUBTED_SPEED)
    total = sum(float(recording.stamps[-1] - recording.stamps[0]) for recording in recordings)
    return [
        f"{len(recordings)} recordings, {total / 60:.1f} min, of {'-'.join(map(str, sizes[:: max(1, len(sizes) - 1)]))}"
        f" agents at {spec.rate:.3g} Hz, {spec.dims}-D",
        f"team of {spec.agents} like agents, up to {max(spec.hidden_counts)} hidden; windows of {spec.window} frames of"
        f" {spec.dt:.3g} s ({spec.window * spec.dt:.3g} s), forecast {spec.horizon * spec.dt:.3g} s",
        f"names: {', '.join(names[:SHOWN_NAMES])}{more}",
        f"in the team's frame up to {extent:.3g} m from its middle and {speed:.3g} m/s{doubt}",
        f"split {parts.how}",
        f"windows: {len(data)} to train on ({100 * masked:.2f} % of their states in gaps, masked),"
        f" {len(validation)} to validate, {len(test)} to test",
        *(
            f"{recording.source} has a sample every {recording.interval:.3g} s, the grid a frame every {spec.dt:.3g} s:"
            " what is between samples is taken for straight (leave it out, or give --dt)"
            for recording in recordings
            if recording.interval > SLOW * spec.dt
        ),
    ]


def _digest(recordings: Sequence[Recording]) -> str:
    """Of all that is learned from."""
    found = hashlib.sha256()
    for recording in recordings:
        found.update(repr((recording.names, recording.positions.shape)).encode())
        found.update(recording.stamps.tobytes() + recording.positions.tobytes())
    return found.hexdigest()[:12]


def _plan(data: TeamWindows, spec: TeamSpec, width: int) -> TeamPlan:
    """As for the simulated team, but for sizes and for edges, whose two directions are apart: a robot that follows
    another is not followed by it."""
    visible = spec.agents - max(spec.hidden_counts)
    states = data.states(slice(0, 2000), visible)
    gain = float(np.clip(TYPICAL_CHANGE / max(float(states.diff(dim=2).square().mean().sqrt()), 1e-6), 1.0, 100.0))
    gain = float(f"{gain:.2g}")
    batch = min(512, max(16, len(data)))
    steps_an_epoch = min(len(data), TeamPlan.cached) / batch
    return TeamPlan(
        hidden_counts=spec.hidden_counts,
        visible_counts=tuple(range(visible, spec.agents + 1)),
        nri=NRIConfig(
            spec.window,
            2 * spec.dims,
            difference_gain=gain,
            encoder_width=width,
            decoder_width=width // 2,
            output_gain=0.05,
        ),
        hsp=HSPConfig(spec.window, 2 * spec.dims, max(spec.hidden_counts), width=width, difference_gain=gain),
        steps=STEPS,
        hsp_batch=batch,
        warmup_epochs=0.4 * STEPS["hsp_sg"] / steps_an_epoch,
        refresh_epochs=0.3 * STEPS["hsp_sg"] / steps_an_epoch,
    )


def _config(
    out: Path,
    source: str,
    spec: TeamSpec,
    units: Scale,
    ranges: Ranges,
    errors: dict[str, ErrorTable],
    training: Training,
    metrics: dict[str, Any],
) -> BundleConfig:
    return BundleConfig(
        format=1,
        name=out.name,
        system=RECORDED,
        purpose=f"a team of {spec.agents} like agents, as recorded in {source}",
        count=spec.agents,
        agent_names=[],
        limbs={},
        dims=spec.dims,
        dt=spec.dt,
        window=spec.window,
        horizon=spec.horizon,
        frame="team",
        velocity="backward_difference",
        scale=units,
        edge_types=["none", "interaction"],
        max_hidden=max(spec.hidden_counts),
        hidden_sets=[],
        rounds=5,
        ranges=ranges,
        errors=dict(errors),
        training=training,
        metrics=json.loads(json.dumps(metrics)),
    )


def _mixes(out: Path, parts: Split, spec: TeamSpec, *, count: int, seed: int) -> tuple[dict[str, Mix], Mix | None]:
    """By losses in the validation part, how far the bundle's networks are to be followed beside a last motion, and what
    a last motion is best taken for without them; nothing where the part is too short for losses."""
    runs = [losses(parts.validation, spec, lost, count, seed) for lost in spec.hidden_counts]
    if not all(runs):
        return {}, None
    estimator = load_estimator(out, "cpu")
    rate, total = min(LOSS_RATE, 1 / spec.dt), sum(map(len, runs))
    return measure_mix(
        estimator.bundle.config, estimator, chain(*runs), rate=rate, seed=seed, progress=True, total=total
    )


def _test(
    out: Path, parts: Split, spec: TeamSpec, source: str, motion: Mix | None, *, count: int, seed: int
) -> tuple[dict[str, Any], dict[str, ErrorTable]] | None:
    """Losses in the test part through the estimator that the bundle makes, beside baselines: report, and the error
    tables of the estimator; None where the part is too short. motion: of :class:`LastMotion`."""
    runs = [losses(parts.test, spec, lost, count, seed) for lost in spec.hidden_counts]
    if not all(runs):
        return None
    estimator = load_estimator(out, "cpu")
    methods: dict[str, WindowEstimator] = {"siha": estimator}
    methods |= {kind.name: kind(horizon=spec.horizon) for kind in (Hold, ConstantVelocity, MeanVisible)}
    methods |= {} if motion is None else {LastMotion.name: LastMotion(motion, spec.horizon)}
    config, rate = estimator.bundle.config, min(LOSS_RATE, 1 / spec.dt)
    measured = run_losses(config, methods, chain(*runs), rate=rate, seed=seed, progress=True, total=sum(map(len, runs)))
    result = report(measured, config, data=f"{source}, test part", seed=seed, rate=rate)
    try:
        tables = error_tables(measured)
    except ValueError:  # too few of them for quantiles
        return None
    kept = {name: table for name, table in tables.items() if name == "siha" or name.startswith(FORECAST)}
    away = runs[-1][: math.ceil(NEVER_SEEN * len(runs[-1]))]
    return result, kept | never_seen_tables(
        config, estimator, away, rate=rate, seed=seed, progress=True, total=len(away)
    )
