"""Models and results are made once for the same options, resume after a kill, and differ where options do."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch
from torch import nn

from offline_training.experiments.store import Store, digest
from offline_training.stages.loop import Schedule, Stage, train


def make() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(2, 1)


class Killed(BaseException):
    pass


class Lesson:
    """Trains to answer 3, for 12 steps; counts them, and is killed at one of them."""

    def __init__(self, kill_at=None):
        self.steps, self.kill_at = 0, kill_at

    def __call__(self, network, folder):
        def loss(step, generator):
            if step == self.kill_at:
                raise Killed
            self.steps += 1
            return (network(torch.ones(4, 2)) - 3).square().mean(), {}

        schedule = Schedule(12, rate=0.1, validate_every=4, checkpoint_seconds=-1, bf16=False)
        train("lesson", folder, Stage(network, loss, lambda model: {"mse": 1.0}, better="mse"), schedule, batch=4)


def test_the_digest_is_that_of_the_content():
    assert digest({"a": 1, "b": [1.0, 2]}) == digest({"b": [1.0, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2}) and len(digest({})) == 12


def test_a_model_is_trained_once_and_found_by_its_options(tmp_path):
    first, second = Lesson(), Lesson()
    one = Store(tmp_path).model("line", {"rate": 1}, make, first)
    again = Store(tmp_path).model("line", {"rate": 1}, make, second)  # another session
    assert first.steps == 12 and second.steps == 0
    assert one.key == again.key and one.samples == again.samples == 48
    assert torch.equal(one.network.weight, again.network.weight)
    assert not torch.equal(one.network.weight, make().weight)
    assert not list(tmp_path.rglob("*.pt"))  # the weights are kept, the checkpoint is not
    weights = tmp_path / "models" / one.key / "weights.safetensors"
    wide = safetensors.torch.save({"weight": torch.zeros(1, 3), "bias": torch.zeros(1)})
    for damaged in (b"", weights.read_bytes()[:-4], wide):
        weights.write_bytes(damaged)
        with pytest.raises(
            ValueError, match="weights.safetensors: damaged .*: remove its folder, and the model"
        ) as fault:
            Store(tmp_path).model("line", {"rate": 1}, make, second)
        assert "\n" not in str(fault.value)
    other = Store(tmp_path).model("line", {"rate": 2}, make, second)
    assert second.steps == 12 and other.key != one.key


def test_a_killed_training_goes_on_in_another_session(tmp_path):
    whole = Store(tmp_path / "whole").model("line", {}, make, Lesson())
    first, rest = Lesson(kill_at=7), Lesson()
    with pytest.raises(Killed):
        Store(tmp_path / "killed").model("line", {}, make, first)
    resumed = Store(tmp_path / "killed").model("line", {}, make, rest)
    assert (first.steps, rest.steps) == (7, 5)
    assert torch.equal(resumed.network.weight, whole.network.weight)


def test_a_result_is_computed_once_for_the_same_options(tmp_path):
    store, calls = Store(tmp_path), []

    def compute():
        calls.append(1)
        return {"value": len(calls)}

    assert not store.has_result("fruit", "apple", {"size": 1})
    assert store.result("fruit", "apple", {"size": 1}, compute)["value"] == 1
    assert store.has_result("fruit", "apple", {"size": 1})
    assert store.result("fruit", "apple", {"size": 1}, compute)["value"] == 1
    assert store.result("fruit", "apple", {"size": 2}, compute)["value"] == 2
    place = tmp_path / "fruit" / f"apple-{digest({'size': 1})}.json"
    assert json.loads(place.read_text()) == {
        "schema": 1, "experiment": "fruit", "cell": "apple", "options": {"size": 1}, "value": 1,
    }  # fmt: skip
    place.write_text("{}")
    with pytest.raises(ValueError, match="json: damaged, expected a mapping with .* remove it, and the cell is"):
        store.result("fruit", "apple", {"size": 1}, compute)
