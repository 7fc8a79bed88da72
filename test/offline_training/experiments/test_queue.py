"""The queue: what is worth most first, one schedule for one budget, models counted once, nothing done twice."""

from __future__ import annotations

import pytest

from offline_training.budget import Pace
from offline_training.experiments import lab as lab_module
from offline_training.experiments import queue
from offline_training.experiments.cells import SHARES, Cell, Options
from offline_training.experiments.lab import SECONDS, Lab
from offline_training.experiments.queue import too_short
from siha_ros.cli import main
from siha_ros.cli_reproduce import EXPERIMENTS as NAMES


def names_of(cells):
    return [f"{cell.experiment}/{cell.name}" for cell in cells]


def test_the_command_names_every_experiment():
    assert list(NAMES) == list(queue.EXPERIMENTS)


def test_what_is_worth_most_comes_first(tmp_path, capsys):
    names = names_of(queue.all_cells(list(NAMES), Lab(tmp_path), Options()))
    assert names[:3] == ["table1/springs_1", "table1/springs_2", "table1/springs_3"]
    assert len(set(names)) == len(names)
    assert names.index("alphas/siha") < names.index("table1/springs_4") < names.index("table1/charged_5")
    assert {name.split("/")[0] for name in names} == set(NAMES) - {"table2", "focus"}
    assert "table2: left out: motion capture is needed: --data DIR" in capsys.readouterr().out
    with pytest.raises(ValueError, match="motion capture is needed"):
        queue.all_cells(["table2"], Lab(tmp_path), Options())


def test_a_budget_is_a_schedule_and_shared_models_count_once(tmp_path):
    lab, options = Lab(tmp_path), Options(systems=("springs",), hidden=(2, 3))
    alone = queue.minutes_of(queue.all_cells(["table1"], lab, options))
    both = queue.minutes_of(queue.all_cells(["table1", "alphas"], lab, options))
    guided = lab.needs(options.setting("springs", 3), "hsp_sg").popitem()[1]
    assert both == pytest.approx(alone + 3 * guided + 5 * queue.MEASURING)  # three variants; two are the table's own
    measuring = 2 * queue.MEASURING
    half = queue.scaled(["table1"], lab, options, measuring + (alone - measuring) / 2)
    assert half.scale == 0.5
    assert half.setting("springs", 2).scale == 0.5 * SHARES["springs"][2]
    assert queue.scaled(["table1"], lab, options, None).scale == 1.0


def test_a_budget_that_tells_nothing_is_said(monkeypatch, capsys, tmp_path):
    assert too_short(0.02) == ""
    monkeypatch.setattr(Lab, "measure_pace", lambda lab: None)
    monkeypatch.setattr("offline_training.experiments.queue.work", lambda *_: ({}, []))
    arguments = ["reproduce", "table1", "--systems", "springs", "--hidden", "1", "--work", str(tmp_path), "--budget"]
    assert main([*arguments, "1m"]) == 0
    assert "figures of so short trainings say nothing of the method" in capsys.readouterr().out
    assert main([*arguments, "1h"]) == 0
    assert capsys.readouterr().out == ""


def test_settings_of_the_configs_reach_the_plans(monkeypatch, capsys, tmp_path):
    labs = []
    arguments = ["reproduce", "table1", "--systems", "springs", "--hidden", "1", "--work", str(tmp_path)]
    assert main([*arguments, "--set", "evidnce=1"]) == 2
    assert "unknown key 'evidnce'" in capsys.readouterr().err
    monkeypatch.setattr(
        "offline_training.experiments.queue.work", lambda names, lab, options: labs.append(lab) or ({}, [])
    )
    assert main([*arguments, "--set", "evidence=0", "--set", "nri_batch=64"]) == 0
    for lab, taken in ((labs[0], (0.0, 64)), (Lab(tmp_path), (1.0, 128))):
        plan = lab.plan(Options().setting("springs", 1))
        assert (plan.evidence, plan.nri_batch) == taken


def test_a_budget_goes_by_the_pace_of_the_machine(tmp_path, monkeypatch):
    """Steps that take half as long as assumed: the schedule is twice as long, in later sessions too."""
    measured, options = [], Options(systems=("springs",), hidden=(2,))

    def measure(plan, data, checks, device, compiled):
        measured.append(len(data))
        steps = SECONDS["mlp"] | {"nri": Lab(tmp_path).seconds(options.setting("springs", 2), "nri")}
        steps["nri_visible"] *= 20 / 42  # pairs of 5 agents, of 7
        return {stage: Pace(0.5 * step, 0.0) for stage, step in steps.items()}

    monkeypatch.setattr(lab_module, "measure", measure)
    budget = queue.MEASURING + 10.0
    assumed = queue.scaled(["table1"], Lab(tmp_path), options, budget).scale
    for _ in range(2):
        lab = Lab(tmp_path)
        queue.all_cells(["table1"], lab, options)
        lab.measure_pace()
        assert queue.scaled(["table1"], lab, options, budget).scale == pytest.approx(2 * assumed, rel=0.06)
        assert lab.measured and lab.pace == dict.fromkeys(SECONDS, 1.0) | {"mlp taught": 0.5}
    assert measured == [1024]
    (note,) = tmp_path.glob("pace_cpu_*.json")
    for damaged in ('{"mlp": 0.0}', '{"mlp": "fast"}', "[]"):
        note.write_text(damaged)
        with pytest.raises(ValueError, match="damaged, expected .* remove it, and paces are taken anew"):
            Lab(tmp_path).measure_pace()


def test_models_that_compete_are_trained_alike(tmp_path):
    lab, options = Lab(tmp_path), Options()
    for cell in queue.all_cells(["count"], lab, options):
        scales = {one["setting"]["scale"] for one in cell.options["settings"]}
        steps = {tuple(one["plan"]["steps"].values()) for one in cell.options["settings"]}
        assert scales == {SHARES[cell.name][5]} and len(steps) == 1 and len(cell.options["settings"]) == 6


class Plant:
    """An experiment of two cells, whose growth is counted."""

    def __init__(self, name="plant"):
        self.name, self.grown, self.ill = name, [], None

    def cells(self, lab, options):
        def cell(name):
            def grow():
                if options.seed == 13:
                    raise KeyboardInterrupt
                if name == self.ill:
                    raise RuntimeError("no\nwater")
                self.grown.append(name)
                return {"height": len(name)}

            return Cell(self.name, name, {"seed": 0}, {name: 1.0}, grow)

        return [cell("oak"), cell("fern")]

    def write(self, results, folder):
        return ", ".join(f"{one['cell']} {one['height']}" for one in results)


def test_the_queue_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    plant = Plant()
    monkeypatch.setitem(queue.EXPERIMENTS, "plant", plant)
    with pytest.raises(KeyboardInterrupt):
        queue.work(["plant"], Lab(tmp_path), Options(seed=13))
    first = queue.work(["plant"], Lab(tmp_path), Options())
    assert plant.grown == ["oak", "fern"] and first == ({"plant": "oak 3, fern 4"}, [])
    assert (tmp_path / "plant" / "plant.md").read_text() == "oak 3, fern 4"
    next((tmp_path / "plant").glob("oak-*.json")).unlink()
    capsys.readouterr()
    assert queue.work(["plant"], Lab(tmp_path), Options()) == first
    assert plant.grown == ["oak", "fern", "oak"]  # the fern stands
    assert "2 cells, 1 of them done; the others take about 2 min (assumed: " in capsys.readouterr().out


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    plant = Plant()
    plant.ill = "oak"
    monkeypatch.setitem(queue.EXPERIMENTS, "plant", plant)
    assert queue.work(["plant"], Lab(tmp_path), Options()) == ({"plant": "fern 4"}, ["plant oak"])
    note = tmp_path / "plant" / "oak.failed"
    assert f"plant oak: failed: RuntimeError: no water ({note})\n" in capsys.readouterr().out
    assert note.read_text().startswith("Traceback")
    plant.ill = None
    assert queue.work(["plant"], Lab(tmp_path), Options()) == ({"plant": "oak 3, fern 4"}, [])
    assert plant.grown == ["fern", "oak"] and not note.exists()


@pytest.mark.parametrize("text", ["0m", "20", "-5m", "nanm", "soon"])
def test_a_budget_is_a_time_with_its_unit(capsys, text):
    for command in (["reproduce", "table1"], ["train", "springs.yaml"]):
        with pytest.raises(SystemExit) as end:
            main([*command, f"--budget={text}"])
        assert end.value.code == 2 and text in capsys.readouterr().err.splitlines()[-1]


def test_nothing_to_run_is_an_error(tmp_path, capsys):
    for budget in ([], ["--budget", "20m"]):
        assert main(["reproduce", "table2", "focus", "--work", str(tmp_path), *budget]) == 2
        error = capsys.readouterr().err
        assert error.startswith("siha: nothing to run: table2: motion capture is needed: --data DIR")
        assert "; focus: motion capture is needed" in error and error.count("\n") == 1


def test_the_command_ends_with_an_error_where_a_cell_failed(tmp_path, monkeypatch, capsys):
    plant = Plant("seeds")
    plant.ill = "fern"
    monkeypatch.setitem(queue.EXPERIMENTS, "seeds", plant)
    with pytest.raises(SystemExit) as end:  # with a text: 1 to the shell
        main(["reproduce", "seeds", "--work", str(tmp_path)])
    assert end.value.code == "siha: failed: seeds fern; the same command tries them again"
    assert "oak 3" in capsys.readouterr().out
