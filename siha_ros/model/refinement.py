"""The state-structure refinement of section 4.4, as it runs at deployment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI

GUIDING_TYPE = 1
LEAST_PROBABILITY = 1e-9  # of an edge type, where its logarithm is taken


@dataclass
class Refined:
    """hidden ``[B, H, T, D]``, moved (likewise: by how much the last round changed it), graph ``[B, N, N, K]`` (visible
    agents first), rounds, change of A in the last one."""

    hidden: Tensor
    moved: Tensor
    graph: Tensor
    rounds: int
    change: float

    @staticmethod
    def of(hidden: Tensor, moved: Tensor, graph: Tensor, rounds: Tensor, change: Tensor) -> Refined:
        """From what :meth:`Refinement.loop` gives."""
        return Refined(hidden, moved, graph, int(rounds), float(change))


class Refinement:
    """Guess, infer, refine: HSP-sa once, then HSP-sg and NRI in turn.

    steady: another way than the paper's. What HSP-sg makes under a wrong edge agrees with that edge, so that the last
    graph is no independent word on it. Edges between visible agents therefore guide as they were inferred from the
    guess of HSP-sa, and the graph that is given is the mean, over the guess and all rounds, of the types' log
    probabilities.
    """

    def __init__(
        self,
        hsp_sa: HiddenStatePredictor,
        hsp_sg: HiddenStatePredictor,
        nri: NRI,
        rounds: int = 5,
        steady: bool = False,
    ):
        self.hsp_sa, self.hsp_sg, self.nri, self.rounds, self.steady = hsp_sa, hsp_sg, nri, rounds, steady

    @torch.inference_mode()
    def __call__(self, visible: Tensor, names: tuple[Tensor, Tensor] | None = None, tolerance: float = 0.0) -> Refined:
        """``visible [B, V, T, D]``; names as in :class:`HiddenStatePredictor`.

        A sample is left as it is after the first round in which no entry of its A changed by more than ``tolerance``;
        with the last one the loop ends (0: all rounds, the paper's way).
        """
        return Refined.of(*self.loop(visible, names, tolerance, stop_early=tolerance > 0))

    def loop(
        self, visible: Tensor, names: tuple[Tensor, Tensor] | None, tolerance: float, stop_early: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The fields of :class:`Refined` as tensors. Without ``stop_early`` nothing on the way depends on a value, so
        that the loop can be recorded: rounds in which no sample changes any more are made, and change nothing."""
        hidden = self.hsp_sa(visible, names=names)
        graph = self.nri.graph(torch.cat([visible, hidden], 1))
        moved, going = torch.zeros_like(hidden), torch.ones_like(hidden[:, :1, :1, :1], dtype=torch.bool)
        done, change = torch.zeros_like(hidden[0, 0, 0, 0]), torch.zeros_like(hidden[0, 0, 0, 0])
        if self.steady:
            between = graph[:, : visible.shape[1], : visible.shape[1], GUIDING_TYPE]
            evidence, looked = _log(graph), torch.ones_like(going, dtype=graph.dtype)  # and how many graphs it is of
        for _ in range(self.rounds):
            previous = graph
            guide = previous[..., GUIDING_TYPE]
            if self.steady:
                guide = guide.clone()
                guide[:, : visible.shape[1], : visible.shape[1]] = between
            refined = self.hsp_sg(visible, guide, names=names)
            moved = torch.where(going, refined - hidden, moved)
            hidden = torch.where(going, refined, hidden)
            graph = self.nri.graph(torch.cat([visible, hidden], 1))
            if self.steady:
                evidence = evidence + torch.where(going, _log(graph), 0.0)
                looked = looked + going
            changes = (graph - previous)[..., GUIDING_TYPE].abs().flatten(1).amax(1)
            done = done + going.any()
            change = torch.where(going.any(), changes.amax(), change)
            if tolerance > 0:
                going = going & (changes > tolerance)[:, None, None, None]
                if stop_early and not bool(going.any()):
                    break
        if self.steady:
            itself = torch.eye(graph.shape[1], dtype=torch.bool, device=graph.device)[..., None]
            graph = torch.softmax(evidence / looked, -1).masked_fill(itself, 0.0)
        return hidden, moved, graph, done, change


def _log(graph: Tensor) -> Tensor:
    return graph.clamp_min(LEAST_PROBABILITY).log()
