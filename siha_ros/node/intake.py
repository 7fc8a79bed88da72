"""From messages to the window: stamps, frames, groups and names are judged here, once, for all types of input.

`push` is called by subscriptions and only appends; everything else is called by the worker. Each kind of trouble is
counted and said once. Whether an agent is hidden, and what a jump in time means, is the window's to judge.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from siha_ros.node.discovery import unmatched
from siha_ros.node.frames import Lookup, Transform, metric, moved
from siha_ros.node.inputs import Input, Sample
from siha_ros.node.inputs.sample import seconds
from siha_ros.node.parameters import Parameters
from siha_ros.window.sliding_window import SlidingWindow
from siha_ros.window.visibility import valid_orientations

Reader = Callable[[Any, str], list[Sample]]
INBOX = 4096  # messages that wait for the worker: seconds at any rate seen
MOST_SAID = 64  # kinds of trouble: a stream that brings another frame or group with every message fills no log


def no_transform(target: str, source: str, stamp: float) -> Transform:
    """The Lookup where there is no TF."""
    raise LookupError("there is no TF, as tf2_ros is not installed")


class Intake:
    """The inbox of one activation, and the way from there into the window.

    Attributes:
        source: the input that reads the messages; set once the type is known, before the first `push`.
        lookup: how frames are reached that are not the stream's.
        group, frame_id: of the stream; empty until known.
        received: messages pushed.
        dropped: messages dropped, by reason.
        oriented: newest stamp (s) with a valid orientation, by agent.
        newest_arrival: steady time (s) at which the newest stamp arrived, NaN before.
    """

    def __init__(
        self, window: SlidingWindow, parameters: Parameters, default_group: str, warn: Callable[[str], object]
    ) -> None:
        self._window, self._parameters, self._warn = window, parameters, warn
        self._default_group, self._names = default_group, parameters.names
        self._inbox: deque[tuple[Any, str, Reader, float, float] | None] = deque(maxlen=INBOX)
        self._said: set[tuple[str, str]] = set()
        self._newest_stamp, self._matched = -math.inf, False
        self.source: Input | None = None
        self.lookup: Lookup = no_transform
        self.group, self.frame_id = parameters.group, parameters.frame_id
        self.received = 0
        self.dropped: Counter[str] = Counter()
        self.oriented: dict[str, float] = {}
        self.newest_arrival = math.nan

    def push(self, message: Any, agent: str, now: float, arrival: float, read: Reader | None = None) -> None:
        """Put a message into the inbox: `now` on the node's clock, `arrival` on a steady one (s). Never waits.

        `read` makes samples of it, where it does not come on the source's own topic but on that of a companion.
        """
        if read is None:
            assert self.source is not None
            read = self.source.read
        self.received += 1
        if len(self._inbox) == INBOX:
            self.dropped["inbox full"] += 1
        self._inbox.append((message, agent, read, now, arrival))

    def push_reset(self) -> None:
        """Put a request to start the window anew into the inbox, after the messages before it."""
        self._inbox.append(None)

    def drain(self) -> None:
        """Move what is in the inbox now into the window; what a flood brings meanwhile waits for the next call."""
        for _ in range(len(self._inbox)):
            entry = self._inbox.popleft()
            if entry is None:
                self._window.reset("asked for by ~/reset")
            else:
                self._take(*entry)

    def _take(self, message: Any, agent: str, read: Reader, now: float, arrival: float) -> None:
        try:
            samples = read(message, agent)
        except ValueError as error:
            return self._drop("malformed", str(error))
        header = getattr(message, "header", None)
        for sample in samples:
            self._take_sample(sample, header, now, arrival)

    def _take_sample(self, sample: Sample, header: Any, now: float, arrival: float) -> None:
        p = self._parameters
        stamp, cause = now, "the node's clock is 0: nothing on /clock?"
        if p.stamp_source == "header" and (sample.stamp is not None or header is not None):
            stamp = seconds(header.stamp) if sample.stamp is None else sample.stamp
            cause = "its stamp is 0: fill header.stamp, or set the parameter stamp_source to arrival"
        if stamp <= 0.0:
            return self._drop("stamp 0", cause)
        self.group = self.group or sample.group or self._default_group
        if sample.group and sample.group != self.group:
            return self._drop(
                "other group", f"its group is {sample.group!r:.60}, expected {self.group!r}", sample.group
            )
        sample = metric(sample, p.input_scale, p.input_up_axis)
        frame_id = sample.frame_id if sample.frame_id is not None else header.frame_id if header is not None else ""
        self.frame_id = self.frame_id or frame_id
        if frame_id and frame_id != self.frame_id:
            try:
                sample = moved(sample, self.lookup(self.frame_id, frame_id, stamp))
            except LookupError as error:
                expected = f"its frame is {frame_id!r:.60}, expected {self.frame_id!r}: {error}"
                return self._drop("other frame", expected, frame_id)
        if not -p.reorder_tolerance <= stamp - self._newest_stamp < 0.0:  # newer, or time went back
            self._newest_stamp, self.newest_arrival = stamp, arrival
        if sample.complete and self._window.fixed and not self._matched:
            self._matched = True
            if line := unmatched(sample.names, self._names, self._window.names):
                self._warn(line)
        names = [self._names.get(name, name) for name in sample.names] if self._names else sample.names
        if sample.orientations is not None:
            valid = np.flatnonzero(valid_orientations(sample.orientations)).tolist()
            self.oriented |= {names[index]: stamp for index in valid}
        self._window.add_frame(
            stamp,
            sample.positions,
            sample.tracked,
            names=names,
            velocities=sample.velocities,
            orientations=sample.orientations,
            confidence=sample.confidence,
            complete=sample.complete,
            trusted=sample.trusted,
            now=arrival,
        )

    def _drop(self, reason: str, text: str, key: str = "") -> None:
        self.dropped[reason] += 1
        if (reason, key) not in self._said and len(self._said) < MOST_SAID:
            self._said.add((reason, key))
            self._warn(f"message dropped: {text} (said once)")
