"""What a report says of the machine that it was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch


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
