"""``siha calibrate``: other deviations, the same networks."""

from __future__ import annotations

import pytest

pytest.importorskip("numba", reason="needs numba, for the simulated team")

from offline_training import springs
from siha_ros.cli import main
from siha_ros.model.bundle import load_bundle
from siha_ros.resources import bundle_path


def test_deviations_of_a_team_are_measured_anew_and_nothing_else_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(springs, "RATE", 3.0)
    monkeypatch.setattr(springs, "NEVER_SEEN", 0.0)
    source, out = bundle_path("springs_team"), tmp_path / "springs_team"
    assert main(["calibrate", str(source), "--losses", "2", "--seed", "9", "--out", str(out)]) == 0
    before, after = (load_bundle(folder).config for folder in (source, out))
    for file in source.glob("*.safetensors"):  # how the team moves is measured again as well, and comes out the same
        assert (out / file.name).read_bytes() == file.read_bytes()
    changed = {name for name in before.errors | after.errors if before.errors.get(name) != after.errors.get(name)}
    kinds = {"forecast", "forecast_lost"}
    assert changed == {"siha"} | {f"{kind}{end}" for kind in kinds for end in ("", "_1", "_2")}
    assert after.errors["forecast_2"].radius[-1] > 10 * after.errors["forecast_2"].radius[0]
    assert after.metrics["deviations"]["command"] == "siha calibrate springs_team --losses 2 --seed 9"
    assert {name: rest for name, rest in after.metrics.items() if name != "deviations"} == {
        name: rest for name, rest in before.metrics.items() if name != "deviations"
    }


def test_a_body_needs_its_recordings(tmp_path, capsys):
    assert main(["calibrate", "body", "--out", str(tmp_path / "body")]) == 2
    assert "--data FOLDER is needed for the bundle body: the .asf and .amc files" in capsys.readouterr().err
    assert not (tmp_path / "body").exists()
