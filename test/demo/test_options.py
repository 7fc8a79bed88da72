"""Flags, environment variables and the choice of trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from siha_ros.demo.options import parse_options


def test_defaults_are_those_of_the_readme():
    options = parse_options([], {})
    assert (options.duration, options.losses, options.headless, options.report) == (30.0, 1, False, None)
    assert (options.body, options.bundle, options.limb) == (None, "springs_team", "left_arm")


def test_environment_and_flags_say_the_same(tmp_path):
    environment = {
        "DURATION": "12.5",
        "SEED": "4",
        "LOSSES": "3",
        "HEADLESS": "1",
        "REPORT": "r.json",
        "BODY": str(tmp_path),
        "LIMB": "right_leg",
        "TRIAL": "35_05,11",
        "FORCE": "1",
        "BUNDLE": "b",
        "PORT": "8123",
    }
    flags = ["--headless", "--force"]
    for name, value in environment.items():
        flags += [] if name in ("HEADLESS", "FORCE") else [f"--{name.lower()}", value]
    options = parse_options(flags, {})
    assert options == parse_options([], environment)
    assert options.duration == 12.5 and options.seed == 4 and options.losses == 3 and options.headless and options.force
    assert options.trials == ("35_05", "11") and options.report == Path("r.json") and options.body == tmp_path
    assert parse_options(["--duration", "9"], environment).duration == 9
    assert not parse_options([], environment | {"HEADLESS": "0"}).headless
    assert parse_options([], {"BODY": str(tmp_path)}).bundle == "body"


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"DURATION": "long"}, "DURATION is 'long': expected a number from 1"),
        ({"LOSSES": "2.5"}, "LOSSES is '2.5': expected a whole number from 1"),
        ({"DURATION": "nan"}, "DURATION is 'nan'"),
        ({"LIMB": "tail"}, "LIMB is 'tail': expected left_arm"),
        ({"BODY": "/no/such/folder"}, "BODY is '/no/such/folder': expected a folder"),
    ],
)
def test_what_cannot_be_is_one_line(environment, line, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_options([], environment)
    assert ended.value.code == 2
    assert line in capsys.readouterr().err.splitlines()[-1]
