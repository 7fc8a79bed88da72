"""The encoders of the ablation: which of them know no order of the agents, and that each can learn."""

from __future__ import annotations

import pytest
import torch

from offline_training.experiments.encoders import ENCODERS, PAPER, OtherPredictor
from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig

CONFIG = HSPConfig(6, 4, 2, width=16, difference_gain=1.0)
UNORDERED = ("gnn", "slot_attention", "set_transformer")


def predictor(encoder) -> HiddenStatePredictor:
    torch.manual_seed(1)
    return OtherPredictor(CONFIG, encoder) if encoder in ENCODERS else HiddenStatePredictor(CONFIG)


@pytest.mark.parametrize("encoder", list(PAPER))
def test_who_comes_first_matters_only_to_encoders_with_an_order(encoder):
    hsp = predictor(encoder).double()
    visible = torch.randn(3, 5, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        slots, mixed = hsp(visible), hsp(visible[:, [3, 0, 4, 2, 1]])
    assert slots.shape == (3, 2, 6, 4) and torch.isfinite(slots).all()
    assert torch.allclose(slots, mixed, atol=1e-6) == (encoder in UNORDERED)
    assert not torch.allclose(slots, hsp(visible + 1), atol=1e-3)  # they do look at the agents


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_every_weight_of_an_encoder_learns_in_half_precision_too(encoder):
    hsp = predictor(encoder)
    visible = torch.randn(8, 5, 6, 4, generator=torch.Generator().manual_seed(3))
    with torch.autocast("cpu", torch.bfloat16):
        loss = (hsp(visible) - visible[:, :2]).square().mean()
    loss.backward()
    still = [name for name, weight in hsp.encoder.named_parameters() if not weight.grad.abs().max() > 0]
    assert still == [] and len(dict(hsp.encoder.named_parameters())) > 3
