"""What the window gives an estimator and what an estimator gives back.

Shapes use A agents, T grid times, P = 2 or 3 dimensions, K edge types and H forecast times.
Units are metres and seconds; times are stamps of the stream in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Status(IntEnum):
    """How an agent is seen now; the numbers are those of the AgentState message."""

    UNKNOWN = 0
    VISIBLE = 1
    BRIDGED = 2
    HIDDEN = 3
    WARMING_UP = 4
    STALE = 5


@dataclass
class Window:
    """The last T grid times of a group of agents, with NaN wherever nothing was seen.

    Attributes:
        names: agent names, in the order of the first axis of every array.
        times: f8[T] grid times (s), equally spaced, newest last.
        positions: f8[A, T, P] (m), NaN where not observed.
        velocities: f8[A, T, P] (m/s) as measured by the source, NaN where not measured.
        observed: bool[A, T], true where there is a position: seen, interpolated over a short gap, or extrapolated in
            the newest frames of a bridged agent.
        confidence: f4[A, T] in 0..1, 0 where not observed, falling with time where extrapolated.
        status: int8[A], values of Status: UNKNOWN before anything is known of an agent, WARMING_UP while it is seen but
            not for long enough, VISIBLE, BRIDGED where its newest frames are extrapolated, HIDDEN, and STALE while the
            stream as a whole has stopped. VISIBLE and BRIDGED agents are observed at the newest grid time.
        reason: one line per agent saying why it has its status ("" for a visible agent).
        last_seen: f8[A] stamp of the last accepted sample (s), NaN when never seen.
        last_position: f8[A, P] (m) at last_seen, NaN when never seen.
        last_velocity: f8[A, P] (m/s) at last_seen, NaN when never seen.
    """

    names: list[str]
    times: NDArray[np.float64]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float64]
    observed: NDArray[np.bool_]
    confidence: NDArray[np.float32]
    status: NDArray[np.int8]
    reason: list[str]
    last_seen: NDArray[np.float64]
    last_position: NDArray[np.float64]
    last_velocity: NDArray[np.float64]

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """bool[A], true for the agents whose status is HIDDEN."""
        return self.status == Status.HIDDEN

    @property
    def dt(self) -> float:
        """Spacing of the grid (s)."""
        return float(self.times[-1] - self.times[0]) / (len(self.times) - 1)


@dataclass
class Forecast:
    """Motion after the window.

    Attributes:
        times: f8[H] (s), continuing the grid of the window.
        positions: f8[A, H, P] (m).
        velocities: f8[A, H, P] (m/s).
        covariance: f8[A, H, P, P] of the positions (m^2).
        position_95: f8[A, H] radius (m) that holds the true position with probability 0.95.
    """

    times: NDArray[np.float64]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float64]
    covariance: NDArray[np.float64]
    position_95: NDArray[np.float64]


@dataclass
class Estimate:
    """A complete, finite picture of every agent over the window and after it.

    Attributes:
        names: agent names, in the order of the first axis of every array.
        times: f8[T] grid times (s).
        positions: f8[A, T, P] (m); observed states are those of the window.
        velocities: f8[A, T, P] (m/s).
        covariance: f8[A, T, P, P] of the positions (m^2).
        position_95: f8[A, T] radius (m) that holds the true position with probability 0.95.
        observed: bool[A, T], true where the position comes from the stream.
        adjacency: f8[A, A, K] probability of each edge type of the influence of the first agent (sender, row)
            on the second (receiver, column); diagonal 0.
        forecast: motion after the window.
        rounds: refinement rounds used.
        change: largest move of a filled position in the last round (m).
        ms: time taken (ms).
        reason: one line per agent saying why the estimate is what it is, or "".
        internal: continuation state private to the estimator that made it.
        spread: f8[A, T] deviation (m) per axis that the estimator's own model predicts, before measured errors correct
            it; NaN where it predicts none, None where it never does.
    """

    names: list[str]
    times: NDArray[np.float64]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float64]
    covariance: NDArray[np.float64]
    position_95: NDArray[np.float64]
    observed: NDArray[np.bool_]
    adjacency: NDArray[np.float64]
    forecast: Forecast
    rounds: int
    change: float
    ms: float
    reason: list[str]
    internal: object | None = None
    spread: NDArray[np.float64] | None = None


class WindowEstimator(Protocol):
    """Anything that completes a window: the learned estimator and the baselines."""

    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """Return a finite estimate of every agent, continuing from `previous` where that helps."""
        ...
