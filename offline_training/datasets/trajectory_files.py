"""Large simulated sets: trajectories in chunks from all cores, streamed or as memory-mapped ``.npy`` files.

Every trajectory has a random stream of its own, so the same system, size and seed give the same bytes, whatever the
number of threads and the size of the chunks.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from offline_training.systems.charged import simulate_charged
from offline_training.systems.kuramoto import simulate_kuramoto
from offline_training.systems.springs import simulate_springs

Arrays = dict[str, NDArray]
CHUNK = 512  # trajectories a thread makes at a time


@dataclass(frozen=True)
class SimulatedSet:
    """What a simulated set is made from: ``count`` trajectories of a system of ``agents`` over ``frames`` frames."""

    system: str
    count: int
    frames: int
    agents: int
    seed: int

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS:
            raise ValueError(f"system {self.system!r} is unknown, expected one of {', '.join(SYSTEMS)}")
        if self.count < 1 or self.frames < 1:
            raise ValueError(f"{self.count} trajectories of {self.frames} frames: expected at least one of each")


def _springs(count: int, first: int, wanted: SimulatedSet) -> Arrays:
    made = simulate_springs(count, wanted.frames, agents=wanted.agents, seed=wanted.seed, first_index=first)
    return {"positions": made.positions, "velocities": made.velocities, "edges": made.edges}


def _charged(count: int, first: int, wanted: SimulatedSet) -> Arrays:
    made = simulate_charged(count, wanted.frames, agents=wanted.agents, seed=wanted.seed, first_index=first)
    return {"positions": made.positions, "velocities": made.velocities, "edges": made.edges, "charges": made.charges}


def _kuramoto(count: int, first: int, wanted: SimulatedSet) -> Arrays:
    made = simulate_kuramoto(count, wanted.frames, agents=wanted.agents, seed=wanted.seed, first_index=first)
    return {"states": made.states, "phases": made.phases, "edges": made.edges}


SYSTEMS: dict[str, Callable[[int, int, SimulatedSet], Arrays]] = {
    "springs": _springs,
    "charged": _charged,
    "kuramoto": _kuramoto,
}


def stream(wanted: SimulatedSet, *, threads: int | None = None, chunk: int = CHUNK) -> Iterator[tuple[int, Arrays]]:
    """First index and arrays (leading axis: trajectories) of one chunk after the other, in order.

    threads: None takes all cores. Two chunks a thread are in memory at most.
    """
    threads = threads or os.cpu_count() or 1
    make = SYSTEMS[wanted.system]
    waiting: deque[tuple[int, Future[Arrays]]] = deque()
    with ThreadPoolExecutor(threads) as pool:  # the simulators hold no lock while they run
        for first in range(0, wanted.count, chunk):
            waiting.append((first, pool.submit(make, min(chunk, wanted.count - first), first, wanted)))
            if len(waiting) == 2 * threads:
                index, done = waiting.popleft()
                yield index, done.result()
        for index, done in waiting:
            yield index, done.result()


def write(wanted: SimulatedSet, folder: Path, *, threads: int | None = None, chunk: int = CHUNK) -> Path:
    """Write ``folder``: one ``NAME.npy`` for each array and ``set.json``. It appears complete or not at all.

    Raises FileExistsError where the folder is there with another set in it; an equal set is left as it is.
    """
    description = json.dumps(asdict(wanted), indent=2) + "\n"
    if folder.exists():
        there = folder / "set.json"
        if there.is_file() and there.read_text() == description:
            return folder
        raise FileExistsError(f"{folder} exists and does not hold this set: remove it or name another folder")
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    files: dict[str, np.memmap] = {}
    try:
        for first, arrays in stream(wanted, threads=threads, chunk=chunk):
            for name, array in arrays.items():
                if name not in files:
                    shape = (wanted.count, *array.shape[1:])
                    files[name] = open_memmap(part / f"{name}.npy", mode="w+", dtype=array.dtype, shape=shape)
                files[name][first : first + len(array)] = array
        for file in files.values():
            file.flush()
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    (part / "set.json").write_text(description)
    part.rename(folder)
    return folder


def load(folder: Path) -> tuple[SimulatedSet, Arrays]:
    """What a folder holds, memory-mapped. Raises FileNotFoundError or ValueError, in one line."""
    file = folder / "set.json"
    if not file.is_file():
        raise FileNotFoundError(f"{folder} is no simulated set: it holds no set.json")
    try:
        wanted = SimulatedSet(**json.loads(file.read_text()))
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file}: {error}, expected what `siha data simulate` writes") from None
    return wanted, {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}
