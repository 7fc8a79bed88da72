"""Training of a team of like agents, simulated or recorded: the networks, the stages one after the other, and what is
measured of them for a bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import siha_ros
from offline_training.datasets.benchmarks import StateWindows
from offline_training.datasets.team import TeamWindows
from offline_training.stages.edge_evidence import NAMED, batch_size, train_pair_dynamics
from offline_training.stages.hsp_sa import hsp_sa_stage
from offline_training.stages.hsp_sg import hsp_sg_stage
from offline_training.stages.logs import revision, stage_rows
from offline_training.stages.loop import Schedule, train
from offline_training.stages.noisy_encoder import NAMED as NOISY_NAMED
from offline_training.stages.noisy_encoder import RATE_SHARE, NoisyWindows, train_noisy_encoder
from offline_training.stages.nri import train_nri
from offline_training.stages.samples import Sample, device_of
from offline_training.stages.together import together
from siha_ros.model.bundle import BundleConfig, ErrorTable, Training, save_bundle
from siha_ros.model.denoise import usual_roughness
from siha_ros.model.edges import matrix_to_incoming
from siha_ros.model.explain import EXPLAINED, explain, where_explained
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig, align, take_slots
from siha_ros.model.mix import MIX
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.refinement import Refinement
from siha_ros.model.team_linear import TeamLinear
from siha_ros.model.total import measure_total
from siha_ros.progress import shown
from siha_ros.replay.losses import error_table

Windows: TypeAlias = TeamWindows | StateWindows
CHUNK = 250  # windows that are looked at together
SOLVED_FROM = 200  # windows in which trajectories that explain the others are looked for
FEWEST_WINDOWS = 30  # that say how large errors are
# Standard deviation of a step, normalised (position, velocity), that is allowed for at least: no live team is as exact
# as a simulated one, and to who trusts a decoder all but wholly, noise and pushes are motion of the hidden agents.
LEAST_STEP = (5e-5, 3.6e-4)
FEWEST_CACHED = 50_000  # windows in HSP-sg's fixed set, where there are as many
NEXT_SHARE = 0.35  # of the steps of the first, for each further number of hidden agents


SCHEDULES = {  # of which a plan tells the steps
    "nri": Schedule(0, rate=1e-3, optimiser="muon"),
    "nri_visible": Schedule(0, rate=1e-3, optimiser="muon"),
    "hsp_sa": Schedule(0, rate=1e-3, optimiser="muon", validate_every=250),
    "hsp_sg": Schedule(0, rate=7e-4, optimiser="muon", validate_every=250),
}


@dataclass(frozen=True)
class TeamPlan:
    """How the networks of a team are made and trained.

    hidden_counts: numbers of hidden agents, a pair of predictors for each. visible_counts: numbers of seen agents in
    whose frame NRI's samples stand. nri, hsp: hyper-parameters (``hidden`` and ``alphas`` of the latter are set here).
    visible_only: an NRI of the visible agents alone beside the other, the paper's baseline. steps: of the stages nri,
    nri_visible, hsp_sa, hsp_sg; of the latter two for one number of hidden agents. cached: windows of the fixed
    set of HSP-sg. warmup_epochs, refresh_epochs: of its structure cache, over that set. schedules: of the stages, but
    for their steps. starts: of roll-outs, as in :meth:`NRI.elbo_loss`. evidence: steps of the model that tells NRI the
    edges (:mod:`offline_training.stages.edge_evidence`), by those of NRI; 0, the paper: there is none. evidence_last:
    it sees the last change of a state too. evidence_visible: the same as evidence for nri_visible, None: as for the
    other. noisy: further steps, by those of NRI, in which its encoder meets noise
    (:mod:`offline_training.stages.noisy_encoder`), taught by that model; of positions alone. rotate: samples are turned
    at random. warm: HSP-sg starts from the weights of HSP-sa. ordered: hidden agents have names, slots are not matched
    to them. rounds: of the refinement that validates HSP-sg; None: by a structure cache of the validation set, as the
    paper. checks: windows that validate NRI and HSP-sg.
    """

    hidden_counts: tuple[int, ...]
    visible_counts: tuple[int, ...]
    nri: NRIConfig
    hsp: HSPConfig
    steps: dict[str, int]
    visible_only: bool = False
    nri_batch: int = 128
    hsp_batch: int = 512
    cached: int = 256_000
    warmup_epochs: float = 2.0
    refresh_epochs: float = 1.5
    schedules: dict[str, Schedule] = field(default_factory=lambda: dict(SCHEDULES))
    starts: int | None = 1
    evidence: float = 0.0
    evidence_last: bool = False
    evidence_visible: float | None = None
    noisy: float = 0.0
    rotate: bool = True
    warm: bool = True
    ordered: bool = False
    rounds: int | None = 3
    checks: int = 1000

    def __post_init__(self) -> None:
        if self.noisy and not self.evidence:
            raise ValueError(f"noisy {self.noisy}: expected evidence above 0, the model that teaches the encoder then")

    def for_nri(self, stage: str) -> TeamPlan:
        """The plan of nri or nri_visible, with evidence for that one alone."""
        own = self.evidence_visible if stage == "nri_visible" else None
        return replace(self, evidence=self.evidence if own is None else own, evidence_visible=None)

    def schedule(self, stage: str, scale: float) -> Schedule:
        """Of a stage, ``scale`` times as long as it is planned."""
        return replace(self.schedules[stage], steps=max(min(10, self.steps[stage]), round(self.steps[stage] * scale)))


@dataclass
class TeamModules:
    """The networks of a bundle: NRI on all agents, NRI on the visible ones alone, predictors by number of hidden
    agents."""

    nri: NRI
    nri_visible: NRI | None
    hsp_sa: dict[int, HiddenStatePredictor]
    hsp_sg: dict[int, HiddenStatePredictor]

    def networks(self) -> dict[str, NRI | HiddenStatePredictor]:
        """All of them, by the names that they have in a bundle."""
        found: dict[str, NRI | HiddenStatePredictor] = {"nri": self.nri}
        if self.nri_visible is not None:
            found["nri_visible"] = self.nri_visible
        for hidden in self.hsp_sa:
            found |= {f"hsp_sa_{hidden}": self.hsp_sa[hidden], f"hsp_sg_{hidden}": self.hsp_sg[hidden]}
        return found


def new_networks(plan: TeamPlan) -> TeamModules:
    """Untrained networks."""
    sizes = {hidden: replace(plan.hsp, hidden=hidden) for hidden in plan.hidden_counts}
    return TeamModules(
        NRI(plan.nri),
        NRI(plan.nri) if plan.visible_only else None,
        {hidden: HiddenStatePredictor(size) for hidden, size in sizes.items()},
        {hidden: HiddenStatePredictor(guided(size, PAPER_ALPHAS)) for hidden, size in sizes.items()},
    )


def guided(config: HSPConfig, alphas: Sequence[float]) -> HSPConfig:
    """HSP-sg beside an HSP-sa; its hidden agents are absent throughout."""
    return replace(config, alphas=list(alphas), seen_frames=False)


def described(plan: TeamPlan) -> dict[str, Any]:
    """All of a plan, to name what was trained by it. Options that came later are left out where they are not taken, so
    that what was trained before keeps its name."""
    found = asdict(plan)
    if not plan.hsp.seen_frames:
        del found["hsp"]["seen_frames"]
    if not plan.evidence:
        del found["evidence"], found["evidence_last"]
    if plan.evidence_visible is None:
        del found["evidence_visible"]
    if not plan.noisy:
        del found["noisy"]
    if plan.nri.out_layers == 1:
        del found["nri"]["out_layers"]
    return found


def sampler(
    data: Windows, batch: int, visible: tuple[int, ...], agents: int | None = None, rotate: bool = True
) -> Callable[[torch.Generator], Sample]:
    """Random batches of the first ``agents`` (all by default), in the frame of a random one of the numbers ``visible``
    of seen agents, turned at random unless ``rotate`` is off."""

    def sample(generator: torch.Generator) -> Sample:
        index = torch.randint(0, len(data), (batch,), generator=generator)
        count = visible[int(torch.randint(0, len(visible), (1,), generator=generator))]
        order = data.draw_order(index, generator)
        states, known = data.states(index, count, generator if rotate else None, order), data.known_states(index, order)
        return states[:, :agents], None if known is None else known[:, :agents]

    return sample


def train_team(
    plan: TeamPlan,
    data: Windows,
    validation: Windows,
    folder: Path,
    *,
    scale: float,
    seed: int,
    device: str = "cpu",
    compiled: bool = False,
) -> TeamModules:
    """Train all networks in ``folder``, going on from the checkpoints there. validation: windows without gaps. scale:
    multiplies every schedule. device: where they train; they end on the CPU. compiled: by torch.compile."""

    torch.manual_seed(seed)
    modules = new_networks(plan)
    for network in modules.networks().values():
        network.to(device)
        for part in (network.encoder, network.decoder) if isinstance(network, NRI) else (network,):
            if compiled:
                part.compile()
    agents = data.agents
    fewest = agents - max(plan.hidden_counts)
    for name, nri, count in (("nri", modules.nri, agents), ("nri_visible", modules.nri_visible, fewest)):
        if nri is not None and plan.steps[name]:
            fit_nri(name, plan, nri, data, validation, folder, agents=count, scale=scale, seed=seed)
    sa, sg = modules.hsp_sa, modules.hsp_sg
    which, scale = "_".join(map(str, sa)), shared_scale(plan, scale)
    fit_hsp_sa(f"hsp_sa_{which}", plan, sa, data, validation, folder, scale=scale, seed=seed)
    if plan.warm:
        for hidden, predictor in sg.items():
            warm_start(predictor, sa[hidden])
    fit_hsp_sg(f"hsp_sg_{which}", plan, sg, sa, modules.nri, data, validation, folder, scale=scale, seed=seed)
    for network in modules.networks().values():
        network.to("cpu")
    return modules


def shared_scale(plan: TeamPlan, scale: float) -> float:
    """What the schedules of HSP are multiplied by, where all of them are by ``scale``."""
    return scale * (1 + NEXT_SHARE * (len(plan.hidden_counts) - 1))


def set_size(plan: TeamPlan, windows: int, steps: int) -> tuple[int, int]:
    """Windows of HSP-sg's fixed set, of so many, in the whole schedule and in one of ``steps``: graphs that are never
    drawn take time."""
    whole = min(plan.cached, windows)
    return whole, min(whole, max(FEWEST_CACHED, steps * plan.hsp_batch))


def fit_nri(
    name: str,
    plan: TeamPlan,
    nri: NRI,
    data: Windows,
    validation: Windows,
    folder: Path,
    *,
    agents: int,
    scale: float,
    seed: int,
) -> None:
    """The stage of ``plan.steps[name]``: NRI of the first ``agents``. scale: multiplies its schedule."""
    plan = plan.for_nri(name)
    target = validation.states(slice(None), agents)[: plan.checks, :agents]
    edges = None if validation.edges is None else validation.edges[: plan.checks, :agents, :agents]
    visible, schedule = plan.visible_counts if agents == data.agents else (agents,), plan.schedule(name, scale)
    taught_by = None
    if plan.evidence:
        sample = sampler(data, batch_size(), visible, agents, plan.rotate)
        steps, device = max(1, round(plan.evidence * schedule.steps)), device_of(nri)
        own, last = name + NAMED, plan.evidence_last
        taught_by = train_pair_dynamics(
            own, folder, plan.nri, sample, target, edges, schedule, steps, last=last, seed=seed, device=device
        ).graph
    train_nri(
        name,
        folder,
        nri,
        sampler(data, plan.nri_batch, visible, agents, plan.rotate),
        target,
        edges,
        schedule,
        batch=plan.nri_batch,
        starts=plan.starts,
        taught_by=taught_by,
        seed=seed,
    )
    if plan.noisy:
        assert taught_by is not None and isinstance(validation, TeamWindows)
        usual = float(motion_noise(validation)["roughness"])
        steps = max(min(10, schedule.steps), round(plan.noisy * schedule.steps))
        train_noisy_encoder(
            name + NOISY_NAMED,
            folder,
            nri,
            NoisyWindows(target.shape[2], usual, validation.scale, validation.dt),
            taught_by,
            sample=sampler(data, plan.nri_batch, visible, agents, plan.rotate),
            validation=target,
            edges=edges,
            schedule=replace(schedule, steps=steps, rate=RATE_SHARE * schedule.rate, validate_every=max(1, steps // 5)),
            batch=plan.nri_batch,
            seed=seed,
        )


def fit_hsp_sa(
    name: str,
    plan: TeamPlan,
    sa: dict[int, HiddenStatePredictor],
    data: Windows,
    validation: Windows,
    folder: Path,
    *,
    scale: float,
    seed: int,
) -> None:
    """The stage hsp_sa of predictors by how many agents, the last ones, are hidden. scale: multiplies its schedule."""
    stages = {
        hidden: hsp_sa_stage(
            predictor,
            sampler(data, plan.hsp_batch, (data.agents - hidden,), rotate=plan.rotate),
            validation.states(slice(None), data.agents - hidden),
            visible=data.agents - hidden,
            batch=plan.hsp_batch,
            ordered=plan.ordered,
        )
        for hidden, predictor in sa.items()
    }
    train(name, folder, together(stages), plan.schedule("hsp_sa", scale), seed=seed, batch=plan.hsp_batch)


def fit_hsp_sg(
    name: str,
    plan: TeamPlan,
    sg: dict[int, HiddenStatePredictor],
    sa: dict[int, HiddenStatePredictor],
    nri: NRI,
    data: Windows,
    validation: Windows,
    folder: Path,
    *,
    scale: float,
    seed: int,
) -> None:
    """The stage hsp_sg of predictors by how many agents, the last ones, are hidden. scale: multiplies its schedule,
    that of the cache too, whose fixed set holds no more windows than the schedule draws."""
    schedule = plan.schedule("hsp_sg", scale)
    whole, count = set_size(plan, len(data), schedule.steps)
    stages = {
        hidden: hsp_sg_stage(
            f"{name}, {hidden} hidden" if len(sg) > 1 else name,
            predictor,
            sa[hidden],
            nri,
            partial(_fixed_set, data, data.agents - hidden, plan.rotate),
            count,
            validation.states(slice(None), data.agents - hidden)[: plan.checks],
            visible=data.agents - hidden,
            batch=plan.hsp_batch,
            warmup_epochs=plan.warmup_epochs * scale * whole / count,
            refresh_epochs=plan.refresh_epochs * scale * whole / count,
            rounds=plan.rounds,
            ordered=plan.ordered,
        )
        for hidden, predictor in sg.items()
    }
    train(name, folder, together(stages), schedule, seed=seed, batch=plan.hsp_batch)


def _fixed_set(
    data: Windows, visible: int, rotate: bool, index: Tensor | slice, turn: torch.Generator | None
) -> Sample:
    return data.states(index, visible, turn if rotate else None), data.known_states(index)


def warm_start(model: HiddenStatePredictor, source: HiddenStatePredictor) -> None:
    """Copy every weight that has the same shape (the seeds of another number of slots do not)."""
    own = model.state_dict()
    model.load_state_dict(
        {key: value for key, value in source.state_dict().items() if key in own and own[key].shape == value.shape},
        strict=False,
    )


# what is measured


@torch.no_grad()
def measure_noise(modules: TeamModules, validation: TeamWindows) -> dict[str, Tensor]:
    """Variances that weigh the evidence at run time, from validation windows, per feature and normalised: of the
    decoder's step under the inferred graph, and of the refined guess by number of hidden agents.
    """
    errors = []
    history, agents = validation.history, validation.agents
    for states in validation.states(slice(None), agents)[:, :, :history].split(CHUNK):
        graph = modules.nri.graph(states)
        before = states[:, :, 1:-1].transpose(1, 2)
        stepped = modules.nri.decoder(before, matrix_to_incoming(graph).unsqueeze(1)).transpose(1, 2)
        errors.append((stepped - states[:, :, 2:]).square().flatten(0, 2))
    least = torch.tensor(LEAST_STEP).square().repeat_interleave(validation.positions.shape[-1])
    noise = {"step_variance": robust_mean(torch.cat(errors)).maximum(least)}
    for hidden in modules.hsp_sa:
        truth = validation.states(slice(None), agents - hidden)[:, :, :history]
        noise[f"guess_variance_{hidden}"] = guess_errors(modules, truth, hidden).square().flatten(0, 2).mean(0)
    return noise | motion_noise(validation)


def motion_noise(validation: TeamWindows) -> dict[str, Tensor]:
    """Of complete validation windows: how straight the sum of all agents goes, variance (m^2) and drift (m^2/s^3); how
    roughly agents move (m^2); kernel ``[T, T]`` of :class:`TeamLinear` (m^2)."""
    states = validation.states(slice(None), validation.agents)[:, :, : validation.history]
    positions = validation.scale.split(states)[0].double().numpy()
    return {
        "total": torch.tensor(measure_total(positions, validation.dt)),
        "roughness": torch.tensor(usual_roughness(positions)),
        "kernel": torch.from_numpy(TeamLinear.fit(positions).kernel),
    }


@torch.no_grad()
def guess_errors(modules: TeamModules, states: Tensor, hidden: int) -> Tensor:
    """What the paper's refinement gets wrong of the last ``hidden`` agents of ``[n, A, T, D]``: ``[n, H, T, D]``."""
    visible = states.shape[1] - hidden
    refinement = Refinement(modules.hsp_sa[hidden], modules.hsp_sg[hidden], modules.nri)
    errors = []
    for part in states.split(CHUNK):
        guess = refinement(part[:, :visible]).hidden
        errors.append(take_slots(guess, align(guess, part[:, visible:])) - part[:, visible:])
    return torch.cat(errors)


@torch.no_grad()
def unseen_errors(
    modules: TeamModules, states: Tensor, hidden: int, noise: dict[str, Tensor], measured: bool
) -> tuple[Tensor, Tensor]:
    """As :func:`guess_errors`, of the windows that the dynamics do not explain, and of those that they do with what
    explains them; a kind of which there are too few to tell has all windows and the larger errors.
    measured: velocities are."""
    visible = states.shape[1] - hidden
    refinement = Refinement(modules.hsp_sa[hidden], modules.hsp_sg[hidden], modules.nri)
    farthest, errors, solved = 2 * states.abs().amax((0, 1, 2)), [], []
    for part in shown(states.split(CHUNK // 5), f"never seen, {CHUNK // 5} windows each"):
        refined = refinement(part[:, :visible])
        variances = noise[f"guess_variance_{hidden}"], noise["step_variance"]
        found = explain(refinement, part[:, :visible], refined, *variances, farthest, first_step=measured)
        guess = where_explained(found, refined).hidden
        errors.append(take_slots(guess, align(guess, part[:, visible:])) - part[:, visible:])
        solved.append(found.residual <= EXPLAINED)
    error, fine = torch.cat(errors), torch.cat(solved)
    if min(int(fine.sum()), int((~fine).sum())) < FEWEST_WINDOWS:
        return error, error
    return error[~fine], error[fine]


def robust_mean(squared: Tensor) -> Tensor:
    """Mean of the smaller 95 % in each column of ``[n, D]``: a wrong edge in a few samples must not blur the dynamics
    of all."""
    kept = int(0.95 * len(squared))
    return squared.sort(0).values[:kept].mean(0)


@torch.no_grad()
def window_errors(modules: TeamModules, validation: TeamWindows) -> dict[str, ErrorTable]:
    """Deviations from validation windows with a future: of the paper's guess ("hsp", and "siha" until losses were
    measured), of a forecast by seconds ahead, of constant velocity by seconds since a loss."""
    hidden, scale, dt = max(modules.hsp_sa), validation.scale, validation.dt
    states = validation.states(slice(None), validation.agents - hidden)
    past, future = states[:, :, : validation.history], states[:, :, validation.history :]
    horizon, dims = future.shape[2], validation.features // 2
    unseen = guess_errors(modules, past, hidden)[:, :, -1, :dims].flatten(0, 1) * scale.position
    ahead = torch.cat([modules.nri.forecast(x[:, :, -1], modules.nri.graph(x), horizon) for x in past.split(CHUNK)])
    seconds = torch.arange(1, horizon + 1) * dt
    positions, velocities = scale.split(past[:, :, -1:])
    straight = positions + velocities * seconds[:, None]
    true, _ = scale.split(future)

    def by_time(error: Tensor) -> ErrorTable:
        times = seconds.expand(error.shape[:-1]).flatten()
        return error_table(times.numpy(), error.flatten(0, -2).numpy())

    hsp = error_table(np.full(len(unseen), 0.05), unseen.numpy())
    return {
        "siha": hsp,
        "hsp": hsp,
        "forecast": by_time(scale.split(ahead)[0] - true),
        "constant_velocity": by_time(straight - true),
    }


def unseen_tables(
    modules: TeamModules, validation: TeamWindows, noise: dict[str, Tensor], count: int = SOLVED_FROM
) -> dict[str, ErrorTable]:
    """Deviations of agents never seen in the first ``count`` windows, each by itself, in place of those of
    :func:`window_errors`: where the dynamics explain the others ("solved"), and where they do not ("hsp", and "siha"
    until losses were measured). noise: of :func:`measure_noise`."""
    hidden, dims = max(modules.hsp_sa), validation.features // 2
    states = validation.states(slice(None), validation.agents - hidden)[:count, :, : validation.history]
    measured = validation.velocity == "measured"
    hsp, solved = (
        error_table(np.full(len(error), 0.05), error.numpy())
        for error in (
            (kind[:, :, -1, :dims] * validation.scale.position).flatten(0, 1)
            for kind in unseen_errors(modules, states, hidden, noise, measured)
        )
    )
    return {"siha": hsp, "hsp": hsp, "solved": solved}


# the bundle


def training_record(work: Path, command: str, data: str, seed: int, trials: list[str]) -> Training:
    """How a bundle came to be, from the logs of its stages."""
    rows = stage_rows(work)
    return Training(
        command=command,
        data=data,
        seed=seed,
        trials=trials,
        samples={name: row["samples"] for name, row in rows.items()},
        minutes={name: round(row["seconds"] / 60, 1) for name, row in rows.items()},
        revision=revision(),
        versions={"siha_ros": siha_ros.__version__, "torch": str(torch.__version__), "numpy": np.__version__},
    )


def validation_metrics(work: Path) -> dict[str, dict[str, float]]:
    """What the last validation of each stage said."""
    return {
        name: {key: value for key, value in row.items() if key.startswith(("mse", "accuracy"))}
        for name, row in stage_rows(work).items()
    }


def save_team(
    path: Path,
    config: BundleConfig,
    modules: TeamModules,
    noise: dict[str, Tensor],
    mix: dict[str, Tensor] | None = None,
) -> None:
    """Write the bundle of a team. mix: tables ``[n, 4]`` of :mod:`siha_ros.model.mix`, by name."""
    save_bundle(path, config, modules.networks(), {"noise": noise} | ({MIX: mix} if mix else {}))
