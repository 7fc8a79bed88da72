"""``siha data``: data to train on, downloaded or simulated."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from siha_ros.arguments import positive, seed

CMU_NOTE = (
    "The data used in this project was obtained from mocap.cs.cmu.edu. The database was created with funding from"
    " NSF EIA-0196217. (CMU asks that publications say so; the data may not be resold.)"
)


def data_options(commands: Any) -> None:
    """Add the command and its options."""
    data = commands.add_parser("data", help="get data to train on").add_subparsers(metavar="DATA", required=True)
    cmu = data.add_parser("cmu", help="a subject of the CMU motion capture database, from its site")
    cmu.add_argument("--subject", type=positive, required=True, help="number of the subject (35: walking)")
    cmu.add_argument("--trials", type=positive, nargs="*", default=None, help="numbers of motions (default: all)")
    cmu.add_argument("--to", type=Path, required=True, metavar="DIR", help="folder for its .asf and .amc files")
    cmu.add_argument("--site", default=None, metavar="URL", help="(default: CMU's)")
    cmu.set_defaults(run=_cmu)
    simulate = data.add_parser("simulate", help="trajectories of a simulated system, as .npy files")
    simulate.add_argument("system", choices=("springs", "charged", "kuramoto"))
    simulate.add_argument("--count", type=positive, default=50_000, help="trajectories (default: %(default)s)")
    simulate.add_argument("--frames", type=positive, default=50, help="frames of 0.1 s of each (default: %(default)s)")
    simulate.add_argument("--agents", type=positive, default=7, help="(default: %(default)s)")
    simulate.add_argument("--seed", type=seed, default=0)
    simulate.add_argument("--threads", type=positive, default=None, help="(default: all cores)")
    simulate.add_argument("--to", type=Path, required=True, metavar="DIR", help="folder that is made")
    simulate.set_defaults(run=_simulate)


def _cmu(options: argparse.Namespace) -> None:
    from offline_training.datasets.cmu_download import SITE, download_subject

    files = download_subject(options.subject, options.to, options.trials, site=options.site or SITE)
    print(f"{options.to}: {len(files)} files of subject {options.subject}\n{CMU_NOTE}")


def _simulate(options: argparse.Namespace) -> None:
    from offline_training.datasets.trajectory_files import SimulatedSet, write

    wanted = SimulatedSet(options.system, options.count, options.frames, options.agents, options.seed)
    write(wanted, options.to, threads=options.threads)
    print(f"{options.to}: {options.count} trajectories of {options.agents} agents over {options.frames} frames")
