"""What an experiment is made of: cells, each with the models that it needs and what they cost; and what may be chosen
of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offline_training.datasets.benchmarks import SYSTEMS
from offline_training.experiments.lab import Setting

# Of the schedules at scale 1: most for the settings in which most is to be won. All together then take about ten hours
# of two cores.
SHARES = {
    "springs": {1: 1.2, 2: 1.2, 3: 0.6, 4: 0.3, 5: 0.3},
    "charged": {1: 0.1, 2: 0.05, 3: 0.04, 4: 0.035, 5: 0.035},
    "kuramoto": {1: 0.1, 2: 0.05, 3: 0.04, 4: 0.035, 5: 0.035},
}


@dataclass(frozen=True)
class Options:
    """scale: multiplies all schedules. samples: training trajectories. systems, hidden: of the experiments that have a
    choice. data: folder of CMU subjects, "35" and "69" for two, or None. encoder: "paper", convolutions
    for Charged and Kuramoto, or "mlp" for all systems, that of Springs."""

    scale: float = 1.0
    samples: int = 200_000
    seed: int = 0
    systems: tuple[str, ...] = ("springs", "charged", "kuramoto")
    hidden: tuple[int, ...] = (1, 2, 3, 4, 5)
    data: Path | None = None
    encoder: str = "paper"

    def setting(
        self, system: str, hidden: int, *, like: int = 0, extra: int = 0, share: float = 1.0, seed: int = 0
    ) -> Setting:
        """The setting of a system, the same for all experiments that ask alike. like: number of hidden agents whose
        schedule it has (0: its own). extra: unknown agents. share: of the schedule. seed: beside that of the
        options."""
        scale = float(f"{self.scale * share * SHARES[system][like or hidden]:.3g}")
        encoder = SYSTEMS[system].encoder if self.encoder == "paper" else self.encoder
        return Setting(system, hidden, scale, self.samples, self.seed + seed, extra, encoder)


@dataclass(frozen=True)
class Cell:
    """One result of an experiment. options: what it depends on. needs: minutes of each model that it stands on, by a
    name that no other model has. run: makes the result."""

    experiment: str
    name: str
    options: Mapping[str, Any]
    needs: Mapping[str, float]
    run: Callable[[], dict[str, Any]]
