"""``siha calibrate``: other deviations, the same networks."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("numba", reason="needs numba, for the simulated team")

from offline_training import springs
from siha_ros.cli import main
from siha_ros.model.bundle import load_bundle
from siha_ros.resources import bundle_path


def test_deviations_of_a_team_are_measured_anew_and_nothing_else_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(springs, "RATE", 3.0)
    monkeypatch.setattr(springs, "NEVER_SEEN", 0.0)
    monkeypatch.setattr(springs, "NOISES", (0.001, 0.01))
    source, out = bundle_path("springs_team"), tmp_path / "springs_team"
    assert main(["calibrate", str(source), "--losses", "2", "--seed", "9", "--out", str(out)]) == 0
    before, after = (load_bundle(folder).config for folder in (source, out))
    for file in source.glob("*.safetensors"):
        assert file.name == "noise.safetensors" or (out / file.name).read_bytes() == file.read_bytes()
    noise = [load_bundle(folder).arrays["noise"] for folder in (source, out)]  # how the team moves is measured again
    assert noise[1]["roughness"] == pytest.approx(float(noise[0]["roughness"]), rel=0.2)
    torch.testing.assert_close(noise[1]["kernel"], noise[0]["kernel"], rtol=0, atol=0.05)
    for name in noise[0].keys() - {"roughness", "total", "kernel"}:
        assert (noise[1][name] == noise[0][name]).all()
    changed = {name for name in before.errors | after.errors if before.errors.get(name) != after.errors.get(name)}
    kinds = {"forecast", "forecast_lost"}
    unseen = {f"{kind}_{answer}" for kind in kinds for answer in ("hsp", "solved")}
    measured = {"siha", "noise", "noise_2", "noise_age", "noise_age_2"}
    measured |= {f"{kind}{end}" for kind in kinds for end in ("", "_1", "_2")}
    assert changed == measured | unseen and not unseen & set(after.errors)  # nobody was never seen: none are left
    assert after.errors["forecast_2"].radius[-1] > 10 * after.errors["forecast_2"].radius[0]
    assert after.metrics["deviations"]["command"] == "siha calibrate springs_team --losses 2 --seed 9"
    assert {name: rest for name, rest in after.metrics.items() if name != "deviations"} == {
        name: rest for name, rest in before.metrics.items() if name != "deviations"
    }


def test_a_body_needs_its_recordings(tmp_path, capsys):
    assert main(["calibrate", "body", "--out", str(tmp_path / "body")]) == 2
    assert "--data FOLDER is needed for the bundle body: the .asf and .amc files" in capsys.readouterr().err
    assert not (tmp_path / "body").exists()


def test_what_cannot_be_written_or_does_not_go_with_the_bundle_is_said_at_once(tmp_path, capsys):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years")
    assert main(["calibrate", "springs_fresh", "--out", str(tmp_path / "notes")]) == 2
    assert f"siha: {tmp_path / 'notes'} is no bundle, and would be overwritten" in capsys.readouterr().err
    assert main(["calibrate", "springs_fresh", "--data", str(tmp_path), "--out", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "siha: --data does not go with the bundle springs_fresh of the system springs\n"
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
