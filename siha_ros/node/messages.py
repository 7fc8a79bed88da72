"""Estimates out: from a window and its estimate to the messages of all topics.

The functions turn a `Scene` into one message each, and `output_messages` lists them by topic. They need no ROS:
messages are made by `Scene.new`, which gives those of rclpy in the node and those of the bag library in a replay.
Whatever the bundle's dimensions, messages are three-dimensional: a planar agent keeps the height at which it was last
seen.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.node.inputs import message_type
from siha_ros.window.types import Estimate, Status, Window

NewMessage = Callable[..., Any]
"""new(type_name, **fields): a message of a ROS type, "nav_msgs/msg/Odometry" for one; other fields have their
defaults."""

_ros_type = cache(message_type)  # markers make thousands of messages
UNKNOWN_TURN = math.pi**2  # rad^2: variance of an orientation that nobody measured


def ros_message(type_name: str, **fields: Any) -> Any:
    """A message of rclpy, see NewMessage. Raises ImportError, in one line, where the type's package is missing."""
    return _ros_type(type_name)(**fields)


@dataclass(frozen=True)
class Scene:
    """Everything that the messages of one estimate are made of.

    Attributes:
        window: what was seen.
        estimate: its completion, agents in the same order.
        group, frame_id, bundle: names that go into the messages.
        edge_types: [K] names of the interaction types.
        heights: f8[A] z as last seen (m), NaN where never seen.
        orientations: f8[A, 4] quaternions (x, y, z, w) as last seen, NaN where never measured.
        oriented: bool[A], true where the agent's last sample had an orientation.
        latency: from the arrival of the newest observation to now (s).
        new: makes the messages.
    """

    window: Window
    estimate: Estimate
    group: str
    frame_id: str
    bundle: str
    edge_types: tuple[str, ...]
    heights: NDArray[np.float64]
    orientations: NDArray[np.float64]
    oriented: NDArray[np.bool_]
    latency: float = 0.0
    new: NewMessage = ros_message

    @cached_property
    def header(self) -> Any:
        """std_msgs/Header: stamp of the newest grid time, frame of all positions."""
        stamp = to_time(float(self.estimate.times[-1]), self.new)
        return self.new("std_msgs/msg/Header", stamp=stamp, frame_id=self.frame_id)

    @cached_property
    def reconstructed(self) -> NDArray[np.bool_]:
        """bool[A], true where the newest state does not come from the agent's own samples, whatever its status."""
        return ~self.estimate.observed[:, -1]

    def positions(self, planar: NDArray[np.float64]) -> NDArray[np.float64]:
        """f8[A, N, 3] from f8[A, N, P]: planar positions at the agents' heights."""
        if planar.shape[-1] == 3:
            return planar
        heights = np.broadcast_to(np.nan_to_num(self.heights)[:, None, None], (*planar.shape[:-1], 1))
        return np.concatenate((planar, heights), axis=-1)

    @staticmethod
    def velocities(planar: NDArray[np.float64]) -> NDArray[np.float64]:
        """f8[..., 3] from f8[..., P], with no vertical velocity where planar."""
        return np.pad(planar, [(0, 0)] * (planar.ndim - 1) + [(0, 3 - planar.shape[-1])])

    @staticmethod
    def covariances(planar: NDArray[np.float64]) -> NDArray[np.float64]:
        """f8[..., 3, 3] from f8[..., P, P], with no vertical variance where planar."""
        missing = 3 - planar.shape[-1]
        return np.pad(planar, [(0, 0)] * (planar.ndim - 2) + [(0, missing), (0, missing)])


def to_time(seconds: float, new: NewMessage = ros_message) -> Any:
    """builtin_interfaces/Time of seconds, to the nearest nanosecond."""
    whole, nanoseconds = divmod(round(seconds * 1e9), 10**9)
    return new("builtin_interfaces/msg/Time", sec=whole, nanosec=nanoseconds)


def doubles(values: NDArray[np.float64]) -> array[float]:
    """A float64 array field, row-major."""
    return array("d", np.ascontiguousarray(values, dtype=np.float64).tobytes())


def states_message(scene: Scene) -> Any:
    """~/states: every agent at the newest grid time."""
    window, estimate = scene.window, scene.estimate
    positions = scene.positions(estimate.positions[:, -1:])[:, 0].tolist()
    velocities = scene.velocities(estimate.velocities[:, -1]).tolist()
    covariances = scene.covariances(estimate.covariance[:, -1]).reshape(-1, 9)
    now = float(estimate.times[-1])
    message = scene.new(
        "siha_ros/msg/ReconstructedStates",
        header=scene.header,
        group=scene.group,
        bundle=scene.bundle,
        latency=scene.latency,
    )
    for index, name in enumerate(estimate.names):
        seen = float(window.last_seen[index])
        state = scene.new("siha_ros/msg/AgentState", name=name, status=int(window.status[index]))
        state.reason = "; ".join(filter(None, (window.reason[index], estimate.reason[index])))
        _set_pose(state.pose, positions[index], scene.orientations[index])
        state.orientation_valid = _orientation_is_measured(scene, index)
        state.velocity.x, state.velocity.y, state.velocity.z = velocities[index]
        state.position_covariance = covariances[index]
        state.position_95 = float(estimate.position_95[index, -1])
        state.time_since_seen = max(0.0, now - seen) if math.isfinite(seen) else -1.0
        message.agents.append(state)
    return message


def trajectories_message(scene: Scene) -> Any:
    """~/trajectories: the agents not seen at the newest grid time, over the whole window."""
    estimate, chosen = scene.estimate, scene.reconstructed
    covariance = np.where(estimate.observed[..., None, None], 0.0, estimate.covariance)
    return scene.new(
        "siha_ros/msg/HiddenTrajectories",
        header=scene.header,
        group=scene.group,
        agents=[name for name, hidden in zip(estimate.names, chosen, strict=True) if hidden],
        step=scene.window.dt,
        positions=doubles(scene.positions(estimate.positions)[chosen]),
        velocities=doubles(scene.velocities(estimate.velocities)[chosen]),
        covariance=doubles(scene.covariances(covariance)[chosen]),
        observed=estimate.observed[chosen].ravel().tolist(),
    )


def graph_message(scene: Scene) -> Any:
    """~/graph: who influences whom."""
    return scene.new(
        "siha_ros/msg/InteractionGraph",
        header=scene.header,
        group=scene.group,
        agents=scene.estimate.names,
        edge_types=list(scene.edge_types),
        probability=array("f", np.ascontiguousarray(scene.estimate.adjacency, dtype=np.float32).tobytes()),
        reconstructed=scene.reconstructed.tolist(),
    )


def forecast_message(scene: Scene) -> Any:
    """~/forecast: where all agents are going."""
    forecast = scene.estimate.forecast
    return scene.new(
        "siha_ros/msg/Forecast",
        header=scene.header,
        group=scene.group,
        agents=scene.estimate.names,
        step=scene.window.dt,
        horizon=len(forecast.times),
        positions=doubles(scene.positions(forecast.positions)),
        velocities=doubles(scene.velocities(forecast.velocities)),
        covariance=doubles(scene.covariances(forecast.covariance)),
        position_95=doubles(forecast.position_95),
    )


def skeleton_message(scene: Scene) -> Any:
    """~/skeleton: the completed frame; confidence is 0 where a joint is reconstructed."""
    estimate, tracked = scene.estimate, ~scene.reconstructed
    confidence = np.where(tracked, np.clip(scene.window.confidence[:, -1], 0.0, 1.0), 0.0).astype(np.float32)
    return scene.new(
        "siha_ros/msg/SkeletonFrame",
        header=scene.header,
        group=scene.group,
        joints=estimate.names,
        positions=doubles(scene.positions(estimate.positions[:, -1:])),
        tracked=tracked.tolist(),
        confidence=array("f", confidence.tobytes()),
    )


def recovered_message(scene: Scene, index: int) -> Any:
    """~/recovered/<agent>/pose: one agent, seen or not; an orientation not measured now has a variance of pi^2."""
    estimate, message = scene.estimate, scene.new(RECOVERED_TYPE, header=scene.header)
    position = scene.positions(estimate.positions[:, -1:])[index, 0].tolist()
    _set_pose(message.pose.pose, position, scene.orientations[index])
    covariance = np.zeros((6, 6))
    covariance[:3, :3] = scene.covariances(estimate.covariance[index, -1])
    if not _orientation_is_measured(scene, index):
        covariance[3:, 3:] = np.eye(3) * UNKNOWN_TURN
    message.pose.covariance = covariance.ravel()
    return message


def _set_pose(pose: Any, position: list[float], orientation: NDArray[np.float64]) -> None:
    pose.position.x, pose.position.y, pose.position.z = position
    length, q = np.linalg.norm(orientation), pose.orientation
    unit = (orientation / length).tolist() if np.isfinite(length) else (0.0, 0.0, 0.0, 1.0)
    q.x, q.y, q.z, q.w = unit


def _orientation_is_measured(scene: Scene, index: int) -> bool:
    return bool(scene.window.status[index] == Status.VISIBLE and scene.oriented[index])


LONGEST_TOKEN = 100  # of the 247 characters that a topic may have


def topic_token(name: str) -> str:
    """An agent's name as a part of a topic name: what ROS does not allow becomes an underscore, what is long is cut."""
    token = re.sub(r"[^A-Za-z0-9_]", "_", name[:LONGEST_TOKEN])
    return token if token[:1].isalpha() or token[:1] == "_" else f"_{token}"


def output_messages(*, body: bool) -> dict[str, tuple[str, Callable[[Scene], Any]]]:
    """Type and maker of each output, by its topic under the node's name; recovered poses and markers come beside."""
    outputs: dict[str, tuple[str, Callable[[Scene], Any]]] = {
        "states": ("siha_ros/msg/ReconstructedStates", states_message),
        "trajectories": ("siha_ros/msg/HiddenTrajectories", trajectories_message),
        "graph": ("siha_ros/msg/InteractionGraph", graph_message),
        "forecast": ("siha_ros/msg/Forecast", forecast_message),
    }
    return outputs | ({"skeleton": ("siha_ros/msg/SkeletonFrame", skeleton_message)} if body else {})


RECOVERED_TYPE = "geometry_msgs/msg/PoseWithCovarianceStamped"


def recovered_topic(name: str, suffix: str = "", group: str = "") -> str:
    """Topic of an agent's `recovered_message` under the node's name; group: its group where the stream has several."""
    return f"recovered/{f'{topic_token(group)}/' if group else ''}{topic_token(name)}{suffix}/pose"


def distinct_topics(names: Iterable[str], known: Mapping[str, str], group: str = "") -> dict[str, str]:
    """The recovered_topic of each name that is not known yet, with _2, _3, ... where another agent has it already.

    Of names that come together, one that is a topic as it stands goes first, then the order is that of the alphabet.
    """
    topics = dict(known)
    for name in sorted(set(names) - set(known), key=lambda name: (topic_token(name) != name, name)):
        tries = (recovered_topic(name, suffix, group) for suffix in ("", *(f"_{n}" for n in range(2, len(topics) + 3))))
        topics[name] = next(topic for topic in tries if topic not in topics.values())
    return {name: topic for name, topic in topics.items() if name not in known}


def require_finite(estimate: Estimate) -> None:
    """Raise ValueError naming the first array of an estimate that holds a NaN or an infinity."""
    forecast = estimate.forecast
    for name, values in {
        "positions": estimate.positions,
        "velocities": estimate.velocities,
        "covariance": estimate.covariance,
        "position_95": estimate.position_95,
        "adjacency": estimate.adjacency,
        "forecast.positions": forecast.positions,
        "forecast.velocities": forecast.velocities,
        "forecast.covariance": forecast.covariance,
        "forecast.position_95": forecast.position_95,
    }.items():
        if not np.isfinite(values).all():
            raise ValueError(f"the estimate's {name} are not finite: nothing is published for this window")
