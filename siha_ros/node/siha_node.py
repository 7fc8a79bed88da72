"""The lifecycle node `siha`: parameters, bundle and outputs at configure, subscriptions and timers at activate.

Callbacks only append messages; one worker thread takes the newest window, estimates and publishes. This file holds the
lifecycle; what happens to a message is in intake.py and pipeline.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidParameterValueException
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, QoSReliabilityPolicy, qos_policy_name_from_kind
from rclpy.qos_overriding_options import QoSOverridingOptions
from std_srvs.srv import Trigger

from siha_ros.node import diagnostics
from siha_ros.node.discovery import AGENT, check_topic, common_type, matching_agents, resolved_template, unmatched
from siha_ros.node.inputs import Input, make_input, message_type
from siha_ros.node.intake import Intake
from siha_ros.node.markers import MarkerScene
from siha_ros.node.outputs import Outputs
from siha_ros.node.parameters import DECLARATIONS, INPUT_TYPES, Declaration, ParameterError, Parameters
from siha_ros.node.pipeline import Pipeline
from siha_ros.node.worker import Worker
from siha_ros.resources import bundle_path
from siha_ros.window.sliding_window import SlidingWindow, WindowParameters

DISCOVERY_PERIOD = 0.5  # s, wall time
DIAGNOSTICS_PERIOD = 1.0
PATIENCE = 3.0  # s of wall time before missing topics or a missing /clock are said
STOP_TIMEOUT = 1.0  # s that a step of the worker may take to end

Loader = Callable[[Path, str], Any]


def load(path: Path, device: str) -> Any:
    """The estimator of a bundle; imported here so that the node's modules load without torch."""
    from siha_ros.estimator import load_estimator

    return load_estimator(path, device=device)


@dataclass
class Session:
    """What an activation creates and a deactivation destroys."""

    intake: Intake
    pipeline: Pipeline
    worker: Worker
    timers: list[Any]
    subscriptions: dict[str, Any]
    since: float


class SihaNode(LifecycleNode):
    """See the module; `load` makes the estimator of a bundle's folder and a device."""

    def __init__(self, load: Loader = load, **options: Any) -> None:
        super().__init__("siha", **options)
        self._load = load
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._refused: dict[str, str] = {}
        self._estimator: Any = None
        self._outputs: Outputs | None = None
        self._session: Session | None = None
        self._state = "unconfigured"
        self._errors: dict[str, str] = {}
        self._warnings: dict[str, str] = {}
        self._started = time.monotonic()
        for declaration in DECLARATIONS:
            self._declare(declaration)
        self.add_on_set_parameters_callback(self._judge_parameters)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_timer(DIAGNOSTICS_PERIOD, self._publish_diagnostics, clock=self._steady)
        self.create_service(Trigger, "~/reset", self._on_reset)

    # Parameters

    def _declare(self, declaration: Declaration) -> None:
        """Declare one parameter; configure reports a start value that is refused, and the default stands meanwhile."""
        default = list(declaration.default) if isinstance(declaration.default, tuple) else declaration.default
        default = default if default != [] else [""]
        try:
            self.declare_parameter(declaration.name, default, descriptor(declaration))
        except InvalidParameterValueException:
            value = self._parameter_overrides[declaration.name].value
            self._refused[declaration.name] = (
                f"parameter {declaration.name} is {value!r}: expected {declaration.expected}"
            )
            self.declare_parameter(declaration.name, default, descriptor(declaration), ignore_override=True)

    def _judge_parameters(self, changed: list[Parameter[Any]]) -> SetParametersResult:
        known = {declaration.name: declaration for declaration in DECLARATIONS}
        mine = [parameter for parameter in changed if parameter.name in known]
        if mine and self._state in ("inactive", "active"):
            return SetParametersResult(
                successful=False,
                reason=f"parameter {mine[0].name} takes effect at configure: deactivate and clean up first",
            )
        try:
            for parameter in mine:
                known[parameter.name].check(parameter.value)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        for parameter in mine:
            self._refused.pop(parameter.name, None)
        return SetParametersResult(successful=True)

    def _checked_parameters(self) -> Parameters:
        for line in self._refused.values():
            raise ParameterError(line)
        return Parameters.checked({d.name: self.get_parameter(d.name).value for d in DECLARATIONS})

    # Lifecycle

    def start(self) -> None:
        """Configure and activate, for `autostart`; where that fails, the line is logged and the node waits."""
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check the parameters, load the bundle, warm the model up, create the publishers."""
        self._errors.clear()
        self._warnings.clear()
        try:
            self._configure()
        except (
            Exception
        ) as error:  # a bundle or a device can fail in many ways; all are one line, and configure can be tried again
            line = " ".join(str(error).split()) or type(error).__name__
            self._errors["configure"] = f"configure failed: {line}"
            self.get_logger().error(self._errors["configure"])
            self._release()
            return TransitionCallbackReturn.FAILURE
        self._state = "inactive"
        return super().on_configure(state)

    def _configure(self) -> None:
        self._settings = p = self._checked_parameters()
        path = bundle_path(p.bundle)
        self._estimator = self._load(path, p.device)
        self._estimator.warm_up()
        config = self._estimator.bundle.config
        self._device = str(self._estimator.device)
        if p.device == "auto" and self._device == "cpu":
            self.get_logger().warning("device auto: no GPU was found, the model runs on the cpu")
        self._body = config.identified
        template = p.input_topic or ("/skeleton" if self._body else f"/{AGENT}/pose")
        source = None
        if p.input_type != "auto":
            source = self._source(p.input_type)
            message_type(p.input_type)
        check_topic(template, source)
        self._template = resolved_template(template, self.resolve_topic_name)
        if (
            config.agent_names
            and p.input_agents
            and (line := unmatched([*p.input_agents], p.names, config.agent_names))
        ):
            self._warn(line)
        size = p.markers_size or (0.06 if self._body else 0.25)
        self._outputs = Outputs(self, body=self._body, markers=MarkerScene(size, p.markers_edge_threshold))
        self.get_logger().info(f"configured: bundle {config.name}, device {self._device}, input {self._template}")

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open an empty window, start the worker, the timers and the subscriptions."""
        assert self._outputs is not None
        p, config = self._settings, self._estimator.bundle.config
        names = config.agent_names or p.input_agents
        window = SlidingWindow(config.dt, config.window, config.dims, names or None, window_parameters(p))
        intake = Intake(window, p, "body" if self._body else "team", self._warn)
        if p.input_type != "auto":
            intake.source = self._source(p.input_type)
        pipeline = Pipeline(
            intake,
            window,
            self._estimator,
            self._outputs,
            bundle=config.name,
            edge_types=tuple(config.edge_types),
            log=self._warn,
        )
        worker = Worker(pipeline.step, self._on_worker_error)
        self._session = Session(intake, pipeline, worker, [], {}, time.monotonic())
        self._session.timers += [
            self.create_timer(1.0 / p.rate, worker.wake, clock=self._steady),
            self.create_timer(DISCOVERY_PERIOD, self._discover, clock=self._steady),
        ]
        self._discover()
        self._state = "active"
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the worker, destroy subscriptions and timers, forget the window."""
        self._end_session()
        self._state = "inactive"
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Give the model and the publishers back."""
        self._release()
        self._state = "unconfigured"
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End from any state."""
        self._end_session()
        self._release()
        self._state = "finalized"
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After an error in a transition: back to unconfigured."""
        self._end_session()
        self._release()
        self._state = "unconfigured"
        return TransitionCallbackReturn.SUCCESS

    def stop(self) -> bool:
        """Stop the worker at process end; false where a step would not end in time."""
        return self._session is None or self._session.worker.stop(STOP_TIMEOUT)

    def _release(self) -> None:
        if self._outputs is not None:
            self._outputs.destroy()
        self._estimator = self._outputs = None

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        for timer in session.timers:
            self.destroy_timer(timer)
        for subscription in session.subscriptions.values():
            self.destroy_subscription(subscription)
        if not session.worker.stop(STOP_TIMEOUT):
            self.get_logger().error(f"the estimate under way did not end within {STOP_TIMEOUT:g} s")
        if self._outputs is not None:
            self._outputs.clear_markers()

    def _source(self, type_name: str) -> Input:
        agents = self._settings.input_agents or self._estimator.bundle.config.agent_names
        return make_input(type_name, agents)

    # Input

    def _discover(self) -> None:
        """Subscribe to what is there and not subscribed to yet; say once when nothing is there."""
        session, p = self._session, self._settings
        if session is None:
            return
        graph = dict(self.get_topic_names_and_types())
        if AGENT not in self._template:
            wanted = {"": self._template}
        elif p.input_agents:
            wanted = {agent: self._template.replace(AGENT, agent) for agent in p.input_agents}
        else:
            wanted = matching_agents(self._template, (topic for topic in graph if self.count_publishers(topic)))
        if session.intake.source is None:
            fitting = [kind for kind in INPUT_TYPES if make_input(kind).per_agent == (AGENT in self._template)]
            kind = common_type(wanted.values(), graph, fitting)
            if kind is not None:
                session.intake.source = self._source(kind)
                self.get_logger().info(f"input type: {kind}")
        for agent, topic in wanted.items():
            if session.intake.source is not None and agent not in session.subscriptions:
                kind = session.intake.source.type_name
                if topic in graph and kind not in graph[topic]:
                    self._warn_once(
                        f"type {topic}",
                        f"{topic} is of type {', '.join(graph[topic])}, expected {kind}: it is not subscribed to",
                    )
                    continue
                session.subscriptions[agent] = self._subscribe(session.intake, topic, agent, message_type(kind))
        for agent, topic in wanted.items():
            if (publishers := self.count_publishers(topic)) > 1 and agent:
                self._warn_once(f"two {topic}", f"{publishers} publishers on {topic}: expected one per agent")
        if time.monotonic() - session.since > PATIENCE and session.intake.received == 0:
            self._warn_once(
                "no input",
                f"nothing received on {self._template} yet" + (f" (subscribed: {len(session.subscriptions)} topics)"),
            )

    def _subscribe(self, intake: Intake, topic: str, agent: str, kind: type) -> Any:
        clock, push = self.get_clock(), intake.push

        def receive(message: Any) -> None:
            push(message, agent, 1e-9 * clock.now().nanoseconds, time.monotonic())

        def incompatible(event: Any) -> None:
            policy = qos_policy_name_from_kind(event.last_policy_kind)
            self._warn_once(
                f"qos {topic}",
                f"a publisher of {topic} offers an incompatible QoS, nothing is received from it: policy {policy}",
            )

        return self.create_subscription(
            kind,
            topic,
            receive,
            QoSProfile(depth=self._settings.input_depth, reliability=QoSReliabilityPolicy.BEST_EFFORT),
            event_callbacks=SubscriptionEventCallbacks(incompatible_qos=incompatible),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._session is None:
            response.success, response.message = False, "not active: there is no window to reset"
        else:
            self._session.intake.push_reset()
            self._session.worker.wake()
            response.success, response.message = True, "window started anew"
        return response

    # What the node says of itself

    def _on_worker_error(self, error: Exception) -> None:
        """In the worker: one line for an exception, said again only when it changes; the next window is tried."""
        if not self.context.ok():
            return
        line = f"estimate failed: {type(error).__name__}: {' '.join(str(error).split())}"
        if self._errors.get("worker") != line:
            self.get_logger().error(line)
        self._errors["worker"] = line
        if self._session is not None:
            self._session.pipeline.forget_estimate()

    def _warn(self, text: str) -> None:
        self.get_logger().warning(text)

    def _warn_once(self, key: str, text: str) -> None:
        if key not in self._warnings:
            self._warnings[key] = text
            self.get_logger().warning(text)

    def _publish_diagnostics(self) -> None:
        now = self.get_clock().now()
        if self.get_parameter("use_sim_time").value and now.nanoseconds == 0:
            if time.monotonic() - self._started > PATIENCE:
                self._warn_once("clock", "use_sim_time is true and nothing is published on /clock")
        else:
            self._warnings.pop("clock", None)
        session, name = self._session, self.get_fully_qualified_name()
        values: dict[str, object] = {}
        if self._estimator is not None:
            values |= {"device": self._device, "bundle": self._estimator.bundle.config.name, "input": self._template}
        statuses = []
        if session is not None:
            values |= diagnostics.stream_values(session.pipeline)
            if apart := diagnostics.clocks_apart(diagnostics.clock_offsets(session.pipeline)):
                if "clocks" not in self._errors:
                    self.get_logger().error(apart)
                self._errors["clocks"] = apart
            statuses = [
                diagnostics.agents_status(name, session.pipeline),
                diagnostics.model_status(name, self._estimator.bundle.config.name, session.pipeline),
            ]
        node = diagnostics.node_status(
            name, self._state, values, list(self._errors.values()), list(self._warnings.values())
        )
        message = diagnostics.array_message([node, *statuses])
        message.header.stamp = now.to_msg() if now.nanoseconds else Clock().now().to_msg()
        self._diagnostics.publish(message)


def window_parameters(p: Parameters) -> WindowParameters:
    """The window's part of the node's parameters."""
    return WindowParameters(
        silence_timeout=p.silence_timeout,
        hide_after=p.hide_after,
        hide_samples=p.hide_samples,
        show_after=p.show_after,
        show_samples=p.show_samples,
        grid_delay=None if p.grid_delay < 0.0 else p.grid_delay,
        max_gap=p.max_gap,
        reorder_tolerance=p.reorder_tolerance,
        stale_timeout=p.stale_timeout,
    )


def descriptor(declaration: Declaration) -> ParameterDescriptor:
    """What `ros2 param describe` shows. Dynamic typing lets a whole number stand for a float; the check is ours."""
    result = ParameterDescriptor(
        name=declaration.name,
        description=declaration.description,
        read_only=declaration.read_only,
        dynamic_typing=True,
        additional_constraints="" if declaration.low is not None else f"expected {declaration.expected}",
    )
    if declaration.low is not None and declaration.high is not None:
        if declaration.type_name == "int":
            result.integer_range = [IntegerRange(from_value=int(declaration.low), to_value=int(declaration.high))]
        else:
            result.floating_point_range = [FloatingPointRange(from_value=declaration.low, to_value=declaration.high)]
    return result
