"""``siha replay``: a bag through a bundle's estimator, written with the outputs beside it, or scored on hidden agents."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from siha_ros.estimator import load_estimator
from siha_ros.node.markers import MarkerScene
from siha_ros.node.parameters import DECLARATIONS, ParameterError, Parameters
from siha_ros.replay.bag import Bag, BagWriter, Entry
from siha_ros.replay.outputs import BagOutputs
from siha_ros.replay.stream import Stream, Summary, run

NODE = "/siha"  # whose topics the outputs are
LINES_SHOWN = 10


def replay_command(options: argparse.Namespace) -> None:
    """Do what the options of ``siha replay`` ask for. Raises ValueError, in one line."""
    parameters = replay_parameters(options)
    with Bag(options.bag) as bag:
        estimator = load_estimator(options.bundle, options.device)
        stream = Stream(bag, estimator.bundle.config, parameters)
        estimator.warm_up()
        out = options.out or Path(f"{Path(options.bag).resolve().stem}_siha")
        summary = write_outputs(stream, estimator, out, options.storage)
    say(summary)
    print(
        f"{bag.path}: {summary.messages} messages on {len(stream.agents)} topics, {summary.stream_seconds:.1f} s;"
        f" {summary.estimates} estimates in {summary.run_seconds:.2f} s:"
        f" {summary.times_real_time:.1f} times real time\nwrote {out}"
    )


def write_outputs(stream: Stream, estimator: Any, out: Path, storage: str) -> Summary:
    """Write the bag's messages and the estimates of the stream to a new bag. What the bag holds on the node's topics
    already is left out."""
    body, parameters = stream.config.identified, stream.parameters
    with BagWriter(out, storage, stream.bag) as writer:
        size = parameters.markers_size or (0.06 if body else 0.25)
        markers = MarkerScene(size, parameters.markers_edge_threshold, writer.new)
        outputs = BagOutputs(writer, NODE, body=body, markers=markers)

        def copy(entry: Entry) -> None:
            if not entry.topic.startswith(f"{NODE}/"):
                writer.copy(entry)

        def at(_: int, moment: float) -> None:
            outputs.time_ns = round(moment * 1e9)

        return run(stream, estimator, outputs, writer.new, on_entry=copy, on_tick=at)


def say(summary: Summary) -> None:
    """What the node would have logged, each line once."""
    lines = list(dict.fromkeys(summary.lines))
    for line in lines[:LINES_SHOWN]:
        print(f"siha: {line}", file=sys.stderr)
    if len(lines) > LINES_SHOWN:
        print(f"siha: and {len(lines) - LINES_SHOWN} lines more", file=sys.stderr)


def replay_parameters(options: argparse.Namespace) -> Parameters:
    """The node's parameters: those of the file, then those of the options. Raises ParameterError."""
    values = {} if options.params is None else file_parameters(options.params)
    given = {
        "rate": options.rate,
        "input.topic": options.topics,
        "input.type": options.type,
        "input.agents": [name.strip() for name in (options.agents or "").split(",") if name.strip()],
    }
    return Parameters.checked(values | {name: value for name, value in given.items() if value})


def file_parameters(file: Path) -> dict[str, Any]:
    """Values by name of a parameter file as the node takes it. Raises ParameterError."""
    try:
        content = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParameterError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    nodes = content if isinstance(content, dict) else {}
    values: dict[str, Any] = {}
    for node, body in nodes.items():
        if node.rsplit("/", 1)[-1] in ("**", "siha") and isinstance(body, dict):
            values |= _flat(body.get("ros__parameters") or {})
    if not values:
        raise ParameterError(f"{file}: expected parameters of the node, under '/**: ros__parameters:' or 'siha: ...'")
    known = {declaration.name for declaration in DECLARATIONS}
    unknown = sorted(name for name in set(values) - known if not name.startswith(("use_sim_time", "qos_overrides.")))
    if unknown:
        raise ParameterError(f"{file}: the node has no parameter {', '.join(unknown)}")
    return {name: value for name, value in values.items() if name in known}


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in tree.items():
        values |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return values
