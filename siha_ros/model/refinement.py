"""The state-structure refinement of section 4.4, as it runs at deployment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI

GUIDING_TYPE = 1


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
    """Guess, infer, refine: HSP-sa once, then HSP-sg and NRI in turn."""

    def __init__(self, hsp_sa: HiddenStatePredictor, hsp_sg: HiddenStatePredictor, nri: NRI, rounds: int = 5):
        self.hsp_sa, self.hsp_sg, self.nri, self.rounds = hsp_sa, hsp_sg, nri, rounds

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
        for _ in range(self.rounds):
            previous = graph
            refined = self.hsp_sg(visible, previous[..., GUIDING_TYPE], names=names)
            moved = torch.where(going, refined - hidden, moved)
            hidden = torch.where(going, refined, hidden)
            graph = self.nri.graph(torch.cat([visible, hidden], 1))
            changes = (graph - previous)[..., GUIDING_TYPE].abs().flatten(1).amax(1)
            done = done + going.any()
            change = torch.where(going.any(), changes.amax(), change)
            if tolerance > 0:
                going = going & (changes > tolerance)[:, None, None, None]
                if stop_early and not bool(going.any()):
                    break
        return hidden, moved, graph, done, change
