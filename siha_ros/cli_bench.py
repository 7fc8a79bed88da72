"""``siha bench``: speed of windows, of training and of the running node on this machine. ``curves`` imports
offline_training."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from siha_ros.arguments import factor, output_file, positive, seed
from siha_ros.memory import keep_freed_memory

TRAINED = ("nri_5", "nri_7", "nri_10", "nri_31", "hsp_sa_7", "hsp_sg_7", "hsp_sa_10", "hsp_sg_10")
PRECISIONS = ("float32", "bf16")
CHOICES = ("paper", "features", "bf16", "narrow_decoder", "one_start", "muon", "evidence")
SCENARIOS = ("team_7", "team_50", "body_120", "body_240", "bodies_4")


def bench_options(commands: Any) -> None:
    """The subcommand, its options and its own subcommands."""
    bench = commands.add_parser("bench", help="speed of training, and of one window of the shipped bundles")
    bench.add_argument(
        "--bundles", nargs="*", default=None, metavar="DIR", help="bundles to measure (default: the shipped ones)"
    )
    bench.add_argument("--repeats", type=positive, default=200, help="windows measured (default: %(default)s)")
    bench.add_argument(
        "--threads",
        type=positive,
        nargs="*",
        default=None,
        help="numbers of threads of PyTorch (default: 1 and all cores)",
    )
    bench.add_argument("--no-training", action="store_true", help="leave the training speeds out")
    bench.set_defaults(run=_bench)
    kinds = bench.add_subparsers(title="in detail", metavar="train|node|curves")
    for command in (bench, _train_options(kinds), _node_options(kinds), _curves_options(kinds)):
        command.add_argument("--json", type=output_file, metavar="FILE", help="write the report there too")


def _bench(options: argparse.Namespace) -> None:
    from siha_ros.bench import bench, table

    report = bench(options.bundles, options.repeats, options.threads, training=not options.no_training)
    _show(options, report, table(report))


def _train_options(kinds: Any) -> Any:
    train = kinds.add_parser("train", help="training steps at the paper's sizes, beside the public NRI code")
    train.add_argument("--cases", nargs="+", choices=TRAINED, default=TRAINED, metavar="CASE", help="(default: all)")
    train.add_argument(
        "--precision", nargs="+", choices=PRECISIONS, default=None, help="(default: both, where bf16 is the faster one)"
    )
    train.add_argument("--seconds", type=factor, default=10.0, help="that each case is timed (default: %(default)s)")
    train.add_argument(
        "--threads", type=positive, default=os.cpu_count() or 1, help="threads of PyTorch (default: all cores)"
    )
    train.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: %(default)s)")
    train.add_argument("--profile", type=Path, default=None, metavar="DIR", help="write where the time goes, per case")
    train.add_argument("--markdown", type=output_file, default=None, metavar="FILE", help="write the table there too")
    train.set_defaults(run=_bench_train)
    return train


def _bench_train(options: argparse.Namespace) -> None:
    from siha_ros.bench_train import bench_train, head_line, table, table_rows
    from siha_ros.estimator import choose_device
    from siha_ros.machine import precisions
    from siha_ros.tables import markdown

    device = choose_device(options.device)
    chosen = options.precision or precisions(device.type)
    report = bench_train(options.cases, chosen, options.seconds, options.threads, str(device), options.profile)
    _show(options, report, table(report))
    if options.markdown is not None:
        options.markdown.write_text("\n".join([head_line(report), "", *markdown(table_rows(report)), ""]))


def _node_options(kinds: Any) -> Any:
    node = kinds.add_parser("node", help="the running node over DDS, newest stamp to estimate; and replays")
    node.add_argument(
        "--scenarios", nargs="+", choices=SCENARIOS, default=SCENARIOS, metavar="NAME", help="(default: all)"
    )
    node.add_argument("--seconds", type=factor, default=20.0, help="that each is measured (default: %(default)s)")
    node.set_defaults(run=_bench_node)
    return node


def _bench_node(options: argparse.Namespace) -> None:
    from siha_ros.bench_node import bench_node, table

    report = bench_node(options.scenarios, options.seconds)
    _show(options, report, table(report))


def _curves_options(kinds: Any) -> Any:
    curves = kinds.add_parser("curves", help="accuracy of NRI over minutes of training, by what was chosen for speed")
    curves.add_argument(
        "--choices", nargs="+", choices=CHOICES, default=CHOICES, metavar="NAME", help=f"of {', '.join(CHOICES)}"
    )
    curves.add_argument("--minutes", type=factor, default=8.0, help="of each (default: %(default)s)")
    curves.add_argument("--samples", type=positive, default=None, help="that each sees, in place of the minutes")
    curves.add_argument(
        "--without",
        default=None,
        metavar="OPTION",
        help="train each choice without this option as well: --choices muon --without bf16 tells what precision costs",
    )
    curves.add_argument("--seed", type=seed, default=0)
    curves.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")
    curves.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: %(default)s)")
    curves.add_argument(
        "--work",
        type=Path,
        default=Path("curves"),
        help="folder of logs, report and picture; an interrupted run goes on from it (default: %(default)s)",
    )
    curves.set_defaults(run=_bench_curves)
    return curves


def _bench_curves(options: argparse.Namespace) -> None:
    import torch

    from offline_training.curves import bench_curves, table
    from siha_ros.estimator import choose_device

    keep_freed_memory()
    choose_device(options.device)
    if options.threads:
        torch.set_num_threads(options.threads)
    report = bench_curves(
        options.choices,
        options.minutes,
        options.work,
        options.seed,
        options.device,
        options.samples,
        options.without,
    )
    _show(options, report, table(report))
    print(f"picture: {options.work / 'curves.png'}")


def _show(options: argparse.Namespace, report: dict[str, Any], text: str) -> None:
    print(text)
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n")
