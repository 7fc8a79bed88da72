"""NRI's encoder learns to tell edges from windows of noisy positions, as the live estimator shows them: smoothed.

What smoothing leaves of some millimetres of noise is still more than all that agents do to each other in a frame, and
an encoder that never met it is sure of what it sees there. The decoder stays as it is: what it knows of motion would be
blunted, and the estimator tells it by other means how far to trust what is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from offline_training.stages import processes
from offline_training.stages.loop import Schedule, Stage, train
from offline_training.stages.nri import known_accuracy
from offline_training.stages.samples import Sample, device_of, mine, parts
from siha_ros.model.denoise import Noise
from siha_ros.model.edges import incoming_to_matrix
from siha_ros.model.frame import Scale
from siha_ros.model.nri import NRI, cross_entropy
from siha_ros.window.grid import backward_difference

BOTH = "missed_both"  # with noise and without
NAMED = "_noisy"  # after the name of the stage whose encoder it is
DEVIATIONS = tuple(np.geomspace(3e-4, 2e-2, 8).tolist())  # m
CHECKED = 6  # of them, from 1, that validation has: 6 mm
RATE_SHARE = 0.3  # of the rate of that stage


class NoisyWindows:
    """Windows of positions with normal noise, smoothed as :class:`Noise` does, and velocities by difference.

    usual: roughness (m^2) of motion. dt: s.
    """

    def __init__(self, frames: int, usual: float, scale: Scale, dt: float):
        seen = np.ones(frames, dtype=bool)
        weights = [Noise(deviation**2, usual).spread(seen) / deviation**2 for deviation in DEVIATIONS]
        self.weights = torch.from_numpy(np.stack([np.eye(frames), *weights])).float()
        self.deviations = torch.tensor([0.0, *DEVIATIONS])
        self.scale, self.dt = scale, dt

    def draw(self, states: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Levels and noise of ``count`` windows like ``states``, for :meth:`of`; half of them have none."""
        levels = torch.randint(1, len(self.deviations), (count,), generator=generator)
        levels = levels * (torch.rand(count, generator=generator) < 0.5)
        agents, frames, features = states.shape[1:]
        return levels, torch.randn(count, agents, frames, features // 2, generator=generator)

    @torch.autocast("cpu", enabled=False)  # differences of frames, which half precision would drown
    def of(self, states: Tensor, levels: Tensor, noise: Tensor) -> Tensor:
        """States ``[B, A, T, 2 P]`` as they come out of normal noise ``[B, A, T, P]`` times the deviations numbered
        ``levels [B]`` (0: none, from 1 on ``DEVIATIONS``)."""
        levels = levels.cpu()
        deviations, weights = self.deviations[levels].to(states), self.weights[levels].to(states)
        positions = self.scale.split(states)[0] + deviations[:, None, None, None] * noise
        smoothed = weights.unsqueeze(1) @ positions
        return self.scale.features(smoothed, backward_difference(smoothed, self.dt))


def train_noisy_encoder(
    name: str,
    folder: Path,
    nri: NRI,
    windows: NoisyWindows,
    taught_by: Callable[[Tensor, Tensor | None], Tensor],
    *,
    sample: Callable[[torch.Generator], Sample],
    validation: Tensor,
    edges: Tensor | None,
    schedule: Schedule,
    batch: int,
    seed: int = 0,
) -> dict[str, float]:
    """Train the encoder of ``nri`` on, with half of the windows noisy; taught_by(states, mask) says the edges of a
    window from its states without noise. Arguments as in :func:`train_nri`; the encoder kept has the lowest
    cross-entropy with what is taught on validation windows, without noise and with that of level ``CHECKED``."""
    device = device_of(nri)
    levels, noise = windows.draw(validation, len(validation), torch.Generator().manual_seed(seed))
    noisy = windows.of(validation, torch.full_like(levels, CHECKED), noise)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        taught = torch.cat([taught_by(part.to(device), None).cpu() for part in validation.split(256)])

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        states, known = parts(sample(generator), nri)
        drawn = windows.draw(states, len(states) * processes.count(), generator)  # for the whole batch, as the rest is
        seen = windows.of(states, *(mine(part, nri) for part in drawn))
        return cross_entropy(nri.encoder(seen), taught_by(states, known)), {}

    @torch.no_grad()
    def validate(model: nn.Module) -> dict[str, float]:
        figures: dict[str, float] = {}
        for which, seen in (("", validation), ("_noisy", noisy)):
            losses, guesses = [], []
            for x, told in zip(seen.split(256), taught.split(256), strict=True):
                logits = model(x.to(device)).cpu()
                losses.append(cross_entropy(logits, told) * len(x))
                types = nn.functional.one_hot(logits.argmax(-1), logits.shape[-1])
                guesses.append(incoming_to_matrix(types).argmax(-1))
            figures[f"missed{which}"] = float(torch.stack(losses).sum() / len(seen))
            known = known_accuracy(guesses, edges, logits.shape[-1])
            figures |= {f"{key}{which}": value for key, value in known.items()}
        return {BOTH: figures["missed"] + figures["missed_noisy"]} | figures

    return train(name, folder, Stage(nri.encoder, loss, validate, better=BOTH), schedule, seed=seed, batch=batch)
