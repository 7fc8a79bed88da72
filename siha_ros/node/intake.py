"""From messages to the window: stamps, frames, groups and names are judged here, once, for all types of input.

`push` is called by subscriptions and only appends; everything else is called by the worker. Each kind of trouble is counted and said
once. Whether an agent is hidden is not judged here: the window does that.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from siha_ros.node.inputs import Input
from siha_ros.node.outputs import SeenPose
from siha_ros.window.sliding_window import Observation, SlidingWindow

INBOX = 4096  # messages that wait for the worker; more than a second at any rate seen
OFFSETS = 50  # newest messages of a source from which its clock offset is estimated


class Intake:
    """The inbox of one activation, and the way from there into the window.

    Attributes:
        group, frame_id: of the stream; empty until known.
        poses: height and orientation of each agent as last seen.
        received: messages pushed.
        dropped: messages or observations dropped, by reason.
        newest_arrival: monotonic time (s) at which the newest stamp arrived, NaN before.
    """

    def __init__(
        self, window: SlidingWindow, source: Input, *, group: str, default_group: str, frame_id: str, use_arrival: bool,
        names: Mapping[str, str], known: Collection[str], warn: Callable[[str], None],
    ) -> None:
        """`names` maps stream names to the bundle's, `known` are the bundle's names (empty where the stream's are taken)."""
        self._window, self._source, self._warn = window, source, warn
        self.group, self._default_group, self.frame_id = group, default_group, frame_id
        self._use_arrival, self._names, self._known = use_arrival, dict(names), set(known)
        self._inbox: deque[tuple[Any, str, float, float] | None] = deque(maxlen=INBOX)
        self._offsets: dict[str, deque[float]] = {}
        self._said: set[str] = set()
        self._newest_stamp = -math.inf
        self.poses: dict[str, SeenPose] = {}
        self.received = 0
        self.dropped: Counter[str] = Counter()
        self.newest_arrival = math.nan

    def push(self, message: Any, agent: str, now: float, arrival: float) -> None:
        """Put a message into the inbox: `now` on the node's clock, `arrival` on a steady one (s). Never waits."""
        self.received += 1
        if len(self._inbox) == INBOX:
            self.dropped["inbox full"] += 1
        self._inbox.append((message, agent, now, arrival))
        stamp = message.header.stamp
        offsets = self._offsets.setdefault(agent or "stream", deque(maxlen=OFFSETS))
        offsets.append(now - stamp.sec - 1e-9 * stamp.nanosec)

    def push_reset(self) -> None:
        """Put a request to start the window anew into the inbox, after the messages before it."""
        self._inbox.append(None)

    def clock_offsets(self) -> dict[str, float]:
        """Median of arrival minus stamp (s) by agent, or of the whole stream where it is one topic."""
        return {name: statistics.median(offsets) for name, offsets in self._offsets.items()}

    def drain(self) -> None:
        """Move everything in the inbox into the window."""
        while self._inbox:
            entry = self._inbox.popleft()
            if entry is None:
                self.reset("asked for by ~/reset")
            else:
                self._take(*entry)

    def reset(self, reason: str) -> None:
        """Start the window anew."""
        self._window.reset(reason)
        self.poses.clear()
        self._newest_stamp = -math.inf

    def _take(self, message: Any, agent: str, now: float, arrival: float) -> None:
        header = message.header
        stamp = now if self._use_arrival else header.stamp.sec + 1e-9 * header.stamp.nanosec
        if stamp <= 0.0:
            clock = "the node's clock is 0 (use_sim_time without /clock?)" if self._use_arrival else "stamps are 0: fill header.stamp, or set stamp_source to arrival"
            return self._drop("stamp 0", f"message dropped: {clock}")
        if not self.frame_id:
            self.frame_id = header.frame_id
        if header.frame_id and header.frame_id != self.frame_id:
            return self._drop("frame", f"message dropped: its frame is {header.frame_id!r}, expected {self.frame_id!r}", header.frame_id)
        named = getattr(message, "group", "")
        if not self.group:
            self.group = named or self._default_group
        if named and named != self.group:
            return self._drop("group", f"message dropped: it is of group {named!r}, expected {self.group!r}", named)
        try:
            observations = self._source.read(message, stamp, self.group, agent)
        except ValueError as error:
            return self._drop("malformed", f"message dropped: {error}")
        if stamp >= self._newest_stamp:
            self._newest_stamp, self.newest_arrival = stamp, arrival
        taken: set[str] = set()
        for observation in observations:
            self._add(observation, taken)

    def _add(self, observation: Observation, taken: set[str]) -> None:
        name = self._names.get(observation.agent, observation.agent)
        if self._known and name not in self._known:
            return self._drop("unknown name", f"agent {observation.agent!r} is not in the bundle and is ignored; name_map can translate names", name)
        if name in taken:
            return self._drop("named twice", f"agent {name!r} comes more than once in a message; the first entry counts", name)
        taken.add(name)
        if name != observation.agent:
            observation = Observation(
                observation.stamp, observation.group, name, observation.position, observation.velocity, observation.orientation,
                observation.confidence, observation.tracked,
            )
        self._window.add(observation)
        self._remember(observation)

    def _remember(self, observation: Observation) -> None:
        position, orientation = observation.position, observation.orientation
        if not observation.tracked or position is None or not np.isfinite(position).all() or not position.any():
            return
        before = self.poses.get(observation.agent)
        turn = before.orientation if before else None
        if orientation is not None and (length := float(np.linalg.norm(orientation))) > 1e-6:
            x, y, z, w = (orientation / length).tolist()
            turn = (x, y, z, w)
        self.poses[observation.agent] = SeenPose(observation.stamp, float(position[2]), turn)

    def _drop(self, reason: str, text: str, key: str = "") -> None:
        self.dropped[reason] += 1
        if (said := f"{reason} {key}") not in self._said:
            self._said.add(said)
            self._warn(f"{text} (said once)")
