"""Gaps are masked: what stands in them changes no loss, no alignment and no target."""

from __future__ import annotations

import torch
from springs_by_hand import SCALE, spring_nri

from offline_training.datasets.team import TeamWindows
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import align, reconstruction_error


def test_reconstruction_counts_what_was_measured():
    target = torch.tensor([[[[1.0], [2.0], [1e6]], [[5.0], [1e6], [7.0]]]])  # [1, 2 agents, 3 frames, 1]
    known = target < 1e5
    predicted = torch.tensor([[[[5.0], [0.0], [9.0]], [[1.0], [4.0], [0.0]]]])  # slots the other way round
    assert align(predicted, target, known).tolist() == [[1, 0]]
    # errors 0, 2 of the first agent and 0, 2 of the second, over four measured frames
    assert reconstruction_error(predicted, target, known=known).item() == (4 + 4) / 4
    assert reconstruction_error(predicted, target, known=torch.ones_like(known)).item() > 1e9
    torch.testing.assert_close(
        reconstruction_error(predicted, target.clamp(max=9), known=torch.ones_like(known)),
        reconstruction_error(predicted, target.clamp(max=9)),
    )
    assert reconstruction_error(predicted, target, known=torch.zeros_like(known)).item() == 0


def free_motion(frames=25):
    """An NRI whose decoder is free motion exactly, and agents that move so: states [1, 3, T, 4]."""
    nri = spring_nri(frames)
    nri.decoder.message2[0].weight.zero_()
    start, speed = torch.randn(1, 3, 1, 2), torch.randn(1, 3, 1, 2) * 0.1
    positions = start + speed * 0.125 * torch.arange(frames)[:, None]
    return nri, SCALE.features(positions, speed.expand_as(positions))


def test_the_bound_of_nri_neither_learns_gaps_nor_starts_from_them():
    torch.manual_seed(0)
    nri, states = free_motion()
    known = torch.ones_like(states, dtype=torch.bool)
    assert nri.elbo_loss(states)[1]["mse"] < 1e-10
    for frame in (7, 10):  # a target, and a frame that true states are fed in at
        broken, mask = states.clone(), known.clone()
        broken[:, 1, frame] += 3.0
        mask[:, 1, frame] = False
        for starts in (None, 8):
            torch.manual_seed(1)
            assert nri.elbo_loss(broken, starts)[1]["mse"] > 1e-3
            torch.manual_seed(1)
            assert nri.elbo_loss(broken, starts, mask)[1]["mse"] < 1e-10


def test_without_gaps_a_mask_changes_nothing():
    torch.manual_seed(0)
    nri, states = free_motion()
    states = states + 0.1 * torch.randn_like(states)
    known = torch.ones_like(states, dtype=torch.bool)
    for starts in (None, 2):
        losses = []
        for mask in (None, known):
            torch.manual_seed(5)
            losses.append(nri.elbo_loss(states, starts, mask)[0])
        torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)


def team(known=None, mixed=False, dims=2):
    positions = torch.randn(6, 4, 8, dims)
    return TeamWindows(positions, None, None, known, "team", "backward_difference", 0.5, 8, Scale(2.0, 4.0), mixed)


def test_a_velocity_is_known_where_both_its_positions_are():
    known = torch.ones(6, 4, 8, dtype=torch.bool)
    known[0, 2, 3] = known[1, 0, 0] = False
    mask = team(known).known_states(slice(None))
    assert mask.shape == (6, 4, 8, 4)
    assert (~mask[0, 2, :, 0]).nonzero().flatten().tolist() == [3]
    assert (~mask[0, 2, :, 2]).nonzero().flatten().tolist() == [3, 4]
    assert (~mask[1, 0, :, 0]).nonzero().flatten().tolist() == [0]
    assert (~mask[1, 0, :, 3]).nonzero().flatten().tolist() == [0, 1]  # the first velocity is a copy of the second
    assert mask[2:].all() and team().known_states(slice(None)) is None


def test_mixed_agents_carry_their_masks_and_those_with_gaps_go_last():
    known = torch.ones(6, 4, 8, dtype=torch.bool)
    known[:, 1, 2] = False
    data = team(known, mixed=True)
    index = torch.arange(6)
    order = data.draw_order(index, torch.Generator().manual_seed(0))
    assert (order[:, -1] == 1).all() and order.sort(1).values.tolist() == [[0, 1, 2, 3]] * 6
    assert len({tuple(row) for row in order.tolist()}) > 1
    mask = data.known_states(index, order)
    assert mask[:, :3].all() and not mask[:, 3, 2].any()
    plain, mixed = data.states(index, 4), data.states(index, 4, order=order)
    torch.testing.assert_close(mixed, plain[index[:, None], order])  # all seen: the frame is the same


def test_rotations_of_space_keep_the_vertical():
    data = team(dims=3)
    plain, turned = data.states(slice(None), 3), data.states(slice(None), 3, torch.Generator().manual_seed(0))
    torch.testing.assert_close(turned[..., [2, 5]], plain[..., [2, 5]])
    torch.testing.assert_close(turned[..., :2].norm(dim=-1), plain[..., :2].norm(dim=-1))
    assert not torch.allclose(turned[..., :2], plain[..., :2])
