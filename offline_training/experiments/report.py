"""How results are written down: Markdown tables, ours beside the paper's numbers, and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

OUTLIERS = 10.0  # times the median that a mean is larger than it, from which on the median is given too


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def short(value: float | None, percent: bool = False) -> str:
    """One decimal of a percentage, two digits of anything else; "-" for what is undefined."""
    if value is None:
        return "-"
    return f"{value:.1f}" if percent else f"{value:.1e}".replace("e-0", "e-")


def figure(figures: Mapping[str, Any], name: str, paper: str | None = None) -> str:
    """A figure of :func:`siha_ros.replay.evaluate.figures` with its 95 % interval, the median where a few windows
    decide the mean, and the paper's number after it in parentheses."""
    percent = name.startswith("acc")
    text = short(figures.get(name), percent)
    bounds = figures.get(f"{name}_ci")
    if bounds:
        text += f" [{short(bounds[0], percent)}, {short(bounds[1], percent)}]"
    mean, median = figures.get(name), figures.get(f"{name.removesuffix('_mean')}_median")
    if mean and median and mean > OUTLIERS * median:
        text += f", median {short(median)}"
    return text if paper is None else f"{text} ({paper})"


def budget(costs: Sequence[Mapping[str, Any]]) -> str:
    """Samples seen (thousands) and minutes of the models that a row stands on."""
    samples, minutes = sum(cost["samples_seen"] for cost in costs), sum(cost["minutes"] for cost in costs)
    return f"{samples / 1000:.0f} k, {minutes:.1f} min"


def difference_rows(
    differences: Mapping[str, Mapping[str, Sequence[float]]], names: Sequence[str], titles: Mapping[str, str]
) -> list[list[str]]:
    """A row for each pair of methods of :func:`offline_training.experiments.measure.differences`, with the figures
    ``names``: mean [95 % interval], percentages to two decimals. titles: of the methods."""
    rows = []
    for pair, gaps in differences.items():
        found = [_gap(gaps.get(name), name.startswith("acc")) for name in names]
        rows.append([pair_title(pair, titles), *found])
    return rows


def pair_title(pair: str, titles: Mapping[str, str]) -> str:
    """A pair of methods, "A - B", by their titles."""
    return " - ".join(titles[method] for method in pair.split(" - "))


def _gap(gap: Sequence[float] | None, percent: bool) -> str:
    if gap is None:
        return "-"
    mean, *bounds = (f"{value:.2f}" if percent else short(value) for value in gap)
    return f"{mean} [{', '.join(bounds)}]" if bounds else mean  # of one trial there is no interval


def bars(
    path: Path,
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    intervals: Mapping[str, Sequence[Sequence[float] | None]] | None = None,
    log: bool = True,
    bottom: float | None = None,
) -> None:
    """A bar for each series in each group, with intervals where they are given; nothing where there is no value. log:
    a logarithmic axis. bottom: where the axis begins."""
    drawing = Figure(figsize=(4 + 1.6 * max(1, len(groups)), 3.2), layout="tight")
    FigureCanvasAgg(drawing)
    axis = drawing.subplots()
    width = 0.8 / max(1, len(series))
    for number, (label, values) in enumerate(series.items()):
        places = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width
        heights = np.array([np.nan if value is None else value for value in values], dtype=float)
        axis.bar(places, heights, width, label=label)
        for place, height, bounds in zip(places, heights, (intervals or {}).get(label, []), strict=False):
            if bounds:
                axis.plot([place, place], bounds, color="black", linewidth=1)
                axis.plot(place, height, "k_", markersize=4)
    axis.set(title=title, xticks=range(len(groups)), xticklabels=groups)
    if log:
        axis.set_yscale("log")
    axis.set_ylim(bottom=bottom)
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=120)
