"""``siha train FOLDER``: options, what is printed, and how a folder is told from the name of a shipped bundle."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from siha_ros.arguments import budget, factor, positive

COMMAND = "folder"


def with_folder(arguments: Sequence[str], known: Sequence[str]) -> list[str]:
    """Arguments in which ``train PATH`` has become ``train folder PATH``."""
    rest = list(arguments)
    if len(rest) > 1 and rest[0] == "train" and rest[1] not in known and not rest[1].startswith("-"):
        return ["train", COMMAND, *rest[1:]]
    return rest


def folder_options(train: Any) -> argparse.ArgumentParser:
    """Add the command and its options to the parsers of ``siha train``."""
    folder: argparse.ArgumentParser = train.add_parser(
        COMMAND,
        usage="siha train FOLDER [options]",
        help="your own team of like agents: siha train FOLDER, with recordings of it (bags, CSV, NPZ, C3D)",
    )
    folder.add_argument("recordings", type=Path, metavar="FOLDER", help="a folder of recordings, or one file")
    folder.add_argument("--out", type=Path, default=None, help="folder of the bundle (default: bundles/NAME of FOLDER)")
    read = folder.add_argument_group("what files may leave open")
    read.add_argument("--rate", type=factor, default=None, metavar="HZ", help="of files that number their frames")
    read.add_argument(
        "--unit",
        type=factor,
        default=None,
        metavar="M",
        help="metres in a unit of the files (default: what they say, or 1)",
    )
    read.add_argument("--time-unit", type=factor, default=None, metavar="S", help="seconds in a unit of their times")
    read.add_argument("--names", default=None, metavar="A,B", help="agents to take (default: all)")
    read.add_argument("--topics", default=None, metavar="TOPIC", help="of bags (default: /{agent}/pose, as the node)")
    read.add_argument(
        "--stamp-source",
        choices=("header", "arrival"),
        default=None,
        help="time of a bag's samples: the header's stamp, or when it was recorded (default: header, as the node)",
    )
    team = folder.add_argument_group("what is inferred where it is not given")
    team.add_argument("--dt", type=factor, default=None, metavar="S", help="step of the grid")
    team.add_argument("--window", type=positive, default=None, metavar="FRAMES", help="length of a window")
    team.add_argument("--agents", type=positive, default=None, metavar="N", help="size of the team")
    team.add_argument("--hidden", type=positive, default=2, metavar="N", help="most hidden at once (default: 2)")
    folder.add_argument(
        "--budget",
        type=budget,
        default=None,
        metavar="20m",
        help="in place of --scale: what training the networks may take, by the pace of a few steps on this machine",
    )
    folder.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="to train on (default: %(default)s)")
    folder.set_defaults(run=_run)
    return folder


def _run(options: argparse.Namespace) -> None:
    from offline_training.recordings.recording import ReadOptions, read_recordings

    if options.budget is not None and options.scale != 1.0:
        raise ValueError("--budget chooses the --scale: give one of them")
    path: Path = options.recordings
    names = options.names.split(",") if options.names else ()
    arrival = options.stamp_source == "arrival"
    read = ReadOptions(options.rate, options.unit, options.time_unit, names, options.topics, arrival)
    recordings = read_recordings(path, read)  # what cannot be read is said before anything slow is loaded

    import torch

    from offline_training.folder import train_folder
    from siha_ros.cli_evaluate import losses_table
    from siha_ros.estimator import choose_device

    choose_device(options.device)  # raises where there is none
    if options.threads:
        torch.set_num_threads(options.threads)
    name = path.resolve().name.split(".")[0]
    out = options.out or Path("bundles") / name
    report = train_folder(
        recordings,
        out,
        options.work or Path("training") / out.name,
        source=path.name,
        dt=options.dt,
        agents=options.agents,
        window=options.window,
        hidden=options.hidden,
        scale=options.scale,
        budget=options.budget,
        seed=options.seed,
        device=options.device,
        command=_command(options),
    )
    if report is not None:
        print(losses_table(report))
    print(f"wrote {out}: siha bundle info {out}, ros2 launch siha_ros siha.launch.py bundle:={out.resolve()}")


def _command(options: argparse.Namespace) -> str:
    """What was asked for that decides the bundle, as it would be typed beside the folder; ./ since a name alone may be
    that of a shipped bundle."""
    parts = ["siha", "train", f"./{options.recordings.name}"]
    for name in ("rate", "unit", "time_unit", "names", "topics", "stamp_source", "dt", "window", "agents", "hidden"):
        value = getattr(options, name)
        if value is not None:
            parts += [f"--{name.replace('_', '-')}", str(value)]
    parts += ["--scale", str(options.scale)] if options.budget is None else []  # that which it chooses is added
    parts += ["--seed", str(options.seed)]
    return shlex.join(parts)
