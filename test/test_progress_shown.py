"""How far long work is: a line a minute where no terminal shows a bar."""

from __future__ import annotations

import io
import sys

import pytest

from siha_ros import progress
from siha_ros.progress import shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("items", "total", "of"), [([5, 6, 7], None, " of 3"), (iter([5, 6, 7]), None, "")])
def test_a_line_a_minute(items, total, of, monkeypatch, capsys):
    clock = iter([0.0, 59.0, 61.0, 61.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert list(shown(items, "losses", total)) == [5, 6, 7]
    assert capsys.readouterr() == ("", f"losses: 2{of}\n")


def test_a_terminal_shows_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(shown([5, 6], "losses")) == [5, 6]
    assert "losses" in sys.stderr.getvalue()


def test_nothing_is_shown_unless_it_is_wanted(monkeypatch):
    monkeypatch.setattr(progress, "SILENCE", -1.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(shown([5, 6], "losses", progress=False)) == [5, 6]
    assert sys.stderr.getvalue() == ""
