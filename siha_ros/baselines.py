"""Plain estimators behind the estimator's interface: hold, constant velocity, mean of the visible. Numpy only.

Each completes a window, and forecasts at constant velocity. They know nothing of who influences whom (adjacency 1 / K),
and their deviation grows with the time to the nearest frame in which the agent was seen.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.completion import complete, isotropic, position_95
from siha_ros.window.types import Estimate, Forecast, Window

UNSEEN_SPREAD = 2.0
"""Standard deviation (m) per axis of an agent that was never seen, beside the spread of the team."""


class _Baseline:
    """What the three have in common: the filling before, between and after the frames in which an agent was seen.

    An agent's offset from a reference trajectory (zero, or the mean of the visible) is interpolated between frames in
    which it was seen and held before the first. After the last one each baseline goes its own way.

    Args:
        horizon: number of forecast steps H, of the window's dt each.
        seen_deviation: standard deviation (m) per axis of what is seen.
        growth: how fast the standard deviation per axis grows while an agent is not seen (see the subclass).
    """

    name = ""

    def __init__(self, horizon: int = 50, seen_deviation: float = 0.005, growth: float = 0.5) -> None:
        if horizon < 1:
            raise ValueError(f"horizon is {horizon}, expected at least 1 step")
        self.horizon, self.seen_deviation, self.growth = horizon, seen_deviation, growth

    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """Complete the window; `previous` carries what was known when an agent was last seen."""
        begin = perf_counter()
        reference = self._reference(window)
        filled, internal = self._fill(window, reference, previous)
        age = time_to_seen(window)
        deviation = self._deviation(age)
        never = ~window.observed.any(axis=1) & np.isnan(window.last_seen)
        deviation[never] = UNSEEN_SPREAD
        forecast = constant_velocity_forecast(window, filled, self.horizon, deviation[:, -1], self.growth)
        estimate = complete(
            window, filled, deviation, forecast, seen_deviation=self.seen_deviation, reason=self._reasons(window)
        )
        estimate.internal = internal
        estimate.ms = (perf_counter() - begin) * 1e3
        return estimate

    def _reference(self, window: Window) -> NDArray[np.float64]:
        """f8[T, P] trajectory (m) that unseen agents are placed relative to."""
        return np.zeros(window.positions.shape[1:])

    def _after(
        self, offset: NDArray[np.float64], velocity: NDArray[np.float64], elapsed: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """f8[n, P] offset from the reference, elapsed f8[n, 1] seconds after the last sample, from those f8[P] then."""
        raise NotImplementedError

    def _deviation(self, age: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation (m) per axis at `age` seconds from the nearest frame in which the agent was seen."""
        return self.seen_deviation + self.growth * age

    def _fill(
        self, window: Window, reference: NDArray[np.float64], previous: Estimate | None
    ) -> tuple[NDArray[np.float64], object]:
        offsets = np.where(window.observed[..., None], window.positions - reference, 0.0)
        filled = np.where(window.observed[..., None], window.positions, 0.0)
        kept = previous.internal if previous is not None and isinstance(previous.internal, dict) else {}
        internal: dict[str, tuple[float, NDArray[np.float64]]] = {}
        team = mean_of_seen(window)
        for agent in np.flatnonzero(~window.observed.all(axis=1)):
            seen = np.flatnonzero(window.observed[agent])
            times, last = window.times, window.last_seen[agent]
            if not len(seen) and np.isnan(last):
                filled[agent] = team
                continue
            start = 0
            if len(seen):
                start = seen[-1] + 1
                inside = [np.interp(times[:start], times[seen], axis) for axis in offsets[agent, seen].T]
                filled[agent, :start] = reference[:start] + np.stack(inside, axis=-1)
            if start == len(times):
                continue
            position = window.last_position[agent]
            if np.isnan(last):
                last, position = times[seen[-1]], window.positions[agent, seen[-1]]
            known = kept.get(window.names[agent])
            at = np.array([np.interp(last, times, axis) for axis in reference.T])
            offset = known[1] if known and known[0] == last else position - at
            internal[window.names[agent]] = (float(last), offset)
            velocity = window.last_velocity[agent]
            elapsed = np.maximum(times[start:] - last, 0.0)[:, None]
            filled[agent, start:] = reference[start:] + self._after(offset, np.nan_to_num(velocity), elapsed)
        return filled, internal

    def _reasons(self, window: Window) -> list[str]:
        unseen = ~window.observed[:, -1]
        return [f"{self.name}: {why}" if hide else "" for hide, why in zip(unseen, window.reason, strict=True)]


class Hold(_Baseline):
    """An unseen agent stays where it was last seen. Deviation: growth is a speed (m/s)."""

    name = "hold"

    def _after(self, offset: NDArray, velocity: NDArray, elapsed: NDArray) -> NDArray[np.float64]:
        return np.repeat(offset[None], len(elapsed), axis=0)


class ConstantVelocity(_Baseline):
    """An unseen agent goes on as it was last seen to move. Deviation: growth is an acceleration (m/s^2)."""

    name = "constant_velocity"

    def _after(self, offset: NDArray, velocity: NDArray, elapsed: NDArray) -> NDArray[np.float64]:
        return offset + velocity * elapsed

    def _deviation(self, age: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.seen_deviation + 0.5 * self.growth * age**2


class MeanVisible(_Baseline):
    """An unseen agent's last offset from the mean of the visible decays to zero. Deviation as Hold's, levelling off.

    Args:
        time_constant: time (s) in which the offset falls to 1/e; 2 s serves the springs team best over 20 s.
        horizon, seen_deviation, growth: as those of the other baselines.
    """

    name = "mean_visible"

    def __init__(
        self, horizon: int = 50, seen_deviation: float = 0.005, growth: float = 0.5, time_constant: float = 2.0
    ) -> None:
        super().__init__(horizon, seen_deviation, growth)
        if not time_constant > 0:
            raise ValueError(f"time_constant is {time_constant}, expected seconds above 0")
        self.time_constant = time_constant

    def _reference(self, window: Window) -> NDArray[np.float64]:
        return mean_of_seen(window)

    def _after(self, offset: NDArray, velocity: NDArray, elapsed: NDArray) -> NDArray[np.float64]:
        return offset * np.exp(-elapsed / self.time_constant)

    def _deviation(self, age: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.seen_deviation - self.growth * self.time_constant * np.expm1(-age / self.time_constant)


def mean_of_seen(window: Window) -> NDArray[np.float64]:
    """f8[T, P] mean position (m) of the agents seen in the newest frame, each held where it has no sample.

    The same agents count in every frame, so that nothing jumps where one was seen in part only. Where nobody is seen in
    the newest frame it is the mean of the last positions, and zero where nobody was ever seen.
    """
    seen = window.observed[:, -1]
    if not seen.any():
        known = np.isfinite(window.last_position).all(axis=1)
        middle = window.last_position[known].mean(axis=0) if known.any() else np.zeros(window.positions.shape[2])
        return np.repeat(middle[None], window.positions.shape[1], axis=0)
    observed, positions = window.observed[seen], window.positions[seen]
    if observed.all():
        return positions.mean(axis=0)
    frames = np.arange(observed.shape[1])
    previous = np.maximum.accumulate(np.where(observed, frames, -1), axis=1)
    source = np.where(previous >= 0, previous, observed.argmax(axis=1)[:, None])
    return np.take_along_axis(positions, source[..., None], axis=1).mean(axis=0)


def time_to_seen(window: Window) -> NDArray[np.float64]:
    """f8[A, T] time (s) from each grid time to the nearest sample of the agent; window length if it was never seen."""
    times, observed = window.times, window.observed
    length = times[-1] - times[0]
    frames = np.arange(len(times))
    before = np.maximum.accumulate(np.where(observed, frames, -1), axis=1)
    after = np.minimum.accumulate(np.where(observed, frames, len(times))[:, ::-1], axis=1)[:, ::-1]
    since = np.where(before >= 0, times - times[before], np.inf)
    until = np.where(after < len(times), times[np.minimum(after, len(times) - 1)] - times, np.inf)
    age = np.minimum(since, until)
    last = times - window.last_seen[:, None]
    age = np.where(np.isfinite(last), np.minimum(age, np.abs(last)), age)
    return np.where(np.isfinite(age), age, length)


def constant_velocity_forecast(
    window: Window, filled: NDArray[np.float64], horizon: int, deviation: NDArray[np.float64], acceleration: float
) -> Forecast:
    """Every agent goes on from the newest frame at its velocity.

    The velocity is that of its last samples if it is seen in that frame, else the last difference of `filled`.

    Args:
        window: the window.
        filled: f8[A, T, P] completed positions (m).
        horizon: number of steps H of the window's dt.
        deviation: f8[A] standard deviation (m) per axis at the newest frame.
        acceleration: unknown acceleration (m/s^2) by which the deviation grows.
    """
    step = window.dt
    elapsed = step * np.arange(1, horizon + 1)
    seen = window.observed[:, -1:] & np.isfinite(window.last_velocity)
    velocity = np.where(seen, window.last_velocity, (filled[:, -1] - filled[:, -2]) / step)
    positions = filled[:, -1, None] + velocity[:, None] * elapsed[None, :, None]
    spread = deviation[:, None] + 0.5 * acceleration * elapsed**2
    covariance = isotropic(spread, positions.shape[-1])
    return Forecast(
        times=window.times[-1] + elapsed,
        positions=positions,
        velocities=np.repeat(velocity[:, None], horizon, axis=1),
        covariance=covariance,
        position_95=position_95(covariance),
    )
