"""The paper's table in the small: data, a cell from nothing to its figures, and a table that goes on where it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from offline_training.experiments import table1 as experiment
from offline_training.experiments.table1 import COLUMNS, PAPER, SYSTEMS, markdown, table1


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_windows_are_normalised_and_splits_apart(name):
    train, test = (SYSTEMS[name].windows(split, 40, 6, 60, 0) for split in ("train", "test"))
    states = train.states(slice(None), 5)
    assert states.shape == (40, 6, 60, SYSTEMS[name].features) and states.abs().max() <= 1.05 and states.std() > 0.1
    assert not torch.allclose(states, test.states(slice(None), 5))
    assert torch.equal(train.edges, train.edges.transpose(1, 2)) and train.edges.float().mean() > 0.2
    turned = train.states(torch.arange(40), 5, torch.Generator().manual_seed(0))
    lengths = states[..., :2].norm(dim=-1)
    assert torch.allclose(turned[..., :2].norm(dim=-1), lengths, atol=1e-5)
    assert torch.allclose(turned, states) != (name == "springs")  # walls and phases have directions


def test_the_papers_numbers_have_a_place_each():
    for lines in PAPER.values():
        assert len(lines) == 5
        for count, line in enumerate(lines, 1):
            parts = [part.split() for part in line.split("|")]
            assert [len(part) for part in parts] == [3] * len(COLUMNS)
            assert (parts[-1] == ["-"] * 3) == (count == 1)  # one hidden agent has no other one
            for part in parts[:3]:
                assert all(value == "-" or 0 < float(value) < 1 for value in part)


def test_a_table_is_made_and_goes_on_where_it_was(tmp_path, monkeypatch):
    arguments = {"minutes": 0.02, "samples": 600, "test": 30, "seed": 3}
    text = table1(tmp_path, ["springs"], [1], **arguments)
    rows = [line.split(" | ") for line in text.splitlines()[2:]]
    assert [row[2] for row in rows] == ["NRI", "HSP-sa", "SIHA"]
    assert rows[0][3] == "- (-)" and rows[2][3].endswith("(2.1e-3)") and rows[0][6].endswith("(89.7)")
    error, accuracy = float(rows[1][3].split()[0]), float(rows[0][6].split()[0])
    assert 0 < error < 1 and 30 < accuracy < 100
    monkeypatch.setattr(experiment, "train_team", None)  # what is done is not done again
    assert table1(tmp_path, ["springs"], [1], **arguments) == text == markdown(tmp_path)
    assert (tmp_path / "table1.md").read_text() == text
    (tmp_path / "springs_1" / "result.json").unlink()
    with pytest.raises(ValueError, match="holds a training with seed 3"):
        table1(tmp_path, ["springs"], [1], **(arguments | {"seed": 4}))


def test_the_decoder_of_a_cell_can_be_rolled_for_any_system():
    """Features that are not positions and velocities go through the same code."""
    system = SYSTEMS["kuramoto"]
    modules = experiment.cell_plan(system, 2)
    assert modules.nri.features == 3 and modules.nri.encoder == modules.hsp.embedding == "conv"
    states = system.windows("test", 4, 7, 100, 1).all_states
    assert np.isfinite(states.numpy()).all() and states[..., 2].std(2).max() == 0  # a frequency stays
