"""All groups of a stream: each team or body has a window and a pipeline of its own; they come and go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from siha_ros.node.intake import Feed, Intake
from siha_ros.node.pipeline import Pipeline, Sink


class Groups:
    """Steps the pipelines of all groups in turn.

    Args:
        intake: the inbox, which knows the groups.
        estimator: of the bundle; one serves all groups.
        open_sink: where the estimates of a new group go.
        forget_after: a group that is silent for so long (s) while another is heard is forgotten.
        log: takes lines worth a warning.
        on_error: is told of an estimate that failed; the group goes on without what came before, the others as they
            are.
        on_forgotten: is told of a group that is gone.
        options: of each Pipeline.

    Attributes:
        pipelines: by group.
    """

    def __init__(
        self,
        intake: Intake,
        estimator: Any,
        open_sink: Callable[[Feed], Sink],
        forget_after: float,
        log: Callable[[str], object],
        on_error: Callable[[Exception], object],
        on_forgotten: Callable[[Feed], object] = lambda feed: None,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.intake, self._estimator, self._open_sink = intake, estimator, open_sink
        self._forget_after, self._log, self._on_error, self._clock = forget_after, log, on_error, clock
        self._on_forgotten, self._options = on_forgotten, options
        self.pipelines: dict[str, Pipeline] = {}
        self._estimates_forgotten = 0

    def step(self) -> None:
        """Take in what has arrived, and estimate and publish where that brings newer windows."""
        self.intake.drain()
        self._forget_silent()
        for feed in self.intake.feeds.values():
            try:
                if feed.name not in self.pipelines:
                    self.pipelines[feed.name] = self._open(feed)
                self.pipelines[feed.name].step()
            except Exception as error:  # whatever a model or a message brings, the other groups go on
                if feed.name in self.pipelines:
                    self.pipelines[feed.name].forget_estimate()
                self._on_error(error)

    @property
    def stale(self) -> bool:
        """Whether the streams of all groups have stopped; false before there is one."""
        return bool(self.pipelines) and all(pipeline.stale for pipeline in self.pipelines.values())

    @property
    def estimates(self) -> int:
        """Number of estimates published, also of groups that are forgotten."""
        return self._estimates_forgotten + sum(pipeline.estimates for pipeline in self.pipelines.values())

    def _open(self, feed: Feed) -> Pipeline:
        def log(line: str) -> None:
            self._log(f"group {feed.name:.60}: {line}" if feed.named else line)

        sink = self._open_sink(feed)
        return Pipeline(feed, self._estimator, sink, log, clock=self._clock, **self._options)

    def _forget_silent(self) -> None:
        feeds, now = self.intake.feeds, self._clock()
        silent = [name for name, feed in feeds.items() if now - feed.heard > self._forget_after]
        for name in silent if len(silent) < len(feeds) else []:
            feed = feeds.pop(name)
            pipeline = self.pipelines.pop(name, None)
            if pipeline is not None:
                self._estimates_forgotten += pipeline.estimates
                self._on_forgotten(feed)
            self._log(f"group {name:.60} is forgotten: silent for {self._forget_after:g} s")
