"""One activation of the node: windows, worker, timers and subscriptions, made by activate and closed by deactivate."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import (
    QoSCompatibility,
    QoSDurabilityPolicy,
    QoSProfile,
    QoSReliabilityPolicy,
    qos_check_compatible,
    qos_policy_name_from_kind,
)
from rclpy.qos_overriding_options import QoSOverridingOptions

from siha_ros.errors import one_line
from siha_ros.node.diagnostics import Health
from siha_ros.node.discovery import AGENT, GROUP, Place, input_type, matching, parameters_input
from siha_ros.node.filter_pairs import new_pairs
from siha_ros.node.frames import Transform, TransformBuffer
from siha_ros.node.groups import Groups
from siha_ros.node.inputs import Input, message_type
from siha_ros.node.intake import Intake, Reader
from siha_ros.node.outputs import Outputs
from siha_ros.node.parameters import Parameters, window_parameters
from siha_ros.node.worker import Worker
from siha_ros.window.sliding_window import SlidingWindow

DISCOVERY_PERIOD = 0.5  # s of wall time
PATIENCE = 3.0  # s of wall time before a silent input is said
STOP_TIMEOUT = 1.0  # s that an estimate under way may take to end
ERROR_LASTS = 5.0  # s that a failed estimate stays in the diagnostics


class Session:
    """Subscribes to what is there, and wakes the worker at the rate of the parameters.

    Args:
        node: the node that owns subscriptions and timers.
        parameters: checked.
        estimator: of the bundle.
        outputs: where estimates go.
        template: input topic, resolved, with {agent} where each agent has one.
        health: where troubles are said.
    """

    def __init__(
        self, node: Node, parameters: Parameters, estimator: Any, outputs: Outputs, template: str, health: Health
    ) -> None:
        self._node, self._parameters, self._outputs = node, parameters, outputs
        self._template, self._health, self._config = template, health, estimator.bundle.config
        logger = node.get_logger()

        def log(line: str) -> None:
            logger.warning(line)

        self._window()  # so that parameters it refuses are said now
        self.intake = Intake(self._window, parameters, "body" if self._config.identified else "team", log)
        if parameters.input_type != "auto":
            self.intake.source = self._input(parameters.input_type)
        self._sources: dict[str, Input] = {}  # by group: what an input remembers is not for others
        self.groups = Groups(
            self.intake,
            estimator,
            outputs.open,
            parameters.groups_forget_after,
            log,
            self._on_estimate_error,
            outputs.close,
        )
        self._subscriptions: dict[str, Any] = {}  # by topic
        self._gone: dict[str, float] = {}  # by topic: since when it has had no publisher, s
        self._transforms: TransformBuffer | None = None
        self._tf_is_wanted, self._resets = False, 0
        if find_spec("tf2_ros") is not None:
            self.intake.lookup = self._lookup
        self._unfit: dict[str, tuple[str, QoSProfile]] = {}  # by topic: what QoS a publisher once did not fit
        self._troubles: dict[str, str] = {}
        self._since = time.monotonic()
        self._discover()
        self._worker = Worker(self.groups.step, self._on_estimate_error)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timers = [
            node.create_timer(1.0 / parameters.rate, self._worker.wake, clock=steady),
            node.create_timer(DISCOVERY_PERIOD, self._discover, clock=steady),
        ]

    def reset(self) -> None:
        """Start the window anew, after what has arrived until now."""
        self.intake.push_reset()
        self._worker.wake()

    def stop(self) -> bool:
        """End the worker; false where the estimate under way does not end in time."""
        return self._worker.stop(STOP_TIMEOUT)

    def close(self) -> None:
        """Destroy subscriptions and timers, end the worker, take the markers off the screen."""
        for timer in self._timers:
            self._node.destroy_timer(timer)
        for subscription in self._subscriptions.values():
            self._node.destroy_subscription(subscription)
        if self._transforms is not None:
            self._transforms.close()
        if not self.stop():
            self._node.get_logger().error(f"the estimate under way did not end within {STOP_TIMEOUT:g} s")
        self._outputs.close_groups()
        self._outputs.clear_markers()
        self._health.over("input", "discovery", "estimate", *self._troubles)

    def _window(self) -> SlidingWindow:
        """An empty window of the bundle."""
        config, p = self._config, self._parameters
        listed = config.agent_names or [p.names.get(agent, agent) for agent in p.input_agents]
        return SlidingWindow(config.dt, config.window, config.dims, listed or None, window_parameters(p))

    def _input(self, type_name: str) -> Input:
        return parameters_input(type_name, self._parameters, self._config.agent_names, new_pairs)

    def _lookup(self, target: str, source: str, stamp: float) -> Transform:
        """In the worker: a transform by TF, which is listened to once a frame needs it."""
        if self._transforms is None:
            self._tf_is_wanted = True
            raise LookupError
        resets = sum(feed.window.resets for feed in self.intake.feeds.values())
        if resets > self._resets:
            self._transforms.clear()
        self._resets = resets
        return self._transforms(target, source, stamp)

    def _discover(self) -> None:
        """Look for the input. An exception would end the node: it is said instead, and the next look may do better."""
        try:
            self._look()
        except Exception as error:  # a message type without its package, a QoS override that ROS refuses
            if self._node.context.ok():
                self._health.fail("discovery", f"the input cannot be read: {one_line(error)}")
        else:
            self._health.over("discovery")

    def _look(self) -> None:
        """Subscribe to what is there and not subscribed to yet; say so where nothing comes."""
        if self._tf_is_wanted and self._transforms is None:
            self._transforms = TransformBuffer(self._node)
        graph = dict(self._node.get_topic_names_and_types())
        places = self._places(graph)
        if self.intake.source is None and (kind := input_type(self._template, [p.topic for p in places], graph)):
            self.intake.source = self._input(kind)
            self._node.get_logger().info(f"input type: {kind}")
        troubles = {}
        for place in places:
            topic, types = place.topic, graph.get(place.topic, ())
            if self.intake.source is not None and topic not in self._subscriptions:
                expected = self.intake.source.type_name
                if types and expected not in types:
                    found = ", ".join(types)
                    troubles[f"type of {topic}"] = f"{topic} is not read: it is of type {found}, expected {expected}"
                else:
                    self._begin(place, expected)
            if topic in self._subscriptions:
                troubles |= self._accompany(place, graph)
            if place.agent and (publishers := self._node.count_publishers(topic)) > 1:
                troubles[f"publishers of {topic}"] = f"{publishers} publishers on {topic}: expected one per agent"
        self._leave({place.topic for place in places})
        troubles |= {f"QoS of {topic}": text for topic, (text, qos) in self._unfit.items() if self._unheard(topic, qos)}
        self._say(troubles)
        if self.intake.received:
            self._health.over("input")
        elif time.monotonic() - self._since > PATIENCE:
            self._health.warn("input", f"nothing has arrived on {self._template} yet")

    def _places(self, graph: dict[str, list[str]]) -> list[Place]:
        """The topics of the stream: those that are there, but of listed agents also those that will be."""
        listed, template = self._parameters.input_agents, self._template
        if GROUP not in template and AGENT not in template:
            return [Place(template)]
        if GROUP not in template and listed:
            return [Place(template.replace(AGENT, agent), agent) for agent in listed]
        found = [place for place in matching(template, graph) if not listed or place.agent in ("", *listed)]
        return [place for place in found if self._node.count_publishers(place.topic)]

    def _leave(self, wanted: set[str]) -> None:
        """Unsubscribe from what has long had no publisher: agents and groups may come and go without end."""
        now = time.monotonic()
        for topic in list(self._subscriptions):
            if topic in wanted or self._node.count_publishers(topic):
                self._gone.pop(topic, None)
            elif now - self._gone.setdefault(topic, now) > self._parameters.groups_forget_after:
                self._node.destroy_subscription(self._subscriptions.pop(topic))
                self._gone.pop(topic)
                self._unfit.pop(topic, None)

    def _say(self, troubles: dict[str, str]) -> None:
        """Warn of what is wrong with topics now; what was and is no longer has ended."""
        self._health.over(*(self._troubles.keys() - troubles.keys()))
        for key, text in troubles.items():
            self._health.warn(key, text)
        self._troubles = troubles

    def _unheard(self, topic: str, qos: QoSProfile) -> bool:
        """Whether a topic has a publisher that a subscription of this QoS does not hear."""
        publishers = self._node.get_publishers_info_by_topic(topic)
        fits = (qos_check_compatible(publisher.qos_profile, qos)[0] for publisher in publishers)
        return QoSCompatibility.ERROR in fits

    def _begin(self, place: Place, type_name: str) -> None:
        """Subscribe to a topic of the stream."""
        if place.group not in self._sources:
            self._sources[place.group] = self._input(type_name)
        self._subscribe(place, type_name, self._sources[place.group].read)

    def _accompany(self, place: Place, graph: dict[str, list[str]]) -> dict[str, str]:
        """Subscribe to what is there of the topics that belong to one; troubles of what the input does without."""
        troubles = {}
        for companion in self._sources[place.group].companions:
            topic = self._node.resolve_topic_name(place.fill(companion.topic))
            if topic in graph:
                try:
                    self._subscribe(place._replace(topic=topic), companion.type_name, companion.read, companion.latched)
                except ImportError as error:
                    troubles[f"type of {topic}"] = f"{topic} is not read: {one_line(error)}"
        return troubles

    def _subscribe(self, place: Place, type_name: str, read: Reader, latched: bool = False) -> None:
        clock, push, topic = self._node.get_clock(), self.intake.push, place.topic
        if topic in self._subscriptions:
            return

        def receive(message: Any) -> None:
            push(message, place.agent, 1e-9 * clock.now().nanoseconds, time.monotonic(), read, place.group)

        qos = QoSProfile(depth=self._parameters.input_depth, reliability=QoSReliabilityPolicy.BEST_EFFORT)
        if latched:
            qos.reliability, qos.durability = QoSReliabilityPolicy.RELIABLE, QoSDurabilityPolicy.TRANSIENT_LOCAL

        def incompatible(event: Any) -> None:
            policy = qos_policy_name_from_kind(event.last_policy_kind)
            text = f"a publisher of {topic} is not heard: its QoS policy {policy} does not fit"
            self._unfit[topic] = text, qos
            self._say(self._troubles | {f"QoS of {topic}": text})

        self._subscriptions[topic] = self._node.create_subscription(
            message_type(type_name),
            topic,
            receive,
            qos,
            event_callbacks=SubscriptionEventCallbacks(incompatible_qos=incompatible),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def _on_estimate_error(self, error: Exception) -> None:
        """In the worker: say it; the next window is tried."""
        if self._node.context.ok():
            line = f"estimate failed: {type(error).__name__}: {one_line(error)}"
            self._health.fail("estimate", line, ERROR_LASTS)
