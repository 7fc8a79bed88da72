"""One network for every number of hidden agents: predictors that share all weights but their seeds, and learn in one
stage.

What an agent's absence does to the others is much the same whether one is gone or two. Of a quarter of the schedule,
two hidden agents come out within 5 % of a network that had all the steps, one hidden agent, which needs fewer steps but
ends lower, at 2.5 times its error (docs/results.md).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from offline_training.stages import processes
from offline_training.stages.loop import Stage

BETWEEN = "mse_between"


class Together(nn.Module):
    """Models by the number of hidden agents, with the same names of weights. All weights of one shape become those of
    the first; seeds, one for each hidden agent, stay apart."""

    def __init__(self, models: dict[int, nn.Module]):
        super().__init__()
        self.models = nn.ModuleDict({str(hidden): model for hidden, model in models.items()})
        shared, *others = self.models.values()
        for name, weight in shared.named_parameters():
            place, _, last = name.rpartition(".")
            for other in others:
                if other.get_parameter(name).shape == weight.shape:
                    setattr(other.get_submodule(place), last, weight)

    def __getitem__(self, hidden: int) -> nn.Module:
        return self.models[str(hidden)]


def together(stages: dict[int, Stage]) -> Stage:
    """The stage in which those of several numbers of hidden agents learn as one: each step is one of theirs, drawn in
    proportion to the number, and goes down the logarithm of its error, since that of one agent is a tenth of that of
    two (the gradients of logarithms are long: ``Schedule.clip`` gives most steps one length).

    stages: by number, each with the metric "mse", which becomes "mse_1", "mse_2" and, as their geometric mean,
    "mse_between". A stage that is alone stays as it is. Raises ValueError with several processes, each of which would
    take the logarithm of its own share.
    """
    if len(stages) == 1:
        return next(iter(stages.values()))
    if processes.count() > 1:
        raise ValueError(f"predictors of {len(stages)} numbers of hidden agents learn together in one process only")
    model = Together({hidden: stage.model for hidden, stage in stages.items()})
    numbers = torch.tensor(list(stages))

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        hidden = int(numbers[torch.multinomial(numbers.float(), 1, generator=generator)])
        value, parts = stages[hidden].loss(step, generator)
        return value.log(), {f"mse_{hidden}": value.detach(), **parts}

    def validate(averaged: nn.Module) -> dict[str, float]:
        assert isinstance(averaged, Together)
        each = {hidden: stage.validate(averaged[hidden]) for hidden, stage in stages.items()}
        mse = torch.tensor([metrics["mse"] for metrics in each.values()]).log().mean().exp()
        own = {f"{key}_{hidden}": value for hidden, metrics in each.items() for key, value in metrics.items()}
        return {BETWEEN: float(mse)} | own

    def each_step(step: int, averaged: nn.Module) -> None:
        assert isinstance(averaged, Together)
        for hidden, stage in stages.items():
            if stage.each_step is not None:
                stage.each_step(step, averaged[hidden])

    kept = [graphs for stage in stages.values() for graphs in stage.kept]
    return Stage(model, loss, validate, better=BETWEEN, each_step=each_step, kept=kept)
