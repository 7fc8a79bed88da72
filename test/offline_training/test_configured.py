"""``siha train CONFIG.yaml`` in the small: from a config to weights and a record, for simulated systems and a body."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from offline_training import configured, springs, team
from offline_training.config import load_config
from offline_training.configured import load_windows, no_bundle, summary, train_config
from offline_training.datasets.benchmarks import BodyScale, body_state_windows
from offline_training.datasets.body import LEFT_ARM, LEFT_LEG
from offline_training.datasets.cmu_mocap import Trial
from offline_training.stages.linear_path import fit_linear
from siha_ros.cli import main
from siha_ros.estimator import _made_up_window, load_estimator
from siha_ros.model.bundle import load_bundle
from siha_ros.model.nri import NRI, NRIConfig

TINY = [
    "training=40", "validation=8", "frames=16", "nri_batch=8", "hsp_batch=8", "nri.encoder_width=8",
    "nri.decoder_width=8", "hsp.width=8", "warmup_epochs=1", "refresh_epochs=1", "seed=3",
    *(f"stages.{stage}.epochs=2.2" for stage in ("nri", "nri_visible", "hsp_sa", "hsp_sg")),
]  # fmt: skip


def walking_trial(name: str, frames: int, random: np.random.Generator) -> Trial:
    joints = ["root", "thorax", *LEFT_ARM, *LEFT_LEG]
    joints += ["r" + joint[1:] for joint in LEFT_ARM + LEFT_LEG]
    steps = random.normal(0, 0.02, (len(joints), frames, 3))
    return Trial(name, joints, steps.cumsum(1) + random.normal(0, 1, (len(joints), 1, 3)), 120.0)


@pytest.mark.parametrize("options", [[], ["accelerations", "one_start", "warm", "decay", "bf16", "turned"]])
def test_from_config_to_weights(options, tmp_path):
    """Of a paper's plan in the small, 5 batches an epoch, and of one with options."""
    config = load_config("springs", options, [*TINY, "hidden=3"])
    result = train_config(config, tmp_path / "work")
    stages = result["stages"]
    assert list(stages) == ["nri", "nri_visible", "hsp_sa_3", "hsp_sg_3"]
    assert all((row["step"], row["samples"]) == (11, 88) for row in stages.values())
    assert [row["step"] for row in map(json.loads, (tmp_path / "work" / "nri.jsonl").read_text().splitlines())] == [
        5,
        10,
        11,
    ]
    kept = torch.load(tmp_path / "work" / "hsp_sg_3.pt")["kept"][0]
    assert {name: tuple(graphs.shape) for name, graphs in kept.items()} == {
        "structure": (40, 8, 8),
        "validation": (8, 8, 8),
    }
    weights = load_file(tmp_path / "work" / "weights" / "nri_visible.safetensors")
    gain = 30.0 if options else 0.0
    nri = NRI(NRIConfig(16, 4, encoder_width=8, decoder_width=8, difference_gain=gain))
    nri.load_state_dict(weights)
    assert json.loads((tmp_path / "work" / "result.json").read_text())["stages"] == stages
    rows = summary(result)
    assert rows[1][:3] == ["nri", "11", "88"] and rows[3][4].startswith("mse ")
    mode = (tmp_path / "work" / "weights" / "nri.safetensors").stat().st_mode
    assert mode == (tmp_path / "work" / "result.json").stat().st_mode  # others may read them
    changed = load_config("springs", options, [*TINY, "hidden=3", "seed=4", "stages.nri.rate=0.5"])
    with pytest.raises(ValueError, match=r"holds a training with stages.nri.rate \S+ \(now 0.5\), seed 3 \(now 4\): "):
        train_config(changed, tmp_path / "work")


def test_a_bundle_that_cannot_be_written_is_no_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        train_config(load_config("springs", [], TINY), tmp_path / "work", out=tmp_path / "file" / "bundle")
    assert not list((tmp_path / "work").glob("*.jsonl"))


def test_what_teaches_nri_is_logged_and_drawn_beside_it(tmp_path):
    """Twice the steps, 16 windows in each; its likelihood is what is drawn."""
    result = train_config(load_config("kuramoto", ["evidence"], [*TINY, "evidence=2.0"]), tmp_path)
    taught = {name: row for name, row in result["stages"].items() if name.endswith("_edges")}
    assert list(taught) == ["nri_edges", "nri_visible_edges"]
    steps = result["stages"]["nri"]["step"]
    assert all((row["step"], row["samples"]) == (2 * steps, 32 * steps) for row in taught.values())
    assert all(math.isfinite(row["nll"]) and 0 <= row["accuracy"] <= 100 for row in taught.values())
    assert (tmp_path / "curves.png").stat().st_size > 5000
    assert {path.name for path in (tmp_path / "weights").iterdir()} == {
        f"{name}.safetensors" for name in ("nri", "nri_visible", "hsp_sa_2", "hsp_sg_2")
    }


def test_a_short_schedule_caches_the_graphs_that_it_draws(tmp_path, monkeypatch):
    """3 steps of 8 windows of 40; the warm-up, 2 epochs of all of them, is as many steps."""
    monkeypatch.setattr(team, "FEWEST_CACHED", 10)
    seen = []
    real = team.hsp_sg_stage
    monkeypatch.setattr(team, "hsp_sg_stage", lambda *a, **k: seen.append((a[5], k["warmup_epochs"])) or real(*a, **k))
    config = load_config("springs", ["warm"], [*TINY, "visible_only=false", "stages.hsp_sg.epochs=0.6"])
    train_config(config, tmp_path / "work")
    assert seen == [(24, pytest.approx(2 * 40 / 24))]
    assert torch.load(tmp_path / "work" / "hsp_sg_2.pt")["kept"][0]["structure"].shape == (24, 7, 7)


@pytest.mark.parametrize("stage", ["fit_hsp_sa", "fit_hsp_sg"])
def test_a_killed_run_ends_as_one_that_never_was(stage, tmp_path, monkeypatch):
    """The stages before the kill are read from their checkpoints; kills inside a stage are tests of its own."""
    config = load_config("springs", ["warm"], [*TINY, "visible_only=false"])
    train_config(config, tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(team, stage, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        train_config(config, tmp_path / "killed")
    assert not (tmp_path / "killed" / "result.json").exists()
    train_config(config, tmp_path / "killed")
    for name in ("nri", "hsp_sa_2", "hsp_sg_2"):
        mine, theirs = (
            load_file(tmp_path / place / "weights" / f"{name}.safetensors") for place in ("killed", "whole")
        )
        assert all(torch.equal(mine[key], value) for key, value in theirs.items())


def test_a_body_has_its_limb_last_and_shares_no_trial(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    trials = [walking_trial(f"35_{number:02}", 60, random) for number in (1, 2, 3, 5)]
    monkeypatch.setattr(configured, "load_subject", lambda folder: trials)
    config = load_config("cmu35", [], [setting for setting in TINY if setting[:8] not in ("training", "validati")])
    training, validation, hidden = load_windows(config, tmp_path)
    assert (
        hidden == 7 and training.all_states.shape == (2, 26, 16, 6) and len(validation) == 1
    )  # windows of 49 frames apart
    joints = trials[0].joints
    first = training.all_states.numpy()[0]
    low, high = min(trial.positions.min() for trial in trials[:2]), max(trial.positions.max() for trial in trials[:2])
    for row, joint in ((-7, "lclavicle"), (-1, "lthumb"), (0, "root")):
        at = trials[0].positions[joints.index(joint)]
        assert np.allclose(first[row, :, :3], 2 * (at[:16] - low) / (high - low) - 1, atol=1e-5)
        speeds = first[row, 1:, 3:] / np.where(
            np.abs(np.diff(at[:16], axis=0)) > 1e-4, np.diff(at[:16], axis=0), np.nan
        )
        assert np.nanstd(speeds) < 1e-2 * np.nanmean(speeds)  # one unit for all velocities
    assert training.all_states.abs().max() <= 1 + 1e-5
    leg = body_state_windows(trials[:1], "left_leg", 10, 10, BodyScale(0.0, 1.0, 1.0)).all_states
    assert leg.shape == (6, 26, 10, 6)
    with pytest.raises(ValueError, match="limb 'tail' is unknown, expected left_arm, left_leg, right_arm, right_leg"):
        body_state_windows(trials[:1], "tail", 10, 10, BodyScale(0.0, 1.0, 1.0))
    assert np.allclose(leg[3, -1, 0, :3], 2 * trials[0].positions[joints.index("ltoes"), 30] - 1, atol=1e-5)


@pytest.mark.parametrize("numbers", [(3, 5), (1, 2)])  # that validate and test, that train
def test_a_body_needs_trials_of_each_kind(numbers):
    random = np.random.default_rng(0)
    trials = [walking_trial(f"35_{number:02}", 60, random) for number in numbers]
    away = 0.01 * np.arange(60)[:, None] * [1.0, 0.0, 0.0]
    trials = [replace(trial, positions=trial.positions + away) for trial in trials]
    with pytest.raises(ValueError, match=r"trials 35_0\d, 35_0\d: expected some that validate .03, 09, 33. and some"):
        fit_linear(trials)


def test_a_body_is_trained_in_the_order_of_its_joints(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    monkeypatch.setattr(
        configured, "load_subject", lambda folder: [walking_trial(f"35_{number:02}", 70, random) for number in (1, 3)]
    )
    settings = [setting for setting in TINY if setting[:8] not in ("training", "validati")]
    config = load_config("cmu35", [], [*settings, "mocap.stride=8", "mocap.limb=left_leg", "visible_only=false"])
    result = train_config(config, tmp_path, tmp_path)
    assert sorted(result["stages"]) == ["hsp_sa_5", "hsp_sg_5", "nri"] and "accuracy" not in result["stages"]["nri"]


def test_the_node_loads_the_bundle_of_springs(tmp_path, monkeypatch):
    """Of another number of agents and frames than the shipped one's, with the trained weights."""
    monkeypatch.setattr(springs, "CHECKS", 40)
    monkeypatch.setattr(springs, "SOLVED_FROM", 30)
    config = load_config("springs", ["warm"], [*TINY, "hidden=3", "visible_only=false"])
    train_config(config, tmp_path / "work", out=tmp_path / "bundle")
    estimator = load_estimator(tmp_path / "bundle", "cpu")
    own = estimator.bundle.config
    assert (own.count, own.max_hidden, own.window, own.frame, own.velocity) == (8, 3, 16, "world", "measured")
    weights = load_file(tmp_path / "work" / "weights" / "hsp_sg_3.safetensors")
    kept = load_file(tmp_path / "bundle" / "hsp_sg_3.safetensors")
    assert all(torch.allclose(kept[key].float(), value, rtol=2e-3, atol=1e-6) for key, value in weights.items())
    window = _made_up_window(8, 16, 2, own.dt, 3, 0)
    estimate = estimator.estimate(window)
    assert all(reason.startswith("never seen") for reason in estimate.reason[5:])
    assert (estimate.position_95[5:, -1] == own.errors["hsp"].radius[-1]).all()


@pytest.mark.parametrize("name, why", [("charged", "acts"), ("kuramoto", "no positions"), ("cmu35", "siha train body")])
def test_of_the_others_it_is_said_why_there_is_no_bundle(name, why):
    assert why in no_bundle(load_config(name))
    assert not no_bundle(load_config("springs"))


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module: compiled.append(type(module).__name__))
    settings = [part for setting in [*TINY, "visible_only=false"] for part in ("--set", setting)]
    monkeypatch.setattr(springs, "CHECKS", 40)
    monkeypatch.setattr(springs, "SOLVED_FROM", 30)
    assert main(["train", "springs.yaml", "--paper", "--compile", "--threads", "1", *settings, "--seed", "5"]) == 0
    assert compiled == ["Encoder", "Decoder", "HiddenStatePredictor", "HiddenStatePredictor"]
    shown = capsys.readouterr().out.splitlines()
    assert shown[-2] == "weights are in training/springs/weights"
    assert shown[-1] == "wrote bundles/springs: siha bundle info bundles/springs"
    assert shown[-6].split()[:2] == ["stage", "steps"] and shown[-5].split()[:3] == ["nri", "11", "88"]
    assert json.loads((tmp_path / "training" / "springs" / "options.json").read_text())["seed"] == 5
    command = load_bundle(tmp_path / "bundles" / "springs").config.training.command
    assert command.startswith("siha train springs.yaml --paper --set ") and command.endswith(" --seed 5")
    assert main(["train", "kuramoto.yaml", "--out", "there"]) == 2
    assert main(["train", "springs.yaml", "--data", "."]) == 2
    assert main(["train", "cmu35.yaml"]) == 2
    assert main(["train", "no.yaml"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].strip() for line in said] == [
        "--out",
        "--data",
        "system cmu needs --data FOLDER, with one .asf file and its .amc files",
        "no.yaml",
    ]
