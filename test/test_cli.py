"""The command: what it prints, what it writes, and one line with exit code 2 for what it cannot do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from small_team import save_small_team

from siha_ros.cli import main


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return str(save_small_team(tmp_path_factory.mktemp("bundle") / "small_team", agents=7))


def failed(capsys, *arguments):
    """The one line of a command that cannot be run."""
    assert main(list(map(str, arguments))) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1 and output.err.startswith("siha: ")
    return output.err


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("train", "evaluate", "bench", "bundle", "simulate", "view", "node"))


def test_help_needs_no_torch_and_no_ros():
    code = "import sys; sys.argv = ['siha', '--help']\ntry:\n    import siha_ros.cli as c; c.main()\n" + (
        "except SystemExit:\n    pass\nprint([m for m in ('torch', 'rclpy', 'offline_training') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["train"],
        ["train", "springs_team", "--samples", "0"],
        ["train", "body"],
        ["evaluate"],
        ["evaluate", "--bundle", "b", "--hidden", "x"],
        ["evaluate", "--bundle", "b", "--hidden", "2", "--hide", "left_arm"],
        ["bench", "--repeats", "-1"],
    ],
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_bundle_that_is_not_there(capsys, tmp_path):
    assert "nowhere" in failed(capsys, "bundle", "info", "nowhere")
    assert "bundle.yaml" in failed(capsys, "evaluate", "--bundle", tmp_path)


def test_options_that_do_not_go_with_the_bundle(capsys, bundle, tmp_path):
    assert "--hide" in failed(capsys, "evaluate", "--bundle", bundle, "--hide", "left_arm")
    assert "whole, or a frame from 1 to 7" in failed(capsys, "evaluate", "--bundle", bundle, "--lose", "9")
    assert "at least 3 of 7" in failed(capsys, "evaluate", "--bundle", bundle, "--hidden", "5")
    for option in ("--noise", "--faster"):
        assert f"{option} is of runs with losses" in failed(capsys, "evaluate", "--bundle", bundle, option, "0.1")
    for file, reason in ((tmp_path / "no" / "file.json", "does not exist"), (tmp_path, "is a folder, expected a file")):
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", "--bundle", str(bundle), "--json", str(file)])
        assert stop.value.code == 2 and reason in capsys.readouterr().err
    for option, value, bounds in (
        ("--rate", "1e9", "0.1 to 200"),
        ("--rate", "0.01", "0.1 to 200"),
        ("--noise", "1e30", "0 to 1000"),
        ("--faster", "1e6", "0.01 to 100"),
    ):
        line = f"siha: {option} {float(value):g}: expected {bounds}\n"
        assert failed(capsys, "evaluate", "--bundle", bundle, "--losses", "1", option, value) == line
    assert "no such folder" in failed(capsys, "train", "body", "--data", tmp_path / "no")


def test_bundle_info_tells_errors_by_time_and_by_noise(capsys):
    assert main(["bundle", "info", "springs_team"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split()}
    assert "15 s: " in rows["siha"] and "20 mm: 0.99, 3.7 times" in rows["noise"]
    assert "12 s: 1.2, 1.1 times" in rows["noise_age_2"]


def test_bundle_info_tells_what_it_holds(capsys, bundle):
    assert main(["bundle", "info", bundle]) == 0
    text = capsys.readouterr().out
    for expected in (
        "small_team: tests",
        "7, alike",
        "any, up to 2",
        "beyond them agents go on at constant velocity",
        "hsp_sg_2",
        "accuracy 50",
        "siha",
        "0.1 s: 1.0, 3.0",
    ):
        assert expected in text


def test_a_damaged_bundle_is_one_line(capsys, tmp_path):
    folder = save_small_team(tmp_path / "damaged")
    (folder / "nri.safetensors").write_bytes(b"nothing")
    assert "nri.safetensors" in failed(capsys, "bundle", "info", folder)


@pytest.fixture
def few_windows(monkeypatch):
    """A ridge regression that is fitted in a moment."""
    monkeypatch.setattr("offline_training.experiments.team_ridge.TRAINING", 40)
    monkeypatch.setattr("offline_training.experiments.team_ridge.VALIDATION", 10)


@pytest.mark.usefixtures("few_windows")
def test_evaluate_writes_the_report(capsys, bundle, tmp_path):
    file = tmp_path / "report.json"
    arguments = ["evaluate", "--bundle", bundle, "--samples", "4", "--seed", "5", "--json", str(file)]
    assert main(arguments) == 0
    report = json.loads(file.read_text())
    assert report["schema"] == 1 and report["samples"] == 4 and report["seed"] == 3005
    assert report["hidden"] == ["robot_6", "robot_7"]
    assert {"hsp_sa", "siha", "siha_paper", "nri_visible", "nri_complete", "hold", "ridge"} <= set(report["methods"])
    text = capsys.readouterr().out
    assert "matched to the truth once per window" in text and "constant_velocity" in text


@pytest.mark.usefixtures("few_windows")
def test_evaluate_losses_writes_the_report(capsys, bundle, tmp_path):
    file = tmp_path / "losses.json"
    options = ["--losses", "1", "--rate", "1", "--faster", "1.2", "--json", str(file)]
    assert main(["evaluate", "--bundle", bundle, *options]) == 0
    report = json.loads(file.read_text())
    assert report["data"].endswith("1.2 times as fast as in training")
    assert report["losses"] == 1 and report["lost_agents"] == 2 and report["nonfinite"] == 0
    assert set(report["methods"]) == {"siha", "hold", "constant_velocity", "mean_visible", "ridge", "dynamics_roll"}
    assert set(report["methods"]["siha"]) == {"0-0.5", "0.5-1", "1-2", "2-5", "over 5", "all"}
    assert "siha / best baseline" in capsys.readouterr().out


def test_the_node_tells_how_it_is_started_and_does_not_start(capsys):
    assert main(["node", "--help"]) == 0
    assert "--ros-args -p bundle:=" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FloatingPointError("nri: nll is nan"), "siha: nri: nll is nan\n"),
        (MemoryError("Unable to allocate 33.3 GiB"), "siha: not enough memory: Unable to allocate 33.3 GiB\n"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory:\n you tried to"),
            "siha: not enough memory: DefaultCPUAllocator: can't allocate memory: you tried to\n",
        ),
    ],
)
def test_what_a_machine_or_a_training_cannot_do_is_one_line(monkeypatch, capsys, error, line):
    def fails(path):
        raise error

    monkeypatch.setattr("siha_ros.bundle_info.load_bundle", fails)
    assert main(["bundle", "info", "springs_team"]) == 2
    assert capsys.readouterr().err == line


def test_a_command_of_ros_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "siha_ros.node.main", None)
    assert "source a ROS 2" in failed(capsys, "node")
