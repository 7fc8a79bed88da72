"""Gaps are masked: what stands in them changes no loss, no alignment and no target. And the other mask, what a
predictor is shown of hidden agents: what of them is learned."""

from __future__ import annotations

import pytest
import torch
from springs_by_hand import SCALE, spring_nri

from offline_training.datasets.team import TeamWindows
from offline_training.stages.hsp_sa import completion_error
from offline_training.stages.samples import random_losses
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig, align, reconstruction_error


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


class Standing(HiddenStatePredictor):
    """Says of agents that were seen that they are at 1, of the others that they are at 5 and at 7 in turn."""

    def complete(self, visible, seen, mask):
        assert torch.isfinite(seen).all()
        known = mask.any(2)
        slots = torch.where(known, 1.0, torch.where((~known).cumsum(1) == 1, 5.0, 7.0))
        return slots[..., None, None].expand_as(seen)


def test_the_rest_of_partly_seen_agents_is_learned():
    """Agent 0 is seen and then at 4 in two frames, which are 3 off; agents 1 and 2 are at 7 and 5, in another order
    than the slots, and 7 is not measured in its first frame: (2 * 9 + 0) / (2 + 2 + 3)."""
    hsp = Standing(HSPConfig(3, 1, 3, width=4, seen_frames=True))
    states = torch.tensor([[0.0, 0, 0], [9, 4, 4], [1e3, 7, 7], [5, 5, 5]])[None, ..., None]
    seen = torch.tensor([[[True, False, False], [False] * 3, [False] * 3]])
    known = (states[:, 1:] < 100).expand(1, 3, 3, 1)
    assert completion_error(hsp, states, 1, seen, known).item() == pytest.approx(18 / 7)
    unmeasured = seen.clone()
    unmeasured[0, 1, 0] = True  # what fills a gap is not shown as seen: the slots would stand otherwise
    assert completion_error(hsp, states, 1, unmeasured, known).item() == pytest.approx(18 / 7)
    assert completion_error(hsp, states.clamp(max=7), 1, seen).item() == pytest.approx(18 / 8)


def test_times_of_loss_and_return():
    """Of each agent by itself one of four kinds, a quarter each; times are anywhere in the window."""
    seen = random_losses(4000, 2, 10, torch.Generator().manual_seed(1))
    assert torch.equal(seen, random_losses(4000, 2, 10, torch.Generator().manual_seed(1)))
    assert not torch.equal(seen[:, 0], seen[:, 1])
    begins = torch.nn.functional.pad(seen.int(), (1, 0)).diff(dim=2).clamp_min(0).sum(2)
    shares = {  # of two draws from 0 to 10 the smaller and the larger one: equal in 11 of 121 cases, 0 and 10 in two
        "never": (~seen.any(2), (1 + 11 / 121 + 2 / 121 + 1 / 11) / 4),
        "always": (seen.all(2), (11 / 121 + 2 / 121 + 1 / 11) / 4),
        "gap": (begins == 2, 72 / 121 / 4),
    }
    for name, (found, share) in shares.items():
        assert abs(found.float().mean().item() - share) < 0.02, name
    assert begins.max() == 2
    assert ((begins < 2) | seen[..., 0] & seen[..., -1]).all()
    assert (seen.float().mean((0, 1)) - 0.375).abs().max() < 0.13  # more at both ends, of the losses and the gaps
