"""``siha train FOLDER`` from CSV files to a bundle that an estimator loads, tiny and short; and what it refuses."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from offline_training.budget import Pace, scale_within, seconds_of
from offline_training.folder import train_folder
from offline_training.recordings.recording import ReadOptions, RecordingError, read_recordings
from offline_training.systems.springs import simulate_springs
from siha_ros.cli import main
from siha_ros.cli_train_folder import with_folder
from siha_ros.estimator import load_estimator
from siha_ros.replay.windows import Recording


def write_team(folder, runs=2, frames=1500, agents=4):
    """Springs teams as CSV at 10 Hz; one robot of the first is not seen for a second."""
    folder.mkdir()
    made = simulate_springs(runs, frames, agents=agents, seed=3, start="team")
    titles = ",".join(f"r{agent}_{axis}" for agent in range(agents) for axis in "xy")
    for run in range(runs):
        rows = made.positions[run].transpose(1, 0, 2).reshape(frames, -1).astype(float)
        if run == 0:
            rows[100:110, 2:4] = np.nan
        lines = [f"{0.1 * frame:.1f}," + ",".join(f"{x:.5f}" for x in row) for frame, row in enumerate(rows)]
        (folder / f"run_{run}.csv").write_text(f"time,{titles}\n" + "\n".join(lines) + "\n")
    return folder, made


@pytest.mark.slow
def test_a_bundle_from_a_folder(tmp_path):
    folder, made = write_team(tmp_path / "team")
    said = []
    arguments = {"source": "team", "window": 20, "scale": 1e-4, "width": 16, "say": said.append}
    recordings = read_recordings(folder)
    report = train_folder(recordings, tmp_path / "bundle", tmp_path / "work", **arguments)
    assert "2 recordings, 5.0 min, of 4 agents at 10 Hz, 2-D" in said[0]
    assert "team of 4 like agents, up to 1 hidden; windows of 20 frames of 0.1 s (2 s), forecast 1 s" in said[1]
    assert said[2] == "names: r0, r1, r2, r3" and " m/s" in said[3] and "--unit" not in said[3]
    assert "split by time" in said[4] and "masked" in said[5] and " 0.00 %" not in said[5]
    assert report is not None and report["losses"] == 5 and set(report["methods"]) > {"siha", "hold"}
    estimator = load_estimator(tmp_path / "bundle", "cpu")
    config = estimator.bundle.config
    assert (config.system, config.count, config.window, config.max_hidden) == ("recorded", 4, 20, 1)
    assert config.training.trials == ["run_0.csv", "run_1.csv"]
    assert config.metrics["test"]["losses"] == 5 and {"siha", "hsp", "forecast", "forecast_lost"} <= set(config.errors)
    told = [line for line in said if line.startswith("share of the networks beside a last motion")]
    assert len(told) == 1 and set(estimator.mix) == {"lost_1"} and "last_motion" in report["methods"]
    assert estimator.mix["lost_1"].weights[-1, 0] > 0.9  # the sum of all tells where one robot is, learned or not
    plain = [report["methods"][name]["all"]["rmse_cm"] for name in ("constant_velocity", "hold")]
    assert report["methods"]["last_motion"]["all"]["rmse_cm"] < 1.1 * min(plain)
    assert report["methods"]["siha"]["all"]["rmse_cm"] < 0.5 * min(plain)
    shown = Recording(["a", "b", "c", "d"], made.positions[:1, :, 200:220].astype(float), None, None, 0.1)
    for lost_at in (0, 10):
        estimate = estimator.estimate(shown.window(0, 20, np.array([3]), lost_at))
        assert np.isfinite(estimate.positions).all() and np.isfinite(estimate.forecast.positions).all()
        assert "extrapolated" not in "".join(estimate.reason)
    again = train_folder(recordings, tmp_path / "again", tmp_path / "work", **arguments)  # from the checkpoints
    assert again is not None and again["methods"] == report["methods"]
    with pytest.raises(ValueError, match="holds a training with seed 0"):
        train_folder(recordings, tmp_path / "again", tmp_path / "work", **arguments, seed=1)
    moved = [replace(one, positions=one.positions + 1.0) for one in recordings]
    with pytest.raises(ValueError, match=r"holds a training with recordings \w+ \(now \w+\)"):
        train_folder(moved, tmp_path / "again", tmp_path / "work", **arguments)


def test_a_bundle_says_what_was_asked_for(monkeypatch, tmp_path, capsys):
    asked = {}
    monkeypatch.setattr("offline_training.folder.train_folder", lambda *_, **options: asked.update(options))
    folder, _ = write_team(tmp_path / "team", runs=1, frames=30)
    options = ["--unit", repr(1 / 3), "--names", "r0,r1", "--dt", repr(1 / 15), "--hidden", "1", "--scale", "0.06"]
    assert main(["train", str(folder), *options]) == 0
    assert asked["command"] == shlex.join(["siha", "train", "./team", *options, "--seed", "0"])
    assert main(["train", str(folder), *options[:-2], "--budget", "20m"]) == 0 and asked["budget"] == 1200
    assert asked["command"] == shlex.join(["siha", "train", "./team", *options[:-2], "--seed", "0"])  # no scale yet
    read = []
    monkeypatch.setattr("offline_training.recordings.recording.read_recordings", lambda path, how: read.append(how))
    for source in (["--stamp-source", "arrival"], []):
        assert main(["train", str(folder), *source]) == 0 and read[-1].arrival == bool(source)
        assert asked["command"] == shlex.join(
            ["siha", "train", "./team", *source, "--hidden", "2", "--scale", "1.0", "--seed", "0"]
        )
    capsys.readouterr()
    assert main(["train", str(folder), *options, "--budget", "20m"]) == 2
    assert capsys.readouterr().err == "siha: --budget chooses the --scale: give one of them\n"


def test_a_budget_is_a_scale_by_the_pace_of_the_machine(tmp_path, monkeypatch):
    """What a first call chose is kept, whatever the pace is when the training goes on."""
    folder, _ = write_team(tmp_path / "team")
    said, trained = [], []

    def stop(plan, data, validation, work, *, scale, **_):
        trained.append((plan, len(data), len(validation), scale))
        raise KeyboardInterrupt

    monkeypatch.setattr("offline_training.folder.train_team", stop)
    arguments = {"source": "team", "window": 20, "width": 16, "budget": 60.0, "say": said.append}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train_folder(read_recordings(folder), tmp_path / "bundle", tmp_path / "work", **arguments)
    (plan, windows, checks, scale), again = trained
    assert again[3] == scale < 1 and sum("timing a few steps" in line for line in said) == 1
    (line,) = [line for line in said if "--scale" in line]
    assert line.startswith(f"--scale {scale:g}: the networks take about ")
    pace = {"nri": Pace(0.01, 1e-5), "hsp_sa": Pace(0.02, 1e-5), "hsp_sg": Pace(0.02, 1e-5, 1e-4)}
    sizes = {"windows": windows, "checks": checks}
    found = scale_within(plan, pace, 20.0, **sizes)
    assert 15 < seconds_of(plan, pace, found, **sizes) <= 20.0 < seconds_of(plan, pace, 1.1 * found, **sizes)
    assert scale_within(plan, pace, 1e9, **sizes) == 1.0


def test_oddities_are_said_before_anything_is_learned(tmp_path):
    """A spike of a tracker is a gap and does not set the scale; a file slower than the grid is named."""
    folder, made = write_team(tmp_path / "team")
    rows = (folder / "run_0.csv").read_text().splitlines()
    cells = rows[501].split(",")
    rows[501] = ",".join([cells[0], "1e9", *cells[2:]])
    (folder / "run_0.csv").write_text("\n".join(rows))
    rows = (folder / "run_1.csv").read_text().splitlines()
    (folder / "run_2.csv").write_text("\n".join(rows[:1] + rows[1::5]))
    said = []

    def stop(line):
        said.append(line)
        if "to train on" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_folder(
            read_recordings(folder), tmp_path / "bundle", tmp_path / "work", source="team", window=20, say=stop
        )
    assert not any("--unit" in line for line in said)
    assert "run_0.csv: 1 sample taken for gaps" in said[0] and "(r0 at 50 s)" in said[0]
    assert not (tmp_path / "bundle").exists()


def test_units_are_asked_about_where_nothing_moves_so_fast(tmp_path):
    folder, _ = write_team(tmp_path / "team")
    said, pixels = [], read_recordings(folder, ReadOptions(unit=300.0))

    def stop(line):
        said.append(line)
        if "to train on" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_folder(pixels, tmp_path / "bundle", tmp_path / "work", source="team", window=20, say=stop)
    assert sum(" m/s: are positions in metres (--unit)?" in line for line in said) == 1


def test_positions_that_float32_cannot_hold_are_refused(tmp_path):
    folder, _ = write_team(tmp_path / "team")
    huge = read_recordings(folder, ReadOptions(unit=1e30))
    with pytest.raises(RecordingError, match=r"run_0.csv: positions up to \S+e\+3\d, expected metres .--unit"):
        train_folder(huge, tmp_path / "bundle", tmp_path / "work", source="team", window=20)


def test_a_folder_is_told_from_a_name():
    known = ("springs_team", "body", "folder")
    assert with_folder(["train", "runs/today", "--seed", "1"], known) == [
        "train",
        "folder",
        "runs/today",
        "--seed",
        "1",
    ]
    for plain in (["train", "body", "--data", "x"], ["train", "--help"], ["train"], ["evaluate", "x"]):
        assert with_folder(plain, known) == plain


def test_what_cannot_be_trained_on_is_one_line(tmp_path, capsys):
    folder, _ = write_team(tmp_path / "team", runs=1, frames=30)
    longer, _ = write_team(tmp_path / "longer", runs=1, frames=400)
    for arguments, message in (
        ([folder], "siha: too little to train on: 11 windows of 20 frames of 0.1 s in which 4 or more agents"),
        ([tmp_path / "none"], "siha: "),
        ([longer, "--hidden", "3"], "siha: 3 hidden of a team of 4: expected 1 or fewer, so that 3 are seen"),
        ([folder, "--names", "r0,r9"], "no agent r9, it has r0, r1, r2, r3"),
    ):
        assert main(["train", *map(str, arguments)]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
