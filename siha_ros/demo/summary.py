"""What a demo prints and draws: a line every second, a table and a picture at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from siha_ros.demo.scorer import Row
from siha_ros.demo.scoring import Score

NAMES = {
    "siha": "siha",
    "hold": "hold",
    "constant_velocity": "const. vel.",
    "mean_visible": "mean vis.",
    "dynamics_roll": "dyn. roll",
    "ridge_frame": "ridge frame",
    "ridge_window": "ridge win.",
}
COLOURS = ("#d55e00", "#888888", "#56b4e9", "#009e73", "#0072b2", "#cc79a7", "#e69f00")  # Okabe and Ito's, siha first


class LiveTable:
    """Prints rows as they come; errors in cm are those of the last second."""

    def __init__(self, console: Console, methods: Sequence[str], with_graph: bool) -> None:
        self._console, self._methods, self._with_graph = console, methods, with_graph
        self._begun = False

    def _header(self) -> None:
        titles = "".join(f"{NAMES.get(m, m):>12}" for m in self._methods)
        graph = f"{'graph % vv/vh/hh':>18}" if self._with_graph else ""
        self._console.print(
            f"[bold]{'time s':>6}  {'hidden':<20}{titles}{graph}{'Hz':>6}{'ms':>7}[/bold]  (errors in cm)",
            highlight=False,
            soft_wrap=True,
        )

    def add(self, row: Row) -> None:
        """One line, below a header at the first."""
        if not self._begun:
            self._header()
            self._begun = True
        errors = "".join(f"{row.errors[m]:12.1f}" if m in row.errors else f"{'-':>12}" for m in self._methods)
        graph = (
            f"{'/'.join('-' if a is None else f'{a:.0f}' for a in row.graph.values()):>18}" if self._with_graph else ""
        )
        latency = f"{row.latency:7.1f}" if row.latency is not None else f"{'-':>7}"
        self._console.print(
            f"{row.seconds:6.1f}  {short_list(row.hidden):<20}{errors}{graph}{row.rate:6.1f}{latency}",
            highlight=False,
            soft_wrap=True,
        )


def short_list(names: Sequence[str], width: int = 19) -> str:
    """Names with blanks between, the end replaced by a count where they are too long."""
    for shown in range(len(names), 0, -1):
        text = " ".join(names[:shown]) + (f" +{len(names) - shown}" if shown < len(names) else "")
        if len(text) <= width:
            return text
    return f"{len(names)} agents" if names else "nobody"


def summary_table(report: dict[str, Any], title: str) -> Table:
    """Errors by method and time since loss."""
    table = Table(title=title, title_justify="left")
    table.add_column("error in cm (rms)")
    rows = report["rmse_cm"]
    labels = list(next(iter(rows.values()), {}))
    for label in labels:
        table.add_column(label if label == "all" else f"{label} s", justify="right")
    for method, bins in rows.items():
        cells = ["-" if bins[label] is None else f"{bins[label]:.1f}" for label in labels]
        table.add_row(NAMES.get(method, method), *cells, style="bold" if method == "siha" else None)
    return table


def summary_lines(report: dict[str, Any]) -> str:
    """Graph, rate, latency and counts in words."""
    graph = {key: "-" if value is None else f"{value:.1f} %" for key, value in report["graph_accuracy"].items()}
    latency = {key: "-" if value is None else f"{value:.1f} ms" for key, value in report["latency_ms"].items()}
    edges = (
        f"graph: seen-seen {graph['vv']}, seen-hidden {graph['vh']}, hidden-hidden {graph['hh']}\n"
        if graph["vv"] != "-"
        else ""
    )
    return (
        f"{edges}{report['frames']} estimates at {report['rate_hz']:.1f} Hz, latency {latency['p50']} (median) and"
        f" {latency['p99']} (99 %), {report['nonfinite']} with a number that is not finite"
    )


def draw(score: Score, report: dict[str, Any], path: Path, title: str) -> None:
    """A picture of the run: errors over time, errors by time since loss, and the rate."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    over_time, by_bin, rate = figure.subplot_mosaic("TT;BR", height_ratios=(1.2, 1), width_ratios=(2, 1)).values()
    figure.suptitle(title)
    methods = list(report["rmse_cm"])
    colours = dict(zip(methods, COLOURS, strict=False))
    begin = score.stamps[0] if score.stamps else 0.0
    for method in methods:
        points = np.array(
            [(stamp - begin, 100 * errors.get(method, np.nan)) for stamp, _, errors in score.trace]
        ).reshape(-1, 2)
        breaks = np.flatnonzero(np.diff(points[:, 0]) > 0.5) + 1  # nobody was lost in between
        points = np.insert(points, breaks, np.nan, axis=0)
        over_time.plot(
            *points.T, color=colours.get(method), lw=2.2 if method == "siha" else 1.2, label=NAMES.get(method, method)
        )
    over_time.set(xlabel="time (s)", ylabel="error (cm)", title="Error of the lost agents", yscale="log")
    labels = list(next(iter(report["rmse_cm"].values()), {}))
    width = 0.8 / max(len(methods), 1)
    for k, method in enumerate(methods):
        values = [report["rmse_cm"][method][label] or np.nan for label in labels]
        by_bin.bar(
            np.arange(len(labels)) + (k - (len(methods) - 1) / 2) * width, values, width, color=colours.get(method)
        )
    by_bin.set(xticks=range(len(labels)), xlabel="time since loss (s)", ylabel="error (cm, rms)", yscale="log")
    by_bin.set_xticklabels(labels)
    if score.stamps:
        elapsed = np.array(score.stamps) - begin
        counts = np.bincount(np.maximum(elapsed, 0).astype(int))[:-1]  # the last second is not whole
        rate.step(range(len(counts)), counts, where="post", color=COLOURS[0])
    rate.set(xlabel="time (s)", ylabel="estimates per second", ylim=(0, None))
    for axes in (over_time, by_bin, rate):
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
    if methods:
        over_time.legend(loc="upper left", ncols=len(methods))
    figure.savefig(path, dpi=110)
