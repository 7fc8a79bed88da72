"""``siha reproduce``: the paper's experiments, and some beyond it. Imports offline_training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from siha_ros.arguments import budget, positive, seed

SYSTEMS = ("springs", "charged", "kuramoto")
EXPERIMENTS = {
    "table1": "three systems, 1 to 5 hidden agents: visible-only NRI, HSP-sa, SIHA",
    "table2": "CMU motion capture, left arm and left leg hidden (--data)",
    "focus": "which joints the hands are joined to, as a figure (--data)",
    "alphas": "strengths of the guided attention",
    "encoders": "of HSP-sa: MLP, Transformer, GNN, Slot Attention, Set Transformer",
    "unsupervised": "three variants without the hidden trajectories as targets",
    "seeds": "mean and deviation of five runs",
    "count": "an unknown number of hidden agents",
    "unmodeled": "further agents that no model knows of",
    "oracle": "HSP-sg under the true graph",
    "explained": "trajectories that explain the visible agents, in the paper's setting",
    "shared": "one network for one and two hidden agents, beside one for each",
    "baselines": "last value, constant velocity, interpolation, ridge, PCA, with their times",
}


def reproduce_options(commands: Any) -> None:
    """The subcommand and its options."""
    command = commands.add_parser(
        "reproduce",
        help="the paper's experiments, beside the paper's numbers",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="experiments:\n" + "\n".join(f"  {name:<14}{text}" for name, text in EXPERIMENTS.items()),
    )
    command.add_argument(
        "experiment",
        nargs="+",
        choices=(*EXPERIMENTS, "all"),
        metavar="NAME",
        help="one or more of those below, or all, in the order of their worth",
    )
    command.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, metavar="SYSTEM")
    command.add_argument("--hidden", nargs="+", type=int, choices=range(1, 6), default=range(1, 6), metavar="N")
    command.add_argument(
        "--budget",
        type=budget,
        default=None,
        metavar="20m|10h",
        help="scales all schedules so that what is asked for takes about so long, by the pace of a few steps that are"
        " timed here beforehand (default: the schedules as they are, about 10h of two cores for all)",
    )
    command.add_argument("--samples", type=positive, default=200_000, help="to train on (default: %(default)s)")
    command.add_argument("--test", type=positive, default=2000, help="to measure on (default: %(default)s)")
    command.add_argument(
        "--data", type=Path, default=None, metavar="DIR", help="CMU motion capture: a folder with the folders 35 and 69"
    )
    command.add_argument(
        "--encoder",
        choices=("paper", "mlp"),
        default="paper",
        help="of trajectories; mlp: in place of the paper's convolutions for charged and kuramoto, many times faster"
        " (default: %(default)s)",
    )
    command.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the configs, such as evidence=0",
    )
    command.add_argument("--seed", type=seed, default=0)
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: %(default)s)")
    command.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")
    command.add_argument(
        "--work",
        type=Path,
        default=Path("experiments"),
        help="folder of models and results; what is done is not done again (default: %(default)s)",
    )
    command.set_defaults(run=_reproduce)


def _reproduce(options: argparse.Namespace) -> None:
    import torch

    from offline_training.experiments.cells import Options
    from offline_training.experiments.lab import Lab
    from offline_training.experiments.queue import all_cells, scaled, too_short, work
    from siha_ros.estimator import choose_device

    if options.threads:
        torch.set_num_threads(options.threads)
    choose_device(options.device)  # raises where there is none
    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data {options.data}: no such folder")
    names = list(EXPERIMENTS) if "all" in options.experiment else list(dict.fromkeys(options.experiment))
    lab = Lab(options.work, options.test, options.device, options.settings)
    wanted = Options(
        samples=options.samples,
        seed=options.seed,
        systems=tuple(options.systems),
        hidden=tuple(sorted(options.hidden)),
        data=options.data,
        encoder=options.encoder,
    )
    minutes = None if options.budget is None else options.budget / 60
    if minutes is not None:
        all_cells(names, lab, wanted, quiet=True)  # they tell of which kinds of training the pace is needed
        lab.measure_pace()
    wanted = scaled(names, lab, wanted, minutes)
    if warning := too_short(wanted.scale):
        print(warning, flush=True)
    tables, failed = work(names, lab, wanted)
    for name, text in tables.items():
        print(f"\n{name}\n\n{text}")
    if failed:
        raise SystemExit(f"siha: failed: {', '.join(failed)}; the same command tries them again")
