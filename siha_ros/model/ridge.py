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

    visible, hidden: joint indices. core: the joints whose mean is the origin of every frame. lags: the frames before
    it that are seen beside a frame (0 is the frame itself); where a window does not reach back so far its first frame
    stands in. dt: s.
    """

    visible: NDArray[np.int64]
    hidden: NDArray[np.int64]
    core: NDArray[np.int64]
    lags: tuple[int, ...]
    dt: float
    ridge: Ridge

    def tensors(self) -> dict[str, Tensor]:
        """Plain tensors for a bundle; inverse of :meth:`from_tensors`."""
        whole = {"visible": self.visible, "hidden": self.hidden, "core": self.core, "lags": np.array(self.lags)}
        real = {"dt": np.array([self.dt]), "weights": self.ridge.weights, "bias": self.ridge.bias}
        return {name: torch.from_numpy(np.ascontiguousarray(array, np.int64)) for name, array in whole.items()} | {
            name: torch.from_numpy(np.ascontiguousarray(array, np.float32)) for name, array in real.items()
        }

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor]) -> LimbRidge:
        """A regression from a bundle's tensors. Raises KeyError naming a tensor that is missing."""
        visible, hidden, core, lags = (tensors[name].numpy() for name in ("visible", "hidden", "core", "lags"))
        ridge = Ridge(tensors["weights"].double().numpy(), tensors["bias"].double().numpy())
        return LimbRidge(visible, hidden, core, tuple(lags.tolist()), float(tensors["dt"][0]), ridge)

    def complete(self, positions: FloatArray) -> FloatArray:
        """Positions of the hidden joints ``[N, H, T, 3]`` from windows ``[N, A, T, 3]`` (m, body axes; hidden joints
        may be NaN).
        """
        features = lagged_features(positions, self.visible, self.core, self.lags, self.dt)
        found = self.ridge(features).reshape(*features.shape[:2], len(self.hidden), 3)
        return found.transpose(0, 2, 1, 3) + positions[:, self.core].mean(1)[:, None]


def lagged_features(
    positions: FloatArray, visible: NDArray[np.int64], core: NDArray[np.int64], lags: tuple[int, ...], dt: float
) -> FloatArray:
    """Positions relative to the core, and velocities, of the visible joints at every frame and its lags: ``[N, T,
    F]``.
    """
    seen = positions[:, visible]
    steps = np.diff(seen, axis=2) / dt
    velocities = np.concatenate([steps[:, :, :1], steps], 2) * VELOCITY_UNIT
    frames = positions.shape[2]
    centre = positions[:, core].mean(1)[:, None]
    out = []
    for lag in lags:
        frame = np.maximum(np.arange(frames) - lag, 0)
        out += [seen[:, :, frame] - centre, velocities[:, :, frame]]
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
) -> tuple[LimbRidge, float, float]:
    """The best of all lag sets and penalties on the validation windows; windows ``[N, A, T, 3]`` (m, body axes).

    Frames whose lags reach beyond their window do not train. Returns the regression, its penalty and its mean joint
    error (m).
    """
    visible = np.setdiff1d(np.arange(training.shape[1]), hidden)
    best: tuple[LimbRidge, float, float] | None = None
    for lags in lag_sets:
        x = lagged_features(training, visible, core, lags, dt)[:, max(lags) :]
        target = (training[:, hidden] - training[:, core].mean(1)[:, None]).transpose(0, 2, 1, 3)[:, max(lags) :]
        ridges = fit_ridge(x.reshape(-1, x.shape[-1]), target.reshape(x.shape[0] * x.shape[1], -1), penalties)
        for penalty, ridge in zip(penalties, ridges, strict=True):
            limb = LimbRidge(visible, hidden, core, lags, dt, ridge)
            error = float(np.linalg.norm(limb.complete(validation) - validation[:, hidden], axis=-1).mean())
            if best is None or error < best[2]:
                best = limb, penalty, error
    assert best is not None, "no lags or no penalties given"
    return best
