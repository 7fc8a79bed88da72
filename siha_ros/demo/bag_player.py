"""Plays a bag into ROS 2 where `ros2 bag` is not there: its messages on their topics in real time, and /clock.

rosbag2 (sqlite3, mcap) and ROS 1 bags alike. Messages go out as they were recorded; what cannot be published here (a
type that is not installed) is said once and left out.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args
from rosbags.interfaces import QosDurability
from rosgraph_msgs.msg import Clock

from siha_ros.demo.publishing import RELIABLE, stamp, stop_on_signals
from siha_ros.node.inputs import message_type
from siha_ros.replay.bag import Bag, Entry, offered_qos, own_types

CLOCK = "/clock"
CLOCK_RATE = 100.0  # Hz of the bag's time
SETTLED = 1.0  # s without a new subscription after which the listeners are taken to be complete
PATIENCE = 180.0  # s that listeners are waited for
LAST_WORDS = 2.0  # s at most that the listeners have to take the last messages


class BagPublisher:
    """Publishers of the topics of a bag, those under a node's name left out: the node itself publishes them.

    Args:
        node: the player's.
        bag: the bag.
        skipped: full name of the node that is played to.
    """

    def __init__(self, node: Node, bag: Bag, skipped: str) -> None:
        self._node, self._bag = node, bag
        self._clock = node.create_publisher(Clock, CLOCK, RELIABLE)
        self._publishers: dict[tuple[str, str], Any] = {}
        known = own_types()
        for connection in bag.connections:
            topic, kind = connection.topic, bag.ros2_kind(connection.msgtype)
            if topic == CLOCK or topic.startswith(f"{skipped}/") or (topic, kind) in self._publishers:
                continue
            if kind in known.fielddefs and known.hash_rihs01(kind) != bag.ros2_types.hash_rihs01(kind):
                node.get_logger().warning(f"{topic} is not played: {kind} was another message when it was recorded")
                continue
            latched = any(qos.durability == QosDurability.TRANSIENT_LOCAL for qos in offered_qos(connection))
            durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
            profile = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=durability)
            try:
                self._publishers[topic, kind] = node.create_publisher(message_type(kind), topic, profile)
            except ImportError as error:
                node.get_logger().warning(f"{topic} is not played: {error}")

    def wait_for(self, names: Sequence[str], stop: threading.Event) -> None:
        """Until each of the named nodes listens, and no more of them begin to. Raises TimeoutError, in one line."""
        deadline = time.monotonic() + PATIENCE
        heard, since = 0, time.monotonic()
        while names and not stop.wait(0.05):
            self.tell_time(self._bag.begin)
            listeners = [info.node_name for topic, _ in self._publishers for info in self._listeners(topic)]
            count = sum(name in names for name in listeners)
            if count != heard:
                heard, since = count, time.monotonic()
            if set(names) <= set(listeners) and time.monotonic() - since > SETTLED:
                return
            if time.monotonic() > deadline:
                missing = sorted(set(names) - set(listeners))
                raise TimeoutError(
                    f"node {', '.join(missing)} did not subscribe to a topic of the bag in {PATIENCE:g} s"
                )

    def publish(self, entry: Entry) -> None:
        """Publish a message of the bag."""
        kind, raw = self._bag.ros2(entry)
        if (publisher := self._publishers.get((entry.topic, kind))) is not None:
            publisher.publish(bytes(raw))

    def tell_time(self, moment: float) -> None:
        """Publish a time of the bag (s) on /clock."""
        self._clock.publish(Clock(clock=stamp(round(moment * 1e9))))

    def finish(self) -> None:
        """Until every listener has all of it: what leaves with its publisher is lost, the last messages of a bag."""
        for publisher in (*self._publishers.values(), self._clock):
            publisher.wait_for_all_acked(Duration(seconds=LAST_WORDS))

    def _listeners(self, topic: str) -> list[Any]:
        found: list[Any] = self._node.get_subscriptions_info_by_topic(topic)
        return found


def play(bag: Bag, publisher: BagPublisher, rate: float, stop: threading.Event) -> None:
    """All messages of a bag at `rate` times the speed of the recording, with /clock at CLOCK_RATE of it."""
    begin, tick = time.monotonic(), 0

    def wait_until(moment: float) -> bool:
        """Wait for a time of the bag (s); false where stopped."""
        return not stop.wait(max(0.0, begin + (moment - bag.begin) / rate - time.monotonic()))

    for entry in bag.messages():
        while (due := bag.begin + tick / CLOCK_RATE) <= entry.time:
            if not wait_until(due):
                return
            publisher.tell_time(due)
            tick += 1
        if not wait_until(entry.time):
            return
        publisher.publish(entry)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of the executable siha_bag_player."""
    arguments = list(sys.argv if argv is None else ["siha_bag_player", *argv])
    parser = argparse.ArgumentParser("siha_bag_player", description="Plays a bag of ROS 2 or ROS 1, with /clock.")
    parser.add_argument("bag", type=Path, help="rosbag2 (folder, .mcap, .db3) or ROS 1 bag (.bag)")
    parser.add_argument("--rate", type=float, default=1.0, help="times the speed of the recording (default 1)")
    parser.add_argument("--loop", action="store_true", help="begin anew at the end")
    parser.add_argument("--siha", default="/siha", help="node whose recorded outputs are left out (default /siha)")
    parser.add_argument("--wait-for", nargs="*", default=[], metavar="NODE", help="begin when these nodes listen")
    options = parser.parse_args(remove_ros_args(arguments)[1:])
    stop = stop_on_signals()
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    try:
        if not 0 < options.rate < float("inf"):
            raise ValueError(f"--rate {options.rate:g}: expected a number above 0")
        with Bag(options.bag) as bag:
            node = rclpy.create_node("siha_bag_player")
            publisher = BagPublisher(node, bag, options.siha)
            publisher.wait_for(options.wait_for, stop)
            play(bag, publisher, options.rate, stop)
            while options.loop and not stop.is_set():
                play(bag, publisher, options.rate, stop)
            publisher.finish()
            node.destroy_node()
    except (ValueError, OSError, TimeoutError) as error:
        print(f"siha_bag_player: {error}", file=sys.stderr)
        return 1
    finally:
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
