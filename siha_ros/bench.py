"""``siha bench``: how fast training steps and single windows are on this machine, in ms and samples a second."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from siha_ros.bench_stream import motion
from siha_ros.bench_train import CASES, Step
from siha_ros.body_estimator import BodyEstimator, OverLinearPath
from siha_ros.estimator import Estimator, TeamEstimator, load_estimator
from siha_ros.machine import machine, precisions
from siha_ros.model.captured import Captured
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import Refined, Refinement
from siha_ros.replay.windows import window_of
from siha_ros.resources import bundle_path
from siha_ros.tables import columns
from siha_ros.window.types import Estimate, Window

SHIPPED = ("springs_team", "body")
TRAINED = ("nri_7", "hsp_sa_7", "hsp_sg_7")
TRAINING_SECONDS = 15.0  # of each stage that is timed


def bench(
    bundles: Sequence[str] | None, repeats: int, threads: Sequence[int] | None, training: bool = True
) -> dict[str, Any]:
    """The report, schema 1. bundles: names or paths, None for the shipped ones that are there. threads: None for one
    and all cores.
    """
    chosen = sorted(set(threads or (1, os.cpu_count() or 1)))
    names = [name for name in SHIPPED if _exists(name)] if bundles is None else list(bundles)
    report: dict[str, Any] = {
        "schema": 1,
        "machine": machine(),
        "windows": {},
        "training_samples_per_second": {},
    }
    before = torch.get_num_threads()
    try:
        for name in names:
            estimator = load_estimator(name, "cpu")
            estimator.warm_up()
            times = report["windows"][estimator.bundle.config.name] = {}
            for count in chosen:
                _set_threads(count)
                times[str(count)] = window_times(estimator, repeats)
        report["peak_memory_mb"] = {"windows": _peak_memory()}
        if training:
            for count in chosen:
                _set_threads(count)
                report["training_samples_per_second"][str(count)] = training_speeds()
            report["peak_memory_mb"]["training"] = _peak_memory()
    finally:
        torch.set_num_threads(before)
    return report


def _set_threads(count: int) -> None:
    gc.collect()
    torch.set_num_threads(count)


def _exists(name: str) -> bool:
    try:
        return bundle_path(name).is_dir()
    except FileNotFoundError:
        return False


# one window


def window_times(estimator: Estimator, repeats: int) -> dict[str, dict[str, float]]:
    """p50 and p99 (ms) of one window.

    paper_loop: guess, all rounds, forecast, on tensors, as in the paper; paper_loop_eager: the same with networks that
    are neither traced nor captured. never_seen, all_seen, lost: whole estimates, metres in and out; the last two follow
    one another as in the node, and in ``lost`` agents have been out of sight since the middle of the window.
    """
    assert isinstance(estimator, TeamEstimator | BodyEstimator)
    loop, eager = team_loops(estimator) if isinstance(estimator, TeamEstimator) else body_loops(estimator)
    times = {"paper_loop": _times(loop, repeats), "paper_loop_eager": _times(eager, max(20, repeats // 4))}
    for name, lost_at in (("never_seen", 0), ("all_seen", None), ("lost", estimator.bundle.config.window // 2)):
        times[name] = _times(chained(estimator, lost_at), repeats)
    return times


def team_loops(estimator: TeamEstimator) -> tuple[Callable[[], object], Callable[[], object]]:
    """The paper's loop for one window of the team, as the estimator runs it and with the plain networks."""
    config, bundle, count = estimator.bundle.config, estimator.bundle, estimator.bundle.config.max_hidden
    visible = 0.2 * torch.randn(1, config.count - count, config.window, 2 * config.dims, device=estimator.device)
    plain = Refinement(
        bundle.predictor(f"hsp_sa_{count}"), bundle.predictor(f"hsp_sg_{count}"), bundle.nri(), config.rounds
    )

    def run(done: Refined, nri: NRI) -> None:
        newest = torch.cat([visible[:, :, -1], done.hidden[:, :, -1]], 1)
        _wait(nri.forecast(newest, done.graph, config.horizon))

    return (
        lambda: run(Refined.of(*estimator.loops[count](visible)), estimator.nri),
        lambda: run(plain(visible), plain.nri),
    )


def body_loops(estimator: BodyEstimator) -> tuple[Callable[[], object], Callable[[], object]]:
    """The paper's loop for one window of a body without its largest limb, all its rounds."""
    config, bundle, device = estimator.bundle.config, estimator.bundle, estimator.device
    hidden = torch.from_numpy(max(estimator.limbs.values(), key=len)).to(device)
    seen = torch.from_numpy(np.setdiff1d(np.arange(config.count), hidden.cpu().numpy())).to(device)
    states = 0.2 * torch.randn(1, config.count, config.window, 2 * config.dims, device=device)
    visible, lost = states[:, seen], states[:, hidden]
    loop = Captured(partial(estimator.paper_loop, tolerance=0.0, stop_early=False))
    plain = bundle.predictor("hsp_sa"), bundle.predictor("hsp_sg"), bundle.nri()

    def run(done: Refined, nri: NRI) -> None:
        newest = torch.cat([visible[:, :, -1], done.hidden[:, :, -1]], 1)
        _wait(nri.forecast(newest, done.graph, config.horizon))

    def eager() -> None:
        first, guess = (OverLinearPath(network, lost, estimator.gain) for network in plain[:2])
        refinement = Refinement(first, guess, plain[2], config.rounds)  # type: ignore[arg-type]
        run(refinement(visible, names=(seen, hidden)), plain[2])

    return lambda: run(Refined.of(*loop(visible, lost, seen, hidden)), estimator.nri), eager


def _wait(result: Tensor) -> None:
    if result.device.type == "cuda":
        torch.cuda.synchronize(result.device)


def chained(estimator: Estimator, lost_at: int | None) -> Callable[[], object]:
    """A call that makes the next estimate of a made-up stream; None: nobody is lost."""
    previous: Estimate | None = None
    step = 0

    def run() -> None:
        nonlocal previous, step
        window = stream_window(estimator, 0.05 * step, lost_at)
        previous = estimator.estimate(window, previous)
        step += 1

    return run


def stream_window(estimator: Estimator, begin: float, lost_at: int | None) -> Window:
    """A made-up window that starts at ``begin`` (s): agents of a team on slow circles, a body walking straight on."""
    config = estimator.bundle.config
    times: NDArray[np.float64] = begin + np.arange(config.window) * np.float64(config.dt)
    moving = motion(estimator)
    positions = moving.at(times)[..., : config.dims]
    observed = np.ones(positions.shape[:2], dtype=bool)
    if lost_at is not None:
        observed[moving.lost, lost_at:] = False
    return window_of(moving.names, times, positions, observed)


@torch.inference_mode()
def _times(run: Callable[[], object], repeats: int) -> dict[str, float]:
    """p50, p99 and least time (ms), and the p50 of processor time, which other processes disturb less."""
    for _ in range(5):
        run()
    taken = np.empty((repeats, 2))
    for repeat in range(repeats):
        began = time.perf_counter(), time.process_time()
        run()
        taken[repeat] = time.perf_counter() - began[0], time.process_time() - began[1]
    wall, processor = 1e3 * taken.T
    return {
        "p50": float(np.percentile(wall, 50)),
        "p99": float(np.percentile(wall, 99)),
        "least": float(wall.min()),
        "processor_p50": float(np.percentile(processor, 50)),
    }


# training


def training_speeds(seconds: float = TRAINING_SECONDS) -> dict[str, float]:
    """Samples a second of one optimiser step after another, for 7 agents of which 2 are hidden, in bf16 autocast where
    it pays, as the stages train. ``siha bench train`` has more cases, and says where the time goes."""
    fastest = precisions("cpu")[-1]
    return {CASES[name].stage: Step(CASES[name], fastest, "cpu").samples_per_second(seconds) for name in TRAINED}


# memory and table


def _peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    machine = report["machine"]
    load = machine["load_before"][0]
    lines = [f"{machine['processor']}, {machine['cores']} cores, torch {machine['torch']}, load {load:.1f} before"]
    for name, by_threads in report["windows"].items():
        for count, times in by_threads.items():
            rows = [[f"{name}, {count} threads, ms", "p50", "p99", "least", "processor p50"]]
            rows += [[kind, *(f"{value:.1f}" for value in figures.values())] for kind, figures in times.items()]
            lines += ["", *columns(rows)]
    lines.append("")
    if not report["windows"]:
        lines.append("no bundle is shipped here: `siha train` makes one")
    for count, speeds in report["training_samples_per_second"].items():
        shown = ", ".join(f"{stage} {speed:.0f}" for stage, speed in speeds.items())
        lines.append(f"training at the paper's sizes, {count} threads, samples/s: {shown}")
    lines += [f"peak memory ({part}): {size:.0f} MB" for part, size in report["peak_memory_mb"].items()]
    return "\n".join(lines)
