"""Which topics carry the stream, and of which type: agents found by the topic pattern, types asked from the graph,
names that stream and bundle do not share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from siha_ros.node.inputs import INPUTS, Input, make_input
from siha_ros.node.inputs.pose import PoseInput
from siha_ros.node.inputs.twists import NearestPairs, NewestPairs, Pairs
from siha_ros.node.parameters import ParameterError, Parameters

AGENT, GROUP = "{agent}", "{group}"
_TOKENS = {AGENT: "AGENT_TOKEN", GROUP: "GROUP_TOKEN"}
_TOPIC = re.compile(r"~?/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)


def parameters_input(
    type_name: str, parameters: Parameters, bundle: Sequence[str], pairs: Callable[[], Pairs] = NearestPairs
) -> Input:
    """The input of a ROS type as the parameters want it; bundle: names of its agents, where they have some."""
    return make_input(
        type_name,
        parameters.input_agents,
        bundle=bundle,
        mapped=tuple(parameters.names),
        twists=parameters.input_twists,
        pairs=NewestPairs if parameters.stamp_source == "arrival" else pairs,
    )


def topic_template(parameters: Parameters, identified: bool) -> str:
    """The topic of the input, with {agent} where each agent has one; identified: the bundle names its agents."""
    if parameters.input_topic:
        return parameters.input_topic
    if parameters.input_type != "auto":
        return INPUTS[parameters.input_type].topic
    return "skeleton" if identified else f"{AGENT}/pose"


def check_topic(template: str, source: Input | None, agents: Iterable[str] = ()) -> None:
    """Raise ParameterError where a topic template does not suit the input, None being one yet unknown, or where the
    topic of a listed agent would not be one."""
    problem = f"parameter input.topic is {template!r}: expected {AGENT} in it"
    if template.count(AGENT) > 1 or template.count(GROUP) > 1:
        raise ParameterError(f"{problem} once at most, and {GROUP} too")
    if source is not None and source.per_agent and AGENT not in template:
        raise ParameterError(f"{problem}, as {source.type_name} comes on one topic per agent")
    if source is not None and not source.per_agent and AGENT in template:
        raise ParameterError(f"{problem} only where each agent has a topic; a {source.type_name} holds all agents")
    for agent in agents if AGENT in template else ():
        if not _TOPIC.fullmatch(template.replace(AGENT, agent).replace(GROUP, "group")):
            raise ParameterError(
                f"parameter input.agents has {agent!r}: expected a part of the topic {template}, of letters, digits and"
                " underscores"
            )


def check_twists(twists: str, type_name: str, template: str) -> None:
    """Raise ParameterError where a topic of twists, empty for none, is none that each agent has, or where an input of
    this type ("auto" for one yet unknown) and topic template has no use for it."""
    problem = f"parameter input.twists is {twists!r}: expected"
    if not twists:
        return
    if AGENT not in twists or not _TOPIC.fullmatch(twists.replace(AGENT, "agent").replace(GROUP, "group")):
        raise ParameterError(f"{problem} a topic with {AGENT} in it, of letters, digits and underscores")
    if type_name not in ("auto", PoseInput.type_name) or AGENT not in template:
        raise ParameterError(f"{problem} none, as only {PoseInput.type_name} has twists beside it")


def resolved_template(template: str, resolve: Callable[[str], str]) -> str:
    """A topic template with namespace and remappings applied by `resolve`, {agent} and {group} kept."""
    for name, token in _TOKENS.items():
        template = template.replace(name, token)
    template = resolve(template)
    for name, token in _TOKENS.items():
        template = template.replace(token, name)
    return template


def unmatched(stream: Sequence[str], names: Mapping[str, str], bundle: Sequence[str]) -> str:
    """One line on the names that stream and bundle do not share, after translation by `names`; empty where all meet."""
    translated = [names.get(name, name) for name in stream]
    unknown = [name for name in translated if name not in set(bundle)]
    missing = [name for name in bundle if name not in set(translated)]
    parts = []
    if unknown:
        parts.append(f"not in the bundle, ignored: {', '.join(unknown)}")
    if missing:
        parts.append(f"in the bundle only, never seen: {', '.join(missing)}")
    return f"agent names (see name_map): {'; '.join(parts)}" if parts else ""


class Place(NamedTuple):
    """A topic, and the agent and the group that it belongs to; empty where its template has none."""

    topic: str
    agent: str = ""
    group: str = ""

    def fill(self, template: str) -> str:
        """Another template, for the same agent and group."""
        return template.replace(AGENT, self.agent).replace(GROUP, self.group)


def matching(template: str, topics: Iterable[str]) -> list[Place]:
    """The topics that match a template like /{group}/{agent}/pose, sorted by group and agent."""
    pattern = re.escape(template)
    for name, key in ((AGENT, "agent"), (GROUP, "group")):
        pattern = pattern.replace(re.escape(name), f"(?P<{key}>[^/]+)")
    matches = ((topic, match.groupdict("")) for topic in topics if (match := re.fullmatch(pattern, topic)))
    found = [Place(topic, names.get("agent", ""), names.get("group", "")) for topic, names in matches]
    return sorted(found, key=lambda place: (place.group, place.agent))


def matching_agents(template: str, topics: Iterable[str]) -> dict[str, str]:
    """Topic by agent, sorted by name, of the topics that match a template like /{agent}/pose."""
    return {place.agent: place.topic for place in matching(template, topics)}


def input_type(template: str, topics: Iterable[str], graph: Mapping[str, Sequence[str]]) -> str | None:
    """Of the types that can be read and that suit a topic template, the one that most of the topics have; None where
    none has any. graph: types by topic."""
    fitting = [name for name, kind in INPUTS.items() if kind.per_agent == (AGENT in template)]
    return common_type(topics, graph, fitting)


def common_type(topics: Iterable[str], graph: Mapping[str, Sequence[str]], supported: Sequence[str]) -> str | None:
    """The supported type that most of the topics have, the first where several do; None where none has any."""
    counts = dict.fromkeys(supported, 0)
    for topic in topics:
        for kind in graph.get(topic, ()):
            if kind in counts:
                counts[kind] += 1
    best = max(supported, key=lambda kind: counts[kind])
    return best if counts[best] else None
