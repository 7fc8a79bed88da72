"""How good the recovered states and the graph were: errors by time since loss, edge accuracy, and the report. No ROS.

Agents are compared by name, never aligned to the truth. An agent is lost while the stream does not carry it, whatever
the node says of it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

TEAM_BINS = {"0-0.5": 0.5, "0.5-1": 1.0, "1-2": 2.0, "2-5": 5.0, "over 5": np.inf}  # label: longest time since loss (s)
BODY_BINS = {"under 0.1": 0.1, "0.1-0.3": 0.3, "0.3-1": 1.0, "over 1": np.inf}
LONGEST_GAP = 0.2  # s between two frames of truth up to which the truth between them is taken as known
NEW_RECORDING = 0.4  # s: a stream that pauses for longer is another recording, and begins anew


@dataclass(frozen=True)
class Truth:
    """The truth at one time: positions f8[A, 3] (m), lost bool[A] and since_loss f8[A] (s, 0 for those seen)."""

    names: list[str]
    positions: NDArray[np.float64]
    lost: NDArray[np.bool_]
    since_loss: NDArray[np.float64]


class TruthLog:
    """Frames of truth of the last minute, and the truth between two of them."""

    def __init__(self, memory: float = 60.0) -> None:
        self._memory = memory
        self._frames: deque[tuple[float, NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]] = deque()
        self.names: list[str] = []

    @property
    def newest(self) -> float:
        """Stamp of the newest frame (s), -inf before the first."""
        return self._frames[-1][0] if self._frames else -np.inf

    def add(
        self, stamp: float, names: Sequence[str], positions: NDArray[np.float64], tracked: NDArray[np.bool_]
    ) -> None:
        """A frame: positions f8[A, 3] (m), tracked bool[A], false where the stream does not carry the agent."""
        if list(names) != self.names:
            self.names = list(names)
            self._frames.clear()
        if self._frames and stamp - self.newest > NEW_RECORDING:
            self._frames.clear()
        last_seen = self._frames[-1][3] if self._frames else np.full(len(names), np.nan)
        self._frames.append((stamp, positions, tracked, np.where(tracked, stamp, last_seen)))
        while stamp - self._frames[0][0] > self._memory:
            self._frames.popleft()

    def at(self, stamp: float) -> Truth | None:
        """Linear between the two frames around a stamp; None outside of the frames kept, before an agent was seen, and
        between frames over LONGEST_GAP apart."""
        if not self._frames or not self._frames[0][0] <= stamp <= self.newest:
            return None
        after = next(i for i, frame in enumerate(self._frames) if frame[0] >= stamp)
        t1, x1, tracked, seen = self._frames[after]
        t0, x0, _, _ = self._frames[max(after - 1, 0)]
        weight = (stamp - t0) / (t1 - t0) if t1 > t0 else 1.0
        if not np.isfinite(seen).all() or (stamp < t1 and t1 - t0 > LONGEST_GAP):
            return None
        return Truth(self.names, x0 + weight * (x1 - x0), ~tracked, np.where(tracked, 0.0, stamp - seen))


@dataclass
class GraphCount:
    """Edges counted by what was predicted and what is true: i8[2, 2] for pairs of seen agents, of a seen and a lost
    one, of lost ones."""

    counts: dict[str, NDArray[np.int64]] = field(
        default_factory=lambda: {key: np.zeros((2, 2), dtype=np.int64) for key in ("vv", "vh", "hh")}
    )

    def add(self, probability: NDArray[np.floating], edges: NDArray[np.bool_], lost: NDArray[np.bool_]) -> None:
        """probability f[A, A] of type 1, edges bool[A, A], lost bool[A]."""
        predicted = probability > 0.5
        pairs = lost[:, None].astype(int) + lost[None, :]
        off_diagonal = ~np.eye(len(lost), dtype=bool)
        for number, counts in enumerate(self.counts.values()):
            chosen = (pairs == number) & off_diagonal
            np.add.at(counts, (predicted[chosen].astype(int), edges[chosen].astype(int)), 1)

    @property
    def swapped(self) -> bool:
        """Whether type 0 means an edge: the one renaming of types that fits all edges together best."""
        total = np.sum(list(self.counts.values()), axis=0)
        return bool(np.trace(total) < np.trace(total[::-1]))

    def accuracy(self, swapped: bool | None = None) -> dict[str, float | None]:
        """Percent of the edges that are right, None where there are none; swapped None: as these edges themselves
        say."""
        step = -1 if (self.swapped if swapped is None else swapped) else 1
        return {key: 100 * float(np.trace(c[::step]) / c.sum()) if c.sum() else None for key, c in self.counts.items()}


class Score:
    """Everything that is counted in a run; errors and graph are those of estimates made while someone was lost.

    Attributes (some of them):
        unscored: estimates left out since the truth at their stamp is not known, or what they rest on was not heard.
    """

    def __init__(self, bins: Mapping[str, float]) -> None:
        self._labels, self._limits = list(bins), np.array(list(bins.values()))
        self._squares: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros((len(bins), 2)))
        self.graph = GraphCount()
        self.latencies: list[float] = []
        self.stamps: list[float] = []
        self.nonfinite = 0
        self.unscored = 0
        self.episodes = 0
        self.most_lost = 0
        self.agents = 0
        self._lost_before: frozenset[str] = frozenset()
        self.trace: list[tuple[float, float, dict[str, float]]] = []

    def add_message(self, stamp: float, latency: float) -> None:
        """One estimate of the node: stamp and latency in s."""
        self.stamps.append(stamp)
        self.latencies.append(latency)

    def note_lost(self, names: Sequence[str], agents: int) -> None:
        """Who the stream does not carry at this moment, of how many agents; a loss episode is a change of who is lost
        that adds someone."""
        now = frozenset(names)
        self.episodes += bool(now - self._lost_before)
        self._lost_before = now
        self.most_lost = max(self.most_lost, len(now))
        self.agents = agents

    def add_errors(
        self, stamp: float, since_loss: NDArray[np.float64], errors: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """Distances f8[L] (m) between truth and each method's positions of the L agents that are lost at a stamp
        (s)."""
        place = np.searchsorted(self._limits, since_loss, side="left")
        for method, error in errors.items():
            finite = np.isfinite(error)
            self.nonfinite += int((~finite).sum())
            np.add.at(
                self._squares[method], place[finite], np.stack([error[finite] ** 2, np.ones(finite.sum())], axis=1)
            )
        rms = {method: float(np.sqrt(np.mean(error**2))) for method, error in errors.items()}
        self.trace.append((stamp, float(since_loss.max()), rms))

    def rmse_cm(self) -> dict[str, dict[str, float | None]]:
        """Root mean square distance in cm of each method in each bin of time since loss, and over all; None where
        nothing was counted."""
        table = {}
        for method, squares in self._squares.items():
            rows = dict(zip(self._labels, squares, strict=True)) | {"all": squares.sum(axis=0)}
            table[method] = {
                label: 100 * float(np.sqrt(total / count)) if count else None for label, (total, count) in rows.items()
            }
        return table

    @property
    def rate(self) -> float:
        """Estimates per second of stream time; gaps of over half a second (between two recordings) are left out."""
        gaps = np.diff(self.stamps)
        gaps = gaps[(gaps > 0) & (gaps < 0.5)]
        return float(1 / gaps.mean()) if len(gaps) else 0.0

    def report(self) -> dict[str, Any]:
        """The report of a run, schema 1; numbers are rounded to three decimals."""
        percentiles = np.percentile(self.latencies, (50, 99)) * 1e3 if self.latencies else (None, None)
        report: dict[str, Any] = _rounded(
            {
                "schema": 1,
                "agents": self.agents,
                "hidden": self.most_lost,
                "losses": self.episodes,
                "rmse_cm": self.rmse_cm(),
                "graph_accuracy": self.graph.accuracy(),
                "latency_ms": dict(zip(("p50", "p99"), percentiles, strict=True)),
                "rate_hz": self.rate,
                "frames": len(self.stamps),
                "nonfinite": self.nonfinite,
                "unscored": self.unscored,
            }
        )
        return report


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(float(value), 3) if isinstance(value, (float, np.floating)) else value
