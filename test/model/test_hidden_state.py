"""Hidden-state predictors: structural bias by hand, HSP-sg as the paper writes it, order, aligned error."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from torch import nn

from siha_ros.model import hidden_state
from siha_ros.model.hidden_state import (
    PAPER_ALPHAS,
    HiddenStatePredictor,
    HSPConfig,
    align,
    reconstruction_error,
    structural_bias,
    take_slots,
)

FRAMES, FEATURES, VISIBLE, HIDDEN = 6, 4, 4, 3
AGENTS = VISIBLE + HIDDEN


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(3)


def make_hsp(**options) -> HiddenStatePredictor:
    return HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, HIDDEN, **({"width": 16} | options))).eval()


def trajectories(agents=VISIBLE, batch=2):
    return torch.randn(batch, agents, FRAMES, FEATURES)


def structures(batch=2, agents=AGENTS):
    return torch.rand(batch, agents, agents) * (1 - torch.eye(agents))


# Structural guidance

EXAMPLE = torch.tensor([[[0.0, 0.1, 0.2], [0.3, 0.0, 0.4], [0.6, 0.8, 0.0]]])  # 0 and 1 visible, 2 hidden


def test_bias_by_hand():
    """A_hv = (0.6, 0.8) and A_vh^T = (0.2, 0.4) make A_cross = (0.4, 0.6); an agent may always attend to itself."""
    within, cross, among = structural_bias(EXAMPLE, 2, torch.tensor([1.0, 5.0]))
    assert torch.allclose(within, torch.tensor([[[[0.0, -0.9], [-0.7, 0.0]], [[0.0, -4.5], [-3.5, 0.0]]]]), rtol=1e-3)
    assert torch.allclose(cross, torch.tensor([[[[-0.6, -0.4]], [[-3.0, -2.0]]]]), rtol=1e-3)
    assert among.tolist() == [[[[0.0]], [[0.0]]]]


def test_bias_stays_in_single_precision():
    """1e9 is beyond half precision."""
    with torch.autocast("cpu", torch.bfloat16):
        blocks = structural_bias(structures().half(), VISIBLE, torch.tensor(PAPER_ALPHAS))
    for block, shape in zip(blocks, [(VISIBLE, VISIBLE), (HIDDEN, VISIBLE), (HIDDEN, HIDDEN)], strict=True):
        assert block.dtype == torch.float32 and block.shape == (2, 4, *shape)
        assert block.isfinite().all() and (block[:, 0] == 0).all() and block[:, 3].min() < -1e8


def test_bias_is_that_of_the_cached_structure():
    """The cache is in half precision; a sure edge is open to a hard head in training and at run time alike."""
    structure = torch.tensor([[[0.0, 0.9999], [0.7123, 0.0]]])
    alphas = torch.tensor(PAPER_ALPHAS)
    live_blocks, cached_blocks = (structural_bias(a, 2, alphas) for a in (structure, structure.half()))
    for live, cached in zip(live_blocks, cached_blocks, strict=True):
        assert torch.equal(live, cached)
    assert live_blocks[0][0, 3, 0, 1] == 0


def paper_predictor(hsp, visible, structure):
    """Sections 4.2 and 4.3 head by head."""

    def attention(layer, x, y, block):
        size, heads = hsp.config.width // hsp.config.heads, []
        for i, alpha in enumerate(hsp.config.alphas):
            part = slice(i * size, (i + 1) * size)
            query, key, value = layer.query(x)[..., part], layer.key(y)[..., part], layer.value(y)[..., part]
            scores = query @ key.transpose(1, 2) / math.sqrt(size) - alpha * (1 - block)
            heads.append(scores.softmax(-1) @ value)
        return layer.out(torch.cat(heads, -1))

    def mab(block, x, y, guide):
        h = block.norm1(x + attention(block.attention, x, y, guide))
        return block.norm2(h + block.feedforward(h).relu())

    a = torch.maximum(structure, torch.eye(structure.shape[-1]))
    v = visible.shape[1]
    a_vv, a_vh, a_hv, a_hh = a[:, :v, :v], a[:, :v, v:], a[:, v:, :v], a[:, v:, v:]
    a_cross = (a_hv + a_vh.transpose(1, 2)) / 2
    x = hsp.embed[1:](visible.flatten(2))
    z = mab(hsp.encode1, x, x, a_vv)
    z = mab(hsp.encode2, z, z, a_vv)
    slots = mab(hsp.pool.block, hsp.pool.seeds.expand(len(x), -1, -1), hsp.pool.feedforward(z).relu(), a_cross)
    slots = mab(hsp.decode, slots, slots, a_hh)
    return hsp.out(slots).unflatten(-1, (FRAMES, FEATURES))


@pytest.mark.parametrize("alphas", [PAPER_ALPHAS, (1.0, 1.0, 5.0, 1e9), (0.0, 1.0, 5.0, 5.0)])
def test_hsp_sg_is_the_paper_s(alphas):
    hsp = make_hsp(alphas=list(alphas))
    visible, structure = trajectories(), structures().round()
    slots = hsp(visible, structure)
    assert slots.shape == (2, HIDDEN, FRAMES, FEATURES)
    assert torch.allclose(slots, paper_predictor(hsp, visible, structure), atol=1e-5)


def test_hsp_sa_is_hsp_sg_without_strength():
    sa, sg = make_hsp(), make_hsp(alphas=[0.0] * 4)
    sg.load_state_dict(sa.state_dict())
    visible = trajectories()
    assert torch.equal(sg(visible, structures()), sa(visible))


def test_structure_matters_where_alpha_is_not_zero():
    hsp = make_hsp(alphas=list(PAPER_ALPHAS))
    visible, structure = trajectories(), structures()
    slots = hsp(visible, structure)
    for rows, columns in ((slice(VISIBLE), slice(VISIBLE)), (slice(VISIBLE), slice(VISIBLE, None))):
        other = structure.clone()
        other[:, rows, columns] = 1 - other[:, rows, columns]
        assert (hsp(visible, other) - slots).abs().max() > 1e-4


def test_hard_heads_keep_unconnected_agents_out():
    """All heads hard; visible agent 0 has no edge at all: where it is cannot move any slot that has edges."""
    hsp = make_hsp(alphas=[1e9] * 4)
    structure = torch.ones(2, AGENTS, AGENTS)
    structure[:, 0, :] = structure[:, :, 0] = 0
    visible = trajectories()
    elsewhere = visible.clone()
    elsewhere[:, 0] += 10
    assert torch.equal(hsp(visible, structure), hsp(elsewhere, structure))
    assert not torch.allclose(hsp(visible, torch.ones_like(structure)), hsp(elsewhere, torch.ones_like(structure)))


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_no_edge_at_all_is_finite_forward_and_backward(edge):
    hsp = make_hsp(alphas=list(PAPER_ALPHAS)).train()
    for half in (False, True):
        hsp.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            slots = hsp(trajectories(), torch.full((2, AGENTS, AGENTS), edge))
        assert slots.dtype == torch.float32 and slots.isfinite().all()
        slots.square().sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in hsp.parameters())


def test_half_precision_is_close():
    hsp = make_hsp(alphas=list(PAPER_ALPHAS))
    visible, structure = trajectories(), structures().round()
    with torch.autocast("cpu", torch.bfloat16):
        half = hsp(visible, structure)
    assert torch.allclose(half, hsp(visible, structure), atol=0.05)


# Order, names, sizes


@pytest.mark.parametrize("embedding", ["mlp", "conv"])
@pytest.mark.parametrize("alphas", [[], list(PAPER_ALPHAS)])
def test_visible_agents_have_no_order(embedding, alphas):
    hsp = make_hsp(embedding=embedding, alphas=alphas)
    visible, order = trajectories(), torch.tensor([2, 0, 3, 1])
    whole = torch.cat([order, torch.arange(VISIBLE, AGENTS)])
    structure = structures() if alphas else None
    turned = structure[:, whole][:, :, whole] if alphas else None
    assert torch.allclose(hsp(visible[:, order], turned), hsp(visible, structure), atol=1e-5)


@pytest.mark.parametrize("embedding", ["mlp", "conv"])
@pytest.mark.parametrize("visible, batch", [(1, 1), (4, 3), (12, 2)])
def test_any_number_of_visible_agents(embedding, visible, batch):
    hsp = make_hsp(embedding=embedding, alphas=list(PAPER_ALPHAS))
    slots = hsp(trajectories(visible, batch), structures(batch, visible + HIDDEN))
    assert slots.shape == (batch, HIDDEN, FRAMES, FEATURES)


def test_slots_of_named_agents_follow_their_names():
    hsp = make_hsp(identities=9)
    visible, seen = trajectories(), torch.tensor([0, 2, 5, 8])
    both = hsp(visible, names=(seen, torch.tensor([7, 3])))
    assert both.shape[1] == 2
    assert torch.allclose(hsp(visible, names=(seen, torch.tensor([3, 7]))), both[:, [1, 0]], atol=1e-6)
    order = torch.tensor([3, 1, 0, 2])
    assert torch.allclose(hsp(visible[:, order], names=(seen[order], torch.tensor([7, 3]))), both, atol=1e-6)
    assert not torch.allclose(hsp(visible[:, order], names=(seen, torch.tensor([7, 3]))), both, atol=1e-3)


@pytest.mark.parametrize("embedding", ["mlp", "conv"])
def test_difference_gain_shows_scaled_frame_differences_to_the_embedding(embedding):
    hsp, shown = make_hsp(embedding=embedding, difference_gain=30.0), []
    hsp.embed.register_forward_pre_hook(lambda module, args: shown.append(args[0]))
    x = trajectories()
    difference = torch.zeros_like(x)
    difference[:, :, 1:] = 30 * (x[:, :, 1:] - x[:, :, :-1])
    assert hsp(x).shape == (2, HIDDEN, FRAMES, FEATURES)
    assert torch.allclose(shown[0], torch.cat([x, difference], -1), atol=1e-5)


def test_both_predictors_hold_the_same_weights():
    """What lets HSP-sg start from HSP-sa; the strengths are settings, not weights."""
    sa, sg = make_hsp().state_dict(), make_hsp(alphas=list(PAPER_ALPHAS)).state_dict()
    assert {name: tensor.shape for name, tensor in sa.items()} == {name: tensor.shape for name, tensor in sg.items()}


def test_wrong_use_is_said():
    with pytest.raises(ValueError, match="2 strengths for 4 heads"):
        HSPConfig(FRAMES, FEATURES, HIDDEN, alphas=[0.0, 1.0])
    with pytest.raises(ValueError, match="'cnn' is unknown, expected 'mlp' or 'conv'"):
        HSPConfig(FRAMES, FEATURES, HIDDEN, embedding="cnn")
    with pytest.raises(ValueError, match="structure goes with alphas"):
        make_hsp()(trajectories(), structures())
    with pytest.raises(ValueError, match="structure goes with alphas"):
        make_hsp(alphas=list(PAPER_ALPHAS))(trajectories())
    with pytest.raises(ValueError, match="names: a predictor of named agents"):
        make_hsp(identities=9)(trajectories())


# Alignment and error


def test_alignment_by_hand():
    """Targets at 0, 10 and 20; slots near 20, 0 and 10: agent 0 is slot 1, agent 1 slot 2, agent 2 slot 0."""
    target = torch.tensor([0.0, 10.0, 20.0]).view(1, 3, 1, 1)
    slots = torch.tensor([21.0, 1.0, 12.0]).view(1, 3, 1, 1)
    assert align(slots, target).tolist() == [[1, 2, 0]]
    assert take_slots(slots, align(slots, target)).flatten().tolist() == [1, 12, 21]
    assert reconstruction_error(slots, target).tolist() == [pytest.approx((1 + 4 + 1) / 3)]
    assert reconstruction_error(slots, target, ordered=True).tolist() == [pytest.approx((441 + 81 + 64) / 3)]


def test_alignment_is_best_as_a_whole_not_slot_by_slot():
    """Slot 0 is nearest to both; giving it to agent 0 (distance 1) would leave agent 1 with distance 9."""
    target = torch.tensor([0.0, 3.0]).view(1, 2, 1, 1)
    slots = torch.tensor([1.0, -6.0]).view(1, 2, 1, 1)
    assert align(slots, target).tolist() == [[1, 0]]  # 36 + 4 beats 1 + 81


@pytest.mark.parametrize("slots", range(1, 8))
def test_enumeration_agrees_with_scipy(slots, monkeypatch):
    predicted, target = torch.randn(2, 6, slots, FRAMES, FEATURES)
    monkeypatch.setattr(hidden_state, "ENUMERATION_LIMIT", 7)
    enumerated = align(predicted, target)
    monkeypatch.setattr(hidden_state, "ENUMERATION_LIMIT", 0)
    assert torch.equal(enumerated, align(predicted, target))
    if slots <= 4:
        orders = map(list, permutations(range(slots)))
        errors = [(predicted[:, order] - target).square().flatten(1).mean(1) for order in orders]
        assert torch.allclose(reconstruction_error(predicted, target), torch.stack(errors).amin(0))


@pytest.mark.parametrize("slots", [2, 6])
def test_error_forgets_the_order_of_slots_and_only_it(slots):
    predicted, target = torch.randn(2, 5, slots, FRAMES, FEATURES)
    order = torch.randperm(slots)
    error = reconstruction_error(predicted, target)
    assert torch.allclose(reconstruction_error(predicted[:, order], target), error)
    assert torch.allclose(reconstruction_error(target[:, order], target), torch.zeros(5))
    assert not torch.allclose(reconstruction_error(predicted.flip(2), target), error)


def test_gradient_of_the_aligned_error_is_that_of_the_matched_pairs():
    target = torch.randn(5, 3, FRAMES, FEATURES)
    order = torch.stack([torch.randperm(3) for _ in range(5)])
    predicted = take_slots(target, order) + 0.01 * torch.randn_like(target)
    predicted.requires_grad_()
    reconstruction_error(predicted, target).sum().backward()
    expected = 2 * (predicted - take_slots(target, order)) / (3 * FRAMES * FEATURES)
    assert torch.allclose(predicted.grad, expected, atol=1e-7)


@pytest.mark.parametrize("slots", [3, 6])
def test_aligned_error_has_the_gradients_it_claims(slots):
    predicted, target = torch.randn(2, 2, slots, 2, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: reconstruction_error(x, target), predicted.requires_grad_())


def test_permutations_first_used_at_inference_serve_training_too():
    hidden_state._permutations.cache_clear()
    target = torch.randn(2, 3, FRAMES, FEATURES)
    with torch.inference_mode():
        align(torch.randn_like(target), target)
    predicted = nn.Parameter(torch.randn_like(target))
    reconstruction_error(predicted, target).sum().backward()
    assert predicted.grad.abs().sum() > 0
