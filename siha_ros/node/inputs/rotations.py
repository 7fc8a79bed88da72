"""Turns by quaternions (x, y, z, w) of any length; what is no orientation turns everything to NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.visibility import FARTHEST, valid_orientations

Floats = NDArray[np.float64]


def rotated(vectors: Floats, orientations: Floats) -> Floats:
    """f8[..., 3]: vectors f8[..., 3] turned by quaternions f8[..., 4]."""
    vectors = np.where((np.abs(vectors) < FARTHEST).all(axis=-1, keepdims=True), vectors, np.nan)
    unit = _unit(orientations)
    axis, w = unit[..., :3], unit[..., 3:]
    return vectors + 2.0 * np.cross(axis, np.cross(axis, vectors) + w * vectors)


def product(outer: Floats, inner: Floats) -> Floats:
    """f8[..., 4]: the turn by f8[..., 4] `inner`, then by `outer`."""
    a, b = _unit(outer), _unit(inner)
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    scalar = a[..., 3:] * b[..., 3:] - (a[..., :3] * b[..., :3]).sum(axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def _unit(orientations: Floats) -> Floats:
    valid = valid_orientations(orientations.reshape(-1, 4)).reshape(*orientations.shape[:-1], 1)
    known = np.where(valid, orientations, np.nan)
    return known / np.linalg.norm(known, axis=-1, keepdims=True)
