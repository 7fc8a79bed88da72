"""What estimators share: what of a window was really seen, and, once they have filled the rest, a complete, finite
Estimate in one call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.grid import STAMP_TOLERANCE, backward_difference
from siha_ros.window.types import Estimate, Forecast, Window

NORMAL_95 = 1.6448536
"""95 % quantile of the standard normal distribution."""


def only_seen(window: Window) -> Window:
    """The window without what bridges the time since an agent's last sample: straight lines, which nobody has seen."""
    beyond = window.observed & (window.times > window.last_seen[:, None] + STAMP_TOLERANCE)
    if not beyond.any():
        return window
    away = beyond[..., None]
    return replace(
        window,
        positions=np.where(away, np.nan, window.positions),
        velocities=np.where(away, np.nan, window.velocities),
        observed=window.observed & ~beyond,
    )


def complete(
    window: Window,
    filled: NDArray[np.float64],
    deviation: NDArray[np.float64],
    forecast: Forecast,
    *,
    adjacency: NDArray[np.float64] | None = None,
    edge_types: int = 2,
    seen_deviation: float = 0.005,
    reason: list[str] | None = None,
) -> Estimate:
    """An Estimate whose observed states are those of the window and whose other ones are filled in.

    Velocities are the measured ones where there are any, else the backward difference of the completed positions.

    Args:
        window: the window.
        filled: f8[A, T, P] (m), finite where the window is not observed.
        deviation: f8[A, T] standard deviation (m) along each axis where the window is not observed.
        forecast: motion after the window.
        adjacency: f8[A, A, K]; None says that nothing is known, 1 / K off the diagonal.
        edge_types: K where adjacency is None.
        seen_deviation: standard deviation (m) along each axis where the window is observed.
        reason: one line per agent.
    """
    agents, _, dims = window.positions.shape
    seen = window.observed[..., None]
    positions = np.where(seen, window.positions, filled)
    velocities = backward_difference(positions, window.dt)
    velocities = np.where(np.isfinite(window.velocities), window.velocities, velocities)
    covariance = isotropic(np.where(window.observed, seen_deviation, deviation), dims)
    if adjacency is None:
        adjacency = np.repeat((1.0 - np.eye(agents))[..., None] / edge_types, edge_types, axis=2)
    return Estimate(
        names=list(window.names),
        times=window.times.copy(),
        positions=positions,
        velocities=velocities,
        covariance=covariance,
        position_95=position_95(covariance),
        observed=window.observed.copy(),
        adjacency=adjacency,
        forecast=forecast,
        rounds=0,
        change=0.0,
        ms=0.0,
        reason=[""] * agents if reason is None else reason,
    )


def isotropic(deviation: NDArray[np.float64], dims: int) -> NDArray[np.float64]:
    """Covariances [..., dims, dims] (m^2) with the same standard deviation [...] (m) along each axis."""
    return np.square(deviation)[..., None, None] * np.eye(dims)


def position_95(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Radius [...] (m) of the ball that holds a normal position of covariance [..., P, P] (m^2) with probability 0.95.

    The squared distance is matched in mean and variance by a scaled chi-square, whose quantile is Wilson and
    Hilferty's. The radius is right within 1 % for P = 2 and 3 where no axis dominates, within 2 % else.
    """
    mean = np.trace(covariance, axis1=-2, axis2=-1)
    squares = np.square(covariance).sum(axis=(-2, -1))
    freedom = mean**2 / np.maximum(squares, 1e-300)
    freedom = np.clip(freedom, 1.0, covariance.shape[-1])
    spread = 2.0 / (9.0 * freedom)
    return np.sqrt(mean * (1.0 - spread + NORMAL_95 * np.sqrt(spread)) ** 3)
