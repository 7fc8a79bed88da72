"""Losses in long runs, as a live node meets them: agents fall silent at a random time, and estimates follow one
another.

Each estimate continues from the one before. Errors are taken by name in the newest frame, by time since the loss,
beside the baselines on the same windows. Runs come from the caller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from siha_ros.demo.scoring import BODY_BINS, TEAM_BINS
from siha_ros.estimator import FORECAST, FORECAST_LOST, HSP, SOLVED, lost_ahead
from siha_ros.model.bundle import BundleConfig, ErrorTable
from siha_ros.progress import shown
from siha_ros.replay.bootstrap import ratio_interval
from siha_ros.replay.forecasts import Forecasts, coverage
from siha_ros.replay.metrics import edge_accuracy
from siha_ros.replay.windows import window_of
from siha_ros.window.types import Estimate, Window, WindowEstimator

LEAD_IN = 3.0  # s of estimates before a loss: what a node that has been running knows
UNSEEN_SECONDS = 12.0  # of a run whose lost agents were never seen
LEAST_ERRORS = 30  # that a quantile is taken of
SURE, DRAWS = 0.84, 400  # of what is stated under noise: one deviation on the safe side; draws of the bootstrap
NOISE_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)  # since the loss, of what time does to that
TABLE_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0)


@dataclass(frozen=True)
class Run:
    """A long recording: positions f8[A, F, P] (m), dt (s) between its frames, the true graph bool[A, A] where known;
    agents that are lost from frame ``lost_at`` to frame ``end``. measured f8[A, F, P] (m): what is seen of the
    positions, None where that is without noise."""

    names: list[str]
    positions: NDArray[np.float64]
    dt: float
    edges: NDArray[np.bool_] | None
    lost: NDArray[np.intp]
    lost_at: int
    end: int
    measured: NDArray[np.float64] | None = None

    @property
    def shown(self) -> NDArray[np.float64]:
        """Positions as they are seen."""
        return self.positions if self.measured is None else self.measured


def with_noise(runs: Iterable[Run], deviation: float, seed: int) -> Iterator[Run]:
    """Runs whose positions are seen with normal noise of a ``deviation`` (m) on each axis."""
    for number, run in enumerate(runs):
        noise = np.random.default_rng([seed, number]).normal(0.0, deviation, run.positions.shape)
        yield replace(run, measured=run.positions + noise)


@dataclass
class Trace:
    """What one method said in all losses, one row for each estimate and lost agent.

    loss: which loss. number: of agents lost in it. since: s. error: truth minus estimate in the newest frame (m).
    width, radius: of 68 % per axis and of 95 % that the method gave (m). spread: deviation that it predicted before
    these were set by measured errors (m), NaN where it does not. reason: that it gave.
    """

    loss: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    since: list[float] = field(default_factory=list)
    error: list[NDArray[np.float64]] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    radius: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)


@dataclass
class Losses:
    """Everything that :func:`run_losses` collects. graph: for each estimate after a loss the predicted edge types and
    the true ones i8[A, A], lost agents last. forecasts: of siha, their states those of its trace. ms: of each estimate
    of siha."""

    traces: dict[str, Trace]
    predicted: list[NDArray[np.int8]]
    truth: list[NDArray[np.int8]]
    forecasts: Forecasts
    ms: list[float]
    nonfinite: int
    count: int
    lost_agents: int


def run_losses(
    config: BundleConfig,
    methods: Mapping[str, WindowEstimator],
    runs: Iterable[Run],
    *,
    rate: float,
    seed: int = 0,
    progress: bool = False,
    total: int | None = None,
) -> Losses:
    """Run every method through every loss at ``rate`` estimates a second; the method named siha also gives graph and
    forecast.
    """
    out = Losses({name: Trace() for name in methods}, [], [], Forecasts(), [], 0, 0, 0)
    random = np.random.default_rng(seed)
    for run in shown(runs, "losses", total, progress=progress):
        out.lost_agents = len(run.lost)
        previous: dict[str, Estimate | None] = dict.fromkeys(methods)
        for frame in estimate_frames(config, run, rate, float(random.random())):
            window = live_window(config, run, frame)
            for name, method in methods.items():
                estimate = previous[name] = method.estimate(window, previous[name])
                finite = np.isfinite(estimate.positions).all() and np.isfinite(estimate.adjacency).all()
                out.nonfinite += not finite
                if name == "siha":
                    out.ms.append(estimate.ms)
                if frame >= run.lost_at:
                    _note(out, name, run, frame, estimate)
        out.count += 1
    return out


def estimate_frames(config: BundleConfig, run: Run, rate: float, phase: float) -> list[int]:
    """Newest frames of the windows of a run: from the lead-in to the loss's end, ``rate`` a second, at a phase of 0 to
    1 steps.
    """
    step = 1 / (rate * run.dt)
    first = max((config.window - 1) * _stride(config, run), run.lost_at - round(LEAD_IN / run.dt))
    count = math.floor((run.end - 1 - first) / step - phase) + 1
    return [first + round((phase + number) * step) for number in range(count)]


def live_window(config: BundleConfig, run: Run, newest: int) -> Window:
    """The window that ends at frame ``newest`` of a run, with what a node would know of its agents' past."""
    stride = _stride(config, run)
    frames = newest - stride * np.arange(config.window - 1, -1, -1)
    observed = np.ones((len(run.names), config.window), dtype=bool)
    observed[run.lost] = frames < run.lost_at
    last = np.full(len(run.names), newest)
    last[run.lost] = min(run.lost_at - 1, newest)
    who = np.arange(len(run.names))
    where, before = run.shown[who, last], run.shown[who, last - stride]
    times: NDArray[np.float64] = frames * np.float64(run.dt)
    known = last * run.dt, where, (where - before) / config.dt
    return window_of(run.names, times, run.shown[:, frames], observed, None, known)


def never_seen_tables(
    config: BundleConfig,
    estimator: WindowEstimator,
    runs: Iterable[Run],
    *,
    rate: float,
    seconds: float = UNSEEN_SECONDS,
    seed: int = 0,
    progress: bool = False,
    total: int | None = None,
) -> dict[str, ErrorTable]:
    """Tables of agents that were never seen, from the first ``seconds`` of estimates of runs: "solved" where their
    trajectories explained the others, "hsp" where they did not; and of forecasts beside them, "forecast_solved" and so
    on. Agents are matched to the truth in each estimate.
    """
    random = np.random.default_rng(seed)
    notes: dict[str, list[tuple[float, NDArray[np.float64]]]] = {SOLVED: [], HSP: []}
    forecasts = {name: Forecasts() for name in notes}
    for run in shown(runs, "never seen", total, progress=progress):
        first = (config.window - 1) * _stride(config, run)
        hidden = replace(run, lost_at=0, end=min(run.end, first + round(seconds / run.dt)))
        previous: Estimate | None = None
        for frame in estimate_frames(config, hidden, rate, float(random.random())):
            window = live_window(config, hidden, frame)
            for last in (window.last_seen, window.last_position, window.last_velocity):
                last[run.lost] = np.nan
            previous = estimator.estimate(window, previous)
            solved = {run.names[agent] for agent in run.lost} <= getattr(previous.internal, "solved", set())
            found, truth = previous.positions[run.lost, -1], run.positions[run.lost, frame]
            places = linear_sum_assignment(np.linalg.norm(found[:, None] - truth, axis=-1))[1]
            rows, ahead = notes[name := SOLVED if solved else HSP], forecasts[name]
            state, who = np.full(len(run.names), -1), np.arange(len(run.names))
            state[run.lost] = len(rows) + np.arange(len(run.lost))
            who[run.lost] = run.lost[places]
            ahead.note(previous, run.positions[who, frame + 1 :], run.dt, state)
            for place, agent in enumerate(run.lost):
                spread = np.nan if previous.spread is None else float(previous.spread[agent, -1])
                rows.append((spread, truth[places[place]] - found[place]))
    tables = {}
    for name, rows in notes.items():
        if len(rows) >= LEAST_ERRORS:
            spreads, errors = (np.array(column) for column in zip(*rows, strict=True))
            table = tables[name] = error_table(np.full(len(rows), 0.05), errors, spread=spreads)
            known = np.stack(table.at(np.full(len(rows), 0.05), spread=spreads))
            with suppress(ValueError):  # too few, where runs end soon
                later = forecast_tables(forecasts[name], known)
                tables |= {f"{kind}_{name}": ahead_of for kind, ahead_of in later.items()}
    return tables


def _stride(config: BundleConfig, run: Run) -> int:
    stride = round(config.dt / run.dt)
    if stride < 1 or abs(stride * run.dt - config.dt) > 1e-3 * config.dt:
        raise ValueError(f"runs of {run.dt:.4g} s a frame do not fit the grid of {config.dt:.4g} s of the bundle")
    return stride


def _note(out: Losses, name: str, run: Run, frame: int, estimate: Estimate) -> None:
    trace = out.traces[name]
    since = (frame - run.lost_at + 1) * run.dt
    for agent in run.lost:
        trace.loss.append(out.count)
        trace.number.append(len(run.lost))
        trace.since.append(since)
        trace.error.append(run.positions[agent, frame] - estimate.positions[agent, -1])
        trace.width.append(float(np.sqrt(estimate.covariance[agent, -1, 0, 0])))
        trace.radius.append(float(estimate.position_95[agent, -1]))
        trace.spread.append(np.nan if estimate.spread is None else float(estimate.spread[agent, -1]))
        trace.reason.append(estimate.reason[agent])
    if name != "siha":
        return
    order = np.concatenate([np.setdiff1d(np.arange(len(run.names)), run.lost), run.lost])
    if run.edges is not None:
        out.predicted.append(estimate.adjacency.argmax(-1)[np.ix_(order, order)].astype(np.int8))
        out.truth.append(run.edges[np.ix_(order, order)].astype(np.int8))
    state = np.full(len(run.names), -1)
    state[run.lost] = np.arange(len(trace.since) - len(run.lost), len(trace.since))
    out.forecasts.note(estimate, run.positions[:, frame + 1 :], run.dt, state)


def report(losses: Losses, config: BundleConfig, *, data: str, seed: int, rate: float) -> dict[str, Any]:
    """The report of ``siha evaluate --losses``: errors in cm by time since loss and method, siha against the best
    baseline, graph accuracy.
    """
    bins = BODY_BINS if config.identified else TEAM_BINS
    limits = np.array(list(bins.values()))
    labels = [*bins, "all"]
    sums = {name: _by_loss(trace, limits, losses.count) for name, trace in losses.traces.items()}
    methods: dict[str, Any] = {}
    for name, trace in losses.traces.items():
        place = np.searchsorted(limits, trace.since)
        distance = np.linalg.norm(trace.error, axis=-1) * 100
        held = distance <= 100 * np.array(trace.radius)
        within = np.abs(trace.error) <= np.array(trace.width)[:, None]
        rows: dict[str, Any] = {}
        for number, label in enumerate(labels):
            chosen = distance[place == number] if label != "all" else distance
            inside = held[place == number] if label != "all" else held
            axes = within[place == number] if label != "all" else within
            rows[label] = None
            if len(chosen):
                rows[label] = {
                    "rmse_cm": float(np.sqrt(np.mean(chosen**2))),
                    "mean_cm": float(chosen.mean()),
                    "median_cm": float(np.median(chosen)),
                    "inside_95_percent": 100 * float(inside.mean()),
                    "inside_68_percent": 100 * float(axes.mean()),
                    "estimates": len(chosen),
                }
        methods[name] = rows
    out: dict[str, Any] = {
        "schema": 1,
        "data": data,
        "seed": seed,
        "losses": losses.count,
        "lost_agents": losses.lost_agents,
        "rate_hz": rate,
        "nonfinite": losses.nonfinite,
        "methods": methods,
        "against_best_baseline": _against_best(sums, labels),
        "graph_accuracy": _graph_accuracy(losses),
        "forecast": coverage(losses.forecasts),
    }
    if losses.ms:
        out["estimate_ms"] = {"p50": float(np.percentile(losses.ms, 50)), "p99": float(np.percentile(losses.ms, 99))}
    return out


def _by_loss(trace: Trace, limits: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """f8[losses, bins + 1]: summed squared errors (m^2) of each loss in each bin, and over all."""
    sums = np.zeros((count, len(limits) + 1))
    squares = np.square(trace.error).sum(-1)
    np.add.at(sums, (np.array(trace.loss), np.searchsorted(limits, trace.since)), squares)
    sums[:, -1] = sums[:, :-1].sum(1)
    return sums


def _against_best(sums: Mapping[str, NDArray[np.float64]], labels: Sequence[str]) -> dict[str, Any] | None:
    """Root mean square of siha over that of the best other method, for each bin; with its interval over losses."""
    if "siha" not in sums or len(sums) < 2:
        return None
    out: dict[str, Any] = {}
    for number, label in enumerate(labels):
        rivals = {name: total[:, number] for name, total in sums.items() if name != "siha"}
        best = min(rivals, key=lambda name: float(rivals[name].sum()))
        if not rivals[best].any():
            out[label] = None
            continue
        ratio, bounds = ratio_interval(sums["siha"][:, number], rivals[best])
        out[label] = {"baseline": best, "ratio": ratio, "ratio_ci": bounds}
    return out


def _graph_accuracy(losses: Losses) -> dict[str, Any]:
    if not losses.truth:
        return {"vv": None, "vh": None, "hh": None}
    predicted, truth = np.stack(losses.predicted).astype(int), np.stack(losses.truth).astype(int)
    agents = truth.shape[-1]
    hidden = np.arange(agents) >= agents - losses.lost_agents
    return {name[4:]: value for name, value in edge_accuracy(predicted, truth, hidden).items()}


def error_table(
    seconds: NDArray[np.float64],
    errors: NDArray[np.float64],
    places: Sequence[float] = TABLE_SECONDS,
    spread: NDArray[np.float64] | None = None,
    falling: bool = False,
) -> ErrorTable:
    """The table of a bundle from errors f8[n, P] (m) at times since loss f8[n] (s): 68 % half-width per axis, radius
    of 95 %.

    spread f8[n]: deviations (m) that the estimator predicted. Where they tell large errors from small ones at the same
    time, the columns are of errors made comparable by them (:meth:`ErrorTable.at` turns them back).

    Each place takes the errors between the middles to its neighbours, or the nearest ones in time where those are
    fewer than LEAST_ERRORS; it is left out where even those lie beyond twice or half its time. Neither column ever
    falls with time, unless errors that do fall are ``falling``, or is below 0.01 mm.
    """
    if spread is not None and np.isfinite(spread).sum() >= LEAST_ERRORS:
        return _spread_table(seconds, errors, places, spread)
    edges = np.concatenate([[0.0], (np.array(places[1:]) + places[:-1]) / 2, [np.inf]])
    rows = []
    for place, low, high in zip(places, edges[:-1], edges[1:], strict=True):
        chosen = (seconds > low) & (seconds <= high)
        if chosen.sum() < LEAST_ERRORS:
            apart = np.abs(np.log(np.maximum(seconds, 1e-3) / place))
            chosen = apart <= np.sort(apart)[:LEAST_ERRORS][-1]
            if chosen.sum() < LEAST_ERRORS or apart[chosen].max() > np.log(2):
                continue
        rows.append((place, *_stated(np.abs(errors[chosen]), np.linalg.norm(errors[chosen], axis=-1))))
    if not rows:
        raise ValueError(f"error_table: no time has {LEAST_ERRORS} errors, run more losses")
    table = np.array(rows)
    columns = table[:, 1:] if falling else np.maximum.accumulate(table[:, 1:])
    return ErrorTable(table[:, 0].tolist(), *columns.T.round(5).clip(1e-5).tolist())


def _spread_table(
    seconds: NDArray[np.float64], errors: NDArray[np.float64], places: Sequence[float], spread: NDArray[np.float64]
) -> ErrorTable:
    """The usual spread is the smoothed median at each time; the exponent is the slope of log error on log spread, both
    against their usual, by least squares."""
    plain = error_table(seconds, errors, places)
    known = np.isfinite(spread)
    usual = [
        float(np.median(spread[known][np.argsort(np.abs(np.log(np.maximum(seconds[known], 1e-3) / place)))[:size]]))
        for place in plain.seconds
        for size in [max(LEAST_ERRORS, int(known.sum() / len(plain.seconds)))]
    ]
    table = ErrorTable(plain.seconds, plain.half_width, plain.radius, np.round(usual, 6).clip(1e-6).tolist(), 1.0)
    apart = np.log(table.against_usual(seconds, spread))
    size = np.log(np.maximum(np.linalg.norm(errors, axis=-1), 1e-6) / np.interp(seconds, table.seconds, table.radius))
    groups = np.searchsorted(table.seconds, seconds)
    for values in (apart, size):
        for group in np.unique(groups):
            values[groups == group] -= values[groups == group].mean()
    table.exponent = round(float(np.clip((apart * size).sum() / max((apart**2).sum(), 1e-12), 0.0, 1.0)), 3)
    alike = errors / (table.against_usual(seconds, spread) ** table.exponent)[:, None]
    level = error_table(seconds, alike, table.seconds)
    if level.seconds != table.seconds:
        return plain
    table.half_width, table.radius = level.half_width, level.radius
    return table


def error_tables(losses: Losses, places: Sequence[float] = TABLE_SECONDS) -> dict[str, ErrorTable]:
    """Tables of every method that was run, and those of siha's forecasts by seconds ahead. States are those of losses
    of the most agents: where fewer are lost siha is surer, and the spread that it predicts says so."""
    tables = {}
    for name, trace in losses.traces.items():
        if trace.since:
            number = np.array(trace.number)
            most = number == number.max()
            if most.sum() < LEAST_ERRORS:
                most[:] = True
            since, error, spread = (np.array(part)[most] for part in (trace.since, trace.error, trace.spread))
            tables[name] = error_table(since, error, places, spread)
    if "siha" not in tables:
        return tables
    trace = losses.traces["siha"]
    known = np.stack(tables["siha"].at(np.array(trace.since), spread=np.array(trace.spread)))
    return tables | forecast_tables(losses.forecasts, known)


def noise_tables(noisy: Mapping[float, Losses]) -> tuple[ErrorTable, ErrorTable]:
    """Errors of siha in units of the spread that it predicted, by the deviation (m) of the noise that positions were
    seen with, in place of seconds; and what of that is had by the time since the loss (s), times 1 in the mean of all:
    a spread knows little of errors that hang together, and those add up. The former is what holds so many with a chance
    of SURE, by bootstrap over losses: few losses decide it. No column falls. Raises ValueError where there are too
    few."""
    rows, since, width, radius = [], [], [], []
    for deviation, losses in sorted(noisy.items()):
        trace = losses.traces["siha"]
        ratio = np.array(trace.error) / np.array(trace.spread)[:, None]
        finite = np.isfinite(ratio).all(1)
        if finite.sum() < LEAST_ERRORS:
            continue
        apart, whole = np.abs(ratio[finite]), np.linalg.norm(ratio[finite], axis=-1)
        rows.append((deviation, *_surely_stated(apart, whole, np.array(trace.loss)[finite])))
        since.append(np.array(trace.since)[finite])
        at_all_times = _stated(apart, whole)
        width.append(apart / at_all_times[0])
        radius.append(whole / at_all_times[1])
    if not rows:
        raise ValueError(f"noise_tables: no noise has {LEAST_ERRORS} errors, run more losses")
    seconds, apart, whole = (np.concatenate(part) for part in (since, width, radius))
    place = np.abs(np.log(np.maximum(seconds, 1e-3)[:, None] / NOISE_SECONDS)).argmin(1)
    groups = [(at, place == number) for number, at in enumerate(NOISE_SECONDS)]
    later = [(at, *_stated(apart[own], whole[own])) for at, own in groups if own.sum() >= LEAST_ERRORS]
    return _never_falling(rows), _never_falling(later or [(NOISE_SECONDS[0], 1.0, 1.0)])


def _stated(apart: NDArray[np.float64], whole: NDArray[np.float64]) -> tuple[float, float]:
    """What holds 68 % of errors per axis, and 95 % of whole ones."""
    return float(np.quantile(apart, 0.6827)), float(np.quantile(whole, 0.95))


def _surely_stated(
    apart: NDArray[np.float64], whole: NDArray[np.float64], losses: NDArray[np.intp]
) -> tuple[float, float]:
    """The same, or more where other losses might well ask for it."""
    random = np.random.default_rng(0)
    own = [np.flatnonzero(losses == loss) for loss in np.unique(losses)]
    draws = (np.concatenate([own[one] for one in random.integers(len(own), size=len(own))]) for _ in range(DRAWS))
    width, radius = np.quantile([_stated(apart[rows], whole[rows]) for rows in draws], SURE, axis=0)
    return float(width), float(radius)


def _never_falling(rows: Sequence[tuple[float, float, float]]) -> ErrorTable:
    places, *columns = np.array(rows).T
    return ErrorTable(places.tolist(), *(np.maximum.accumulate(column).round(3).tolist() for column in columns))


def forecast_tables(forecasts: Forecasts, known: NDArray[np.float64]) -> dict[str, ErrorTable]:
    """Tables of forecasts by seconds ahead, of agents seen and of lost ones: of all estimates, and where they differ in
    it by the number of agents lost. known ``[2, n]``: half-widths and radii (m) that are stated of the states of the
    latter (:attr:`Forecasts.state`)."""
    tables: dict[str, ErrorTable] = {}
    numbers: list[int] = np.unique(np.concatenate([*forecasts.lost, np.zeros(0, int)])).tolist()
    for number in (None, *(numbers if len(numbers) > 1 else ())):
        end = "" if number is None else f"_{number}"
        if (seen := forecasts.rows(False, number)) is None:
            continue
        places = np.unique(seen.ahead[0].round(4)).tolist()
        table = tables[f"{FORECAST}{end}"] = error_table(seen.ahead[0], seen.error[0], places)
        if (lost := forecasts.rows(True, number)) is not None:
            later = np.stack(table.at(lost.ahead[0]))[..., None]
            stated = lost_ahead(None, np.zeros(1), known[:, lost.state[0]], later)[0, :, 0]
            tables[f"{FORECAST_LOST}{end}"] = error_table(lost.ahead[0], lost.error[0], places, stated)
    return tables
