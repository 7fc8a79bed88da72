"""The viewer's process as a user meets it: options, ports, signals, and a real browser that sees an agent get lost."""

from __future__ import annotations

import io
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import chromium
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
pytest.importorskip("siha_ros.msg", reason="needs the built messages of siha_ros")
pytest.importorskip("viser", reason="needs viser, which draws in the browser")

pytestmark = pytest.mark.ros

ROOT = Path(__file__).parents[2]
ARTEFACTS = Path(os.environ.get("SIHA_TEST_ARTEFACTS", ROOT / "build" / "test_artefacts"))
NAMES = ["robot_0", "robot_1", "robot_2"]
LOST = 2
CLOSE_NOTE_ON_SOFTWARE_RENDERING = "document.querySelector('.mantine-Notification-closeButton')?.click()"
START_TIMEOUT = 60.0  # s


class Viewer:
    """A running viewer in a ROS domain of its own."""

    def __init__(self, *options: str) -> None:
        self.domain = random.SystemRandom().randint(1, 101)
        environment = os.environ | {"ROS_DOMAIN_ID": str(self.domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "siha_ros.viewer", *options],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def url(self) -> str:
        """The address that the viewer says it serves on."""
        timer = threading.Timer(START_TIMEOUT, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        assert line.startswith("siha view: http://"), line + self.process.stdout.read()
        return line.split()[2]

    def end(self, number: int) -> tuple[int, str]:
        """Exit code after a signal, and what was printed since."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=30)
        return self.process.returncode, output


@pytest.fixture
def view():
    viewers = []

    def start(*options: str) -> Viewer:
        viewers.append(Viewer(*options))
        return viewers[-1]

    yield start
    for viewer in viewers:
        viewer.process.kill()
        viewer.process.communicate()


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Team:
    """Publishes what a node would about three robots on circles; `lose()` hides one of them."""

    def __init__(self, domain: int) -> None:
        import rclpy

        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self._node = rclpy.create_node("stand_in", context=self._context)
        self._lost = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def lose(self) -> None:
        self._lost.set()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._node.destroy_node()
        self._context.try_shutdown()

    def _publish(self) -> None:
        from siha_ros.msg import AgentState, Forecast, InteractionGraph, ReconstructedStates, SkeletonFrame

        def publisher(kind, topic):
            return self._node.create_publisher(kind, topic, 10)

        states, forecast = publisher(ReconstructedStates, "/siha/states"), publisher(Forecast, "/siha/forecast")
        graph, truth = publisher(InteractionGraph, "/siha/graph"), publisher(SkeletonFrame, "/truth")
        begin = time.monotonic()
        while not self._stop.wait(0.05):
            elapsed = time.monotonic() - begin
            stamp = self._node.get_clock().now().to_msg()
            angle = 0.3 * (elapsed + 0.1 * np.arange(11)) + 2.1 * np.arange(3)[:, None]
            positions = np.stack([2 * np.cos(angle), 2 * np.sin(angle), 0 * angle], axis=-1)

            def send(to, message, stamp=stamp):
                message.header.stamp = stamp
                message.header.frame_id = "map"
                message.group = "team"
                to.publish(message)

            agents = []
            for i, name in enumerate(NAMES):
                hidden = i == LOST and self._lost.is_set()
                agent = AgentState(name=name, status=AgentState.HIDDEN if hidden else AgentState.VISIBLE)
                agent.pose.position.x, agent.pose.position.y = positions[i, 0, 0] + 0.1 * hidden, positions[i, 0, 1]
                if hidden:
                    agent.reason, agent.position_95, agent.time_since_seen = "silent on purpose", 0.8, 3.0
                agents.append(agent)
            send(states, ReconstructedStates(agents=agents, latency=0.007, bundle="stand_in"))
            covariance = np.broadcast_to(0.01 * np.eye(3), (3, 10, 3, 3)).ravel()
            ahead = positions[:, 1:].ravel()
            send(forecast, Forecast(agents=NAMES, step=0.1, horizon=10, positions=ahead, covariance=covariance))
            pairs = np.stack([np.eye(3), 1 - np.eye(3)], axis=-1).astype(np.float32)
            pairs[np.arange(3), np.arange(3)] = 0
            send(graph, InteractionGraph(agents=NAMES, edge_types=["none", "spring"], probability=pairs.ravel()))
            send(truth, SkeletonFrame(joints=NAMES, positions=positions[:, 0].ravel(), tracked=[True] * 3))


def reddish(png: bytes) -> int:
    """Number of pixels of the 3-D part (left of the panel) with about the hue of the hidden agents."""
    from PIL import Image

    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)[:, :480]
    red, green, blue = picture[..., 0], picture[..., 1], picture[..., 2]
    return int(((red > 150) & (red - blue > 90) & (red - green > 40)).sum())


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason=f"needs one of {', '.join(chromium.NAMES)}")
def test_a_browser_sees_an_agent_become_hidden(view, free_port):
    viewer = view("--port", str(free_port), "--rate", "5")
    url = viewer.url()
    assert url == f"http://127.0.0.1:{free_port}"
    team = Team(viewer.domain)
    try:
        with chromium.Page(url) as page:
            page.wait(lambda: "All 3 seen" in page.text(), "the team in the panel")
            page.wait(lambda: "7 ms" in page.text(), "the latency in the panel")
            page.evaluate(
                "document.querySelector('.mantine-Notification-closeButton')?.click()"
            )  # on software rendering
            page.wait(lambda: reddish(page.screenshot()) == 0, "a scene without a hidden robot")
            team.lose()
            page.wait(lambda: "1 of 3 hidden" in page.text(), "the loss in the panel")
            page.wait(lambda: "10.0 cm" in page.text(), "the error against the truth in the panel")
            for piece in (NAMES[LOST], "silent on purpose", "3.0 s", "80 cm"):
                assert piece in page.text(), piece
            page.wait(lambda: reddish(page.screenshot()) > 50, "the hidden robot in its own colour in the scene")
            ARTEFACTS.mkdir(parents=True, exist_ok=True)
            (ARTEFACTS / "viewer.png").write_bytes(page.screenshot())
            assert page.console_errors == []
    finally:
        team.close()
    code, output = viewer.end(signal.SIGTERM)
    assert (code, output) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_with_exit_code_0(view, free_port, number):
    viewer = view("--port", str(free_port), "--ros-args", "-r", "__node:=watcher")
    viewer.url()
    assert viewer.end(number) == (0, "")


def test_it_serves_on_loopback_only_and_takes_the_next_port(view, free_port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port))
        taken.listen()
        url = view("--port", str(free_port)).url()
    port = int(url.rsplit(":", 1)[1])
    assert port != free_port
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate", "0"], "--rate 0: expected"),
        (["--bones", "nowhere.yaml"], "bones file nowhere.yaml"),
        (["--host", "192.0.2.1"], "siha view: cannot serve on 192.0.2.1:8080"),
        (["--port", "70000"], "siha view: no free port"),
    ],
)
def test_a_wrong_option_is_one_line(view, options, message):
    process = view(*options).process
    output, _ = process.communicate(timeout=START_TIMEOUT)
    assert process.returncode == 1
    assert message in output
    assert len(output.strip().splitlines()) == 1, output
