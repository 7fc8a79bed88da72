"""Long runs in which agents are lost at random, for :mod:`siha_ros.replay.losses`: simulated team, recorded bodies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from offline_training.datasets.cmu_mocap import Trial
from offline_training.datasets.simulated import split_seed
from offline_training.systems.springs import SpringsStepper
from siha_ros.replay.losses import Run

STREAM_DT = 0.02  # s, of the simulated team's stream
RUN_SECONDS = 60.0
LOSS_SECONDS = 15.0
WARM_SECONDS = 8.0  # before the earliest loss: a window of 5 s and the lead-in


def team_losses(
    count: int, lost: int, split: str, seed: int = 0, agents: int = 7, faster: float = 1.0
) -> Iterator[Run]:
    """``count`` losses of ``lost`` random agents for 15 s, at a random time of a 60 s run of a team of its own.

    faster: how many times as fast as in training the runs are played, on springs as stiff as the square of it.
    """
    seed = split_seed(split, seed)
    for number in range(count):
        random = np.random.default_rng([seed, number])
        begin = random.uniform(WARM_SECONDS, RUN_SECONDS - LOSS_SECONDS)
        first = round((begin - WARM_SECONDS) / STREAM_DT)
        frames = round((WARM_SECONDS + LOSS_SECONDS + 5.0) / STREAM_DT)
        team = SpringsStepper(seed, agents=agents, index=number)
        team.step(first * STREAM_DT * faster)
        positions = np.empty((agents, frames, 2))
        for frame in range(frames):
            positions[:, frame] = team.positions
            team.step(STREAM_DT * faster)
        yield Run(
            names=[f"robot_{agent + 1}" for agent in range(agents)],
            positions=positions,
            dt=STREAM_DT,
            edges=team.edges,
            lost=np.sort(random.choice(agents, lost, replace=False)),
            lost_at=round(WARM_SECONDS / STREAM_DT),
            end=round((WARM_SECONDS + LOSS_SECONDS) / STREAM_DT),
        )


def body_losses(
    trials: Sequence[Trial], limbs: dict[str, NDArray[np.intp]], count: int, window_seconds: float, seed: int = 0
) -> Iterator[Run]:
    """``count`` losses of a random limb at a random time of a random trial, until the trial ends.

    A window has been seen before the loss, and at least a second and a half of the trial is left after it.
    """
    names = sorted(limbs)
    for number in range(count):
        random = np.random.default_rng([seed, number])
        trial = trials[int(random.integers(len(trials)))]
        frames = trial.positions.shape[1]
        earliest, latest = round(window_seconds * trial.rate) + 1, frames - round(1.5 * trial.rate)
        if latest <= earliest:
            raise ValueError(f"{trial.name}: {frames / trial.rate:.1f} s are too short for a loss")
        yield Run(
            names=list(trial.joints),
            positions=trial.positions,
            dt=1 / trial.rate,
            edges=None,
            lost=limbs[names[int(random.integers(len(names)))]],
            lost_at=int(random.integers(earliest, latest)),
            end=frames,
        )
