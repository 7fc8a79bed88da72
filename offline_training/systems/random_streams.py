"""Random numbers of the simulators: each trajectory has a stream of its own, named by (seed, purpose, index).

So results do not depend on how a set is cut into calls or threads. SplitMix64 (Steele, Lea, Flood 2014), compiled.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Stream: TypeAlias = NDArray[np.uint64]  # state of a random stream, one number

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stream_base(seed: int, purpose: int) -> np.uint64:
    """What all streams of a seed and a purpose begin from."""
    return np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)[0]


@njit(cache=True, nogil=True)
def _mix(z: np.uint64) -> np.uint64:
    """SplitMix64's finaliser."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def uniform(state: Stream) -> float:
    """Next number in [0, 1) of the stream whose state is state[0]."""
    state[0] += _GOLDEN
    return float(_mix(state[0]) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def open_stream(state: Stream, base: np.uint64, index: int) -> None:
    """Set ``state`` to the beginning of the stream of an index."""
    state[0] = _mix(base + np.uint64(index) * _GOLDEN)


@njit(cache=True, nogil=True)
def draw_edges(state: Stream, edges: NDArray[np.bool_], probability: float) -> None:
    """Fill ``edges bool[A, A]`` (zero diagonal): each pair joined, in both directions, with a probability."""
    for i in range(edges.shape[0]):
        for j in range(i):
            edges[i, j] = edges[j, i] = uniform(state) < probability
