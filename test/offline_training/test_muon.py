"""Muon: PyTorch's own in bfloat16, the same steps in float32, singular values of about 1."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from offline_training.stages import precision
from offline_training.stages.muon import Muon, orthogonal

SHAPES = [(6, 4), (5, 5), (6, 4), (3, 8)]


@pytest.fixture(params=[True, False], ids=["bf16", "float32"])
def pays(request, monkeypatch):
    monkeypatch.setattr(precision, "bf16_pays", lambda kind: request.param)
    precision.pays.cache_clear()
    yield request.param
    precision.pays.cache_clear()


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch before 2.9 has no Muon to compare with")
def test_steps_are_those_of_pytorch(pays):
    generator = torch.Generator().manual_seed(0)
    ours = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    optimiser = Muon(ours, 0.1)
    reference = torch.optim.Muon(theirs, 0.1, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            other.grad = mine.grad.clone()
        before = [weight.detach().clone() for weight in ours]
        optimiser.step()
        reference.step()
    for mine, other, old in zip(ours, theirs, before, strict=True):
        assert torch.allclose(mine, other, atol=1e-3 if pays else 4e-3)  # roundings of bfloat16
        assert (mine - old).abs().max() > 2e-2


def test_singular_values_are_about_one(pays):
    matrices = torch.randn(3, 20, 12, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(orthogonal(matrices))
    assert values.min() > 0.6 and values.max() < 1.3
    assert torch.linalg.svdvals(matrices).max() > 5
    assert torch.allclose(orthogonal(matrices.mT), orthogonal(matrices).mT, atol=1e-2 if pays else 1e-5)


def test_a_matrix_without_a_gradient_stays():
    weights = [nn.Parameter(torch.eye(3)), nn.Parameter(torch.eye(3))]
    weights[1].grad = torch.eye(3)
    Muon(weights, 0.1).step()
    assert torch.equal(weights[0], torch.eye(3)) and not torch.equal(weights[1], torch.eye(3))
