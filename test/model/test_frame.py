"""Frames and scales: what they must not see (where a team is, how it drifts), and that they invert."""

from __future__ import annotations

import pytest
import torch

from siha_ros.model.frame import Scale, TeamFrame, still_frame, team_frame
from siha_ros.window.grid import backward_difference

DT = 0.1


def in_frame(positions, seen):
    frame = team_frame(seen, DT)
    frames = torch.arange(1 - positions.shape[-2], 1)
    return positions - frame.at(frames).unsqueeze(-3)


def test_frame_of_a_team_in_straight_flight_is_its_centroid():
    """Two agents at (0, 1) and (2, 3) now, both with velocity (1, -2) m/s."""
    time = torch.arange(-4, 1, dtype=torch.float64)[:, None] * DT
    velocity = torch.tensor([1.0, -2.0], dtype=torch.float64)
    seen = torch.stack([torch.tensor([0.0, 1.0]) + time * velocity, torch.tensor([2.0, 3.0]) + time * velocity])
    frame = team_frame(seen, DT)
    assert torch.allclose(frame.origin, torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert torch.allclose(frame.velocity, velocity)
    ahead = frame.at(torch.tensor([-1, 0, 5]))
    assert torch.allclose(ahead, torch.tensor([[0.9, 2.2], [1.0, 2.0], [1.5, 1.0]], dtype=torch.float64))


def test_frame_is_the_least_squares_line_of_the_centroid():
    seen = torch.randn(3, 20, 2, dtype=torch.float64)
    time = torch.arange(-19, 1, dtype=torch.float64) * DT
    design = torch.stack([torch.ones(20, dtype=torch.float64), time], 1)
    line = torch.linalg.lstsq(design, seen.mean(0)).solution
    frame = team_frame(seen, DT)
    assert torch.allclose(frame.origin, line[0]) and torch.allclose(frame.velocity, line[1])


@pytest.mark.parametrize("dims", [2, 3])
def test_what_a_model_sees_does_not_depend_on_place_or_drift(dims):
    positions = torch.randn(4, 6, 15, dims, dtype=torch.float64)
    offset = torch.randn(4, 1, 1, dims, dtype=torch.float64)
    drift = torch.randn(4, 1, 1, dims, dtype=torch.float64)
    moved = positions + offset + drift * torch.arange(15)[:, None] * DT
    assert torch.allclose(in_frame(positions, positions[:, :4]), in_frame(moved, moved[:, :4]), atol=1e-10)


def test_still_frame_stands_at_the_world_origin():
    frame = still_frame(torch.randn(3, 6, 15, 2), DT)
    assert frame.origin.shape == (3, 2)
    assert frame.at(torch.arange(-14, 1)).eq(0).all()


def test_scale_by_hand_and_back():
    scale = Scale(position=4.0, velocity=2.0)
    features = scale.features(torch.tensor([2.0, -4.0]), torch.tensor([1.0, 3.0]))
    assert features.tolist() == [0.5, -1.0, 0.5, 1.5]
    positions, velocities = scale.split(features)
    assert positions.tolist() == [2.0, -4.0] and velocities.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("shape", [(2, 2), (5, 9, 3), (4, 7, 50, 2)])
def test_velocities_of_tensors_are_those_of_the_live_window(shape):
    positions = torch.randn(*shape, dtype=torch.float64)
    live = backward_difference(positions.numpy(), DT)
    assert torch.equal(backward_difference(positions, DT), torch.from_numpy(live))


def test_gradients():
    seen = torch.randn(3, 6, 2, dtype=torch.float64, requires_grad=True)

    def states(seen):
        local = in_frame(seen, seen[:2])
        return Scale(4.0, 2.0).features(local, backward_difference(local, DT))

    assert torch.autograd.gradcheck(states, seen)
    assert torch.autograd.gradcheck(lambda x: TeamFrame(x, 2 * x, DT).at(torch.arange(3)), seen[0, 0])
