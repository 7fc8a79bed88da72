"""Listens to the node and to the truth, and hands what it hears to a SceneState; the only part that knows of ROS.

Best effort and short queues: a slow viewer loses messages, and never makes the node keep or repeat any.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from siha_ros.msg import Forecast, HiddenTrajectories, InteractionGraph, ReconstructedStates, SkeletonFrame
from siha_ros.viewer.messages import forecast_of, graph_of, states_of, truth_of, window_of
from siha_ros.viewer.scene_state import SceneState


class ViewerNode(Node):
    """A ROS node that only listens."""

    def __init__(self, state: SceneState, source: str, truth: str, truth_graph: str, **options: Any) -> None:
        """Listen to the outputs of the node of the full name `source`, and to the two topics of the truth."""
        super().__init__("siha_viewer", **options)
        latest = QoSProfile(
            reliability=ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.VOLATILE,
            history=HistoryPolicy.KEEP_LAST,
            depth=10,  # several groups speak at the same time
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
