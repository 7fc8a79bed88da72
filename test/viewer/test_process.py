"""The viewer's process as a user meets it: options, ports, signals, and a real browser that sees an agent get lost."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import chromium
import circles
import numpy as np
import pytest
from circles import LOST, NAMES

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
pytest.importorskip("siha_ros.msg", reason="needs the built messages of siha_ros")
pytest.importorskip("viser", reason="needs viser, which draws in the browser")

from siha_ros.node.inputs import message_type
from siha_ros.node.messages import ros_message

pytestmark = pytest.mark.ros

ROOT = Path(__file__).parents[2]
ARTEFACTS = Path(os.environ.get("SIHA_TEST_ARTEFACTS", ROOT / "build" / "test_artefacts"))
CLOSE_NOTE_ON_SOFTWARE_RENDERING = "document.querySelector('.mantine-Notification-closeButton')?.click()"
START_TIMEOUT = 60.0  # s
SLIDER = "document.querySelector('.mantine-Slider-track')"  # the first one is that of the time
WITHOUT_ROS = "import sys; sys.modules['rclpy'] = None; from siha_ros.viewer.main import main; sys.exit(main())"


class Viewer:
    """A running viewer, with ROS or where there is none."""

    def __init__(self, *options: str, ros: bool = True) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *(["-m", "siha_ros.viewer"] if ros else ["-c", WITHOUT_ROS]), *options],
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
def view(ros_domain):
    viewers = []

    def start(*options: str, ros: bool = True) -> Viewer:
        viewers.append(Viewer(*options, ros=ros))
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
        publishers = {
            topic: self._node.create_publisher(message_type(kind), topic, 10) for topic, kind in circles.KINDS.items()
        }
        begin = time.monotonic()
        while not self._stop.wait(0.05):
            stamp = self._node.get_clock().now().nanoseconds * 1e-9
            messages = circles.outputs(ros_message, stamp, time.monotonic() - begin, self._lost.is_set())
            for topic, message in messages.items():
                publishers[topic].publish(message)


def button(text: str) -> str:
    """JavaScript for the button of that text."""
    return f"[...document.querySelectorAll('button')].find(each => each.innerText.trim() == {text!r})"


def orange(png: bytes) -> int:
    """Number of pixels of the 3-D part, left of the panel, with about the hue of hidden agents, not of the axes."""
    from PIL import Image

    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)[:, :400]
    red, green, blue = picture[..., 0], picture[..., 1], picture[..., 2]
    return int(((red > 150) & (red - blue > 90) & (red - green > 40) & (green - blue > 30)).sum())


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason=f"needs one of {', '.join(chromium.NAMES)}")
def test_a_browser_sees_an_agent_become_hidden(view, free_port, ros_domain):
    viewer = view("--port", str(free_port), "--rate", "2")
    url = viewer.url()
    assert url == f"http://127.0.0.1:{free_port}"
    team = Team(ros_domain)
    try:
        with chromium.Page(url) as page:
            page.wait(lambda: "All 3 seen" in page.text(), "the team in the panel")
            page.wait(lambda: "7 ms" in page.text(), "the latency in the panel")
            page.evaluate(CLOSE_NOTE_ON_SOFTWARE_RENDERING)

            def shows_the_hidden_robot() -> bool:
                picture = page.screenshot()
                ARTEFACTS.mkdir(parents=True, exist_ok=True)
                (ARTEFACTS / "viewer.png").write_bytes(picture)
                return orange(picture) > 50

            page.wait(lambda: orange(page.screenshot()) < 10, "a scene without a hidden robot")
            team.lose()
            page.wait(lambda: "1 of 3 hidden" in page.text(), "the loss in the panel")
            page.wait(lambda: "10.0 cm" in page.text(), "the error against the truth in the panel")
            for piece in (NAMES[LOST], "silent on purpose", "3.0 s", "80 cm"):
                assert piece in page.text(), piece
            page.wait(shows_the_hidden_robot, "the hidden robot in its own colour in the scene")
            assert page.console_errors == []
    finally:
        team.close()
    code, output = viewer.end(signal.SIGTERM)
    assert (code, output) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason=f"needs one of {', '.join(chromium.NAMES)}")
def test_a_bag_is_scrubbed_in_a_browser_without_ros(view, free_port, tmp_path):
    bag = circles.write_circles(tmp_path / "bag", seconds=8.0, hidden=(3.0, 9.0))  # to its end
    viewer = view("--bag", str(bag), "--port", str(free_port), "--rate", "2", ros=False)
    with chromium.Page(viewer.url()) as page:
        page.wait(lambda: "of 3 hidden" in page.text() or "All 3 seen" in page.text(), "the recording in the panel")
        page.evaluate(CLOSE_NOTE_ON_SOFTWARE_RENDERING)

        def stands(headline: str) -> Callable[[], bool]:
            return lambda: headline in page.text() and "Play" in page.text()

        page.wait(stands("All 3 seen"), "the time before the loss", again=lambda: page.click(SLIDER, across=0.2))
        page.wait(stands("1 of 3 hidden"), "the moment of the loss", again=lambda: page.click(button("loss ›")))
        assert "10.0 cm" in page.text(), "the error against the truth"
        page.wait(stands("All 3 seen"), "the moment before it", again=lambda: page.click(button("‹ back")))
        assert page.console_errors == []
    assert viewer.end(signal.SIGTERM) == (0, "")


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
        (["--memory", "0"], "--memory 0: expected"),
        (["--bag", "nowhere"], "bag nowhere: no such file"),
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
