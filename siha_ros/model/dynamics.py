"""Hidden agents through the learned dynamics: what the decoder predicts for the agents that are seen is evidence about
those that are not.

Beyond the paper. The trained NRI decoder f maps all states and the graph to the next states. Given a graph, the hidden
trajectories h are those that explain what was seen:

    sum_t |v_{t+1} - f_v(v_t, h_t)|^2_R + |h_{t+1} - f_h(v_t, h_t)|^2_Q
          + |h_t - seen_t|^2_M + |h_t - guess_t|^2_W + |sum h_t - sum_t|^2_S + |h_0 - arrival|^2_P

v: agents seen throughout; seen: frames in which a hidden agent was still (or again) seen; guess: HSP's; sum: where the
hidden agents are together (:mod:`siha_ros.model.total`); arrival: what an earlier window knew. It is minimised by
Gauss-Newton: the decoder is linearised at all frames in one batched call, and the linear problem is solved exactly by a
forward information filter and a backward pass (an iterated Kalman smoother).

Agents are ordered visible first, then hidden. Everything is in normalised states, batched over B.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from siha_ros.model.edges import incoming_to_matrix, matrix_to_incoming
from siha_ros.model.nri import NRI, Decoder, PairLinear
from siha_ros.model.refinement import GUIDING_TYPE
from siha_ros.model.two_passes import two_passes

SEEN_DEVIATION = 1e-4  # of a seen state, normalised: 0.4 mm, what resampling leaves
LARGEST_LOG_ODDS = 12.0
FAINT = 1e-6  # information that keeps what nothing is known of where it is: a deviation of 1000, normalised
EDGE_CAUTION = 80.0  # the decoder's errors hang together over a window: all its steps count for little more than one
ENCODER_SHARE = 0.3  # of the encoder's log odds, which are surer of themselves than they are right ...
GAP_CAUTION = 8  # ... and which gaps in a window spoil: this power of the share of complete steps
EDGE_ROUNDS = 3  # the evidence is linear about a graph, so it is taken again about the graph that it gave
SURE = 6.0  # log odds at which a graph to linearise about is as good as certain
EDGE_PRIOR = 4.0  # information of an edge weight before any evidence: a deviation of 1/2


@dataclass
class Evidence:
    """What is known of H hidden agents over T frames, D features each.

    seen ``[B, H, T, D]``: states observed, NaN where not, with seen_variance (M). guess ``[B, H, T, D]`` and
    guess_variance ``[B, H, T, D]``: of HSP (infinite variance: none). arrival ``[B, H D]`` and arrival_information
    ``[B, H D, H D]`` (inverse covariance): of the first frame, or None. step_variance ``[D]``: of one step of the
    decoder, for hidden agents (Q) and seen ones (R), unless those have their own, visible_variance. first_step: whether
    the seen agents' velocities in the first frame are their own; where they are copies of the second ones, their first
    step says nothing. total: the sum of the hidden agents' states and its variance, ``[B, T, D]`` each (infinite: not
    known), or None.
    """

    seen: Tensor
    guess: Tensor
    guess_variance: Tensor
    arrival: Tensor | None
    arrival_information: Tensor | None
    step_variance: Tensor
    first_step: bool = False
    visible_variance: Tensor | None = None
    seen_variance: float = SEEN_DEVIATION**2
    total: tuple[Tensor, Tensor] | None = None


@dataclass
class Smoothed:
    """hidden ``[B, H, T, D]`` and covariance ``[B, T, H D, H D]`` given the whole window; filtered ``[B, T, H D]`` and
    filtered_information: mean and inverse covariance of each frame given earlier frames only, what a later window takes
    as its arrival; residual ``[B]``: mean squared step error of the seen agents in units of their variance, near 1
    where the dynamics explain what is seen."""

    hidden: Tensor
    covariance: Tensor
    filtered: Tensor
    filtered_information: Tensor
    residual: Tensor


def linearise(decoder: Decoder, states: Tensor, graph: Tensor, hidden: int) -> tuple[Tensor, Tensor]:
    """One step from each frame, and its exact derivative by the states of the last ``hidden`` agents.

    states ``[B, A, T, D]``, graph ``[B, A, A, K]``. Returns predictions of frames 1..T-1 ``[B, T - 1, A, D]`` and the
    Jacobian ``[B, T - 1, A D, H D]``. Written out instead of left to autograd: a hidden agent's state enters only the
    messages that it sends and those that it receives, which is a seventh of the work of differentiating everything, and
    all frames go in one call.
    """
    agents, features = states.shape[1], states.shape[3]
    x = states[:, :, :-1].transpose(1, 2)
    edges = matrix_to_incoming(graph).unsqueeze(1)
    own = torch.arange(hidden, device=x.device)  # hidden agent h is agent first + h
    first = agents - hidden
    agent = own[:, None] + first
    receiver = torch.arange(agents, device=x.device).expand(hidden, agents)
    slot = (agent - (agent > receiver).long()).clamp(max=agents - 2)  # where the senders of a receiver hold agent h

    received: Tensor | float = 0.0
    change: Tensor | float = 0.0  # of what each agent receives: [B, T - 1, H, A, D, width]
    for layer, kind in enumerate(decoder.used):
        pair, second = decoder.message1[layer], decoder.message2[layer]
        assert isinstance(pair, PairLinear) and isinstance(second, nn.Linear)
        inner = pair(x)
        outer = second(torch.relu(inner))
        strength = edges[..., kind : kind + 1]
        received = received + (torch.relu(outer) * strength).sum(-2)
        open1, open2 = (inner > 0).to(x.dtype), (outer > 0).to(x.dtype) * strength
        sent = open1[:, :, receiver, slot].unsqueeze(-2) * pair.sender.weight.T
        sent = _map(sent, second.weight).mul_(open2[:, :, receiver, slot].unsqueeze(-2))
        heard = open1[:, :, first:].unsqueeze(-2) * pair.receiver.weight.T
        heard = _map(heard, second.weight).mul_(open2[:, :, first:].unsqueeze(-2)).sum(-3)
        sent[:, :, own, own + first] = heard  # nobody sends to itself: what stands there is overwritten
        change = change + sent
    assert isinstance(received, Tensor) and isinstance(change, Tensor)

    inner = decoder.update1(torch.cat([x, received], -1))
    outer = decoder.update2(torch.relu(inner))
    slope = _map(change, decoder.update1.weight[:, features:])
    slope[:, :, own, own + first] += decoder.update1.weight[:, :features].T
    slope = _map(slope.mul_((inner > 0).to(x.dtype)[:, :, None, :, None]), decoder.update2.weight)
    slope = _map(slope.mul_((outer > 0).to(x.dtype)[:, :, None, :, None]), decoder.update3.weight)
    slope[:, :, own, own + first] += torch.eye(features, dtype=x.dtype, device=x.device)
    predicted = x + decoder.update3(torch.relu(outer))
    return predicted, slope.permute(0, 1, 3, 5, 2, 4).flatten(4, 5).flatten(2, 3)


def _map(rows: Tensor, weight: Tensor) -> Tensor:
    """``rows [..., in]`` times ``weight [out, in]``, as one matrix product whatever the strides (matmul may make it
    thousands of small ones)."""
    return (rows.reshape(-1, rows.shape[-1]) @ weight.T).unflatten(0, rows.shape[:-1])


def _sent(decoder: Decoder, states: Tensor) -> list[Tensor]:
    """Messages ``[B, T - 2, A, A - 1, width]`` of each type that the decoder uses, before edges weigh them, in the
    frames whose steps are evidence: the first velocity of a window is a copy of the second."""
    x = states[:, :, 1:-1].transpose(1, 2)
    pairs = zip(decoder.message1, decoder.message2, strict=True)
    return [torch.relu(second(torch.relu(first(x)))) for first, second in pairs]


@torch.no_grad()
def edge_evidence(
    decoder: Decoder,
    states: Tensor,
    graph: Tensor,
    step_variance: Tensor,
    tied: bool,
    steps: Tensor | None = None,
    sent: list[Tensor] | None = None,
) -> Tensor:
    """Log odds ``[B, A, A]`` that the steps of each receiver give to a guiding edge from each sender, beside what the
    encoder says.

    The decoder sums messages weighted by their edges, so the weights w of a receiver's edges that explain its steps
    best are a small least squares problem about ``graph [B, A, A, K]``: N(mean, spread^2) for each w, and log N(1) -
    log N(0) = (mean - 1/2) / spread^2. states ``[B, A, T, D]``; tied: both directions of a pair are one edge and their
    evidence adds up. steps ``[T - 2]``: weights of the steps from frame 1 on, all 1 by default. sent: the messages,
    which are the same about every graph.
    """
    agents, features = states.shape[1], states.shape[3]
    x = states[:, :, 1:-1].transpose(1, 2)
    edges = matrix_to_incoming(graph).unsqueeze(1)
    messages = dict(zip(decoder.used, _sent(decoder, states) if sent is None else sent, strict=True))
    message = messages[GUIDING_TYPE]
    received = sum((part * edges[..., kind : kind + 1]).sum(-2) for kind, part in messages.items())
    assert isinstance(received, Tensor)
    inner = decoder.update1(torch.cat([x, received], -1))
    outer = decoder.update2(torch.relu(inner))
    slope = _map(message, decoder.update1.weight[:, features:])
    slope = _map(slope * (inner > 0).unsqueeze(-2), decoder.update2.weight)
    slope = _map(slope * (outer > 0).unsqueeze(-2), decoder.update3.weight)  # [B, T - 2, A, A - 1, D]
    surprise = states[:, :, 2:].transpose(1, 2) - x - decoder.update3(torch.relu(outer))

    weight = (1 / step_variance.double()).repeat(states.shape[2] - 2)
    if steps is not None:
        weight = weight * steps.repeat_interleave(features)
    slope = slope.double().permute(0, 2, 3, 1, 4).flatten(3)  # [B, A, A - 1, (T - 2) D]
    weighted = slope * weight
    surprise = surprise.double().transpose(1, 2).flatten(2).unsqueeze(-1)
    information = weighted @ slope.transpose(2, 3) + EDGE_PRIOR * torch.eye(
        agents - 1, dtype=torch.double, device=states.device
    )
    spread = torch.linalg.inv(information)
    now = edges[:, 0, ..., GUIDING_TYPE].double()
    mean = now + (spread @ (weighted @ surprise)).squeeze(-1)
    odds = (mean - 0.5) / spread.diagonal(dim1=-2, dim2=-1) - EDGE_PRIOR * (now - 0.5)  # what is new in it
    odds = incoming_to_matrix(odds.unsqueeze(-1)).squeeze(-1)
    return (odds + odds.transpose(1, 2) if tied else odds).to(states.dtype)


@torch.no_grad()
def smooth(
    decoder: Decoder, visible: Tensor, hidden: Tensor, graph: Tensor, evidence: Evidence, iterations: int = 2
) -> Smoothed:
    """Hidden trajectories that explain the visible ones under ``graph``, from the starting point ``hidden``.

    visible ``[B, V, T, D]``, hidden ``[B, H, T, D]``, graph ``[B, V + H, V + H, K]``.
    """
    result = None
    for _ in range(iterations):
        result = _gauss_newton(decoder, visible, hidden, graph, evidence)
        hidden = result.hidden
    assert result is not None
    return result


def _gauss_newton(decoder: Decoder, visible: Tensor, hidden: Tensor, graph: Tensor, evidence: Evidence) -> Smoothed:
    batch, agents, frames, features = hidden.shape
    size, seen_size = agents * features, visible.shape[1] * features
    predicted, slope = linearise(decoder, torch.cat([visible, hidden], 1), graph, agents)
    predicted, slope = predicted.double().flatten(2), slope.double()

    def by_frame(states: Tensor) -> Tensor:
        return states.double().transpose(1, 2).flatten(2)  # [B, agents, T, D] to [B, T, agents D]

    point = by_frame(hidden)
    surprise = by_frame(visible)[:, 1:] - predicted[..., :seen_size]
    drift = predicted[..., seen_size:] - point[:, 1:]
    observe, move = slope[:, :, :seen_size], slope[:, :, seen_size:]
    own = evidence.step_variance if evidence.visible_variance is None else evidence.visible_variance
    precision_seen = 1 / own.double().repeat(visible.shape[1])
    precision_step = 1 / evidence.step_variance.double().repeat(agents)

    # information on each frame by itself: the visible agents' next states, frames that were seen, HSP's guess
    weighted = observe * precision_seen[:, None]
    information = torch.zeros(batch, frames, size, size, dtype=torch.double, device=hidden.device)
    information[:, :-1] = weighted.transpose(2, 3) @ observe
    vector = torch.zeros(batch, frames, size, dtype=torch.double, device=hidden.device)
    vector[:, :-1] = (weighted.transpose(2, 3) @ surprise.unsqueeze(-1)).squeeze(-1)
    if not evidence.first_step:
        information[:, 0], vector[:, 0] = 0, 0
    seen = by_frame(evidence.seen)
    mask = seen.isfinite() / evidence.seen_variance
    trust = 1 / by_frame(evidence.guess_variance)
    information += torch.diag_embed(mask + trust)
    vector += mask * (seen - point).nan_to_num() + trust * (by_frame(evidence.guess) - point)
    if evidence.total is not None:
        together, variance = evidence.total
        trust = 1 / variance.double()
        pairs = torch.diag_embed(trust)[:, :, None, :, None].expand(-1, -1, agents, -1, agents, -1)
        information += pairs.reshape(batch, frames, size, size)
        short = trust * (together.double() - hidden.double().sum(1))
        vector += short.repeat(1, 1, agents)

    before, before_vector = torch.zeros_like(information[:, 0]), torch.zeros_like(vector[:, 0])
    if evidence.arrival is not None and evidence.arrival_information is not None:
        before = evidence.arrival_information.double()
        before_vector = (before @ (evidence.arrival.double() - point[:, 0]).unsqueeze(-1)).squeeze(-1)
    faint = FAINT * torch.eye(size, dtype=torch.double, device=hidden.device)
    parts = (information + faint, vector, move, drift, precision_step, before, before_vector)
    passes = two_passes(*(part.cpu().numpy() for part in parts))
    arrived, arrived_vector = (
        torch.from_numpy(passes.arrived).to(point),
        torch.from_numpy(passes.arrived_vector).to(point),
    )
    moved = point + torch.from_numpy(passes.change).to(point)
    filtered = point + torch.linalg.solve(arrived + faint, arrived_vector.unsqueeze(-1)).squeeze(-1)
    residual = (surprise[:, 1:].square() * precision_seen).mean((1, 2))
    return Smoothed(
        hidden=moved.unflatten(2, (agents, features)).transpose(1, 2).to(hidden.dtype),
        covariance=torch.from_numpy(passes.covariance).to(point),
        filtered=filtered,
        filtered_information=arrived,
        residual=residual,
    )


@torch.no_grad()
def edge_log_odds(nri: NRI, states: Tensor, step_variance: Tensor, steps: Tensor | None = None) -> Tensor:
    """Log odds ``[B, A, A]`` of a guiding edge: the encoder's and, beside it, what the decoder's steps say
    (:func:`edge_evidence`). steps: as there; where some count less, the encoder does too.

    The constants were chosen on validation windows of springs_team: with the encoder alone 82 % of the graphs are right
    in every edge (8 % where two agents are not seen in the last 20 of 50 frames), with both 98 % (96 %).
    """
    logits = nri.encoder(states)
    encoder = incoming_to_matrix((logits[..., GUIDING_TYPE] - logits[..., 0]).unsqueeze(-1)).squeeze(-1)
    complete = 1.0 if steps is None else float(steps.mean())
    encoder = ENCODER_SHARE * complete**GAP_CAUTION * encoder.clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    odds, caution, sent = encoder, EDGE_CAUTION * step_variance, _sent(nri.decoder, states)
    for _ in range(EDGE_ROUNDS):
        graph = graph_of(odds.clamp(-SURE, SURE))
        odds = encoder + edge_evidence(nri.decoder, states, graph, caution, nri.config.tied, steps, sent)
    return odds.clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)


def graph_of(log_odds: Tensor) -> Tensor:
    """Log odds ``[B, A, A]`` to probabilities of both types ``[B, A, A, 2]`` with a zero diagonal."""
    on = torch.sigmoid(log_odds)
    off_diagonal = 1 - torch.eye(log_odds.shape[-1], device=log_odds.device)
    return torch.stack([1 - on, on], -1) * off_diagonal.unsqueeze(-1)
