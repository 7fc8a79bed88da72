"""Child processes end with the demo, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from siha_ros.demo.processes import Processes

ROOT = Path(__file__).parents[2]


POLITE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell inherits it ignored
print("here", *sys.argv[1:], flush=True)
time.sleep(60)
"""
DEAF = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
print("here", flush=True)
time.sleep(60)
"""
PARENT = """
import pathlib, sys, time
from siha_ros.demo.processes import Processes
processes = Processes(pathlib.Path(sys.argv[1]))
processes.start("polite", "polite", [])
print(processes._children["polite"].pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder of modules that children can run."""
    (tmp_path / "polite.py").write_text(POLITE)
    (tmp_path / "deaf.py").write_text(DEAF)
    (tmp_path / "wrong.py").write_text("raise SystemExit('no bundle')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    return tmp_path


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_children_are_ended_and_their_logs_kept(modules):
    processes = Processes(modules)
    processes.start("polite", "polite", ["a", "b"])
    processes.start("wrong", "wrong", [])
    wait_for(lambda: "here" in processes.last_lines("polite"))
    wait_for(lambda: processes.exit_code("wrong") == 1)
    assert processes.exit_code("polite") is None
    codes = processes.stop(patience=60.0)
    assert codes["wrong"] == 1 and codes["polite"] != 0
    assert processes.last_lines("wrong") == "no bundle" and processes.last_lines("polite").startswith("here a b")
    assert "KeyboardInterrupt" in processes.last_lines("polite")


def test_a_child_that_hears_no_signal_is_ended_too(modules):
    processes = Processes(modules)
    processes.start("deaf", "deaf", [])
    wait_for(lambda: "here" in processes.last_lines("deaf"))
    assert processes.stop(patience=0.5) == {"deaf": -signal.SIGKILL}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends orphans on Linux only")
def test_children_die_with_a_parent_that_is_killed(modules):
    command = [sys.executable, "-c", PARENT, str(modules)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    stat = Path(f"/proc/{child}/stat")
    wait_for(lambda: not stat.exists() or stat.read_text().split()[2] == "Z")
