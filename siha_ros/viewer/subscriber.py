"""Listens to the node and to the truth, and hands what it hears to a SceneState; the only part that knows of ROS.

Best effort and a queue of one message: a slow viewer loses messages, and never makes the node keep or repeat any.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import Header

from siha_ros.msg import Forecast, HiddenTrajectories, InteractionGraph, ReconstructedStates, SkeletonFrame
from siha_ros.viewer.memory import Graph, Paths, States, Truth
from siha_ros.viewer.scene_state import SceneState
from siha_ros.window.types import Status

GUIDING_TYPE = 1  # of the types of interaction, the one that means "acts on"; 0 is "none"


class ViewerNode(Node):
    """A ROS node that only listens."""

    def __init__(self, state: SceneState, source: str, truth: str, truth_graph: str, **options: Any) -> None:
        """Listen to the outputs of the node of the full name `source`, and to the two topics of the truth."""
        super().__init__("siha_viewer", **options)
        latest = QoSProfile(
            reliability=ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.VOLATILE,
            history=HistoryPolicy.KEEP_LAST,
            depth=1,
        )

        def listen(kind: type, topic: str, take: Callable[[Any], None]) -> None:
            def take_or_warn(message: Any) -> None:
                try:
                    take(message)
                except (ValueError, IndexError) as error:
                    self.get_logger().warning(
                        f"{topic}: malformed message left out ({error})", throttle_duration_sec=5.0
                    )

            self.create_subscription(kind, topic, take_or_warn, latest)

        listen(ReconstructedStates, f"{source}/states", lambda m: state.add_states(states_of(m), time.monotonic()))
        listen(HiddenTrajectories, f"{source}/trajectories", lambda m: state.add_window(window_of(m)))
        listen(Forecast, f"{source}/forecast", lambda m: state.add_forecast(forecast_of(m)))
        listen(InteractionGraph, f"{source}/graph", lambda m: state.add_graph(graph_of(m)))
        listen(SkeletonFrame, truth, lambda m: state.add_truth(truth_of(m)))
        listen(InteractionGraph, truth_graph, lambda m: state.add_truth_graph(graph_of(m)))


def states_of(message: ReconstructedStates) -> States:
    """The message as the viewer keeps it; as for the others, ValueError or IndexError where arrays do not fit."""
    agents = message.agents
    points = [agent.pose.position for agent in agents]
    return States(
        stamp=_seconds(message.header),
        group=message.group,
        names=[agent.name for agent in agents],
        status=np.array([Status(agent.status) for agent in agents], dtype=np.int8),
        reason=[agent.reason for agent in agents],
        positions=np.array([(point.x, point.y, point.z) for point in points]).reshape(-1, 3),
        position_95=np.array([agent.position_95 for agent in agents]),
        since_seen=np.array([agent.time_since_seen for agent in agents]),
        latency=message.latency,
        bundle=message.bundle,
    )


def window_of(message: HiddenTrajectories) -> Paths:
    """The message as the viewer keeps it; its last time is its stamp."""
    stamp, count = _seconds(message.header), len(message.agents)
    steps = len(message.observed) // max(count, 1)
    return _paths(message, stamp, stamp - message.step * np.arange(steps - 1, -1, -1), steps)


def forecast_of(message: Forecast) -> Paths:
    """The message as the viewer keeps it; its first time is one step after its stamp."""
    stamp = _seconds(message.header)
    return _paths(message, stamp, stamp + message.step * np.arange(1, message.horizon + 1), message.horizon)


def graph_of(message: InteractionGraph) -> Graph:
    """The message as the viewer keeps it: the probability of the guiding type of interaction, 0 where all types are
    equally likely, since nothing is known there."""
    count = len(message.agents)
    probability = np.array(message.probability, dtype=float).reshape(count, count, len(message.edge_types))
    known = probability.max(axis=2, initial=0.0) > probability.min(axis=2, initial=1.0)
    guiding = np.where(known, probability[:, :, GUIDING_TYPE], 0.0)
    return Graph(_seconds(message.header), message.group, list(message.agents), guiding)


def truth_of(message: SkeletonFrame) -> Truth:
    """The message as the viewer keeps it."""
    positions = np.array(message.positions, dtype=float).reshape(len(message.joints), 3)
    return Truth(_seconds(message.header), message.group, list(message.joints), positions)


def _paths(message: Forecast | HiddenTrajectories, stamp: float, times: np.ndarray, steps: int) -> Paths:
    shape = (len(message.agents), steps)
    return Paths(
        stamp,
        message.group,
        list(message.agents),
        times,
        np.array(message.positions, dtype=float).reshape(*shape, 3),
        np.array(message.covariance, dtype=float).reshape(*shape, 3, 3),
    )


def _seconds(header: Header) -> float:
    return header.stamp.sec + 1e-9 * header.stamp.nanosec
