"""``siha bench node``: the node in its own process, over DDS, with members lost.

The latency of an estimate is the time from the newest stamp it rests on to its arrival in another process: publisher,
middleware, waiting for the next turn, model, and middleware again. The same stream as a bag gives the speed of replays.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from siha_ros.bench_stream import Motion, motion, save
from siha_ros.cli_replay import write_outputs
from siha_ros.demo.processes import Processes
from siha_ros.estimator import Estimator, load_estimator
from siha_ros.machine import machine
from siha_ros.node.parameters import Parameters
from siha_ros.replay.bag import Bag, BagWriter
from siha_ros.replay.stream import Stream
from siha_ros.resources import bundle_path, config_path
from siha_ros.tables import columns

SETTLE = 1.0  # s after the loss before the measurement begins
START_TIMEOUT = 180.0  # s for nodes to be ready and the stream to begin
RATE = Parameters().rate
BAG_SECONDS = 10.0


@dataclass(frozen=True)
class Scenario:
    """What is published: a bundle's team (of so many agents), or so many bodies at once, at a rate (Hz)."""

    bundle: str
    rate: float
    agents: int | None = None
    groups: int = 1


SCENARIOS = {
    "team_7": Scenario("springs_team", 50.0),
    "team_50": Scenario("springs_team", 50.0, agents=50),
    "body_120": Scenario("body", 120.0),
    "body_240": Scenario("body", 240.0),
    "bodies_4": Scenario("body", 120.0, groups=4),
}


def bench_node(names: Sequence[str], seconds: float) -> dict[str, Any]:
    """The report, schema 1: one row for each scenario, measured for so many seconds."""
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.randint(1, 101)))
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    report: dict[str, Any] = {"schema": 1, "machine": machine(), "seconds": seconds, "rate_hz": RATE, "scenarios": {}}
    for name in names:
        scenario = SCENARIOS[name]
        estimator = load_estimator(scenario.bundle, "cpu")
        moving = motion(estimator, scenario.agents)
        with tempfile.TemporaryDirectory(prefix="siha_bench_") as folder:
            row = live(scenario, estimator, moving, seconds, Path(folder))
            row["replay_times_real_time"] = replay_speed(scenario, estimator, moving, Path(folder))
        report["scenarios"][name] = row
    return report


def live(scenario: Scenario, estimator: Estimator, moving: Motion, seconds: float, folder: Path) -> dict[str, Any]:
    """Latency (ms), processor time (% of a core), estimates missed and messages lost (%) over DDS."""
    config = estimator.bundle.config
    lost_at = config.window * config.dt + SETTLE
    processes = Processes(folder)
    save(moving, folder / "motion.json")
    try:
        ros = ["--ros-args", "--params-file", str(config_path("siha.yaml"))]
        processes.start("node", "siha_ros.node", [*ros, "-p", f"bundle:={bundle_path(scenario.bundle)}"])
        length = lost_at + SETTLE + seconds
        flags = {"rate": scenario.rate, "groups": scenario.groups, "seconds": length, "lost-at": lost_at}
        options = [text for flag, value in flags.items() for text in (f"--{flag}", str(value))]
        processes.start("stream", "siha_ros.bench_stream", [str(folder / "motion.json"), *options])
        listened = listen(processes, length + START_TIMEOUT)
        stream = json.loads(processes.last_lines("stream", 1))
    finally:
        processes.stop()
    begin = 1e-9 * stream["begin_ns"] + lost_at + SETTLE
    return summary(listened, begin, begin + seconds, config.dt, scenario.groups, stream)


@dataclass
class Listened:
    """Arrival and stamp (s) of every estimate, messages that the node received and did not use, and its processor time
    (s) by moments."""

    estimates: list[tuple[float, float]]
    received: int
    unused: int
    processor: list[tuple[float, float]]


def listen(processes: Processes, timeout: float) -> Listened:
    """Listen to the node until the stream has ended."""
    import rclpy
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from siha_ros.demo.publishing import RELIABLE
    from siha_ros.demo.publishing import seconds as seconds_of
    from siha_ros.msg import ReconstructedStates

    heard = Listened([], 0, 0, [])

    def on_states(message: ReconstructedStates) -> None:
        heard.estimates.append((time.time(), seconds_of(message.header.stamp)))

    def on_diagnostics(message: DiagnosticArray) -> None:
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            if "messages received" in values:
                heard.received = int(values["messages received"])
                not_used = (int(count) for key, count in values.items() if key.startswith(("dropped,", "not used,")))
                heard.unused = sum(not_used)

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = rclpy.create_node("bench_listener")
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        node.create_subscription(ReconstructedStates, "/siha/states", on_states, RELIABLE)
        node.create_subscription(DiagnosticArray, "/diagnostics", on_diagnostics, RELIABLE)
        deadline, next_sample = time.monotonic() + timeout, 0.0
        while processes.exit_code("stream") is None:
            executor.spin_once(timeout_sec=0.05)
            if time.monotonic() >= next_sample:
                next_sample = time.monotonic() + 0.1
                heard.processor.append((time.time(), _processor_seconds(processes)))
            if time.monotonic() > deadline:
                raise ValueError(f"bench node: the stream did not end; it said: {processes.last_lines('stream')}")
        executor.shutdown()
    finally:
        rclpy.try_shutdown()
    if processes.exit_code("stream"):
        raise ValueError(f"bench node: the stream failed: {processes.last_lines('stream')}")
    return heard


def _processor_seconds(processes: Processes) -> float:
    """Processor time of the node so far (s). Raises ValueError where it has ended."""
    if processes.exit_code("node") is not None:
        raise ValueError(f"bench node: the node ended; it said: {processes.last_lines('node')}")
    fields = Path(f"/proc/{processes.pid('node')}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(
    heard: Listened, begin: float, end: float, grid_delay: float, groups: int, stream: dict[str, int]
) -> dict[str, Any]:
    """The row of a scenario, of what was heard between two times (s)."""
    within = [1e3 * (arrival - stamp - grid_delay) for arrival, stamp in heard.estimates if begin <= arrival < end]
    if not within:
        raise ValueError("bench node: no estimate came while members were lost")
    expected = (end - begin) * RATE * groups
    busy = [(moment, spent) for moment, spent in heard.processor if begin <= moment <= end]
    (first, spent_then), (last, spent_now) = busy[0], busy[-1]
    return {
        "estimates_per_second": len(within) / (end - begin) / groups,
        "latency_ms": {f"p{share}": float(np.percentile(within, share)) for share in (50, 99)},
        "missed_percent": 100 * max(0.0, 1 - len(within) / expected),
        "processor_percent": 100 * (spent_now - spent_then) / (last - first),
        "messages": {"published": stream["messages"], "received": heard.received, "unused": heard.unused},
        "messages_lost_percent": 100 * max(0.0, 1 - heard.received / stream["messages"]),
        "publisher_ticks_missed": stream["ticks_missed"],
    }


def replay_speed(scenario: Scenario, estimator: Estimator, moving: Motion, folder: Path) -> float:
    """How many times real time ``siha replay`` runs on the stream, outputs written, in this process."""
    begin_ns, config = 1_700_000_000 * 10**9, estimator.bundle.config
    lost_at = config.window * config.dt + SETTLE
    with BagWriter(folder / "bag", "mcap") as writer:
        for frame in range(round(BAG_SECONDS * scenario.rate)):
            moment = frame / scenario.rate
            time_ns = begin_ns + round(1e9 * moment)
            for topic, kind, message in moving.messages(
                writer.new, moment, time_ns, moment >= lost_at, scenario.groups
            ):
                writer.write(topic, kind, time_ns, message)
    with Bag(folder / "bag") as bag:
        stream = Stream(bag, config, Parameters.checked({}))
        return write_outputs(stream, estimator, folder / "out", "mcap").times_real_time


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    about = report["machine"]
    rows = [HEAD]
    for name, row in report["scenarios"].items():
        rows.append(
            [
                name,
                f"{row['estimates_per_second']:.1f}",
                f"{row['latency_ms']['p50']:.0f}",
                f"{row['latency_ms']['p99']:.0f}",
                f"{row['missed_percent']:.1f}",
                f"{row['messages_lost_percent']:.2f}",
                f"{row['processor_percent']:.0f}",
                f"{row['replay_times_real_time']:.1f}",
            ]
        )
    head = f"{about['processor']}, {about['cores']} cores, load {about['load_before'][0]:.1f} before; "
    return "\n".join([f"{head}{report['seconds']:g} s each, {report['rate_hz']:g} Hz asked for", "", *columns(rows)])


HEAD = ["scenario", "Hz", "latency p50 ms", "p99", "% estimates missed", "% messages lost", "% of a core", "replay x"]
