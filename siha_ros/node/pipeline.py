"""One activation at work: inbox, window, estimator, outputs. Runs in the worker; knows rclpy only through `Outputs`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from siha_ros.node.intake import Intake
from siha_ros.node.outputs import Outputs, Scene
from siha_ros.window.sliding_window import SlidingWindow
from siha_ros.window.types import Estimate, Window, WindowEstimator

LATENCIES = 400  # newest estimates over which rate and latency are given


class Pipeline:
    """Estimates from the newest window, one per `step`.

    Attributes:
        scene: what was published last, None before the first estimate.
        estimates: number of estimates published.
        stale: true while the stream has stopped as a whole.
    """

    def __init__(
        self, intake: Intake, window: SlidingWindow, estimator: WindowEstimator, outputs: Outputs, *, bundle: str,
        edge_types: tuple[str, ...], stale_after: float, log: Callable[[str], None],
    ) -> None:
        self.intake, self._window, self._estimator, self._outputs = intake, window, estimator, outputs
        self._bundle, self._edge_types, self._stale_after, self._log = bundle, edge_types, stale_after, log
        self._previous: Estimate | None = None
        self._resets = window.resets
        self._latencies: deque[float] = deque(maxlen=LATENCIES)
        self._published: deque[float] = deque(maxlen=LATENCIES)
        self._last_arrival = time.monotonic()
        self._received = 0
        self.scene: Scene | None = None
        self.estimates = 0
        self.stale = False

    def step(self) -> None:
        """Take in what has arrived and, where that brings a newer window, estimate and publish."""
        received = self.intake.received
        self.intake.drain()
        if self._window.resets != self._resets:
            self._restart()
        if received == self._received:
            return self._judge_silence()
        self._received, self._last_arrival = received, time.monotonic()
        if self.stale:
            self.stale = False
            self._log("the stream is back")
        window = self._window.window()
        if window is None or (self.scene is not None and window.times[-1] <= self.scene.window.times[-1]):
            return None
        self._estimate(window)

    def restart_after_error(self) -> None:
        """Forget the estimate before, which may be what an exception came from."""
        self._previous = None

    def latency_ms(self) -> tuple[float, float] | None:
        """p50 and p99 of the time from an observation's arrival to the end of publishing (ms), None before the first."""
        latencies = list(self._latencies)
        return (1e3 * float(np.percentile(latencies, 50)), 1e3 * float(np.percentile(latencies, 99))) if latencies else None

    def rate(self) -> float:
        """Estimates published in the last two seconds, per second."""
        since = time.monotonic() - 2.0
        return sum(moment > since for moment in list(self._published)) / 2.0

    def _estimate(self, window: Window) -> None:
        estimate = self._estimator.estimate(window, self._previous)
        scene = Scene(
            window, estimate, self.intake.group, self.intake.frame_id, self._bundle, self._edge_types, dict(self.intake.poses),
            time.monotonic() - self.intake.newest_arrival,
        )
        self._outputs.publish(scene)
        self._previous, self.scene = estimate, scene
        self.estimates += 1
        now = time.monotonic()
        self._latencies.append(now - self.intake.newest_arrival)
        self._published.append(now)

    def _judge_silence(self) -> None:
        """Say once, when the stream as a whole has stopped, that every state is the last one."""
        if self.stale or self._received == 0 or time.monotonic() - self._last_arrival < self._stale_after:
            return
        self.stale = True
        self._log(f"nothing has arrived for {self._stale_after:g} s: states are stale")
        if self.scene is not None:
            self.scene = replace(self.scene, stale=True)
            self._outputs.publish(self.scene)

    def _restart(self) -> None:
        self._resets = self._window.resets
        self._log(f"window started anew: {self._window.reset_reason}")
        self._previous = self.scene = None
        self._outputs.clear_markers()
