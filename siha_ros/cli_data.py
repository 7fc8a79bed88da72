"""``siha data``: data to train on, downloaded or simulated, and recordings of other formats as bags."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from siha_ros.arguments import factor, positive, seed

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
    bag = data.add_parser(
        "bag", help="recordings (CSV, NPZ, C3D, ASF with AMC) as bags, for siha replay or to play them"
    )
    bag.add_argument("recordings", type=Path, metavar="FOLDER", help="a folder of recordings, or one file")
    bag.add_argument("--to", type=Path, required=True, metavar="DIR", help="folder for the bags, one a recording")
    bag.add_argument(
        "--skeleton", action="store_true", help="one SkeletonFrame for all (of ASF always), not a pose each"
    )
    bag.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap", help="(default: %(default)s)")
    bag.add_argument("--rate", type=factor, default=None, metavar="HZ", help="of files that number their frames")
    bag.add_argument(
        "--unit",
        type=factor,
        default=None,
        metavar="M",
        help="metres in a unit of the files (default: what they say, or 1)",
    )
    bag.add_argument("--time-unit", type=factor, default=None, metavar="S", help="seconds in a unit of their times")
    bag.add_argument("--names", default=None, metavar="A,B", help="agents (of ASF: trials) to take (default: all)")
    bag.set_defaults(run=_bag)


def _cmu(options: argparse.Namespace) -> None:
    from offline_training.datasets.cmu_download import SITE, download_subject

    files = download_subject(options.subject, options.to, options.trials, site=options.site or SITE)
    print(f"{options.to}: {len(files)} files of subject {options.subject}\n{CMU_NOTE}")


def _simulate(options: argparse.Namespace) -> None:
    from offline_training.datasets.trajectory_files import SimulatedSet, write

    wanted = SimulatedSet(options.system, options.count, options.frames, options.agents, options.seed)
    began, busy = time.perf_counter(), time.process_time()
    write(wanted, options.to, threads=options.threads)
    took, busy = time.perf_counter() - began, time.process_time() - busy
    print(
        f"{options.to}: {options.count} trajectories of {options.agents} agents over {options.frames} frames;"
        f" {took:.1f} s, {busy:.1f} s of processor time, compiling included"
    )


def _bag(options: argparse.Namespace) -> None:
    from siha_ros.replay.record import write_tracks

    for name, names, stamps, positions, skeleton in _recordings(options):
        options.to.mkdir(parents=True, exist_ok=True)
        out = options.to / name
        count = write_tracks(out, names, stamps, positions, skeleton=skeleton, storage=options.storage)
        print(f"wrote {out}: {len(names)} agents, {stamps[-1] - stamps[0]:.1f} s, {count} messages")


def _recordings(options: argparse.Namespace) -> Iterator[tuple[str, list[str], Any, Any, bool]]:
    """Name, agents, stamps f8[T] (s), positions f8[A, T, P] (m), and whether it is a skeleton."""
    path: Path = options.recordings
    names = options.names.split(",") if options.names else []
    if path.is_dir() and any(file.suffix.lower() == ".asf" for file in path.iterdir()):
        import numpy as np

        from offline_training.datasets.cmu_mocap import load_subject

        trials = load_subject(path)
        known = [trial.name for trial in trials]
        if missing := [name for name in names if name not in known]:
            raise ValueError(f"{path}: no trial {', '.join(missing)}, it has {', '.join(known)}")
        for trial in trials:
            if not names or trial.name in names:
                yield trial.name, trial.joints, np.arange(trial.positions.shape[1]) / trial.rate, trial.positions, True
        return
    from offline_training.recordings.recording import ReadOptions, read_recordings

    for recording in read_recordings(path, ReadOptions(options.rate, options.unit, options.time_unit, names)):
        name = Path(recording.source).name.split(".")[0]
        yield name, recording.names, recording.stamps, recording.positions, options.skeleton
