"""The command ``siha``: train, get data, evaluate, replay, bench, look into bundles, and start what runs over ROS 2.

Modules are imported by the command that needs them. What cannot be done is said in one line, with exit code 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from siha_ros.arguments import duration, factor, output_file, positive, seed
from siha_ros.cli_bench import bench_options
from siha_ros.cli_calibrate import calibrate_options
from siha_ros.cli_data import data_options
from siha_ros.cli_reproduce import reproduce_options
from siha_ros.cli_train_config import config_options, with_config
from siha_ros.cli_train_folder import COMMAND, folder_options, with_folder
from siha_ros.memory import keep_freed_memory, lacks_memory
from siha_ros.node import HELP

EXTERNAL = {
    "node": ("siha_ros.node.main", "start the node; options of ROS 2 follow: siha node --ros-args -p bundle:=body"),
    "view": ("siha_ros.viewer.main", "show a running node, or a bag with its outputs, in the browser"),
    "simulate": ("siha_ros.demo.simulator", "publish a simulated robot team that loses members"),
}
BATCHES = ("train", "reproduce", "evaluate", "calibrate")  # commands that work through large arrays


class CommandError(ValueError):
    """What a user can mend; the message is one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for input that cannot be used, 130 when interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments[:1] == ["node"] and arguments[1:2] in (["--help"], ["-h"]):
            print(HELP)
            return 0
        if arguments and arguments[0] in EXTERNAL:
            return _external(arguments[0], arguments[1:])
        options = _parser().parse_args(with_folder(with_config(arguments), ("springs_team", "body", "config", COMMAND)))
        if isinstance(threads := getattr(options, "threads", None), int):
            os.environ["OMP_NUM_THREADS"] = str(threads)
        if arguments[0] in BATCHES:
            keep_freed_memory()
        run: Callable[[argparse.Namespace], None] = options.run
        run(options)
    except KeyboardInterrupt:
        again = "; the same command goes on from its checkpoints" * (arguments[:1] in (["train"], ["reproduce"]))
        print(f"siha: interrupted{again}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        return _refused(error)
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        return _refused(f"not enough memory: {error}")
    return 0


def _refused(error: object) -> int:
    print(f"siha: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


def _external(name: str, arguments: list[str]) -> int:
    from importlib import import_module

    try:
        module = import_module(EXTERNAL[name][0])
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        raise CommandError(
            f"siha {name} needs {missing}: source a ROS 2 and the built package, or run make setup"
        ) from None
    result: int | None = module.main(arguments)
    return result or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "siha",
        description="Where the hidden members of a robot team or body are, who influences whom, and where all go.",
        epilog="`siha COMMAND --help` tells the options of a command.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _train_options(commands)
    calibrate_options(commands)
    data_options(commands)
    _evaluate_options(commands)
    _replay_options(commands)
    reproduce_options(commands)
    bench_options(commands)
    bundle = commands.add_parser("bundle", help="look into a bundle").add_subparsers(metavar="COMMAND", required=True)
    info = bundle.add_parser("info", help="what a bundle holds, what it is for, and how good it is")
    info.add_argument("bundle", metavar="DIR", help="folder of a bundle, or the name of a shipped one")
    info.set_defaults(run=_bundle_info)
    for name, (_, text) in EXTERNAL.items():
        commands.add_parser(name, help=text, add_help=False)
    return parser


# train


def _train_options(commands: Any) -> None:
    train = commands.add_parser("train", help="train a bundle").add_subparsers(metavar="BUNDLE", required=True)
    springs = train.add_parser("springs_team", help="the simulated robot team; data are simulated on the way")
    springs.add_argument(
        "--set",
        choices=("any", "fresh"),
        default="any",
        help="any: windows of any time in the team's frame, as in the node (default). fresh: the paper's, frames 1-50",
    )
    springs.add_argument("--samples", type=positive, default=None, help="training windows to simulate")
    springs.add_argument(
        "--out",
        type=Path,
        default=None,
        help="folder of the bundle (default: bundles/springs_team, or bundles/springs_fresh)",
    )
    springs.set_defaults(run=_train_springs)
    body = train.add_parser("body", help="a walking body, from motion capture")
    body.add_argument("--data", type=Path, required=True, help="folder with one .asf file and its .amc files")
    body.add_argument(
        "--out", type=Path, default=Path("bundles/body"), help="folder of the bundle (default: %(default)s)"
    )
    body.set_defaults(run=_train_body)
    config_options(train)
    for command in (springs, body, folder_options(train)):
        command.add_argument(
            "--work",
            type=Path,
            default=None,
            help="folder of checkpoints, logs and curves; an interrupted run goes on from it (default: training/NAME)",
        )
        command.add_argument(
            "--scale", type=factor, default=1.0, help="multiplies the length of every stage (default: %(default)s)"
        )
        command.add_argument("--seed", type=seed, default=0)
        command.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")


def _train_springs(options: argparse.Namespace) -> None:
    from offline_training.springs import train_bundle

    name = "springs_team" if options.set == "any" else "springs_fresh"
    chosen = {} if options.samples is None else {"samples": options.samples}
    _set_threads(options)
    out = train_bundle(
        options.set,
        options.out or Path("bundles") / name,
        options.work or Path("training") / name,
        scale=options.scale,
        seed=options.seed,
        **chosen,
    )
    print(f"wrote {out}")


def _train_body(options: argparse.Namespace) -> None:
    from offline_training.body import train_bundle

    _check_folder(options.data, "--data")
    _set_threads(options)
    work = options.work or Path("training") / options.out.name
    print(f"wrote {train_bundle(options.data, options.out, work, scale=options.scale, seed=options.seed)}")


# evaluate


def _evaluate_options(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="measure the bundle of a simulated team or a body on test data")
    evaluate.add_argument(
        "--bundle", required=True, metavar="DIR", help="folder of a bundle, or the name of a shipped one"
    )
    evaluate.add_argument(
        "--set",
        choices=("fresh", "any"),
        default=None,
        help="springs: which test set (default: the one the bundle is for)",
    )
    evaluate.add_argument(
        "--samples", type=positive, default=None, metavar="N", help="test windows (default: 2000; a body: 400)"
    )
    evaluate.add_argument(
        "--data", type=Path, default=None, metavar="FOLDER", help="a body: folder with one .asf file and its .amc files"
    )
    who = evaluate.add_mutually_exclusive_group()
    who.add_argument(
        "--hide",
        metavar="LIMB|A,B",
        default=None,
        help="a body: the limb or the joints that are hidden; with --losses also limbs, halves or joints: a random "
        "limb (default), upper or lower half of one, or joint each time",
    )
    who.add_argument(
        "--hidden", type=positive, default=None, metavar="N", help="like agents: how many are hidden (default: 2)"
    )
    evaluate.add_argument(
        "--lose",
        default="whole",
        metavar="whole|FRAME",
        help="hidden in the whole window, or from a frame of it on (default: whole)",
    )
    evaluate.add_argument(
        "--losses",
        type=positive,
        default=None,
        metavar="N",
        help="instead: N losses at random times of long runs, estimates one after another as in the node",
    )
    evaluate.add_argument(
        "--noise",
        type=factor,
        default=None,
        metavar="M",
        help="with --losses: deviation, in metres on each axis, of noise that positions are seen with",
    )
    evaluate.add_argument(
        "--faster",
        type=factor,
        default=None,
        metavar="F",
        help="with --losses of a simulated team: played F times as fast, which is on springs F squared times as stiff",
    )
    evaluate.add_argument(
        "--rate",
        type=factor,
        default=5.0,
        metavar="HZ",
        help="with --losses: estimates a second (default: %(default)s)",
    )
    evaluate.add_argument("--alone", action="store_true", help="siha without what it is compared with: faster")
    evaluate.add_argument(
        "--split", choices=("test", "validation"), default="test", help="which recordings (default: test)"
    )
    evaluate.add_argument("--seed", type=seed, default=0)
    evaluate.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")
    evaluate.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N or auto (default: %(default)s)")
    evaluate.add_argument("--json", type=output_file, default=None, metavar="FILE", help="write the report there too")
    evaluate.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> None:
    from siha_ros.cli_evaluate import evaluate_command

    _set_threads(options)
    report, text = evaluate_command(options)
    print(text)
    _write_json(options.json, report)


# replay


def _replay_options(commands: Any) -> None:
    replay = commands.add_parser("replay", help="run a recorded bag through a bundle, without ROS, and score it")
    replay.add_argument("bag", type=Path, metavar="BAG", help="rosbag2 (folder, .mcap, .db3) or ROS 1 bag (.bag)")
    replay.add_argument(
        "--bundle", required=True, metavar="DIR", help="folder of a bundle, or the name of a shipped one"
    )
    replay.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="DIR",
        help="bag that is written (default: BAG's name with _siha; with --hide: none)",
    )
    replay.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap", help="(default: %(default)s)")
    replay.add_argument("--rate", type=factor, default=None, metavar="HZ", help="estimates a second (default: 20)")
    replay.add_argument(
        "--topics",
        default=None,
        metavar="TOPIC",
        help="input, as the node's input.topic (default: /{agent}/pose, a body: /skeleton)",
    )
    replay.add_argument("--type", default=None, help="message type of the input (default: that of the topics)")
    replay.add_argument("--agents", default=None, metavar="A,B", help="agents (default: all whose topic matches)")
    replay.add_argument("--group", default=None, help="team or body (default: all; with --hide: the first)")
    replay.add_argument(
        "--hide",
        default=None,
        metavar="A,B|LIMB|each",
        help="hide agents that the bag holds, and score the estimates of them; each: every limb or agent in turn",
    )
    replay.add_argument(
        "--at",
        type=duration,
        default=None,
        metavar="2s",
        help="with --hide: when (default: the window of the bundle + 1 s)",
    )
    replay.add_argument(
        "--for", dest="lasts", type=duration, default=1.0, metavar="1s", help="with --hide: how long (default: 1s)"
    )
    replay.add_argument(
        "--sweep", action="store_true", help="with --hide: one loss after another through the whole bag"
    )
    replay.add_argument(
        "--json", type=output_file, default=None, metavar="FILE", help="with --hide: write the report there too"
    )
    replay.add_argument(
        "--html", type=output_file, default=None, metavar="FILE", help="with --hide: and there, with plots"
    )
    replay.add_argument("--params", type=Path, default=None, metavar="FILE", help="parameter file of the node")
    replay.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")
    replay.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N or auto (default: %(default)s)")
    replay.set_defaults(run=_replay)


def _replay(options: argparse.Namespace) -> None:
    from siha_ros.cli_replay import replay_command

    if options.hide is None and (options.json or options.html or options.sweep or options.at is not None):
        raise CommandError("--at, --sweep, --json and --html go with --hide")
    if options.out is not None and (options.sweep or options.hide == "each"):
        raise CommandError("--out holds one loss: it goes with neither --sweep nor --hide each")
    _set_threads(options)
    replay_command(options)


# bundle info


def _bundle_info(options: argparse.Namespace) -> None:
    from siha_ros.bundle_info import describe
    from siha_ros.resources import bundle_path

    print(describe(bundle_path(options.bundle)))


# arguments and files


def _set_threads(options: argparse.Namespace) -> None:
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)


def _check_folder(folder: Path, option: str) -> None:
    if not folder.is_dir():
        raise CommandError(f"{option} {folder}: no such folder")


def _write_json(file: Path | None, content: dict[str, Any]) -> None:
    if file is not None:
        file.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
