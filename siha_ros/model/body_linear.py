"""The linear path of a body: hidden joints from the visible ones in closed form, and what was last seen of them
carried on.

:class:`WindowRidge` is a ridge regression between the joints of a window. It keeps the second moments of all joints,
so that any set of hidden joints has its regression at once: a Schur complement. :class:`LinearPath` joins one over the
whole window, which is best in its middle, with a shorter one, which is better at its end. :class:`ResidualCarry` is a
Gaussian process over what the path got wrong while a joint was still seen: the error goes on from the moment of loss
without a jump, fades as it grows old, and comes back when the body comes back to a pose in which it was seen. The
arithmetic is numpy's; leading axes are batch axes.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from siha_ros.model.body_frame import BodyTemplate

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

NEWEST_WEIGHT = 8.0  # of the newest position beside a temporal component, which sums up a whole window
STEP_WEIGHT = 6.0  # of the newest step beside the newest position
MOST_REGRESSIONS = 64  # sets of hidden joints whose regressions are kept


@dataclass(frozen=True)
class WindowRidge:
    """Ridge regression between the joints of a window of F frames, given relative to the core.

    A window is described by each joint's way, and the core's own way, in K temporal components and, with more weight,
    the newest position and step.

    basis: f8 [F, K], orthonormal columns. mean: f8 [D] and factor: f8 [R, D], mean and square root of the summed
    second moments of the training windows, D = (A + 1) * 3 * (K + 2). penalty: f8 [A] of each joint as a target.
    """

    basis: FloatArray
    mean: FloatArray
    factor: FloatArray
    penalty: FloatArray
    _regressions: dict[bytes, FloatArray] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _analysis(self) -> FloatArray:
        """``[F, K + 2]``: temporal components, newest position, newest step."""
        newest = np.zeros((len(self.basis), 2))
        newest[-1] = NEWEST_WEIGHT, NEWEST_WEIGHT * STEP_WEIGHT
        newest[-2, 1] = -NEWEST_WEIGHT * STEP_WEIGHT
        return np.concatenate([self.basis, newest], 1)

    def features(self, relative: FloatArray, centre: FloatArray) -> FloatArray:
        """``[N, D]`` of joints relative to the core ``[N, A, F, 3]`` (m) and the way of the core ``[N, F, 3]``."""
        ways = np.concatenate([relative, centre[:, None] - centre[:, None, -1:]], 1)
        return (ways.swapaxes(-1, -2) @ self._analysis).reshape(len(ways), -1)

    def trajectories(self, relative: FloatArray, centre: FloatArray, visible: BoolArray) -> FloatArray:
        """The joints that are not ``visible [A]``, relative to the core, in every frame: ``[N, H, F, 3]`` (m)."""
        count = self.basis.shape[1]
        found = self._predict(relative, centre, visible, np.arange(count))
        return (found @ self.basis.T).swapaxes(-1, -2)

    def newest(self, relative: FloatArray, centre: FloatArray, visible: BoolArray) -> FloatArray:
        """The joints that are not ``visible [A]``, relative to the core, in the newest frame: ``[N, H, 3]`` (m)."""
        place = np.array([self.basis.shape[1]])
        return self._predict(relative, centre, visible, place)[..., 0] / NEWEST_WEIGHT

    def _predict(
        self, relative: FloatArray, centre: FloatArray, visible: BoolArray, places: NDArray[np.int64]
    ) -> FloatArray:
        """Features at ``places`` of the K + 2 of each hidden joint and axis: ``[N, H, 3, places]``."""
        size = self.basis.shape[1] + 2
        known = np.repeat(np.append(visible, True), 3 * size)
        wanted = np.zeros((len(visible) + 1, 3, size), bool)
        wanted[:-1][~visible] = np.isin(np.arange(size), places)
        columns = wanted.ravel()
        x = (self.features(relative, centre) - self.mean)[:, known]
        found: FloatArray = x @ self._regression(visible, known, columns) + self.mean[columns]
        return found.reshape(len(relative), int((~visible).sum()), 3, len(places))

    def _regression(self, visible: BoolArray, known: BoolArray, columns: BoolArray) -> FloatArray:
        key = visible.tobytes() + columns.tobytes()
        if key not in self._regressions:
            if len(self._regressions) >= MOST_REGRESSIONS:
                self._regressions.clear()
            source, target = self.factor[:, known], self.factor[:, columns]
            penalty = np.repeat(self.penalty[~visible], target.shape[1] // int((~visible).sum()))
            inner = source @ source.T
            dual = np.empty_like(target)
            for value in np.unique(penalty):
                alike = penalty == value
                dual[:, alike] = np.linalg.solve(inner + value * np.eye(len(inner)), target[:, alike])
            self._regressions[key] = source.T @ dual
        return self._regressions[key]


@dataclass(frozen=True)
class LinearPath:
    """The linear path of a body with A joints over windows of T frames.

    template: the body frame. long: regression over T frames. short: over the last few frames before each frame; its
    share grows from nothing, where a window first reaches back so far, to a half in the newest frame. pose_mean: f8 [A
    * 3] and pose_axes: f8 [Q, A * 3], whitening principal components of the joints relative to the core in one frame.
    """

    template: BodyTemplate
    long: WindowRidge
    short: WindowRidge
    pose_mean: FloatArray
    pose_axes: FloatArray

    @property
    def agents(self) -> int:
        """Number of joints A."""
        return len(self.template.pose)

    def tensors(self) -> dict[str, Tensor]:
        """Plain tensors for a bundle; inverse of :meth:`from_tensors`."""
        template = self.template
        arrays = {
            "template_pose": template.pose,
            "template_travel": np.array([template.travel]),
            "template_covariance": np.stack([template.covariance.real, template.covariance.imag]),
            "pose_mean": self.pose_mean,
            "pose_axes": self.pose_axes,
        }
        for name, ridge in (("long", self.long), ("short", self.short)):
            arrays |= {f"{name}_basis": ridge.basis, f"{name}_mean": ridge.mean}
            arrays |= {f"{name}_factor": ridge.factor, f"{name}_penalty": ridge.penalty}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array, np.float32)) for name, array in arrays.items()}
        return tensors | {"core": torch.from_numpy(np.ascontiguousarray(template.core, np.int64))}

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor]) -> LinearPath:
        """A path from a bundle's tensors. Raises KeyError naming a tensor that is missing."""
        array = {name: tensor.double().numpy() for name, tensor in tensors.items() if name != "core"}
        real, imaginary = array["template_covariance"]
        template = BodyTemplate(
            array["template_pose"], float(array["template_travel"][0]), real + 1j * imaginary, tensors["core"].numpy()
        )
        long, short = (
            WindowRidge(*(array[f"{name}_{part}"] for part in ("basis", "mean", "factor", "penalty")))
            for name in ("long", "short")
        )
        return LinearPath(template, long, short, array["pose_mean"], array["pose_axes"])

    def complete(self, positions: FloatArray, visible: BoolArray) -> FloatArray:
        """Windows ``[N, A, T, 3]`` (m, body frame) with the joints that are not ``visible [A]`` put in; those may be
        NaN.
        """
        hidden = ~visible
        if not hidden.any():
            return positions.copy()
        relative, centre = self.relative(positions, visible)
        found = self.long.trajectories(relative, centre, visible)
        reach, frames = len(self.short.basis), positions.shape[2]
        ends = np.arange(reach, frames)  # in the frame before, its share is still nothing
        frame = ends[:, None] + np.arange(1 - reach, 1)  # [ends, reach]
        parts = relative[:, :, frame].swapaxes(1, 2).reshape(-1, self.agents, reach, 3)
        newest = self.short.newest(parts, centre[:, frame].reshape(-1, reach, 3), visible)
        newest = newest.reshape(len(positions), len(ends), -1, 3).swapaxes(1, 2)
        share = 0.5 * ((ends - reach + 1) / (frames - reach))[:, None]
        found[:, :, ends] += share * (newest - found[:, :, ends])
        out = positions.copy()
        out[:, hidden] = found + centre[:, None]
        return out

    def relative(self, positions: FloatArray, visible: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Windows ``[N, A, T, 3]`` relative to the core (zero for joints that are not visible), and the core ``[N,
        T, 3]``.
        """
        core = self.template.core[visible[self.template.core]]
        centre: FloatArray = (positions[:, core] - self.template.pose[core][:, None]).mean(1)
        return np.where(visible[:, None, None], positions - centre[:, None], 0.0), centre

    def pose_coordinates(self, positions: FloatArray) -> FloatArray:
        """Where a pose lies among the training poses: complete windows ``[N, A, T, 3]`` to ``[N, T, Q]``, each about
        unit size.
        """
        relative, _ = self.relative(positions, np.ones(self.agents, bool))
        flat = relative.swapaxes(1, 2).reshape(len(positions), positions.shape[2], -1)
        coordinates: FloatArray = (flat - self.pose_mean) @ self.pose_axes.T
        return coordinates


@dataclass(frozen=True)
class CarryKernel:
    """How alike the regression's errors are at two moments; variances in units of their sum, lengths in seconds or
    pose units.

    bias: what stays. pose, pose_length: what returns with the pose. slow, slow_seconds: what changes smoothly with
    time. fast, fast_seconds: what changes roughly. noise: what has no memory.
    """

    bias: float
    pose: float
    pose_length: float
    slow: float
    slow_seconds: float
    fast: float
    fast_seconds: float
    noise: float

    def __call__(self, times: FloatArray, poses: FloatArray, times2: FloatArray, poses2: FloatArray) -> FloatArray:
        """Covariances ``[..., n, m]`` of moments with times ``[..., n]`` (s) and pose coordinates ``[..., n, Q]``;
        no noise.
        """
        elapsed = np.abs(times[..., :, None] - times2[..., None, :])
        apart = (
            np.square(poses).sum(-1)[..., :, None]
            + np.square(poses2).sum(-1)[..., None, :]
            - 2 * poses @ poses2.swapaxes(-1, -2)
        )
        rough = elapsed / self.fast_seconds
        covariance: FloatArray = (
            self.bias
            + self.pose * np.exp(-0.5 * np.maximum(apart, 0.0) / self.pose_length**2)
            + self.slow * np.exp(-0.5 * np.square(elapsed / self.slow_seconds))
            + self.fast * (1 + rough) * np.exp(-rough)
        )
        return covariance


@dataclass(frozen=True)
class ResidualCarry:
    """Errors of the regression at other moments than those at which a joint was seen: Gaussian process regression."""

    kernel: CarryKernel

    def tensor(self) -> Tensor:
        """The kernel's eight numbers for a bundle; inverse of :meth:`from_tensor`."""
        return torch.tensor(astuple(self.kernel), dtype=torch.float32)

    @staticmethod
    def from_tensor(tensor: Tensor) -> ResidualCarry:
        """A carry from its eight numbers."""
        return ResidualCarry(CarryKernel(*tensor.tolist()))

    def weights(self, times: FloatArray, poses: FloatArray, wanted: FloatArray, wanted_poses: FloatArray) -> FloatArray:
        """``[..., m, n]``: the error at each wanted moment is this times the errors at the n moments seen.

        times ``[..., n]``, wanted ``[..., m]`` (s); poses ``[..., n, Q]``, wanted_poses ``[..., m, Q]``.
        """
        kernel = self.kernel
        covariance = kernel(times, poses, times, poses) + kernel.noise * np.eye(times.shape[-1])
        cross = kernel(times, poses, wanted, wanted_poses)
        return np.asarray(np.linalg.solve(covariance, cross).swapaxes(-1, -2), np.float64)
