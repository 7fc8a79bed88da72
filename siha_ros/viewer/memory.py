"""What the viewer has heard of one team or body: plain copies of the messages, and a bounded memory of them.

Shapes use A agents, T times. Units are metres and seconds, z up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.types import Status

Floats = NDArray[np.float64]

UNSCORED_MEMORY = 100  # states that may wait for the truth around their stamp


@dataclass(frozen=True)
class States:
    """The state of every agent of a group at one time (ReconstructedStates).

    Attributes:
        stamp: newest grid time (s).
        names: [A] agent names; status: int8[A] values of Status; reason: [A] one line each, "" for none.
        positions: f8[A, 3] (m); position_95: f8[A] radius (m); since_seen: f8[A] (s), -1 where never seen.
        latency: from the arrival of the newest observation to the message (s).
    """

    stamp: float
    group: str
    names: list[str]
    status: NDArray[np.int8]
    reason: list[str]
    positions: Floats
    position_95: Floats
    since_seen: Floats
    latency: float = 0.0
    bundle: str = ""

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """bool[A], true for the agents whose status is HIDDEN."""
        return self.status == Status.HIDDEN

    @property
    def drawable(self) -> NDArray[np.bool_]:
        """bool[A], true for the agents that have a place: one that was never seen has none."""
        return (self.status != Status.UNKNOWN) & np.isfinite(self.positions).all(axis=1)


@dataclass(frozen=True)
class Paths:
    """Positions of some agents at many times: a forecast, or the window of the hidden agents.

    Attributes:
        times: f8[T] (s); names: [A]; positions: f8[A, T, 3] (m); covariance: f8[A, T, 3, 3] (m^2).
    """

    stamp: float
    group: str
    names: list[str]
    times: Floats
    positions: Floats
    covariance: Floats


@dataclass(frozen=True)
class Graph:
    """Who influences whom: f8[A, A] probability that the row's agent acts on the column's, diagonal 0."""

    stamp: float
    group: str
    names: list[str]
    probability: Floats


@dataclass(frozen=True)
class Truth:
    """True positions f8[A, 3] (m) of agents, known only in simulations and recordings."""

    stamp: float
    group: str
    names: list[str]
    positions: Floats


@dataclass
class Group:
    """The latest of everything about one team or body.

    Attributes:
        bones: index pairs of joints to join; radius: of one agent's ball (m); ground: height of the ground (m).
        extent: largest distance of an agent from the middle so far (m).
        trail: (stamp, positions f8[A, 3], status int8[A]) of the last seconds.
        unscored: states that wait for the truth around their stamp.
        errors: f8[A] distance to the truth (m) of the newest scored states, NaN where unknown; None without truth.
        history: (stamp s, rms error of the hidden cm, their rms 95 % radius cm, latency ms) of the last seconds.
        arrivals: of the last seconds' states, on the steady clock (s).
    """

    states: States
    bones: list[tuple[int, int]]
    radius: float
    ground: float
    extent: float
    trail: deque[tuple[float, Floats, NDArray[np.int8]]] = field(default_factory=deque)
    graph: Graph | None = None
    forecast: Paths | None = None
    window: Paths | None = None
    unscored: deque[States] = field(default_factory=lambda: deque(maxlen=UNSCORED_MEMORY))
    errors: Floats | None = None
    history: deque[tuple[float, float, float, float]] = field(default_factory=deque)
    arrivals: deque[float] = field(default_factory=deque)


def truth_at(frames: Sequence[Truth], stamp: float, names: list[str], tolerance: float = 1e-6) -> Floats | None:
    """f8[A, 3] true positions at `stamp`, linear between frames, NaN for an agent without; None outside of the frames.

    The frames are in order of time. Outside of them by no more than `tolerance` (s), the nearest one counts.
    """
    if not frames:
        return None
    stamps = np.array([frame.stamp for frame in frames])
    if stamp < stamps[0] - tolerance or stamp > stamps[-1] + tolerance:
        return None
    after = int(np.searchsorted(stamps[:-1], stamp))
    right, left = frames[after], frames[max(after - 1, 0)]
    gap = right.stamp - left.stamp
    weight = float(np.clip((stamp - left.stamp) / gap, 0, 1)) if gap > 0 else 1.0
    between = (1 - weight) * left.positions + weight * right.positions
    place = {name: i for i, name in enumerate(right.names)}
    return np.array([between[place[name]] if name in place else [np.nan] * 3 for name in names]).reshape(-1, 3)
