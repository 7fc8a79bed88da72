"""Hidden agents that were seen in a part of the window: the path they are on by hand, what counts of them, whose slot
is whose."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch

from siha_ros.model import hidden_state
from siha_ros.model.hidden_state import (
    PAPER_ALPHAS,
    HiddenStatePredictor,
    HSPConfig,
    align,
    reconstruction_error,
    take_slots,
)
from siha_ros.model.seen_frames import MEMORY, carried, seen_features

FRAMES, FEATURES, VISIBLE, HIDDEN = 6, 4, 4, 3


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(5)


def make_hsp(**options) -> HiddenStatePredictor:
    chosen = {"width": 16, "difference_gain": 30.0, "seen_frames": True} | options
    return HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, HIDDEN, **chosen)).eval()


def two_seen():
    """Of three hidden agents the first and the last are seen, in three frames each."""
    mask = torch.zeros(2, HIDDEN, FRAMES, dtype=torch.bool)
    mask[:, 0, :3] = mask[:, 2, [0, 1, 5]] = True
    return torch.randn(2, VISIBLE, FRAMES, FEATURES), torch.randn(2, HIDDEN, FRAMES, FEATURES), mask


# The path


def path_of(values, seen):
    """Of one agent with one feature: path and freedom, each a list."""
    states, mask = torch.tensor(values).view(1, 1, -1, 1), torch.tensor(seen, dtype=torch.bool).view(1, 1, -1)
    return [part.flatten().tolist() for part in carried(states, mask)]


def faded(frames):
    return MEMORY * (1 - math.exp(-frames / MEMORY))


def test_a_path_goes_on_with_a_change_that_fades():
    """Seen at 1 and 1.5 in frames 1 and 2; before and after it moves on by 0.5 a frame at first, ever less."""
    path, free = path_of([9.0, 1.0, 1.5, 9.0, 9.0], [0, 1, 1, 0, 0])
    assert path == pytest.approx([1 - 0.5 * faded(1), 1, 1.5, 1.5 + 0.5 * faded(1), 1.5 + 0.5 * faded(2)])
    assert free == pytest.approx([1 - math.exp(-age / MEMORY) for age in (1, 0, 0, 1, 2)])


def test_one_frame_is_held_and_nothing_is_nothing():
    assert path_of([9.0, 9.0, 2.0, 9.0], [0, 0, 1, 0])[0] == pytest.approx([2.0] * 4)
    assert path_of([9.0, 9.0], [0, 0]) == [[0.0, 0.0], [1.0, 1.0]]


def test_in_a_gap_the_nearer_end_weighs_more():
    """At 0 until frame 1 and at 3 from frame 4 on: a third of the way after one of three frames, two after two."""
    path, free = path_of([0.0, 0.0, 9.0, 9.0, 3.0, 3.0], [1, 1, 0, 0, 1, 1])
    assert path == pytest.approx([0, 0, 1, 2, 3, 3], abs=2e-3)
    assert free[2] == free[3] == pytest.approx(1 - math.exp(-1 / MEMORY))


def test_what_a_network_is_shown():
    """Changes are those between two frames that are both seen."""
    states, mask = torch.tensor([1.0, 2.0, 4.0, 8.0]).view(1, 1, 4, 1), torch.tensor([[[True, True, False, True]]])
    assert seen_features(states, mask, 0.0).tolist() == [[[[1, 1], [2, 1], [0, 0], [8, 1]]]]
    assert seen_features(states, mask, 10.0).tolist() == [[[[1, 0, 1], [2, 10, 1], [0, 0, 0], [8, 0, 1]]]]


# The predictor


@pytest.mark.parametrize("embedding", ["mlp", "conv"])
def test_only_what_was_seen_counts(embedding):
    hsp, (visible, states, mask) = make_hsp(embedding=embedding), two_seen()
    found = hsp.complete(visible, states, mask)
    assert torch.equal(found, hsp.complete(visible, states.masked_fill(~mask[..., None], math.nan), mask))
    assert torch.allclose(found[mask], states[mask], atol=1e-5)  # and is kept
    other = states.clone()
    other[:, 0, 1] += 1.0
    moved = (hsp.complete(visible, other, mask) - found).abs().amax((0, 2, 3))
    assert (moved > 1e-4).all()  # of each hidden agent, seen or not


def test_nothing_seen_is_the_paper_s_input():
    hsp, (visible, states, mask) = make_hsp(), two_seen()
    assert torch.allclose(hsp.complete(visible, states, torch.zeros_like(mask)), hsp(visible), atol=1e-5)
    plain = make_hsp(seen_frames=False)
    plain.load_state_dict({key: value for key, value in hsp.state_dict().items() if "embed_seen" not in key})
    assert torch.equal(plain(visible), hsp(visible))


@pytest.mark.parametrize("order", list(permutations(range(HIDDEN))))
def test_slots_follow_the_agents_that_were_seen(order):
    hsp, (visible, states, mask) = make_hsp(), two_seen()
    found, turned = hsp.complete(visible, states, mask), list(order)
    assert torch.allclose(hsp.complete(visible, states[:, turned], mask[:, turned]), found[:, turned], atol=1e-5)


def test_visible_agents_and_agents_never_seen_have_no_order():
    hsp, (visible, states, mask) = make_hsp(), two_seen()
    mask[:, 2] = False
    found = hsp.complete(visible, states, mask)
    assert torch.allclose(hsp.complete(visible[:, [2, 0, 3, 1]], states, mask), found, atol=1e-5)
    assert torch.equal(hsp.complete(visible, states[:, [0, 2, 1]], mask), found)
    assert not torch.allclose(found[:, 1], found[:, 2], atol=1e-3)  # two agents, not one twice


@pytest.mark.parametrize("half", [False, True])
def test_gradients_reach_every_weight(half):
    hsp, (visible, states, mask) = make_hsp().train(), two_seen()
    mask[1] = False
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        found = hsp.complete(visible, states.masked_fill(~mask[..., None], math.nan), mask)
    assert found.dtype == torch.float32
    found.square().sum().backward()
    for name, parameter in hsp.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.abs().sum() > 0, name


def test_it_goes_without_names_and_graphs():
    for options in ({"alphas": list(PAPER_ALPHAS)}, {"identities": 9}):
        with pytest.raises(ValueError, match="seen_frames: expected without alphas and identities"):
            make_hsp(**options)


# Alignment


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 6])
def test_only_agents_never_seen_are_aligned(slots, monkeypatch):
    """Against every permutation that leaves the others where they are."""
    predicted, target = torch.randn(2, 12, slots, FRAMES, FEATURES)
    settled = torch.rand(12, slots) < 0.4
    found = align(predicted, target, settled=settled)
    for sample in range(12):
        kept = settled[sample].nonzero().flatten().tolist()
        orders = [order for order in permutations(range(slots)) if all(order[slot] == slot for slot in kept)]
        errors = [(predicted[sample, list(order)] - target[sample]).square().mean() for order in orders]
        assert found[sample].tolist() == list(orders[int(torch.stack(errors).argmin())])
    expected = (take_slots(predicted, found) - target).square().flatten(1).mean(1)
    assert torch.allclose(reconstruction_error(predicted, target, settled=settled), expected)
    monkeypatch.setattr(hidden_state, "ENUMERATION_LIMIT", 0)
    assert torch.equal(align(predicted, target, settled=settled), found)
