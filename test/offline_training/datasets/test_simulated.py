"""Sets of the simulated team: splits apart, wrong names and seeds said."""

from __future__ import annotations

import pytest
import torch

from offline_training.datasets.simulated import springs_windows


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
