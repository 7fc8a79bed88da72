"""What the node says of itself, in its log and on /diagnostics: state of node, agents and model."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from siha_ros.node.intake import Intake
from siha_ros.node.pipeline import Pipeline
from siha_ros.window.types import Status

CLOCKS_APART = 1.0  # s: agents whose clocks differ by more are an error
SLOWER = 0.9  # of the lowest rate of a bundle: a stream below is said to be slow, one that is a little off is not


def status(name: str, level: bytes, message: str, values: Mapping[str, object]) -> DiagnosticStatus:
    """One DiagnosticStatus; values are written as text."""
    pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    return DiagnosticStatus(name=name, level=level, message=message, values=pairs)


class Health:
    """What is wrong with a node: each trouble is logged once, and stands in the diagnostics until it is over.

    A trouble has a key, and either ends by `over` or, where nobody sees its end, after `lasting` seconds without it.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._troubles: dict[str, tuple[bool, str, float]] = {}

    def warn(self, key: str, text: str) -> None:
        """A warning; said again only where its text changes."""
        if self._troubles.get(key, (False, "", 0.0))[1] != text:
            self._logger.warning(text)
        self._troubles[key] = False, text, math.inf

    def fail(self, key: str, text: str, lasting: float = math.inf) -> None:
        """An error; said again only where its text changes."""
        if self._troubles.get(key, (True, "", 0.0))[1] != text:
            self._logger.error(text)
        self._troubles[key] = True, text, time.monotonic() + lasting

    def over(self, *keys: str) -> None:
        """The troubles have ended."""
        for key in keys:
            self._troubles.pop(key, None)

    def clear(self) -> None:
        """Everything starts afresh."""
        self._troubles.clear()

    def level_and_message(self, fine: str) -> tuple[bytes, str]:
        """Level of the worst, errors first; `fine` where nothing is wrong."""
        now = time.monotonic()
        self.over(*(key for key, (_, _, until) in list(self._troubles.items()) if until < now))
        troubles = sorted(self._troubles.values(), key=lambda trouble: not trouble[0])
        if not troubles:
            return DiagnosticStatus.OK, fine
        level = DiagnosticStatus.ERROR if troubles[0][0] else DiagnosticStatus.WARN
        return level, "; ".join(text for _, text, _ in troubles)


def stream_values(intake: Intake, pipelines: Iterable[Pipeline]) -> dict[str, object]:
    """Rate, latency and counts of an active node, over all groups."""
    found = list(pipelines)
    latencies = [1e3 * seconds for pipeline in found for seconds in pipeline.latencies]
    scenes = [scene for pipeline in found if (scene := pipeline.scene)]  # the worker may change them at any moment
    rejected: Counter[str] = sum((pipeline.window.rejected.copy() for pipeline in found), Counter())
    return {
        "rate (Hz)": f"{sum(pipeline.rate() for pipeline in found):.1f}",
        "latency p50 (ms)": f"{np.percentile(latencies, 50):.1f}" if latencies else "",
        "latency p99 (ms)": f"{np.percentile(latencies, 99):.1f}" if latencies else "",
        "estimate (ms)": f"{max(scene.estimate.ms for scene in scenes):.1f}" if scenes else "",
        "estimates": sum(pipeline.estimates for pipeline in found),
        "groups": len(found),
        "messages received": intake.received,
        **{f"dropped, {reason}": count for reason, count in intake.dropped.copy().items()},
        **{f"not used, {reason}": count for reason, count in rejected.items()},
        "window resets": sum(pipeline.window.resets for pipeline in found),
    }


def group_statuses(node: str, config: Any, pipelines: Mapping[str, Pipeline]) -> list[DiagnosticStatus]:
    """Agents and model of every group; the group's name follows the node's where the stream gives it one."""
    if not pipelines:
        return [
            status(f"{node}: agents", DiagnosticStatus.WARN, "nothing heard yet", {}),
            status(f"{node}: model", DiagnosticStatus.OK, "no estimate yet", {"bundle": config.name}),
        ]
    names = [f"{node}: {group}" if pipeline.feed.named else node for group, pipeline in pipelines.items()]
    return [
        found
        for name, pipeline in zip(names, pipelines.values(), strict=True)
        for found in (agents_status(name, pipeline), model_status(name, config, pipeline))
    ]


def agents_status(node: str, pipeline: Pipeline) -> DiagnosticStatus:
    """Every agent's status and how far its clock is off."""
    scene = pipeline.scene
    clocks = {f"clock offset of {name} (s)": f"{offset:.3f}" for name, offset in pipeline.window.clock_offsets.items()}
    if scene is None:
        return status(f"{node}: agents", DiagnosticStatus.WARN, "no full window yet", clocks)
    window = scene.window
    lost = [name for name, hidden in zip(window.names, window.hidden, strict=True) if hidden]
    values = {
        name: Status(int(code)).name + (f" ({reason})" if reason else "")
        for name, code, reason in zip(window.names, window.status, window.reason, strict=True)
    }
    level, message = DiagnosticStatus.OK, f"all {len(window.names)} seen"
    if pipeline.stale:
        level, message = DiagnosticStatus.STALE, "the stream has stopped"
    elif lost:
        level, message = DiagnosticStatus.WARN, f"{len(lost)} of {len(window.names)} hidden: {', '.join(lost)}"
    return status(f"{node}: agents", level, message, values | clocks)


def model_status(node: str, config: Any, pipeline: Pipeline) -> DiagnosticStatus:
    """What the estimator says of its own estimate, and the stream's rate: warnings where the input is not what the
    bundle of this BundleConfig was made for."""
    scene, rate = pipeline.scene, pipeline.window.sample_rate
    values: dict[str, object] = {"bundle": config.name, "rate of the stream (Hz)": f"{rate:.3g}"}
    problems = []
    low, high = config.ranges.rate
    if rate < SLOWER * low:
        problems.append(f"the stream comes at {rate:.3g} Hz, the bundle was made for {low:g} to {high:g} Hz")
    if scene is not None:
        estimate = scene.estimate
        reasons = {name: reason for name, reason in zip(estimate.names, estimate.reason, strict=True) if reason}
        values |= {"rounds": estimate.rounds, "change (m)": f"{estimate.change:.4f}", **reasons}
        problems += sorted(set(reasons.values()))
    level = DiagnosticStatus.WARN if problems else DiagnosticStatus.OK
    fine = "within what the bundle was made for" if scene is not None else "no estimate yet"
    return status(f"{node}: model", level, "; ".join(problems) or fine, values)


def clocks_apart(groups: Iterable[Mapping[str, float]]) -> str | None:
    """One line where agents' clocks are over a second off the others' of their group: stamps of two kinds are mixed.
    How far off they are stands with the agents, as it is always another number."""
    apart = sorted({name for offsets in groups for name, offset in offsets.items() if abs(offset) > CLOCKS_APART})
    if not apart:
        return None
    return (
        f"stamps of {', '.join(apart)} are over {CLOCKS_APART:g} s off the others': is wall time mixed with sim time?"
    )
