"""Ridge regression in closed form, and the two plain regressions that a body's hidden limb is measured against.

``ridge_frame`` sees the visible joints of one frame (positions and velocities), ``ridge_window`` those of several
frames before it as well. Both work in body axes relative to the core of the frame, so they turn and move with the
body. The arithmetic is
numpy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FloatArray = NDArray[np.float64]
VELOCITY_UNIT = 0.1  # s: a velocity counts in a penalty as the way in this time


@dataclass(frozen=True)
class Ridge:
    """A linear map ``x @ weights + bias``: weights [F, O], bias [O]."""

    weights: FloatArray
    bias: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """``[..., F]`` to ``[..., O]``."""
        return x @ self.weights + self.bias


def fit_ridge(x: FloatArray, y: FloatArray, penalties: Sequence[float]) -> list[Ridge]:
    """One ridge regression of ``y [N, O]`` on ``x [N, F]`` per penalty, minimising the summed squares plus penalty
    |weights|^2.

    The means are not penalised.
    """
    mean_x, mean_y = x.mean(0), y.mean(0)
    centred = x - mean_x
    values, vectors = np.linalg.eigh(centred.T @ centred)
    projected = vectors.T @ (centred.T @ (y - mean_y))
    out = []
    for penalty in penalties:
        weights = vectors @ (projected / (np.maximum(values, 0.0) + penalty)[:, None])
        out.append(Ridge(weights, mean_y - mean_x @ weights))
    return out


@dataclass(frozen=True)
class LimbRidge:
    """A hidden limb from the joints that are visible, frame by frame.

    visible, hidden: joint indices. core: the joints whose mean is the origin of every frame. dt: s. stages:
    regressions with their lags, the frames before a frame that are seen beside it (0 is the frame itself), by
    ascending largest lag. Each frame is completed by the last of them whose lags its window reaches back to.
    """

    visible: NDArray[np.int64]
    hidden: NDArray[np.int64]
    core: NDArray[np.int64]
    dt: float
    stages: tuple[tuple[tuple[int, ...], Ridge], ...]

    def tensors(self) -> dict[str, Tensor]:
        """Plain tensors for a bundle; inverse of :meth:`from_tensors`."""
        whole = {"visible": self.visible, "hidden": self.hidden, "core": self.core}
        real = {"dt": np.array([self.dt])}
        for number, (lags, ridge) in enumerate(self.stages):
            whole[f"lags_{number}"] = np.array(lags)
            real |= {f"weights_{number}": ridge.weights, f"bias_{number}": ridge.bias}
        return {name: torch.from_numpy(np.ascontiguousarray(array, np.int64)) for name, array in whole.items()} | {
            name: torch.from_numpy(np.ascontiguousarray(array, np.float32)) for name, array in real.items()
        }

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor]) -> LimbRidge:
        """A regression from a bundle's tensors. Raises KeyError naming a tensor that is missing."""
        visible, hidden, core = (tensors[name].numpy() for name in ("visible", "hidden", "core"))
        stages: list[tuple[tuple[int, ...], Ridge]] = []
        while f"lags_{len(stages)}" in tensors:
            lags, weights, bias = (tensors[f"{name}_{len(stages)}"] for name in ("lags", "weights", "bias"))
            stages.append((tuple(lags.tolist()), Ridge(weights.double().numpy(), bias.double().numpy())))
        return LimbRidge(visible, hidden, core, float(tensors["dt"][0]), tuple(stages))

    def complete(self, positions: FloatArray) -> FloatArray:
        """Positions of the hidden joints ``[N, H, T, 3]`` from windows ``[N, A, T, 3]`` (m, body axes; hidden joints
        may be NaN).
        """
        found = np.empty((len(positions), positions.shape[2], len(self.hidden) * 3))
        for lags, ridge in self.stages:
            features = lagged_features(positions, self.visible, self.core, lags, self.dt)
            found[:, max(lags) :] = ridge(features)
        joints = found.reshape(*found.shape[:2], len(self.hidden), 3).transpose(0, 2, 1, 3)
        return joints + positions[:, self.core].mean(1)[:, None]


def lagged_features(
    positions: FloatArray, visible: NDArray[np.int64], core: NDArray[np.int64], lags: tuple[int, ...], dt: float
) -> FloatArray:
    """Positions relative to the core, and velocities, of the visible joints at a frame and its lags: ``[N, T - L, F]``.

    The first frame is the one that the largest lag L reaches back from to the window's first.
    """
    seen = positions[:, visible]
    steps = np.diff(seen, axis=2) / dt
    velocities = np.concatenate([steps[:, :, :1], steps], 2) * VELOCITY_UNIT
    centre = positions[:, core].mean(1)[:, None]
    frame = np.arange(max(lags), positions.shape[2])
    out = []
    for lag in lags:
        out += [seen[:, :, frame - lag] - centre[:, :, frame], velocities[:, :, frame - lag]]
    stacked = np.concatenate(out, 1).transpose(0, 2, 1, 3)
    return stacked.reshape(*stacked.shape[:2], -1)


def fit_limb_ridge(
    training: FloatArray,
    validation: FloatArray,
    hidden: NDArray[np.int64],
    core: NDArray[np.int64],
    lag_sets: Sequence[tuple[int, ...]],
    penalties: Sequence[float],
    dt: float,
) -> tuple[LimbRidge, list[dict]]:
    """A regression per lag set (by ascending largest lag), each with the penalty that is best on validation windows.

    Windows ``[N, A, T, 3]`` (m, body axes). A lag set that is no better in the newest frame than those before it is
    left out. Returns the regression and, for each stage, its lags, penalty and mean joint error (cm) in the newest
    validation frame.
    """
    visible = np.setdiff1d(np.arange(training.shape[1]), hidden)
    stages: list[tuple[tuple[int, ...], Ridge]] = []
    chosen: list[dict] = []
    for lags in lag_sets:
        x = lagged_features(training, visible, core, lags, dt)
        target = (training[:, hidden] - training[:, core].mean(1)[:, None]).transpose(0, 2, 1, 3)[:, max(lags) :]
        ridges = fit_ridge(x.reshape(-1, x.shape[-1]), target.reshape(x.shape[0] * x.shape[1], -1), penalties)
        errors = []
        for ridge in ridges:
            alone = LimbRidge(visible, hidden, core, dt, ((lags, ridge),))
            apart = alone.complete(validation)[:, :, -1] - validation[:, hidden, -1]
            errors.append(float(np.linalg.norm(apart, axis=-1).mean()) * 100)
        best = int(np.argmin(errors))
        if not chosen or errors[best] < min(stage["validation_cm"] for stage in chosen):
            stages.append((lags, ridges[best]))
            stage = {"lags": list(lags), "penalty": float(penalties[best]), "validation_cm": round(errors[best], 3)}
            chosen.append(stage)
    return LimbRidge(visible, hidden, core, dt, tuple(stages)), chosen
