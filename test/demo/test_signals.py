"""Simulator and player end at once on SIGINT and SIGTERM, whatever they are at, as installed executables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_player import folders  # noqa: F401

pytest.importorskip("rclpy", reason="needs rclpy")
pytest.importorskip("siha_ros.msg", reason="needs the built messages")
pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc, which Linux has"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launch(tmp_path, ear):
    """Starts an executable made from its template as CMake does, and listens: (process, what was heard by topic)."""
    running = []

    def start(module, *arguments, topics):
        script = tmp_path / "executable"
        template = (ROOT / "scripts" / "executable.in").read_text()
        script.write_text(template.replace("@Python3_EXECUTABLE@", sys.executable).replace("@module@", module))
        one = ear(topics)
        environment = os.environ | {"ROS_DOMAIN_ID": str(one.domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, str(script), *map(str, arguments)]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        running.append(process)
        return process, one

    yield start
    for process in running:
        process.kill()
        process.wait()


def wait_until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def starts(process, one):
    """Modules are being loaded: Python catches SIGINT from its start, SIGTERM once the executable's lines have run."""

    def caught():
        (line,) = (line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "SigCgt" in line)
        return int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1

    wait_until(caught)


def compiles(process, one):
    """numba and its compiler are loaded, and the team's steps are about to be compiled or read from a cache."""
    wait_until(lambda: "libllvmlite" in Path(f"/proc/{process.pid}/maps").read_text())


def publishes(process, one):
    """Messages arrive."""

    def arrive():
        one.executor.spin_once(timeout_sec=0.05)
        return any(len(heard) > 20 for heard in one.heard.values())

    wait_until(arrive)


def end(process, number):
    begin = time.monotonic()
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "")
    assert time.monotonic() - begin < 2.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", [starts, compiles, publishes])
def test_simulator_ends(launch, moment, number):
    from geometry_msgs.msg import PoseStamped

    process, one = launch("siha_ros.demo.simulator", "--duration", 0, topics={"/robot_1/pose": PoseStamped})
    moment(process, one)
    end(process, number)


@pytest.mark.parametrize("moment", [starts, publishes])
def test_player_ends(launch, folders, moment):  # noqa: F811
    from siha_ros.msg import SkeletonFrame

    bundle, subject = folders
    options = ("--bundle", bundle, "--duration", 60)
    process, one = launch("siha_ros.demo.player", subject, *options, topics={"/skeleton": SkeletonFrame})
    moment(process, one)
    end(process, signal.SIGINT)
