"""Windows cut from complete recordings, with agents hidden in them: what a live stream would have shown, without
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siha_ros.window.types import Status, Window


@dataclass(frozen=True)
class Recording:
    """n complete recordings of the same agents, on the grid of a bundle: T frames of history, then F of the future.

    positions: f8[n, A, T + F, P] (m). velocities: the same shape (m/s), as the source measures them, or None where it
    measures none. edges: bool[n, A, A], the true graph, or None where nobody knows it. dt: s.
    """

    names: list[str]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float64] | None
    edges: NDArray[np.bool_] | None
    dt: float

    def __len__(self) -> int:
        return len(self.positions)

    def window(self, number: int, frames: int, hidden: NDArray[np.intp], lost_at: int) -> Window:
        """Recording ``number``'s first ``frames`` frames, in which the agents ``hidden`` are seen before frame
        ``lost_at`` only.
        """
        observed = np.ones((len(self.names), frames), dtype=bool)
        observed[hidden, lost_at:] = False
        measured = None if self.velocities is None else self.velocities[number, :, :frames]
        times: NDArray[np.float64] = np.arange(frames) * np.float64(self.dt)
        return window_of(self.names, times, self.positions[number, :, :frames], observed, measured)


def window_of(
    names: Sequence[str],
    times: NDArray[np.float64],
    positions: NDArray[np.float64],
    observed: NDArray[np.bool_],
    velocities: NDArray[np.float64] | None = None,
    last: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Window:
    """The window that shows what is ``observed`` bool[A, T] of true ``positions`` f8[A, T, P] (m) at ``times`` f8[T]
    (s).

    velocities: f8[A, T, P] (m/s), as measured. last: last_seen f8[A] (s), last_position f8[A, P] and last_velocity
    f8[A, P] of a Window; by default what the window itself shows.
    """
    shown = np.where(observed[..., None], positions, np.nan)
    measured = np.full_like(shown, np.nan) if velocities is None else np.where(observed[..., None], velocities, np.nan)
    last_seen, last_position, last_velocity = last or last_shown(times, shown, measured)
    now = observed[:, -1]
    return Window(
        names=list(names),
        times=times,
        positions=shown,
        velocities=measured,
        observed=observed,
        confidence=observed.astype(np.float32),
        status=np.where(now, Status.VISIBLE, Status.HIDDEN).astype(np.int8),
        reason=["" if visible else "hidden by the evaluation" for visible in now],
        last_seen=last_seen,
        last_position=last_position,
        last_velocity=last_velocity,
    )


def last_shown(
    times: NDArray[np.float64], shown: NDArray[np.float64], measured: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Time f8[A] (s), position and velocity f8[A, P] of the newest frame in which each agent is shown; NaN where in
    none.

    The velocity is the measured one, else the difference to the frame before, else zero.
    """
    agents, _, dims = shown.shape
    seen, where, moved = np.full(agents, np.nan), np.full((agents, dims), np.nan), np.full((agents, dims), np.nan)
    step = np.diff(shown, axis=1, prepend=np.nan) / (times[1] - times[0])
    for agent in np.flatnonzero(np.isfinite(shown[..., 0]).any(1)):
        newest = np.flatnonzero(np.isfinite(shown[agent, :, 0]))[-1]
        seen[agent], where[agent] = times[newest], shown[agent, newest]
        speed = np.where(np.isfinite(measured[agent, newest]), measured[agent, newest], step[agent, newest])
        moved[agent] = np.nan_to_num(speed)
    return seen, where, moved
