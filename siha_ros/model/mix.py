"""How much of a team's answer is the networks' and how much a lost agent's last motion: weights measured on recordings.

A network that has found nothing of how agents influence one another is worse than a straight line, and nobody knows
before it was tried. So of lost agents the answer of a bundle of recordings is a weighted mean of what the networks say,
the last position at the last velocity, and the last position, by the time since they were seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor

from siha_ros.model.bundle import Bundle, BundleError, by_number

Array = NDArray[np.float64]
OWN, MOVING, HELD = range(3)
MIX = "mix"  # arrays of a bundle
LOST = "lost"  # tables: lost_1, lost_2 where so many are lost
BEYOND = 1.5  # times the last of a table's seconds, the middle of the longest losses measured: a motion lasts no longer


@dataclass(frozen=True)
class Mix:
    """seconds ``[n]``, ascending, since an agent was seen. weights ``[n, 3]``, of OWN, MOVING and HELD: at
    least 0, 1 in all."""

    seconds: Array
    weights: Array

    def at(self, seconds: Array) -> Array:
        """Weights ``[..., 3]`` at times ``[...]``: straight lines between those of ``seconds``, level beyond them."""
        return np.stack([np.interp(seconds, self.seconds, column) for column in self.weights.T], -1)

    def tensor(self) -> Tensor:
        """``[n, 4]`` for a bundle; inverse of :meth:`from_tensor`."""
        return torch.from_numpy(np.column_stack([self.seconds, self.weights]))

    @staticmethod
    def from_tensor(tensor: Tensor) -> Mix:
        """Raises ValueError for what is no such table."""
        rows = tensor.double().cpu().numpy()
        if rows.ndim != 2 or not len(rows) or rows.shape[1] != 4 or not np.isfinite(rows).all():
            raise ValueError("expected rows of 4 finite numbers")
        if (np.diff(rows[:, 0]) <= 0).any() or (rows[:, 1:] < 0).any() or (abs(rows[:, 1:].sum(1) - 1) > 1e-3).any():
            raise ValueError("expected ascending seconds and weights of at least 0 that are 1 in all")
        return Mix(rows[:, 0], rows[:, 1:])


def mixed(weights: Array, own: Array, moving: Array, held: Array) -> Array:
    """The weighted mean ``[..., D]`` of three answers ``[..., D]`` by ``weights [..., 3]``."""
    parts = zip((own, moving, held), np.moveaxis(weights, -1, 0), strict=True)
    result: Array = np.sum([part * weight[..., None] for part, weight in parts], axis=0)
    return result


def between_numbers(mixes: Mapping[str, Mix], gone: float, since: Array) -> tuple[Array, float]:
    """Weights ``[..., 3]`` at times ``since [...]`` (s) where ``gone`` agents are lost, between the tables of the whole
    numbers about it, each of that number or the next smaller one, and all of the networks' where there is none; and for
    how long (s) a last velocity is followed."""
    parts, longest = [], [0.0]
    for number, part in ((int(gone), 1 - gone % 1), (int(gone) + 1, gone % 1)):
        mix = by_number(mixes, LOST, number)
        parts.append(part * (np.eye(3)[OWN] if mix is None else mix.at(since)))
        longest += [] if mix is None else [BEYOND * float(mix.seconds[-1])]
    return np.broadcast_to(sum(parts), (*since.shape, 3)), max(longest)


def best_weights(errors: Array) -> Array:
    """Weights ``[k]``, at least 0 and 1 in all, of the least squared error of a weighted mean of answers with ``errors
    [k, n, P]`` (m), which are finite."""
    rows = errors.reshape(len(errors), -1).T
    together = 1e3 * max(float(np.linalg.norm(rows)), 1e-12)  # as heavy as makes them 1 in all, but for rounding
    weights, _ = nnls(np.vstack([rows, np.full(len(errors), together)]), np.append(np.zeros(len(rows)), together))
    result: Array = weights / weights.sum()
    return result


def mixes_of(bundle: Bundle) -> dict[str, Mix]:
    """The tables of a bundle, none of most. Raises BundleError, in one line, for what is no such table."""
    found = {}
    for name, tensor in bundle.arrays.get(MIX, {}).items():
        try:
            if not (name.startswith(f"{LOST}_") and name.removeprefix(f"{LOST}_").isdigit()):
                raise ValueError(f"expected {LOST}_1, {LOST}_2 and so on")
            found[name] = Mix.from_tensor(tensor)
        except ValueError as error:
            raise BundleError(f"{bundle.path}: mix.safetensors: {name}: {error}") from None
    return found


def shares(mixes: Mapping[str, Mix]) -> list[tuple[str, str]]:
    """What the networks' share is, for people: whose, and the share at each time."""
    return [
        (
            f"{name.removeprefix(f'{LOST}_')} lost, by time since",
            "; ".join(f"{at:.2g} s: {share:.2f}" for at, share in zip(mix.seconds, mix.weights[:, OWN], strict=True)),
        )
        for name, mix in mixes.items()
    ]
