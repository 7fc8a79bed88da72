"""Plain methods that complete windows in which some agents are hidden in some frames: last value, constant velocity,
linear interpolation, ridge regression, principal components.

Windows are f8 ``[n, A, T, D]``, the H hidden agents last; ``seen`` bool ``[T]`` says in which frames those are seen.
Nothing here is given more than that: what is not seen comes as NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
PENALTIES = tuple(10.0**power for power in range(-4, 5))
COMPONENTS = (4, 16, 64, 256)


class Method(Protocol):
    """A method, for one hidden set. samples: windows that it saw to learn."""

    samples: int

    def fit(self, training: FloatArray, validation: FloatArray, hidden: int, seen: BoolArray) -> None:
        """Learn from complete windows; what has a choice of its own makes it by the validation windows."""

    def complete(self, windows: FloatArray, hidden: int, seen: BoolArray) -> FloatArray:
        """States of the hidden agents ``[n, H, T, D]``, in all frames."""


@dataclass
class _Untrained:
    """Goes by the nearest frames in which an agent is seen; one that never was is where the others are on average.

    step: of the normalised position in a frame, by the normalised velocity.
    """

    step: float = 0.0
    samples: int = field(default=0, init=False)

    def fit(self, training: FloatArray, validation: FloatArray, hidden: int, seen: BoolArray) -> None:
        """Nothing to learn."""

    def complete(self, windows: FloatArray, hidden: int, seen: BoolArray) -> FloatArray:
        """See :class:`Method`."""
        if not seen.any():
            return np.repeat(windows[:, :-hidden].mean(1, keepdims=True), hidden, axis=1)
        frames = np.arange(len(seen))
        before = np.maximum.accumulate(np.where(seen, frames, -1))
        after = np.minimum.accumulate(np.where(seen, frames, len(seen))[::-1])[::-1]
        before, after = np.where(before < 0, after, before), np.where(after == len(seen), before, after)
        return self._between(windows[:, -hidden:], frames, before, after)

    def _between(
        self, agents: FloatArray, frames: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> FloatArray:
        """Of each frame, given the numbers of the last and the next one in which the agents are seen."""
        raise NotImplementedError


class LastValue(_Untrained):
    """Everything stays as it was last seen."""

    def _between(
        self, agents: FloatArray, frames: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> FloatArray:
        return agents[:, :, before]


class ConstantVelocity(_Untrained):
    """The velocity stays as it was last seen, and the position goes on with it."""

    def _between(
        self, agents: FloatArray, frames: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> FloatArray:
        positions, velocities = np.split(agents[:, :, before], 2, axis=-1)
        return np.concatenate([positions + velocities * (self.step * (frames - before))[:, None], velocities], -1)


class LinearInterpolation(_Untrained):
    """On the straight line between the frames around a gap; as it was last seen where no frame follows."""

    def _between(
        self, agents: FloatArray, frames: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> FloatArray:
        share = (frames - before) / np.maximum(after - before, 1)
        return agents[:, :, before] + share[:, None] * (agents[:, :, after] - agents[:, :, before])


def flat(windows: FloatArray, hidden: int, seen: BoolArray) -> tuple[FloatArray, FloatArray]:
    """What is seen of windows, ``[n, F]``, and what is not, ``[n, G]``."""
    apart = windows[:, -hidden:]
    shown = [windows[:, :-hidden].reshape(len(windows), -1), apart[:, :, seen].reshape(len(windows), -1)]
    return np.concatenate(shown, 1), apart[:, :, ~seen].reshape(len(windows), -1)


def filled(windows: FloatArray, unseen: FloatArray, hidden: int, seen: BoolArray) -> FloatArray:
    """The hidden agents' states ``[n, H, T, D]`` with ``unseen [n, G]`` where :func:`flat` took it from."""
    out = windows[:, -hidden:].copy()
    out[:, :, ~seen] = unseen.reshape(len(out), hidden, int((~seen).sum()), -1)
    return out


def principal(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of ``[n, F]``: mean ``[F]``, orthonormal axes ``[F, r]`` and standard deviations ``[r]`` along them, largest
    first."""
    mean = x.mean(0)
    centred = x - mean
    wide = len(x) < x.shape[1]
    values, vectors = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    kept = values > 1e-12 * max(values[0], 1e-300)
    values, vectors = values[kept], vectors[:, kept]
    axes = centred.T @ vectors / np.sqrt(values) if wide else vectors
    return mean, axes, np.sqrt(values / len(x))


@dataclass
class _Linear:
    """What is not seen as a linear function of all that is; of several such functions the one that is best on
    validation. choice: what that was made by."""

    choice: float = field(default=0.0, init=False)
    samples: int = field(default=0, init=False)
    _mean: FloatArray = field(init=False, repr=False)
    _weights: FloatArray = field(init=False, repr=False)
    _bias: FloatArray = field(init=False, repr=False)

    def fit(self, training: FloatArray, validation: FloatArray, hidden: int, seen: BoolArray) -> None:
        """See :class:`Method`."""
        x, y = flat(training, hidden, seen)
        checks, truth = flat(validation, hidden, seen)
        self.samples, self._mean, self._bias = len(x), x.mean(0), y.mean(0)
        best = np.inf
        for choice, weights in self._choices(x, y):
            error = float(np.square((checks - self._mean) @ weights + self._bias - truth).mean())
            if error < best:
                best, self._weights, self.choice = error, weights, choice

    def _choices(self, x: FloatArray, y: FloatArray) -> Iterator[tuple[float, FloatArray]]:
        """Weights ``[F, G]`` of centred functions of ``x [n, F]`` for ``y [n, G]``, each with what it was made by."""
        raise NotImplementedError

    def complete(self, windows: FloatArray, hidden: int, seen: BoolArray) -> FloatArray:
        """See :class:`Method`."""
        x, _ = flat(windows, hidden, seen)
        return filled(windows, (x - self._mean) @ self._weights + self._bias, hidden, seen)


@dataclass
class RidgeRegression(_Linear):
    """Ridge regression; the choice is one of ``penalties``."""

    penalties: Sequence[float] = PENALTIES

    def _choices(self, x: FloatArray, y: FloatArray) -> Iterator[tuple[float, FloatArray]]:
        mean, axes, spread = principal(x)
        covariance = ((x - mean) @ axes).T @ (y - y.mean(0)) / len(x)
        for penalty in self.penalties:
            yield penalty, axes @ (covariance / (spread**2 + penalty / len(x))[:, None])


class PrincipalComponents(_Linear):
    """Whole windows are points near a plane, of which what is seen fixes the most probable one (probabilistic PCA).
    The choice is a number of components of COMPONENTS."""

    def _choices(self, x: FloatArray, y: FloatArray) -> Iterator[tuple[float, FloatArray]]:
        mean, axes, spread = principal(np.concatenate([x, y], 1))
        for count in sorted({min(count, len(spread)) for count in COMPONENTS}):
            rest = float(np.square(spread[count:]).sum()) / max(len(mean) - count, 1) + 1e-12
            loadings = axes[:, :count] * spread[:count]
            known, wanted = loadings[: x.shape[1]], loadings[x.shape[1] :]
            yield count, np.linalg.solve(known.T @ known + rest * np.eye(count), known.T).T @ wanted.T


def plain_methods(step: float) -> dict[str, Method]:
    """All of them, by name. step: see :class:`ConstantVelocity`; 0 where states hold no velocities, and none then."""
    methods: dict[str, Method] = {"last_value": LastValue()}
    if step:
        methods["constant_velocity"] = ConstantVelocity(step)
    methods["linear_interpolation"] = LinearInterpolation()
    return methods | {"ridge": RidgeRegression(), "pca": PrincipalComponents()}


def hide(windows: FloatArray, hidden: int, seen: BoolArray) -> FloatArray:
    """Windows in which what is not seen is NaN."""
    out = windows.copy()
    out[:, -hidden:, ~seen] = np.nan
    return out


def hidden_sets(frames: int) -> dict[str, BoolArray]:
    """When the hidden agents are seen, by name of the set: never; in the first tenth of the window; in its first half;
    all but its middle third."""
    number: NDArray[np.int64] = np.arange(frames)
    third: Sequence[int] = (frames // 3, frames - frames // 3)
    return {
        "never": np.zeros(frames, bool),
        "early": number < frames // 10,
        "lost": number < frames // 2,
        "gap": (number < third[0]) | (number >= third[1]),
    }
