"""``siha data``: what it writes, and one line for what it cannot do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from siha_ros.cli import main


def test_a_simulated_set(tmp_path, capsys):
    to = tmp_path / "set"
    assert (
        main(["data", "simulate", "kuramoto", "--count", "40", "--frames", "6", "--agents", "3", "--to", str(to)]) == 0
    )
    took = r"\d+\.\d s, \d+\.\d s of processor time, compiling included"
    assert re.fullmatch(f"{to}: 40 trajectories of 3 agents over 6 frames; {took}\n", capsys.readouterr().out)
    assert np.load(to / "states.npy", mmap_mode="r").shape == (40, 3, 6, 3)
    assert main(["data", "simulate", "springs", "--count", "1", "--to", str(to)]) == 2
    assert capsys.readouterr().err == (
        f"siha: {to} exists and does not hold this set: remove it or name another folder\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--subject", "300"], "siha: subject 300: expected 1 to 144\n"),
        (["--subject", "35", "--site", "http://127.0.0.1:9"], "35.asf: [Errno 111] Connection refused"),
    ],
)
def test_a_subject_that_cannot_be_had(tmp_path, capsys, arguments, message):
    assert main(["data", "cmu", "--to", str(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
