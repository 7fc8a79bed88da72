"""What a node would say of three robots on circles, of which one may be hidden; as ROS messages or as a bag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from siha_ros.node.messages import to_time
from siha_ros.replay.bag import BagWriter

NAMES = ["robot_0", "robot_1", "robot_2"]
LOST = 2  # index of the robot that gets hidden
STEP = 0.1  # s
BEGIN = 1_000_000.0  # s: stamps and times of recording of a bag begin here
ERROR = 0.1  # m, along x, of the estimate of the hidden robot
KINDS = {
    "/truth": "siha_ros/msg/SkeletonFrame",
    "/siha/states": "siha_ros/msg/ReconstructedStates",
    "/siha/forecast": "siha_ros/msg/Forecast",
    "/siha/graph": "siha_ros/msg/InteractionGraph",
}


def at(elapsed: float) -> np.ndarray:
    """True positions [3, 11, 3] (m) at a time and in ten steps of the forecast."""
    angle = 0.3 * (elapsed + STEP * np.arange(11)) + 2.1 * np.arange(3)[:, None]
    return np.stack([2 * np.cos(angle), 2 * np.sin(angle), 0 * angle], axis=-1)


def outputs(new: Callable[..., Any], stamp: float, elapsed: float, hidden: bool) -> dict[str, Any]:
    """Messages by topic at a stamp (s), `elapsed` s after the robots began to move."""
    header = new("std_msgs/msg/Header", stamp=to_time(stamp, new), frame_id="map")
    positions = at(elapsed)
    agents = []
    for i, name in enumerate(NAMES):
        agent = new("siha_ros/msg/AgentState", name=name, status=1)
        x, y, _ = positions[i, 0]
        if hidden and i == LOST:
            agent.status, agent.reason, agent.position_95, agent.time_since_seen = 3, "silent on purpose", 0.8, 3.0
            x += ERROR
        agent.pose.position.x, agent.pose.position.y = float(x), float(y)
        agents.append(agent)
    pairs = np.stack([np.eye(3), 1 - np.eye(3)], axis=-1)
    pairs[np.arange(3), np.arange(3)] = 0
    fields: dict[str, dict[str, Any]] = {
        "/truth": {"joints": NAMES, "positions": positions[:, 0].ravel(), "tracked": [True] * 3},
        "/siha/states": {"agents": agents, "latency": 0.007, "bundle": "stand_in"},
        "/siha/forecast": {
            "agents": NAMES,
            "step": STEP,
            "horizon": 10,
            "positions": positions[:, 1:].ravel(),
            "covariance": np.broadcast_to(0.01 * np.eye(3), (3, 10, 3, 3)).ravel(),
        },
        "/siha/graph": {
            "agents": NAMES,
            "edge_types": ["none", "spring"],
            "probability": pairs.astype(np.float32).ravel(),
        },
    }
    return {topic: new(KINDS[topic], header=header, group="team", **values) for topic, values in fields.items()}


def write_circles(path: Path, seconds: float, hidden: tuple[float, float]) -> Path:
    """A bag with ten estimates a second, one robot hidden from one time to another (s after the beginning)."""
    with BagWriter(path, "mcap") as writer:
        for tick in range(round(seconds / STEP) + 1):
            elapsed = round(tick * STEP, 6)
            messages = outputs(writer.new, BEGIN + elapsed, elapsed, hidden[0] <= elapsed < hidden[1])
            for topic, message in messages.items():
                writer.write(topic, KINDS[topic], round((BEGIN + elapsed) * 1e9), message)
    return path
