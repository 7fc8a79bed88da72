"""Uniform grids: finite-difference velocities, resampling of irregular samples, velocity at the last of a few."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

STAMP_TOLERANCE = 1e-6
"""Two times (s) closer than this are the same; stamps near 1.7e9 s resolve 2.4e-7 s in float64."""

Array = TypeVar("Array")


def backward_difference(positions: Array, dt: float) -> Array:
    """Velocities [..., T, P] of positions [..., T, P] on a grid of step dt (s): v_t = (x_t - x_{t-1}) / dt, v_0 := v_1.

    The one function used in training and at run time; numpy arrays and torch tensors alike.
    """
    shape = positions.shape  # type: ignore[attr-defined]
    if shape[-2] < 2:
        raise ValueError(f"backward_difference needs positions [..., T >= 2, P], got {tuple(shape)}")
    difference = (positions[..., 1:, :] - positions[..., :-1, :]) / dt  # type: ignore[index]
    return difference[..., [0, *range(shape[-2] - 1)], :]


def bracket(
    stamps: NDArray[np.float64], times: NDArray[np.float64], max_gap: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """The samples on both sides of each time, for all agents at once.

    Args:
        stamps: f8[A, N] (s), ascending along N apart from NaN, which marks an empty place.
        times: f8[T] (s).
        max_gap: longest gap (s) between two samples that may be bridged.

    Returns:
        left, right: i8[A, T] places along N, the same one twice at the time of a sample; weight: f8[A, T] of the right
        one; known: bool[A, T], false before the first sample, after the last and inside longer gaps, where the other
        three mean nothing.
    """
    agents, width = stamps.shape
    place = np.flatnonzero(np.isfinite(stamps))
    if not len(place):
        nowhere = np.zeros((agents, len(times)), dtype=np.int64)
        return nowhere, nowhere, nowhere.astype(np.float64), nowhere.astype(bool)
    owner = place // width
    counts = np.bincount(owner, minlength=agents)
    sample_times = stamps.ravel()[place] - times[-1]
    query = times - times[-1]
    # One sorted axis for all agents: samples and queries of each agent are shifted to an interval of their own.
    stride = 2.0 * (1.0 + max(-sample_times.min(), sample_times.max(), -query.min(), query.max()))
    after = np.searchsorted(sample_times + stride * owner, query + stride * np.arange(agents)[:, None])
    end = np.cumsum(counts)[:, None]
    lowest = np.minimum(end - counts[:, None], len(place) - 1)
    highest = np.maximum(end - 1, lowest)
    left = np.minimum(np.maximum(after - 1, lowest), highest)
    right = np.minimum(np.maximum(after, lowest), highest)
    since, until = query - sample_times[left], sample_times[right] - query
    at_left, at_right = np.abs(since) <= STAMP_TOLERANCE, np.abs(until) <= STAMP_TOLERANCE
    gap = since + until
    between = (since > 0) & (until > 0) & (gap <= max_gap + STAMP_TOLERANCE)
    weight = np.where(between, since / np.where(gap > 0, gap, 1.0), 0.0)
    known = (at_left | at_right | between) & (counts > 0)[:, None]
    right, left = np.where(at_left, left, right), np.where(at_right, right, left)
    return place[left] % width, place[right] % width, weight, known


def resample(
    stamps: NDArray[np.float64], values: NDArray[np.float64], times: NDArray[np.float64], max_gap: float, shift: int = 0
) -> NDArray[np.float64]:
    """Linear interpolation of irregular samples at given times, for all agents at once.

    Args:
        stamps, times, max_gap: as those of `bracket`.
        values: f8[A, N, D] samples at those stamps, or a ring of them whose oldest place is `shift`.

    Returns:
        f8[A, T, D], NaN before the first sample, after the last and inside longer gaps.
    """
    left, right, weight, known = bracket(stamps, times, max_gap)
    row, width = np.arange(len(stamps))[:, None], stamps.shape[1]
    low, high = values[row, (left + shift) % width], values[row, (right + shift) % width]
    high -= low
    high *= weight[..., None]
    low += high
    if not known.all():
        low[~known] = np.nan
    return low


def last_velocity(
    stamps: NDArray[np.float64], positions: NDArray[np.float64], span: float, max_age: float, minimum: int = 3
) -> NDArray[np.float64]:
    """Velocity at the newest of a few samples: a least-squares line that a single outlier hardly bends.

    The samples of the last `span` seconds are used, or the newest `minimum` where those are fewer, none older than
    `max_age`. Two more fits follow the first, in which residuals beyond twice the median one weigh less, by the inverse
    of their square.

    Args:
        stamps: f8[A, N] (s) in any order, NaN where empty.
        positions: f8[A, N, P] (m).
        span: time (s) over which the velocity is fitted.
        max_age: samples older than this (s), counted from the newest, are never used.
        minimum: number of samples used even if they are older than span.

    Returns:
        f8[A, P] (m/s): zero with one usable sample, NaN without any.
    """
    filled = np.isfinite(stamps)
    safe = np.where(filled, stamps, -np.inf)
    newest: NDArray[np.int64] = np.argmax(safe, axis=1)
    row = np.arange(len(stamps))
    age = np.where(filled, stamps[row, newest, None] - safe, np.inf)
    rank = min(minimum, age.shape[1]) - 1
    reach = np.minimum(max_age, np.maximum(span, np.partition(age, rank, axis=1)[:, rank]))
    usable = age <= reach[:, None] + STAMP_TOLERANCE
    age = np.where(usable, age, 0.0)
    offset = np.where(usable[..., None], positions - positions[row, newest, None], 0.0)
    middle = usable.sum(axis=1) // 2
    weight = usable.astype(np.float64)
    slope, intercept = _fit_lines(age, offset, weight)
    for _ in range(2):
        residual = offset - intercept[:, None] - age[..., None] * slope[:, None]
        size = np.where(usable, np.sqrt(np.square(residual).sum(axis=2)), 1e150)
        threshold = 2.0 * (np.sort(size, axis=1)[row, middle] + 1e-9)[:, None]
        weight = np.where(usable, np.square(threshold / np.maximum(size, threshold)), 0.0)
        slope, intercept = _fit_lines(age, offset, weight)
    return np.where(filled[row, newest][:, None], -slope, np.nan)


def _fit_lines(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted least-squares lines y(x) x[A, N], y[A, N, P]: slope, intercept [A, P]; slope 0 if x is constant."""
    weighted_x = weight * x
    total = np.maximum(weight.sum(axis=1), 1e-12)[:, None]
    first, second = weighted_x.sum(axis=1)[:, None], (weighted_x * x).sum(axis=1)[:, None]
    zeroth_moment, first_moment = (weight[:, None] @ y)[:, 0], (weighted_x[:, None] @ y)[:, 0]
    slope = (first_moment - first / total * zeroth_moment) / np.maximum(second - first * first / total, 1e-9)
    return slope, (zeroth_moment - first * slope) / total


def between(times: NDArray[np.float64], values: NDArray[np.float64], at: float) -> NDArray[np.float64]:
    """``values [..., T, D]`` at a time, by the cubic through the four nearest of ``times [T]``."""
    first = int(np.clip(np.searchsorted(times, at, "right") - 2, 0, max(0, len(times) - 4)))
    nodes = times[first : first + 4]
    apart = nodes[:, None] - nodes + np.eye(len(nodes))
    shares = np.where(np.eye(len(nodes), dtype=bool), 1.0, (at - nodes) / apart).prod(1)
    result: NDArray[np.float64] = np.einsum("k,...kd->...d", shares, values[..., first : first + 4, :])
    return result
