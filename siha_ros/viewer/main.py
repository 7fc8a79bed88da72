"""The viewer's process: options, ROS or a bag in one thread, drawing in the other, a clean end."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from siha_ros.viewer.skeletons import CMU_BONES, load_bones

if TYPE_CHECKING:
    from siha_ros.viewer.browser import BrowserView
    from siha_ros.viewer.playback import Playback
    from siha_ros.viewer.scene_state import SceneState

MOST_SAID = 10  # different errors


def main(arguments: list[str] | None = None) -> int:
    """Show the node's outputs, live or of a bag, in the browser until SIGINT or SIGTERM; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    ros_start = arguments.index("--ros-args") if "--ros-args" in arguments else len(arguments)
    options = _options().parse_args(arguments[:ros_start])
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        _view(options, arguments[ros_start:], stop)
    except ModuleNotFoundError as error:
        hint = "source ROS 2 and this package's install folder, or show a bag with --bag"
        if error.name in ("viser", "rosbags"):
            hint = f"pip install {error.name}"
        print(f"siha view: {error}; {hint}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"siha view: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="siha view",
        description="3-D view of a running siha node, or of a bag, in the browser. Options of ROS follow --ros-args.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--bag", type=Path, help="show this bag with the node's outputs (siha replay), without ROS")
    parser.add_argument("--host", default="127.0.0.1", help="address to serve on; 0.0.0.0 opens it to other machines")
    parser.add_argument("--port", type=int, default=8080, help="port to serve on; the next free one where it is taken")
    parser.add_argument("--node", default="/siha", help="full name of the node whose outputs are shown")
    parser.add_argument("--truth", default="truth", help="topic of the true positions, where there is one")
    parser.add_argument("--truth-graph", default="truth_graph", help="topic of the true graph, where there is one")
    parser.add_argument("--rate", type=float, default=15.0, help="pictures per second")
    parser.add_argument("--memory", type=float, default=120.0, help="seconds of a live run that one can go back")
    parser.add_argument("--bones", metavar="FILE", help="YAML list of joint pairs to draw as bones (default: CMU's)")
    return parser


def _view(options: argparse.Namespace, ros_arguments: list[str], stop: threading.Event) -> None:
    if not 0 < options.rate <= 60:
        raise ValueError(f"--rate {options.rate:g}: expected more than 0 and at most 60 pictures per second")
    if not 1 <= options.memory < math.inf:
        raise ValueError(f"--memory {options.memory:g}: expected at least 1 second")
    bones = load_bones(options.bones) if options.bones else CMU_BONES

    from siha_ros.viewer.browser import BrowserView
    from siha_ros.viewer.playback import Playback
    from siha_ros.viewer.scene_state import SceneState

    state = SceneState(bones, keep_seconds=math.inf if options.bag else options.memory)
    playback = Playback(live=options.bag is None)
    with contextlib.ExitStack() as stack:
        source = (
            _listening(options, ros_arguments, state) if options.bag is None else _reading(options, state, playback)
        )
        stack.enter_context(source)
        browser = BrowserView(state, options.host, options.port, playback)
        stack.callback(browser.stop)
        print(f"siha view: {browser.url} shows {options.bag or options.node}", flush=True)
        _draw(browser, options.rate, stop)


def _draw(browser: BrowserView, rate: float, stop: threading.Event) -> None:
    """Draw until stopped; a picture that cannot be drawn is said once, and does not end the viewer."""
    said: set[str] = set()
    while not stop.wait(1 / rate):
        try:
            browser.update()
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            if text not in said and len(said) < MOST_SAID:
                print(f"siha view: a picture could not be drawn ({text}); going on", file=sys.stderr, flush=True)
                said.add(text)


@contextlib.contextmanager
def _listening(options: argparse.Namespace, ros_arguments: list[str], state: SceneState) -> Iterator[None]:
    """ROS in a thread of its own."""
    import rclpy
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from siha_ros.viewer.subscriber import ViewerNode

    rclpy.init(args=ros_arguments, signal_handler_options=SignalHandlerOptions.NO)
    node = ViewerNode(state, options.node, options.truth, options.truth_graph)
    executor = SingleThreadedExecutor()
    executor.add_node(node)

    stop = threading.Event()

    def listen() -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not stop.is_set():
                executor.spin_once(timeout_sec=0.1)

    listener = threading.Thread(target=listen, name="siha_viewer_ros")
    listener.start()
    try:
        yield
    finally:
        stop.set()
        listener.join()
        executor.shutdown()  # not while it spins: what just arrives would find it half taken down
        node.destroy_node()
        rclpy.try_shutdown()


@contextlib.contextmanager
def _reading(options: argparse.Namespace, state: SceneState, playback: Playback) -> Iterator[None]:
    """A bag in a thread of its own."""
    from siha_ros.viewer.bag import BagReader

    stop = threading.Event()
    with BagReader(options.bag, state, options.node, options.truth, options.truth_graph) as reader:

        def read() -> None:
            try:
                reader.read(stop)
            except ValueError as error:
                print(f"siha view: {error}", file=sys.stderr)
            playback.growing = False

        thread = threading.Thread(target=read, name="siha_viewer_bag")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
