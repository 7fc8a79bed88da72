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
    """Whether a device of a kind, "cpu" or "cuda", multiplies matrices faster in bfloat16 than in float32. Measured
    once a process: a processor without instructions for it takes tens of times as long."""
    return _product_seconds(kind, torch.float32) > BF16_WORTH * _product_seconds(kind, torch.bfloat16)


def _product_seconds(kind: str, dtype: torch.dtype) -> float:
    """Of one product of matrices, the best of three."""
    matrix = torch.ones(256, 256, dtype=dtype, device=kind)
    taken = []
    for _ in range(4):  # the first sets up
        began = time.perf_counter()
        float((matrix @ matrix)[0, 0])  # waits for a GPU
        taken.append(time.perf_counter() - began)
    return min(taken[1:])
