"""What a training leaves beside its weights: here its options, which a later run must share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offline_training.stages.logs import claim, stage_rows


def test_a_work_folder_belongs_to_one_training(tmp_path):
    work = tmp_path / "training" / "team"
    claim(work, set="other", seed=0, data=tmp_path)
    claim(work, set="any", seed=0, data=tmp_path)  # nothing has begun: options can be mended
    (work / "nri.pt").touch()
    claim(work, set="any", seed=0, data=tmp_path)  # the same one goes on
    with pytest.raises(ValueError, match=r"team holds a training with seed 0 \(now 1\): choose another") as fault:
        claim(work, set="any", seed=1, data=tmp_path)
    assert "\n" not in str(fault.value)
    claim(tmp_path / "other", set="any", seed=1, data=tmp_path)


def test_options_that_are_mended_leave_no_budget_behind(tmp_path):
    claim(tmp_path, seed=0)
    (tmp_path / "budget.json").write_text("{}")
    claim(tmp_path, seed=1)
    assert not (tmp_path / "budget.json").exists()


def test_a_folder_is_held_by_the_process_that_trains_there(tmp_path):
    code = (
        "import sys, pathlib; from offline_training.stages.logs import claim; claim(pathlib.Path(sys.argv[1]), seed=0)"
    )
    other = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(other, check=False).returncode == 0  # it has ended
    claim(tmp_path, seed=0)
    claim(tmp_path, seed=0)
    refused = subprocess.run(other, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and f"another training is running in {tmp_path}" in refused.stderr


def test_a_folder_of_recordings_is_known_by_its_files(tmp_path):
    data = tmp_path / "35"
    data.mkdir()
    (data / "35_01.amc").write_text("one")
    claim(tmp_path / "work", data=data)
    (tmp_path / "work" / "nri.pt").touch()
    claim(tmp_path / "work", data=data)
    (data / "35_02.amc").write_text("two")
    with pytest.raises(ValueError, match=r"data \S+/35 \(1 files, \w+\) \(now \S+/35 \(2 files, \w+\)\): choose"):
        claim(tmp_path / "work", data=data)


def test_what_differs_is_told_by_key(tmp_path):
    claim(tmp_path, stages={"nri": {"steps": 1, "rate": 2}}, seed=0)
    (tmp_path / "nri.pt").touch()
    with pytest.raises(ValueError, match=r"a training with stages.nri.rate 2 \(now 3\): choose"):
        claim(tmp_path, stages={"nri": {"steps": 1, "rate": 3}}, seed=0)
    with pytest.raises(ValueError, match=r"stages.nri.steps 1 \(now None\), seed 0 \(now 5\) and 2 more: choose"):
        claim(tmp_path, a=1, b=2, c=3, stages={"nri": {"steps": None, "rate": 2}}, seed=5, d=4, e=5)
    with pytest.raises(ValueError, match=r"a training with stages.nri.rate 2 \(now None\): choose"):
        claim(tmp_path, stages={"nri": {"steps": 1}}, seed=0)


def test_logs_stand_as_the_stages_run(tmp_path):
    run = ["nri_edges", "nri", "nri_visible_edges", "nri_visible", "hsp_sa_1_2", "hsp_sg_1_2"]
    for name in sorted(run):
        (tmp_path / f"{name}.jsonl").write_text('{"step": 1}\n')
    assert list(stage_rows(tmp_path)) == run


def test_a_kill_while_the_options_are_noted_leaves_a_folder_that_can_be_claimed(tmp_path, monkeypatch):
    write = Path.write_text

    def killed(path, text):
        write(path, text[:5])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            claim(tmp_path, seed=0)
    claim(tmp_path, seed=0)
    (tmp_path / "nri.pt").touch()
    with pytest.raises(ValueError, match="seed 0"):
        claim(tmp_path, seed=1)
