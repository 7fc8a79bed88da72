"""A linear least squares problem along a chain of frames, solved exactly by one pass forward and one back.

Small matrices and many frames one after another: numpy is several times quicker at it than torch. Float64; leading
axes ``[B]`` are batch axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Passes:
    """change ``[B, T, S]`` and covariance ``[B, T, S, S]`` of each frame given all; arrived_vector ``[B, T, S]`` and
    arrived ``[B, T, S, S]``: information vector and matrix of each frame given the earlier ones."""

    change: Array
    covariance: Array
    arrived_vector: Array
    arrived: Array


def two_passes(
    information: Array, vector: Array, move: Array, drift: Array, precision: Array, before: Array, before_vector: Array
) -> Passes:
    """Minimises, over d[0] to d[T - 1] and beside what is known from earlier,

        sum_t d[t]' information[t] d[t] - 2 vector[t]' d[t] + |d[t + 1] - move[t] d[t] - drift[t]|^2 precision

    information ``[B, T, S, S]``, positive definite, and vector ``[B, T, S]``: of each frame by itself. move ``[B,
    T - 1, S, S]``, drift ``[B, T - 1, S]``, precision ``[S]``: of the step to the next frame. before ``[B, S, S]``,
    before_vector ``[B, S]``: information of the first frame from earlier.
    """
    batch, frames, size = vector.shape
    pulled = move.swapaxes(-1, -2) * precision
    back = np.ascontiguousarray(pulled.swapaxes(-1, -2))
    joint = information.copy()
    joint[:, :-1] += pulled @ move
    gain = np.empty_like(move)
    spread, mean = np.empty_like(move), np.empty_like(drift)
    arrived, arrived_vector = np.empty_like(information), np.empty_like(vector)
    step = np.diag(precision)
    for t in range(frames - 1):
        arrived[:, t], arrived_vector[:, t] = before, before_vector
        inverse = np.linalg.inv(before + joint[:, t])
        carried = inverse @ pulled[:, t]
        held = inverse @ (before_vector + vector[:, t])[..., None]
        jump = drift[:, t, :, None]
        before = step - back[:, t] @ carried
        before = (before + before.swapaxes(-1, -2)) / 2
        before_vector = (back[:, t] @ held + before @ jump)[..., 0]
        spread[:, t], gain[:, t], mean[:, t] = inverse, carried, (held - carried @ jump)[..., 0]
    arrived[:, -1], arrived_vector[:, -1] = before, before_vector

    change, covariance = np.empty_like(vector), np.empty_like(information)
    covariance[:, -1] = np.linalg.inv(before + information[:, -1])
    change[:, -1] = (covariance[:, -1] @ (before_vector + vector[:, -1])[..., None])[..., 0]
    turned = gain.swapaxes(-1, -2)
    for t in range(frames - 2, -1, -1):
        change[:, t] = mean[:, t] + (gain[:, t] @ change[:, t + 1, :, None])[..., 0]
        covariance[:, t] = spread[:, t] + gain[:, t] @ covariance[:, t + 1] @ turned[:, t]
    return Passes(change, covariance, arrived_vector, arrived)
