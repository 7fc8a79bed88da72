"""Runs a demo: starts node, simulator or player and viewer, scores while they run, and sums up.

Options are flags or environment variables, see siha_ros.demo.options. Ends by itself, or cleanly on Ctrl-C.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from siha_ros.demo.options import Options, parse_options
from siha_ros.demo.processes import Processes
from siha_ros.resources import bundle_path, config_path

if TYPE_CHECKING:
    from siha_ros.demo.scoring import Score

SCORER = "demo_scorer"
TEAM = [f"robot_{i}" for i in range(1, 8)]
GRACE = 0.5  # s after the last frame in which the last estimates arrive


class DemoError(RuntimeError):
    """A demo that cannot go on; one line, and what a child process said last."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of `make demo`: 0 after a run or Ctrl-C, 1 with one line where it cannot run."""
    options = parse_options(sys.argv[1:] if argv is None else argv)
    console = Console()
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.randint(1, 101)))
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    from siha_ros.demo.publishing import stop_on_signals

    stop = stop_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="siha_demo_") as folder:
            _run(options, console, Processes(Path(folder)), stop)
    except (DemoError, FileNotFoundError, ValueError) as error:
        console.print(f"demo: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    return 0


def _run(options: Options, console: Console, processes: Processes, stop: threading.Event) -> None:
    bundle = bundle_path(options.bundle)
    try:
        processes.start("node", "siha_ros.node", node_arguments(bundle))
        name, module, arguments = source_command(options, bundle)
        processes.start(name, module, arguments)
        if not options.headless:
            port = options.port or _free_port()
            processes.start("viewer", "siha_ros.viewer", ["--port", str(port)])
            console.print(f"3-D view: http://localhost:{port}", highlight=False, soft_wrap=True)
        console.print(
            f"starting node, {name} and scorer on ROS_DOMAIN_ID={os.environ['ROS_DOMAIN_ID']}",
            highlight=False,
            soft_wrap=True,
        )
        _score(options, bundle, name, console, processes, stop)
    finally:
        processes.stop()


def node_arguments(bundle: Path) -> list[str]:
    """ROS arguments of the node: the parameter file that launch uses too, and the bundle."""
    return ["--ros-args", "--params-file", str(config_path("siha.yaml")), "-p", f"bundle:={bundle}"]


def source_command(options: Options, bundle: Path) -> tuple[str, str, list[str]]:
    """Name, module and arguments of the process that publishes: simulator or player."""
    wait = ["--wait-for", "siha", SCORER]
    if options.body is None:
        flags = ["--seed", options.seed, "--duration", options.duration, "--losses", options.losses]
        return "simulator", "siha_ros.demo.simulator", [*map(str, flags), *wait]
    flags = [options.body, "--limb", options.limb, "--duration", options.duration, "--bundle", bundle]
    trials = ["--trial", *options.trials] if options.trials else []
    return "player", "siha_ros.demo.player", [*map(str, flags), *trials, *(["--force"] if options.force else []), *wait]


def _score(
    options: Options, bundle: Path, source: str, console: Console, processes: Processes, stop: threading.Event
) -> None:
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from siha_ros.demo.methods import baseline_methods, node_parameters, window_factory
    from siha_ros.demo.scorer import Scorer
    from siha_ros.demo.scoring import BODY_BINS, TEAM_BINS, Score
    from siha_ros.demo.summary import LiveTable
    from siha_ros.model.bundle import load_bundle

    model = load_bundle(bundle)
    score = Score(BODY_BINS if options.body else TEAM_BINS)
    methods = baseline_methods(model)
    make_window = window_factory(model.config, node_parameters(config_path("siha.yaml")))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = rclpy.create_node(SCORER)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        scorer = Scorer(node, score, agents=[] if options.body else TEAM, make_window=make_window, methods=methods)
        table = LiveTable(console, ["siha", *methods], with_graph=options.body is None)
        next_row = time.monotonic() + 1.0
        ended: float | None = None
        viewing = not options.headless
        while not stop.is_set() and (ended is None or time.monotonic() < ended + GRACE):
            executor.spin_once(timeout_sec=0.02)
            scorer.process()
            if time.monotonic() >= next_row:
                next_row += 1.0
                if scorer.begun and ended is None:
                    table.add(scorer.row())
            ended = ended or _source_ended(source, processes)
            if viewing and processes.exit_code("viewer") is not None:
                viewing = False
                console.print(
                    f"the 3-D view has ended: {processes.last_lines('viewer', 1)}", highlight=False, soft_wrap=True
                )
        scorer.process(flush=True)
        executor.shutdown()
    finally:
        rclpy.try_shutdown()
    if score.stamps:
        _sum_up(options, score, console)
    if score.unscored:
        console.print(
            f"{score.unscored} estimates were not scored: the truth, or what they rest on, was not heard in time",
            highlight=False,
            soft_wrap=True,
        )
    if not score.stamps and not stop.is_set():
        raise DemoError(f"the node gave no estimate; its last lines:\n{processes.last_lines('node')}")


def _source_ended(source: str, processes: Processes) -> float | None:
    """The time at which simulator or player ended, None while it runs. Raises DemoError where it or the node failed."""
    code, node = processes.exit_code(source), processes.exit_code("node")
    if node is not None:
        raise DemoError(f"the node ended with code {node}; its last lines:\n{processes.last_lines('node')}")
    if code:
        said = processes.last_lines(source)
        waited = f"\nthe node's last lines:\n{processes.last_lines('node')}" if "did not subscribe" in said else ""
        raise DemoError(f"{said or f'the {source} ended with code {code}'}{waited}")
    return None if code is None else time.monotonic()


def _sum_up(options: Options, score: Score, console: Console) -> None:
    from siha_ros.demo.summary import draw, summary_lines, summary_table

    report = score.report()
    what = f"{options.limb.replace('_', ' ')} of a walking body" if options.body else "robots of a team"
    title = f"{what[0].upper()}{what[1:]}, lost and recovered"
    console.print(summary_table(report, title))
    console.print(summary_lines(report), highlight=False, soft_wrap=True)
    kind = "body" if options.body else "team"
    picture = options.report.with_suffix(".png") if options.report else Path(f"demo_{kind}.png")
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw(score, report, picture, title)
    console.print(f"picture: {picture}", highlight=False, soft_wrap=True)
    if options.report:
        options.report.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n")
        console.print(f"report: {options.report}", highlight=False, soft_wrap=True)


def _free_port(first: int = 8080, tries: int = 100) -> int:
    for port in range(first, first + tries):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise DemoError(f"no free port from {first} to {first + tries - 1} for the browser view: PORT=n chooses one")
