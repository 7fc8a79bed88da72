"""One group at work: window, estimator, outputs. Runs in the node's worker and in replays; needs no ROS."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from siha_ros.node.intake import Feed
from siha_ros.node.messages import NewMessage, Scene, ros_message
from siha_ros.window.types import Estimate, Window

LATENCIES = 400  # newest estimates over which rate and latency are given


class Sink(Protocol):
    """Where estimates go: the node's publishers, a bag, a score."""

    def publish(self, scene: Scene) -> None:
        """Take an estimate."""
        ...

    def clear_markers(self) -> None:
        """The stream starts anew; what was drawn of it is no longer true."""
        ...


class Pipeline:
    """Estimates from the newest window, at most one per `step`.

    Args:
        feed, estimator, outputs: what an observation passes, in this order.
        log: takes lines worth a warning.
        clock: the steady time (s) by which messages arrive.
        new: makes the messages of a scene.

    Attributes:
        feed: the group's part of the stream.
        window: its window.
        scene: what was published last, None before the first estimate.
        estimates: number of estimates published.
        stale: true while the stream has stopped as a whole.
    """

    def __init__(
        self,
        feed: Feed,
        estimator: Any,
        outputs: Sink,
        log: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        new: NewMessage = ros_message,
    ) -> None:
        self.feed, self.window, self._estimator, self._outputs = feed, feed.window, estimator, outputs
        self._config, self._log, self._clock, self._new = estimator.bundle.config, log, clock, new
        self._previous: Estimate | None = None
        self._resets, self._estimated_to = feed.window.resets, -math.inf
        self._latencies: deque[float] = deque(maxlen=LATENCIES)
        self._published: deque[float] = deque(maxlen=LATENCIES)
        self.scene: Scene | None = None
        self.estimates = 0
        self.stale = False

    def step(self) -> None:
        """Where the window is newer than before, estimate and publish."""
        if self.window.resets != self._resets:
            self._restart()
        for note in self.window.take_notes():
            self._log(note)
        now = self._clock()
        if self.window.stale(now) != self.stale:
            self.stale = not self.stale
            self._log("the stream has stopped: states are stale" if self.stale else "the stream is back")
            if self.stale:
                self._publish_stale(now)
        if self.stale or not self.window.newest > self._estimated_to:
            return
        window = self.window.window(now)
        if window is not None:
            self._estimated_to = self.window.newest
            self._estimate(window)

    def forget_estimate(self) -> None:
        """Do not continue from the estimate before, which may be what an exception came from."""
        self._previous = None

    @property
    def latencies(self) -> list[float]:
        """Time (s) from an observation's arrival to its estimate's publishing, of the newest estimates."""
        return list(self._latencies)

    def rate(self) -> float:
        """Estimates published in the last two seconds, per second."""
        since = self._clock() - 2.0
        return sum(moment > since for moment in list(self._published)) / 2.0

    def _estimate(self, window: Window) -> None:
        estimate = self._estimator.estimate(window, self._previous)
        self._publish(self._scene(window, estimate))
        self._previous = estimate
        self.estimates += 1
        now = self._clock()
        self._latencies.append(now - self.feed.newest_arrival)
        self._published.append(now)

    def _publish_stale(self, now: float) -> None:
        """Say once that every state is the last one."""
        window = self.window.window(now)
        if self.scene is not None and window is not None and window.names == self.scene.window.names:
            self._publish(replace(self.scene, window=window))

    def _scene(self, window: Window, estimate: Estimate) -> Scene:
        feed, count = self.feed, len(window.names)
        return Scene(
            window=window,
            estimate=estimate,
            group=feed.name,
            frame_id=feed.frame_id,
            bundle=self._config.name,
            edge_types=tuple(self._config.edge_types),
            heights=self.window.heights[:count],
            orientations=self.window.orientations[:count],
            oriented=self.window.oriented[:count],
            latency=self._clock() - feed.newest_arrival,
            new=self._new,
        )

    def _publish(self, scene: Scene) -> None:
        self._outputs.publish(scene)
        self.scene = scene

    def _restart(self) -> None:
        self._resets, self._estimated_to = self.window.resets, -math.inf
        self._previous = self.scene = None
        self._outputs.clear_markers()
