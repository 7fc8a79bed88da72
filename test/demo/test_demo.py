"""`python -m siha_ros.demo` from start to report: all its processes, over DDS, with the shipped model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from siha_ros.demo.schedule import loss_schedule
from siha_ros.resources import bundle_path

pytest.importorskip("rclpy", reason="needs rclpy")
pytest.importorskip("siha_ros.msg", reason="needs the built messages")
pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
MARK = "SIHA_DEMO_TEST"


def start(**variables):
    """The demo with environment variables; a mark in the environment finds its children."""
    environment = {name: value for name, value in os.environ.items() if name != "ROS_DOMAIN_ID"}
    environment |= {"HEADLESS": "1", "SEED": "3", MARK: str(time.time())} | {k: str(v) for k, v in variables.items()}
    command = [sys.executable, "-m", "siha_ros.demo"]
    process = subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    process.mark = environment[MARK]
    return process


def running(mark):
    """Command lines of the processes that carry the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [line for line in found if line]


@pytest.fixture(scope="module", autouse=True)
def model():
    try:
        bundle_path("springs_team")
    except FileNotFoundError:
        pytest.skip("springs_team is not shipped")


def test_team_demo_scores_what_the_node_said(tmp_path):
    report_path = tmp_path / "out" / "report.json"
    demo = start(DURATION=12, REPORT=report_path)
    output, _ = demo.communicate(timeout=180)
    assert demo.returncode == 0, output
    assert running(demo.mark) == []
    report = json.loads(report_path.read_text())
    assert list(report) == [
        "schema",
        "agents",
        "hidden",
        "losses",
        "rmse_cm",
        "graph_accuracy",
        "latency_ms",
        "rate_hz",
        "frames",
        "nonfinite",
        "unscored",
    ]
    assert (report["schema"], report["agents"], report["hidden"], report["losses"]) == (1, 7, 2, 1)
    assert set(report["rmse_cm"]) == {"siha", "hold", "constant_velocity", "mean_visible", "dynamics_roll"}
    bins = ["0-0.5", "0.5-1", "1-2", "2-5", "over 5", "all"]
    for errors in report["rmse_cm"].values():
        assert list(errors) == bins
        assert errors["over 5"] is None  # lost from 4 s to 8 s
        assert 0 < errors["all"] < 1000
    assert report["nonfinite"] == 0
    assert report["rate_hz"] > 0  # how fast it is depends on the machine: siha bench measures that
    assert report["frames"] > 5
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    assert all(0 <= value <= 100 for value in report["graph_accuracy"].values())
    (loss,) = loss_schedule([f"robot_{i}" for i in range(1, 8)], 12.0, seed=3)
    rows = [line for line in output.splitlines() if re.match(r" +\d+\.\d  ", line)]
    assert len(rows) >= 8
    named = {float(row.split()[0]): set(re.findall(r"robot_\d", row)) for row in rows}
    assert all(names in (set(), set(loss.agents)) for names in named.values())
    assert any(names for seconds, names in named.items() if 5.0 < seconds < 8.5)
    assert not any(names for seconds, names in named.items() if seconds > 10)
    assert report_path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_ends_it_all_with_what_there_is():
    demo = start(DURATION=60)
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if re.match(r" +\d+\.\d  ", line):
            break
    assert len(running(demo.mark)) == 3, lines  # demo, node, simulator
    demo.send_signal(signal.SIGINT)
    begin = time.monotonic()
    rest = demo.stdout.read()
    assert demo.wait(timeout=30) == 0, rest
    assert time.monotonic() - begin < 10
    assert "Traceback" not in rest
    assert running(demo.mark) == []


def test_what_cannot_run_is_one_line():
    demo = start(BUNDLE="no_such_bundle")
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert output.strip().startswith("demo: no bundle 'no_such_bundle'") and output.count("\n") == 1
