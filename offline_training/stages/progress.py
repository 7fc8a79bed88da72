"""What a stage shows of itself while it trains: lines and a bar, a log of JSON lines, and TensorBoard where that is
installed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tqdm import tqdm

from siha_ros.progress import SILENCE

WORTH_A_LINE = 10_000  # trajectories, which take some seconds


def say(line: str) -> None:
    """Print a line, above the bar if there is one."""
    with tqdm.external_write_mode(file=sys.stdout):
        print(line, flush=True)


def say_simulating(trajectories: int) -> None:
    """Say what takes the time, where it is more than a moment."""
    if trajectories >= WORTH_A_LINE:
        say(f"simulating {trajectories:,} trajectories")


@cache
def writer_type() -> Any:
    """TensorBoard's writer, or None, and a line that says so, where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        say("TensorBoard is not installed (pip install tensorboard): curves are in the logs, NAME.jsonl, alone")
        return None
    return SummaryWriter


class Stopwatch:
    """Durations (s) of the parts of a stage since its last row: ``with watch("step"): ...``."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.warm = False

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Measure a part."""
        began = time.perf_counter()
        yield
        self.seconds.setdefault(part, []).append(time.perf_counter() - began)

    def read(self) -> dict[str, float]:
        """``step_seconds``: mean of a step, without the very first one if there are others. ``PART_seconds``: sum of
        all in a part. Starts anew."""
        steps = self.seconds.pop("step", [])
        if not self.warm and len(steps) > 1:
            steps = steps[1:]
        found = {"step_seconds": sum(steps) / max(1, len(steps))}
        found |= {f"{part}_seconds": sum(every) for part, every in self.seconds.items()}
        self.seconds, self.warm = {}, True
        return {key: float(f"{seconds:.3g}") for key, seconds in found.items()}


class Progress:
    """Of one stage in ``folder``; it goes on after step ``done`` of ``steps``, of ``batch`` samples each. shown: False
    in processes that show and write nothing. On a terminal it is a bar with samples/s and the time left, elsewhere a
    line a minute."""

    def __init__(self, name: str, folder: Path, done: int, steps: int, batch: int, shown: bool):
        self.name, self.steps, self.batch, self.log = name, steps, batch, folder / f"{name}.jsonl"
        self.shown = shown
        self.bar = tqdm(
            total=steps * batch,
            initial=done * batch,
            desc=name,
            unit=" samples",
            unit_scale=True,
            leave=False,
            disable=None if shown else True,  # None: unless it is a terminal
        )
        self.done, self.said = done, time.monotonic()
        writer = writer_type() if shown else None
        self.board = writer and writer(str(folder / "tensorboard" / name), purge_step=done + 1)

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        self.bar.update(self.batch)
        if self.shown and self.bar.disable and time.monotonic() - self.said > SILENCE:
            self._say(self.done)

    def row(self, row: dict[str, Any], metrics: dict[str, float]) -> None:
        """Write and show the row of a validation: stage, step, samples, seconds and figures, metrics among them."""
        if not self.shown:
            return
        with self.log.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if self.board:
            for key, figure in row.items():
                if isinstance(figure, float):
                    self.board.add_scalar(key, figure, row["step"])
            self.board.flush()
        shown = "  ".join(f"{key} {figure:.4g}" for key, figure in metrics.items())
        left = row["seconds"] / row["step"] * (self.steps - row["step"])
        pace = f"{row['samples'] / max(row['seconds'], 0.05):.0f} samples/s"
        if row["step"] < self.steps:
            pace += f"  {left / 60:.1f} min of this stage left"
        self._say(row["step"], f"  {shown}  {pace}")

    def _say(self, step: int, text: str = "") -> None:
        self.said = time.monotonic()
        say(f"{self.name} {step}/{self.steps}{text}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()
        if self.board:
            self.board.close()
