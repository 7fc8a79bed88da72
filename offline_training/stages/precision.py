"""bfloat16 where it pays."""

from __future__ import annotations

from functools import cache

import torch

from offline_training.stages import processes
from offline_training.stages.progress import say
from siha_ros.machine import bf16_pays


def autocast(device: torch.device, wanted: bool) -> torch.autocast:
    """Autocast to bfloat16 where it is ``wanted`` and pays."""
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted and pays(device.type))


@cache
def pays(kind: str) -> bool:
    """What the first of all processes measured; where bfloat16 does not pay a line says so."""
    faster = processes.agreed(lambda: bf16_pays(kind))
    if not faster and processes.number() == 0:
        say("bf16: not faster than float32 on this machine, which takes float32")
    return faster
