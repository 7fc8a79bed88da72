"""``siha replay``: a bag through a bundle's estimator, written with the outputs in it, or scored on hidden agents."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from siha_ros.cli_evaluate import baselines
from siha_ros.estimator import load_estimator
from siha_ros.node.parameters import DECLARATIONS, ParameterError, Parameters
from siha_ros.replay.bag import Bag, BagWriter, Entry, MessageFactory, own_types
from siha_ros.replay.outputs import TRUTH_TOPIC, BagOutputs
from siha_ros.replay.score import full_observation, loss_times, score_losses
from siha_ros.replay.score_report import report, text
from siha_ros.replay.stream import Stream, Summary, Withheld, run
from siha_ros.replay.truth import Truth

NODE = "/siha"  # whose topics the outputs are
LINES_SHOWN = 10


def replay_command(options: argparse.Namespace) -> None:
    """Do what the options of ``siha replay`` ask for. Raises ValueError, in one line."""
    parameters = replay_parameters(options)
    with Bag(options.bag) as bag:
        estimator = load_estimator(options.bundle, options.device)
        stream = Stream(bag, estimator.bundle.config, parameters)
        if options.hide is None:
            write_command(options, stream, estimator)
        else:
            score_command(options, one_group(stream), estimator)


def one_group(stream: Stream) -> Stream:
    """The stream of the parameter group, else of the group that comes first: what is scored."""
    group = stream.parameters.group or stream.first_group()
    return Stream(stream.bag, stream.config, replace(stream.parameters, group=group, groups_max=1))


def write_command(options: argparse.Namespace, stream: Stream, estimator: Any) -> None:
    """Write the bag with the outputs, and say how fast that was."""
    out = options.out or Path(f"{options.bag.resolve().stem}_siha")
    summary = write_outputs(stream, estimator, out, options.storage)
    say(summary)
    print(
        f"{stream.bag.path}: {summary.messages} messages on {len(stream.places)} topics in {summary.stream_seconds:.1f}"
        f" s; {summary.estimates} estimates in {summary.run_seconds:.2f} s, {summary.times_real_time:.1f} times real"
        f" time\nwrote {out}"
    )


def score_command(options: argparse.Namespace, stream: Stream, estimator: Any) -> None:
    """Hide agents, score the estimates of them, print and write the report."""
    bag, config = stream.bag, estimator.bundle.config
    new = MessageFactory(own_types()).new
    at = config.window * config.dt + 1.0 if options.at is None else options.at
    starts = loss_times(bag.begin, bag.end, at, options.lasts, options.sweep)
    estimator.warm_up()
    full = full_observation(stream, estimator, new)
    say(full.summary)
    hidden = hidden_sets(options.hide, full.truth.names, config.limbs)
    losses = [Withheld(frozenset(names), start, start + options.lasts) for names in hidden for start in starts]
    if options.out is not None:
        say(write_outputs(stream, estimator, options.out, options.storage, losses[0], full.truth))
        print(f"wrote {options.out}\n")
    score = score_losses(stream, estimator, baselines(estimator), full, losses, new, progress=True)
    result = report(
        score,
        body=config.identified,
        bag=str(options.bag),
        bundle=config.name,
        duration_s=bag.duration,
        rate_hz=stream.parameters.rate,
        times_real_time=full.summary.times_real_time,
        hidden=hidden,
        at_s=at,
        for_s=options.lasts,
        sweep=options.sweep,
    )
    print(text(result))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    if options.html is not None:
        from siha_ros.replay.html import html_report

        options.html.write_text(html_report(result))


def hidden_sets(hide: str, known: list[str], limbs: dict[str, list[str]]) -> list[list[str]]:
    """Agents that are hidden together, for each series of losses: those of --hide, limbs standing for their joints, or
    each limb (else each agent) in turn for "each". Raises ValueError for one that the bag does not hold."""
    series = [[name.strip() for name in hide.split(",") if name.strip()]]
    if hide == "each":
        series = [[name] for name in (limbs or known)]
    found = [list(dict.fromkeys(agent for name in names for agent in limbs.get(name, [name]))) for names in series]
    unknown = sorted({agent for names in found for agent in names} - set(known))
    if unknown or not all(found):
        expected = ", ".join(["each", *limbs, *known])
        raise ValueError(f"--hide {hide}: the bag does not hold {', '.join(unknown) or 'that'}; expected of {expected}")
    return found


def write_outputs(
    stream: Stream,
    estimator: Any,
    out: Path,
    storage: str,
    withheld: Withheld | None = None,
    truth: Truth | None = None,
) -> Summary:
    """Write the bag's messages and the estimates of the stream to a new bag, also the truth where it is given. What the
    bag holds on the node's topics already is left out."""
    body, parameters = stream.config.identified, stream.parameters
    with BagWriter(out, storage, stream.bag) as writer:
        outputs = BagOutputs(
            writer,
            NODE,
            body=body,
            size=parameters.markers_size or (0.06 if body else 0.25),
            edge_threshold=parameters.markers_edge_threshold,
            truth=None if TRUTH_TOPIC in stream.bag.types else truth,
        )

        def copy(entry: Entry) -> None:
            if not entry.topic.startswith(f"{NODE}/"):
                writer.copy(entry)

        def at(_: int, moment: float) -> None:
            outputs.time_ns = round(moment * 1e9)

        estimator.warm_up()
        return run(
            stream,
            estimator,
            outputs.open,
            writer.new,
            close_sink=outputs.close,
            withheld=withheld,
            on_entry=copy,
            on_tick=at,
        )


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
        "group": options.group,
        "input.topic": options.topics,
        "input.type": options.type,
        "input.agents": [name.strip() for name in (options.agents or "").split(",") if name.strip()],
    }
    return Parameters.checked(values | {name: value for name, value in given.items() if value})


def file_parameters(file: Path) -> dict[str, Any]:
    """Values by name of a parameter file as the node takes it. Raises ParameterError."""
    try:
        content = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ParameterError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    nodes = content if isinstance(content, dict) else {}
    values: dict[str, Any] = {}
    for node, body in nodes.items():
        if str(node).rsplit("/", 1)[-1] in ("**", "siha") and isinstance(body, dict):
            given = body.get("ros__parameters")
            values |= _flat(given) if isinstance(given, dict) else {}
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
