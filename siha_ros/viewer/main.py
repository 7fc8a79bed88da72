"""The viewer's process: options, ROS in one thread, drawing in the other, a clean end."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading

from siha_ros.viewer.skeletons import CMU_BONES, load_bones


def main(arguments: list[str] | None = None) -> int:
    """Show the node's outputs in the browser until SIGINT or SIGTERM; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    ros_start = arguments.index("--ros-args") if "--ros-args" in arguments else len(arguments)
    options = _options().parse_args(arguments[:ros_start])
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        _view(options, arguments[ros_start:], stop)
    except ModuleNotFoundError as error:
        hint = "pip install 'viser>=1.1'" if error.name == "viser" else "source ROS 2 and this package's install folder"
        print(f"siha view: {error}; {hint}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"siha view: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="siha view",
        description="Live 3-D view of a siha node in the browser. Options of ROS follow after --ros-args.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to serve on; 0.0.0.0 opens it to other machines")
    parser.add_argument("--port", type=int, default=8080, help="port to serve on; the next free one where it is taken")
    parser.add_argument("--node", default="/siha", help="full name of the node whose outputs are shown")
    parser.add_argument("--truth", default="truth", help="topic of the true positions, where there is one")
    parser.add_argument("--truth-graph", default="truth_graph", help="topic of the true graph, where there is one")
    parser.add_argument("--rate", type=float, default=15.0, help="pictures per second")
    parser.add_argument("--bones", metavar="FILE", help="YAML list of joint pairs to draw as bones (default: CMU's)")
    return parser


def _view(options: argparse.Namespace, ros_arguments: list[str], stop: threading.Event) -> None:
    if not 0 < options.rate <= 60:
        raise ValueError(f"--rate {options.rate:g}: expected more than 0 and at most 60 pictures per second")
    bones = load_bones(options.bones) if options.bones else CMU_BONES

    import rclpy
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from siha_ros.viewer.browser import BrowserView
    from siha_ros.viewer.scene_state import SceneState
    from siha_ros.viewer.subscriber import ViewerNode

    state = SceneState(bones)
    browser = BrowserView(state, options.host, options.port)
    rclpy.init(args=ros_arguments, signal_handler_options=SignalHandlerOptions.NO)
    node = ViewerNode(state, options.node, options.truth, options.truth_graph)
    executor = SingleThreadedExecutor()
    executor.add_node(node)

    def listen() -> None:
        with contextlib.suppress(ExternalShutdownException):
            executor.spin()

    listener = threading.Thread(target=listen, name="siha_viewer_ros")
    listener.start()
    print(f"siha view: {browser.url} shows {options.node}", flush=True)
    try:
        while not stop.wait(1 / options.rate):
            browser.update()
    finally:
        executor.shutdown()
        listener.join()
        node.destroy_node()
        rclpy.try_shutdown()
        browser.stop()
