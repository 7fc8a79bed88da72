"""``siha train springs_team``: the bundles of the simulated team, from nothing to a folder that the node loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import siha_ros
from offline_training.datasets.losses import team_losses
from offline_training.datasets.simulated import FRAMES, HORIZON, SPRINGS_SCALE, springs_windows
from offline_training.datasets.team import TeamWindows
from offline_training.stages.hsp_sa import train_hsp_sa
from offline_training.stages.hsp_sg import train_hsp_sg
from offline_training.stages.logs import claim, plot_curves, revision, stage_rows
from offline_training.stages.loop import Schedule
from offline_training.stages.nri import train_nri
from offline_training.systems.springs import FRAME_DT
from siha_ros.estimator import load_estimator
from siha_ros.model.bundle import BundleConfig, ErrorTable, Ranges, Training, save_bundle
from siha_ros.model.edges import matrix_to_incoming
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig, align, take_slots
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.refinement import Refinement
from siha_ros.replay.losses import error_table, error_tables, run_losses

AGENTS, FEATURES = 7, 4
STEPS = {  # of each stage; HSP for the first number of hidden agents, the next takes a share of it
    "any": {"nri": 7500, "nri_visible": 0, "hsp_sa": 3500, "hsp_sg": 2500},
    "fresh": {"nri": 6000, "nri_visible": 2000, "hsp_sa": 3500, "hsp_sg": 2500},
}
HSP_BATCH = 512
CACHED = 256_000  # windows of the fixed set of HSP-sg; of fewer it knows so much that their graphs come out too good
CHUNK = 250  # windows that are looked at together


def sampler(
    data: TeamWindows, batch: int, visible: tuple[int, ...], agents: int = AGENTS
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
    """The networks of a bundle: NRI on all agents, NRI on five visible ones (the paper's baseline, in the paper's set),
    predictors by number of hidden agents."""

    nri: NRI
    nri_visible: NRI | None
    hsp_sa: dict[int, HiddenStatePredictor]
    hsp_sg: dict[int, HiddenStatePredictor]


def new_modules(kind: str, hidden_counts: tuple[int, ...]) -> SpringsModules:
    """Untrained networks of a set ("fresh" or "any")."""

    config = NRIConfig(FRAMES, FEATURES, difference_gain=30.0, decoder_width=128, output_gain=0.05, tied=kind == "any")
    sizes = {hidden: HSPConfig(FRAMES, FEATURES, hidden, difference_gain=30.0) for hidden in hidden_counts}
    return SpringsModules(
        NRI(config),
        NRI(config) if kind == "fresh" else None,
        {hidden: HiddenStatePredictor(size) for hidden, size in sizes.items()},
        {hidden: HiddenStatePredictor(replace(size, alphas=list(PAPER_ALPHAS))) for hidden, size in sizes.items()},
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
    plan = STEPS[kind]
    for name, nri, agents in (("nri", modules.nri, AGENTS), ("nri_visible", modules.nri_visible, AGENTS - 2)):
        if nri is None or not plan[name]:
            continue
        sizes = tuple(range(5, agents + 1)) if kind == "any" else (agents,)
        target = validation.states(slice(None), agents)[:1000]
        train_nri(
            name,
            folder,
            nri,
            sampler(data, 128, sizes, agents),
            target[:, :agents],
            validation.edges[:1000, :agents, :agents],
            Schedule(steps(plan[name]), rate=1e-3),
            batch=128,
            starts=1,
            seed=seed,
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
            sampler(data, HSP_BATCH, (visible,)),
            target,
            Schedule(steps(plan["hsp_sa"] * share), rate=1e-3, optimiser="muon", validate_every=250),
            visible=visible,
            batch=HSP_BATCH,
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
            min(CACHED, len(data)),
            target[:1000],
            Schedule(steps(plan["hsp_sg"] * share), rate=7e-4, optimiser="muon", validate_every=250),
            visible=visible,
            batch=HSP_BATCH,
            warmup_epochs=2 * scale * share,
            refresh_epochs=1.5 * scale * share,
            rounds=3,
            seed=seed,
        )
        larger = sa
    return modules


def _fixed_set(data: TeamWindows, visible: int, index: Tensor | slice, turn: torch.Generator | None) -> Tensor:
    return data.states(index, visible, turn)


def warm_start(model: HiddenStatePredictor, source: HiddenStatePredictor) -> None:
    """Copy every weight that has the same shape (the seeds of another number of slots do not)."""
    own = model.state_dict()
    model.load_state_dict(
        {key: value for key, value in source.state_dict().items() if own[key].shape == value.shape}, strict=False
    )


@torch.no_grad()
def measure_noise(modules: SpringsModules, validation: TeamWindows) -> dict[str, Tensor]:
    """Variances that weigh the evidence at run time, from validation windows, per feature and normalised: of the
    decoder's step under the inferred graph, and of the refined guess by number of hidden agents.
    """
    errors = []
    for states in validation.states(slice(None), AGENTS)[:, :, :FRAMES].split(CHUNK):
        graph = modules.nri.graph(states)
        before = states[:, :, 1:-1].transpose(1, 2)
        stepped = modules.nri.decoder(before, matrix_to_incoming(graph).unsqueeze(1)).transpose(1, 2)
        errors.append((stepped - states[:, :, 2:]).square().flatten(0, 2))
    noise = {"step_variance": robust_mean(torch.cat(errors))}
    for hidden in modules.hsp_sa:
        truth = validation.states(slice(None), AGENTS - hidden)[:, :, :FRAMES]
        noise[f"guess_variance_{hidden}"] = guess_errors(modules, truth, hidden).square().flatten(0, 2).mean(0)
    return noise


def guess_errors(modules: SpringsModules, states: Tensor, hidden: int) -> Tensor:
    """What the paper's refinement gets wrong of the last ``hidden`` agents of ``[n, A, T, D]``: ``[n, H, T, D]``."""
    visible = AGENTS - hidden
    refinement = Refinement(modules.hsp_sa[hidden], modules.hsp_sg[hidden], modules.nri)
    errors = []
    for part in states.split(CHUNK):
        guess = refinement(part[:, :visible]).hidden
        errors.append(take_slots(guess, align(guess, part[:, visible:])) - part[:, visible:])
    return torch.cat(errors)


def robust_mean(squared: Tensor) -> Tensor:
    """Mean of the smaller 95 % in each column of ``[n, D]``: a wrong edge in a few samples must not blur the dynamics
    of all."""
    kept = int(0.95 * len(squared))
    return squared.sort(0).values[:kept].mean(0)


def train_bundle(
    kind: str, out: Path, work: Path, *, samples: int = 400_000, scale: float = 1.0, seed: int = 0
) -> Path:
    """``siha train springs_team``: train, measure on validation runs, write the bundle ``out``. Goes on from what is in
    ``work``."""
    counts = (1, 2) if kind == "any" else (2,)
    claim(work, set=kind, samples=samples, scale=scale, seed=seed, steps=STEPS[kind])
    modules = train_modules(kind, work, samples=samples, scale=scale, seed=seed, hidden_counts=counts)
    return finish_bundle(kind, out, work, modules, seed=seed, losses=max(10, round(100 * scale)))


def finish_bundle(kind: str, out: Path, work: Path, modules: SpringsModules, *, seed: int, losses: int) -> Path:
    """Write the bundle of trained networks: deviations and figures from validation data, what each stage cost from its
    log."""
    validation = springs_windows(kind, "validation", 1000, future=HORIZON, seed=seed)
    noise = measure_noise(modules, validation)
    errors = window_errors(modules, validation)
    plot_curves(work)
    rows = stage_rows(work)
    training = Training(
        command=f"siha train springs_team --set {kind} --seed {seed}",
        data=f"simulated springs, set {kind}",
        seed=seed,
        trials=[],
        samples={name: row["samples"] for name, row in rows.items()},
        minutes={name: round(row["seconds"] / 60, 1) for name, row in rows.items()},
        revision=revision(),
        versions={"siha_ros": siha_ros.__version__, "torch": str(torch.__version__), "numpy": np.__version__},
    )
    metrics = {
        "validation": {name: {key: row[key] for key in ("mse", "accuracy") if key in row} for name, row in rows.items()}
    }
    save_springs_bundle(out, kind, modules, noise, errors, metrics, training)
    if kind == "any":  # the deviations of a live node: many losses through the estimator that the bundle makes
        estimator = load_estimator(out, "cpu")
        runs = chain.from_iterable(team_losses(losses // 2, lost, "validation", seed + lost) for lost in (1, 2))
        measured = run_losses(
            estimator.bundle.config,
            {"siha": estimator},
            runs,
            rate=2.5,
            seed=seed,
            progress=True,
            total=losses // 2 * 2,
        )
        errors |= error_tables(measured)
        save_springs_bundle(out, kind, modules, noise, errors, metrics, training)
    return out


@torch.no_grad()
def window_errors(modules: SpringsModules, validation: TeamWindows) -> dict[str, ErrorTable]:
    """Deviations from validation windows with a future: of the paper's guess ("hsp", and "siha" until losses were
    measured), of a forecast by seconds ahead, of constant velocity by seconds since a loss."""
    visible = AGENTS - max(modules.hsp_sa)
    states = validation.states(slice(None), visible)
    past, future = states[:, :, :FRAMES], states[:, :, FRAMES:]
    unseen = guess_errors(modules, past, AGENTS - visible)[:, :, -1, :2].flatten(0, 1) * SPRINGS_SCALE.position
    ahead = torch.cat([modules.nri.forecast(x[:, :, -1], modules.nri.graph(x), HORIZON) for x in past.split(CHUNK)])
    seconds = torch.arange(1, HORIZON + 1) * FRAME_DT
    positions, velocities = SPRINGS_SCALE.split(past[:, :, -1:])
    straight = positions + velocities * seconds[:, None]
    true, _ = SPRINGS_SCALE.split(future)

    def by_time(error: Tensor) -> ErrorTable:
        times = seconds.expand(error.shape[:-1]).flatten()
        return error_table(times.numpy(), error.flatten(0, -2).numpy())

    hsp = error_table(np.full(len(unseen), 0.05), unseen.numpy())
    return {
        "siha": hsp,
        "hsp": hsp,
        "forecast": by_time(SPRINGS_SCALE.split(ahead)[0] - true),
        "constant_velocity": by_time(straight - true),
    }


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
    seen = springs_windows(kind, "train", 8000).states(slice(None), AGENTS - 2)
    positions, velocities = SPRINGS_SCALE.split(seen)
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
    networks: dict[str, NRI | HiddenStatePredictor] = {"nri": modules.nri}
    if modules.nri_visible is not None:
        networks["nri_visible"] = modules.nri_visible
    for hidden in modules.hsp_sa:
        networks |= {f"hsp_sa_{hidden}": modules.hsp_sa[hidden], f"hsp_sg_{hidden}": modules.hsp_sg[hidden]}
    save_bundle(path, config, networks, {"noise": noise})
