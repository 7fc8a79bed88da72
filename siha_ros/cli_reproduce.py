"""``siha reproduce``: the paper's experiments. Imports offline_training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from siha_ros.arguments import positive, seed

SYSTEMS = ("springs", "charged", "kuramoto")


def reproduce_options(commands: Any) -> None:
    """The subcommand and its options."""
    command = commands.add_parser("reproduce", help="the paper's experiments, beside the paper's numbers")
    command.add_argument("experiment", choices=("table1",), help="table1: three systems, 1 to 5 hidden agents")
    command.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, metavar="SYSTEM")
    command.add_argument("--hidden", nargs="+", type=int, choices=range(1, 6), default=range(1, 6), metavar="N")
    command.add_argument(
        "--budget",
        type=_minutes,
        default=None,
        metavar="MINUTES",
        help="of each cell, such as 20m (default: all)",
    )
    command.add_argument("--samples", type=positive, default=200_000, help="to train on (default: %(default)s)")
    command.add_argument("--test", type=positive, default=2000, help="to measure on (default: %(default)s)")
    command.add_argument("--seed", type=seed, default=0)
    command.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")
    command.add_argument(
        "--work",
        type=Path,
        default=Path("experiments"),
        help="folder of checkpoints and results; cells that are done are not done again (default: %(default)s)",
    )
    command.set_defaults(run=_reproduce)


def _minutes(text: str) -> float:
    try:
        minutes = float(text.removesuffix("m"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected minutes, such as 20m") from None
    if not 0 < minutes < 1e5:
        raise argparse.ArgumentTypeError(f"{text!r}: expected minutes above 0")
    return minutes


def _reproduce(options: argparse.Namespace) -> None:
    import torch

    from offline_training.experiments.table1 import table1

    if options.threads:
        torch.set_num_threads(options.threads)
    table = table1(
        options.work / "table1",
        options.systems,
        sorted(options.hidden),
        minutes=options.budget,
        samples=options.samples,
        test=options.test,
        seed=options.seed,
    )
    print("ours (paper's)\n\n" + table)
