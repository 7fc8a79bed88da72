"""What a position tells of itself, beside those before it and those of others: a pose that repeats while others move, a
jump that nothing makes, a place that another agent had.

A sample that is judged so is kept out. Who goes on to be where it jumped to is hidden after a while, as for any other
cause, and seen again there once it has stayed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.visibility import Cause, VisibilityParameters

NEAR = 0.25  # of the way to its own place: an agent that is so near to another's has taken that
SHORTEST_STEP = 2e-3  # s: over less, stamps tell no velocity
REPEATED = 7  # values that must all be the same: position and quaternion


class Plausibility:
    """Judges the samples of a group's agents, which must come in the order of their stamps.

    Attributes (one row per agent):
        values, changed: f8[A, 7] last position and quaternion as they came; f8[A] since when they are the same (s).
        accepted, accepted_at, velocity: f8[A, 3] last position that was believed (m), f8[A] when (s), f8[A, 3] (m/s).
        latest, latest_at: f8[A, 3] last position, believed or not (m); f8[A] when (s).
        gated: i8[A] Cause of the jump that the agent's last sample made, SEEN where it made none.
    """

    def __init__(self, parameters: VisibilityParameters, agents: int = 0) -> None:
        self.parameters = parameters
        self.values = np.full((agents, REPEATED), np.nan)
        self.accepted, self.latest = np.full((agents, 3), np.nan), np.full((agents, 3), np.nan)
        self.velocity = np.zeros((agents, 3))
        self.changed, self.accepted_at, self.latest_at = (np.full(agents, np.nan) for _ in range(3))
        self.gated = np.zeros(agents, dtype=np.int8)

    def grow(self, agents: int) -> None:
        """Make room for agents that joined."""
        fresh = Plausibility(self.parameters, agents - len(self.gated))
        for name, array in vars(fresh).items():
            if name != "parameters":
                setattr(self, name, np.concatenate([getattr(self, name), array]))

    def keep(self, agents: NDArray[np.int64]) -> None:
        """Forget all agents but those."""
        for name, array in vars(self).items():
            if name != "parameters":
                setattr(self, name, array[agents])

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
        causes = np.zeros(len(index), dtype=np.int8)
        if not trusted and self.parameters.frozen_after > 0.0:
            causes[self._repeats(index, stamp, positions, orientations)] = Cause.FROZEN
        moved = np.flatnonzero((causes == Cause.SEEN) & ~(stamp <= self.latest_at[index]))
        if not len(moved):
            return causes, []
        agents, places = index[moved], positions[moved]
        taken: list[tuple[int, int]] = []
        if self.parameters.max_speed > 0.0:
            causes[moved], taken = self._jumps(agents, stamp, places, shown)
        self._note(agents, stamp, places, causes[moved])
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
            values[:, 3:] = np.nan_to_num(orientations)
        same = (values == self.values[index]).all(axis=1)
        self.values[index] = values
        self.changed[index[~same]] = stamp
        if not same.any():
            return same
        changed = np.nan_to_num(self.changed, nan=-np.inf)
        newest = int(changed.argmax())
        others = np.full(len(index), changed[newest])
        others[index == newest] = np.delete(changed, newest).max(initial=-np.inf)
        alive = others > np.maximum(changed[index], stamp - self.parameters.silence_timeout)
        return np.asarray(same & alive)

    def _jumps(
        self, index: NDArray[np.int64], stamp: float, places: NDArray[np.float64], shown: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int8], list[tuple[int, int]]]:
        """Cause of each of the samples, and who took whose place."""
        p = self.parameters
        seen, before = shown[index], self.accepted[index]
        since = stamp - self.accepted_at[index]
        with np.errstate(invalid="ignore"):
            far = _length(places - before) > p.jump_margin + p.max_speed * since
            missed = _length(places - before - self.velocity[index] * since[:, None])
            again = (self.gated[index] != Cause.SEEN) & (_length(places - self.latest[index]) < missed)
            astray = seen & ~again & (far | (missed > p.jump_margin))
        causes = np.zeros(len(index), dtype=np.int8)
        causes[far] = Cause.JUMP
        causes[again] = self.gated[index[again]]
        taken = []
        for row in np.flatnonzero(astray):
            other = self._whose(int(index[row]), stamp, places[row], float(missed[row]), shown)
            if other is not None:
                causes[row] = Cause.SWAPPED
                taken.append((int(index[row]), other))
        return causes, taken

    def _whose(
        self, agent: int, stamp: float, place: NDArray[np.float64], missed: float, shown: NDArray[np.bool_]
    ) -> int | None:
        """The other agent that should be at a place which the agent missed its own for."""
        since = stamp - self.accepted_at
        with np.errstate(invalid="ignore"):
            distance = _length(place - self.accepted - self.velocity * since[:, None])
            distance[~(shown & (since <= self.parameters.silence_timeout))] = np.inf
        distance[agent] = np.inf
        other = int(distance.argmin())
        return other if distance[other] < NEAR * missed else None

    def _note(
        self,
        index: NDArray[np.int64],
        stamp: float,
        places: NDArray[np.float64],
        causes: NDArray[np.int8],
    ) -> None:
        good = causes == Cause.SEEN
        agents, place = index[good], places[good]
        since = stamp - self.accepted_at[agents]
        lasting = (since >= SHORTEST_STEP) & (since <= self.parameters.silence_timeout)
        step = (place - self.accepted[agents]) / np.where(lasting, since, np.inf)[:, None]
        self.velocity[agents] = np.where((since < SHORTEST_STEP)[:, None], self.velocity[agents], np.nan_to_num(step))
        self.accepted[agents], self.accepted_at[agents] = place, stamp
        self.latest[index], self.latest_at[index], self.gated[index] = places, stamp, causes

    def restart(self, index: NDArray[np.int64]) -> None:
        """Believe the next sample of each of these agents, wherever it is."""
        self.accepted_at[index], self.velocity[index], self.gated[index] = np.nan, 0.0, Cause.SEEN


def _length(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=-1)))
