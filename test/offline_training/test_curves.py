"""Curves of accuracy: what is read from a log by hand, what a choice stands for, and one tiny run of the command."""

from __future__ import annotations

import json

import pytest
import torch

from offline_training import curves
from offline_training.stages import precision
from siha_ros import cli_bench
from siha_ros.cli import main


def test_when_a_share_was_reached_first():
    """70 % after 2 min on the way from 50; 80 half-way from 70 to 90; later falls do not count."""
    rows = [
        {"seconds": 120, "accuracy": 70.0},
        {"seconds": 240, "accuracy": 90.0},
        {"seconds": 360, "accuracy": 85.0},
        {"seconds": 480, "accuracy": 96.0},
    ]
    found = curves.reached(rows)
    assert found["60"] == pytest.approx(1.0) and found["80"] == pytest.approx(3.0) and found["90"] == 4.0
    assert found["95"] == pytest.approx(6 + 2 * 10 / 11) and found["97.5"] is None


def test_each_choice_adds_to_the_one_before():
    assert curves.options_of("paper") == []
    assert curves.options_of("narrow_decoder") == ["accelerations", "small_steps", "bf16", "narrow_decoder"]
    assert tuple(curves.CHOICES) == cli_bench.CHOICES


def test_steps_that_fit_by_hand():
    """Two minutes are 120 s, of which 10 validations take 20; a time shorter than they are has a step for each."""
    pace = {"step_seconds": 0.25, "validation_seconds": 2.0}
    assert curves.steps_that_fit(2.0, pace) == 400 and curves.steps_that_fit(0.1, pace) == 10


@pytest.mark.parametrize("kind", ["curves", "train"])
def test_no_gpu_is_said(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["bench", kind, "--device", "cuda"]) == 2
    assert "no CUDA device" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_tiny_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(curves, "TRAINING", 256)
    monkeypatch.setattr(curves, "VALIDATION", 16)
    monkeypatch.setattr(curves, "POINTS", 2)
    monkeypatch.setattr(curves, "PACE_STEPS", 1)
    paces = []
    monkeypatch.setattr(curves, "steps_that_fit", lambda minutes, pace: (paces.append((minutes, pace)), 2)[1])
    work = tmp_path / "curves"
    arguments = ["bench", "curves", "--choices", "one_start", "--minutes", "0.001", "--work", str(work)]
    assert main(arguments) == 0
    report = json.loads((work / "curves.json").read_text())
    points = report["curves"]["one_start"]["points"]
    ((minutes, pace),) = paces
    assert minutes == 0.001 and pace["step"] == 1 and pace["step_seconds"] > 0 and pace["validation_seconds"] > 0
    assert [point["samples"] for point in points] == [128, 256] and 0 < points[0]["minutes"] < points[1]["minutes"]
    assert (work / "curves.png").stat().st_size > 5000 and "+ one_start" in capsys.readouterr().out
    assert main(arguments) == 0 and len(paces) == 1  # what is done is not done again
    assert json.loads((work / "curves.json").read_text())["curves"]["one_start"]["points"] == points


def test_the_minutes_of_what_teaches_count(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "TRAINING", 256)
    monkeypatch.setattr(curves, "VALIDATION", 16)
    monkeypatch.setattr(curves, "POINTS", 2)
    arguments = ["bench", "curves", "--choices", "evidence", "--samples", "256", "--work", str(tmp_path)]
    assert main(arguments) == 0
    nri, edges = (
        json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[-1])["seconds"]
        for name in ("evidence", "evidence_edges")
    )
    (curve,) = json.loads((tmp_path / "curves.json").read_text())["curves"].values()
    assert curve["points"][-1]["minutes"] == pytest.approx((nri + edges) / 60)
    assert curve["begin"] == pytest.approx(edges / 60) and edges > 0
    rows = [{"seconds": 120.0, "accuracy": 90.0, "begin": 60.0}, {"seconds": 180.0, "accuracy": 96.0, "begin": 60.0}]
    assert curves.reached(rows)["80"] == pytest.approx(1.75)  # three quarters of the way from 50 % after a minute


def test_the_same_samples_with_and_without_an_option(tmp_path, monkeypatch, capsys):
    """From the same weights on the same batches: after two steps precision changes little, and something."""
    monkeypatch.setattr(curves, "TRAINING", 256)
    monkeypatch.setattr(curves, "VALIDATION", 16)
    monkeypatch.setattr(curves, "POINTS", 2)
    monkeypatch.setattr(precision, "bf16_pays", lambda kind: True)  # also where it does not
    precision.pays.cache_clear()
    arguments = ["bench", "curves", "--choices", "one_start", "--without", "bf16", "--work", str(tmp_path)]
    assert main([*arguments, "--samples", "256"]) == 0
    precision.pays.cache_clear()
    found = json.loads((tmp_path / "curves.json").read_text())["curves"]
    assert (
        list(found) == ["one_start", "one_start_without_bf16"] and "+ one_start without bf16" in capsys.readouterr().out
    )
    half, single = (curve["points"][-1] for curve in found.values())
    assert half["samples"] == single["samples"] == 256
    assert half["mse"] == pytest.approx(single["mse"], rel=0.05) and half["mse"] != single["mse"]
    assert main([*arguments[:3], "paper", *arguments[4:]]) == 2
    assert "the choice paper stands for no option" in capsys.readouterr().err
