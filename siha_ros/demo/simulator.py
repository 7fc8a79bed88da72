"""A simulated robot team that loses members: one PoseStamped topic per robot, silent while a robot is lost.

The team is that of offline_training.systems.springs, on the plane z = 0. The truth goes out on truth and truth_graph.
"""

from __future__ import annotations

import argparse
import array
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

from siha_ros.demo.publishing import (
    RELIABLE,
    TRUTH_GRAPH_TOPIC,
    TRUTH_TOPIC,
    end,
    end_on_signals,
    paced,
    skeleton_frame,
    stamp,
    stop_on_signals,
    wait_for_subscribers,
)
from siha_ros.demo.schedule import Loss, loss_schedule, lost_at
from siha_ros.msg import InteractionGraph, SkeletonFrame

if TYPE_CHECKING:
    from offline_training.systems.springs import SpringsStepper

FRAME_ID = "map"
ENDLESS = 2880  # loss episodes of a run without end: those of a day


class TeamPublisher:
    """Advances the team with the clock and publishes it; the state published is that at the stamp, to the
    millisecond."""

    def __init__(self, node: Node, names: Sequence[str], team: SpringsStepper, schedule: Sequence[Loss]) -> None:
        self._team = team
        self._names = list(names)
        self._schedule = schedule
        self.topics = [f"{name}/pose" for name in names]
        self._poses = [node.create_publisher(PoseStamped, topic, RELIABLE) for topic in self.topics]
        self._truth = node.create_publisher(SkeletonFrame, TRUTH_TOPIC, RELIABLE)
        self._graph = node.create_publisher(InteractionGraph, TRUTH_GRAPH_TOPIC, RELIABLE)
        self._begin_ns: int | None = None
        self._next_graph = 0.0

    def publish(self, elapsed: float) -> None:
        """Publish the team as it is `elapsed` seconds after the first call."""
        if self._begin_ns is None:
            self._begin_ns = time.time_ns()
        self._team.step(elapsed - self._team.time)
        time_ns = self._begin_ns + round(self._team.time * 1e9)
        lost = lost_at(self._schedule, self._team.time)
        seen = np.array([name not in lost for name in self._names])
        positions = np.zeros((len(self._names), 3))
        positions[:, :2] = self._team.positions
        headings = np.arctan2(*self._team.velocities.T[::-1])
        for i in np.flatnonzero(seen):
            self._poses[i].publish(_pose(time_ns, positions[i], headings[i]))
        self._truth.publish(skeleton_frame(time_ns, FRAME_ID, "truth", self._names, positions, seen))
        if elapsed >= self._next_graph:
            self._graph.publish(self._graph_message(time_ns, seen))
            self._next_graph += 1.0

    def _graph_message(self, time_ns: int, seen: np.ndarray) -> InteractionGraph:
        message = InteractionGraph(
            group="truth", agents=self._names, edge_types=["none", "spring"], reconstructed=[False] * len(seen)
        )
        message.header.stamp = stamp(time_ns)
        message.header.frame_id = FRAME_ID
        edges = self._team.edges
        probability = np.stack([~edges, edges], axis=-1).astype(np.float32)
        probability[np.eye(len(seen), dtype=bool)] = 0
        message.probability = array.array("f", probability.ravel())
        return message


def _pose(time_ns: int, position: np.ndarray, heading: float) -> PoseStamped:
    message = PoseStamped()
    message.header.stamp = stamp(time_ns)
    message.header.frame_id = FRAME_ID
    message.pose.position.x, message.pose.position.y, message.pose.position.z = position.tolist()
    message.pose.orientation.z, message.pose.orientation.w = float(np.sin(heading / 2)), float(np.cos(heading / 2))
    return message


def run(
    names: Sequence[str],
    stepper: SpringsStepper,
    schedule: Sequence[Loss],
    duration: float,
    rate: float,
    wait_for: Sequence[str],
    stop: threading.Event,
) -> None:
    """Publish until duration (s; 0: for ever) is over or stop is set, from when the nodes of wait_for listen."""
    node = rclpy.create_node("siha_simulator")
    team = TeamPublisher(node, names, stepper, schedule)
    wait_for_subscribers(node, team.topics, wait_for, stop)
    for elapsed in paced(rate, stop):
        if duration and elapsed >= duration:
            break
        team.publish(elapsed)
    node.destroy_node()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of the executable siha_simulator."""
    arguments = list(sys.argv if argv is None else ["siha_simulator", *argv])
    parser = argparse.ArgumentParser("siha_simulator", description="A simulated robot team that loses members.")
    parser.add_argument(
        "--agents", type=int, default=7, help="number of robots, named robot_1, robot_2, ... (default 7)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the team and of who is lost (default 1)")
    parser.add_argument("--duration", type=float, default=30.0, help="seconds; 0: until stopped (default 30)")
    parser.add_argument(
        "--losses",
        type=int,
        default=1,
        help="loss episodes, in equal parts of the duration (default 1); one every 30 s without a duration",
    )
    parser.add_argument("--hidden", type=int, default=2, help="robots lost at a time (default 2)")
    parser.add_argument("--rate", type=float, default=50.0, help="Hz (default 50)")
    parser.add_argument(
        "--wait-for", nargs="*", default=[], metavar="NODE", help="begin when these nodes listen to every robot"
    )
    options = parser.parse_args(remove_ros_args(arguments)[1:])
    names = [f"robot_{i + 1}" for i in range(options.agents)]
    end_on_signals()
    from offline_training.systems.springs import SpringsStepper  # numba

    try:
        if options.duration:
            schedule = loss_schedule(names, options.duration, options.losses, options.hidden, options.seed)
        else:
            schedule = loss_schedule(names, ENDLESS * 30.0, ENDLESS, options.hidden, options.seed)
        team = SpringsStepper(options.seed, agents=len(names))
        stop = stop_on_signals()
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
        run(names, team, schedule, options.duration, options.rate, options.wait_for, stop)
    except (ValueError, TimeoutError) as error:
        print(f"siha_simulator: {error}", file=sys.stderr)
        return 1
    finally:
        rclpy.try_shutdown()
    end()


if __name__ == "__main__":
    sys.exit(main())
