"""``siha reproduce unsupervised``: HSP-sa without the hidden agents' trajectories as targets. It learns only from how
well NRI, given its reconstruction, predicts the frames of the visible agents that follow. The paper's three variants on
Springs: NRI from scratch and trained with it, pretrained and trained with it, pretrained and frozen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import VISIBLE, Lab, Setting, seeded, space_of
from offline_training.experiments.measure import all_figures
from offline_training.experiments.report import bars, budget, figure, table
from offline_training.experiments.store import Trained
from offline_training.stages.loop import Schedule, Stage, train
from offline_training.stages.samples import device_of, states_of
from offline_training.team import TeamPlan, sampler
from siha_ros.model.hidden_state import HiddenStatePredictor, reconstruction_error
from siha_ros.model.nri import NRI
from siha_ros.replay.evaluate import network_answer

STEPS = 450  # at scale 1
SUPERVISED = ("supervised", "supervised_as_long")  # with hidden targets; the latter sees as many samples as the three
VARIANTS = {  # NRI pretrained, NRI trained with HSP-sa
    "joint_random": (False, True),
    "joint_pretrained": (True, True),
    "frozen": (True, False),
    "supervised": (True, False),
    "supervised_as_long": (True, False),
}
COLUMNS = {"mse_hsp_mean": "MSE_HSP", "mse_fsp_onestep_visible": "MSE_FSP visible, one step", "acc_vv": "V-V %"}
PAPER = {
    "joint_random": "4.3e-1/2.0e-4/98.2 3.6e-1/1.8e-4/72.1 2.8e-1/2.3e-4/65.7 3.3e-1/2.3e-4/50.0 4.0e-1/2.8e-4/50.0",
    "joint_pretrained": "4.1e-1/2.2e-4/98.4 3.3e-1/2.3e-4/73.5 2.6e-1/2.4e-4/66.2 3.0e-1/2.6e-4/50.0"
    " 3.7e-1/2.9e-4/50.0",
    "frozen": "3.8e-1/2.2e-4/98.2 3.1e-1/2.4e-4/73.8 2.5e-1/2.4e-4/66.1 2.7e-1/2.8e-4/50.0 3.5e-1/3.1e-4/50.0",
    "supervised": "2.5e-3/1.5e-5/99.7 5.6e-3/9.3e-6/98.7 7.1e-3/6.4e-6/97.0 8.1e-3/5.7e-6/95.6 9.1e-3/6.0e-6/93.0",
}


class Pair(nn.Module):
    """HSP-sa and NRI, trained through each other. frozen: NRI stays as it is, and does not count as a part."""

    def __init__(self, hsp: HiddenStatePredictor, nri: NRI, frozen: bool):
        super().__init__()
        self.hsp = hsp
        self.trained_nri = None if frozen else nri
        self._frozen = [nri.eval().requires_grad_(False)] if frozen else []  # in a list: no part of this module

    @property
    def nri(self) -> NRI:
        """The one that is used."""
        return self.trained_nri if self.trained_nri is not None else self._frozen[0]

    def losses(self, visible: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The evidence lower bound of NRI with the hidden agents' trajectories from HSP-sa, of which nothing is a
        target: what is predicted of the frames of ``visible [B, V, T, D]``, per agent."""
        nri, config = self.nri, self.nri.config
        complete = torch.cat([visible, self.hsp(visible)], 1)
        logits = nri.encoder(complete)
        predicted = nri.predict(complete, nri.sample(logits)).float()[:, : visible.shape[1]]
        squared = (predicted - visible[:, :, 1:]).square()
        likelihood = squared.flatten(1).sum(1).mean() / (2 * config.variance * visible.shape[1])
        probabilities = torch.softmax(logits, -1)
        relative = probabilities * (probabilities.clamp_min(1e-16) * config.edge_types).log()
        divergence = relative.flatten(1).sum(1).mean() / complete.shape[1]
        return likelihood + divergence, {"mse": squared.mean().detach()}


@dataclass(frozen=True)
class Parts:
    """What a variant ends with, and what its own training cost."""

    hsp: HiddenStatePredictor
    nri: NRI
    cost: dict[str, Any]


def cells(lab: Lab, options: Options) -> list[Cell]:
    """Three variants and HSP-sa with hidden targets, of both lengths, for each number of hidden agents."""
    settings = [options.setting("springs", hidden) for hidden in options.hidden]
    return [_cell(lab, setting, variant) for setting in settings for variant in VARIANTS]


def _cell(lab: Lab, setting: Setting, variant: str) -> Cell:
    pretrained, _ = VARIANTS[variant]

    def run() -> dict[str, Any]:
        found = parts(lab, setting, variant)
        task = lab.task(setting)
        answers = {variant: network_answer(variant, found.nri, task, found.hsp, True)}
        figures = all_figures(answers, task, space_of(setting))[variant]
        return {"variant": variant, "hidden": setting.hidden, "cost": found.cost, "figures": figures}

    needs = lab.needs(setting, *(["nri"] if pretrained else []), *(["hsp_sa"] if variant == "supervised" else []))
    if variant not in SUPERVISED:  # a step costs five roll-outs, where NRI's own has one
        step = lab.needs(setting, "nri").popitem()[1] / lab.plan(setting).steps["nri"]
        needs[f"{variant} {setting}"] = STEPS * 2 * step
    options_of = lab.cell_key(setting) | {"variant": variant, "steps": STEPS}
    return Cell("unsupervised", f"{variant}_{setting.hidden}", options_of, needs, run)


def parts(lab: Lab, setting: Setting, variant: str) -> Parts:
    """The networks of a variant."""
    if variant in SUPERVISED:
        nri, sa = (
            lab.nri(setting),
            lab.hsp_sa(setting, plan=None if variant == "supervised" else short(lab.plan(setting))),
        )
        return Parts(sa.network, nri.network, sa.cost)
    trained = pair_model(lab, setting, variant)
    return Parts(trained.network.hsp, trained.network.nri, trained.cost)


def short(plan: TeamPlan) -> TeamPlan:
    """With an HSP-sa that takes the steps, and the batches, of the variants without hidden targets."""
    return replace(plan, steps=plan.steps | {"hsp_sa": STEPS}, hsp_batch=plan.nri_batch)


def pair_model(lab: Lab, setting: Setting, variant: str) -> Trained[Pair]:
    """The networks of a variant without hidden targets."""
    pretrained, joint = VARIANTS[variant]
    plan, start = lab.plan(setting), lab.nri(setting) if pretrained else None
    batch = plan.nri_batch

    def make() -> Pair:
        nri = NRI(plan.nri)
        if start is not None:
            nri.load_state_dict(start.network.state_dict())
        return Pair(HiddenStatePredictor(plan.hsp), nri.to(lab.store.device), not joint)

    def fit(pair: Pair, folder: Path) -> None:
        target = lab.validation(setting).states(slice(0, 500), VISIBLE)
        draw = sampler(lab.data(setting), batch, (VISIBLE,))

        def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
            states = draw(generator)
            return pair.losses(states_of(states)[:, :VISIBLE].to(device_of(pair)))

        steps = max(10, round(STEPS * setting.scale))
        schedule = Schedule(steps, rate=1e-3, optimiser="muon", validate_every=max(1, steps // 4))
        stage = Stage(pair, loss, lambda model: checked(model, target), better="nll")
        train(variant, folder, stage, schedule, batch=batch)

    options = lab.key(setting) | {"steps": STEPS, "from": start.key if start else None}
    return lab.store.model(variant, options, seeded(setting.seed + 3, make), fit)


@torch.no_grad()
def checked(model: nn.Module, states: Tensor) -> dict[str, float]:
    """What validation says of the visible agents under the most probable graph (nll, which picks the weights), and, for
    the log alone, of the hidden ones (mse), of ``states [n, A, T, D]``."""
    assert isinstance(model, Pair)
    likelihood, error = [], []
    device = device_of(model)
    with torch.autocast(device.type, torch.bfloat16, enabled=False):
        for x in (part.to(device) for part in states.split(250)):
            visible, config = x[:, :VISIBLE], model.nri.config
            hidden = model.hsp(visible)
            complete = torch.cat([visible, hidden], 1)
            logits = model.nri.encoder(complete)
            types = torch.nn.functional.one_hot(logits.argmax(-1), config.edge_types).to(x)
            missed = model.nri.predict(complete, types)[:, :VISIBLE] - visible[:, :, 1:]
            likelihood.append(missed.square().flatten(1).sum(1) / (2 * config.variance * VISIBLE))
            error.append(reconstruction_error(hidden, x[:, VISIBLE:]))
    return {"nll": float(torch.cat(likelihood).mean()), "mse": float(torch.cat(error).mean())}


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The table as Markdown, and ``folder/unsupervised.png``."""
    rows = []
    ordered = sorted(results, key=lambda one: (one["hidden"], list(VARIANTS).index(one["variant"])))
    for result in ordered:
        theirs = _paper(result)
        found = [figure(result["figures"], column, theirs[place]) for place, column in enumerate(COLUMNS)]
        rows.append([str(result["hidden"]), result["variant"], *found, budget([result["cost"]])])
    counts = sorted({result["hidden"] for result in results})
    series: dict[str, list[float | None]] = {}
    for variant in VARIANTS:
        known = {one["hidden"]: one["figures"]["mse_hsp_mean"] for one in results if one["variant"] == variant}
        series[variant] = [known.get(count) for count in counts]
    bars(folder / "unsupervised.png", "MSE_HSP", [f"{count} hidden" for count in counts], series)
    head = ["hidden", "variant", *COLUMNS.values(), "budget, less a pretrained NRI"]
    return (
        "ours [95 % interval] (paper's). Each step without hidden targets rolls NRI out, so the three see few samples;"
        " supervised_as_long is HSP-sa with hidden targets after as many, in batches of the same size.\n\n"
    ) + table(head, rows)


def _paper(result: Mapping[str, Any]) -> list[str]:
    paper = PAPER.get(result["variant"])
    return paper.split()[result["hidden"] - 1].split("/") if paper else ["-"] * len(COLUMNS)
