"""A bag through the node's own code at full speed: intake, window, estimator, with the bag's recording time as the
clock.

Estimates are causal and come at fixed times: begin of the bag plus k / rate. The one of a time knows the messages that
were recorded up to it, as the node would; how long the computer takes changes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from siha_ros.node.discovery import (
    AGENT,
    GROUP,
    Place,
    check_topic,
    input_type,
    matching_agents,
    parameters_input,
    topic_template,
)
from siha_ros.node.groups import Groups
from siha_ros.node.inputs import INPUT_TYPES, Input, Sample
from siha_ros.node.intake import Intake, Reader
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
    """One topic: the agent it belongs to, its type, what reads it, and whether its messages count from the begin of
    the bag on, whatever part is run."""

    agent: str
    type_name: str
    read: Reader
    latched: bool = False


class Stream:
    """The stream of a group in a bag: which topics carry it, and of which type.

    Args:
        bag: the bag.
        config: of the bundle.
        parameters: the node's.
    """

    def __init__(self, bag: Bag, config: BundleConfig, parameters: Parameters) -> None:
        self.bag, self.config, self.parameters = bag, config, parameters
        template = topic_template(parameters, config.identified)
        template = template if template.startswith("/") else f"/{template}"  # as for a node without a namespace
        if GROUP in template and not parameters.group:
            raise BagError(
                f"bag {bag.path}: {template} is of several groups: expected the parameter group, to choose one"
            )
        template = template.replace(GROUP, parameters.group)
        kind = "" if parameters.input_type == "auto" else parameters.input_type
        check_topic(template, self._input(kind) if kind else None)
        listed = parameters.input_agents
        if AGENT not in template:
            topics = {"": template} if template in bag.types else {}
        elif listed:
            topics = {agent: template.replace(AGENT, agent) for agent in listed}
            topics = {agent: topic for agent, topic in topics.items() if topic in bag.types}
        else:
            topics = matching_agents(template, bag.types)
        kind = kind or input_type(template, topics.values(), bag.types) or ""
        topics = {agent: topic for agent, topic in topics.items() if kind in bag.types[topic]}
        if not topics:
            found = [f"{topic} ({name})" for topic, names in bag.types.items() for name in names if name in INPUT_TYPES]
            raise BagError(
                f"bag {bag.path}: no input on {template} (see --topics); of types that can be read it holds"
                f" {', '.join(found) or 'none'}"
            )
        self.agents = {topic: agent for agent, topic in topics.items()}
        self.kind = kind

    def source(self) -> Input:
        """What reads the messages."""
        return self._input(self.kind)

    def heard(self, source: Input) -> dict[str, Heard]:
        """What is read, by topic: the stream itself and what accompanies it."""
        found = {topic: Heard(agent, self.kind, source.read) for topic, agent in self.agents.items()}
        for agent in self.agents.values():
            for companion in source.companions:
                topic = Place("", agent, self.parameters.group).fill(companion.topic)
                topic = topic if topic.startswith("/") else f"/{topic}"
                found.setdefault(topic, Heard(agent, companion.type_name, companion.read, companion.latched))
        return found

    def _input(self, kind: str) -> Input:
        return parameters_input(kind, self.parameters, self.config.agent_names)

    def window(self, make: Callable[..., SlidingWindow] = SlidingWindow) -> SlidingWindow:
        """An empty window of the bundle for this stream."""
        config, names = self.config, self.parameters.names
        listed = config.agent_names or [names.get(agent, agent) for agent in self.parameters.input_agents]
        return make(config.dt, config.window, config.dims, listed or None, window_parameters(self.parameters))


def run(
    stream: Stream,
    estimator: Any,
    sink: Sink,
    new: NewMessage,
    *,
    window: SlidingWindow | None = None,
    withheld: Withheld | None = None,
    begin: float | None = None,
    end: float | None = None,
    on_entry: Callable[[Entry], object] | None = None,
    on_tick: Callable[[int, float], object] | None = None,
) -> Summary:
    """Run a stream, or the part of it recorded between two times (s), through window and estimator into a sink.

    Args:
        stream, estimator, sink, new: input, estimator of the stream's bundle, where estimates go, what makes messages.
        window: an empty one of the stream, its own by default.
        withheld: what the estimator is not shown.
        on_entry: is given every message of the bag before it is used, also those of other topics.
        on_tick: is given number and time of recording (s) of each estimate before it is made.
    """
    bag, parameters = stream.bag, stream.parameters
    summary, clock = Summary(), _Clock()
    window = window or stream.window()
    one = replace(parameters, groups_max=1)
    intake = Intake(lambda: window, one, "body" if stream.config.identified else "team", summary.lines.append)
    source = _WithholdingInput(stream.source(), withheld, parameters.names, clock)
    intake.source = source
    groups = Groups(
        intake, estimator, lambda feed: sink, math.inf, summary.lines.append, summary.fail, clock=clock, new=new
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
    heard_on = stream.heard(source)
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
        if not source.withholds(found.agent):
            intake.push(bag.read(entry), found.agent, moment, moment, found.read)
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
