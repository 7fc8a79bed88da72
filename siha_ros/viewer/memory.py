"""What the viewer has heard of one team or body: plain copies of the messages, and a memory of them in order of time.

Shapes use A agents, T times. Units are metres and seconds, z up.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.types import Status

Floats = NDArray[np.float64]

Agent = tuple[str, str]  # group and name

CLOCK_JUMP = 1.0  # stamps going back by more than this (s) mean that the stream started anew


@dataclass(frozen=True)
class States:
    """The state of every agent of a group at one time (ReconstructedStates).

    Attributes:
        stamp: newest grid time (s).
        names: [A] agent names; status: int8[A] values of Status; reason: [A] one line each, "" for none.
        positions: f8[A, 3] (m); position_95: f8[A] radius (m); since_seen: f8[A] (s), -1 where never seen.
        latency: from the arrival of the newest observation to the message (s).
        bundle: name of the trained model; frame_id: of all positions.
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
    frame_id: str = ""

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
        times: f8[T] (s); names: [A]; positions: f8[A, T, 3] (m); covariance: f4[A, T, 2, 2] level with the ground
            (m^2), of a forecast.
    """

    stamp: float
    group: str
    names: list[str]
    times: Floats
    positions: Floats
    covariance: NDArray[np.floating]


@dataclass(frozen=True)
class Graph:
    """Who influences whom: f4[A, A] probability that the row's agent acts on the column's, diagonal 0."""

    stamp: float
    group: str
    names: list[str]
    probability: NDArray[np.floating]


@dataclass(frozen=True)
class Truth:
    """True positions f8[A, 3] (m) of agents, known only in simulations and recordings."""

    stamp: float
    group: str
    names: list[str]
    positions: Floats


class Score(NamedTuple):
    """What the curves need to know of one States.

    Attributes:
        error: rms error of the hidden agents (cm), 0 where none is hidden, NaN where the truth is unknown.
        position_95: rms of the hidden agents' 95 % radius (cm), 0 where none is hidden; latency: (ms).
        hidden: how many are hidden; lost: whether one became so.
    """

    stamp: float
    error: float
    position_95: float
    latency: float
    hidden: int
    lost: bool


@dataclass
class Figure:
    """How a set of agents is drawn.

    Attributes:
        bones: index pairs of joints to join; radius: of one agent's ball (m); ground: height of the ground (m).
        extent: largest distance of an agent from the middle so far (m).
    """

    bones: list[tuple[int, int]]
    radius: float
    ground: float
    extent: float


@dataclass
class Group:
    """One team or body at one time.

    Attributes:
        trail: states of the last seconds, without a gap, the ones of now last.
    """

    states: States
    figure: Figure
    trail: list[States] = field(default_factory=list)
    graph: Graph | None = None
    forecast: Paths | None = None
    window: Paths | None = None


class Stamped(Protocol):
    """Anything with a stamp (s)."""

    @property
    def stamp(self) -> float:
        """Its time (s)."""


Entry = TypeVar("Entry", bound=Stamped)


class Series(Generic[Entry]):
    """Entries in order of their stamps, of the last `keep` seconds."""

    def __init__(self, keep: float = math.inf) -> None:
        self._keep = keep
        self._stamps: list[float] = []
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Sequence[Entry]:
        """All of them."""
        return self._entries

    def add(self, entry: Entry) -> bool:
        """Take a newer entry; another of the newest stamp replaces it. False where it came too late and is left out.
        A clock that jumps back starts the series anew."""
        newest = self._stamps[-1] if self._stamps else -math.inf
        if entry.stamp < newest - CLOCK_JUMP:
            self.clear()
        elif entry.stamp < newest:
            return False
        elif entry.stamp == newest:
            self._entries[-1] = entry
            return True
        self._stamps.append(entry.stamp)
        self._entries.append(entry)
        old = bisect_left(self._stamps, entry.stamp - self._keep)
        del self._stamps[:old], self._entries[:old]
        return True

    def clear(self) -> None:
        """Forget all."""
        self._stamps.clear()
        self._entries.clear()

    def latest(self, at: float = math.inf) -> Entry | None:
        """The newest entry whose stamp is not after `at` (s)."""
        place = bisect_right(self._stamps, at)
        return self._entries[place - 1] if place else None

    def between(self, begin: float, end: float) -> list[Entry]:
        """Entries whose stamps are from `begin` to `end` (s), both included."""
        return self._entries[bisect_left(self._stamps, begin) : bisect_right(self._stamps, end)]

    def around(self, at: float) -> list[Entry]:
        """The one or two entries next to `at` (s), one on each side of it where there is one."""
        place = bisect_left(self._stamps, at)
        return self._entries[max(place - 1, 0) : place + 1]


class Scores:
    """Scores of the last `keep` seconds as rows of one array that grows, so that hours of them are at hand."""

    def __init__(self, keep: float = math.inf) -> None:
        self._keep = keep
        self._data = np.empty((256, len(Score._fields)))
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    @property
    def rows(self) -> Floats:
        """f8[N, 6] one row a Score, in order of time; valid until the next one comes."""
        return self._data[self._first : self._end]

    def add(self, score: Score) -> None:
        """Take a score that is not older than the newest; one of the same stamp replaces it."""
        if not len(self) or score.stamp > self.rows[-1, 0]:
            if self._end == len(self._data):
                self._make_room()
            self._end += 1
        self._data[self._end - 1] = score
        self._first += int(np.searchsorted(self.rows[:, 0], score.stamp - self._keep))

    def clear(self) -> None:
        """Forget all."""
        self._first = self._end = 0

    def _make_room(self) -> None:
        """Move what is kept to the front of an array with room for as much again."""
        kept = self.rows
        self._data = np.concatenate([kept, np.empty((max(256, len(kept)), kept.shape[1]))])
        self._first, self._end = 0, len(kept)


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
