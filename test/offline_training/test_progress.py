"""What a stage shows while it trains: lines, a bar on a terminal, a log, TensorBoard."""

from __future__ import annotations

import io
import json
import sys

import pytest

from offline_training.stages import progress
from offline_training.stages.progress import Progress, Stopwatch

ROW = {"stage": "nri", "step": 4, "samples": 32, "seconds": 2.0, "train_loss": 7.5, "mse": 0.25, "step_seconds": 0.1}


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Board:
    """Stands in for TensorBoard's SummaryWriter."""

    made: list[Board] = []

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.scalars = folder, purge_step, []
        self.made.append(self)

    def add_scalar(self, key, value, step):
        self.scalars.append((key, value, step))

    def flush(self):
        pass

    def close(self):
        self.scalars.append("closed")


@pytest.fixture
def board(monkeypatch):
    monkeypatch.setattr(progress, "writer_type", lambda: Board)
    Board.made.clear()


def test_rows_become_a_line_a_log_and_curves(tmp_path, capsys, board):
    with Progress("nri", tmp_path, done=3, steps=16, batch=8, shown=True) as shown:
        shown.step()
        shown.row(ROW, {"mse": 0.25})
    out, error = capsys.readouterr()
    assert out == "nri 4/16  mse 0.25  16 samples/s  0.1 min of this stage left\n"
    assert error == ""  # no bar: not a terminal
    assert json.loads((tmp_path / "nri.jsonl").read_text()) == ROW
    (made,) = Board.made
    assert made.folder == str(tmp_path / "tensorboard" / "nri") and made.purge_step == 4
    expected = [("seconds", 2.0, 4), ("train_loss", 7.5, 4), ("mse", 0.25, 4), ("step_seconds", 0.1, 4), "closed"]
    assert made.scalars == expected


def test_long_silence_is_broken_where_no_bar_is_seen(tmp_path, capsys, board, monkeypatch):
    monkeypatch.setattr(progress, "SILENCE", -1.0)
    with Progress("nri", tmp_path, done=3, steps=5, batch=8, shown=True) as shown:
        shown.step()
        shown.step()
        shown.row(ROW | {"step": 5}, {"mse": 0.25})
    assert capsys.readouterr().out == "nri 4/5\nnri 5/5\nnri 5/5  mse 0.25  16 samples/s\n"


def test_a_terminal_has_a_bar_with_samples_and_time_left(tmp_path, monkeypatch, board):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("nri", tmp_path, done=0, steps=4, batch=500, shown=True) as shown:
        for _ in range(3):
            shown.step()
        shown.bar.refresh()
    last = [part for part in terminal.getvalue().split("\r") if part.startswith("nri")][-1]
    assert "75%" in last and "1.50k/2.00k" in last and "samples/s" in last and "<" in last  # elapsed < left


def test_other_processes_show_and_write_nothing(tmp_path, capsys, board):
    with Progress("nri", tmp_path, done=0, steps=16, batch=8, shown=False) as shown:
        shown.step()
        shown.row(ROW, {"mse": 0.25})
    assert capsys.readouterr() == ("", "") and list(tmp_path.iterdir()) == [] and not Board.made


def test_without_tensorboard_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    progress.writer_type.cache_clear()
    assert progress.writer_type() is None and progress.writer_type() is None
    progress.writer_type.cache_clear()
    assert capsys.readouterr().out.count("TensorBoard is not installed (pip install tensorboard)") == 1


def test_curves_can_be_read_by_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Progress("nri", tmp_path, done=0, steps=16, batch=8, shown=True) as shown:
        shown.row(ROW, {"mse": 0.25})
        shown.row(ROW | {"step": 8, "mse": 0.125}, {"mse": 0.125})
    events = EventAccumulator(str(tmp_path / "tensorboard" / "nri")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("mse")] == [(4, 0.25), (8, 0.125)]


def test_durations_by_hand(monkeypatch):
    clock = iter([0.0, 5.0, 5.0, 6.0, 6.0, 8.0, 8.0, 8.5, 9.0, 9.25])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    watch = Stopwatch()
    for part in ("step", "step", "validation", "step"):
        with watch(part):
            pass
    assert watch.read() == {
        "step_seconds": 0.75,
        "validation_seconds": 2.0,
    }  # the first step, which warms up, is left out
    with watch("step"):
        pass
    assert watch.read() == {"step_seconds": 0.25}
