"""PyPOTS's methods, where it is installed, and what is said where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from offline_training.experiments import baselines, deep_methods
from offline_training.experiments.deep_methods import MISSING, available
from offline_training.experiments.plain_methods import hidden_sets, hide, plain_methods


def windows(count):
    """Agents that all move alike: a hidden one is where the others are."""
    way = np.random.default_rng(count).normal(size=(count, 1, 8, 2)).cumsum(2) * 0.2
    return np.repeat(way, 3, axis=1)


@pytest.mark.skipif(not available(), reason="PyPOTS is not installed")
def test_models_of_pypots_are_trained_once_and_see_only_what_they_may(monkeypatch):
    monkeypatch.setattr(deep_methods, "EPOCHS", 15)
    never, gap = hidden_sets(8)["never"], hidden_sets(8)["gap"]
    test = windows(50)
    for name, method in deep_methods.deep_methods(1.0).items():
        method.fit(windows(300), windows(60), 1, never)
        trained = method._model
        method.fit(windows(300), windows(60), 1, gap)
        assert method._model is trained and method.samples == 15 * 300, name
        found = method.complete(hide(test, 1, gap), 1, gap)
        assert found.shape == (50, 1, 8, 2)
        assert np.allclose(found[:, :, gap], test[:, 2:][:, :, gap], atol=1e-5)  # what is seen comes back
        wrong = np.square(found - test[:, 2:])[:, :, ~gap].mean()
        assert wrong < 0.5 * np.square(test[:, 2:])[:, :, ~gap].mean(), name


def test_without_pypots_one_line_says_so(monkeypatch, own_lab, tiny_options, capsys):
    monkeypatch.setattr(baselines, "available", lambda: False)
    (cell,) = baselines.cells(own_lab, tiny_options)
    result = own_lab.store.result("baselines", cell.name, cell.options, cell.run)
    assert capsys.readouterr().out.count(MISSING) == 1 and "\n" not in MISSING
    assert set(plain_methods(0.1)) < set(result["methods"]) and "saits" not in result["methods"]
    live = result["methods"].pop("siha")
    assert set(live) == {"early", "lost", "gap"} and live["lost"]["samples_seen"] == 400
    seen = {name: sets["never"]["samples_seen"] for name, sets in result["methods"].items()}
    assert (seen["last_value"], seen["ridge"], seen["pca"]) == (0, 60, 60)
    assert (seen["hsp_sa"], seen["hsp_sa_partly"], seen["siha_paper"]) == (80, 160, 400)  # ten steps of 8, or 16
    result["methods"]["siha"] = live
    text = baselines.write([result], own_lab.store.folder / "baselines")
    assert "| SIHA, live | - |" in text
    assert text.endswith(f"\n{baselines.OURS}\n\n{MISSING}\n") and "| 0 k | " in text
