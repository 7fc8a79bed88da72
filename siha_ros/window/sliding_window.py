"""Sliding window: observations of a group go in as they come, windows on a uniform grid come out at any time.

One SlidingWindow serves one group (a team or a body). Memory is bounded whatever the rate. All times are stamps of the
stream; a steady clock, passed in by the caller as `now`, only tells that the stream as a whole has stopped, and how the
agents' clocks differ. Calls from several threads are safe.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from siha_ros.window.grid import STAMP_TOLERANCE
from siha_ros.window.plausibility import Plausibility
from siha_ros.window.rings import SampleRings, grown
from siha_ros.window.types import Status, Window
from siha_ros.window.visibility import (
    FARTHEST,
    SEEN,
    Cause,
    Visibility,
    VisibilityParameters,
    unseen_causes,
    valid_orientations,
)

LARGEST_STAMP = 1e11
"""A stamp beyond this (s) is not in seconds."""

RATE_SPAN = 3.0
"""Time (s) over which the rate of the stream is judged, where a window is shorter."""

NOTES_KEPT = 64
"""Number of notes, and of unknown names, that are kept for the caller."""


@dataclass(frozen=True)
class Observation:
    """One sample of one agent.

    Attributes:
        stamp: time of the sample (s).
        group: name of the team or body; whoever feeds the windows sorts by it.
        agent: name of the agent.
        position: f8[3] (m); None or NaN says that the source looked and did not see the agent.
        velocity: f8[3] (m/s) as measured, or None.
        orientation: quaternion (x, y, z, w), or None.
        confidence: 0..1.
        tracked: the source's own flag.
    """

    stamp: float
    group: str
    agent: str
    position: ArrayLike | None
    velocity: ArrayLike | None = None
    orientation: ArrayLike | None = None
    confidence: float = 1.0
    tracked: bool = True


@dataclass(frozen=True)
class WindowParameters(VisibilityParameters):
    """How the window treats time; the defaults suit 10 to 240 Hz.

    Attributes (beside those of VisibilityParameters):
        grid_delay: newest stamp of the group minus newest grid time (s); None is one grid step.
        max_gap: longest gap between two samples of an agent that is filled by interpolation (s).
        reorder_tolerance: a sample that is older than the group's newest by up to this is put in its place (s); beyond,
            time went back.
        stale_timeout: the stream as a whole counts as stopped after so long without a message, by the steady clock (s).
        max_rate: samples of one agent that come faster than this are thinned (Hz); sets the memory.
        max_agents: agents beyond this number are refused.
        forget_after: an agent of an open group that no message has named for so long is forgotten (s); 0 keeps all.
        velocity_span: time over which the velocity at the last sample is fitted (s), three samples at least.
        velocity_samples: most samples used for it.
    """

    grid_delay: float | None = None
    max_gap: float = 0.3
    reorder_tolerance: float = 0.5
    stale_timeout: float = 1.0
    max_rate: float = 480.0
    max_agents: int = 64
    forget_after: float = 60.0
    velocity_span: float = 0.1
    velocity_samples: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_gap", "reorder_tolerance", "stale_timeout", "max_rate", "velocity_span"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number above 0")
        if self.grid_delay is not None and not (math.isfinite(self.grid_delay) and self.grid_delay >= 0):
            raise ValueError(f"grid_delay is {self.grid_delay}, expected seconds, 0 or more, or None for one grid step")
        if not (math.isfinite(self.forget_after) and self.forget_after >= 0):
            raise ValueError(f"forget_after is {self.forget_after}, expected seconds, 0 or more")
        for name, least in (("max_agents", 1), ("velocity_samples", 3)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least {least}")


class SlidingWindow:
    """The recent past of one group of agents, resampled to the model's grid on demand.

    Args:
        dt: grid step (s).
        length: number of grid times T, at least 2.
        dims: P, 2 (x, y) or 3.
        names: agents of a fixed group, in the order of the arrays; None for an open group, which takes each name as it
            first appears.
        parameters: see WindowParameters.

    Attributes:
        names: agent names.
        rejected: number of samples that were not used, by reason.
        resets: number of times the window started afresh, and last_reset, why it last did.
        newest: newest stamp (s), NaN before the first.
    """

    newest: float
    _visibility: Visibility
    _plausibility: Plausibility
    _last_position: NDArray[np.float64]
    _last_velocity: NDArray[np.float64]
    _orientations: NDArray[np.float64]
    _oriented: NDArray[np.float64]
    _heights: NDArray[np.float64]
    _delay: NDArray[np.float64]
    _place: dict[str, int]
    _known_names: list[str]
    _known_index: NDArray[np.int64]
    _known_rows: NDArray[np.int64]
    _lag: float
    _astray: dict[str, tuple[float, float]]
    """Delay and arrival (s) of the newest sample of agents for whose stamps it was not used."""

    def __init__(
        self,
        dt: float,
        length: int,
        dims: int = 3,
        names: Sequence[str] | None = None,
        parameters: WindowParameters | None = None,
    ) -> None:
        if not (math.isfinite(dt) and dt > 0):
            raise ValueError(f"dt is {dt}, expected a grid step in seconds above 0")
        if length < 2 or dims not in (2, 3):
            raise ValueError(f"length is {length} and dims {dims}, expected at least 2 grid times of 2 or 3 dimensions")
        if names is not None and len(set(names)) != len(names):
            raise ValueError(f"agent names must differ, got {list(names)}")
        self.dt, self.length, self.dims = dt, length, dims
        self.parameters = p = parameters or WindowParameters()
        self.fixed = names is not None
        self.grid_delay = dt if p.grid_delay is None else p.grid_delay
        self.duration = (length - 1) * dt
        reach = max(self.duration + self.grid_delay + p.max_gap, p.reorder_tolerance)
        self._cells = math.ceil(reach * p.max_rate) + 3
        self._grid = -self.grid_delay - dt * np.arange(length - 1, -1, -1)
        self._lock = threading.RLock()
        self.names: list[str] = list(names or [])
        self.rejected: Counter[str] = Counter()
        self.resets, self.last_reset = 0, ""
        self._arrival = math.nan
        self._notes: deque[str] = deque(maxlen=NOTES_KEPT)
        self._said: set[str] = set()
        self._suspects: deque[_Frame] = deque(maxlen=4 * p.max_agents)
        self._clear()

    # ---------------------------------------------------------------- in

    def add(self, observation: Observation, now: float | None = None) -> None:
        """Take one sample of one agent; `now` is a steady clock at its arrival (s)."""
        o = observation
        self.add_frame(
            o.stamp,
            _rows([np.nan] * 3 if o.position is None else o.position),
            np.array([o.tracked and o.position is not None]),
            names=[o.agent],
            velocities=None if o.velocity is None else _rows(o.velocity),
            orientations=None if o.orientation is None else _rows(o.orientation),
            confidence=np.array([o.confidence]),
            complete=False,
            now=now,
        )

    def add_frame(
        self,
        stamp: float,
        positions: NDArray[np.float64],
        tracked: NDArray[np.bool_] | None = None,
        *,
        names: Sequence[str] | None = None,
        velocities: NDArray[np.float64] | None = None,
        orientations: NDArray[np.float64] | None = None,
        confidence: NDArray[np.float64] | None = None,
        complete: bool = True,
        trusted: bool = True,
        now: float | None = None,
    ) -> None:
        """Take samples of several agents at one stamp.

        Args:
            stamp: (s).
            positions: f8[n, 3] or [n, 2] (m), NaN for an agent not seen.
            tracked: bool[n], the source's own flags.
            names: of the n agents; None means self.names.
            velocities: f8[n, 3] or [n, 2] (m/s), NaN where not measured.
            orientations: f8[n, 4] quaternions (x, y, z, w), NaN where there is none.
            confidence: f8[n], 0..1.
            complete: the message speaks for the whole group, so that agents not named are missing from it.
            trusted: the source sends neither the origin nor the last pose again for what it lost.
            now: a steady clock at arrival (s).
        """
        positions = np.asarray(positions, dtype=np.float64)
        names = self.names if names is None else list(names)
        if positions.ndim != 2 or len(positions) != len(names) or positions.shape[1] not in (2, 3):
            raise ValueError(f"positions have shape {positions.shape}, expected ({len(names)}, 3), one row per name")
        frame = _Frame(
            float(stamp),
            names,
            positions,
            np.ones(len(names), dtype=bool) if tracked is None else np.asarray(tracked, dtype=bool),
            None if velocities is None else np.asarray(velocities, dtype=np.float64),
            None if orientations is None else np.asarray(orientations, dtype=np.float64),
            None if confidence is None else np.asarray(confidence, dtype=np.float64),
            complete,
            trusted,
        )
        with self._lock:
            if now is not None:
                self._arrival = now
            self._take(frame, now)

    def reset(self, reason: str = "asked for") -> None:
        """Forget all samples (and the names of an open group) and start afresh."""
        with self._lock:
            self._note(f"window reset: {reason}")
            self.resets += 1
            self.last_reset = reason
            self._clear()

    # ---------------------------------------------------------------- out

    def window(self, now: float | None = None) -> Window | None:
        """The window that ends at the newest stamp minus grid_delay; None until the group was heard for so long.

        Args:
            now: the steady clock (s). With no message for stale_timeout, every agent that is not hidden is STALE.
        """
        with self._lock:
            if not self.warm:
                return None
            self._silence()
            self._forget_gone()
            v, dims = self._visibility, self.dims
            times = np.asarray(self.newest + self._grid, dtype=np.float64)
            until = np.where(v.shown, np.inf, np.where(v.ever_shown, v.last_good, -np.inf))
            values = self._rings.on_grid(self.newest, until, times, self.parameters.max_gap)
            self._keep_last(np.flatnonzero(v.shown))
            self._bridge(times, values)
            positions = np.ascontiguousarray(values[..., :dims])
            velocities = np.full_like(positions, np.nan)
            if self._rings.measured:
                velocities[:] = values[..., dims + 1 :]
            observed = np.isfinite(positions[..., 0])
            status, reason = v.verdict(self.newest, self._started, times[-1], observed[:, -1], self.fixed)
            if self.stale(now):
                stopped = status != Status.HIDDEN
                status[stopped] = Status.STALE
                text = f"the stream stopped {(now or 0.0) - self._arrival:.1f} s ago"
                reason = [text if stop else why for stop, why in zip(stopped, reason, strict=True)]
            return Window(
                names=list(self.names),
                times=times,
                positions=positions,
                velocities=velocities,
                observed=observed,
                confidence=np.where(observed, values[..., dims], 0.0).astype(np.float32),
                status=status,
                reason=reason,
                last_seen=v.last_good.copy(),
                last_position=self._last_position.copy(),
                last_velocity=self._last_velocity.copy(),
            )

    @property
    def warm(self) -> bool:
        """The group has been heard for the whole length of a window."""
        return bool(self.newest - self._started >= self.duration + self.grid_delay - STAMP_TOLERANCE)

    def stale(self, now: float | None) -> bool:
        """No message at all for stale_timeout by the steady clock."""
        return now is not None and now - self._arrival > self.parameters.stale_timeout

    @property
    def orientations(self) -> NDArray[np.float64]:
        """f8[A, 4] quaternion (x, y, z, w) at the last sample that had a valid one, NaN without any."""
        return self._orientations.copy()

    @property
    def oriented(self) -> NDArray[np.bool_]:
        """bool[A], true where the last believed sample had a valid orientation."""
        return np.asarray(self._oriented >= self._visibility.last_good)

    @property
    def heights(self) -> NDArray[np.float64]:
        """f8[A] z (m) of the last believed sample, NaN without any or where positions are planar."""
        return self._heights.copy()

    @property
    def clock_offsets(self) -> dict[str, float]:
        """How far (s) each agent's stamps run ahead of the group's middle one; empty where `now` was never given.

        Judged by the shortest recent delay from stamp to arrival, of agents that are not hidden; by the newest delay
        where the agent's stamps are too far off for its samples to be used, also of an agent that never joined for that
        reason.
        """
        with self._lock:
            known = np.isfinite(self._delay)
            if not known.any():
                return {}
            middle = float(np.median(self._delay[known]))
            delays = dict(zip(self.names, self._delay.tolist(), strict=True))
            recent = self._arrival - self.parameters.stale_timeout
            delays |= {name: delay for name, (delay, arrival) in self._astray.items() if arrival >= recent}
            return {name: middle - delay for name, delay in delays.items() if math.isfinite(delay)}

    @property
    def sample_rate(self) -> float:
        """Samples a second (Hz) of an agent in the newest part of the stream, NaN before two samples of one."""
        with self._lock:
            return self._rings.sample_rate(self.newest - max(self.duration, RATE_SPAN))

    def take_notes(self) -> list[str]:
        """What happened since the last call and is worth a line in a log: resets, unknown names, first rejections."""
        with self._lock:
            notes = list(self._notes)
            self._notes.clear()
            return notes

    # ---------------------------------------------------------------- time

    def _take(self, frame: _Frame, now: float | None = None) -> None:
        stamp = frame.stamp
        if not math.isfinite(stamp) or stamp > LARGEST_STAMP:
            return self._reject("stamp is NaN, Inf or not in seconds", frame)
        if stamp <= 0:
            return self._reject("stamp is zero or negative", frame)
        p = self.parameters
        if stamp < self.newest - p.reorder_tolerance or stamp > self.newest + p.silence_timeout:
            if now is not None:
                self._note_astray(frame, now)
            return self._suspect_jump(frame)
        self._drop_suspects()
        self._store(frame, now)

    def _suspect_jump(self, frame: _Frame) -> None:
        """One source jumped in time; the group did once most of those heard have jumped, or only they still speak."""
        p = self.parameters
        if self._suspects and abs(frame.stamp - self._suspects[-1].stamp) > p.reorder_tolerance:
            self._drop_suspects()
        self._suspects.append(frame)
        jumped = {name for suspect in self._suspects for name in suspect.names if name in self._place or not self.fixed}
        recent = self._visibility.last_message >= self.newest - p.silence_timeout
        heard = jumped.union(name for name, is_recent in zip(self.names, recent, strict=True) if is_recent)
        stamps = [suspect.stamp for suspect in self._suspects]
        if len(stamps) < 2 or not jumped:  # one stray message, even one that holds the whole group, is no jump
            return
        if 2 * len(jumped) <= len(heard) and max(stamps) - min(stamps) < p.silence_timeout:
            return
        confirmed, gap = list(self._suspects), stamps[0] - self.newest
        self._suspects.clear()
        if gap < 0:
            self.reset(f"time went back by {-gap:.3f} s")
        elif gap > self.duration:
            self.reset(f"gap of {gap:.3f} s, longer than the window of {self.duration:.3f} s")
        for suspect in confirmed:
            self._store(suspect, None)

    def _drop_suspects(self) -> None:
        for suspect in self._suspects:
            self._reject("stamp far from the group's", suspect)
        self._suspects.clear()

    def _silence(self) -> None:
        hidden, broken = self._visibility.silence(self.newest, self._resumed)
        self._hide(hidden)
        self._forget_run(broken)

    def _forget_gone(self) -> None:
        """Forget the agents of an open group that have been gone for long: their names may have been but passing."""
        v, p = self._visibility, self.parameters
        if self.fixed or not p.forget_after:
            return
        gone = ~v.shown & ~(v.last_named >= self.newest - p.forget_after)
        if not gone.any():
            return
        kept = np.flatnonzero(~gone)
        names = ", ".join(self.names[agent] for agent in np.flatnonzero(gone))
        self._note(f"forgotten, not named for {p.forget_after:g} s: {names:.160}")
        for part in (self._visibility, self._plausibility, self._rings):
            part.keep(kept)
        self._last_position, self._last_velocity = self._last_position[kept], self._last_velocity[kept]
        self._orientations, self._oriented = self._orientations[kept], self._oriented[kept]
        self._heights, self._delay = self._heights[kept], self._delay[kept]
        self.names = [self.names[agent] for agent in kept]
        self._grow(len(kept))

    # ---------------------------------------------------------------- samples

    def _store(self, frame: _Frame, now: float | None) -> None:
        """Take a frame whose stamp is in order: tell the visibility of it and keep the usable rows."""
        stamp = frame.stamp
        index, rows = self._places(frame)
        if not len(index) and not (frame.complete and len(self.names)):
            return
        if self._astray:
            self._astray = {name: noted for name, noted in self._astray.items() if name not in frame.names}
        if math.isnan(self.newest):
            self.newest = self._started = self._resumed = stamp
        elif stamp > self.newest:
            if stamp - self.newest > self.parameters.silence_timeout:
                self._resumed = stamp
            self.newest = stamp
        self._silence()
        causes = self._causes(frame, index, rows)
        good = causes == SEEN
        told, told_causes = index, causes
        if frame.complete and len(index) < len(self.names):
            absent = np.setdiff1d(np.arange(len(self.names)), index)
            told = np.concatenate([index, absent])
            told_causes = np.concatenate([causes, np.full(len(absent), Cause.MISSING, dtype=np.int8)])
        v = self._visibility
        lost = None if v.shown.all() else told[~v.shown[told]]
        since = v.last_good if lost is None else v.last_good[lost]
        hidden, broken = v.observe(told, stamp, told_causes, self.newest)
        self._hide(hidden)
        self._forget_run(broken)
        if lost is not None:
            elsewhere = v.shown[lost] & (v.cause[lost] >= Cause.JUMP)  # believed where they jumped to: no way led there
            self._rings.forget_until(lost[elsewhere], since[elsewhere])
        if now is not None:
            self._note_delay(index, now - stamp)
        if good.all():
            self._keep(index, rows, frame)
        elif good.any():
            self._keep(index[good], rows[good], frame)

    def _causes(self, frame: _Frame, index: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int8]:
        """Why each of the agents `index`, which stand in the rows, is not seen in a frame; SEEN where it is."""
        p = self.parameters
        causes = unseen_causes(
            frame.positions,
            frame.tracked,
            frame.orientations,
            frame.confidence,
            trusted=frame.trusted or not p.zero_is_unseen,
            min_confidence=p.min_confidence,
        )[rows]
        late = frame.stamp <= self._visibility.last_message[index]
        if late.any():
            doubted = np.flatnonzero(late & (causes == SEEN))
            causes[doubted[~self._fits(frame, index[doubted], rows[doubted])]] = Cause.JUMP
        good = np.flatnonzero((causes == SEEN) & ~late)
        if not len(good):
            return causes
        chosen = rows[good]
        positions = frame.positions[chosen]
        if positions.shape[1] == 2:
            positions = np.pad(positions, [(0, 0), (0, 1)])
        orientations = None if frame.orientations is None else frame.orientations[chosen]
        causes[good], taken = self._plausibility.judge(
            index[good], frame.stamp, positions, orientations, self._visibility.shown, frame.trusted
        )
        for agent, other in taken:
            pair = f"{self.names[agent]} took the place of {self.names[other]}"
            if pair not in self._said and len(self._said) < NOTES_KEPT:
                self._said.add(pair)
                self._note(f"{pair:.160} in one step: not believed until it has stayed there (said once)")
        return causes

    def _fits(self, frame: _Frame, index: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[n]: whether samples that are not the newest of their agents may be kept. One more of a stamp is believed
        where the first was, an older one where it is no jump from the samples before and after, nor the first again."""
        p, last = self.parameters, self._visibility.last_message[index]
        stamps, positions = self._rings.beside(index, frame.stamp)
        step = np.linalg.norm(frame.positions[rows, None, : self.dims] - positions, axis=2)
        far = step > p.jump_margin + p.max_speed * np.abs(stamps - frame.stamp)
        bad = far.any(axis=1) & (p.max_speed > 0)
        if not frame.trusted and p.frozen_after:
            bad |= step[:, 0] == 0
        return np.asarray(self._rings.holds(index, frame.stamp) | (frame.stamp < last) & ~bad)

    def _keep(self, index: NDArray[np.int64], rows: NDArray[np.int64], frame: _Frame) -> None:
        """Write the usable rows of a frame, which belong to the agents `index`."""
        dims = self.dims
        values = np.full((len(index), 2 * dims + 1), np.nan)
        values[:, :dims] = frame.positions[rows, :dims]
        values[:, dims] = 1.0
        if frame.confidence is not None:
            values[:, dims] = np.clip(np.nan_to_num(frame.confidence[rows]), 0.0, 1.0)
        if frame.velocities is not None:
            velocities = frame.velocities[rows, :dims]
            valid = (np.abs(velocities) < FARTHEST).all(axis=1, keepdims=True)
            values[:, dims + 1 :] = np.where(valid, velocities, np.nan)
            self._rings.measured = True
        newest = self._visibility.last_message[index] == frame.stamp
        duplicates = self._rings.write(index, frame.stamp, values, newest)
        if duplicates:
            self.rejected["duplicate stamp"] += duplicates
        if frame.positions.shape[1] == 3:
            self._heights[index[newest]] = frame.positions[rows[newest], 2]
        if frame.orientations is not None:
            quaternions = frame.orientations[rows]
            valid = newest & valid_orientations(quaternions)
            self._orientations[index[valid]], self._oriented[index[valid]] = quaternions[valid], frame.stamp

    def _bridge(self, times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Extrapolate the newest grid times of shown agents that have no sample after them yet."""
        v, limit, dims = self._visibility, self.parameters.silence_timeout, self.dims
        behind = np.flatnonzero(v.shown & (v.last_good < times[-1] - STAMP_TOLERANCE))
        if not len(behind):
            return
        age = times - v.last_good[behind, None]
        agent, time = np.nonzero((age > STAMP_TOLERANCE) & (age <= limit))
        age, agent = age[agent, time], behind[agent]
        values[agent, time] = self._rings.latest[agent, : values.shape[-1]]
        values[agent, time, :dims] = self._last_position[agent] + age[:, None] * self._last_velocity[agent]
        values[agent, time, dims] *= 1.0 - age / limit

    def _hide(self, index: NDArray[np.int64]) -> None:
        if len(index):
            self._keep_last(index)
            self._rings.forget_recent(index)
            self._plausibility.restart(index)
            self._delay[index] = np.nan  # of a stream that is not in real time that of the others changes meanwhile

    def _keep_last(self, index: NDArray[np.int64]) -> None:
        """Position and velocity at the last sample of agents that are shown, or were until now."""
        p = self.parameters
        self._last_position[index] = self._rings.latest[index, : self.dims]
        self._last_velocity[index] = self._rings.last_velocity(index, p.velocity_span, 2.0 * p.max_gap)

    def _forget_run(self, index: NDArray[np.int64]) -> None:
        """Drop the samples of runs that ended before they were believed."""
        if len(index):
            v = self._visibility
            self._plausibility.restart(index)
            self._rings.forget_after(index, np.where(v.ever_shown[index], v.last_good[index], -np.inf))

    def _note_delay(self, index: NDArray[np.int64], delay: float) -> None:
        """The shortest recent delay. It lags behind where the stream is slower than the clock; that of a new agent
        begins as far behind as that of the others is."""
        if not len(index):
            return
        known = self._delay[index]
        noted = np.minimum(delay, known + 0.01 * (delay - known))
        self._delay[index] = noted = np.where(np.isnan(known), delay - self._lag, noted)
        self._lag = delay - float(noted[0])

    def _note_astray(self, frame: _Frame, now: float) -> None:
        """Of agents of the group, and of those that an open group might take: the delay of a stamp far from it."""
        for name in frame.names:
            joins = not self.fixed and len(self._astray) < self.parameters.max_agents
            if name in self._place or name in self._astray or joins:
                self._astray[name] = (now - frame.stamp, now)

    # ---------------------------------------------------------------- agents

    def _places(self, frame: _Frame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of the frame's agents and the rows they stand in; of a name that comes twice the first counts."""
        if frame.names is self.names or frame.names == self._known_names:
            return self._known_index, self._known_rows
        found: dict[int, int] = {}
        for row, name in enumerate(frame.names):
            place = self._place[name] if name in self._place else self._join(name)
            if place in found:
                self._reject_name("name twice in one message", name)
            elif place is not None:
                found[place] = row
        index = np.fromiter(found.keys(), dtype=np.int64, count=len(found))
        rows = np.fromiter(found.values(), dtype=np.int64, count=len(found))
        if len(found) == len(frame.names):
            self._known_names, self._known_index, self._known_rows = frame.names, index, rows
        return index, rows

    def _join(self, name: str) -> int | None:
        if self.fixed:
            self._reject_name("unknown agent", name)
            return None
        if len(self.names) >= self.parameters.max_agents:
            self._reject_name(f"more than {self.parameters.max_agents} agents", name)
            return None
        self.names = [*self.names, name]
        self._grow(len(self.names))
        return self._place[name]

    def _clear(self) -> None:
        self.newest = self._started = self._resumed = math.nan
        self._suspects.clear()
        self._astray, self._lag = {}, 0.0
        if not self.fixed:
            self.names = []
        p = self.parameters
        self._visibility = Visibility(p)
        self._plausibility = Plausibility(p)
        self._rings = SampleRings(self._cells, p.max_rate, self.dims, p.velocity_samples)
        self._last_position = self._last_velocity = np.zeros((0, self.dims))
        self._orientations = np.zeros((0, 4))
        self._heights = self._delay = self._oriented = np.zeros(0)
        self._grow(len(self.names))

    def _grow(self, agents: int) -> None:
        self._visibility.grow(agents)
        self._plausibility.grow(agents)
        self._rings.grow(agents)
        self._last_position = grown(self._last_position, agents)
        self._last_velocity = grown(self._last_velocity, agents)
        self._orientations, self._oriented = grown(self._orientations, agents), grown(self._oriented, agents)
        self._heights, self._delay = grown(self._heights, agents), grown(self._delay, agents)
        self._place = {name: place for place, name in enumerate(self.names)}
        self._known_names = list(self.names)
        self._known_index = self._known_rows = np.arange(agents)

    # ---------------------------------------------------------------- notes

    def _reject(self, reason: str, frame: _Frame) -> None:
        if not self.rejected[reason]:
            self._note(f"sample of {', '.join(frame.names[:3]):.60} not used: {reason}")
        self.rejected[reason] += len(frame.names)

    def _reject_name(self, reason: str, name: str) -> None:
        self.rejected[reason] += 1
        if name not in self._said and len(self._said) < NOTES_KEPT:
            self._said.add(name)
            self._note(f"sample of {name:.60} not used: {reason}")

    def _note(self, text: str) -> None:
        self._notes.append(text)


@dataclass(frozen=True)
class _Frame:
    """Samples of several agents at one stamp, as add_frame takes them."""

    stamp: float
    names: list[str]
    positions: NDArray[np.float64]
    tracked: NDArray[np.bool_]
    velocities: NDArray[np.float64] | None
    orientations: NDArray[np.float64] | None
    confidence: NDArray[np.float64] | None
    complete: bool
    trusted: bool


def _rows(vector: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(vector, dtype=np.float64)[None]
