"""``siha train springs_team``: the bundles of the simulated team, from nothing to a folder that the node loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from offline_training.datasets.simulated import FRAMES, HORIZON, SPRINGS_SCALE, SpringsWindows, springs_windows
from offline_training.stages.hsp_sa import train_hsp_sa
from offline_training.stages.hsp_sg import train_hsp_sg
from offline_training.stages.loop import Schedule
from offline_training.stages.nri import train_nri
from offline_training.systems.springs import FRAME_DT
from siha_ros.model.bundle import BundleConfig, ErrorTable, Ranges, Training, save_bundle
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig, align, take_slots
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.refinement import Refinement

AGENTS, FEATURES = 7, 4


def sampler(
    data: SpringsWindows, batch: int, visible: tuple[int, ...], agents: int = AGENTS
) -> Callable[[torch.Generator], Tensor]:
    """Random batches of the first ``agents``, in the frame of a random one of the numbers ``visible`` of seen agents,
    turned at random."""

    def sample(generator: torch.Generator) -> Tensor:
        index = torch.randint(0, len(data), (batch,), generator=generator)
        count = visible[int(torch.randint(0, len(visible), (1,), generator=generator))]
        return data.states(index, count, generator)[:, :agents]

    return sample


@dataclass
class SpringsModules:
    """The networks of a bundle: NRI on all agents, NRI on five visible ones (a baseline), predictors by number of
    hidden agents."""

    nri: NRI
    nri_visible: NRI
    hsp_sa: dict[int, HiddenStatePredictor]
    hsp_sg: dict[int, HiddenStatePredictor]


def new_modules(kind: str, hidden_counts: tuple[int, ...]) -> SpringsModules:
    """Untrained networks of a set ("fresh" or "any")."""

    def nri(encoder_width: int, decoder_width: int) -> NRI:
        return NRI(
            NRIConfig(
                FRAMES,
                FEATURES,
                difference_gain=30.0,
                encoder_width=encoder_width,
                decoder_width=decoder_width,
                output_gain=0.05,
                tied=kind == "any",
            )
        )

    return SpringsModules(
        nri(256, 128),
        nri(128, 64),  # a baseline that ships only to be compared with
        {hidden: HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, hidden)) for hidden in hidden_counts},
        {
            hidden: HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, hidden, alphas=list(PAPER_ALPHAS)))
            for hidden in hidden_counts
        },
    )


def train_modules(
    kind: str, folder: Path, *, samples: int, scale: float, seed: int, hidden_counts: tuple[int, ...]
) -> SpringsModules:
    """Train all networks of one set in ``folder``, going on from the checkpoints there. scale: multiplies every
    schedule."""
    data = springs_windows(kind, "train", samples, seed=seed)
    validation = springs_windows(kind, "validation", 2000, seed=seed)

    def steps(count: float) -> int:
        return max(10, round(count * scale))

    torch.manual_seed(seed)
    modules = new_modules(kind, hidden_counts)
    for stage, (name, nri, agents, count, rate) in enumerate(
        (
            ("nri", modules.nri, AGENTS, 6000, 1e-3),
            ("nri_fine", modules.nri, AGENTS, 6000, 5e-4),  # the same network, from where the first stage left it
            ("nri_visible", modules.nri_visible, AGENTS - 2, 2000, 1e-3),
        )
    ):
        sizes = tuple(range(5, agents + 1)) if kind == "any" else (agents,)
        target = validation.states(slice(None), agents)[:1000]
        train_nri(
            name,
            folder,
            nri,
            sampler(data, 128, sizes, agents),
            target[:, :agents],
            validation.edges[:1000, :agents, :agents],
            Schedule(steps(count), rate=rate),
            batch=128,
            starts=1,
            seed=seed + stage,
        )
    larger: HiddenStatePredictor | None = None
    for hidden in sorted(hidden_counts, reverse=True):
        visible = AGENTS - hidden
        share = 1.0 if larger is None else 0.35  # the next count starts from the weights of the one before
        target = validation.states(slice(None), visible)
        sa, sg = modules.hsp_sa[hidden], modules.hsp_sg[hidden]
        if larger is not None:
            warm_start(sa, larger)
        train_hsp_sa(
            f"hsp_sa_{hidden}",
            folder,
            sa,
            sampler(data, 256, (visible,)),
            target,
            Schedule(steps(7000 * share), rate=1e-3),
            visible=visible,
            batch=256,
            seed=seed,
        )
        warm_start(sg, sa)
        train_hsp_sg(
            f"hsp_sg_{hidden}",
            folder,
            sg,
            sa,
            modules.nri,
            partial(_fixed_set, data, visible),
            min(100_000, len(data)),
            target[:1000],
            Schedule(steps(6000 * share), rate=7e-4),
            visible=visible,
            batch=256,
            warmup_epochs=5 * scale * share,
            refresh_epochs=5 * scale * share,
            rounds=3,
            seed=seed,
        )
        larger = sa
    return modules


def _fixed_set(data: SpringsWindows, visible: int, index: Tensor | slice, turn: torch.Generator | None) -> Tensor:
    return data.states(index, visible, turn)


def warm_start(model: HiddenStatePredictor, source: HiddenStatePredictor) -> None:
    """Copy every weight that has the same shape (the seeds of another number of slots do not)."""
    own = model.state_dict()
    model.load_state_dict(
        {key: value for key, value in source.state_dict().items() if own[key].shape == value.shape}, strict=False
    )


@torch.no_grad()
def measure_noise(modules: SpringsModules, validation: SpringsWindows) -> dict[str, Tensor]:
    """Variances that weigh the evidence at run time, from validation windows, per feature and normalised: of the
    decoder's step under the inferred graph, and of the refined guess by number of hidden agents."""
    states = validation.states(slice(None), AGENTS)
    graph = modules.nri.graph(states)
    stepped = modules.nri.step(states[:, :, 1:-1].transpose(1, 2).flatten(0, 1), graph.repeat_interleave(FRAMES - 2, 0))
    error = (stepped.view(len(states), FRAMES - 2, AGENTS, FEATURES).transpose(1, 2) - states[:, :, 2:]).square()
    noise = {"step_variance": robust_mean(error.flatten(0, 2))}
    for hidden, hsp_sa in modules.hsp_sa.items():
        visible = AGENTS - hidden
        states = validation.states(slice(None), visible)
        guess = Refinement(hsp_sa, modules.hsp_sg[hidden], modules.nri)(states[:, :visible]).hidden
        guess = take_slots(guess, align(guess, states[:, visible:]))
        noise[f"guess_variance_{hidden}"] = (guess - states[:, visible:]).square().flatten(0, 2).mean(0)
    return noise


def robust_mean(squared: Tensor) -> Tensor:
    """Mean of the smaller 95 % in each column of ``[n, D]``: a wrong edge in a few samples must not blur the dynamics
    of all."""
    kept = int(0.95 * len(squared))
    return squared.sort(0).values[:kept].mean(0)


def save_springs_bundle(
    path: Path,
    kind: str,
    modules: SpringsModules,
    noise: dict[str, Tensor],
    errors: dict[str, ErrorTable],
    metrics: dict,
    training: Training,
) -> None:
    """Write the bundle of one set."""
    data = springs_windows(kind, "validation", 2000)
    states = data.states(slice(None), AGENTS - 2)
    positions, velocities = SPRINGS_SCALE.split(states)
    largest = max(modules.hsp_sa)
    config = BundleConfig(
        format=1,
        name=path.name,
        system="springs",
        purpose="the simulated team of make demo: 7 like agents joined by springs"
        if kind == "any"
        else "the paper's Springs table (frames 1-50)",
        count=AGENTS,
        agent_names=[],
        limbs={},
        dims=2,
        dt=FRAME_DT,
        window=FRAMES,
        horizon=HORIZON,
        frame="team" if kind == "any" else "world",
        velocity="backward_difference" if kind == "any" else "measured",
        scale=SPRINGS_SCALE,
        edge_types=["none", "spring"],
        max_hidden=largest,
        hidden_sets=[],
        rounds=5,
        ranges=Ranges(
            agents=[AGENTS, AGENTS],
            rate=[1 / FRAME_DT, 1000.0],
            speed=float(velocities.norm(dim=-1).max()) * 1.1,
            extent=float(positions.norm(dim=-1).max()) * 1.1,
        ),
        errors=errors,
        training=training,
        metrics=metrics,
    )
    networks: dict[str, NRI | HiddenStatePredictor] = {"nri": modules.nri, "nri_visible": modules.nri_visible}
    for hidden in modules.hsp_sa:
        networks |= {f"hsp_sa_{hidden}": modules.hsp_sa[hidden], f"hsp_sg_{hidden}": modules.hsp_sg[hidden]}
    save_bundle(path, config, networks, {"noise": noise})
