"""The configs of ``siha train CONFIG.yaml``: the hyper-parameters of an experiment, and options by name that change
some of them for speed or accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from offline_training.datasets.benchmarks import SYSTEMS
from offline_training.stages.edge_evidence import MOST_AGENTS
from offline_training.stages.loop import Schedule
from offline_training.team import TeamPlan
from siha_ros.errors import one_line
from siha_ros.model.bundle import read_strictly
from siha_ros.model.hidden_state import HSPConfig
from siha_ros.model.limits import above_zero, at_least
from siha_ros.model.nri import NRIConfig

FOLDER = Path(__file__).parent / "configs"
BODY = "cmu"
BODY_FEATURES = 6
STAGES = ("nri", "nri_visible", "hsp_sa", "hsp_sg")


@dataclass
class StageConfig(Schedule):
    """A :class:`Schedule` whose length is given in epochs (as many batches as cover the training set), or in steps,
    which then count. validate_every: steps; 0 is once an epoch.
    """

    steps: int = 0
    epochs: float = 0.0
    validate_every: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, epochs=0)
        if max(self.steps, self.epochs) == 0:
            raise ValueError("expected epochs or steps above 0")


@dataclass
class Mocap:
    """Recorded bodies. limb: the one that is hidden. stride: frames from the begin of a window to that of the next.
    validation, test: endings of the names of the trials that do not train."""

    limb: str
    stride: int
    validation: list[str]
    test: list[str]

    def __post_init__(self) -> None:
        at_least(self, stride=1)


@dataclass
class TrainConfig:
    """What ``siha train CONFIG.yaml`` trains, and how.

    system: springs, charged, kuramoto or cmu. visible, hidden: agents (cmu: those of the limb are hidden). mocap: of
    cmu. frames: T. training, validation: windows of the simulated systems. visible_only: NRI of the visible agents
    beside the other. nri, hsp: hyper-parameters of the networks, but for sizes that follow from the data. starts,
    rotate, warm, rounds: as in :class:`TeamPlan`. nri_batch, hsp_batch: windows of a step. cached: windows of the fixed
    set of HSP-sg, None for all. warmup_epochs, refresh_epochs: of its structure cache; Algorithm 1 refreshes it after
    each epoch that is a multiple of the latter and beyond the former. options: changes by name, key: value with keys
    such as nri.decoder_width, stages.*.rate for all stages. usual: the options taken where none are named.
    """

    system: str
    frames: int
    nri: dict[str, Any]
    hsp: dict[str, Any]
    stages: dict[str, StageConfig]
    nri_batch: int
    hsp_batch: int
    warmup_epochs: float
    refresh_epochs: float
    visible: int = 5
    hidden: int = 2
    mocap: Mocap | None = None
    training: int = 0
    validation: int = 0
    seed: int = 0
    visible_only: bool = True
    starts: int | None = None
    evidence: float = 0.0
    evidence_last: bool = False
    evidence_visible: float | None = None
    rotate: bool = False
    warm: bool = False
    rounds: int | None = None
    cached: int | None = None
    options: dict[str, dict[str, Any]] | None = None
    usual: list[str] | None = None

    def __post_init__(self) -> None:
        if self.system not in (*SYSTEMS, BODY):
            raise ValueError(f"system: expected one of {', '.join(SYSTEMS)}, {BODY}")
        if set(self.stages) != set(STAGES):
            raise ValueError(f"stages: expected {', '.join(STAGES)}")
        if (self.mocap is None) == (self.system == BODY):
            raise ValueError(f"mocap: expected with system {BODY} alone")
        if self.system == BODY and self.hsp.get("seen_frames"):
            raise ValueError(f"hsp.seen_frames: expected without system {BODY}, whose joints have names")
        if self.system != BODY and self.hsp.get("identities"):
            raise ValueError(f"hsp.identities: expected with system {BODY} alone, whose joints have names")
        if self.mocap is None and min(self.training, self.validation) < 1:
            raise ValueError("training, validation: expected numbers of windows above 0")
        at_least(self, visible=2 if self.visible_only else 1, hidden=1, nri_batch=1, hsp_batch=1)
        at_least(self, seed=0, evidence=0, evidence_visible=0, starts=1, rounds=1, cached=1)
        above_zero(self, "warmup_epochs", "refresh_epochs")
        nri, _ = self._networks(1)
        if self.starts and self.frames <= nri.teacher_forcing:
            raise ValueError(
                f"frames: {self.frames}, expected more than the {nri.teacher_forcing} that each of the starts rolls out"
            )
        told = nri.edge_types == 2 and not nri.tied and nri.prior is None
        evidence = self.evidence or self.evidence_visible
        if evidence and not (told and self.system != BODY and self.visible + self.hidden <= MOST_AGENTS):
            raise ValueError(
                f"evidence: {evidence:g}, expected 0 with more than {MOST_AGENTS} agents, other than 2 edge types,"
                f" nri.tied, nri.prior or system {BODY}"
            )

    def _networks(self, hidden: int) -> tuple[NRIConfig, HSPConfig]:
        sizes = {"frames": self.frames}
        sizes["features"] = BODY_FEATURES if self.system == BODY else SYSTEMS[self.system].features
        nri: NRIConfig = read_strictly(NRIConfig, self.nri | sizes, "nri")
        hsp: HSPConfig = read_strictly(HSPConfig, self.hsp | sizes | {"hidden": hidden}, "hsp")
        return nri, hsp

    def plan(self, windows: int, agents: int, hidden: int, validation: int) -> TeamPlan:
        """For so many training windows of so many agents, ``hidden`` of them hidden, and so many to validate on."""
        nri, hsp = self._networks(hidden)
        schedules, steps = {}, {}
        for stage in STAGES:
            section = self.stages[stage]
            epoch = max(1, round(windows / (self.nri_batch if stage.startswith("nri") else self.hsp_batch)))
            steps[stage] = section.steps or max(1, round(section.epochs * epoch))
            given = {key: value for key, value in vars(section).items() if key != "epochs"}
            schedules[stage] = Schedule(**given | {"validate_every": section.validate_every or epoch})
        first = (int(self.warmup_epochs / self.refresh_epochs + 1e-6) + 1) * self.refresh_epochs
        return TeamPlan(
            hidden_counts=(hidden,),
            visible_counts=(agents,),
            nri=nri,
            hsp=hsp,
            steps=steps,
            visible_only=self.visible_only,
            nri_batch=self.nri_batch,
            hsp_batch=self.hsp_batch,
            cached=self.cached or windows,
            warmup_epochs=first,
            refresh_epochs=self.refresh_epochs,
            schedules=schedules,
            starts=self.starts,
            evidence=self.evidence,
            evidence_last=self.evidence_last,
            evidence_visible=self.evidence_visible,
            rotate=self.rotate,
            warm=self.warm,
            ordered=self.system == BODY,
            rounds=self.rounds,
            checks=validation,
        )


def load_config(
    path: str | Path, options: Sequence[str] | None = None, settings: Sequence[str] = (), more: Sequence[str] = ()
) -> TrainConfig:
    """Read a config file, or one of the package by name (``springs`` or ``springs.yaml``).

    options: names of those that are taken; None for the file's usual ones. more: names of others, taken after them.
    settings: ``key=value`` that overrule both.
    Raises ValueError, in one line, that names file and key.
    """
    file = Path(path)
    if not file.exists() and file.name == str(path):
        file = FOLDER / f"{file.name.removesuffix('.yaml')}.yaml"
    if not file.exists():
        known = ", ".join(sorted(own.name for own in FOLDER.glob("*.yaml")))
        raise ValueError(f"{path}: no such file, and none of the package's configs: {known}")
    with _read_as_yaml(str(file)):
        content = json.loads(json.dumps(yaml.safe_load(file.read_text(encoding="utf-8"))))  # aliases become copies
    config: TrainConfig = read_strictly(TrainConfig, content, str(file))
    known_options = config.options or {}
    for name in [*((config.usual or []) if options is None else options), *more]:
        if name not in known_options:
            raise ValueError(f"{file}: options: {name!r} is unknown, expected of {', '.join(known_options)}")
        for key, value in known_options[name].items():
            set_key(content, key, value, f"{file}: options: {name}")
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            raise ValueError(f"{setting!r}: expected key=value, such as hidden=3")
        with _read_as_yaml(f"{setting!r:.60}"):
            read = yaml.safe_load(value)
        set_key(content, key, read, "--set")
    config = read_strictly(TrainConfig, content, str(file))
    return replace(config, options=None, usual=None)


@contextmanager
def _read_as_yaml(where: str) -> Iterator[None]:
    try:
        yield
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{where}: cannot be read as YAML ({one_line(error)})") from None


def changed(config: TrainConfig, settings: dict[str, Any]) -> TrainConfig:
    """A config with other values of some keys, such as stages.nri.steps."""
    content = asdict(config)
    for key, value in settings.items():
        set_key(content, key, value, "settings")
    result: TrainConfig = read_strictly(TrainConfig, content, "settings")
    return result


def set_key(content: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set ``a.b.c`` in nested mappings; ``*`` stands for every key that is there. None removes the key."""
    first, _, rest = key.partition(".")
    names = list(content) if first == "*" else [first]
    for name in names:
        if not rest:
            if value is None:
                content.pop(name, None)
            else:
                content[name] = value
        elif isinstance(content.get(name), dict):
            set_key(content[name], rest, value, where)
        else:
            raise ValueError(f"{where}: {key}: there is no {name}")
