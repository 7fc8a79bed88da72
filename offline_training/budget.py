"""``--budget``: a schedule that fits a time, by the pace of a few steps of each stage on this machine."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from offline_training.config import STAGES, TrainConfig
from offline_training.datasets.benchmarks import StateWindows
from offline_training.datasets.team import TeamWindows
from offline_training.stages import processes
from offline_training.stages.edge_evidence import NAMED
from offline_training.stages.logs import stage_rows
from offline_training.stages.progress import writer_type
from offline_training.team import TeamPlan, set_size, shared_scale, train_team

NEVER = 10**9  # steps between validations: of a stage one row, at its end, that holds all of it
STEPS = 4  # of each stage that are measured; the first one, which warms up, does not count
STEPS_ON_GPU = 11  # from one step that waits for the GPU to the next (the loop reads figures every ten steps)
WINDOWS, CHECKS = 1024, 256  # of the data that are measured with
LEAST_WINDOWS, LEAST_CHECKS, LEAST_STEPS = 10_000, 200, 10
DATA_SHARE = 0.1  # of the time, to make data and their first graphs; decides how many there are
REFRESH_SHARE = 0.2  # of HSP-sg's steps, at most, to infer the graphs of its cache anew
VALIDATION_SHARE = 0.15  # of a stage's steps, at most, to validate it
USUAL_VALIDATIONS, LEAST_VALIDATIONS = 5, 2  # of a stage that the config validates less often
MARGIN = 0.97  # of what is left is planned


@dataclass(frozen=True)
class Pace:
    """Seconds: step, of a step; check, to validate on a window; fill, to infer a window's graph for the structure
    cache."""

    step: float
    check: float
    fill: float = 0.0


@dataclass(frozen=True)
class Choice:
    """What a config becomes: settings by key, a share of the schedule, and the seconds that each stage will take."""

    settings: dict[str, Any]
    scale: float
    seconds: dict[str, float]


def measure(
    plan: TeamPlan,
    training: StateWindows | TeamWindows,
    validation: StateWindows | TeamWindows,
    device: str,
    compiled: bool,
) -> dict[str, Pace]:
    """The pace of each stage of a plan, from a few steps of it on a few windows."""
    steps = STEPS if device == "cpu" else STEPS_ON_GPU
    training, validation = training.first(WINDOWS), validation.first(CHECKS)
    short = replace(
        plan,
        steps=dict.fromkeys(plan.steps, steps),
        schedules={stage: replace(schedule, validate_every=NEVER) for stage, schedule in plan.schedules.items()},
        cached=len(training),
        checks=len(validation),
        warmup_epochs=1e9,
    )
    if processes.number() == 0:
        writer_type()  # says now what it has to say, not into what is not shown
    with TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        train_team(short, training, validation, Path(folder), scale=1.0, seed=0, device=device, compiled=compiled)
        rows = processes.agreed(lambda: stage_rows(Path(folder)))
    filled = len(training) + (len(validation) if plan.rounds is None else 0)
    paces = {
        name: Pace(
            row["step_seconds"], row["validation_seconds"] / len(validation), row.get("refresh_seconds", 0.0) / filled
        )
        for name, row in rows.items()
    }
    for name in [name for name in paces if name + NAMED in paces]:
        nri, edges, times = paces[name], paces.pop(name + NAMED), plan.for_nri(name).evidence
        paces[name] = replace(nri, step=nri.step + times * edges.step, check=nri.check + edges.check)
    return {
        next(stage for stage in sorted(STAGES, reverse=True) if name.startswith(stage)): pace
        for name, pace in paces.items()
    }


def scale_within(plan: TeamPlan, pace: dict[str, Pace], seconds: float, *, windows: int, checks: int) -> float:
    """By what the schedules of a plan are multiplied, at most 1, to take about ``seconds`` with so many windows to
    train on and to validate on; that of the shortest where even it takes longer."""

    def fits(scale: float) -> bool:
        return seconds_of(plan, pace, scale, windows=windows, checks=checks) <= MARGIN * seconds

    return float(f"{_largest(fits, LEAST_STEPS / max(plan.steps.values()), 1.0):.3g}")


def seconds_of(plan: TeamPlan, pace: dict[str, Pace], scale: float, *, windows: int, checks: int) -> float:
    """What a plan takes, with its schedules multiplied by ``scale``."""
    total = 0.0
    for stage, own in pace.items():
        own_scale = shared_scale(plan, scale) if stage.startswith("hsp") else scale
        schedule = plan.schedule(stage, own_scale)
        total += schedule.steps * own.step
        total += math.ceil(schedule.steps / schedule.validate_every) * min(checks, plan.checks) * own.check
        if own.fill:
            whole, count = set_size(plan, windows, schedule.steps)
            warmup, period = (
                epochs * own_scale * whole / plan.hsp_batch for epochs in (plan.warmup_epochs, plan.refresh_epochs)
            )
            total += (1 + _refreshes(schedule.steps, warmup, period)) * count * own.fill
    return total


def choose(
    config: TrainConfig,
    pace: dict[str, Pace],
    seconds: float,
    *,
    windows: int,
    checks: int,
    data_pace: float = 0.0,
    most: float = 1.0,
) -> Choice:
    """The settings with which all takes about ``seconds``, at least the shortest schedule.

    windows, checks: to train on and to validate on, of the config's whole schedule. data_pace: seconds to make one of
    them, 0 where they are there already and all are used. most: largest share of the schedule.
    """
    training = windows
    if data_pace:
        affordable = round(DATA_SHARE * seconds / (data_pace + 2 * pace["hsp_sg"].fill))
        training = max(min(windows, LEAST_WINDOWS), min(windows, affordable))

    def at(scale: float) -> Choice:
        return _choice(config, pace, scale, windows, training, checks, data_pace)

    def fits(scale: float) -> bool:
        return sum(at(scale).seconds.values()) <= MARGIN * seconds

    longest = max(config.plan(windows, config.visible + config.hidden, config.hidden, checks).steps.values())
    return at(_largest(fits, LEAST_STEPS / longest, most))


def _largest(fits: Callable[[float], bool], low: float, high: float) -> float:
    """The largest scale from ``low`` to ``high`` that fits; ``low`` where none does."""
    if fits(high):
        return high
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _choice(
    config: TrainConfig,
    pace: dict[str, Pace],
    scale: float,
    windows: int,
    training: int,
    checks: int,
    data_pace: float,
) -> Choice:
    """A share of the config's schedule, with ``training`` windows instead of ``windows``."""
    plan = config.plan(windows, config.visible + config.hidden, config.hidden, checks)
    settings: dict[str, Any] = {}
    if data_pace:
        checks = max(min(checks, LEAST_CHECKS), min(checks, round(checks * scale)))
        settings = {"training": training, "validation": checks}
    seconds = {"data": data_pace * (training + checks)}
    for stage, own in pace.items():
        steps = max(LEAST_STEPS, round(plan.steps[stage] * scale))
        usual = max(USUAL_VALIDATIONS, steps // plan.schedules[stage].validate_every)
        affordable = int(VALIDATION_SHARE * steps * own.step / (checks * own.check))
        every = steps // max(LEAST_VALIDATIONS, min(usual, affordable))
        settings |= {f"stages.{stage}.steps": steps, f"stages.{stage}.validate_every": every}
        seconds[stage] = steps * own.step + math.ceil(steps / every) * checks * own.check
    steps = settings["stages.hsp_sg.steps"]
    warmup, period = (
        epochs * windows / config.hsp_batch * scale for epochs in (config.warmup_epochs, config.refresh_epochs)
    )
    fill = (training + (checks if config.rounds is None else 0)) * pace["hsp_sg"].fill
    affordable = max(1, int(REFRESH_SHARE * steps * pace["hsp_sg"].step / max(fill, 1e-9)))
    rarer = 1  # a whole multiple of the period, so that Algorithm 1 stays what it is
    while _refreshes(steps, warmup, rarer * period) > affordable:
        rarer += 1
    seconds["hsp_sg"] += (1 + _refreshes(steps, warmup, rarer * period)) * fill
    epoch = training / config.hsp_batch
    settings |= {"warmup_epochs": warmup / epoch, "refresh_epochs": rarer * period / epoch}
    return Choice(settings, scale, seconds)


def _refreshes(steps: int, warmup: float, period: float) -> int:
    """How often Algorithm 1 refreshes the cache in so many steps; all three in steps."""
    return max(0, math.ceil(steps / period) - 1 - int(warmup / period + 1e-6))
