"""The data of the paper's main table, its numbers, and the models of its cells."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from offline_training.config import load_config
from offline_training.datasets.benchmarks import SYSTEMS
from offline_training.experiments.cells import Options
from offline_training.experiments.lab import Setting, plan_of, windows
from offline_training.experiments.table1 import COLUMNS, PAPER


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_windows_are_normalised_and_splits_apart(name):
    train, test = (SYSTEMS[name].windows(split, 40, 6, 60, 0) for split in ("train", "test"))
    states = train.states(slice(None), 5)
    assert states.shape == (40, 6, 60, SYSTEMS[name].features) and states.std() > 0.1
    assert states[:, :, :50].abs().max() <= 1.05  # of Kuramoto what comes later is scaled by these
    assert not torch.allclose(states, test.states(slice(None), 5))
    assert torch.equal(train.edges, train.edges.transpose(1, 2)) and train.edges.float().mean() > 0.2
    turned = train.states(torch.arange(40), 5, torch.Generator().manual_seed(0))
    lengths = states[..., :2].norm(dim=-1)
    assert torch.allclose(turned[..., :2].norm(dim=-1), lengths, atol=1e-5)
    assert torch.allclose(turned, states) != (name == "springs")  # walls and phases have directions


def test_agents_that_no_model_knows_act_but_are_not_there():
    alone, among = (windows(Setting("springs", 2, extra=extra), "test", 5, 60, 0) for extra in (0, 3))
    assert among.all_states.shape == alone.all_states.shape and among.edges.shape == (5, 7, 7)
    whole = SYSTEMS["springs"].windows("test", 5, 10, 60, 0)
    assert torch.equal(among.all_states, whole.all_states[:, :7])


def test_the_papers_numbers_have_a_place_each():
    for lines in PAPER.values():
        assert len(lines) == 5
        for count, line in enumerate(lines, 1):
            parts = [part.split() for part in line.split("|")]
            assert [len(part) for part in parts] == [3] * len(COLUMNS)
            assert (parts[-1] == ["-"] * 3) == (count == 1)  # one hidden agent has no other one
            for part in parts[:3]:
                assert all(value == "-" or 0 < float(value) < 1 for value in part)


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_models_are_trained_by_the_config_of_their_system(name):
    plan = plan_of(Options().setting(name, 3))
    assert plan == load_config(name).plan(200_000, 8, 3, 2000)
    assert plan.nri.skip_first == (name != "charged")  # there both types act
    assert (plan.nri.encoder, plan.hsp.embedding) == ("mlp" if name == "springs" else "conv", "mlp")
    assert plan.steps["nri"] == plan.steps["nri_visible"]
    fast = plan_of(Options(encoder="mlp").setting(name, 3))
    assert (fast.nri.encoder, fast.nri.difference_gain, fast.nri.skip_first) == ("mlp", 30.0, plan.nri.skip_first)
    assert plan_of(Options().setting(name, 3), ("nri.decoder_width=7",)).nri.decoder_width == 7


def test_the_decoder_of_a_cell_can_be_rolled_for_any_system():
    """Features that are not positions and velocities go through the same code."""
    states = SYSTEMS["kuramoto"].windows("test", 4, 7, 100, 1).all_states
    assert np.isfinite(states.numpy()).all() and states[..., 2].std(2).max() == 0  # a frequency stays
