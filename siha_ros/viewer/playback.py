"""Which time is shown: the newest of a run, or one of the past that stands still or plays on. No clock, no browser."""

from __future__ import annotations

import threading


class Playback:
    """A cursor on the axis of stamps (s). Every method may be called from any thread.

    A run that still goes on is followed at its newest time; what plays on from its past catches up with it again. A
    recording plays from its beginning and stops at its end.

    Attributes:
        speed: times real time.
        growing: more will come: a run, or a recording that is still being read.
    """

    def __init__(self, live: bool) -> None:
        self._live = live
        self._following, self._playing = live, True
        self._begin = self._end = 0.0
        self._at: float | None = None
        self._lock = threading.Lock()
        self.speed = 1.0
        self.growing = True

    @property
    def following(self) -> bool:
        """The newest time is shown, whatever it is."""
        return self._following

    @property
    def playing(self) -> bool:
        """The time shown moves on."""
        return self._playing

    @property
    def at(self) -> float | None:
        """The stamp shown (s), None before the first `advance`."""
        return self._at

    def advance(self, begin: float, end: float, elapsed: float) -> None:
        """Move on by a time that has passed for the one who looks (s), within what is remembered from `begin` to `end`
        (s)."""
        with self._lock:
            self._begin, self._end = begin, end
            at = begin if self._at is None else self._at
            if self._following:
                at = end
            elif self._playing:
                at += self.speed * elapsed
            self._at = min(max(at, begin), end)
            if self._playing and self._at >= end:
                self._following = self._live
                self._playing = self._live or self.growing

    def toggle(self) -> None:
        """Pause, or play on; a recording that stands at its end plays from its beginning."""
        with self._lock:
            if self._playing:
                self._playing = self._following = False
                return
            self._playing = True
            if not self._live and self._at is not None and self._at >= self._end:
                self._at = self._begin

    def seek(self, at: float) -> None:
        """Stand still at a time (s)."""
        with self._lock:
            self._playing = self._following = False
            self._at = min(max(at, self._begin), self._end)

    def to_the_end(self) -> None:
        """The newest time: of a run it is followed from now on."""
        if not self._live:
            self.seek(self._end)
            return
        with self._lock:
            self._playing = self._following = True
            self._at = self._end
