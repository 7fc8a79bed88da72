"""The report of a scored replay: as data, and as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.demo.scoring import BODY_BINS, TEAM_BINS
from siha_ros.replay.score import INTERPOLATION, Guesses, Score
from siha_ros.tables import columns

SCHEMA = 1
FEW = 500  # cases below which a coverage says little


def report(score: Score, *, body: bool, **about: Any) -> dict[str, Any]:
    """The report, schema 1; ``about`` goes in as it is. Errors are by name, in cm."""
    bins = BODY_BINS if body else TEAM_BINS
    newest = {method: Guesses.joined(parts) for method, parts in score.newest.items()}
    ahead = {
        group: {method: Guesses.joined(parts) for method, parts in methods.items()}
        for group, methods in score.ahead.items()
        if methods
    }
    siha = newest["siha"]
    out: dict[str, Any] = {"schema": SCHEMA, **about}
    out |= {
        "losses": len(score.losses),
        "estimates": score.estimates,
        "nonfinite": score.nonfinite,
        "methods": {method: _by_bin(guesses, bins, errors) for method, guesses in newest.items()},
        "agents": {
            name: {method: _rmse(guesses.distance[guesses.agent == name]) for method, guesses in newest.items()}
            for name in sorted(set(siha.agent.tolist()))
        },
        "deviation": _by_bin(siha, bins, coverage),
        "curve": {method: _curve(guesses) for method, guesses in newest.items()},
        "graph": {block: _agreement(*counts.tolist()) for block, counts in score.agreement.items()},
        "forecast": {
            group: {method: _by_step(guesses) for method, guesses in methods.items()}
            for group, methods in ahead.items()
        },
        "forecast_deviation": {group: coverage(methods["siha"]) for group, methods in ahead.items()},
        "reasons": dict(score.reasons.most_common()),
        "unseen": dict(score.unseen.most_common()),
        "estimate_ms": {"p50": float(np.percentile(score.ms, 50)), "p99": float(np.percentile(score.ms, 99))},
    }
    return out


def errors(guesses: Guesses) -> dict[str, Any] | None:
    """Errors in cm, None without any."""
    distance = 100 * guesses.distance
    if not len(distance):
        return None
    return {
        "rmse_cm": float(np.sqrt(np.square(distance).mean())),
        "mean_cm": float(distance.mean()),
        "median_cm": float(np.median(distance)),
        "cases": len(distance),
    }


def coverage(guesses: Guesses) -> dict[str, Any] | None:
    """How often the truth lies within the stated deviation along each axis (68.3 % of a normal one) and within the
    stated radius (95 %), and how wide these are."""
    if not len(guesses.radius):
        return None
    return {
        "axis_68_percent": 100 * float((np.abs(guesses.error) <= guesses.deviation).mean()),
        "radius_95_percent": 100 * float((guesses.distance <= guesses.radius).mean()),
        "deviation_cm": 100 * float(np.median(guesses.deviation)),
        "radius_cm": 100 * float(np.median(guesses.radius)),
        "cases": len(guesses.radius),
    }


def _by_bin(guesses: Guesses, bins: Mapping[str, float], figures: Any) -> dict[str, Any]:
    place = np.searchsorted(list(bins.values()), guesses.seconds)
    out = {label: figures(_chosen(guesses, place == number)) for number, label in enumerate(bins)}
    return out | {"all": figures(guesses)}


def _agreement(edges: float, same: float, apart: float, unsaid: float) -> dict[str, float] | None:
    if not edges:
        return None
    return {
        "agree_percent": 100 * same / edges,
        "mean_difference": apart / edges,
        "without_graph_percent": 100 * unsaid / (edges + unsaid),
    }


def _by_step(guesses: Guesses) -> dict[str, Any]:
    milliseconds = (1e3 * guesses.seconds).round().astype(int)
    return {f"{step / 1e3:g}": errors(_chosen(guesses, milliseconds == step)) for step in np.unique(milliseconds)}


def _chosen(guesses: Guesses, rows: NDArray[np.bool_]) -> Guesses:
    return Guesses(*(values[rows] for values in vars(guesses).values()))


def _rmse(distance: NDArray[np.float64]) -> float | None:
    return 100 * float(np.sqrt(np.square(distance).mean())) if len(distance) else None


def _curve(guesses: Guesses, points: int = 20) -> list[list[float]]:
    """Rows of time since loss (s) and root mean square error (cm)."""
    edges = np.linspace(0.0, float(guesses.seconds.max()) * (1 + 1e-9), points + 1)
    place = np.searchsorted(edges, guesses.seconds, side="right") - 1
    rows = []
    for number in np.unique(place):
        chosen = _chosen(guesses, place == number)
        rows.append([float(chosen.seconds.mean()), 100 * float(np.sqrt(np.square(chosen.distance).mean()))])
    return rows


# for people


def tables(result: Mapping[str, Any]) -> list[tuple[str, list[list[str]]]]:
    """Title and rows of each table, the first row being its head."""
    labels = list(result["methods"]["siha"])
    methods = list(result["methods"])
    out = [
        (
            "Error in cm, root mean square (median), by seconds since the agent was last seen",
            [["method", *labels]]
            + [
                [method_title(method), *(_errors(bins[label]) for label in labels)]
                for method, bins in result["methods"].items()
            ],
        ),
        (
            "Error in cm, root mean square, by agent",
            [["agent", *map(method_title, methods)]]
            + [
                [agent, *(_number(found.get(method)) for method in methods)]
                for agent, found in result["agents"].items()
            ],
        ),
        ("Stated deviation of siha, by seconds since the agent was last seen", _coverage_rows(result["deviation"])),
        (
            "Graph against that of full observation",
            [["pairs of agents", "same type %", "mean difference of probability", "left out: no graph %"]]
            + [
                [
                    BLOCKS[block],
                    f"{found['agree_percent']:.1f}",
                    f"{found['mean_difference']:.3f}",
                    f"{found['without_graph_percent']:.0f}",
                ]
                for block, found in result["graph"].items()
                if found
            ],
        ),
    ]
    for group, found in result["forecast"].items():
        steps = list(found["siha"])
        rows = [["method", *(f"{step} s" for step in steps)]]
        rows += [
            [method_title(method), *(_number(at[step] and at[step]["rmse_cm"]) for step in steps)]
            for method, at in found.items()
        ]
        out.append((f"Forecast error in cm, root mean square, of agents {group}, by seconds ahead", rows))
    if result["forecast_deviation"]:
        out.append(("Stated deviation of siha's forecasts", _coverage_rows(result["forecast_deviation"])))
    if set(result["reasons"]) != {"none"}:
        rows = [["what siha says of the lost agents' states", "times"]]
        rows += [[reason, str(count)] for reason, count in result["reasons"].items()]
        out.append(("Reasons", rows))
    rows = [["why others were taken for hidden too", "times"]]
    rows += [[reason, str(count)] for reason, count in result["unseen"].items()]
    out.append(("Agents that were not withheld (see the node's parameters visibility.*)", rows))
    return [(title, rows) for title, rows in out if len(rows) > 1]


def headline(result: Mapping[str, Any]) -> list[str]:
    """What was done, in a few lines."""
    hidden, ms = "; ".join(", ".join(names) for names in result["hidden"]), result["estimate_ms"]
    swept = ", swept through the bag" if result["sweep"] else ""
    return [
        f"{result['bag']}: {result['duration_s']:.1f} s, bundle {result['bundle']}, {result['rate_hz']:g} estimates a"
        f" second, {result['times_real_time']:.1f} times real time with nothing hidden",
        f"hidden for {result['for_s']:g} s from {result['at_s']:.3g} s on{swept} ({result['losses']} losses,"
        f" {result['estimates']} estimates): {hidden}",
        f"errors by name in the newest frame; one estimate: p50 {ms['p50']:.1f} ms, p99 {ms['p99']:.1f} ms;"
        f" not finite: {result['nonfinite']}",
    ]


def text(result: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    parts = ["\n".join(headline(result))]
    parts += ["\n".join([title, *columns(rows)]) for title, rows in tables(result)]
    return "\n\n".join(parts)


BLOCKS = {"vv": "both seen", "vh": "one seen, one lost", "hh": "both lost"}


def method_title(method: str) -> str:
    """A method as people read it."""
    return f"{method} (sees the future)" if method == INTERPOLATION else method.replace("_", " ")


def _coverage_rows(found: Mapping[str, Any]) -> list[list[str]]:
    head = ["", "% within it per axis (68)", "% within radius (95)", "deviation, cm", "radius, cm", "cases"]
    rows = []
    for label, cover in found.items():
        if cover is not None:
            few = " (few)" if cover["cases"] < FEW else ""
            rows.append(
                [
                    label,
                    f"{cover['axis_68_percent']:.0f}",
                    f"{cover['radius_95_percent']:.0f}",
                    f"{cover['deviation_cm']:.1f}",
                    f"{cover['radius_cm']:.1f}",
                    f"{cover['cases']}{few}",
                ]
            )
    return [head, *rows]


def _errors(found: Mapping[str, Any] | None) -> str:
    return "-" if found is None else f"{found['rmse_cm']:.1f} ({found['median_cm']:.1f})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
