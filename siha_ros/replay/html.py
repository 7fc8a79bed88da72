"""The report of a scored replay as one HTML file that opens from disk: tables, and plots as inline PNG."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from siha_ros.replay.score import INTERPOLATION
from siha_ros.replay.score_report import headline, method_title, tables

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 70em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin: 2em 0 .5em }
table { border-collapse: collapse } td, th { padding: .25em .8em; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left } th { border-bottom: 2px solid #888; font-weight: 600 }
img { max-width: 100%; margin-top: 1em }
"""
COLOURS = (
    "#d55e00",
    "#0072b2",
    "#56b4e9",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#000000",
)  # told apart by all (Okabe, Ito)


def html_report(result: Mapping[str, Any]) -> str:
    """The page of a report (see siha_ros.replay.score_report.report)."""
    title = f"Replay of {result['bag']}"
    parts = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(line)}</p>" for line in headline(result))]
    parts += [f'<img alt="{escape(name)}" src="{_png(figure)}">' for name, figure in plots(result).items()]
    for heading, rows in tables(result):
        parts += [f"<h2>{escape(heading)}</h2>", _table(rows)]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def plots(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Figures by what they show."""
    figures = {
        "error by time since loss": _errors_by_time(result),
        "error by agent": _errors_by_agent(result),
        "coverage of the stated deviation": _coverage(result),
    }
    if result["forecast"]:
        figures["forecast error by time ahead"] = _forecasts(result)
    return figures


def _errors_by_time(result: Mapping[str, Any]) -> Figure:
    figure, (axes,) = _figure(1)
    for number, (method, rows) in enumerate(result["curve"].items()):
        axes.plot(*zip(*rows, strict=True), **_line(method, number))
    axes.set(xlabel="s since the agent was last seen", ylabel="root mean square error, cm", yscale="log")
    _legend(figure, axes)
    return figure


def _errors_by_agent(result: Mapping[str, Any]) -> Figure:
    figure, (axes,) = _figure(1)
    agents = list(result["agents"])
    for number, method in enumerate(result["methods"]):
        errors = [result["agents"][agent].get(method) for agent in agents]
        axes.plot(agents, errors, **_line(method, number) | {"linestyle": "", "marker": "o"})
    axes.set(ylabel="root mean square error, cm", yscale="log")
    if len(agents) > 8:
        axes.tick_params("x", rotation=60)
    _legend(figure, axes)
    return figure


def _coverage(result: Mapping[str, Any]) -> Figure:
    figure, axes = _figure(2)
    found = {label: cover for label, cover in result["deviation"].items() if cover}
    for key, wanted, colour in (("axis_68_percent", 68.3, COLOURS[1]), ("radius_95_percent", 95.0, COLOURS[0])):
        axes[0].plot(
            list(found), [cover[key] for cover in found.values()], "o-", color=colour, label=f"{wanted:g} % stated"
        )
        axes[0].axhline(wanted, color=colour, linestyle=":")
    axes[0].set(xlabel="s since the agent was last seen", ylabel="truth within it, %", ylim=(0, 103))
    axes[0].legend(frameon=False)
    axes[1].plot(list(found), [cover["radius_cm"] for cover in found.values()], "o-", color=COLOURS[0])
    axes[1].set(xlabel="s since the agent was last seen", ylabel="stated 95 % radius, cm", ylim=(0, None))
    return figure


def _forecasts(result: Mapping[str, Any]) -> Figure:
    figure, axes = _figure(len(result["forecast"]))
    for axis, (group, methods) in zip(axes, result["forecast"].items(), strict=True):
        for number, (method, steps) in enumerate(methods.items()):
            rows = [(float(ahead), errors["rmse_cm"]) for ahead, errors in steps.items() if errors]
            axis.plot(*zip(*rows, strict=True), **_line(method, number))
        axis.set(xlabel="s ahead", ylabel=f"forecast error of agents {group}, cm", yscale="log")
    _legend(figure, axes[0])
    return figure


def _legend(figure: Figure, axes: Any) -> None:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)


def _line(method: str, number: int) -> dict[str, Any]:
    dashed = "--" if method == INTERPOLATION else "-"
    width = 2.5 if method == "siha" else 1.5
    colour = COLOURS[number % len(COLOURS)]
    return {"label": method_title(method), "color": colour, "linestyle": dashed, "linewidth": width}


def _figure(columns: int) -> tuple[Figure, Sequence[Any]]:
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    return figure, axes


def _png(figure: Figure) -> str:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(picture.getvalue()).decode()


def _table(rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>\n" + "\n".join([line(rows[0], "th"), *(line(row, "td") for row in rows[1:])]) + "\n</table>"
