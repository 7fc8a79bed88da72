"""The node's parameters: what each is for, its default, its range, and the one place where a value is checked.

`Parameters` is the whole list; descriptors for ROS, the check of a value and the table in docs/node.md are all made
from it. Nothing here needs a running node.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from siha_ros.node.inputs import INPUT_TYPES
from siha_ros.window.sliding_window import WindowParameters


class ParameterError(ValueError):
    """One line that names a parameter, its value and what was expected."""


@dataclass(frozen=True)
class Declaration:
    """One parameter as ROS sees it; low and high are inclusive, choices are the only values allowed."""

    name: str
    default: Any
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = False

    @property
    def type_name(self) -> str:
        """bool, int, float, string or string[]."""
        return {bool: "bool", int: "int", float: "float", str: "string", tuple: "string[]"}[type(self.default)]

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        words = {
            "bool": "true or false",
            "int": "a whole number",
            "float": "a number",
            "string": "a text",
            "string[]": "a list of texts",
        }[self.type_name]
        return words if self.low is None else f"{words} from {self.low:g} to {self.high:g}"

    def check(self, value: Any) -> Any:
        """The value in the type of the default: a whole number is fine for a float. Raises ParameterError."""
        kind = type(self.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if kind is tuple and isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value):
            return tuple(text for text in value if text)  # [''] is how ROS writes an empty list of texts
        if value is True and "y" in self.choices:
            value = "y"  # what YAML, on a command line too, makes of a y without quotes
        wrong = type(value) is not kind or (self.choices and value not in self.choices)
        if not wrong and self.low is not None and self.high is not None:
            wrong = not math.isfinite(value) or not self.low <= value <= self.high
        if wrong:
            raise ParameterError(f"parameter {self.name} is {value!r}: expected {self.expected}")
        return value


def _parameter(
    default: Any,
    description: str,
    *,
    name: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    read_only: bool = False,
) -> Any:
    extra = {
        "name": name,
        "description": description,
        "low": low,
        "high": high,
        "choices": choices,
        "read_only": read_only,
    }
    return field(default=default, metadata=extra)


@dataclass(frozen=True)
class Parameters:
    """Values of all parameters, checked. They take effect at configure, and are refused while configured."""

    autostart: bool = _parameter(True, "Configure and activate at start, without a lifecycle manager.", read_only=True)
    bundle: str = _parameter(
        "springs_team", "Trained model: the name of a shipped one or the path of a bundle's folder."
    )
    device: str = _parameter("auto", "Where the model runs: auto (a GPU where there is one), cpu, cuda or cuda:N.")
    rate: float = _parameter(
        20.0, "Estimates per second of wall time, at most; the newest window wins.", low=0.1, high=200.0
    )
    group: str = _parameter(
        "",
        "Name of the team or body in all outputs; other groups of a stream that names its groups are ignored."
        " Empty: all groups, or 'team' or 'body' where the stream names none.",
    )
    groups_max: int = _parameter(
        8,
        "Teams or bodies at once, each with a window of its own; more are dropped.",
        name="groups.max",
        low=1,
        high=64,
    )
    groups_forget_after: float = _parameter(
        10.0,
        "A group that has been silent for so long in wall time, while another is heard, is forgotten, s.",
        name="groups.forget_after",
        low=0.5,
        high=3600.0,
    )
    frame_id: str = _parameter(
        "",
        "Frame of all outputs. What comes in another frame is moved there by TF where tf2_ros is"
        " installed, else dropped. Empty: the frame of the first message, or one that ten times as many name.",
    )
    stamp_source: str = _parameter(
        "header",
        "Time of an observation: the header's stamp, or the node's clock at arrival.",
        choices=("header", "arrival"),
    )

    input_type: str = _parameter(
        "auto",
        "Message type of the input; auto asks the topics found. Types of packages that are not"
        " installed are listed too: the error names what to install.",
        name="input.type",
        choices=("auto", *INPUT_TYPES),
    )
    input_topic: str = _parameter(
        "",
        "Input topic. {agent} stands for an agent's name where each agent has a topic, {group} for that of its team"
        " or body. Empty: the topic of input.type's drivers, with auto {agent}/pose, for a bundle with named joints"
        " skeleton; in the node's namespace.",
        name="input.topic",
    )
    input_agents: tuple[str, ...] = _parameter(
        (),
        "Names of the agents in the stream (of a PoseArray or of keypoints: by index; of /tf: the frames)."
        " Empty: every agent whose topic matches input.topic, late ones too.",
        name="input.agents",
    )
    input_twists: str = _parameter(
        "",
        "Topic of the geometry_msgs/TwistStamped that belongs to a PoseStamped, {agent} in it;"
        " empty: there is none. Poses and twists are paired by their stamps.",
        name="input.twists",
    )
    input_up_axis: str = _parameter(
        "z",
        "Axis that points up in the stream, of Y-up motion capture y: it becomes z.",
        name="input.up_axis",
        choices=("z", "y"),
    )
    input_scale: float = _parameter(
        1.0, "Metres of one unit of the stream: 0.001 for millimetres.", name="input.scale", low=1e-6, high=1e6
    )
    input_depth: int = _parameter(
        50, "Messages kept per input topic until the node takes them.", name="input.depth", low=1, high=10000
    )
    name_map: tuple[str, ...] = _parameter(
        (), "Stream names that differ from the bundle's, each as 'stream_name:bundle_name'."
    )

    grid_delay: float = _parameter(
        -1.0,
        "How far the newest grid time lies behind the newest stamp, s; negative: one step of the bundle's grid.",
        name="window.grid_delay",
        low=-1.0,
        high=10.0,
    )
    max_gap: float = _parameter(
        0.3,
        "Longest gap between two samples of an agent that is interpolated, s.",
        name="window.max_gap",
        low=0.01,
        high=60.0,
    )
    reorder_tolerance: float = _parameter(
        0.5,
        "Stamps that go back by no more than this are put in their place; beyond,"
        " time went back and the window starts anew, s.",
        name="window.reorder_tolerance",
        low=0.001,
        high=60.0,
    )
    stale_timeout: float = _parameter(
        1.0,
        "The stream is stale when nothing at all arrives for this long in wall time, s.",
        name="window.stale_timeout",
        low=0.05,
        high=60.0,
    )
    silence_timeout: float = _parameter(
        0.3,
        "An agent is hidden when silent for this long in stream time, s.",
        name="visibility.silence_timeout",
        low=0.01,
        high=60.0,
    )
    hide_after: float = _parameter(
        0.12,
        "An agent reported as untracked, missing, NaN, zero, of low confidence or after a jump is hidden once that has"
        " lasted so long, s; shorter gaps are bridged.",
        name="visibility.hide_after",
        low=0.0,
        high=60.0,
    )
    hide_samples: int = _parameter(
        4, "... and for so many samples in a row.", name="visibility.hide_samples", low=1, high=1000
    )
    show_after: float = _parameter(
        0.1,
        "A hidden or new agent is seen once it has been tracked for so long, s.",
        name="visibility.show_after",
        low=0.0,
        high=60.0,
    )
    show_samples: int = _parameter(3, "... and in so many samples.", name="visibility.show_samples", low=1, high=1000)
    forget_after: float = _parameter(
        60.0,
        "An agent not known beforehand is forgotten once no message has named it for so long, s; 0: never.",
        name="visibility.forget_after",
        low=0.0,
        high=86400.0,
    )
    min_confidence: float = _parameter(
        0.3, "A sample of less confidence counts as not seen.", name="visibility.min_confidence", low=0.0, high=1.0
    )
    zero_is_unseen: bool = _parameter(
        True,
        "What is exactly at the origin, with an identity quaternion or none, counts as not seen, as motion capture"
        " sends it for what it lost; not of Odometry, PoseWithCovarianceStamped and SkeletonFrame.",
        name="visibility.zero_is_unseen",
    )
    frozen_after: float = _parameter(
        0.25,
        "An agent whose pose is the same to the bit while others move is hidden once that has lasted so long, s;"
        " visibility.silence_timeout at the latest; 0: never. Not of Odometry, PoseWithCovarianceStamped and"
        " SkeletonFrame.",
        name="visibility.frozen_after",
        low=0.0,
        high=60.0,
    )
    max_speed: float = _parameter(
        20.0,
        "What moves faster has jumped, m/s: it is hidden until it has stayed where it jumped to; 0: nothing has.",
        name="visibility.max_speed",
        low=0.0,
        high=1e6,
    )
    jump_margin: float = _parameter(
        0.3,
        "A move by less is no jump however short the time, m: noise, and stamps that jitter.",
        name="visibility.jump_margin",
        low=0.0,
        high=1e6,
    )
    markers_edge_threshold: float = _parameter(
        0.5, "Edges of this probability or less are not drawn.", name="markers.edge_threshold", low=0.0, high=1.0
    )
    markers_size: float = _parameter(
        0.0,
        "Diameter of an agent's marker, m; 0: 0.25 for a team, 0.06 for a body.",
        name="markers.size",
        low=0.0,
        high=10.0,
    )

    def __post_init__(self) -> None:
        for entry in self.name_map:
            if entry.count(":") != 1 or not all(entry.split(":")):
                raise ParameterError(f"parameter name_map has {entry!r}: expected 'stream_name:bundle_name'")
        targets = list(self.names.values())
        if len(set(targets)) < len(self.name_map):
            raise ParameterError(
                f"parameter name_map is {list(self.name_map)!r}: expected each name once on either side"
            )
        if len(set(self.input_agents)) < len(self.input_agents):
            raise ParameterError(f"parameter input.agents is {list(self.input_agents)!r}: expected each name once")
        if self.device not in ("auto", "cpu", "cuda") and not self.device.removeprefix("cuda:").isdigit():
            raise ParameterError(f"parameter device is {self.device!r}: expected auto, cpu, cuda or cuda:N")

    @property
    def names(self) -> dict[str, str]:
        """`name_map` as a dictionary from stream name to bundle name."""
        return dict(entry.split(":") for entry in self.name_map)

    @classmethod
    def checked(cls, values: Mapping[str, Any]) -> Parameters:
        """From ROS names and values; what is not given keeps its default. Raises ParameterError."""
        attributes = {d.name: f.name for d, f in zip(DECLARATIONS, dataclasses.fields(cls), strict=True)}
        known = {d.name: d for d in DECLARATIONS}
        return cls(**{attributes[name]: known[name].check(value) for name, value in values.items()})


DECLARATIONS = tuple(
    Declaration(
        f.metadata["name"] or f.name,
        f.default,
        **{key: f.metadata[key] for key in ("description", "low", "high", "choices", "read_only")},
    )
    for f in dataclasses.fields(Parameters)
)


def window_parameters(p: Parameters) -> WindowParameters:
    """The window's part of the node's parameters."""
    return WindowParameters(
        silence_timeout=p.silence_timeout,
        hide_after=p.hide_after,
        hide_samples=p.hide_samples,
        show_after=p.show_after,
        show_samples=p.show_samples,
        forget_after=p.forget_after,
        min_confidence=p.min_confidence,
        zero_is_unseen=p.zero_is_unseen,
        frozen_after=p.frozen_after,
        max_speed=p.max_speed,
        jump_margin=p.jump_margin,
        grid_delay=None if p.grid_delay < 0.0 else p.grid_delay,
        max_gap=p.max_gap,
        reorder_tolerance=p.reorder_tolerance,
        stale_timeout=p.stale_timeout,
    )


def markdown_table() -> str:
    """The table of parameters in docs/node.md."""
    lines = ["| parameter | type | default | range | what it is for |", "| --- | --- | --- | --- | --- |"]
    for d in DECLARATIONS:
        default = {"bool": str(d.default).lower(), "string": d.default or '""', "string[]": "[]"}.get(
            d.type_name, d.default
        )
        span = ", ".join(d.choices) if d.choices else "" if d.low is None else f"{d.low:g} to {d.high:g}"
        use = d.description + (" Read-only." if d.read_only else "")
        lines.append(f"| `{d.name}` | {d.type_name} | `{default}` | {span} | {use} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":  # python -m siha_ros.node.parameters
    print(markdown_table(), end="")
