"""What the node says of itself: troubles once in the log and for as long as they last in the diagnostics."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from diagnostic_msgs.msg import DiagnosticStatus
from test_node_outputs import scene

from siha_ros.node.diagnostics import Health, agents_status, clocks_apart, group_statuses, model_status, stream_values
from siha_ros.window.types import Status

CONFIG = SimpleNamespace(name="springs", ranges=SimpleNamespace(rate=[10.0, 1000.0]))


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.warning = self.error = self.lines.append


def test_trouble_is_said_once_and_stands_until_it_is_over():
    log = Log()
    health = Health(log)
    assert health.level_and_message("active") == (DiagnosticStatus.OK, "active")
    for _ in range(3):
        health.warn("input", "nothing yet")
    assert log.lines == ["nothing yet"]
    assert health.level_and_message("active") == (DiagnosticStatus.WARN, "nothing yet")
    health.fail("model", "broken")
    assert health.level_and_message("active") == (DiagnosticStatus.ERROR, "broken; nothing yet")
    health.fail("model", "broken otherwise")
    assert log.lines == ["nothing yet", "broken", "broken otherwise"]
    health.over("model", "input")
    assert health.level_and_message("active") == (DiagnosticStatus.OK, "active")
    health.warn("input", "nothing yet")
    assert log.lines[-1] == "nothing yet" and len(log.lines) == 4


def test_error_that_nobody_ends_leaves_after_its_time():
    health = Health(Log())
    health.fail("estimate", "failed", lasting=0.05)
    assert health.level_and_message("active")[0] == DiagnosticStatus.ERROR
    time.sleep(0.06)
    assert health.level_and_message("active") == (DiagnosticStatus.OK, "active")


def pipeline(**changes):
    """As much of a pipeline as diagnostics read: the scene of test_node_outputs, b's stamps 0.25 s ahead."""
    window = SimpleNamespace(clock_offsets={"a": 0.0, "b": 0.25}, sample_rate=50.0)
    feed = SimpleNamespace(named=False)
    return SimpleNamespace(**({"feed": feed, "scene": scene(), "window": window, "stale": False} | changes))


def test_agents_with_status_reason_and_clock_offset():
    status = agents_status("/siha", pipeline())
    values = {pair.key: pair.value for pair in status.values}
    assert (status.name, status.level, status.message) == ("/siha: agents", DiagnosticStatus.WARN, "1 of 3 hidden: b")
    assert values["a"] == "VISIBLE" and values["b"] == "HIDDEN (silent)"
    assert values["clock offset of b (s)"] == "0.250" and "clock offset of c (s)" not in values
    seen = pipeline()
    seen.scene.window.status[1] = Status.VISIBLE
    assert agents_status("/siha", seen).level == DiagnosticStatus.OK
    assert agents_status("/siha", pipeline(stale=True)).level == DiagnosticStatus.STALE


def test_model_says_what_the_estimator_says():
    status = model_status("/siha", CONFIG, pipeline())
    assert status.level == DiagnosticStatus.WARN and status.message == "beyond the bundle"
    assert {pair.key: pair.value for pair in status.values}["rounds"] == "3"


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (5.0, "the stream comes at 5 Hz, the bundle was made for 10 to 1000 Hz"),
        (9.5, "no estimate yet"),  # 10 Hz as sources are
        (float("nan"), "no estimate yet"),
    ],
)
def test_slow_stream_is_said_with_its_rate_and_the_one_expected(rate, message):
    window = SimpleNamespace(clock_offsets={}, sample_rate=rate)
    status = model_status("/siha", CONFIG, pipeline(scene=None, window=window))
    assert status.message == message
    assert status.level == (DiagnosticStatus.WARN if rate < 9.0 else DiagnosticStatus.OK)


INTAKE = SimpleNamespace(received=7, dropped=Counter())


class Vanishing:
    """A pipeline whose scene the worker takes away as soon as it has been looked at."""

    window = SimpleNamespace(rejected=Counter(late=2), resets=0, clock_offsets={}, sample_rate=50.0)
    estimates, stale = 1, False

    def __init__(self) -> None:
        self._scenes = [scene()]

    @property
    def scene(self):
        return self._scenes.pop() if self._scenes else None

    latencies = (0.010, 0.020)

    def rate(self):
        return 0.0


def test_scene_that_the_worker_takes_away_meanwhile_harms_nobody():
    assert stream_values(INTAKE, [Vanishing()])["estimate (ms)"] == "5.0"
    assert agents_status("/siha", Vanishing()).message == "1 of 3 hidden: b"
    assert model_status("/siha", CONFIG, Vanishing()).message == "beyond the bundle"


def test_values_of_several_groups_are_those_of_all():
    values = stream_values(INTAKE, [Vanishing(), Vanishing()])
    assert (values["groups"], values["estimates"], values["messages received"]) == (2, 2, 7)
    assert (values["latency p50 (ms)"], values["not used, late"]) == ("15.0", 4)
    assert stream_values(INTAKE, [])["latency p99 (ms)"] == ""


def test_statuses_name_their_group_where_the_stream_does_also_while_there_is_one():
    assert [found.message for found in group_statuses("/siha", CONFIG, {})] == ["nothing heard yet", "no estimate yet"]
    one = group_statuses("/siha", CONFIG, {"team": pipeline()})
    assert [found.name for found in one] == ["/siha: agents", "/siha: model"]
    red, blue = pipeline(feed=SimpleNamespace(named=True)), pipeline(feed=SimpleNamespace(named=True))
    assert [found.name for found in group_statuses("/siha", CONFIG, {"red": red})][0] == "/siha: red: agents"
    two = group_statuses("/siha", CONFIG, {"red": red, "blue": blue})
    assert [found.name for found in two] == [
        "/siha: red: agents",
        "/siha: red: model",
        "/siha: blue: agents",
        "/siha: blue: model",
    ]


def test_clocks_over_a_second_apart_are_an_error():
    assert clocks_apart([{"a": 0.0, "b": 0.9}]) is None and clocks_apart([]) is None
    line = clocks_apart([{"a": 0.1, "c": 1.2, "b": -20.0, "d": 0.0}])
    assert line == "stamps of b, c are over 1 s off the others': is wall time mixed with sim time?"
    assert clocks_apart([{"a": 0.0, "b": -20.1, "c": 1.3}]) == line  # or the log would be full of it
    assert clocks_apart([{"b": -20.0}, {"b": 0.0, "c": 1.2}]) == line  # each in its group, whoever else has its name
