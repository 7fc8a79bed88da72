"""Which edges explain how agents move, learned without labels before NRI is: a model of one step that is linear in the
edges, so that the likeliest graph of a window is found by trying all of them.

    x_i(t+1) - x_i(t) ~ N( a(x_i) + sum_j [ b(x_i, x_j) + z_ij m(x_i, x_j) ],  s^2(x) ),   z_ij in {0, 1}, even odds

Expectation maximisation: the posterior of the z of each receiver, given some frames of a window whose errors are taken
for independent, is exact, by its 2^(A-1) sets of senders; a, b, m and s are networks that climb the likelihood under
graphs drawn from it. NRI's gradient has to come through sampled edges and a decoder that does not know yet what they
mean; here an edge is told as soon as m is right on average. The variance depends on the state: where agents meet
closely a frame is too long to be foretold, and those steps would drown others. A state that does not say all (of an
oscillator's phase it says the sine) goes in with its last change, and the change of that change is what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from offline_training.stages import processes
from offline_training.stages.loop import Schedule, Stage, train
from offline_training.stages.nri import known_accuracy
from offline_training.stages.samples import Sample, mine, parts, states_of
from siha_ros.model.edges import incoming_to_matrix
from siha_ros.model.nri import NRIConfig, PairLinear

NAMED = "_edges"  # after the name of the stage that it teaches
BATCH = 16  # windows of a step, about: many small steps teach more than few large ones
EXAMPLES = 16  # batches that tell the units
FRAMES = 16  # of a window that a step looks at, and
ASKED = 24  # that a graph is read off
EVEN_STEPS = 20  # in which all edges are half there; in more of them a(x_i) learns their mean effect and keeps it
RATE = 5e-3
MOST_AGENTS = 12
UNCHANGING = 1e-3  # change in a frame, by the spread of a feature, below which it tells nothing
LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE = -14.0, 6.0


class PairDynamics(nn.Module):
    """a, b, m and the log variance of the step of one frame, in units of what is usual.

    examples: states ``[n, A, T, D]``, which tell the units. first_acts: type 0 sends messages too (b). last: the last
    change is seen too.
    """

    unit: Tensor
    last_unit: Tensor
    told: Tensor

    def __init__(self, width: int, examples: Tensor, first_acts: bool, last: bool):
        super().__init__()
        self.features, self.first_acts, self.last = examples.shape[3], first_acts, last
        features, seen = self.features, self.features * (2 if last else 1)
        self.own = nn.Sequential(
            nn.Linear(seen, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * features)
        )
        out = (3 if first_acts else 2) * features
        self.first = PairLinear(seen, width)
        self.pair = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))
        with torch.no_grad():  # edges start as a function of differences, for the same reason as EVEN_STEPS are few
            self.first.receiver.weight.copy_(-self.first.sender.weight)
        spread, change, of_change = (examples.diff(n, dim=2).flatten(0, 2).std(0) for n in (0, 1, 2))
        least = UNCHANGING * spread.clamp_min(1e-6)
        self.register_buffer("unit", (of_change if last else change).maximum(least))
        self.register_buffer("last_unit", change.maximum(least))
        self.register_buffer("told", (change > least).float())

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``[..., A, D]``, or ``2 D`` with the last change, to the step without the edges that z tells ``[..., A, D]``,
        what each of them adds ``[..., A, A - 1, D]`` (receiver, sender), and the log variance ``[..., A, D]``."""
        own, log_variance = self.own(states).chunk(2, -1)
        pairs = self.pair(self.first(states)).split(self.features, -1)
        if self.first_acts:
            own = own + pairs[2].sum(-2)
        log_variance = log_variance + pairs[0].logsumexp(-2)
        # a soft bound, from which it can rise again
        log_variance = LEAST_LOG_VARIANCE + F.softplus(log_variance - LEAST_LOG_VARIANCE)
        return own, pairs[1], log_variance.clamp_max(MOST_LOG_VARIANCE)

    def step_terms(self, x: Tensor, known: Tensor | None, frames: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For S ``frames``, of :meth:`some_frames`, of trajectories ``[B, A, T, D]``: what is left of the steps without
        edges ``[B, S, A, D]``, what edges add ``[B, S, A, A - 1, D]``, log variances and weights, 0 where nothing was
        measured (bool ``known`` as in :meth:`NRI.elbo_loss`) or nothing changes."""
        frames = frames + int(self.last)
        now, step = x[:, :, frames].transpose(1, 2), (x[:, :, frames + 1] - x[:, :, frames]).transpose(1, 2)
        if self.last:
            before = now - x[:, :, frames - 1].transpose(1, 2)
            now, step = torch.cat([now, before / self.last_unit], -1), step - before
        own, sent, log_variance = self(now)
        weight = self.told.expand_as(own)
        if known is not None:
            seen = known[:, :, frames] & known[:, :, frames - int(self.last)]
            weight = weight * (seen.all(3).all(1)[:, :, None, None] & known[:, :, frames + 1].transpose(1, 2))
        return step / self.unit - own, sent, log_variance, weight

    def some_frames(self, x: Tensor, count: int) -> Tensor:
        """``count`` random ones of the frames of ``x`` that have a next one (and one before, where that is seen), or
        all."""
        return torch.randperm(x.shape[2] - 1 - int(self.last))[:count]

    def loss(self, x: Tensor, known: Tensor | None, draws: Tensor, even: bool) -> Tensor:
        """Negative log likelihood of a step's features under graphs of the posterior. draws: ``[B, A]`` in [0, 1),
        which ones. even: under edges that are all half there."""
        left, sent, log_variance, weight = self.step_terms(x, known, self.some_frames(x, FRAMES))
        with torch.no_grad():
            senders = drawn_senders(log_odds(left, sent, log_variance, weight), draws)
        senders = torch.full_like(senders, 0.5) if even else senders
        return negative_likelihood(left, sent, log_variance, weight, senders)

    @torch.no_grad()
    def graph(self, x: Tensor, known: Tensor | None = None) -> Tensor:
        """Posterior of the edge types ``[B, A, A - 1, 2]`` (receiver, sender) of trajectories ``[B, A, T, D]``."""
        frames, sets = self.some_frames(x, ASKED), sender_sets(x)
        masks = [None] * len(x) if known is None else known.split(BATCH)
        with torch.autocast(x.device.type, enabled=False):  # odds are small differences of large sums
            there = [  # no more at once than a processor's cache holds
                log_odds(*self.step_terms(part, mask, frames)).softmax(-1) @ sets
                for part, mask in zip(x.split(BATCH), masks, strict=False)
            ]
        probability = torch.cat(there)
        return torch.stack([1 - probability, probability], -1)


def batch_size() -> int:
    """``BATCH``, or as many more as can be shared out evenly to the processes."""
    return -(-BATCH // processes.count()) * processes.count()


def sender_sets(like: Tensor) -> Tensor:
    """All ``[2^(A-1), A - 1]`` sets of senders of an agent, 1 for those in one. like: states ``[B, A, ...]``."""
    index = torch.arange(like.shape[1] - 1, device=like.device)
    return (torch.arange(2 ** len(index), device=like.device)[:, None] >> index & 1).to(like)


def log_odds(left: Tensor, sent: Tensor, log_variance: Tensor, weight: Tensor) -> Tensor:
    """Log likelihood of every set of senders of each receiver, ``[B, A, 2^(A-1)]``, less that of none: it is quadratic
    in what they add, whose products are summed over frames first. Arguments: as :meth:`PairDynamics.step_terms` has
    them."""
    certainty = weight * (-0.5 * log_variance).exp()
    added = (sent * certainty.unsqueeze(-2)).permute(0, 2, 3, 1, 4).flatten(3)  # [B, A, A - 1, S D]
    remains = (left * certainty).transpose(1, 2).flatten(2)
    sets = sender_sets(sent[:, 0])
    products = torch.einsum("cj,bajk,ck->bac", sets, added @ added.transpose(-1, -2), sets)
    return (added @ remains.unsqueeze(-1)).squeeze(-1) @ sets.T - 0.5 * products


def drawn_senders(odds: Tensor, draws: Tensor) -> Tensor:
    """``[B, A, A - 1]``, 1 for senders of the set that ``draws [B, A]`` in [0, 1) picks by log odds
    ``[B, A, 2^(A-1)]``."""
    picked = torch.searchsorted(odds.softmax(-1).cumsum(-1), draws.unsqueeze(-1), right=True).squeeze(-1)
    return sender_sets(odds)[picked.clamp_max(odds.shape[-1] - 1)]


def negative_likelihood(left: Tensor, sent: Tensor, log_variance: Tensor, weight: Tensor, senders: Tensor) -> Tensor:
    """Of the steps under ``senders [B, A, A - 1]``, the mean over their features, but for a constant; those that do not
    count add 0."""
    error = left - (sent * senders[:, None, ..., None]).sum(-2)
    each = 0.5 * (error.square() * (-log_variance).exp() + log_variance)
    return (each * weight).mean()


def train_pair_dynamics(
    name: str,
    folder: Path,
    config: NRIConfig,
    sample: Callable[[torch.Generator], Sample],
    validation: Tensor,
    edges: Tensor | None,
    schedule: Schedule,
    steps: int,
    *,
    last: bool = False,
    seed: int = 0,
    device: torch.device | None = None,
) -> PairDynamics:
    """Train a model of steps for the edges of an NRI of ``config`` on sample(generator), :func:`batch_size` windows.
    schedule: of that NRI, whose validations are as many. last: as in :class:`PairDynamics`. The rest: as in
    :func:`train_nri`. Raises ValueError for more than two edge types or ``MOST_AGENTS`` agents."""
    agents = validation.shape[1]
    if config.edge_types != 2 or agents > MOST_AGENTS:
        raise ValueError(
            f"evidence: {agents} agents and {config.edge_types} edge types, "
            f"expected at most {MOST_AGENTS} and 2, since all graphs are tried"
        )
    drawing = torch.Generator().manual_seed(seed)
    examples = torch.cat([states_of(sample(drawing)) for _ in range(EXAMPLES)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        dynamics = PairDynamics(config.decoder_width, examples, not config.skip_first, last).to(device)

    def loss(step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        states, known = parts(sample(generator), dynamics)
        whole = len(states) * processes.count()  # drawn for the whole batch, as the rest is
        draws = mine(torch.rand(whole, agents, generator=generator), dynamics)
        return dynamics.loss(states, known, draws, step < EVEN_STEPS), {}

    def validate(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, PairDynamics)
        return evaluate_pair_dynamics(model, validation, edges)

    every = max(1, round(steps * schedule.validate_every / max(1, schedule.steps)))
    own = replace(schedule, steps=steps, rate=RATE, optimiser="muon", validate_every=every, bf16=False, constant=False)
    train(name, folder, Stage(dynamics, loss, validate, better="nll"), own, seed=seed, batch=batch_size())
    return dynamics


@torch.no_grad()
def evaluate_pair_dynamics(dynamics: PairDynamics, states: Tensor, edges: Tensor | None) -> dict[str, float]:
    """Negative log likelihood under the most probable graph, and where edges are known their accuracy in percent."""
    losses, guesses = [], []
    frames, device = torch.arange(states.shape[2] - 1 - int(dynamics.last)), dynamics.unit.device
    sets = sender_sets(states[:1].to(device))
    for x in (part.to(device) for part in states.split(BATCH)):
        terms = dynamics.step_terms(x, None, frames)
        senders = sets[log_odds(*terms).argmax(-1)]
        losses.append(negative_likelihood(*terms, senders) * len(x))
        guesses.append(incoming_to_matrix(F.one_hot(senders.long(), 2)).argmax(-1))
    return {"nll": float(torch.stack(losses).sum() / len(states))} | known_accuracy(guesses, edges, 2)
