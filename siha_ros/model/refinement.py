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
    """hidden ``[B, H, T, D]``, graph ``[B, N, N, K]`` (visible agents first), rounds, change of A in the last one."""

    hidden: Tensor
    graph: Tensor
    rounds: int
    change: float


class Refinement:
    """Guess, infer, refine: HSP-sa once, then HSP-sg and NRI in turn."""

    def __init__(self, hsp_sa: HiddenStatePredictor, hsp_sg: HiddenStatePredictor, nri: NRI, rounds: int = 5):
        self.hsp_sa, self.hsp_sg, self.nri, self.rounds = hsp_sa, hsp_sg, nri, rounds

    @torch.inference_mode()
    def __call__(self, visible: Tensor, names: tuple[Tensor, Tensor] | None = None, tolerance: float = 0.0) -> Refined:
        """``visible [B, V, T, D]``; names as in :class:`HiddenStatePredictor`.

        Stops early when no entry of A changes by more than ``tolerance`` in a round (0: all rounds, the paper's way).
        """
        hidden = self.hsp_sa(visible, names=names)
        graph = self.nri.graph(torch.cat([visible, hidden], 1))
        change, done = 0.0, 0
        for done in range(1, self.rounds + 1):
            previous = graph
            hidden = self.hsp_sg(visible, previous[..., GUIDING_TYPE], names=names)
            graph = self.nri.graph(torch.cat([visible, hidden], 1))
            if tolerance > 0 or done == self.rounds:
                change = float((graph - previous)[..., GUIDING_TYPE].abs().amax())
                if change <= tolerance:
                    break
        return Refined(hidden, graph, done, change)
