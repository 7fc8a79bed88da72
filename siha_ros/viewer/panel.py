"""The side panel's text as HTML: who is hidden, since when and why, how far off, how fast, when agents were lost, and
the edges of one agent. Every name is escaped."""

from __future__ import annotations

from html import escape

import numpy as np

from siha_ros.viewer.scene import EDGE_COLOUR, EDGE_HIDDEN_COLOUR, STATUS_COLOURS, TRUTH_COLOUR
from siha_ros.viewer.scene_state import AgentRow, EdgeRow, History, Summary
from siha_ros.window.types import Status

SILENCE = 2.0  # without states for this long (s) the panel says so
MOST_ROWS = 14  # rows shown; further ones are counted
GREY = "#6b7280"
HIDDEN = STATUS_COLOURS[Status.HIDDEN]

_WORDS = {
    Status.UNKNOWN: "never seen",
    Status.VISIBLE: "seen",
    Status.BRIDGED: "bridged",
    Status.HIDDEN: "hidden",
    Status.WARMING_UP: "warming up",
    Status.STALE: "stale",
}


def headline_html(summary: Summary) -> str:
    """How many are hidden, and the numbers; always of one height, so that what lies below keeps its place."""
    return _text(_headline(summary) + _source(summary) + _numbers(summary))


def agents_html(rows: list[AgentRow]) -> str:
    """The table of agents that are not plainly seen."""
    return _text(_table(rows) if rows else _small("All agents are seen."))


def strip_html(history: History | None, begin: float, end: float, at: float) -> str:
    """The memory from `begin` to `end` (s) as a strip: coloured where agents are hidden, a mark where it is shown."""
    length = max(end - begin, 1e-9)

    def bar(left: float, right: float, least: str, colour: str) -> str:
        width = f"max({least},{100 * (right - left) / length:.2f}%)"
        return (
            f'<div style="position:absolute;top:0;bottom:0;left:{100 * (left - begin) / length:.2f}%;width:{width};'
            f'background:{colour}"></div>'
        )

    bars = [] if history is None else [bar(a, b, "1px", _css(HIDDEN)) for a, b in hidden_spans(history)]
    bars.append(bar(at, at, "2px", "#111827"))
    return (
        '<div title="orange: an agent is hidden" style="position:relative;height:10px;margin:4px 8px 0;'
        f'background:#e5e7eb;overflow:hidden">{"".join(bars)}</div>'
    )


def hidden_spans(history: History) -> list[tuple[float, float]]:
    """Times (s) from and to which at least one agent was hidden, each to the first stamp at which none was."""
    hidden = np.concatenate([[False], history.hidden > 0, [False]])
    change = np.flatnonzero(hidden[1:] != hidden[:-1])
    stamps = np.append(history.time, history.time[-1:])
    return [(float(stamps[a]), float(stamps[b])) for a, b in zip(change[::2], change[1::2], strict=True)]


def edges_html(name: str, rows: list[EdgeRow]) -> str:
    """How probable it is that the agent `name` acts on each other one, and each other one on it."""
    if not rows:
        return _small(f"No graph of {escape(name)} yet") if name else _small("Choose an agent, or click on one")
    head = "".join(
        f'<th style="text-align:{side};font-weight:500;color:{GREY};font-size:10.5px">{title}</th>'
        for title, side in (("agent", "left"), (f"{escape(name)} acts on it", "left"), ("it acts on this", "left"))
    )
    body = "".join(
        f'<tr style="border-top:1px solid #e5e7eb"><td>{_dot(STATUS_COLOURS[row.status])} {escape(row.name)}</td>'
        f"<td>{_share(row.acts_on)}</td><td>{_share(row.acted_by)}</td></tr>"
        for row in rows[:MOST_ROWS]
    )
    more = _small(f"and {len(rows) - MOST_ROWS} weaker ones") if len(rows) > MOST_ROWS else ""
    return (
        f'<div style="font-size:12px;padding:2px 8px;color:#1f2937"><table style="width:100%;border-collapse:collapse">'
        f"<tr>{head}</tr>{body}</table>{more}</div>"
    )


def legend_html() -> str:
    """What the colours mean."""
    entries = [
        (_dot(STATUS_COLOURS[Status.VISIBLE]), "seen"),
        (_dot(STATUS_COLOURS[Status.BRIDGED]), "short gap, bridged"),
        (_dot(HIDDEN), "hidden, reconstructed"),
        (_dot(HIDDEN, 0.25), "holds it with 95 %"),
        (_dot(TRUTH_COLOUR, 0.3), "where it truly is"),
        (_bar(HIDDEN, 0.3), "forecast ± 1 deviation"),
        (_bar(EDGE_COLOUR), "influence: thick to thin"),
        (_bar(EDGE_HIDDEN_COLOUR), "of or on a hidden one"),
        (_bar((190, 196, 206)), "grid, 1 m and 5 m"),
        (_bar((220, 40, 40), width=4) + _bar((40, 160, 60), width=4), "x and y of the frame"),
    ]
    cells = "".join(
        f'<div style="display:flex;align-items:center;gap:6px">{mark}<span>{text}</span></div>'
        for mark, text in entries
    )
    return (
        f'<div style="display:grid;grid-template-columns:1fr 1fr;gap:3px 10px;font-size:11.5px;padding:2px 8px;'
        f'color:#374151">{cells}</div>'
    )


def _headline(summary: Summary) -> str:
    if summary.silent is None:
        return _big("Waiting for the node", GREY)
    if summary.silent > SILENCE:
        return _big(f"No data for {summary.silent:.0f} s", GREY)
    hidden = sum(row.status == Status.HIDDEN for row in summary.rows)
    if hidden:
        return _big(f"{hidden} of {summary.agents} hidden", _css(HIDDEN))
    if any(row.status == Status.STALE for row in summary.rows):
        return _big("Stream stopped", GREY)
    if any(row.status == Status.WARMING_UP for row in summary.rows):
        return _big("Warming up", _css(STATUS_COLOURS[Status.WARMING_UP]))
    return _big(f"All {summary.agents} seen", _css(STATUS_COLOURS[Status.VISIBLE]))


def _text(content: str) -> str:
    return f'<div style="font-size:13px;line-height:1.35;padding:2px 16px 2px 8px;color:#1f2937">{content}</div>'


def _source(summary: Summary) -> str:
    return f'<div style="font-size:11px;height:15px;overflow:hidden;color:{GREY}">{escape(summary.source)}</div>'


def _numbers(summary: Summary) -> str:
    pieces = []
    if summary.error is not None:
        pieces.append(("error now", f"{summary.error:.1f} cm"))
    for title, value in (("edges right", summary.edges_seen), ("of hidden", summary.edges_hidden)):
        if value is not None:
            pieces.append((title, f"{value:.0f} %"))
    pieces += [("rate", f"{summary.rate:.0f} Hz"), ("latency", f"{summary.latency:.0f} ms")]
    cells = "".join(
        f'<div><div style="font-size:10.5px;color:{GREY}">{title}</div><div style="font-weight:600">{value}</div></div>'
        for title, value in pieces
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:2px 14px;margin:4px 0 6px">{cells}</div>'


def _table(rows: list[AgentRow]) -> str:
    rows = sorted(rows, key=lambda row: row.status != Status.HIDDEN)
    with_error = any(row.error is not None for row in rows)
    head = "".join(
        f'<th style="text-align:{side};font-weight:500;color:{GREY};font-size:10.5px">{title}</th>'
        for title, side in [("agent", "left"), ("since", "right"), ("±95 %", "right")]
        + ([("error", "right")] if with_error else [])
    )
    shown = rows[:MOST_ROWS]
    reasons = [escape(row.reason) if row.reason else _WORDS[row.status] for row in shown]
    body = ""
    for row, reason, next_reason in zip(shown, reasons, [*reasons[1:], None], strict=True):
        body += _row(row, with_error)
        if reason != next_reason:  # a limb's joints have one reason, said once
            body += f'<tr><td colspan="4" style="color:{GREY};font-size:11px">{reason}</td></tr>'
    more = f'<div style="color:{GREY}">and {len(rows) - MOST_ROWS} more</div>' if len(rows) > MOST_ROWS else ""
    return f'<table style="width:100%;border-collapse:collapse"><tr>{head}</tr>{body}</table>{more}'


def _row(row: AgentRow, with_error: bool) -> str:
    since = "" if row.since_seen < 0 else f"{row.since_seen:.1f} s"
    error = "" if row.error is None else f"{row.error:.1f} cm"
    numbers = [since, f"{row.position_95:.0f} cm"] + ([error] if with_error else [])
    cells = "".join(f'<td style="text-align:right;white-space:nowrap">{number}</td>' for number in numbers)
    return (
        f'<tr style="border-top:1px solid #e5e7eb"><td>{_dot(STATUS_COLOURS[row.status])} '
        f"<b>{escape(row.name)}</b></td>{cells}</tr>"
    )


def _share(probability: float) -> str:
    """A probability as a bar and as percent."""
    return (
        '<span style="display:inline-block;width:44px;height:7px;background:#e5e7eb;margin-right:5px">'
        f'<span style="display:block;height:7px;width:{100 * probability:.0f}%;background:{_css(EDGE_COLOUR)}"></span>'
        f"</span>{100 * probability:.0f} %"
    )


def _small(text: str) -> str:
    return f'<div style="color:{GREY};font-size:11.5px;padding:2px 8px">{text}</div>'


def _big(text: str, colour: str) -> str:
    return f'<div style="font-size:20px;font-weight:650;color:{colour}">{text}</div>'


def _css(colour: tuple[int, int, int], opacity: float = 1.0) -> str:
    red, green, blue = colour
    return f"rgba({red},{green},{blue},{opacity})"


def _dot(colour: tuple[int, int, int], opacity: float = 1.0) -> str:
    return (
        f'<span style="display:inline-block;flex:none;width:10px;height:10px;border-radius:5px;'
        f'background:{_css(colour, opacity)}"></span>'
    )


def _bar(colour: tuple[int, int, int], opacity: float = 1.0, width: int = 14) -> str:
    return f'<span style="flex:none;width:{width}px;height:4px;background:{_css(colour, opacity)}"></span>'
