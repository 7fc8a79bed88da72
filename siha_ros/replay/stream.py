"""A bag through the node's own code at full speed: intake, window, estimator, with the bag's recording time as the
clock.

Estimates are causal and come at fixed times: begin of the bag plus k / rate. The one of a time knows the messages that
were recorded up to it, as the node would; how long the computer takes changes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from siha_ros.node.discovery import GROUP, Place, check_topic, input_type, matching, parameters_input, topic_template
from siha_ros.node.groups import Groups
from siha_ros.node.inputs import INPUT_TYPES, Input, Sample
from siha_ros.node.intake import Feed, Intake, Reader
from siha_ros.node.messages import NewMessage
from siha_ros.node.parameters import Parameters, window_parameters
from siha_ros.node.pipeline import Sink
from siha_ros.replay.bag import NANOSECOND, Bag, BagError, Entry, to_ns
from siha_ros.window.sliding_window import SlidingWindow

if TYPE_CHECKING:
    from siha_ros.model.bundle import BundleConfig


@dataclass(frozen=True)
class Withheld:
    """Agents, by the names that the window has for them, whose messages recorded from ``begin`` on and before ``end``
    (s) do not reach the window."""

    agents: frozenset[str]
    begin: float
    end: float

    def at(self, moment: float) -> bool:
        """Whether they are withheld at a time of recording (s)."""
        return self.begin <= moment < self.end


@dataclass
class Summary:
    """What a run was. seconds: of the bag, of the run. lines: what the node would have logged."""

    stream_seconds: float = 0.0
    run_seconds: float = 0.0
    messages: int = 0
    estimates: int = 0
    failures: int = 0
    lines: list[str] = field(default_factory=list)

    def fail(self, error: Exception) -> None:
        """Take note of an estimate that failed: as in the node, the run goes on without what came before."""
        self.failures += 1
        self.lines.append(f"estimate failed: {type(error).__name__}: {' '.join(str(error).split())}")

    @property
    def times_real_time(self) -> float:
        """How much faster than the recording the run was."""
        return self.stream_seconds / self.run_seconds if self.run_seconds else math.inf


class Heard(NamedTuple):
    """One topic: agent and group it belongs to, its type, what reads it, and whether its messages count from the begin
    of the bag on, whatever part is run."""

    place: Place
    type_name: str
    read: Reader
    latched: bool = False


class Stream:
    """The stream in a bag, of all groups or of the one of the parameter group: which topics carry it, and of which
    type.

    Args:
        bag: the bag.
        config: of the bundle.
        parameters: the node's.
    """

    def __init__(self, bag: Bag, config: BundleConfig, parameters: Parameters) -> None:
        self.bag, self.config, self.parameters = bag, config, parameters
        template = topic_template(parameters, config.identified)
        template = template if template.startswith("/") else f"/{template}"  # as for a node without a namespace
        if parameters.group:
            template = template.replace(GROUP, parameters.group)
        kind = "" if parameters.input_type == "auto" else parameters.input_type
        check_topic(template, self._input(kind) if kind else None)
        listed = parameters.input_agents
        places = [place for place in matching(template, bag.types) if not listed or place.agent in ("", *listed)]
        kind = kind or input_type(template, [place.topic for place in places], bag.types) or ""
        self.places = [place for place in places if kind in bag.types[place.topic]]
        if not self.places:
            found = [f"{topic} ({name})" for topic, names in bag.types.items() for name in names if name in INPUT_TYPES]
            raise BagError(
                f"bag {bag.path}: no input on {template} (see --topics); of types that can be read it holds"
                f" {', '.join(found) or 'none'}"
            )
        self.kind = kind

    def sources(self) -> dict[str, Input]:
        """What reads the messages, by group of the topic: what an input remembers is not for others."""
        return {place.group: self._input(self.kind) for place in self.places}

    def heard(self, sources: Mapping[str, Input]) -> dict[str, Heard]:
        """What is read, by topic: the stream itself and what accompanies it."""
        found = {place.topic: Heard(place, self.kind, sources[place.group].read) for place in self.places}
        for place in self.places:
            for companion in sources[place.group].companions:
                topic = place._replace(group=place.group or self.parameters.group).fill(companion.topic)
                topic = topic if topic.startswith("/") else f"/{topic}"
                found.setdefault(topic, Heard(place, companion.type_name, companion.read, companion.latched))
        return found

    def first_group(self) -> str:
        """The group that the stream names first, empty where it names none."""
        heard = self.heard(self.sources())
        for entry in self.bag.messages(set(heard)):
            found = heard[entry.topic]
            if entry.connection.msgtype == found.type_name:
                for sample in found.read(self.bag.read(entry), found.place.agent):
                    return sample.group or found.place.group
        return ""

    def _input(self, kind: str) -> Input:
        return parameters_input(kind, self.parameters, self.config.agent_names)

    def window(self, make: Callable[..., SlidingWindow] = SlidingWindow) -> SlidingWindow:
        """An empty window of the bundle for this stream."""
        config, names = self.config, self.parameters.names
        listed = config.agent_names or [names.get(agent, agent) for agent in self.parameters.input_agents]
        return make(config.dt, config.window, config.dims, listed or None, window_parameters(self.parameters))


def only(sink: Sink) -> Callable[[Feed], Sink]:
    """One sink for a run of one group."""
    return lambda feed: sink


def run(
    stream: Stream,
    estimator: Any,
    open_sink: Callable[[Feed], Sink],
    new: NewMessage,
    *,
    close_sink: Callable[[Feed], object] = lambda feed: None,
    open_window: Callable[[], SlidingWindow] | None = None,
    withheld: Withheld | None = None,
    begin: float | None = None,
    end: float | None = None,
    on_entry: Callable[[Entry], object] | None = None,
    on_tick: Callable[[int, float], object] | None = None,
) -> Summary:
    """Run a stream, or the part of it recorded between two times (s), through windows and estimator into sinks.

    Args:
        stream, estimator, new: input, estimator of the stream's bundle, what makes messages.
        open_sink, close_sink: give where the estimates of a new group go, and are told of one that is gone.
        open_window: an empty one of the stream, its own by default.
        withheld: what the estimator is not shown.
        on_entry: is given every message of the bag before it is used, also those of other topics.
        on_tick: is given number and time of recording (s) of each estimate before it is made.
    """
    bag, parameters = stream.bag, stream.parameters
    summary, clock = Summary(), _Clock()
    default = "body" if stream.config.identified else "team"
    intake = Intake(open_window or stream.window, parameters, default, summary.lines.append)
    sources = {
        group: _WithholdingInput(source, withheld, parameters.names, clock)
        for group, source in stream.sources().items()
    }
    groups = Groups(
        intake,
        estimator,
        open_sink,
        parameters.groups_forget_after,
        summary.lines.append,
        summary.fail,
        close_sink,
        clock=clock,
        new=new,
    )
    first_ns = bag.begin_ns if begin is None else max(to_ns(begin), bag.begin_ns)
    last_ns = bag.end_ns if end is None else min(to_ns(end), bag.end_ns)
    step_ns = 1e9 / parameters.rate  # estimates are due at whole nanoseconds: a message of that time comes before it
    tick, heard = math.floor((first_ns - bag.begin_ns) / step_ns) + 1, False

    def estimate_until(limit_ns: int) -> None:
        """The estimates that are due before a time of recording (ns)."""
        nonlocal tick, heard
        while (due_ns := bag.begin_ns + round(tick * step_ns)) < limit_ns:
            if not heard and groups.stale:  # nothing happens until the stream is back
                tick = max(tick, math.ceil((limit_ns - bag.begin_ns) / step_ns))
                return
            clock.now, heard = due_ns * NANOSECOND, False
            if on_tick is not None:
                on_tick(tick, clock.now)
            groups.step()
            tick += 1

    began = time.perf_counter()
    heard_on = stream.heard(sources)
    for entry in [] if begin is None else bag.messages({t for t, h in heard_on.items() if h.latched}, None, begin):
        heard_on[entry.topic].read(bag.read(entry), "")
    for entry in bag.messages(set(heard_on) if on_entry is None else None, begin, end):
        estimate_until(entry.time_ns)
        clock.now = moment = entry.time
        if on_entry is not None:
            on_entry(entry)
        found = heard_on.get(entry.topic)
        if found is None or entry.connection.msgtype != found.type_name:
            continue
        summary.messages += 1
        place = found.place
        if not sources[place.group].withholds(place.agent):
            intake.push(bag.read(entry), place.agent, moment, moment, found.read, place.group)
            intake.drain()
            heard = True
    estimate_until(last_ns + 1)
    summary.run_seconds = time.perf_counter() - began
    summary.stream_seconds, summary.estimates = (last_ns - first_ns) * NANOSECOND, groups.estimates
    return summary


class _Clock:
    """Time of recording that a run has come to (s)."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _WithholdingInput(Input):
    """An input that leaves the withheld agents out of what it reads."""

    def __init__(self, source: Input, withheld: Withheld | None, names: dict[str, str], clock: _Clock) -> None:
        super().__init__(source.names)
        self._source, self._withheld, self._mapped, self._clock = source, withheld, names, clock
        self.type_name, self.per_agent = source.type_name, source.per_agent
        self.companions = [companion._replace(read=self._without(companion.read)) for companion in source.companions]

    def withholds(self, agent: str) -> bool:
        """Whether a message of an agent's own topic is withheld now."""
        withheld = self._withheld
        return withheld is not None and self._name(agent) in withheld.agents and withheld.at(self._clock.now)

    def read(self, message: Any, agent: str) -> list[Sample]:
        """What the source reads, without the agents withheld now."""
        return self._without(self._source.read)(message, agent)

    def _without(self, read: Reader) -> Reader:
        def read_rest(message: Any, agent: str) -> list[Sample]:
            samples = read(message, agent)
            if self._withheld is None or not self._withheld.at(self._clock.now):
                return samples
            return [self._rest(sample, self._withheld.agents) for sample in samples]

        return read_rest

    def _rest(self, sample: Sample, agents: frozenset[str]) -> Sample:
        kept = [row for row, name in enumerate(sample.names) if self._name(name) not in agents]

        def rows(values: Any) -> Any:
            return None if values is None else values[kept]

        return replace(
            sample,
            names=[sample.names[row] for row in kept],
            positions=sample.positions[kept],
            tracked=rows(sample.tracked),
            velocities=rows(sample.velocities),
            orientations=rows(sample.orientations),
            confidence=rows(sample.confidence),
        )

    def _name(self, agent: str) -> str:
        return self._mapped.get(agent, agent)
