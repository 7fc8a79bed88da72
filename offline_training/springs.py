"""``siha train springs_team``: the bundles of the simulated team, from nothing to a folder that the node loads."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from offline_training.datasets.simulated import FRAMES, SpringsWindows, springs_windows
from offline_training.stages.hsp_sa import train_hsp_sa
from offline_training.stages.hsp_sg import train_hsp_sg
from offline_training.stages.loop import Schedule
from offline_training.stages.nri import train_nri
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig

AGENTS, FEATURES = 7, 4


def sampler(data: SpringsWindows, batch: int, visible: tuple[int, ...]):  # noqa: ANN201 - a closure over the set
    """Random batches in the frame of a random one of the given numbers of visible agents, turned at random."""

    def sample(generator: torch.Generator) -> Tensor:
        index = torch.randint(0, len(data), (batch,), generator=generator)
        count = visible[int(torch.randint(0, len(visible), (1,), generator=generator))]
        return data.states(index, count, generator)

    return sample


def train_springs(kind: str, folder: Path, *, samples: int, scale: float, seed: int, hidden_counts: tuple[int, ...]) -> None:
    """Train all modules of one set ("fresh" or "any"). scale: multiplies every schedule."""
    data = springs_windows(kind, "train", samples, seed=seed)
    validation = springs_windows(kind, "validation", 2000, seed=seed)

    def steps(count: int) -> int:
        return max(10, round(count * scale))

    torch.manual_seed(seed)
    nri = NRI(
        NRIConfig(FRAMES, FEATURES, difference_gain=30.0, decoder_width=128, output_gain=0.05, tied=kind == "any")
    )
    sizes = (7, 6, 5) if kind == "any" else (7,)
    train_nri(
        "nri",
        folder,
        nri,
        sampler(data, 128, sizes),
        validation.states(slice(None), AGENTS)[:1000],
        validation.edges[:1000],
        Schedule(steps(6000), rate=1e-3),
        batch=128,
        starts=1,
        seed=seed,
    )
    sa: HiddenStatePredictor | None = None
    for hidden in sorted(hidden_counts, reverse=True):
        visible = AGENTS - hidden
        short = 1.0 if sa is None else 0.35  # the second count starts from the weights of the first
        target = validation.states(slice(None), visible)
        new_sa = HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, hidden))
        if sa is not None:
            warm_start(new_sa, sa)
        sa = new_sa
        train_hsp_sa(
            f"hsp_sa_{hidden}",
            folder,
            sa,
            sampler(data, 256, (visible,)),
            target,
            Schedule(steps(round(7000 * short)), rate=1e-3),
            visible=visible,
            batch=256,
            seed=seed,
        )
        sg = HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, hidden, alphas=list(PAPER_ALPHAS)))
        warm_start(sg, sa)
        train_hsp_sg(
            f"hsp_sg_{hidden}",
            folder,
            sg,
            sa,
            nri,
            lambda index, generator, visible=visible: data.states(index, visible, generator),
            min(100_000, len(data)),
            target[:1000],
            Schedule(steps(round(6000 * short)), rate=7e-4),
            visible=visible,
            batch=256,
            warmup_epochs=5 * scale * short,
            refresh_epochs=5 * scale * short,
            rounds=3,
            seed=seed,
        )


def warm_start(model: HiddenStatePredictor, source: HiddenStatePredictor) -> None:
    """Copy every weight that has the same shape (the seeds of another number of slots do not)."""
    own = model.state_dict()
    model.load_state_dict({key: value for key, value in source.state_dict().items() if own[key].shape == value.shape}, strict=False)
