"""``siha train springs_team``: the bundles of the simulated team, from nothing to a folder that the node loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from offline_training.datasets.losses import team_losses
from offline_training.datasets.simulated import (
    APART,
    FRAMES,
    HORIZON,
    SPRINGS_SCALE,
    springs_recording,
    springs_windows,
)
from offline_training.stages.logs import claim, plot_curves
from offline_training.systems.springs import FRAME_DT
from offline_training.team import (
    FEWEST_WINDOWS,
    SOLVED_FROM,
    TeamModules,
    TeamPlan,
    measure_noise,
    save_team,
    train_team,
    training_record,
    unseen_tables,
    validation_metrics,
    window_errors,
)
from siha_ros.estimator import NOISE_AGE, NOISY, Estimator, load_estimator
from siha_ros.model.bundle import BundleConfig, ErrorTable, Ranges, Training, check_place
from siha_ros.model.hidden_state import HSPConfig
from siha_ros.model.nri import NRIConfig
from siha_ros.replay.evaluate import Task, estimator_answers, frames_of, true_states
from siha_ros.replay.losses import (
    Run,
    error_tables,
    forecast_tables,
    never_seen_tables,
    noise_tables,
    run_losses,
    with_noise,
)
from siha_ros.replay.stated import Stated

AGENTS, FEATURES = 7, 4
CHECKS = 1000  # validation windows that deviations are measured on
STEPS = {  # of each stage; of HSP for one number of hidden agents, a further one adds a share
    "any": {"nri": 6000, "nri_visible": 0, "hsp_sa": 3500, "hsp_sg": 2500},
    "fresh": {"nri": 4500, "nri_visible": 2000, "hsp_sa": 3500, "hsp_sg": 2500},
}
EVIDENCE = 1.0  # steps of the model that tells NRI the edges, by those of NRI
NOISY_STEPS = 0.25  # steps in which its encoder meets noise, likewise
RATE = 2.5  # estimates a second, in runs
NOISES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)  # m
NOISY_SHARE = 0.4  # runs for each of them, and as many of two lost robots, for each run in which some are lost
NEVER_SEEN = 1.5  # runs in which two agents are never seen, for each run in which some are lost
CACHED = 256_000  # windows of the fixed set of HSP-sg; of fewer it knows so much that their graphs come out too good


def springs_plan(kind: str, hidden_counts: tuple[int, ...]) -> TeamPlan:
    """How the networks of a set ("fresh" or "any") are trained."""
    return TeamPlan(
        hidden_counts=hidden_counts,
        visible_counts=tuple(range(5, AGENTS + 1)) if kind == "any" else (AGENTS,),
        nri=NRIConfig(
            FRAMES,
            FEATURES,
            difference_gain=30.0,
            encoder_width=240 if kind == "any" else 256,  # two pairs of predictors and this one fit in 15 MB
            decoder_width=128,
            output_gain=0.05,
            tied=kind == "any",
        ),
        hsp=HSPConfig(FRAMES, FEATURES, max(hidden_counts), difference_gain=30.0),
        steps=STEPS[kind],
        visible_only=kind == "fresh",
        cached=CACHED,
        evidence=EVIDENCE if kind == "any" else 0.0,  # the visible-only NRI of the other, a baseline, is worse with it
        noisy=NOISY_STEPS if kind == "any" else 0.0,
    )


def train_modules(
    kind: str, folder: Path, *, samples: int, scale: float, seed: int, hidden_counts: tuple[int, ...]
) -> TeamModules:
    """Train all networks of one set in ``folder``, going on from the checkpoints there. scale: multiplies every
    schedule."""
    data = springs_windows(kind, "train", samples, seed=seed)
    validation = springs_windows(kind, "validation", 2000, seed=seed)
    return train_team(springs_plan(kind, hidden_counts), data, validation, folder, scale=scale, seed=seed)


def train_bundle(
    kind: str, out: Path, work: Path, *, samples: int = 400_000, scale: float = 1.0, seed: int = 0
) -> Path:
    """``siha train springs_team``: train, measure on validation runs, write the bundle ``out``. Goes on from what is in
    ``work``."""
    check_place(out)
    counts = (1, 2) if kind == "any" else (2,)
    plan = springs_plan(kind, counts)
    further = {"evidence": plan.evidence, "noisy": plan.noisy}
    claim(work, set=kind, samples=samples, scale=scale, seed=seed, steps=STEPS[kind], **further)
    modules = train_modules(kind, work, samples=samples, scale=scale, seed=seed, hidden_counts=counts)
    command = f"siha train springs_team --set {kind} --seed {seed}"
    return finish_bundle(kind, out, work, modules, command, seed=seed, losses=max(10, round(100 * scale)))


def finish_bundle(
    kind: str,
    out: Path,
    work: Path,
    modules: TeamModules,
    command: str,
    *,
    seed: int,
    losses: int = 0,
    agents: int = AGENTS,
    share: float = 1.0,
) -> Path:
    """Write the bundle of trained networks: deviations and figures from validation data, what each stage cost from its
    log. command: what made them. losses: of the set "any". share: of the windows that deviations are measured on; all
    of them take some four minutes of a CPU core."""
    checks, solved = (max(FEWEST_WINDOWS, round(share * most)) for most in (CHECKS, SOLVED_FROM))
    frames = modules.nri.config.frames
    validation = springs_windows(kind, "validation", checks, agents=agents, frames=frames, future=HORIZON, seed=seed)
    noise = measure_noise(modules, validation)
    errors = window_errors(modules, validation)
    if kind != "any":  # of that, runs tell more
        errors |= unseen_tables(modules, validation, noise, solved)
    plot_curves(work)
    training = training_record(work, command, f"simulated springs, set {kind}", seed, [])
    metrics = {"validation": validation_metrics(work)}

    def save() -> None:
        save_team(out, springs_config(out.name, kind, agents, modules, errors, metrics, training), modules, noise)

    save()
    estimator = load_estimator(out, "cpu")  # the deviations of a live node are those of the estimator of the bundle
    errors |= live_tables(estimator, losses, seed) if kind == "any" else unseen_forecasts(estimator, solved, seed)
    save()
    return out


def live_tables(estimator: Estimator, count: int, seed: int) -> dict[str, ErrorTable]:
    """Tables of states and forecasts from validation runs in which one or two robots are lost, half of ``count`` each,
    of states from runs in which two are never seen, and of what noise does to states."""
    config = estimator.bundle.config
    measured = run_losses(
        config, {"siha": estimator}, _losses(count, seed), rate=RATE, seed=seed, progress=True, total=count // 2 * 2
    )
    away = round(NEVER_SEEN * count)
    unseen = team_losses(away, 2, "validation", (seed + 3) % APART)
    tables = error_tables(measured)
    tables |= never_seen_tables(config, estimator, unseen, rate=RATE, seed=seed, progress=True, total=away)
    noisy = max(4, round(NOISY_SHARE * count))
    # One table for both would state too little of two. One lost robot has that for both all the same: its own stated
    # too little of other runs than it was made from (docs/results.md).
    for end, runs in (("", lambda: _losses(noisy, seed)), ("_2", lambda: _losses_of(noisy, 2, seed))):
        tables[NOISY + end], tables[NOISE_AGE + end] = noise_errors(estimator, runs, seed)
    return tables


def noise_errors(estimator: Estimator, losses: Callable[[], Iterator[Run]], seed: int) -> tuple[ErrorTable, ErrorTable]:
    """What each of NOISES does to states, from validation runs, and what time does to that."""
    noisy = {}
    for deviation in NOISES:
        runs = with_noise(losses(), deviation, seed)
        noisy[deviation] = run_losses(
            estimator.bundle.config, {"siha": estimator}, runs, rate=1.0, seed=seed, progress=True
        )
    return noise_tables(noisy)


def _losses(count: int, seed: int) -> Iterator[Run]:
    """Validation runs in which one robot is lost, and as many in which two are."""
    return chain.from_iterable(_losses_of(count // 2, lost, seed) for lost in (1, 2))


def _losses_of(count: int, lost: int, seed: int) -> Iterator[Run]:
    return team_losses(count, lost, "validation", (seed + lost) % APART)


def unseen_forecasts(estimator: Estimator, count: int, seed: int) -> dict[str, ErrorTable]:
    """Tables of forecasts where agents were never seen, from ``count`` validation windows of the set "fresh"."""
    bundle, config = estimator.bundle, estimator.bundle.config
    recording = springs_recording(config, "fresh", "validation", count, seed)
    frames = frames_of(bundle, recording, config.count - config.max_hidden)
    states = true_states(config, recording, frames)
    task = Task(states, recording.edges, config.max_hidden, 0, config.window, aligned=True)
    stated = Stated()
    estimator_answers("siha", estimator, bundle, recording, task, frames, True, stated)
    return forecast_tables(stated.forecasts, np.concatenate(stated.known, 1))


def springs_config(
    name: str,
    kind: str,
    agents: int,
    modules: TeamModules,
    errors: dict[str, ErrorTable],
    metrics: dict[str, Any],
    training: Training,
) -> BundleConfig:
    """What the bundle of one set says of itself. agents: of the team, the hidden ones among them."""
    hidden, frames = max(modules.hsp_sa), modules.nri.config.frames
    seen = springs_windows(kind, "train", 8000, agents=agents, frames=frames).states(slice(None), agents - hidden)
    positions, velocities = SPRINGS_SCALE.split(seen)
    return BundleConfig(
        format=1,
        name=name,
        system="springs",
        purpose="the simulated team of make demo: 7 like agents joined by springs"
        if kind == "any"
        else f"the paper's Springs table (frames 1-{frames}, {agents - hidden} agents seen and {hidden} hidden)",
        count=agents,
        agent_names=[],
        limbs={},
        dims=2,
        dt=FRAME_DT,
        window=frames,
        horizon=HORIZON,
        frame="team" if kind == "any" else "world",
        velocity="backward_difference" if kind == "any" else "measured",
        scale=SPRINGS_SCALE,
        edge_types=["none", "spring"],
        max_hidden=hidden,
        hidden_sets=[],
        rounds=5,
        ranges=Ranges(
            agents=[agents, agents],
            rate=[1 / FRAME_DT, 1000.0],
            speed=float(velocities.norm(dim=-1).max()) * 1.1,
            extent=float(positions.norm(dim=-1).max()) * 1.1,
        ),
        errors=errors,
        training=training,
        metrics=metrics,
    )
