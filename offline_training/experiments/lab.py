"""The models and test sets of the experiments on simulated systems: how each is made, so that all experiments mean the
same by it, and what it costs.

The paper's setting: frames 1-50 from the start, world frame, the simulator's velocities, frames 51-100 for the future;
5 agents are visible throughout and the others are never seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from offline_training.budget import WINDOWS, measure
from offline_training.config import STAGES, load_config
from offline_training.datasets.benchmarks import SYSTEMS, StateWindows, System
from offline_training.experiments.store import Store, Trained
from offline_training.stages.loop import read_note, write_atomically
from offline_training.stages.progress import say, say_simulating
from offline_training.team import TeamPlan, described, fit_hsp_sa, fit_hsp_sg, fit_nri, guided, warm_start
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI
from siha_ros.replay.evaluate import Task

FRAMES, FUTURE, VISIBLE = 50, 50, 5
ROUNDS = 5  # of the refinement at test time
PARTLY = 0.1  # of the schedule of HSP-sa, for what goes on from its weights to agents seen in a part of the window
UNGUIDED = (0.0, 0.0, 0.0, 0.0)  # no head of HSP-sg looks at the graph: HSP-sa, trained for as long as HSP-sg

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class Setting:
    """What decides the models of a system with ``hidden`` agents out of sight. scale: multiplies every schedule.
    samples: training trajectories. extra: agents that act on the others and that no model knows of. encoder: of
    trajectories, "mlp" or "conv"."""

    system: str
    hidden: int
    scale: float = 1.0
    samples: int = 200_000
    seed: int = 0
    extra: int = 0
    encoder: str = "mlp"

    @property
    def agents(self) -> int:
        """Those that a model knows of."""
        return VISIBLE + self.hidden

    @property
    def name(self) -> str:
        """For a cell."""
        seed = f"_seed{self.seed}" if self.seed else ""
        extra = f"_and_{self.extra}" if self.extra else ""
        return f"{self.system}_{self.hidden}{extra}{seed}"


@dataclass(frozen=True)
class Space:
    """Metres, for the figures."""

    dims: int
    scale: Scale


@cache
def plan_of(setting: Setting, settings: tuple[str, ...] = ()) -> TeamPlan:
    """How its models are trained: by the system's config with its usual options, as ``siha train CONFIG.yaml`` does.
    settings: ``key=value`` that overrule the config."""
    more = () if setting.encoder == SYSTEMS[setting.system].encoder else (setting.encoder,)
    config = load_config(setting.system, settings=settings, more=more)
    return config.plan(setting.samples, setting.agents, setting.hidden, min(config.validation, setting.samples))


def seeded(seed: int, make: Callable[[], Network]) -> Callable[[], Network]:
    """``make`` with the same initial weights at every call."""

    def made() -> Network:
        torch.manual_seed(seed)
        return make()

    return made


def warmed(network: HiddenStatePredictor, source: HiddenStatePredictor) -> HiddenStatePredictor:
    """``network``, with the weights of ``source``."""
    warm_start(network, source)
    return network


PACED_AGENTS = 7


def pairs_share(agents: int) -> float:
    """Pairs of agents, by those of PACED_AGENTS: what a step of NRI costs goes by them."""
    return agents * (agents - 1) / (PACED_AGENTS * (PACED_AGENTS - 1))


# s a step with two threads of the machine of docs/results.md, of NRI for PACED_AGENTS, by encoder and whether a model
# of single steps teaches it, whose steps count as NRI's, TEACHING for each; for a budget only. "mlp taught" goes by its
# ratio to the other taught one on another machine.
TEACHING = 15.0
SECONDS = {
    "mlp": {"nri": 0.139, "nri_visible": 0.139, "hsp_sa": 0.101, "hsp_sg": 0.171},
    "conv": {"nri": 0.46, "nri_visible": 0.46, "hsp_sa": 0.101, "hsp_sg": 0.171},
    "conv taught": {"nri": 0.46, "nri_visible": 0.46, "hsp_sa": 0.101, "hsp_sg": 0.171},
    "mlp taught": {"nri": 0.40, "nri_visible": 0.40, "hsp_sa": 0.101, "hsp_sg": 0.171},
}


class Lab:
    """Makes models, or finds them in the store. test: trajectories of a test set. device: where models live. settings:
    ``key=value`` that overrule the configs."""

    def __init__(self, folder: Path, test: int = 2000, device: str = "cpu", settings: Sequence[str] = ()):
        self.store, self.test, self.settings = Store(folder, device), test, tuple(settings)
        self._data: tuple[tuple[Any, ...], StateWindows] | None = None
        self.pace = dict.fromkeys(SECONDS, 1.0)  # times of a step here, by those of SECONDS
        self.measured = False
        self._asked: dict[str, Setting] = {}  # kinds of training whose pace was asked for, with an example

    def pace_of(self, setting: Setting) -> float:
        """Times of a step of its kind of training here, by those of SECONDS; 1 until it is measured."""
        kind = self.kind(setting)
        self._asked.setdefault(kind, setting)
        return self.pace[kind]

    def measure_pace(self) -> None:
        """Take the pace of this machine, device and number of threads from a few steps of each stage of each kind of
        training that was asked for; what was measured once is kept, so that the same budget is the same schedule."""
        note = self.store.folder / f"pace_{self.store.device}_{torch.get_num_threads()}.json"
        remedy = "remove it, and paces are taken anew"
        known = read_note(note, remedy)
        if not all(isinstance(pace, float) and pace > 0 for pace in known.values()):
            raise ValueError(f"{note}: damaged, expected paces above 0: {remedy}")
        for kind, like in self._asked.items():
            if kind in known:
                continue
            say(f"timing a few steps of each stage ({kind}), for the budget")
            setting = replace(like, hidden=PACED_AGENTS - VISIBLE, samples=WINDOWS)
            data, checks = (windows(setting, split, WINDOWS, FRAMES, 0) for split in ("train", "validation"))
            steps = measure(plan_of(setting, self.settings), data, checks, self.store.device, False)
            assumed = {stage: self.seconds(setting, stage) for stage in STAGES}
            assumed["nri_visible"] *= pairs_share(VISIBLE)
            known[kind] = float(f"{sum(steps[stage].step for stage in assumed) / sum(assumed.values()):.3g}")
            note.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(note, lambda path: path.write_text(json.dumps(known) + "\n"))
        self.pace |= known
        self.measured = True

    def plan(self, setting: Setting) -> TeamPlan:
        """How its models are trained."""
        return plan_of(setting, self.settings).for_nri("nri")

    def plan_visible(self, setting: Setting) -> TeamPlan:
        """The same of NRI on the visible agents alone."""
        return plan_of(setting, self.settings).for_nri("nri_visible")

    def kind(self, setting: Setting) -> str:
        """Which of SECONDS its training goes by."""
        return setting.encoder + " taught" * bool(self.plan(setting).evidence)

    def seconds(self, setting: Setting, stage: str) -> float:
        """A step (s) by SECONDS, of NRI for PACED_AGENTS."""
        plan = self.plan_visible(setting) if stage == "nri_visible" else self.plan(setting)
        alone, taught = SECONDS[setting.encoder][stage], SECONDS[f"{setting.encoder} taught"][stage]
        return alone + (taught - alone) * plan.evidence / TEACHING

    # data

    def data(self, setting: Setting) -> StateWindows:
        """The training set; the last one is remembered."""
        which = (setting.system, setting.agents, setting.extra, setting.samples, setting.seed)
        if self._data is None or self._data[0] != which:
            self._data = None  # one of them at a time fits in memory
            say_simulating(setting.samples)
            self._data = which, windows(setting, "train", setting.samples, FRAMES, setting.seed)
        return self._data[1]

    def validation(self, setting: Setting) -> StateWindows:
        """The validation set."""
        return windows(setting, "validation", self.plan(setting).checks, FRAMES, setting.seed)

    def task(self, setting: Setting) -> Task:
        """The test set, the same for all seeds of training."""
        held_out = windows(setting, "test", self.test, FRAMES + FUTURE, 0)
        assert held_out.edges is not None
        return Task(held_out.all_states, held_out.edges.numpy(), setting.hidden, 0, FRAMES, True)

    def needs(self, setting: Setting, *stages: str) -> dict[str, float]:
        """What the models of these stages cost (min, about), by a name that tells them from all others."""
        plan, pace = self.plan(setting), self.pace_of(setting)
        found = {}
        for stage in stages:
            agents = setting.agents if stage == "nri" else VISIBLE
            step = self.seconds(setting, stage) * pace * (pairs_share(agents) if stage.startswith("nri") else 1)
            found[f"{stage} {setting}"] = plan.steps[stage] * setting.scale * step / 60
        return found

    def guided_needs(self, setting: Setting, alphas: Sequence[float]) -> dict[str, float]:
        """The same of HSP-sg with other strengths than the paper's."""
        (minutes,) = self.needs(setting, "hsp_sg").values()
        return {f"hsp_sg {tuple(alphas)} {setting}": minutes}

    def key(self, setting: Setting, plan: TeamPlan | None = None) -> dict[str, Any]:
        """All that decides its models, and so what is measured of them: it tells them from others in the store. plan:
        another one than the setting's."""
        return {"setting": asdict(setting), "plan": described(plan or self.plan(setting))}

    def cell_key(self, setting: Setting) -> dict[str, Any]:
        """The same of figures: with how they are measured."""
        visible = plan_of(setting, self.settings).evidence_visible
        own = {} if visible is None else {"evidence_visible": visible}
        return self.key(setting) | own | {"test": self.test, "rounds": ROUNDS}

    # models

    def nri(self, setting: Setting) -> Trained[NRI]:
        """NRI on all agents that are modelled."""
        return self._nri("nri", setting, setting.agents, self.plan(setting))

    def nri_visible(self, setting: Setting) -> Trained[NRI]:
        """NRI on the visible agents alone, the paper's reference."""
        return self._nri("nri_visible", setting, VISIBLE, self.plan_visible(setting))

    def _nri(self, kind: str, setting: Setting, agents: int, plan: TeamPlan) -> Trained[NRI]:
        def train(network: NRI, folder: Path) -> None:
            data, validation = self.data(setting), self.validation(setting)
            fit_nri(
                kind, plan, network, data, validation, folder, agents=agents, scale=setting.scale, seed=setting.seed
            )

        return self.store.model(kind, self.key(setting, plan), seeded(setting.seed, lambda: NRI(plan.nri)), train)

    def hsp_sa(
        self,
        setting: Setting,
        encoder: str = "",
        make: Callable[[HSPConfig], HiddenStatePredictor] | None = None,
        plan: TeamPlan | None = None,
    ) -> Trained[HiddenStatePredictor]:
        """HSP-sa. make, with its name: another predictor in its place. plan: another one than the setting's."""
        plan = plan or self.plan(setting)

        def train(network: HiddenStatePredictor, folder: Path) -> None:
            data, validation, own = self.data(setting), self.validation(setting), {setting.hidden: network}
            fit_hsp_sa("hsp_sa", plan, own, data, validation, folder, scale=setting.scale, seed=setting.seed)

        options = self.key(setting, plan) | {"encoder": encoder}
        maker = make or HiddenStatePredictor
        return self.store.model("hsp_sa", options, seeded(setting.seed + 1, lambda: maker(plan.hsp)), train)

    def hsp_sa_partly(self, setting: Setting) -> Trained[HiddenStatePredictor]:
        """HSP-sa that is shown what was seen of the hidden agents, from the weights of the other."""
        plan, sa = self.plan(setting), self.hsp_sa(setting)
        config = replace(plan.hsp, seen_frames=True)

        def train(network: HiddenStatePredictor, folder: Path) -> None:
            data, validation, scale = self.data(setting), self.validation(setting), PARTLY * setting.scale
            own = {setting.hidden: network}
            fit_hsp_sa("hsp_sa", plan, own, data, validation, folder, scale=scale, seed=setting.seed)

        options = self.key(setting) | {"share": PARTLY, "from": sa.key}
        make = seeded(setting.seed + 2, lambda: warmed(HiddenStatePredictor(config), sa.network))
        return self.store.model("hsp_sa_partly", options, make, train)

    def hsp_sg(self, setting: Setting, alphas: Sequence[float] = PAPER_ALPHAS) -> Trained[HiddenStatePredictor]:
        """HSP-sg under NRI's graphs, from the weights of HSP-sa. alphas: UNGUIDED for the control of what its longer
        training brings."""
        plan, nri, sa = self.plan(setting), self.nri(setting), self.hsp_sa(setting)
        config = guided(plan.hsp, alphas)

        def train(network: HiddenStatePredictor, folder: Path) -> None:
            fit_hsp_sg(
                "hsp_sg",
                plan,
                {setting.hidden: network},
                {setting.hidden: sa.network},
                nri.network,
                self.data(setting),
                self.validation(setting),
                folder,
                scale=setting.scale,
                seed=setting.seed,
            )

        options = self.key(setting) | {"alphas": list(alphas), "from": [nri.key, sa.key]}
        make = seeded(setting.seed + 2, lambda: warmed(HiddenStatePredictor(config), sa.network))
        return self.store.model("hsp_sg", options, make, train)


def windows(setting: Setting, split: str, count: int, frames: int, seed: int) -> StateWindows:
    """Windows of the agents that are modelled, in a team that may hold more."""
    system: System = SYSTEMS[setting.system]
    whole = system.windows(split, count, setting.agents + setting.extra, frames, seed)
    if not setting.extra:
        return whole
    assert whole.edges is not None
    known = setting.agents
    return StateWindows(whole.all_states[:, :known].clone(), whole.edges[:, :known, :known].clone(), whole.turned)


def space_of(setting: Setting) -> Space:
    """In which the figures of a system are given in centimetres."""
    return Space(2, SYSTEMS[setting.system].scale)
