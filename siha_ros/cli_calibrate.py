"""``siha calibrate``: deviations of a bundle, measured anew. Imports offline_training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from siha_ros.arguments import positive, seed


def calibrate_options(commands: Any) -> None:
    """The subcommand and its options."""
    command = commands.add_parser(
        "calibrate", help="measure the deviations of a bundle anew, on validation data; its networks stay as they are"
    )
    command.add_argument("bundle", metavar="DIR", help="folder of a bundle, or the name of a shipped one")
    command.add_argument(
        "--data", type=Path, default=None, help="of a body: folder with one .asf file and its .amc files"
    )
    command.add_argument(
        "--losses",
        type=positive,
        default=None,
        metavar="N",
        help="of a team: losses (default: 140, half an hour of a core), or windows of the set fresh (default: 200)",
    )
    command.add_argument("--seed", type=seed, default=0)
    command.add_argument("--threads", type=positive, default=None, help="threads of PyTorch (default: all cores)")
    command.add_argument("--out", type=Path, default=None, help="folder of the bundle (default: that one itself)")
    command.set_defaults(run=_calibrate)


def _calibrate(options: argparse.Namespace) -> None:
    from offline_training.calibrate import calibrate
    from siha_ros.resources import bundle_path

    source = bundle_path(options.bundle)
    out = options.out or source
    print(f"wrote {calibrate(source, out, data=options.data, losses=options.losses, seed=options.seed)}")
