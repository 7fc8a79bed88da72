"""What a report says of the machine that it was measured on."""

from __future__ import annotations

import os
import platform
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch

BF16_WORTH = 1.2  # times as fast as float32, from which on bfloat16 is taken


def machine(device: str = "cpu") -> dict[str, Any]:
    """Processor or card, cores, load before the measurement, versions."""
    cuda = torch.device(device).type == "cuda"
    return {
        "processor": torch.cuda.get_device_name(device) if cuda else _processor(),
        "cores": os.cpu_count(),
        "load_before": list(os.getloadavg()),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


@cache
def bf16_pays(kind: str) -> bool:
    """Whether a device of a kind, "cpu" or "cuda", multiplies matrices faster in bfloat16 than in float32. Of a
    processor measured, once a process: one without instructions for it takes tens of times as long."""
    if kind == "cuda":
        return torch.cuda.get_device_capability() >= (8, 0)
    return _product_seconds(torch.float32) > BF16_WORTH * _product_seconds(torch.bfloat16)


def precisions(kind: str) -> tuple[str, ...]:
    """What training on such a device is worth measuring in, the fastest last."""
    return ("float32", "bf16") if bf16_pays(kind) else ("float32",)


def _product_seconds(dtype: torch.dtype) -> float:
    """Of one product of matrices, the best of three."""
    matrix = torch.ones(512, 512, dtype=dtype)
    taken = []
    for _ in range(4):  # the first sets up
        began = time.perf_counter()
        _ = matrix @ matrix
        taken.append(time.perf_counter() - began)
    return min(taken[1:])
