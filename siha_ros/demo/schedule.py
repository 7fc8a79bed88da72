"""Who falls silent when, in the team demo. No ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Loss:
    """Agents that are silent from start to end (s after the begin of the demo)."""

    start: float
    end: float
    agents: tuple[str, ...]


def loss_schedule(names: Sequence[str], duration: float, losses: int = 1, hidden: int = 2, seed: int = 0) -> list[Loss]:
    """Loss episodes that share a duration (s) in equal parts; each takes `hidden` agents at random.

    An agent is lost 5 s into the part (a third of the part, where that is sooner) and comes back after two thirds of
    it: from 5 s to 20 s in 30 s.
    """
    if losses < 0 or not 0 < hidden < len(names):
        raise ValueError(f"expected losses >= 0 and 1 to {len(names) - 1} hidden, got {losses} losses of {hidden}")
    random = np.random.default_rng([seed, 0])
    part = duration / losses if losses else duration
    return [
        Loss(
            k * part + min(5.0, part / 3),
            k * part + part * 2 / 3,
            tuple(names[i] for i in sorted(random.choice(len(names), hidden, replace=False))),
        )
        for k in range(losses)
    ]


def lost_at(schedule: Sequence[Loss], seconds: float) -> set[str]:
    """Names of the agents that are silent at a time (s after the begin)."""
    return {name for loss in schedule if loss.start <= seconds < loss.end for name in loss.agents}
