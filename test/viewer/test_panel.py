"""The side panel says what the summary holds, and cannot be broken by names from the network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from siha_ros.viewer.panel import MOST_ROWS, agents_html, edges_html, headline_html, hidden_spans, strip_html
from siha_ros.viewer.scene_state import AgentRow, EdgeRow, History, Summary
from siha_ros.window.types import Status


def summary_html(summary):
    return headline_html(summary) + agents_html(summary.rows)


HIDDEN = AgentRow("team", "robot_2", Status.HIDDEN, "silent for 4.2 s", since_seen=4.2, position_95=31.6, error=12.34)
SUMMARY = Summary(
    source="team · springs_team · frame map",
    silent=0.05,
    rate=19.8,
    latency=8.4,
    agents=7,
    rows=[HIDDEN],
    error=12.34,
    edges_seen=96.4,
    edges_hidden=None,
)


def test_who_is_hidden_since_when_why_and_how_far_off():
    text = summary_html(SUMMARY)
    for piece in (
        "frame map",
        "1 of 7 hidden",
        "robot_2",
        "4.2 s",
        "silent for 4.2 s",
        "32 cm",
        "12.3 cm",
        "96 %",
        "20 Hz",
        "8 ms",
    ):
        assert piece in text, piece
    assert "of hidden" not in text, "unknown accuracy is not shown"


def test_headline_by_situation():
    assert "All 7 seen" in summary_html(replace(SUMMARY, rows=[]))
    assert "Waiting for the node" in summary_html(replace(SUMMARY, silent=None, rows=[]))
    assert "No data for 9 s" in summary_html(replace(SUMMARY, silent=9.2))
    assert "Warming up" in summary_html(replace(SUMMARY, rows=[replace(HIDDEN, status=Status.WARMING_UP)]))
    assert "Stream stopped" in summary_html(replace(SUMMARY, rows=[replace(HIDDEN, status=Status.STALE)]))


def test_no_error_column_without_truth():
    assert "error" not in summary_html(replace(SUMMARY, error=None, rows=[replace(HIDDEN, error=None)]))


def test_names_and_reasons_are_escaped():
    text = summary_html(replace(SUMMARY, rows=[replace(HIDDEN, name="<script>x</script>", reason="<img src=x>")]))
    assert "<script>" not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_one_reason_of_several_agents_is_said_once():
    rows = [replace(HIDDEN, name=name, reason="not tracked") for name in ("hand", "wrist")]
    text = summary_html(replace(SUMMARY, rows=[*rows, replace(HIDDEN, name="foot", reason="silent")]))
    assert text.count("not tracked") == 1
    assert text.index("wrist") < text.index("not tracked") < text.index("foot") < text.index("silent")


def test_a_long_list_is_cut_and_counted():
    rows = [replace(HIDDEN, name=f"joint_{i}") for i in range(MOST_ROWS + 5)]
    text = summary_html(replace(SUMMARY, rows=rows))
    assert f"joint_{MOST_ROWS - 1}" in text
    assert f"joint_{MOST_ROWS}<" not in text
    assert "and 5 more" in text


def history(hidden):
    time, zero = 10.0 + np.arange(len(hidden)), np.zeros(len(hidden))
    return History(time, None, zero, zero, np.array(hidden))


def test_times_with_hidden_agents_reach_to_the_first_stamp_without():
    assert hidden_spans(history([0, 1, 2, 0, 0, 1])) == [(11.0, 13.0), (15.0, 15.0)]
    assert hidden_spans(history([1, 0])) == [(10.0, 11.0)]
    assert hidden_spans(history([0, 0])) == []


def test_the_strip_marks_losses_and_the_time_shown():
    text = strip_html(history([0, 1, 1, 0, 0]), begin=10.0, end=14.0, at=13.0)
    assert "left:25.00%;width:max(1px,50.00%)" in text
    assert "left:75.00%;width:max(2px,0.00%)" in text
    assert strip_html(None, 0.0, 0.0, 0.0).count("left:") == 1


def test_edges_of_the_agent_in_focus():
    rows = [EdgeRow("a", Status.VISIBLE, 0.87, 0.1), EdgeRow("<b>", Status.HIDDEN, 0.0, 0.05)]
    text = edges_html("me", rows)
    for piece in ("me acts on", "87 %", "10 %", "&lt;b&gt;", "5 %"):
        assert piece in text, piece
    assert "<b>" not in text
    assert "click" in edges_html("", [])
    assert "No graph of me" in edges_html("me", [])
