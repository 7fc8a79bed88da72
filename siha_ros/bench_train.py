"""``siha bench train``: training steps at the paper's sizes, each case in a process of its own.

A step's forward pass, backward pass and optimiser are timed apart; beside them stand peak memory, floating-point
operations a sample, and the share of the matrix rate that this machine reaches in the same process. On a machine with
other work the samples per second of processor time (one thread) are the ones to compare.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from siha_ros.machine import machine
from siha_ros.memory import keep_freed_memory
from siha_ros.model import hidden_state
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig, align, reconstruction_error
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.tables import columns

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}
WARM_UP = 2  # steps
PROFILE_ROWS = 30
BUSY = 0.5  # load before, by the number of cores, from which times by the clock are of other work too
SHOWN = 8  # operations of a profile that the report names


@dataclass(frozen=True)
class Case:
    """What is trained. hidden: agents that a predictor is to find, 0 for NRI. reference: training samples a second and
    peak memory (GB) of the public NRI code (2 threads of a Sapphire Rapids core, float32, skip_first, 10 steps)."""

    stage: str
    agents: int
    hidden: int = 0
    batch: int = 128
    frames: int = 49
    features: int = 4
    reference: tuple[float, float] | None = None


CASES = {
    "nri_5": Case("nri", 5, reference=(132, 1.1)),
    "nri_7": Case("nri", 7, reference=(62, 2.0)),
    "nri_10": Case("nri", 10, reference=(19, 2.3)),
    "nri_31": Case("nri", 31, batch=8, features=6, reference=(2.2, 1.4)),
    "hsp_sa_7": Case("hsp_sa", 7, hidden=2),
    "hsp_sg_7": Case("hsp_sg", 7, hidden=2),
    "hsp_sa_10": Case("hsp_sa", 10, hidden=5),
    "hsp_sg_10": Case("hsp_sg", 10, hidden=5),
}


def bench_train(
    cases: Sequence[str], precisions: Sequence[str], seconds: float, threads: int, device: str, profile: Path | None
) -> dict[str, Any]:
    """The report, schema 1: one row for each case and precision. profile: folder for tables of where the time goes."""
    rows = []
    if profile:
        profile.mkdir(parents=True, exist_ok=True)
    for case in cases:
        for precision in precisions:
            command = [
                sys.executable,
                "-m",
                "siha_ros.bench_train",
                case,
                precision,
                str(seconds),
                str(threads),
                device,
            ]
            done = subprocess.run(
                command + ([str(profile)] if profile else []), stdout=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                raise ValueError(f"bench train {case}, {precision}: its process ended with {done.returncode}")
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{case}, {precision}: {rows[-1]['samples_per_second']:.4g} samples/s", file=sys.stderr, flush=True)
    return {"schema": 1, "machine": machine(device), "threads": threads, "device": device, "rows": rows}


# one case, in its own process


def measure(name: str, precision: str, seconds: float, device: str, profile: Path | None = None) -> dict[str, Any]:
    """The row of a case: times in ms (medians), rates by wall clock and by processor time."""
    case = CASES[name]
    rates = matrix_rates(precision, device)
    if torch.device(device).type == "cuda":  # the peak is to be without the products' operands
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    at_start = memory_mb(device)
    step = Step(case, precision, device)
    parts, processor = step.timed(seconds)
    peak = memory_mb(device)
    flops = step.flops() / case.batch  # counting holds on to tensors: the peak is that of steps before
    speed = 1e3 * case.batch / sum(parts.values())
    # by processor time where it is the processor that computes: other work on the machine then changes little
    share = flops * speed / rates[0] if step.device.type == "cuda" else flops * case.batch / processor / rates[1]
    row: dict[str, Any] = {
        "case": name,
        "precision": precision,
        "samples_per_second": speed,
        "samples_per_processor_second": case.batch / processor,
        "ms": parts,
        "peak_memory_mb": peak,
        "memory_at_start_mb": at_start,
        "gflop_per_sample": flops / 1e9,
        "matrix_gflops": rates[0] / 1e9,
        "matrix_gflops_per_processor_second": rates[1] / 1e9,
        "share_of_matrix_rate": share,
    }
    if case.hidden:
        row["assignment_ms"] = {"permutations": step.assignment_ms()}
        with scipy_assignment():
            row["assignment_ms"]["scipy"] = step.assignment_ms()
            row["samples_per_second_scipy"] = step.samples_per_second(seconds / 2)
    if case.reference:
        row["reference"] = dict(zip(("samples_per_second", "peak_memory_gb"), case.reference, strict=True))
    if profile:
        part = replace(case, batch=max(1, case.batch // 4))  # what is done is the same, and there are many operations
        row["operations"], text = Step(part, precision, device).profile()
        (profile / f"{name}_{precision}.txt").write_text(text)
    return row


class Step:
    """An optimiser step of a case's network alone, on made-up states: without what the stages of training add (batches,
    a running mean of the weights, clipped gradients, the cache)."""

    def __init__(self, case: Case, precision: str, device: str):
        torch.manual_seed(0)
        self.case, self.precision, self.device = case, precision, torch.device(device)
        self.network, self._loss = network_and_loss(case, self.device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), 1e-4, fused=True)

    def loss(self) -> Tensor:
        """The forward pass."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            return self._loss()

    def __call__(self) -> tuple[float, float, float]:
        """Take the step; seconds of its three parts."""
        times = [self._now()]
        value = self.loss()
        times.append(self._now())
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()
        times.append(self._now())
        self.optimiser.step()
        times.append(self._now())
        forward, backward, step = np.diff(times)
        return float(forward), float(backward), float(step)

    def timed(self, seconds: float) -> tuple[dict[str, float], float]:
        """Median ms of the parts, and seconds of processor time a step, over so many seconds of steps."""
        for _ in range(WARM_UP):
            self()
        times: list[tuple[float, float, float]] = []
        began, processor = time.perf_counter(), time.process_time()
        while not times or time.perf_counter() - began < seconds:
            times.append(self())
        processor = (time.process_time() - processor) / len(times)
        medians = 1e3 * np.median(times, 0)
        return dict(zip(("forward", "backward", "step"), medians.tolist(), strict=True)), processor

    def samples_per_second(self, seconds: float) -> float:
        """By the median step of so many seconds."""
        return 1e3 * self.case.batch / sum(self.timed(seconds)[0].values())

    def flops(self) -> float:
        """Floating-point operations of matrix products and convolutions in the forward and backward pass."""
        with FlopCounterMode(display=False) as counter:
            self.loss().backward()
        return float(counter.get_total_flops())

    def assignment_ms(self) -> float:
        """Median ms of matching a batch of slots to the truth."""
        shape = self.case.batch, self.case.hidden, self.case.frames, self.case.features
        found, truth = torch.randn(2, *shape, device=self.device)
        times = []
        for _ in range(20):
            began = self._now()
            align(found, truth)
            times.append(self._now() - began)
        return 1e3 * float(np.median(times))

    def profile(self) -> tuple[list[dict[str, Any]], str]:
        """Where the time of a step goes, by operation: the SHOWN that take most, with their share of it, and a table of
        many."""
        self()
        with torch.profiler.profile() as profiler:
            self()
        sort = "self_device_time_total" if self.device.type == "cuda" else "self_cpu_time_total"
        found = profiler.key_averages()
        spent = {one.key: (getattr(one, sort), one.count) for one in found}
        whole = sum(time for time, _ in spent.values())
        largest = sorted(spent, key=lambda key: -spent[key][0])[:SHOWN]
        operations = [
            {"operation": key, "percent": 100 * spent[key][0] / whole, "calls": spent[key][1]} for key in largest
        ]
        return operations, found.table(sort_by=sort, row_limit=PROFILE_ROWS, max_name_column_width=60)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def network_and_loss(case: Case, device: torch.device) -> tuple[nn.Module, Callable[[], Tensor]]:
    """The network of a case at the paper's width, and its loss on a batch. HSP-sg: graphs as of the structure cache,
    whose refreshes are left out."""
    states = 0.3 * torch.randn(case.batch, case.agents, case.frames, case.features, device=device)
    if case.stage == "nri":
        nri = NRI(NRIConfig(case.frames, case.features)).to(device).train()
        return nri, lambda: nri.elbo_loss(states)[0]
    guided, seen = case.stage == "hsp_sg", case.agents - case.hidden
    alphas = list(PAPER_ALPHAS) if guided else []
    hsp = HiddenStatePredictor(HSPConfig(case.frames, case.features, case.hidden, alphas=alphas)).to(device).train()
    graph = torch.rand(case.batch, case.agents, case.agents, device=device) if guided else None
    return hsp, lambda: reconstruction_error(hsp(states[:, :seen], graph), states[:, seen:]).mean()


def matrix_rates(precision: str, device: str) -> tuple[float, float]:
    """Operations of the best of some square products, a second and a second of processor time."""
    size = 8192 if torch.device(device).type == "cuda" else 1024
    left, right = torch.randn(2, size, size, device=device, dtype=PRECISIONS[precision])
    times = []
    for _ in range(12):
        began, busy = time.perf_counter(), time.process_time()
        product = left @ right
        float(product[0, 0])  # waits for it
        times.append((time.perf_counter() - began, time.process_time() - busy))
    wall, processor = np.min(times, 0)
    return 2 * size**3 / float(wall), 2 * size**3 / float(processor)


@contextmanager
def scipy_assignment() -> Iterator[None]:
    """Slots are matched by scipy, sample by sample, as the public code does it."""
    limit = hidden_state.ENUMERATION_LIMIT
    hidden_state.ENUMERATION_LIMIT = 0
    try:
        yield
    finally:
        hidden_state.ENUMERATION_LIMIT = limit


def memory_mb(device: str) -> float:
    """The most that this process has held so far: of the card's memory where one is used, else of its own."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# for people


HEAD = ["case", "precision", "samples/s", "a processor s", "forward ms", "backward ms", "step ms"]
HEAD += ["peak MB", "above start", "GFLOP a sample", "% of matrix rate"]
HEAD += ["public code samples/s", "times", "public peak MB"]


def table_rows(report: dict[str, Any]) -> list[list[str]]:
    """The report as rows of text, the first of them the head."""
    rows = [HEAD]
    for row in report["rows"]:
        reference = row.get("reference")
        speed = row["samples_per_second"]
        beside = ["-"] * 3
        if reference:
            public = reference["samples_per_second"]
            beside = [f"{public:.4g}", f"{speed / public:.2f}", f"{1000 * reference['peak_memory_gb']:.0f}"]
        rows.append(
            [
                row["case"],
                row["precision"],
                f"{speed:.4g}",
                f"{row['samples_per_processor_second']:.4g}",
                *(f"{row['ms'][part]:.1f}" for part in ("forward", "backward", "step")),
                f"{row['peak_memory_mb']:.0f}",
                f"{row['peak_memory_mb'] - row['memory_at_start_mb']:.0f}",
                f"{row['gflop_per_sample']:.3g}",
                f"{100 * row['share_of_matrix_rate']:.0f}",
                *beside,
            ]
        )
    return rows


def table(report: dict[str, Any]) -> str:
    """The report for a terminal."""
    lines = [head_line(report), "", *columns(table_rows(report)), ""]
    for row in report["rows"]:
        if "assignment_ms" in row:
            ours, scipy = row["assignment_ms"]["permutations"], row["assignment_ms"]["scipy"]
            lines.append(
                f"{row['case']}, {row['precision']}: slots matched in {ours:.2f} ms a batch, by scipy {scipy:.2f} ms;"
                f" training with scipy {row['samples_per_second_scipy']:.4g} samples/s"
            )
    for row in report["rows"]:
        if "operations" in row:
            lines += ["", f"where the time of {row['case']}, {row['precision']} goes, by operation (itself alone)"]
            shares = [[one["operation"], f"{one['percent']:.1f} %", f"{one['calls']}"] for one in row["operations"]]
            lines += columns([["operation", "time", "calls"], *shares])
    return "\n".join(lines)


def head_line(report: dict[str, Any]) -> str:
    """Machine, threads and matrix rates."""
    rates = {row["precision"]: row["matrix_gflops"] for row in report["rows"]}
    shown = ", ".join(f"{rate:.0f} GFLOP/s in {precision}" for precision, rate in rates.items())
    about = report["machine"]
    load = about["load_before"][0]
    busy = "; the machine was busy with other work: only figures by processor time tell something"
    return (
        f"{about['processor']}, {report['threads']} threads, device {report['device']}, torch {about['torch']}, "
        f"load {load:.1f}; matrix rate {shown}{busy * (load > BUSY * about['cores'])}"
    )


def main() -> None:
    """What the processes of the cases run: prints the row of one case as JSON."""
    parser = argparse.ArgumentParser("python -m siha_ros.bench_train")
    parser.add_argument("case", choices=CASES)
    parser.add_argument("precision", choices=PRECISIONS)
    parser.add_argument("seconds", type=float)
    parser.add_argument("threads", type=int)
    parser.add_argument("device")
    parser.add_argument("profile", type=Path, nargs="?")
    options = parser.parse_args()
    keep_freed_memory()  # as training does
    torch.set_num_threads(options.threads)
    print(json.dumps(measure(options.case, options.precision, options.seconds, options.device, options.profile)))


if __name__ == "__main__":
    main()
