"""Schedules that fit a time: by hand from given paces, measured on small networks, and kept for a run that goes on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from offline_training import budget, configured
from offline_training.budget import Pace, _refreshes, choose, measure, seconds_of
from offline_training.config import changed, load_config
from offline_training.configured import load_windows, train_config
from offline_training.stages import hsp_sg
from offline_training.stages.logs import stage_rows
from offline_training.stages.progress import writer_type
from offline_training.team import train_team

PACE = {
    "nri": Pace(step=0.5, check=0.001),
    "nri_visible": Pace(step=0.25, check=0.001),
    "hsp_sa": Pace(step=0.1, check=0.0005),
    "hsp_sg": Pace(step=0.2, check=0.002, fill=0.0005),
}
TINY = [
    "training=1200", "validation=30", "frames=16", "nri_batch=8", "hsp_batch=8", "nri.encoder_width=8",
    "nri.decoder_width=8", "hsp.width=8", "visible_only=false",
]  # fmt: skip


def test_refreshes_by_hand():
    """After 90, 100, ... of 500 epochs the cache is refreshed; after the last one there is no step to use it."""
    assert _refreshes(500, 80, 10) == 41
    assert _refreshes(500, 40, 20) == 22
    assert _refreshes(500, 80, 200) == 2  # after 200 and 400
    assert _refreshes(10, 8, 300) == 0


@pytest.mark.parametrize("config", [load_config("springs"), load_config("charged", []), load_config("kuramoto")])
@pytest.mark.parametrize("seconds", [600.0, 7200.0])
def test_a_schedule_fills_its_time(config, seconds):
    """What is chosen, added up anew by hand, is at most the time and nearly all of it."""
    choice = choose(
        config, PACE, seconds, windows=config.training, checks=config.validation, data_pace=0.0002, most=100.0
    )
    mine = changed(config, choice.settings)
    plan = mine.plan(mine.training, 7, 2, mine.validation)
    total = 0.0002 * (mine.training + mine.validation)
    for stage, pace in PACE.items():
        steps, every = plan.steps[stage], plan.schedules[stage].validate_every
        checking = -(-steps // every) * mine.validation * pace.check
        assert steps // every == 2 or checking < 0.25 * steps * pace.step
        total += steps * pace.step + checking
    first, period = (
        max(1, round(epochs * mine.training / mine.hsp_batch)) for epochs in (plan.warmup_epochs, plan.refresh_epochs)
    )
    refreshes = len(range(first, plan.steps["hsp_sg"], period))  # as hsp_sg.refresher counts
    fill = 0.0005 * (mine.training + (mine.validation if mine.rounds is None else 0))
    total += (1 + refreshes) * fill
    assert refreshes >= 1 and (refreshes == 1 or refreshes * fill <= 0.25 * plan.steps["hsp_sg"] * PACE["hsp_sg"].step)
    assert total == pytest.approx(sum(choice.seconds.values()), rel=0.03)
    assert 0.9 * seconds < total <= seconds
    whole = config.plan(config.training, 7, 2, config.validation).steps
    assert (
        plan.steps["nri"] / whole["nri"]
        == pytest.approx(choice.scale, rel=0.1)
        == pytest.approx(plan.steps["hsp_sa"] / whole["hsp_sa"], rel=0.1)
    )
    assert 10_000 <= mine.training <= config.training and 200 <= mine.validation <= config.validation


def test_a_long_time_buys_the_whole_schedule_and_more_only_where_it_may():
    config = load_config("springs")
    sizes = {"windows": config.training, "checks": config.validation, "data_pace": 1e-4}
    choice = choose(config, PACE, 1e6, **sizes)
    assert (
        choice.scale == 1.0 and choice.settings["stages.nri.steps"] == 4500 and choice.settings["training"] == 200_000
    )
    assert choose(config, PACE, 1e6, **sizes, most=100.0).scale > 50
    least = choose(config, PACE, 1.0, **sizes)
    assert {least.settings[f"stages.{stage}.steps"] for stage in PACE} == {10}


def test_pace_is_measured_on_few_steps_and_windows(monkeypatch, capsys):
    config = load_config("springs", [], TINY)
    training, validation, hidden = load_windows(config, None)
    fills = []
    fill = hsp_sg.StructureCache.fill
    monkeypatch.setattr(
        hsp_sg.StructureCache,
        "fill",
        lambda cache, hsp: (fills.append([n for _, n in cache.sets.values()]), fill(cache, hsp)),
    )
    writer_type()  # says that TensorBoard is not installed, if so, once
    capsys.readouterr()
    pace = measure(config.plan(1200, 7, hidden, 30), training, validation, "cpu", False)
    assert list(pace) == ["nri", "hsp_sa", "hsp_sg"] and fills == [[1024, 30]]
    assert all(own.step > 0 and own.check > 0 for own in pace.values())
    assert pace["hsp_sg"].fill > 0 and pace["nri"].fill == 0
    assert capsys.readouterr().out == ""


def test_the_pace_holds_the_graphs_of_all_numbers_of_hidden_agents(tmp_path):
    """And the seconds of a plan are those of the steps that it trains."""
    config = load_config("springs", [], TINY)
    training, validation, _ = load_windows(config, None)
    plan = replace(
        config.plan(len(training), 7, 2, len(validation)),
        hidden_counts=(1, 2),
        steps={"nri": 40, "nri_visible": 0, "hsp_sa": 20, "hsp_sg": 30},
    )
    pace = measure(plan, training, validation, "cpu", False)
    assert pace["hsp_sg"].fill > 1e-6 and pace["hsp_sg"].step > 0
    train_team(plan, training, validation, tmp_path, scale=0.5, seed=0)
    steps = sum(row["step"] for row in stage_rows(tmp_path).values())
    assert steps == 20 + round(20 * 0.5 * 1.35) + round(30 * 0.5 * 1.35)
    sizes = {"windows": len(training), "checks": len(validation)}
    assert seconds_of(plan, dict.fromkeys(pace, Pace(1.0, 0.0)), 0.5, **sizes) == steps


def test_the_pace_of_nri_has_that_of_what_teaches_it(monkeypatch):
    """Its steps cost 0.2 s and 3 times 0.01; to validate it, 0.5 s and 0.25 on 50 windows."""
    rows = {
        "nri": {"step_seconds": 0.2, "validation_seconds": 0.5},
        "nri_edges": {"step_seconds": 0.01, "validation_seconds": 0.25},
        "hsp_sg_2": {"step_seconds": 0.3, "validation_seconds": 1.0, "refresh_seconds": 20.0},
    }
    monkeypatch.setattr(budget, "stage_rows", lambda folder: rows)
    monkeypatch.setattr(budget, "train_team", lambda *_, **__: None)
    config = load_config("springs", [], [*TINY, "evidence=3.0"])
    training, validation, hidden = load_windows(config, None)
    pace = measure(config.plan(1200, 7, hidden, 30), training, validation.first(50), "cpu", False)
    assert pace == {
        "nri": Pace(pytest.approx(0.23), pytest.approx(0.75 / len(validation.first(50)))),
        "hsp_sg": Pace(0.3, 1.0 / len(validation.first(50)), pytest.approx(20.0 / (1024 + len(validation.first(50))))),
    }


def test_a_choice_is_kept_for_a_run_that_goes_on(tmp_path, monkeypatch, capsys):
    """One second is too short for a pace of 0.1 s and more a step."""
    config = load_config("springs", ["short"], [*TINY, "hsp_batch=8"])
    pace = {stage: own for stage, own in PACE.items() if stage != "nri_visible"}
    monkeypatch.setattr(configured, "measure", lambda *given: pace)
    result = train_config(config, tmp_path, budget=1.0)
    steps = {stage: row["step"] for stage, row in result["stages"].items()}
    assert set(steps.values()) == {10}
    kept = json.loads((tmp_path / "budget.json").read_text())
    assert kept["settings"]["stages.nri.steps"] == steps["nri"] and kept["seconds"] == 1.0
    shown = capsys.readouterr().out.splitlines()
    (said,) = [line for line in shown if line.startswith("0.0167 min: ")]
    assert said.endswith(" of the schedule")
    (short,) = [line for line in shown if line.startswith("the shortest schedule needs about ")]
    assert short.endswith(" min, 0.0167 were asked for")
    assert float(short.split()[5]) >= 0.99 * sum(kept["planned"].values()) / 60 > 10 * (0.5 + 0.1 + 0.2) / 60
    assert any(line.split()[:2] == ["nri", str(steps["nri"])] for line in shown)
    monkeypatch.setattr(configured, "measure", None)
    assert train_config(config, tmp_path, budget=1.0)["stages"] == result["stages"]
    with pytest.raises(ValueError, match="holds a training with budget 1.0"):
        train_config(config, tmp_path, budget=2.0)
