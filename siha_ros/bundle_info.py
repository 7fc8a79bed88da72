"""``siha bundle info``: what a bundle holds, what it is for, what it was trained on, and how good it is, for people."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from siha_ros.estimator import NOISE_AGE, NOISY
from siha_ros.model.bundle import RECORDED, BundleConfig, load_bundle
from siha_ros.model.mix import mixes_of, shares


def describe(path: Path) -> str:
    """A text on the bundle in a folder; the bundle is loaded and checked. Raises BundleError, in one line."""
    bundle = load_bundle(path)
    config = bundle.config
    size = sum(file.stat().st_size for file in path.iterdir() if file.is_file()) / 1e6
    sections = [
        (f"{config.name}: {config.purpose}", _rows(_purpose(config))),
        (
            f"Ranges that it is for (beyond them {_beyond(config)}, and the reason says so)",
            _rows(_ranges(config)),
        ),
        (f"Holds {size:.1f} MB", _rows(_modules(bundle.networks, config))),
        ("Training", _rows(_training(config))),
        (
            f"Errors on {_measured_on(config)} by time since loss: 68 % half-width per axis, 95 % radius (cm)",
            _errors(config),
        ),
        (
            "Share of the networks in what it says; the rest is an agent's last motion",
            _rows(shares(mixes_of(bundle))),
        ),
        ("Measured", _metrics(config.metrics)),
    ]
    return "\n\n".join("\n".join([head, *body]) for head, body in sections if body)


def _measured_on(config: BundleConfig) -> str:
    return "the test part of the recordings" if config.system == RECORDED else "validation data"


def _beyond(config: BundleConfig) -> str:
    if config.frame == "body":
        return "joints keep their place beside those still seen"
    return "agents go on at constant velocity"


def _purpose(config: BundleConfig) -> list[tuple[str, str]]:
    if config.identified:
        agents = f"{config.count}, by name: {', '.join(config.agent_names)}"
        hidden = "; ".join(f"{limb}: {', '.join(config.limbs[limb])}" for limb in config.hidden_sets)
    else:
        agents, hidden = f"{config.count}, alike; names come from the stream", f"any, up to {config.max_hidden}"
    seconds, ahead = config.window * config.dt, config.horizon * config.dt
    return [
        ("system", config.system),
        ("agents", agents),
        ("may be hidden", hidden),
        (
            "window",
            f"{config.window} frames of {config.dt:.4g} s ({seconds:.3g} s), {config.dims}-D; "
            f"forecast {config.horizon} frames ({ahead:.3g} s)",
        ),
        (
            "frame",
            {"world": "the stream's own", "team": "moves with the team", "body": "moves and turns with the body"}[
                config.frame
            ],
        ),
        ("velocities", config.velocity.replace("_", " ")),
        ("edge types", ", ".join(config.edge_types)),
        ("refinement", f"{config.rounds} rounds"),
        ("scale", f"{config.scale.position:.4g} m, {config.scale.velocity:.4g} m/s"),
    ]


def _ranges(config: BundleConfig) -> list[tuple[str, str]]:
    ranges = config.ranges
    return [
        ("agents", _span(ranges.agents, "g")),
        ("rate", f"{_span(ranges.rate, 'g')} Hz"),
        ("speed", f"up to {ranges.speed:.2f} m/s in the frame"),
        ("extent", f"up to {ranges.extent:.2f} m from the frame's origin"),
    ]


def _span(bounds: Iterable[float], form: str) -> str:
    low, high = bounds
    return f"{low:{form}}" if low == high else f"{low:{form}} to {high:{form}}"


def _modules(networks: dict[str, Any], config: BundleConfig) -> list[tuple[str, str]]:
    rows = []
    for name, entry in config.modules.items():
        if name in networks:
            weights = sum(parameter.numel() for parameter in networks[name].parameters())
            rows.append((name, f"{entry.kind}, {weights / 1e3:.0f} thousand weights"))
        else:
            rows.append((name, "plain arrays"))
    return rows


def _training(config: BundleConfig) -> list[tuple[str, str]]:
    training = config.training
    stages = [f"{stage} {training.minutes[stage]:.1f} min" for stage in training.minutes]
    samples = [f"{stage} {count}" for stage, count in training.samples.items()]
    return [
        ("command", training.command),
        ("data", training.data),
        ("seed", str(training.seed)),
        ("trials", ", ".join(training.trials) or "-"),
        ("took", ", ".join(stages) or "-"),
        ("samples", ", ".join(samples) or "-"),
        ("revision", training.revision),
        ("versions", ", ".join(f"{name} {version}" for name, version in training.versions.items())),
    ]


def _errors(config: BundleConfig) -> list[str]:
    rows = []
    for name, table in config.errors.items():
        entries = zip(table.seconds, table.half_width, table.radius, strict=True)
        if name.startswith(NOISE_AGE):  # in units of what the tables by the size of noise say
            cells = [f"{seconds:g} s: {width:.2g}, {radius:.2g} times" for seconds, width, radius in entries]
        elif name.startswith(NOISY):  # by the size of noise, in units of the deviation that is predicted
            cells = [f"{1e3 * noise:g} mm: {width:.2g}, {radius:.2g} times" for noise, width, radius in entries]
        else:
            cells = [f"{seconds:g} s: {100 * width:.1f}, {100 * radius:.1f}" for seconds, width, radius in entries]
        step = max(1, len(cells) // 5)
        rows.append((name, "; ".join(cells[:-1:step] + cells[-1:])))
    return _rows(rows)


def _metrics(metrics: dict[str, Any], indent: int = 1) -> list[str]:
    lines: list[str] = []
    plain = {key: value for key, value in metrics.items() if not isinstance(value, dict)}
    if plain:
        lines.append("  " * indent + ", ".join(f"{key} {_short(value)}" for key, value in plain.items()))
    for key, value in metrics.items():
        if isinstance(value, dict):
            lines += ["  " * indent + f"{key}:", *_metrics(value, indent + 1)]
    return lines


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"  {name.ljust(width)}  {text}" for name, text in rows]
