"""The loop that draws outlives a picture that cannot be drawn."""

from __future__ import annotations

import threading

from siha_ros.viewer import main


class Browser:
    """Cannot draw some pictures, and stops the viewer with the last one."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.stop = list(errors), threading.Event()

    def update(self) -> None:
        error = self.errors.pop(0)
        if not self.errors:
            self.stop.set()
        if error is not None:
            raise error


def test_an_error_of_a_picture_is_said_once_and_the_next_ones_are_drawn(capsys):
    odd = [ValueError("shapes differ\nat length"), ValueError("shapes differ\nat length"), KeyError("team"), None]
    browser = Browser(*odd)
    main._draw(browser, 1e6, browser.stop)
    assert browser.errors == []
    assert capsys.readouterr().err.splitlines() == [
        "siha view: a picture could not be drawn (ValueError: shapes differ); going on",
        "siha view: a picture could not be drawn (KeyError: 'team'); going on",
    ]
