"""``siha reproduce table2``: the paper's motion-capture table. CMU subjects 35 and 69 at 120 Hz in the world's frame,
the left arm or the left leg hidden; visible-only NRI, HSP-sa and SIHA, beside the paper's numbers.

Positions are scaled from their range in training to [-1, 1] and velocities by the largest of them; the paper does not
say its scale, so its numbers are of another size. Subject 35: trials 05, 11 and 30 test, 03, 09 and 33 validate. Of
subject 69 there is one trial: its last fifth tests, and training windows are moved about, since that is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offline_training.config import STAGES, TrainConfig, load_config
from offline_training.datasets.benchmarks import BodyScale, StateWindows, body_state_windows
from offline_training.datasets.body import FRAMES, TEST, VALIDATION, limbs
from offline_training.datasets.cmu_mocap import Trial, load_subject
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import ROUNDS, Lab, Space, seeded, warmed
from offline_training.experiments.measure import all_figures, differences
from offline_training.experiments.report import bars, budget, difference_rows, figure, short, table
from offline_training.experiments.store import Trained, digest
from offline_training.team import TeamPlan, described, fit_hsp_sa, fit_hsp_sg, fit_nri
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import Refinement
from siha_ros.replay.evaluate import Answer, Task, network_answer

SUBJECTS, LIMBS = ("35", "69"), ("left_arm", "left_leg")
FUTURE = {"35": 50, "69": 25}  # frames; of subject 69 there is no more
SHIFT = {"35": 0.0, "69": 1.0}  # m
SHARES = {"35": 1.0, "69": 0.3}  # of the schedule: 69 has a tenth of the windows
GAIN = 10.0  # of what predictors of a body see and say
FEATURES, STRIDE = 6, 4  # STRIDE: frames between windows that are measured
CHECKS = 200  # windows that validate NRI and HSP-sg
SECONDS = {"nri": 0.5, "nri_visible": 0.3, "hsp_sa": 0.12, "hsp_sg": 0.3}  # a step with two threads; for a budget only
METHODS = {"nri_visible": "NRI", "hsp_sa": "HSP-sa", "siha_paper": "SIHA"}
MODELS = {"nri_visible": ("nri_visible",), "hsp_sa": ("nri", "hsp_sa"), "siha_paper": ("nri", "hsp_sa", "hsp_sg")}
COLUMNS = {
    "mse_hsp_mean": "MSE_HSP",
    "mse_fsp_onestep_hidden": "MSE_FSP hidden, one step",
    "mse_fsp_onestep_visible": "MSE_FSP visible, one step",
    "mse_fsp_openloop_hidden": "hidden, open loop",
    "mse_fsp_openloop_visible": "visible, open loop",
}
GAPS = {"mse_hsp_mean": "MSE_HSP", "mse_fsp_onestep_visible": "MSE_FSP visible, one step"}
INTERVALS = (
    "Windows overlap, so intervals draw whole test trials, of which there are three; subject 69 has one, and none."
    " All are of one training: what another would give is not in them."
)
PAPER = {  # NRI, HSP-sa, SIHA: MSE_HSP, MSE_FSP hidden, MSE_FSP visible
    "35_left_arm": ["- - 0.012463", "0.015547 0.039196 0.008176", "0.008056 0.021843 0.007788"],
    "35_left_leg": ["- - 0.039669", "0.025210 0.022922 0.006773", "0.023735 0.014077 0.006594"],
    "69_left_arm": ["- - 0.001954", "0.003224 0.004434 0.001304", "0.003349 0.004263 0.001227"],
    "69_left_leg": ["- - 0.001635", "0.001880 0.003977 0.000939", "0.001616 0.003633 0.000915"],
}


class NamedPredictor(HiddenStatePredictor):
    """A predictor of agents with names that come in one order: the visible ones first, then its slots. Positions go in
    and come out relative to the mean of the visible ones in each frame, so where a body walks makes no difference, and
    GAIN times as large: a limb swings by a hundredth of the way that is walked."""

    def forward(
        self, visible: Tensor, structure: Tensor | None = None, names: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """``visible [B, V, T, D]`` to the hidden agents ``[B, H, T, D]``, in their order."""
        seen, every = visible.shape[1], torch.arange(self.config.identities, device=visible.device)
        centre = visible.mean(1, keepdim=True)
        centre[..., FEATURES // 2 :] = 0.0  # velocities stay as they are
        found = super().forward(GAIN * (visible - centre), structure, names or (every[:seen], every[seen:]))
        return centre + found / GAIN


@dataclass
class MovedWindows(StateWindows):
    """Windows that training sees moved in the horizontal plane, at random by up to ``shift`` (normalised)."""

    shift: float = 0.0

    def states(
        self, index: Tensor | slice, visible: int, rotate: torch.Generator | None = None, order: Tensor | None = None
    ) -> Tensor:
        """See :class:`StateWindows`."""
        states = self.all_states[index]
        if rotate is None or not self.shift:
            return states
        way = torch.zeros(len(states), 1, 1, FEATURES)
        way[..., :2] = self.shift * (2 * torch.rand(len(states), 1, 1, 2, generator=rotate) - 1)
        return states + way


@dataclass(frozen=True)
class BodySetting:
    """What decides the models of one subject, beside the plan. scale: multiplies every schedule. data: a digest."""

    subject: str
    scale: float
    seed: int
    data: str
    shift: float


@dataclass
class Body:
    """The data of one subject with one limb hidden. names: of the joints, those of the limb last."""

    setting: BodySetting
    limb: str
    names: list[str]
    hidden: int
    training: MovedWindows
    validation: StateWindows
    test: StateWindows
    space: Space
    step: float  # of a normalised position in a frame, by the normalised velocity
    groups: NDArray[np.int64]  # of the test windows, see blocks

    @property
    def task(self) -> Task:
        """The test windows."""
        return Task(self.test.all_states, None, self.hidden, 0, FRAMES, False, self.groups)


def split(trials: Sequence[Trial]) -> tuple[list[Trial], list[Trial], list[Trial]]:
    """Trials to train on, to validate on and to test on; a single one is cut by time."""
    if len(trials) == 1:
        whole, frames = trials[0], trials[0].positions.shape[1]
        cuts = [0, round(0.64 * frames), round(0.81 * frames), frames]
        one, two, three = (
            replace(whole, positions=whole.positions[:, begin:end]) for begin, end in zip(cuts, cuts[1:], strict=False)
        )
        return [one], [two], [three]
    number = {trial.name: trial.name.split("_")[-1] for trial in trials}
    train = [trial for trial in trials if number[trial.name] not in TEST + VALIDATION]
    check, test = ([trial for trial in trials if number[trial.name] in which] for which in (VALIDATION, TEST))
    if not (train and check and test):
        raise ValueError(f"{len(trials)} trials, of which some of {', '.join(VALIDATION + TEST)} are expected")
    return train, check, test


def body(folder: Path, limb: str, options: Options) -> Body:
    """One subject, whose folder has its number as a name."""
    subject = folder.name
    train, check, test = split(load_subject(folder))
    joints = list(train[0].joints)
    hidden = limbs(joints)[limb]
    scale = BodyScale.of(train)
    half = (scale.high - scale.low) / 2
    shift = SHIFT.get(subject, 0.0)
    future = FUTURE.get(subject, 25)
    seen = body_state_windows(train, limb, FRAMES, 1, scale)
    setting = BodySetting(subject, scale_of(subject, options), options.seed, data_of(folder), shift)
    return Body(
        setting,
        limb,
        [joint for joint in joints if joint not in hidden] + hidden,
        len(hidden),
        MovedWindows(seen.all_states, None, False, shift / half),
        body_state_windows(check, limb, FRAMES, STRIDE, scale),
        body_state_windows(test, limb, FRAMES, STRIDE, scale, future),
        Space(3, Scale(half, scale.speed)),
        scale.speed / train[0].rate / half,
        blocks([trial.positions.shape[1] for trial in test], FRAMES + future),
    )


def blocks(frames: Sequence[int], length: int) -> NDArray[np.int64]:
    """Which windows, ``length`` frames long, belong together because they overlap, i8[n]: those of a trial; of a single
    one, those that start in the same ``length`` frames. frames: of each trial."""
    starts = [np.arange(0, count - length + 1, STRIDE) for count in frames]
    if len(starts) == 1:
        return starts[0] // length
    return np.repeat(np.arange(len(starts)), [len(one) for one in starts])


@cache
def config_of(settings: tuple[str, ...]) -> TrainConfig:
    """How models of bodies are trained: by the config of subject 35. settings: ``key=value`` that overrule it."""
    return load_config("cmu35", settings=settings, more=["table2"])


def plan_of(data: Body, config: TrainConfig) -> TeamPlan:
    """The same for the windows of a body, whose predictors have names."""
    agents = data.training.agents
    plan = config.plan(len(data.training), agents, data.hidden, min(CHECKS, len(data.validation)))
    return replace(plan, hsp=replace(plan.hsp, identities=agents))


@dataclass(frozen=True)
class BodyModels:
    """The networks of one subject and limb; NRI is that of all of its limbs."""

    nri: Trained[NRI]
    nri_visible: Trained[NRI]
    hsp_sa: Trained[HiddenStatePredictor]
    hsp_sg: Trained[HiddenStatePredictor]


def models(lab: Lab, data: Body) -> BodyModels:
    """Train them, or find them in the store."""
    plan, setting, agents = plan_of(data, config_of(lab.settings)), data.setting, data.training.agents
    sets = data.training, data.validation
    long = {"scale": setting.scale, "seed": setting.seed}

    def nri(kind: str, count: int, limb: str) -> Trained[NRI]:
        def fit(network: NRI, folder: Path) -> None:
            fit_nri(kind, plan, network, *sets, folder, agents=count, **long)  # type: ignore[arg-type]

        shared = {key: value for key, value in described(plan).items() if key not in ("hsp", "hidden_counts")}
        options = {"body": asdict(setting), "limb": limb, "plan": shared}
        return lab.store.model(kind, options, seeded(setting.seed, lambda: NRI(plan.nri)), fit)

    complete = nri("nri", agents, "")
    alone = nri("nri_visible", agents - data.hidden, data.limb)
    options = {"body": asdict(setting), "limb": data.limb, "plan": described(plan), "gain": GAIN}

    def fit_sa(network: HiddenStatePredictor, folder: Path) -> None:
        fit_hsp_sa("hsp_sa", plan, {data.hidden: network}, *sets, folder, **long)  # type: ignore[arg-type]

    sa: Trained[HiddenStatePredictor] = lab.store.model(
        "hsp_sa", options, seeded(setting.seed + 1, lambda: NamedPredictor(plan.hsp)), fit_sa
    )
    config = replace(plan.hsp, alphas=list(PAPER_ALPHAS))

    def fit_sg(network: HiddenStatePredictor, folder: Path) -> None:
        nets = {data.hidden: network}, {data.hidden: sa.network}, complete.network
        fit_hsp_sg("hsp_sg", plan, *nets, *sets, folder, **long)  # type: ignore[arg-type]

    sg: Trained[HiddenStatePredictor] = lab.store.model(
        "hsp_sg",
        options | {"from": [complete.key, sa.key]},
        seeded(setting.seed + 2, lambda: warmed(NamedPredictor(config), sa.network)),
        fit_sg,
    )
    return BodyModels(complete, alone, sa, sg)


def answers_of(found: BodyModels, task: Task) -> dict[str, Answer]:
    """What the methods say of the test windows."""
    nri, sa, sg = found.nri.network, found.hsp_sa.network, found.hsp_sg.network
    refinement = Refinement(sa, sg, nri, ROUNDS)
    alone = Task(task.states[:, : task.seen], None, 0, 0, task.frames, False)
    return {
        "nri_visible": network_answer("nri_visible", found.nri_visible.network, alone, None, True),
        "hsp_sa": network_answer("hsp_sa", nri, task, sa, True, ordered=True),
        "siha_paper": network_answer("siha", nri, task, refinement, True, ordered=True),
        "nri_complete": network_answer("nri_complete", nri, task, None, True),
    }


def subjects(options: Options) -> list[Path]:
    """Folders of the subjects that are there. Raises ValueError where there is none."""
    found = (
        [options.data / subject for subject in SUBJECTS if (options.data / subject).is_dir()] if options.data else []
    )
    if not found:
        raise ValueError(f"motion capture is needed: --data DIR, with the folder {' or '.join(SUBJECTS)} of a subject")
    return found


def data_of(folder: Path) -> str:
    """A digest of the recordings in a folder, by their names and sizes."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".asf", ".amc"))
    return digest({path.name: path.stat().st_size for path in files})


def scale_of(subject: str, options: Options) -> float:
    """Of the schedules of a subject."""
    return float(f"{options.scale * SHARES.get(subject, 1.0):.3g}")


def cell_key(lab: Lab, options: Options, folder: Path, limb: str) -> dict[str, Any]:
    """All that decides the models of a limb, and what is measured of them."""
    return {
        "subject": folder.name,
        "limb": limb,
        "data": data_of(folder),
        "scale": scale_of(folder.name, options),
        "seed": options.seed,
        "config": asdict(config_of(lab.settings)),
        "gain": GAIN,
        "rounds": ROUNDS,
    }


def needs(lab: Lab, options: Options, folder: Path, limb: str) -> dict[str, float]:
    """What the models of a limb cost (min, about), by names that no other models have."""
    scale, stages = scale_of(folder.name, options), config_of(lab.settings).stages
    minutes = scale * lab.pace_of(options.setting("springs", 1)) / 60
    return {
        f"{stage} {folder.name} {'' if stage == 'nri' else limb} {scale}": minutes * one.steps * SECONDS[stage]
        for stage, one in stages.items()
    }


def cells(lab: Lab, options: Options) -> list[Cell]:
    """One for each subject and limb."""
    return [_cell(lab, options, folder, limb) for folder in subjects(options) for limb in LIMBS]


def _cell(lab: Lab, options: Options, folder: Path, limb: str) -> Cell:
    def run() -> dict[str, Any]:
        data = body(folder, limb, options)
        found, task = models(lab, data), data.task
        answers = answers_of(found, task)
        return {
            "subject": folder.name,
            "limb": limb,
            "windows": {"training": len(data.training), "test": len(data.test)},
            "costs": {name: getattr(found, name).cost for name in STAGES},
            "methods": all_figures(answers, task, data.space),
            "differences": differences(answers, task, [("siha_paper", "hsp_sa"), ("siha_paper", "nri_visible")]),
        }

    key = cell_key(lab, options, folder, limb)
    return Cell("table2", f"{folder.name}_{limb}", key, needs(lab, options, folder, limb), run)


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/table2.png``."""
    rows, apart = [], []
    for result in results:
        who = [result["subject"], result["limb"]]
        apart += [[*who, *row] for row in difference_rows(result["differences"], list(GAPS), METHODS)]
        paper = PAPER.get(f"{result['subject']}_{result['limb']}", ["- - -"] * len(METHODS))
        for (method, title), theirs in zip(METHODS.items(), paper, strict=True):
            numbers = [_plain(text) for text in theirs.split()] + [None, None]
            found = [
                figure(result["methods"][method], column, number)
                for column, number in zip(COLUMNS, numbers, strict=True)
            ]
            far = result["methods"][method]["error_cm_window"]
            found += ["-" if far is None else f"{far:.2f}", budget([result["costs"][one] for one in MODELS[method]])]
            rows.append([*who, title, *found])
    groups = [f"{one['subject']} {one['limb']}" for one in results]
    series = {title: [one["methods"][name]["mse_hsp_mean"] for one in results] for name, title in METHODS.items()}
    ends = {title: [one["methods"][name]["mse_hsp_mean_ci"] for one in results] for name, title in METHODS.items()}
    del series["NRI"], ends["NRI"]
    bars(folder / "table2.png", "MSE_HSP", groups, series, ends)
    head = ["subject", "hidden", "method", *COLUMNS.values(), "cm", "budget"]
    return (
        "ours [95 % interval] (paper's, in a scale that it does not state)\n\n"
        + table(head, rows)
        + f"\n{INTERVALS}\n"
        + "\nDifferences on the same windows, mean [95 % interval]\n\n"
        + table(["subject", "hidden", "difference", *GAPS.values()], apart)
    )


def _plain(text: str) -> str:
    return text if text == "-" else short(float(text))
