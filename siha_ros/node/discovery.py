"""Which topics carry the stream: agents found by the topic pattern, and the message type asked from the graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

AGENT = "{agent}"
_TOKEN = "AGENT_TOKEN"


def resolved_template(template: str, resolve: object) -> str:
    """A topic template with namespace and remappings applied by `resolve`, {agent} kept."""
    return resolve(template.replace(AGENT, _TOKEN)).replace(_TOKEN, AGENT)  # type: ignore[operator]


def matching_agents(template: str, topics: Iterable[str]) -> dict[str, str]:
    """Topic by agent, sorted by name, of the topics that match a template like /{agent}/pose."""
    pattern = re.compile("([^/]+)".join(re.escape(part) for part in template.split(AGENT)))
    matches = ((match.group(1), topic) for topic in topics if (match := pattern.fullmatch(topic)))
    return dict(sorted(matches))


def common_type(topics: Iterable[str], graph: Mapping[str, Sequence[str]], supported: Sequence[str]) -> str | None:
    """The supported type that most of the topics have, the first of `supported` where several do; None where none has any."""
    counts = {kind: 0 for kind in supported}
    for topic in topics:
        for kind in graph.get(topic, ()):
            if kind in counts:
                counts[kind] += 1
    best = max(supported, key=lambda kind: counts[kind])
    return best if counts[best] else None
