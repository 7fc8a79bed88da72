"""Noise of measured positions: how much of it there is in a stream, and smoothing against it.

Beyond the paper. The velocities that all networks see are differences of positions, and accelerations differences of
those: a few millimetres of noise are more than all that agents do to each other. How roughly agents really move is
measured on validation data, as the mean square of the third differences of their positions (m^2). What a window shows
beyond that is noise, and its positions are smoothed with just that knowledge (Whittaker): the most probable path if
noise and third differences are independent and normal. Without noise nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

THIRD = 20.0  # 1 + 9 + 9 + 1: what a third difference makes of the variance of independent noise
ODD = 2.0  # times as rough as most agents, by which some of them are another matter
LIVELY = 0.999  # share of validation windows that are less rough than what is taken for motion


def roughness(positions: Array) -> Array:
    """Mean square of third differences (m^2), ``[...]`` of ``[..., A, T, P]``, NaN where not seen; 0 of nothing."""
    third = np.square(np.diff(positions, n=3, axis=-2))
    known = np.isfinite(third)
    result: Array = np.where(known, third, 0.0).sum((-3, -2, -1)) / known.sum((-3, -2, -1)).clip(1)
    return result


def usual_roughness(positions: Array) -> float:
    """That of motion, from validation windows ``[n, A, T, P]``: hardly any is rougher."""
    return float(np.quantile(roughness(positions), LIVELY))


@dataclass(frozen=True)
class Noise:
    """variance (m^2) of a measured position, and the usual roughness (m^2) that tells noise from motion."""

    variance: float
    usual: float

    @staticmethod
    def of(positions: Array, usual: float) -> Noise:
        """That of a window ``[A, T, P]`` (m), NaN where not seen. An agent or two that jump are no noise of all."""
        each = roughness(positions[np.isfinite(np.diff(positions, n=3, axis=1)).any((1, 2)), None])
        found = min(float(roughness(positions)), ODD * float(np.median(each))) if len(each) else 0.0
        return Noise(max(0.0, found - usual) / THIRD, usual)

    def spread(self, seen: NDArray[np.bool_]) -> Array:
        """Covariance ``[T, T]`` (m^2) of what is not known of a path after smoothing. seen ``[T]``: in which frames."""
        third = np.diff(np.eye(len(seen)), n=3, axis=0)
        return np.asarray(np.linalg.inv(np.diag(seen / self.variance) + third.T @ third / self.usual), np.float64)

    def smooth(self, positions: Array, observed: NDArray[np.bool_]) -> Array:
        """Positions ``[A, T, P]`` (m) of the frames ``observed [A, T]``, the others as they were. An agent that is seen
        in few frames is left as it is."""
        smoothed = positions.copy()
        masks, which = np.unique(observed, axis=0, return_inverse=True)
        for number, seen in enumerate(masks):
            if seen.sum() < 4:
                continue
            part = np.ix_(np.flatnonzero(which.ravel() == number), np.flatnonzero(seen))
            weight = self.spread(seen)[np.ix_(seen, seen)] / self.variance
            middle = positions[part].mean(1, keepdims=True)  # weights add up to 1, but for rounding
            smoothed[part] = middle + weight @ (positions[part] - middle)
        return smoothed

    def of_steps(self, frames: int) -> float:
        """Variance (m^2) that is left of second differences, in the mean of a whole path."""
        second = np.diff(np.eye(frames), n=2, axis=0)
        return float(np.diag(second @ self.spread(np.ones(frames, dtype=bool)) @ second.T).mean())

    def ahead(self, frames: int, steps: NDArray[np.int64]) -> Array:
        """Variance (m^2) ``[n]`` that is left in the newest frame and, of going straight on, ``steps [n]`` later."""
        spread = self.spread(np.ones(frames, dtype=bool))
        onward = np.zeros((len(steps), frames))
        onward[:, -1], onward[:, -2] = 1 + steps, -steps
        return np.asarray(np.einsum("nt,tu,nu->n", onward, spread, onward))
