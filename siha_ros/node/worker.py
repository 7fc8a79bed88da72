"""One thread that does the work, so that the executor never waits for the model.

Waking is cheap and does not queue: however often the worker is woken while busy, it runs once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """Runs `step` in its own thread once for every wake, several wakes while busy counting as one.

    An exception in `step` goes to `on_error`, and the worker lives on.
    """

    def __init__(self, step: Callable[[], None], on_error: Callable[[Exception], None]) -> None:
        self._step, self._on_error = step, on_error
        self._wake, self._stopping = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="siha worker", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Ask for one more step, without waiting."""
        self._wake.set()

    def stop(self, timeout: float) -> bool:
        """Let the step at work end and stop; false where it has not ended after `timeout` seconds."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopping:
                return
            try:
                self._step()
            except Exception as error:  # whatever a model or a message brings, the node stays up and says so
                self._on_error(error)
