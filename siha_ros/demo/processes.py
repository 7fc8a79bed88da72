"""Processes of a demo: started with this Python, ended together, never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # Linux: a signal for the child when its parent dies


class Processes:
    """Children by name, each with a log file in a folder."""

    def __init__(self, log_folder: Path) -> None:
        self._folder = log_folder
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, arguments: Sequence[str]) -> None:
        """Run `python -m module arguments` in a process group of its own, so that Ctrl-C reaches it through this
        process alone."""
        with open(self.log(name), "wb") as log:
            self._children[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    def log(self, name: str) -> Path:
        """The log file of a child."""
        return self._folder / f"{name}.log"

    def last_lines(self, name: str, count: int = 15) -> str:
        """The end of a child's log."""
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-count:])

    def pid(self, name: str) -> int:
        """The process number of a child."""
        return self._children[name].pid

    def exit_code(self, name: str) -> int | None:
        """None while the child runs."""
        return self._children[name].poll()

    def stop(self, patience: float = 3.0) -> dict[str, int]:
        """End all: SIGINT, then SIGTERM, then SIGKILL. Returns their exit codes."""
        for number, wait in ((signal.SIGINT, patience), (signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
            running = [child for child in self._children.values() if child.poll() is None]
            for child in running:
                child.send_signal(number)
            deadline = time.monotonic() + wait
            for child in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, deadline - time.monotonic()))
        return {name: child.wait() for name, child in self._children.items()}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:
        os._exit(1)
