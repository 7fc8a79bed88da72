"""Agents that were never seen, through the learned dynamics.

Beyond the paper. Its refinement answers with a mean of what could be; few trajectories also make the decoder predict
what the visible agents did. From some of the paper's own guesses the smoother of :mod:`siha_ros.model.dynamics` and the
evidence of the edges alternate, and of what they end in the one counts that explains the visible agents best. Whether
it explains them is known without any truth: the residual. Where it does not, the paper's answer stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from siha_ros.model.dynamics import Evidence, Smoothed, edge_log_odds, graph_of, smooth
from siha_ros.model.edges import matrix_to_incoming
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import GUIDING_TYPE, Refined, Refinement

ROUNDS = 3  # of smoothing and edge evidence
EXPLAINED = 2.0  # residual below which the dynamics explain what is seen


@dataclass
class Explained:
    """smoothed: the best hypothesis of each sample. log_odds ``[B, A, A]`` of its edges. residual ``[B]``: mean squared
    error of the decoder's steps, of seen or of hidden agents, whichever is larger, in units of its variance; near 1 for
    the truth."""

    smoothed: Smoothed
    log_odds: Tensor
    residual: Tensor


@torch.no_grad()
def explain(
    refinement: Refinement,
    visible: Tensor,
    refined: Refined,
    guess_variance: Tensor,
    step_variance: Tensor,
    farthest: Tensor,
    first_step: bool = False,
    only: int | None = None,
) -> Explained:
    """What the dynamics make of ``refined``, the paper's answer to ``visible [B, V, T, D]``.

    Hypotheses: that answer, what it was before and after the first round, and itself with all edges among the hidden
    agents the other way round. guess_variance, step_variance, farthest ``[D]``: of the guess, of a step of the decoder,
    and the largest state to believe in, normalised. first_step: as in :class:`Evidence`. only: one hypothesis, by its
    number (any), instead of all.
    """
    nri, count, frames = refinement.nri, refined.hidden.shape[1], visible.shape[2]
    first = refinement.hsp_sa(visible)
    second = refinement.hsp_sg(visible, nri.graph(torch.cat([visible, first], 1))[..., GUIDING_TYPE])
    guesses = [refined.hidden, first, second, *([refined.hidden] if count > 1 else [])]
    chosen = list(range(len(guesses))) if only is None else [only % len(guesses)]
    starts, many = torch.cat([guesses[number] for number in chosen]), len(chosen)
    seen = visible.repeat(many, 1, 1, 1)
    odds = edge_log_odds(nri, torch.cat([seen, starts], 1), step_variance)
    if chosen[-1] == 3:
        odds[-len(visible) :, -count:, -count:] *= -1
    evidence = Evidence(
        seen=torch.full_like(starts, torch.nan),
        guess=starts,
        guess_variance=(guess_variance * frames).expand_as(starts),
        arrival=None,
        arrival_information=None,
        step_variance=step_variance,
        first_step=first_step,
    )
    hidden = starts
    for _ in range(ROUNDS):
        smoothed = smooth(nri.decoder, seen, hidden, graph_of(odds), evidence)
        fine = (smoothed.hidden.abs() < farthest).flatten(1).all(1)
        hidden = torch.where(fine[:, None, None, None], smoothed.hidden, hidden)  # else linearised too far off
        odds = edge_log_odds(nri, torch.cat([seen, hidden], 1), step_variance)
    residual = step_residual(nri, seen, hidden, odds, step_variance).masked_fill(~fine, torch.inf).view(many, -1)
    best = residual.argmin(0) * len(visible) + torch.arange(len(visible), device=visible.device)
    return Explained(
        Smoothed(*(value[best] for value in vars(smoothed).values())), odds[best], residual.flatten()[best]
    )


def where_explained(found: Explained, refined: Refined) -> Refined:
    """The paper's answer ``refined``, in its place what explains the visible agents where something does."""
    fine = (found.residual <= EXPLAINED)[:, None, None, None]
    return replace(
        refined,
        hidden=torch.where(fine, found.smoothed.hidden, refined.hidden),
        graph=torch.where(fine, graph_of(found.log_odds), refined.graph),
    )


def step_residual(nri: NRI, visible: Tensor, hidden: Tensor, odds: Tensor, step_variance: Tensor) -> Tensor:
    """The residual of :class:`Explained` ``[B]`` of hidden trajectories ``[B, H, T, D]`` under edges ``odds``; from the
    second step on, for the first velocity of a window may be a copy of the second."""
    states = torch.cat([visible, hidden], 1)
    edges = matrix_to_incoming(graph_of(odds)).unsqueeze(1)
    predicted = nri.decoder(states[:, :, 1:-1].transpose(1, 2), edges).transpose(1, 2)
    error = ((predicted - states[:, :, 2:]).square() / step_variance).mean((2, 3))
    return torch.maximum(error[:, : visible.shape[1]].mean(1), error[:, visible.shape[1] :].mean(1))
