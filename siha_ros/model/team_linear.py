"""The linear path of a team: what is missing of a window of like agents, by how they move on the whole.

Beyond the paper, and without a graph. Agents that are alike leave their mean on paths of one covariance over the frames
of a window, measured on validation windows (``kernel``); their mean goes straight on as far as the sum of all does
(:mod:`siha_ros.model.total`). That makes all positions of a window one Gaussian, in which what is missing follows from
the rest in closed form, with its covariance. With J the mean over A agents the inverse of the covariance is (1 - J) x
apart + J x mean, so no matrix is larger than the missing positions of one axis. Positions may be of any frame that
moves straight on. The arithmetic is numpy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from siha_ros.model.total import Total

Array = NDArray[np.float64]

VARIANCES = np.logspace(-12, 0, 49)  # m^2, of positions beside the kernel: noise, and motion that it does not know


@dataclass(frozen=True)
class Completed:
    """Of the n agents that are missing in some frame: positions ``[n, T, P]`` (m); variance ``[n, T, 2]`` (m^2) of an
    axis of them and of its change since the frame before (of the first frame: as of the second); unseen ``[n, T, 2]``:
    the same if nothing were seen of these agents. surprise: how far the other agents are from where they would be
    expected, were one of them missing in the same frames: mean squared error over variance, about 1 or less where the
    team moves as the kernel says."""

    positions: Array
    variance: Array
    unseen: Array
    surprise: float


@dataclass(frozen=True)
class TeamLinear:
    """kernel ``[T, T]`` (m^2): covariance of an agent's way from the mean of all, for one axis."""

    kernel: Array

    @staticmethod
    def fit(positions: Array) -> TeamLinear:
        """From complete windows ``[n, A, T, P]`` (m)."""
        windows, agents, frames, dims = positions.shape
        apart = (positions - positions.mean(1, keepdims=True)).swapaxes(2, 3).reshape(-1, frames)
        return TeamLinear(apart.T @ apart / (windows * (agents - 1) * dims))

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(self.kernel)
        return values.clip(0), vectors

    def noise(self, positions: Array) -> float:
        """The variance (m^2) beside the kernel, of VARIANCES, under which the complete paths ``[A, T, P]`` (m) of two
        agents or more are most probable."""
        values, vectors = self._parts
        apart = positions - positions.mean(0)
        found = np.square(np.einsum("tk,atp->kap", vectors, apart)).sum((1, 2))
        total = values + VARIANCES[:, None]
        degrees = (len(positions) - 1) * positions.shape[2]
        return float(VARIANCES[np.argmin((degrees * np.log(total) + found / total).sum(1))])

    def complete(
        self, positions: Array, observed: NDArray[np.bool_], variance: float, total: Total, dt: float
    ) -> Completed:
        """Positions ``[A, T, P]`` (m), in frames ``dt`` (s) apart, of which those that are not ``observed [A, T]`` may
        be NaN; at least one agent is observed throughout. variance (m^2): of an observed one beside the kernel. total:
        how straight the sum of all goes."""
        agents, frames, dims = positions.shape
        values, vectors = self._parts
        apart = (vectors / (values + variance)) @ vectors.T
        mean = agents * _straight(frames, dt, max(agents * variance, total.variance), total.drift)
        precision = np.einsum("ij,ts->itjs", np.eye(agents), apart) + ((mean - apart) / agents)[:, None]
        precision = precision.reshape(agents * frames, -1)  # of what is observed, or would be
        own = np.repeat(~observed.all(1), frames)
        gone = ~observed.ravel()
        rows = np.where(observed[..., None], positions, 0.0).reshape(-1, dims)
        rows[gone] = -np.linalg.solve(precision[np.ix_(gone, gone)], precision[gone] @ rows)
        smooth = (rows - variance * precision @ rows)[own]
        return Completed(
            smooth.reshape(-1, frames, dims),
            _left(precision, gone, own, frames, variance),
            _left(precision, own, own, frames, variance),
            self._surprise(precision, rows, observed),
        )

    @staticmethod
    def _surprise(precision: Array, rows: Array, observed: NDArray[np.bool_]) -> float:
        """rows ``[A T, P]``: positions, anything where missing."""
        agents, frames = observed.shape
        gone, lacking = np.flatnonzero(~observed.ravel()), np.flatnonzero(~observed.all(0))
        there = np.flatnonzero(observed.all(1))
        without = np.repeat(rows[:, None], len(there), 1)  # one more agent is missing in each
        without[gone] = 0
        also = there[:, None] * frames + lacking
        without[also.T, np.arange(len(there))] = 0
        pull = (precision @ without.reshape(len(rows), -1)).reshape(without.shape)
        pull = np.concatenate([pull[gone], pull[also.T, np.arange(len(there))]])
        both = np.concatenate([gone, also[0]])  # all agents that are seen have the same covariance
        pull = np.concatenate([np.eye(len(both))[:, len(gone) :], -pull.reshape(len(both), -1)], 1)
        covariance, found = np.split(
            np.linalg.solve(precision[np.ix_(both, both)], pull)[len(gone) :], [len(lacking)], 1
        )
        missed = found.reshape(len(lacking), len(there), -1) - rows[also.T]
        return float((np.square(missed).mean((1, 2)) / covariance.diagonal()).mean())


def _left(precision: Array, gone: NDArray[np.bool_], own: NDArray[np.bool_], frames: int, variance: float) -> Array:
    """Variance as of :class:`Completed` of the rows ``own`` where ``gone`` are missing, without what is beside the
    kernel: observed positions are y = x + e, x given y is y - variance precision y with covariance variance -
    variance^2 precision, and y has the inverse of precision[gone, gone] where it is missing."""
    through = (np.eye(len(precision))[own] - variance * precision[own])[:, gone]
    left = through @ np.linalg.solve(precision[np.ix_(gone, gone)], through.T)
    left -= variance**2 * precision[np.ix_(own, own)]
    left = np.einsum("itis->its", left.reshape(-1, frames, len(left) // frames, frames)) + variance * np.eye(frames)
    each = np.einsum("itt->it", left)
    steps = each[:, 1:] + each[:, :-1] - 2 * np.einsum("itt->it", left[:, 1:, :-1])
    return np.stack([each, np.concatenate([steps[:, :1], steps], 1)], -1).clip(0)


def _straight(frames: int, dt: float, variance: float, drift: float) -> Array:
    """Inverse covariance ``[T, T]`` of a sum that begins anywhere, at any velocity, and goes on with white
    accelerations (drift, m^2/s^3), each of its positions seen with ``variance`` (m^2)."""
    times = dt * np.arange(frames)
    earlier, later = np.minimum(times[:, None], times), np.maximum(times[:, None], times)
    inverse = np.linalg.inv(drift * (earlier**2 * later / 2 - earlier**3 / 6) + variance * np.eye(frames))
    line = np.stack([np.ones(frames), times], -1)
    weighted = inverse @ line
    return np.asarray(inverse - weighted @ np.linalg.solve(line.T @ weighted, weighted.T))
