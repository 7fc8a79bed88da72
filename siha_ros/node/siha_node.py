"""The lifecycle node `siha`: parameters, bundle and outputs at configure, a session at activate.

This file holds the lifecycle and the diagnostics; how messages become estimates is in session.py and pipeline.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_srvs.srv import Trigger

from siha_ros.errors import one_line
from siha_ros.node import diagnostics
from siha_ros.node.declared import DeclaredParameters
from siha_ros.node.diagnostics import Health
from siha_ros.node.discovery import check_topic, check_twists, resolved_template, topic_template, unmatched
from siha_ros.node.inputs import make_input, message_type
from siha_ros.node.outputs import Outputs
from siha_ros.node.parameters import window_parameters
from siha_ros.node.session import Session
from siha_ros.resources import bundle_path

DIAGNOSTICS_PERIOD = 1.0  # s of wall time
KEPT_UP = 256  # messages that may wait for the worker: those of 50 robots at 50 Hz while an estimate takes 0.1 s
CLOCK_PATIENCE = 3.0  # s of wall time before a missing /clock is said

Loader = Callable[[Path, str], Any]


def load(path: Path, device: str) -> Any:
    """The estimator of a bundle; imported here so that the node's modules load without torch."""
    from siha_ros.estimator import load_estimator

    return load_estimator(path, device=device)


class SihaNode(LifecycleNode):
    """See the module; `load` makes the estimator of a bundle's folder and a device."""

    def __init__(self, load: Loader = load, **options: Any) -> None:
        super().__init__("siha", **options)
        self._load, self._began = load, time.monotonic()
        self._state = "unconfigured"
        self._health = Health(self.get_logger())
        self._declared = DeclaredParameters(self, may_change=lambda: self._state == "unconfigured")
        self._estimator: Any = None
        self._outputs: Outputs | None = None
        self._session: Session | None = None
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(DIAGNOSTICS_PERIOD, self._publish_diagnostics, clock=steady)
        self.create_service(Trigger, "~/reset", self._on_reset)

    def start(self) -> None:
        """Configure and activate, for `autostart`; where that fails, the line is logged and the node waits."""
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def stop(self) -> None:
        """Stop working, at the end of the process."""
        if self._session is not None:
            self._session.stop()

    @property
    def behind(self) -> bool:
        """Whether the worker does not keep up with the messages."""
        return self._session is not None and self._session.intake.waiting > KEPT_UP

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check the parameters, load the bundle, warm the model up, create the publishers."""
        return self._attempt("configure", self._configure, self._release, "inactive")

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open an empty window, start the worker, the timers and the subscriptions."""
        return self._attempt("activate", self._activate, self._end_session, "active")

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Destroy subscriptions and timers, stop the worker, forget the window."""
        self._end_session()
        self._state = "inactive"
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Give the model and the publishers back."""
        self._release()
        self._state = "unconfigured"
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End, from any state."""
        self._end_session()
        self._release()
        self._state = "finalized"
        return TransitionCallbackReturn.SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After an error in a transition: back to unconfigured."""
        self._end_session()
        self._release()
        self._state = "unconfigured"
        return TransitionCallbackReturn.SUCCESS

    def _attempt(
        self, step: str, action: Callable[[], None], undo: Callable[[], None], state: str
    ) -> TransitionCallbackReturn:
        """Do a step of the lifecycle; whatever goes wrong is one line, and the step can be tried again."""
        self._health.clear()
        try:
            action()
        except Exception as error:  # bundles, devices and parameters can fail in many ways
            self._health.fail(step, f"{step} failed: {one_line(error)}")
            undo()
            return TransitionCallbackReturn.FAILURE
        self._state = state
        return TransitionCallbackReturn.SUCCESS

    def _configure(self) -> None:
        self._parameters_now = p = self._declared.checked()
        window_parameters(p)
        source = None
        if p.input_type != "auto":
            message_type(p.input_type)
            source = make_input(p.input_type, twists=p.input_twists)
        self._estimator = self._load(bundle_path(p.bundle), p.device)
        config = self._estimator.bundle.config
        template = topic_template(p, config.identified)
        check_topic(template, source, p.input_agents)
        check_twists(p.input_twists, p.input_type, template)
        self._template = resolved_template(template, self.resolve_topic_name)
        self._estimator.warm_up()
        device = str(self._estimator.device)
        if p.device == "auto" and device == "cpu":
            self.get_logger().warning("device auto: no GPU was found, the model runs on the cpu")
        if config.identified and p.input_agents and (line := unmatched(p.input_agents, p.names, config.agent_names)):
            self.get_logger().warning(line)
        size = p.markers_size or (0.06 if config.identified else 0.25)
        self._outputs = Outputs(self, body=config.identified, size=size, edge_threshold=p.markers_edge_threshold)
        self.get_logger().info(f"configured: bundle {config.name}, device {device}, input {self._template}")

    def _activate(self) -> None:
        assert self._outputs is not None
        p = self._parameters_now
        self._session = Session(self, p, self._estimator, self._outputs, self._template, self._health)

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _release(self) -> None:
        if self._outputs is not None:
            self._outputs.destroy()
        self._estimator = self._outputs = None

    # Service and diagnostics

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._session is not None
        response.message = "window started anew" if self._session else "not active: there is no window to reset"
        if self._session is not None:
            self._session.reset()
        return response

    def _publish_diagnostics(self) -> None:
        now = self.get_clock().now()
        if self.get_parameter("use_sim_time").value and now.nanoseconds == 0:
            if time.monotonic() - self._began > CLOCK_PATIENCE:
                self._health.warn("clock", "use_sim_time is true and nothing is published on /clock")
        else:
            self._health.over("clock")
        name = self.get_fully_qualified_name()
        values: dict[str, object] = {"state": self._state}
        statuses, apart = [], None
        if self._estimator is not None:
            config = self._estimator.bundle.config
            values |= {"device": self._estimator.device, "bundle": config.name, "input": self._template}
            if self._session is not None:
                pipelines = dict(self._session.groups.pipelines)
                values |= diagnostics.stream_values(self._session.intake, pipelines.values())
                apart = diagnostics.clocks_apart(p.window.clock_offsets for p in pipelines.values())
                statuses = diagnostics.group_statuses(name, config, pipelines)
        if apart:
            self._health.fail("clocks", apart)
        else:
            self._health.over("clocks")
        level, text = self._health.level_and_message(self._state)
        message = DiagnosticArray(status=[diagnostics.status(f"{name}: node", level, text, values), *statuses])
        message.header.stamp = now.to_msg() if now.nanoseconds else Clock().now().to_msg()
        self._diagnostics.publish(message)
