"""From messages to the windows: stamps, frames, groups and names are judged here, once, for all types of input.

`push` is called by subscriptions and only appends; everything else is called by the worker. Each kind of trouble is
counted and said once. Whether an agent is hidden, and what a jump in time means, is the window's to judge.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from siha_ros.node.discovery import Place, unmatched
from siha_ros.node.frames import Lookup, Transform, metric, moved
from siha_ros.node.inputs import Input, Sample
from siha_ros.node.inputs.sample import seconds
from siha_ros.node.parameters import Parameters
from siha_ros.window.sliding_window import SlidingWindow

Reader = Callable[[Any, str], list[Sample]]
INBOX = 4096  # messages that wait for the worker: seconds at any rate seen
MOST_SAID = 64  # kinds of trouble: a stream that brings another frame or group with every message fills no log
OUTNUMBERED = 10  # times as many messages in another frame: that of the first message was wrong


def no_transform(target: str, source: str, stamp: float) -> Transform:
    """The Lookup where there is no TF."""
    raise LookupError("there is no TF, as tf2_ros is not installed")


class Feed:
    """One group's part of a stream, and its window.

    Attributes:
        name: of the group; `named` where the stream says so, and may hold others.
        window: what the samples go to.
        frame_id: of the positions; empty until known.
        newest_arrival: steady time (s) at which the newest stamp arrived, NaN before.
        heard: steady time (s) of the newest sample.
    """

    def __init__(
        self, name: str, named: bool, window: SlidingWindow, parameters: Parameters, warn: Callable[[str], object]
    ) -> None:
        self.name, self.named, self.window = name, named, window
        self._names, self._tolerance, self._warn = parameters.names, parameters.reorder_tolerance, warn
        self._newest_stamp, self._matched = -math.inf, False
        self.frame_id = ""
        self.newest_arrival = self.heard = math.nan

    def take(self, sample: Sample, stamp: float, arrival: float) -> None:
        """Hand a sample, in metres and in the frame of all, to the window."""
        if not -self._tolerance <= stamp - self._newest_stamp < 0.0:  # newer, or time went back
            self._newest_stamp, self.newest_arrival = stamp, arrival
        if sample.complete and self.window.fixed and not self._matched:
            self._matched = True
            if line := unmatched(sample.names, self._names, self.window.names):
                self._warn(line)
        names = [self._names.get(name, name) for name in sample.names] if self._names else sample.names
        self.window.add_frame(
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


class Intake:
    """The inbox of one activation, and the way from there into the windows of the groups.

    Args:
        open_window: an empty window for a new group.
        parameters: the node's.
        default_group: name of a group that the stream does not name.
        warn: takes lines worth a warning.

    Attributes:
        source: the input that reads the messages; set once the type is known, before the first `push`.
        lookup: how frames are reached that are not the stream's.
        feeds: the groups, by name, in the order in which they came.
        frame_id: of all positions; empty until known.
        received: messages pushed.
        dropped: messages dropped, by reason.
    """

    def __init__(
        self,
        open_window: Callable[[], SlidingWindow],
        parameters: Parameters,
        default_group: str,
        warn: Callable[[str], object],
    ) -> None:
        self._open_window, self._parameters, self._warn = open_window, parameters, warn
        self._default_group = default_group
        self._inbox: deque[tuple[Any, Place, Reader, float, float] | None] = deque(maxlen=INBOX)
        self._reset_fell_out = False
        self._said: set[tuple[str, str]] = set()
        self.source: Input | None = None
        self.lookup: Lookup = no_transform
        self.feeds: dict[str, Feed] = {}
        self.frame_id = parameters.frame_id
        self._in_frame, self._elsewhere = 0, Counter[str]()  # samples, by frame where they cannot be moved
        self.received = 0
        self.dropped: Counter[str] = Counter()

    def push(
        self,
        message: Any,
        agent: str,
        now: float,
        arrival: float,
        read: Reader | None = None,
        group: str = "",
    ) -> None:
        """Put a message into the inbox. Never waits.

        Args:
            message: of the source's type, or of a companion's.
            agent, group: those of its topic, empty where it has none.
            now: on the node's clock (s).
            arrival: on a steady one (s).
            read: makes samples of it; None for the source.
        """
        if read is None:
            assert self.source is not None
            read = self.source.read
        self.received += 1
        if len(self._inbox) == INBOX:
            self.dropped["inbox full"] += 1
            self._reset_fell_out |= self._inbox[0] is None
        self._inbox.append((message, Place("", agent, group), read, now, arrival))

    def push_reset(self) -> None:
        """Put a request to start the windows anew into the inbox, after the messages before it."""
        self._inbox.append(None)

    @property
    def waiting(self) -> int:
        """Messages in the inbox."""
        return len(self._inbox)

    def drain(self) -> None:
        """Move what is in the inbox now into the windows; what a flood brings meanwhile waits for the next call."""
        if self._reset_fell_out:
            self._reset_fell_out = False
            self._reset()
        for _ in range(len(self._inbox)):
            entry = self._inbox.popleft()
            if entry is None:
                self._reset()
            else:
                self._take(*entry)

    def _reset(self) -> None:
        for feed in self.feeds.values():
            feed.window.reset("asked for by ~/reset")

    def _take(self, message: Any, place: Place, read: Reader, now: float, arrival: float) -> None:
        try:
            samples = read(message, place.agent)
        except ValueError as error:  # MalformedMessage is meant; what is not is as harmless
            return self._drop("malformed", str(error))
        header = getattr(message, "header", None)
        for sample in samples:
            self._take_sample(sample, place.group, header, now, arrival)

    def _take_sample(self, sample: Sample, group: str, header: Any, now: float, arrival: float) -> None:
        p = self._parameters
        stamp, cause = now, "the node's clock is 0: nothing on /clock?"
        if p.stamp_source == "header" and (sample.stamp is not None or header is not None):
            stamp = seconds(header.stamp) if sample.stamp is None else sample.stamp
            cause = "its stamp is 0: fill header.stamp, or set the parameter stamp_source to arrival"
        if stamp <= 0.0:
            return self._drop("stamp 0", cause)
        feed = self._feed(sample.group or group)
        if feed is None:
            return
        feed.heard = arrival
        sample = metric(sample, p.input_scale, p.input_up_axis)
        frame_id = sample.frame_id if sample.frame_id is not None else header.frame_id if header is not None else ""
        self.frame_id = feed.frame_id = self.frame_id or frame_id
        if frame_id and frame_id != self.frame_id:
            try:
                sample = moved(sample, self.lookup(self.frame_id, frame_id, stamp))
            except LookupError as error:
                if not str(error):  # TF has only just been asked for
                    self.dropped["other frame"] += 1
                    return
                if not self._outnumbered(frame_id):
                    expected = f"its frame is {frame_id!r:.60}, expected {self.frame_id!r:.60}: {error}"
                    return self._drop("other frame", expected, frame_id)
        self._in_frame += 1
        feed.take(sample, stamp, arrival)

    def _outnumbered(self, frame_id: str) -> bool:
        """Count a sample that cannot be moved from ``frame_id``. Where no parameter says the frame, it is the first
        sample's; where so many more come in another that the first one named a wrong one, it is theirs from now on."""
        if self._parameters.frame_id or (len(self._elsewhere) == MOST_SAID and frame_id not in self._elsewhere):
            return False
        self._elsewhere[frame_id] += 1
        if self._elsewhere[frame_id] < OUTNUMBERED * self._in_frame:
            return False
        for feed in self.feeds.values():
            feed.window.reset(f"frame {frame_id!r:.60} in place of {self.frame_id!r:.60}, which few messages name")
            feed.frame_id = frame_id
        self.frame_id, self._in_frame = frame_id, self._elsewhere[frame_id]
        self._elsewhere.clear()
        return True

    def _feed(self, said: str) -> Feed | None:
        """The feed of the group that a sample says it is of, made where it is new; None where it is not wanted."""
        p = self._parameters
        if p.group and said and said != p.group:
            self._drop("other group", f"its group is {said!r:.60}, expected {p.group!r}", said)
            return None
        name = p.group or said or self._default_group
        if name not in self.feeds:
            if len(self.feeds) >= p.groups_max:
                self._drop("other group", f"group {said!r:.60} is one more than groups.max, {p.groups_max}", said)
                return None
            named = bool(said and not p.group)
            self.feeds[name] = Feed(name, named, self._open_window(), p, lambda line: self._say("names", line, line))
        return self.feeds[name]

    def _drop(self, reason: str, text: str, key: str = "") -> None:
        self.dropped[reason] += 1
        self._say(reason, f"message dropped: {text} (said once)", key)

    def _say(self, reason: str, text: str, key: str) -> None:
        if (reason, key) not in self._said and len(self._said) < MOST_SAID:
            self._said.add((reason, key))
            self._warn(text)
