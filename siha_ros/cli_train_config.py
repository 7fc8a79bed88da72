"""``siha train CONFIG.yaml``: options, and what is printed."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from siha_ros.arguments import budget, positive, seed
from siha_ros.tables import columns

COMMAND = "config"
LONGEST = 100.0  # times the schedule with the usual options that a budget may buy; of the paper's never more than all


def with_config(arguments: Sequence[str]) -> list[str]:
    """Arguments in which ``train NAME.yaml`` has become ``train config NAME.yaml``."""
    rest = list(arguments)
    if len(rest) > 1 and rest[0] == "train" and rest[1].endswith((".yaml", ".yml")):
        return ["train", COMMAND, *rest[1:]]
    return rest


def config_options(train: Any) -> None:
    """Add the command and its options to the parsers of ``siha train``."""
    config: argparse.ArgumentParser = train.add_parser(
        COMMAND,
        usage="siha train CONFIG.yaml [options]",
        help="an experiment of the paper: siha train CONFIG.yaml; springs.yaml, charged.yaml, kuramoto.yaml and"
        " cmu35.yaml come with the package",
    )
    config.add_argument("config", metavar="CONFIG.yaml", help="a file, or one of the package's by name")
    config.add_argument("--data", type=Path, default=None, metavar="FOLDER", help="motion capture, for cmu35.yaml")
    chosen = config.add_mutually_exclusive_group()
    chosen.add_argument("--paper", action="store_true", help="the paper's own setting and schedule: no options")
    chosen.add_argument("--options", default=None, metavar="A,B", help="those of the config (default: its usual ones)")
    config.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="overrule a key, such as hidden=3 (repeatable)"
    )
    config.add_argument(
        "--budget",
        type=budget,
        default=None,
        metavar="20m",
        help="scale the schedule to this time, by the pace of a few steps of each stage on this machine",
    )
    config.add_argument(
        "--work",
        type=Path,
        default=None,
        help="folder of checkpoints, logs and weights; an interrupted run goes on from it (default: training/NAME)",
    )
    config.add_argument(
        "--out", type=Path, default=None, help="folder of the bundle, of Springs (default: bundles/NAME of WORK)"
    )
    config.add_argument("--seed", type=seed, default=None, help="(default: the config's)")
    config.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")
    config.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: %(default)s)")
    config.add_argument("--compile", action="store_true", help="by torch.compile, which takes minutes to begin with")
    config.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    import torch

    from offline_training.config import load_config
    from offline_training.configured import no_bundle, summary, train_config
    from offline_training.stages import processes

    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data {options.data}: no such folder")
    if options.threads:
        torch.set_num_threads(options.threads)
    names = [name for name in (options.options or "").split(",") if name]
    seeded = [] if options.seed is None else [f"seed={options.seed}"]
    usual = options.options is None and not options.paper
    config = load_config(options.config, None if usual else names, options.set + seeded)
    work = options.work or Path("training") / Path(options.config).stem
    out, without = options.out or Path("bundles") / work.name, no_bundle(config)
    if options.out and without:
        raise ValueError(f"--out: no bundle is made of these networks: {without}")
    with processes.joined():
        result = train_config(
            config,
            work,
            options.data,
            budget=options.budget,
            most=1.0 if options.paper else LONGEST,
            device=_device(options.device),
            compiled=options.compile,
            out=out,
            command=_command(options),
        )
        if processes.number() == 0:
            print("\n".join(columns(summary(result))))
            print(f"weights are in {work / 'weights'}")
            print(f"no bundle: {without}" if without else f"wrote {out}: siha bundle info {out}")


def _command(options: argparse.Namespace) -> str:
    """What was asked for that decides the weights, as it would be typed."""
    parts = ["siha", "train", options.config]
    parts += ["--paper"] * options.paper
    parts += [] if options.options is None else ["--options", options.options]
    parts += [part for pair in options.set for part in ("--set", pair)]
    parts += [] if options.budget is None else ["--budget", f"{options.budget:g}s"]
    parts += [] if options.seed is None else ["--seed", str(options.seed)]
    return shlex.join(parts)


def _device(name: str) -> str:
    """The device of this process. Raises ValueError for one that is not there."""
    import torch

    from siha_ros.estimator import choose_device

    if name == "cpu":
        return name
    choose_device(name)  # raises where there is none
    own = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(own)
    return f"cuda:{own}"
