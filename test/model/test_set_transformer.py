"""Attention against torch's own, the blocks against the formulas of the paper's appendix written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from siha_ros.model.set_transformer import MAB, PMA, SAB, LayerNorm, MultiheadAttention

WIDTH, HEADS = 12, 3


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(2)


def sets(n=5, batch=2, dtype=torch.float64):
    return torch.randn(batch, n, WIDTH, dtype=dtype)


def randomised(module: nn.Module) -> nn.Module:
    """In float64, with norms that do not start as the identity."""
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def linear(layer, x):
    return x @ layer.weight.T + layer.bias


def layer_norm(norm, x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def multihead(layer, x, y, bias=None):
    """Head by head, as appendix A.2 and section 4.3 write it."""
    size, heads = WIDTH // HEADS, []
    for i in range(HEADS):
        part = slice(i * size, (i + 1) * size)
        query, key, value = (linear(m, z)[..., part] for m, z in ((layer.query, x), (layer.key, y), (layer.value, y)))
        scores = query @ key.transpose(1, 2) / math.sqrt(WIDTH / HEADS)
        heads.append((scores if bias is None else scores + bias[:, i]).softmax(-1) @ value)
    return linear(layer.out, torch.cat(heads, -1))


def mab(block, x, y, bias=None):
    hidden = layer_norm(block.norm1, x + multihead(block.attention, x, y, bias))
    return layer_norm(block.norm2, hidden + linear(block.feedforward, hidden).relu())


def test_the_norms_learn_in_bf16_as_in_float32():
    """On a CPU, PyTorch's own sums the gradient of its bias in bfloat16: of these 8,192 rows it gets a quarter."""
    rows, onward = torch.randn(8192, WIDTH), torch.randn(8192, WIDTH) + 0.5
    block = MAB(WIDTH, HEADS)
    assert isinstance(block.norm1, LayerNorm) and isinstance(block.norm2, LayerNorm)
    gradients = []
    for kind in (torch.float32, torch.bfloat16):
        found = block.norm1(rows.to(kind))
        assert found.dtype == kind
        gradients.append(torch.autograd.grad((found.float() * onward).sum(), [block.norm1.weight, block.norm1.bias]))
    for exact, rounded in zip(*gradients, strict=True):
        assert torch.allclose(exact, rounded, rtol=0.01, atol=0.01 * float(exact.abs().max()))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_attention_is_torch_s(biased, dtype, tolerance):
    ours = MultiheadAttention(WIDTH, HEADS).to(dtype)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype)
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.data = torch.cat([part.weight for part in parts]).data
    theirs.in_proj_bias.data = torch.cat([part.bias for part in parts]).data
    theirs.out_proj.load_state_dict(ours.out.state_dict())
    x, y = sets(4, dtype=dtype), sets(6, dtype=dtype)
    bias = torch.randn(2, HEADS, 4, 6, dtype=dtype) if biased else None
    expected = theirs(x, y, y, attn_mask=bias.flatten(0, 1) if biased else None, need_weights=False)[0]
    assert torch.allclose(ours(x, y, bias), expected, atol=tolerance)


@pytest.mark.parametrize("biased", [False, True])
def test_blocks_are_the_paper_s_formulas(biased):
    bias = torch.randn(2, HEADS, 5, 5, dtype=torch.float64) if biased else None
    sab, block, pma = randomised(SAB(WIDTH, HEADS)), randomised(MAB(WIDTH, HEADS)), randomised(PMA(WIDTH, HEADS, 3))
    x, y = sets(5), sets(5)
    assert torch.allclose(block(x, y, bias), mab(block, x, y, bias), atol=1e-10)
    assert torch.allclose(sab(x, bias), mab(sab, x, x, bias), atol=1e-10)
    seeds, cross = pma.seeds.expand(2, -1, -1), None if bias is None else bias[:, :, :3]
    assert torch.allclose(pma(y, cross), mab(pma.block, seeds, linear(pma.feedforward, y).relu(), cross), atol=1e-10)


def test_pma_uses_the_seeds_asked_for():
    pma = randomised(PMA(WIDTH, HEADS, 4))
    z = sets()
    assert torch.allclose(pma(z, seeds=torch.tensor([3, 1])), pma(z)[:, [3, 1]])


def test_elements_of_a_set_have_no_order():
    sab, pma = randomised(SAB(WIDTH, HEADS)), randomised(PMA(WIDTH, HEADS, 3))
    x, order = sets(), torch.tensor([2, 0, 4, 1, 3])
    assert torch.allclose(sab(x[:, order]), sab(x)[:, order])
    assert torch.allclose(pma(x[:, order]), pma(x))


@pytest.mark.parametrize("n, m, batch", [(1, 1, 1), (3, 1, 2), (1, 9, 4)])
def test_any_number_of_elements(n, m, batch):
    attention = randomised(MultiheadAttention(WIDTH, HEADS))
    assert attention(sets(n, batch), sets(m, batch)).shape == (batch, n, WIDTH)
    assert randomised(PMA(WIDTH, HEADS, 7))(sets(m, batch)).shape == (batch, 7, WIDTH)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_bias_of_1e9_is_a_hard_mask(dtype):
    """What is masked cannot be told from what is not there, in any precision."""
    attention = MultiheadAttention(WIDTH, HEADS).to(dtype)
    x, y = sets(4, dtype=dtype), sets(6, dtype=dtype)
    bias = torch.zeros(HEADS, 4, 6)
    bias[..., 3:] = -1e9
    assert torch.allclose(attention(x, y, bias), attention(x, y[:, :3]), atol=1e-6 if dtype != torch.bfloat16 else 2e-2)
    y[:, 3:] = 100.0
    assert torch.equal(attention(x, y, bias), attention(x, y.index_fill(1, torch.tensor([3, 4, 5]), -100.0), bias))


def test_a_row_that_is_masked_as_a_whole_is_finite():
    attention = MultiheadAttention(WIDTH, HEADS)
    x, y = sets(4, dtype=torch.float32), sets(6, dtype=torch.float32)
    bias = torch.full((HEADS, 4, 6), -1e9)
    with torch.autocast("cpu", torch.bfloat16):
        half = attention(x, y, bias)
    mean = attention.out(attention.value(y)).mean(1, keepdim=True)  # nothing to prefer: all alike
    assert torch.allclose(attention(x, y, bias), mean.expand(-1, 4, -1), atol=1e-5)
    assert torch.allclose(half.float(), mean.expand(-1, 4, -1), atol=0.03)


def test_attention_with_bias_has_the_gradients_it_claims():
    attention = randomised(MultiheadAttention(WIDTH, HEADS))
    x, y = sets(2, batch=1).requires_grad_(), sets(3, batch=1).requires_grad_()
    bias = torch.randn(1, HEADS, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(attention, (x, y, bias))
    hard = torch.where(torch.rand(1, HEADS, 2, 3) < 0.5, -1e9, 0.0).double()
    assert torch.autograd.gradcheck(lambda x, y: attention(x, y, hard), (x, y))


def test_blocks_have_the_gradients_they_claim():
    pma = randomised(PMA(WIDTH, HEADS, 2))
    assert torch.autograd.gradcheck(pma, sets(2, batch=1).requires_grad_())


def test_wrong_width_is_said():
    with pytest.raises(ValueError, match="width 10 is not a multiple of 3 heads"):
        MultiheadAttention(10, 3)
