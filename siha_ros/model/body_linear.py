"""The linear path of a body: hidden joints from the visible ones in closed form, and what was last seen of them
carried on.

:class:`LinearPath` is a ridge regression from whole windows to whole windows. It keeps the second moments of all
joints, so that any set of hidden joints has its regression at once: a Schur complement. :class:`ResidualCarry` is a
Gaussian process over what the regression got wrong while a joint was still seen: the error is continued from the
moment of loss without a jump, fades as it grows old, and comes back when the body comes back to a pose in which it was
seen. The
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

NEWEST_WEIGHT = 8.0  # of the newest position beside a temporal component, which sums up 49 frames
STEP_WEIGHT = 6.0  # of a step beside a position: as the way in 0.1 s


@dataclass(frozen=True)
class LinearPath:
    """Ridge regression between joints over a window, in the body frame.

    A window is described by its joints relative to the core, and by the way of the core, each in a few temporal
    components.

    template: the body frame. basis: f8 [T, K], orthonormal columns, temporal components. mean: f8 [D] and factor: f8
    [R, D], mean and square root of the summed second moments of training windows, D = (A + 1) * 3 * (K + 2). penalty:
    f8 [A] of each joint as a target.
    pose_mean: f8 [A * 3] and pose_axes: f8 [Q, A * 3], whitening principal components of the joints relative to the
    core in one frame.
    """

    template: BodyTemplate
    basis: FloatArray
    mean: FloatArray
    factor: FloatArray
    penalty: FloatArray
    pose_mean: FloatArray
    pose_axes: FloatArray
    _regressions: dict[bytes, FloatArray] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _analysis(self) -> FloatArray:
        """``[T, K + 2]``: temporal components, newest position, newest step."""
        newest = np.zeros((len(self.basis), 2))
        newest[-1] = NEWEST_WEIGHT, NEWEST_WEIGHT * STEP_WEIGHT
        newest[-2, 1] = -NEWEST_WEIGHT * STEP_WEIGHT
        return np.concatenate([self.basis, newest], 1)

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
            "basis": self.basis,
            "mean": self.mean,
            "factor": self.factor,
            "penalty": self.penalty,
            "pose_mean": self.pose_mean,
            "pose_axes": self.pose_axes,
        }
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
        rest = (array[name] for name in ("basis", "mean", "factor", "penalty", "pose_mean", "pose_axes"))
        return LinearPath(template, *rest)

    def complete(self, positions: FloatArray, visible: BoolArray) -> FloatArray:
        """Windows ``[N, A, T, 3]`` (m, body frame) with the joints that are not ``visible [A]`` put in; those may be
        NaN.
        """
        hidden = ~visible
        if not hidden.any():
            return positions.copy()
        centre = self.centre(positions, visible)
        features = self.features(positions, centre, visible).reshape(len(positions), -1) - self.mean
        count = self.basis.shape[1]
        known = np.repeat(np.append(visible, True), 3 * (count + 2))
        wanted = np.kron(np.append(hidden, False), np.tile(np.arange(count + 2) < count, 3)).astype(bool)
        found = features[:, known] @ self._regression(visible, known, wanted) + self.mean[wanted]
        found = found.reshape(len(positions), int(hidden.sum()), 3, -1) @ self.basis.T
        out = positions.copy()
        out[:, hidden] = found.swapaxes(-1, -2) + centre[:, None]
        return out

    def centre(self, positions: FloatArray, visible: BoolArray) -> FloatArray:
        """Centre of the core ``[N, T, 3]`` of windows ``[N, A, T, 3]``, from those of its joints that are visible."""
        core = self.template.core[visible[self.template.core]]
        return (positions[:, core] - self.template.pose[core][:, None]).mean(1)

    def features(self, positions: FloatArray, centre: FloatArray, visible: BoolArray) -> FloatArray:
        """Temporal components ``[N, A + 1, 3, K]`` of windows ``[N, A, T, 3]``; zero for joints that are not
        visible.
        """
        relative = np.where(visible[:, None, None], positions - centre[:, None], 0.0)
        return np.concatenate([relative, centre[:, None]], 1).swapaxes(-1, -2) @ self._analysis

    def pose_coordinates(self, positions: FloatArray) -> FloatArray:
        """Where a pose lies among the training poses: complete windows ``[N, A, T, 3]`` to ``[N, T, Q]``, each about
        unit size.
        """
        centre = self.centre(positions, np.ones(self.agents, bool))
        flat = (positions - centre[:, None]).swapaxes(1, 2).reshape(len(positions), positions.shape[2], -1)
        return (flat - self.pose_mean) @ self.pose_axes.T

    def _regression(self, visible: BoolArray, known: BoolArray, wanted: BoolArray) -> FloatArray:
        key = visible.tobytes()
        if key not in self._regressions:
            if len(self._regressions) >= 64:
                self._regressions.clear()
            source, target = self.factor[:, known], self.factor[:, wanted]
            penalty = np.repeat(self.penalty[~visible], 3 * self.basis.shape[1])
            inner = source @ source.T
            dual = np.empty_like(target)
            for value in np.unique(penalty):
                columns = penalty == value
                dual[:, columns] = np.linalg.solve(inner + value * np.eye(len(inner)), target[:, columns])
            self._regressions[key] = source.T @ dual
        return self._regressions[key]


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
