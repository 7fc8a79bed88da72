"""Every experiment in the small, from nothing to its tables: they run to their end, share models, and do nothing twice.

What comes out after ten steps is no good; that it is what it should be is for the other tests of this folder.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from offline_training.config import load_config
from offline_training.experiments import explained, queue, shared, table1, table2
from offline_training.experiments.lab import FRAMES, ROUNDS, SECONDS, UNGUIDED, VISIBLE
from offline_training.experiments.queue import EXPERIMENTS, work
from offline_training.experiments.store import digest
from siha_ros.model.hidden_state import PAPER_ALPHAS, reconstruction_error
from siha_ros.model.refinement import Refinement


def run(lab, options, *names):
    tables, failed = work(names, lab, options)
    assert not failed
    return tables


def results(lab, name):
    return [json.loads(path.read_text()) for path in sorted((lab.store.folder / name).glob("*.json"))]


def models(lab):
    return {path.parent.name for path in lab.store.folder.glob("models/*/weights.safetensors")}


def test_the_main_table(tiny_lab, tiny_options):
    text = run(tiny_lab, tiny_options, "table1")["table1"]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| springs")]
    (result,) = results(tiny_lab, "table1")
    assert [row[2] for row in rows[:6]] == list(table1.METHODS.values())
    assert [row[2] for row in rows[-4:]] == [
        "SIHA - HSP-sa, as long as SIHA",
        "HSP-sa, as long as SIHA - HSP-sa",
        "SIHA, steady - HSP-sa",
        "SIHA, steady - SIHA",
    ]
    control, guided = result["costs"]["hsp_sa_long"], result["costs"]["hsp_sg"]
    assert control["samples_seen"] == guided["samples_seen"] and control["model"] != guided["model"]
    assert rows[0][3] == "- (-)" and rows[2][3].endswith("(2.1e-3)") and rows[0][6].endswith("(89.7)")
    assert 0 < result["methods"]["hsp_sa"]["mse_hsp_mean"] < 2
    gap = result["differences"]["siha_paper - hsp_sa"]["mse_hsp_mean"]
    apart = result["methods"]["siha_paper"]["mse_hsp_mean"] - result["methods"]["hsp_sa"]["mse_hsp_mean"]
    assert gap[0] == pytest.approx(apart, rel=1e-4) and gap[1] <= gap[0] <= gap[2]
    assert result["costs"]["nri_visible"]["samples_seen"] == 80
    assert result["costs"]["nri"]["samples_seen"] == 80 + 160  # ten steps of 16 of the model that teaches it
    assert (tiny_lab.store.folder / "table1" / "table1.md").read_text() == text
    assert (tiny_lab.store.folder / "table1" / "table1_acc_vv.png").stat().st_size > 1000


def test_the_control_does_not_see_the_graph(tiny_lab, tiny_options):
    setting = tiny_options.setting("springs", 1)
    visible = tiny_lab.task(setting).states[:, :VISIBLE, :FRAMES]
    for alphas, blind in ((UNGUIDED, True), (PAPER_ALPHAS, False)):
        network = tiny_lab.hsp_sg(setting, alphas).network
        none, all_of_them = (network(visible, torch.full((len(visible), 6, 6), value)) for value in (0.0, 1.0))
        assert torch.equal(none, all_of_them) == blind


def test_experiments_share_models(tiny_lab, tiny_options):
    run(tiny_lab, tiny_options, "table1")
    before = models(tiny_lab)
    run(tiny_lab, tiny_options, "oracle", "baselines")
    assert sorted(name.split("-")[0] for name in models(tiny_lab) - before) == ["hsp_sa_partly", "oracle"]
    (oracle,), (plain,) = results(tiny_lab, "oracle"), results(tiny_lab, "baselines")
    (table1,) = results(tiny_lab, "table1")
    for result in (oracle, table1):
        assert result["methods"]["siha_paper"]["mse_hsp_mean"] == pytest.approx(
            plain["methods"]["siha_paper"]["never"]["mse"], rel=1e-4
        )
    assert plain["methods"]["ridge"]["gap"]["mse"] < plain["methods"]["ridge"]["never"]["mse"]
    assert plain["methods"]["siha_paper"]["never"]["ms_a_window"] > 0
    partly = plain["methods"]["hsp_sa_partly"]  # the other HSP-sa: one for all sets
    assert set(partly) == set(plain["methods"]["ridge"]) and len({row["samples_seen"] for row in partly.values()}) == 1
    last = plain["methods"]["constant_velocity"]["lost"]["ages"]
    assert partly["lost"]["ages"][0]["mse"] < last[2]["mse"] and last[0]["mse"] < last[1]["mse"] < last[2]["mse"]


def test_what_explains_the_visible_agents_stands_for_the_answer(tiny_lab, tiny_options, monkeypatch):
    """Of 12 windows in parts of 5 every other one is explained; the others have the steady answer, window by window."""
    run(tiny_lab, tiny_options, "table1")
    before, calls = models(tiny_lab), []

    def every_other(refinement, visible, refined, guess, step, farthest, first_step):
        assert first_step and guess.shape == step.shape == farthest.shape == (4,) and len(visible) <= 5
        calls.append(len(visible))
        smoothed = SimpleNamespace(hidden=refined.hidden + 1)
        agents = visible.shape[1] + refined.hidden.shape[1]
        odds = torch.full((len(visible), agents, agents), 9.0)
        return SimpleNamespace(smoothed=smoothed, log_odds=odds, residual=torch.arange(len(visible)) % 2 * 5.0)

    monkeypatch.setattr(explained, "explain", every_other)
    monkeypatch.setattr(explained, "CHUNK", 5)
    monkeypatch.setattr(explained, "CHECKS", 8)
    text = run(tiny_lab, tiny_options, "explained")["explained"]
    (result,) = results(tiny_lab, "explained")
    assert models(tiny_lab) == before and calls == [5, 5, 2] and result["explained"] == pytest.approx(7 / 12)
    assert "springs 1, 58% explained" in text and "| SIHA, explained - SIHA, steady |" in text
    setting = tiny_options.setting("springs", 1)
    networks = (getattr(tiny_lab, kind)(setting).network for kind in ("hsp_sa", "hsp_sg", "nri"))
    steady = Refinement(*networks, ROUNDS, steady=True)
    explaining, visible = explained.Explaining(steady, setting), tiny_lab.task(setting).states[:, :VISIBLE, :FRAMES]
    plain, found = steady(visible), explaining(visible)
    fine = torch.tensor([True, False, True, False, True] * 2 + [True, False])
    torch.testing.assert_close(found.hidden, plain.hidden + fine[:, None, None, None])
    assert (found.graph[fine].argmax(-1).sum((1, 2)) == 30).all()  # every edge of six
    torch.testing.assert_close(found.graph[~fine], plain.graph[~fine])


def test_nothing_is_done_twice(tiny_lab, tiny_options, monkeypatch):
    first = run(tiny_lab, tiny_options, "table1")
    monkeypatch.setattr(queue.Lab, "nri", None)
    assert run(tiny_lab, tiny_options, "table1") == first
    assert work(["table1"], tiny_lab, replace(tiny_options, seed=1))[1] == ["table1 springs_1_seed1"]  # another model


CHANGES = {
    "rate": lambda plan: {"schedules": {name: replace(one, rate=1e-4) for name, one in plan.schedules.items()}},
    "optimiser": lambda plan: {"schedules": plan.schedules | {"nri": replace(plan.schedules["nri"], optimiser="adam")}},
    "starts": lambda plan: {"starts": None},
    "rotate": lambda plan: {"rotate": not plan.rotate},
    "rounds": lambda plan: {"rounds": 7},
    "checks": lambda plan: {"checks": 7},
    "nri_batch": lambda plan: {"nri_batch": 7},
    "warmup": lambda plan: {"warmup_epochs": 7.0},
    "seen_frames": lambda plan: {"hsp": replace(plan.hsp, seen_frames=True)},
    "decoder": lambda plan: {"nri": replace(plan.nri, skip_first=not plan.nri.skip_first)},
    "encoder": lambda plan: {"nri": replace(plan.nri, out_layers=3)},
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_whatever_decides_a_model_tells_it_and_its_cells_from_others(change, tiny_lab, tiny_options, monkeypatch):
    setting = tiny_options.setting("springs", 1)

    def keys():
        (cell,) = EXPERIMENTS["table1"].cells(tiny_lab, tiny_options)
        return digest(tiny_lab.key(setting)), digest(cell.options)

    before, plan = keys(), tiny_lab.plan(setting)
    assert keys() == before
    monkeypatch.setattr(tiny_lab, "plan", lambda setting: replace(plan, **CHANGES[change](plan)))
    assert all(now != then for now, then in zip(keys(), before, strict=True))


def test_options_that_came_later_leave_the_names_of_models_alone(tiny_lab, tiny_options):
    setting = tiny_options.setting("springs", 1)
    assert "seen_frames" not in tiny_lab.key(setting)["plan"]["hsp"]
    partly = tiny_lab.hsp_sa_partly(setting)
    options = json.loads((tiny_lab.store.folder / "models" / partly.key / "options.json").read_text())
    assert options["from"] == tiny_lab.hsp_sa(setting).key and partly.network.config.seen_frames


def test_on_springs_a_model_of_single_steps_teaches_the_nri_of_all_agents_alone(own_lab, tiny_options):
    setting = tiny_options.setting("springs", 1)
    own_lab.nri_visible(setting)
    assert sorted(log.name for log in own_lab.store.folder.glob("models/*/*.jsonl")) == ["nri_visible.jsonl"]
    own_lab.nri(setting)
    logs = sorted(log.name for log in own_lab.store.folder.glob("models/*/*.jsonl"))
    assert logs == ["nri.jsonl", "nri_edges.jsonl", "nri_visible.jsonl"]
    assert own_lab.seconds(setting, "nri") > own_lab.seconds(setting, "nri_visible") == SECONDS["mlp"]["nri_visible"]


def test_strengths_of_the_attention(own_lab, tiny_options):
    text = run(own_lab, tiny_options, "alphas")["alphas"]
    assert sorted(name.split("-")[0] for name in models(own_lab)) == ["hsp_sa", *["hsp_sg"] * 5, "nri"]
    assert "| no_hard_mask | 0, 1, 5, 5 |" in text and "(2.0e-2)" in text
    assert len({result["figures"]["mse_hsp_mean"] for result in results(own_lab, "alphas")}) == 5


def test_encoders(tiny_lab, tiny_options):
    text = run(tiny_lab, tiny_options, "encoders")["encoders"]
    found = {result["encoder"]: result["figures"]["mse_hsp_mean"] for result in results(tiny_lab, "encoders")}
    assert len(set(found.values())) == 5 and "| slot_attention | " in text


def test_runs_from_other_seeds(tiny_lab, tiny_options, monkeypatch):
    monkeypatch.setattr(EXPERIMENTS["seeds"], "RUNS", 2)
    text = run(tiny_lab, tiny_options, "seeds")["seeds"]
    found = [result["methods"]["hsp_sa"]["mse_hsp_mean"] for result in results(tiny_lab, "seeds")]
    assert len(set(found)) == 2 and "| springs | SIHA | 2 | " in text and "(4.9e-3±6.7e-5)" in text
    assert "| springs | SIHA - HSP-sa, as long as SIHA | " in text


def test_an_unknown_number(tiny_lab, tiny_options):
    run(tiny_lab, tiny_options, "count")
    (result,) = results(tiny_lab, "count")
    for rule in ("onestep", "openloop"):
        shares = torch.tensor(result["rules"][rule]["confusion_percent"])
        assert shares.shape == (6, 6) and torch.allclose(shares.sum(1), torch.full((6,), 100.0), atol=1e-3)


def test_agents_that_no_model_knows(tiny_lab, tiny_options):
    text = run(tiny_lab, tiny_options, "unmodeled")["unmodeled"]
    errors = [result["methods"]["siha_paper"]["mse_hsp_mean"] for result in results(tiny_lab, "unmodeled")]
    assert len(set(errors)) == 4 and "| 3 | SIHA | " in text and "(1.5e-2)" in text


def test_without_hidden_targets(tiny_lab, tiny_options):
    before = models(tiny_lab)
    text = run(tiny_lab, tiny_options, "unsupervised")["unsupervised"]
    fresh = {name.split("-")[0] for name in models(tiny_lab) - before}
    assert {"joint_random", "joint_pretrained", "frozen"} <= fresh
    rows = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| 1 |")]
    assert rows == ["joint_random", "joint_pretrained", "frozen", "supervised", "supervised_as_long"]
    seen = {one["variant"]: one["cost"] for one in results(tiny_lab, "unsupervised")}
    assert seen["supervised_as_long"]["samples_seen"] == seen["frozen"]["samples_seen"]
    assert seen["supervised_as_long"]["model"] != seen["supervised"]["model"]


@pytest.mark.data
def test_bodies(tiny_lab, tiny_options, shared_data, tmp_path):
    folder = tmp_path / "35"
    folder.mkdir()
    for name in ("35.asf", "35_01.amc", "35_03.amc", "35_05.amc"):
        (folder / name).symlink_to(shared_data / "cmu" / "35" / name)
    (tmp_path / "69").symlink_to(shared_data / "cmu" / "69")
    options = replace(tiny_options, data=tmp_path)
    tables = run(tiny_lab, options, "table2", "focus")
    found = {f"{one['subject']} {one['limb']}": one for one in results(tiny_lab, "table2")}
    assert set(found) == {f"{subject} {limb}" for subject in ("35", "69") for limb in ("left_arm", "left_leg")}
    arm, leg = found["35 left_arm"], found["35 left_leg"]
    assert arm["costs"]["nri"] == leg["costs"]["nri"] and arm["costs"]["hsp_sa"] != leg["costs"]["hsp_sa"]
    assert arm["windows"] == {"training": 358 - 48, "test": 1 + (427 - 99) // 4}
    assert "| 35 | left_arm | SIHA | " in tables["table2"] and "(8.1e-3)" in tables["table2"]
    (figure,) = results(tiny_lab, "focus")
    known = [len(panel["joints"]) for panel in figure["panels"]]
    assert known == [31, 24, 31, 31, 31, 31] and len(figure["bones"]) == 30
    assert (tiny_lab.store.folder / "focus" / "focus.png").stat().st_size > 10_000


def test_cells_of_other_recordings_are_others(own_lab, tiny_options, tmp_path):
    folder = tmp_path / "cmu" / "35"
    folder.mkdir(parents=True)
    options = replace(tiny_options, data=tmp_path / "cmu")

    def keys():
        cells = [cell for name in ("table2", "focus") for cell in EXPERIMENTS[name].cells(own_lab, options)]
        return [digest(cell.options) for cell in cells]

    found = [keys()]
    for text in ("one walk", "another walk"):  # as another --data has them
        (folder / "35_01.amc").write_text(text)
        found.append(keys())
    (folder / "notes.txt").write_text("no recording")
    arm, leg, figure = zip(*found, strict=True)
    assert len({*arm, *leg}) == 6 and figure == arm and keys() == found[-1]


def test_bodies_are_trained_by_their_config():
    config = table2.config_of(())
    usual = load_config("cmu35")
    assert config.stages["hsp_sa"].optimiser == "adam" and config.mocap.stride == 1
    assert (config.nri, config.nri_batch, config.hsp_batch) == (usual.nri, usual.nri_batch, usual.hsp_batch)


def test_every_experiment_is_tried_here():
    text = Path(__file__).read_text()
    assert all(f'"{name}"' in text for name in EXPERIMENTS)


def test_one_network_for_several_numbers(tiny_lab, tiny_options):
    text = run(tiny_lab, tiny_options, "shared")["shared"]
    (result,) = results(tiny_lab, "shared")
    assert [line.split(" | ")[0] for line in text.splitlines() if " of 7 | " in line] == ["| 1 of 7", "| 2 of 7"]
    setting = tiny_options.setting("springs", 2)
    both = shared.predictors(tiny_lab, setting, (1, 2)).network
    assert both[1].decode is not both[2].decode
    for own, other in zip(both[1].decode.parameters(), both[2].decode.parameters(), strict=True):
        assert own is other  # as it was stored, and again as it was loaded
    states = tiny_lab.task(setting).states[:, :, :FRAMES]
    for number, found in result["numbers"].items():
        with torch.no_grad():
            guess = both[int(number)](states[:, : -int(number)])
        by_hand = float(reconstruction_error(guess, states[:, -int(number) :]).mean())
        assert found["mse"]["shared"][0] == pytest.approx(by_hand, rel=1e-4)
        times = found["mse"]["shared"][0] / found["mse"]["own"][0]
        assert found["times"][0] == pytest.approx(times) and found["times"][1] <= times <= found["times"][2]
        assert found["costs"]["own"]["samples_seen"] == found["costs"]["shared"]["samples_seen"]
    assert result["numbers"]["2"]["costs"]["own"]["model"] == tiny_lab.hsp_sa(setting).key
