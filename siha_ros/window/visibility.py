"""Who is seen: one small state machine per agent, debounced in both directions, for all agents of a group at once.

Time here is stream time (stamps), so that a paused or slowed stream hides nobody. Positions are kept elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.grid import STAMP_TOLERANCE
from siha_ros.window.types import Status

FARTHEST = 1e8
"""A coordinate (m) beyond this is no position."""


class Cause(IntEnum):
    """Why an agent was not seen in a sample, or is not seen now."""

    SEEN = 0
    SILENT = 1
    MISSING = 2
    UNTRACKED = 3
    NOT_FINITE = 4
    ZERO = 5
    LATE = 6
    UNSURE = 7
    FROZEN = 8
    JUMP = 9
    SWAPPED = 10


SEEN = int(Cause.SEEN)  # what is compared with for every sample: members of an enumeration are slow to look up

CAUSE_TEXT = {
    Cause.SEEN: "seen",
    Cause.SILENT: "silent",
    Cause.MISSING: "missing from the message",
    Cause.UNTRACKED: "flagged as untracked",
    Cause.NOT_FINITE: "position is NaN, Inf or beyond 1e8 m",
    Cause.ZERO: "exactly at the origin",
    Cause.LATE: "stamps behind the newest of the group",
    Cause.UNSURE: "low confidence",
    Cause.FROZEN: "the same pose again while others move",
    Cause.JUMP: "jumped farther than anything moves",
    Cause.SWAPPED: "jumped to the place of another agent",
}


@dataclass(frozen=True)
class VisibilityParameters:
    """When an agent counts as hidden, and when as seen again.

    Attributes:
        silence_timeout: an agent whose last good sample is older than this, in stream time, is hidden (s).
        hide_after: an agent that is reported as not seen is hidden once this has lasted so long (s) ...
        hide_samples: ... and for so many samples in a row.
        show_after: a hidden or new agent is visible once it has been seen for so long (s) ...
        show_samples: ... and in so many samples. `hide_samples` bad ones in a row, or silence, start the count again.
        min_confidence: a sample of less confidence (0..1) counts as not seen.
        zero_is_unseen: what is exactly at the origin with an identity quaternion, or with none, counts as not seen, of
            sources that send that for what they lost. With a zero quaternion it always does.
        frozen_after: an agent whose pose is the same to the bit while others move is hidden once that has lasted so
            long (s), at the latest after silence_timeout; 0 leaves it seen.
        max_speed: what moves faster (m/s) has jumped; 0 lets everything pass.
        jump_margin: a move by less (m) is no jump, however short the time: noise, and stamps that jitter.
    """

    silence_timeout: float = 0.3
    hide_after: float = 0.12
    hide_samples: int = 4
    show_after: float = 0.1
    show_samples: int = 3
    min_confidence: float = 0.3
    zero_is_unseen: bool = True
    frozen_after: float = 0.25
    max_speed: float = 20.0
    jump_margin: float = 0.3

    def __post_init__(self) -> None:
        for name in ("silence_timeout", "hide_after", "show_after"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0) or (name == "silence_timeout" and value == 0):
                raise ValueError(f"{name} is {value}, expected a time in seconds, above 0 for silence_timeout")
        for name in ("min_confidence", "frozen_after", "max_speed", "jump_margin"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number, 0 or more")
        for name in ("hide_samples", "show_samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")


def unseen_causes(
    positions: NDArray[np.float64],
    tracked: NDArray[np.bool_],
    orientations: NDArray[np.float64] | None = None,
    confidence: NDArray[np.float64] | None = None,
    *,
    trusted: bool = True,
    min_confidence: float = 0.0,
) -> NDArray[np.int8]:
    """The first Cause that makes a sample unusable by itself, per agent; SEEN for a good one.

    Args:
        positions: f8[n, 3] (m).
        tracked: bool[n], the message's own flag, true where it has none.
        orientations: f8[n, 4] quaternions (x, y, z, w), NaN rows where there is none. A NaN quaternion hides nobody
            who is not at the origin.
        confidence: f8[n], None where there is none.
        trusted: the origin is a place like any other, but for a zero quaternion; else it stands for what is lost.
        min_confidence: a sample of less is not seen.
    """
    causes = np.zeros(len(positions), dtype=np.int8)
    if not positions.all() and (lost := np.asarray(~positions.any(axis=1))).any():
        if orientations is not None:
            turned = np.isfinite(orientations).all(axis=1) & orientations[:, :3].any(axis=1)
            lost &= ~(orientations.any(axis=1) if trusted else turned)
        elif trusted:
            lost[:] = False
        causes[lost] = Cause.ZERO
    near = np.abs(positions) < FARTHEST
    if not near.all():
        causes[~near.all(axis=1)] = Cause.NOT_FINITE
    if confidence is not None:
        causes[~(confidence >= min_confidence)] = Cause.UNSURE
    if not tracked.all():
        causes[~tracked] = Cause.UNTRACKED
    return causes


def valid_orientations(orientations: NDArray[np.float64]) -> NDArray[np.bool_]:
    """bool[n]: whether quaternions f8[n, 4] are orientations, once divided by their length: neither NaN nor next to
    nothing nor beyond all measure."""
    largest = np.abs(orientations).max(axis=1)
    return np.asarray((largest > 1e-3) & (largest < 1e3))


NONE = np.zeros(0, dtype=np.int64)
"""The indices of no agent."""


class PerAgent:
    """Parameters and, in every other attribute, an array with one row per agent."""

    def __init__(self, parameters: VisibilityParameters, agents: int = 0) -> None:
        self.parameters = parameters

    def grow(self, agents: int) -> None:
        """Make room for agents that joined."""
        now = next(len(array) for name, array in vars(self).items() if name != "parameters")
        for name, fresh in vars(type(self)(self.parameters, agents - now)).items():
            if name != "parameters":
                setattr(self, name, np.concatenate([getattr(self, name), fresh]))

    def keep(self, agents: NDArray[np.int64]) -> None:
        """Forget all agents but those."""
        for name, array in vars(self).items():
            if name != "parameters":
                setattr(self, name, array[agents])


class Visibility(PerAgent):
    """Who of a group's agents is shown (believed to be seen), since when not, and why.

    Arrays have one entry per agent:
        shown: bool, the debounced verdict.
        ever_shown: bool, whether it was shown at any time.
        last_message, last_good: f8, newest stamp of any sample and of any believed one (s), NaN when none.
        last_heard, last_named: f8, newest stamp of the group when the agent's last sample came (s), NaN when none; and
            when a message last named it.
        run_start, run_last, run_count: the run of good samples of an agent that is not shown (yet).
        bad_count, cause: number of bad samples in a row, and the Cause of the latest or of the hiding.
    """

    def __init__(self, parameters: VisibilityParameters, agents: int = 0) -> None:
        super().__init__(parameters)
        self.shown = np.zeros(agents, dtype=bool)
        self.ever_shown = np.zeros(agents, dtype=bool)
        self.last_message = np.full(agents, np.nan)
        self.last_good = np.full(agents, np.nan)
        self.last_heard = np.full(agents, np.nan)
        self.last_named = np.full(agents, np.nan)
        self.run_start = np.full(agents, np.nan)
        self.run_last = np.full(agents, np.nan)
        self.run_count = np.zeros(agents, dtype=np.int64)
        self.bad_count = np.zeros(agents, dtype=np.int64)
        self.cause = np.full(agents, Cause.SILENT, dtype=np.int8)

    def silence(self, newest: float, resumed: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Hide the agents that have been without a good sample for too long.

        Args:
            newest: newest stamp of the group (s).
            resumed: stamp (s) at which the stream as a whole last began or went on; silence counts from there.

        Returns:
            Indices of the agents hidden by this call, and of those whose run of good samples broke off unbelieved.
        """
        limit = newest - self.parameters.silence_timeout - STAMP_TOLERANCE
        if resumed >= limit or not (np.where(self.shown, self.last_good, self.run_last) < limit).any():
            return NONE, NONE
        hidden = np.flatnonzero(self.shown & (self.last_good < limit))
        broken = np.flatnonzero(~self.shown & (self.run_last < limit))
        if len(hidden):
            flagged = self.bad_count[hidden] > 0
            quiet = self.last_heard[hidden] < limit
            cause = np.where(flagged, self.cause[hidden], Cause.LATE)
            self.cause[hidden] = np.where(quiet, Cause.SILENT, cause)
            self.shown[hidden] = False
        self._end_runs(broken)
        return hidden, broken

    def observe(
        self, index: NDArray[np.int64], stamp: float, causes: NDArray[np.int8], newest: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take note of one sample of each indexed agent. Samples older than the agent's newest change no verdict.

        Args:
            index: i8[n] agents.
            stamp: of the samples (s).
            causes: i8[n], values of Cause.
            newest: newest stamp of the group (s).

        Returns:
            Indices as those of `silence`.
        """
        p = self.parameters
        self.last_heard[index] = newest
        self.last_named[index[causes != Cause.MISSING] if causes.any() else index] = newest
        early = stamp <= self.last_message[index]
        if early.any():
            index, causes = index[~early], causes[~early]
        self.last_message[index] = stamp
        seen = causes == SEEN
        good = index if seen.all() else index[seen]
        shown = self.shown[good]
        self.bad_count[good] = 0
        self.last_good[good if shown.all() else good[shown]] = stamp
        if not shown.all():
            waiting = good[~shown]
            self.run_start[waiting] = np.where(self.run_count[waiting] == 0, stamp, self.run_start[waiting])
            self.run_count[waiting] += 1
            self.run_last[waiting] = stamp
            lasted = stamp - self.run_start[waiting] >= p.show_after - STAMP_TOLERANCE
            believed = waiting[(self.run_count[waiting] >= p.show_samples) & lasted]
            self.shown[believed] = self.ever_shown[believed] = True
            self.last_good[believed] = stamp
            self._end_runs(believed)
        if len(good) == len(index):
            return NONE, NONE
        bad = index[~seen]
        self.bad_count[bad] += 1
        enough = self.bad_count[bad] >= p.hide_samples
        shown = self.shown[bad]
        self.cause[bad] = causes[~seen]
        lasting = np.where(causes[~seen] == Cause.FROZEN, p.frozen_after, p.hide_after)
        hidden = bad[shown & enough & (stamp - self.last_good[bad] >= lasting - STAMP_TOLERANCE)]
        broken = bad[~shown & enough & (self.run_count[bad] > 0)]
        self.shown[hidden] = False
        self._end_runs(broken)
        return hidden, broken

    def verdict(
        self, newest: float, started: float, grid_newest: float, observed: NDArray[np.bool_], fixed: bool
    ) -> tuple[NDArray[np.int8], list[str]]:
        """Status and reason of each agent.

        Args:
            newest: newest stamp of the group (s).
            started: first stamp of the group since the last reset (s).
            grid_newest: newest grid time (s).
            observed: bool[A], whether the window has a position at that time.
            fixed: the names are known beforehand, so an agent never seen is hidden; else it is unknown.
        """
        bridged = self.shown & observed & (self.last_good < grid_newest - STAMP_TOLERANCE)
        status = np.full(len(self.shown), Status.UNKNOWN, dtype=np.int8)
        status[self.shown] = Status.WARMING_UP
        status[self.shown & observed] = Status.VISIBLE
        status[bridged] = Status.BRIDGED
        status[~self.shown & self.ever_shown] = Status.HIDDEN
        new = ~self.shown & ~self.ever_shown
        status[new & (self.run_count > 0)] = Status.WARMING_UP
        if fixed and newest - started > self.parameters.silence_timeout:
            status[new & (self.run_count == 0)] = Status.HIDDEN
        reason = [""] * len(status)
        for agent in np.flatnonzero(status != Status.VISIBLE):
            reason[agent] = self._reason(int(agent), Status(status[agent]), newest)
        return status, reason

    def _reason(self, agent: int, status: Status, newest: float) -> str:
        why = CAUSE_TEXT[Cause(self.cause[agent])]
        age = newest - self.last_good[agent]
        if status == Status.BRIDGED:
            flagged = f", {why}" if self.bad_count[agent] else ""
            return f"bridged: last sample {age:.2f} s old{flagged}"
        if status == Status.UNKNOWN:
            return "not seen yet" if np.isnan(self.last_message[agent]) else f"not seen yet: {why}"
        if self.run_count[agent]:
            again, lost = ("again ", f"; before: {why}") if self.ever_shown[agent] else ("", "")
            return f"seen {again}for {newest - self.run_start[agent]:.2f} s of {self.parameters.show_after:.2f} s{lost}"
        if status == Status.WARMING_UP:
            return "no sample near the newest grid time yet"
        if not self.ever_shown[agent]:
            return f"never seen: {why}"
        return f"{why} for {age:.2f} s"

    def _end_runs(self, index: NDArray[np.int64]) -> None:
        self.run_count[index] = 0
        self.run_start[index] = self.run_last[index] = np.nan
