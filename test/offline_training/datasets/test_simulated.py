"""Sets of the simulated team: splits apart, wrong names and seeds said."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from offline_training.datasets.benchmarks import SYSTEMS
from offline_training.datasets.losses import team_losses
from offline_training.datasets.simulated import split_seed, springs_windows
from offline_training.systems.springs import BOX, SPRING


@pytest.mark.parametrize("kind", ["fresh", "any"])
def test_splits_and_seeds_share_no_window(kind):
    starts = [
        springs_windows(kind, split, 20, seed=seed).positions[:, :, 0].flatten(1)
        for split, seed in (("train", 0), ("train", 999), ("validation", 0), ("test", 0))
    ]
    together = torch.cat(starts)
    assert torch.cdist(together, together).fill_diagonal_(9.0).min() > 1e-3
    assert torch.equal(springs_windows(kind, "test", 20).positions[:, :, 0].flatten(1), starts[-1])


def test_what_is_unknown_is_said():
    with pytest.raises(ValueError, match="springs set 'old' is unknown, expected 'fresh' or 'any'"):
        springs_windows("old", "train", 4)
    with pytest.raises(ValueError, match="seed 1000: expected 0 to 999, or the splits would share runs"):
        springs_windows("any", "train", 4, seed=1000)


@pytest.mark.parametrize("kind", ["springs", "fresh", "any"])
def test_half_precision_of_a_training_does_not_reach_what_it_draws(kind):
    """A window is turned by a product, which autocast would round to 3 digits: differences of frames are smaller."""
    windows = SYSTEMS[kind].windows("train", 4, 5, 3, 0) if kind in SYSTEMS else springs_windows(kind, "train", 4)
    precise = windows.states(slice(None), 3, torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        drawn = windows.states(slice(None), 3, torch.Generator().manual_seed(1))
    assert drawn.dtype == torch.float32
    torch.testing.assert_close(drawn, precise, rtol=0, atol=0)
    assert not torch.equal(precise, windows.states(slice(None), 3))


@pytest.mark.parametrize("seed", [-1, 1000, 2000])
def test_no_split_takes_the_runs_of_another(seed):
    """1000 beside the training set's 1000 are the validation set's."""
    said = f"seed {seed}: expected 0 to 999, or the splits would share runs"
    for system in SYSTEMS.values():
        with pytest.raises(ValueError, match=said):
            system.windows("train", 4, 5, 3, seed)
    with pytest.raises(ValueError, match=said):
        next(team_losses(1, 1, "validation", seed))
    assert split_seed("train", 999) + 1 == split_seed("validation", 0)
    assert split_seed("validation", 999) + 1 == split_seed("test", 0)


@pytest.mark.parametrize("faster", [1.0, 1.5])
def test_runs_played_faster_are_those_of_stiffer_springs(faster):
    run = next(team_losses(1, 2, "validation", faster=faster))
    assert run.edges is not None
    change = np.diff(run.positions, 2, axis=1) / run.dt**2
    pulls = run.edges.T.astype(float) - np.diag(run.edges.sum(0))
    expected = faster**2 * SPRING * np.einsum("ij,jtp->itp", pulls, run.positions[:, 1:-1])
    inside = np.abs(run.positions).max(0).max(-1)[1:-1] < BOX - 0.2  # nobody at a wall
    assert inside.sum() > 500
    assert np.abs(change - expected)[:, inside].max() < 0.02 * np.abs(expected).max()
