"""/diagnostics: state of the node, of its agents and of its model, as DiagnosticArray."""

from __future__ import annotations

import math
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from siha_ros.node.pipeline import Pipeline
from siha_ros.window.types import Status

CLOCKS_APART = 1.0  # s: agents whose clocks differ by more are an error


def status(name: str, level: bytes, message: str, values: Mapping[str, object]) -> DiagnosticStatus:
    """One DiagnosticStatus; values are written as text."""
    pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    return DiagnosticStatus(name=name, level=level, message=message, values=pairs)


def array_message(statuses: list[DiagnosticStatus]) -> DiagnosticArray:
    """The array; the stamp is left to the caller."""
    return DiagnosticArray(status=statuses)


def node_status(
    node: str, state: str, values: dict[str, object], errors: list[str], warnings: list[str]
) -> DiagnosticStatus:
    """The node itself: lifecycle state, device, rate, latency and drops."""
    level = DiagnosticStatus.ERROR if errors else DiagnosticStatus.WARN if warnings else DiagnosticStatus.OK
    return status(f"{node}: node", level, "; ".join([*errors, *warnings]) or state, {"state": state, **values})


def stream_values(pipeline: Pipeline) -> dict[str, object]:
    """Rate, latency and counts of an active node."""
    latency = pipeline.latency_ms()
    return {
        "rate (Hz)": f"{pipeline.rate():.1f}",
        "latency p50 (ms)": f"{latency[0]:.1f}" if latency else "",
        "latency p99 (ms)": f"{latency[1]:.1f}" if latency else "",
        "estimate (ms)": f"{pipeline.scene.estimate.ms:.1f}" if pipeline.scene else "",
        "estimates": pipeline.estimates,
        "messages received": pipeline.intake.received,
        **{f"dropped, {reason}": count for reason, count in pipeline.intake.dropped.copy().items()},
        **{f"not used, {reason}": count for reason, count in pipeline.window.rejected.copy().items()},
        "window resets": pipeline.window.resets,
    }


def clock_offsets(pipeline: Pipeline) -> dict[str, float]:
    """By how much (s) each agent's stamps run ahead of the middle one's, where that is known."""
    window = pipeline.window
    return {
        name: float(offset)
        for name, offset in zip(window.names, window.clock_offsets, strict=False)
        if math.isfinite(offset)
    }


def agents_status(node: str, pipeline: Pipeline) -> DiagnosticStatus:
    """Every agent's status and how far its clock is off."""
    scene = pipeline.scene
    clocks = {f"clock offset of {name} (s)": f"{offset:.3f}" for name, offset in clock_offsets(pipeline).items()}
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


def model_status(node: str, bundle: str, pipeline: Pipeline) -> DiagnosticStatus:
    """What the estimator says of its own estimate: warnings where the input is not what the bundle was made for."""
    scene = pipeline.scene
    if scene is None:
        return status(f"{node}: model", DiagnosticStatus.OK, "no estimate yet", {"bundle": bundle})
    estimate = scene.estimate
    reasons = {name: reason for name, reason in zip(estimate.names, estimate.reason, strict=True) if reason}
    values: dict[str, object] = {
        "bundle": bundle,
        "rounds": estimate.rounds,
        "change (m)": f"{estimate.change:.4f}",
        **reasons,
    }
    level = DiagnosticStatus.WARN if reasons else DiagnosticStatus.OK
    return status(
        f"{node}: model",
        level,
        "; ".join(sorted(set(reasons.values()))) or "within what the bundle was made for",
        values,
    )


def clocks_apart(offsets: dict[str, float]) -> str | None:
    """One line where an agent's clock is over a second off the others': stamps of two kinds are mixed."""
    if not offsets:
        return None
    name = max(offsets, key=lambda agent: abs(offsets[agent]))
    apart = offsets[name]
    if abs(apart) <= CLOCKS_APART:
        return None
    side = "ahead of" if apart > 0 else "behind"
    return f"stamps of {name} are {abs(apart):.3g} s {side} the others': is wall time mixed with sim time?"
