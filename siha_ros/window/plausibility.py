"""What a position tells of itself, beside those before it and those of others: a pose that repeats while others move, a
jump that nothing makes, a place that another agent had.

A sample that is judged so is kept out. Who goes on to be where it jumped to is hidden after a while, as for any other
cause, and seen again there once it has stayed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.visibility import SEEN, Cause, PerAgent, VisibilityParameters

NEAR = 0.25  # of the way to its own place: an agent that is so near to another's has taken that
SHORTEST_STEP = 2e-3  # s: over less, stamps tell no velocity
REPEATED = 7  # values that must all be the same: position and quaternion


class Plausibility(PerAgent):
    """Judges the samples of a group's agents, which must come in the order of their stamps.

    Attributes (one row per agent):
        values, changed: f8[A, 7] last position and quaternion as they came; f8[A] since when they are the same (s).
        track: f8[A, 2, 4] the last sample that was believed and the one before: position (m) and stamp (s).
        gated, elsewhere: i8[A] Cause of the jump that the agent's last sample made, SEEN where it made none; f8[A, 3]
            where to (m).
    """

    def __init__(self, parameters: VisibilityParameters, agents: int = 0) -> None:
        super().__init__(parameters)
        self.values, self.changed = np.full((agents, REPEATED), np.nan), np.full(agents, np.nan)
        self.track = np.full((agents, 2, 4), np.nan)
        self.gated, self.elsewhere = np.zeros(agents, dtype=np.int8), np.full((agents, 3), np.nan)

    def restart(self, index: NDArray[np.int64]) -> None:
        """Believe the next sample of each of these agents, wherever it is."""
        self.track[index], self.gated[index] = np.nan, Cause.SEEN

    def judge(
        self,
        index: NDArray[np.int64],
        stamp: float,
        positions: NDArray[np.float64],
        orientations: NDArray[np.float64] | None,
        shown: NDArray[np.bool_],
        trusted: bool,
    ) -> tuple[NDArray[np.int8], list[tuple[int, int]]]:
        """The Cause of each sample of one stamp, and who took whose place.

        Args:
            index: i8[n] agents.
            stamp: (s).
            positions: f8[n, 3] (m), good ones.
            orientations: f8[n, 4] quaternions, None where there are none.
            shown: bool[A], who is believed to be seen.
            trusted: the source repeats a pose only of what stands still.
        """
        if trusted or not self.parameters.frozen_after:
            return self._believe(index, stamp, positions, shown)
        repeated = self._repeats(index, stamp, positions, orientations)
        if not repeated.any():
            return self._believe(index, stamp, positions, shown)
        causes, moved = repeated * np.int8(Cause.FROZEN), np.flatnonzero(~repeated)
        causes[moved], taken = self._believe(index[moved], stamp, positions[moved], shown)
        return causes, taken

    def _believe(
        self, index: NDArray[np.int64], stamp: float, places: NDArray[np.float64], shown: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int8], list[tuple[int, int]]]:
        """Cause of each of the samples, and who took whose place; those that are believed become the newest ones."""
        track = self.track[index]
        step = places - track[:, 0, :3]
        short = (step * step).sum(axis=1) <= (0.5 * self.parameters.jump_margin) ** 2
        causes = np.zeros(len(index), dtype=np.int8)
        believed: slice | NDArray[np.bool_] = slice(None)
        taken: list[tuple[int, int]] = []
        if self.parameters.max_speed and (not short.all() or self.gated.any()):  # seldom
            causes, taken = self._jumps(index, stamp, places, track, shown)
            self.gated[index], self.elsewhere[index] = causes, places
            believed = causes == SEEN
        track[believed, 1] = track[believed, 0]
        track[believed, 0, :3], track[believed, 0, 3] = places[believed], stamp
        self.track[index] = track
        return causes, taken

    def _repeats(
        self,
        index: NDArray[np.int64],
        stamp: float,
        positions: NDArray[np.float64],
        orientations: NDArray[np.float64] | None,
    ) -> NDArray[np.bool_]:
        """bool[n]: to the bit what the sample before was, while the newest change of another agent came later."""
        values = np.zeros((len(index), REPEATED))
        values[:, :3] = positions
        if orientations is not None:
            values[:, 3:] = np.where(np.isnan(orientations), 0.0, orientations)
        same = (values == self.values[index]).all(axis=1)
        self.values[index] = values
        if not same.any():
            self.changed[index] = stamp
            return same
        self.changed[index[~same]] = stamp
        changed = np.nan_to_num(self.changed, nan=-np.inf)
        newest = int(changed.argmax())
        others = np.full(len(index), changed[newest])
        others[index == newest] = np.delete(changed, newest).max(initial=-np.inf)
        alive = others > np.maximum(changed[index], stamp - self.parameters.silence_timeout)
        return np.asarray(same & alive)

    def _jumps(
        self,
        index: NDArray[np.int64],
        stamp: float,
        places: NDArray[np.float64],
        track: NDArray[np.float64],
        shown: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int8], list[tuple[int, int]]]:
        """Cause of each of the samples, and who took whose place."""
        p = self.parameters
        step = _length(places - track[:, 0, :3])
        missed = _length(places - self._expected(track, stamp))
        far = step > p.jump_margin + p.max_speed * (stamp - track[:, 0, 3])
        again = (self.gated[index] != Cause.SEEN) & (_length(places - self.elsewhere[index]) < missed)
        astray = shown[index] & ~again & (far | (np.minimum(missed, 2.0 * step) > p.jump_margin))
        causes = np.zeros(len(index), dtype=np.int8)
        causes[far] = Cause.JUMP
        causes[again] = self.gated[index[again]]
        taken = []
        for row in np.flatnonzero(astray):
            agent = int(index[row])
            distance = _length(places[row] - self._expected(self.track, stamp))
            recent = stamp - self.track[:, 0, 3] <= p.silence_timeout
            distance = np.where(shown & recent, distance, np.inf)
            distance[agent] = np.inf
            other = int(distance.argmin())
            if distance[other] < NEAR * missed[row]:
                causes[row] = Cause.SWAPPED
                taken.append((agent, other))
        return causes, taken

    def _expected(self, track: NDArray[np.float64], stamp: float) -> NDArray[np.float64]:
        """f8[n, 3]: where agents should be by their tracks f8[n, 2, 4] and the velocities that these tell (m)."""
        step = track[:, 0] - track[:, 1]
        since = step[:, 3:]
        telling = (since >= SHORTEST_STEP) & (since <= self.parameters.silence_timeout)
        velocity = np.where(telling, step[:, :3], 0.0) / np.where(telling, since, 1.0)
        return np.asarray(track[:, 0, :3] + velocity * (stamp - track[:, 0, 3:]))


def _length(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=-1)))
