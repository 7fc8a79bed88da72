"""The node in a process of its own, and a test that talks to it over DDS."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rclpy
import yaml
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import SetParameters
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from siha_ros.msg import ReconstructedStates
from std_srvs.srv import Trigger

HOLD_NODE = Path(__file__).with_name("hold_node.py")
TRANSITIONS = {"configure": 1, "cleanup": 2, "activate": 3, "deactivate": 4}
START = 1000.0  # s: stamps begin here, so that wall time is never taken for stream time


def stamp(seconds: float) -> Time:
    """A stamp message from seconds."""
    whole, nanoseconds = divmod(round(seconds * 1e9), 10**9)
    return Time(sec=whole, nanosec=nanoseconds)


def seconds(time_message: Time) -> float:
    """Seconds of a stamp message."""
    return time_message.sec + 1e-9 * time_message.nanosec


def wait_until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    """The condition's value once it is true. Fails, naming `what`, after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(0.01)
    return value


class Peer:
    """The test's own ROS node, spun in a thread: publishers, collected messages, service calls."""

    def __init__(self) -> None:
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("peer", context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()
        self.heard: dict[str, list[tuple[float, Any]]] = defaultdict(list)

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join(2.0)
        self.node.destroy_node()
        self.context.try_shutdown()

    def listen(self, topic: str, kind: type) -> list[tuple[float, Any]]:
        """The list, growing, of (monotonic time, message) heard on a topic."""
        heard = self.heard[topic]
        self.node.create_subscription(kind, topic, lambda message: heard.append((time.monotonic(), message)), 100)
        return heard

    def call(self, kind: type, service: str, request: Any, timeout: float = 10.0) -> Any:
        client = self.node.create_client(kind, service)
        try:
            wait_until(client.service_is_ready, timeout, f"service {service}")
            future = client.call_async(request)
            return wait_until(lambda: future.done() and future.result(), timeout, f"answer of {service}")
        finally:
            self.node.destroy_client(client)


class NodeProcess:
    """The node under test. `bundle` is a folder made on the spot, whose name chooses what hold_node.py does."""

    def __init__(
        self,
        folder: Path,
        peer: Peer,
        bundle: str = "team",
        script: Path = HOLD_NODE,
        wait: bool = True,
        **parameters: Any,
    ) -> None:
        self.peer = peer
        (folder / bundle).mkdir(exist_ok=True)
        (folder / bundle / "bundle.yaml").touch()
        values = {"bundle": str(folder / bundle)} | {
            name.replace("__", "."): value for name, value in parameters.items()
        }
        file = folder / "parameters.yaml"
        file.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
        self._log = folder / "log"
        self._process = subprocess.Popen(
            [sys.executable, str(script), "--ros-args", "--params-file", str(file)],
            stdout=self._log.open("w"),
            stderr=subprocess.STDOUT,
            cwd=Path(__file__).parents[2],
        )
        self.states = peer.listen("/siha/states", ReconstructedStates)
        self.diagnostics = peer.listen("/diagnostics", DiagnosticArray)
        if wait:
            self.wait_state("active" if values.get("autostart", True) else "unconfigured")

    # What it says

    @property
    def log(self) -> str:
        """Everything that it has printed."""
        return self._log.read_text()

    def lines(self, text: str) -> list[str]:
        """Log lines that contain a text."""
        return [line for line in self.log.splitlines() if text in line]

    def latest(self) -> dict[str, Any]:
        """AgentState by name of the newest ~/states."""
        return {state.name: state for state in self.states[-1][1].agents} if self.states else {}

    def status(self, name: str) -> int | None:
        """The newest status of an agent."""
        state = self.latest().get(name)
        return None if state is None else state.status

    def diagnostic(self, part: str) -> dict[str, str]:
        """Level (as text), message and values of the newest diagnostic status "siha: <part>"."""
        for _, array in reversed(self.diagnostics):
            for status in array.status:
                if status.name == f"siha: {part}":
                    return {"level": str(status.level[0]), "message": status.message} | {
                        pair.key: pair.value for pair in status.values
                    }
        return {}

    # What it is told

    def change(self, transition: str) -> bool:
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[transition]
        return self.peer.call(ChangeState, "/siha/change_state", request).success

    def state(self) -> str:
        return self.peer.call(GetState, "/siha/get_state", GetState.Request()).current_state.label

    def wait_state(self, label: str, timeout: float = 15.0) -> None:
        wait_until(lambda: self.state() == label, timeout, f"state {label}; log:\n{self.log}")

    def set(self, name: str, value: Any) -> Any:
        """The SetParametersResult of setting one parameter."""
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        return self.peer.call(SetParameters, "/siha/set_parameters", request).results[0]

    def reset(self) -> Any:
        return self.peer.call(Trigger, "/siha/reset", Trigger.Request())

    def stop(self, number: int = signal.SIGINT, timeout: float = 5.0) -> tuple[int, float]:
        """Exit code and seconds taken after a signal."""
        begin = time.monotonic()
        self._process.send_signal(number)
        try:
            return self._process.wait(timeout), time.monotonic() - begin
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"still running {timeout:g} s after signal {number}; log:\n{self.log}") from None

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Team:
    """Publishes PoseStamped of agents that walk on circles of 1 m, in a thread, 50 Hz in real time.

    Agent i at stamp t is at (3 i + cos t, sin t, i). `silent` agents are left out; `edit(name, message)` may change a
    message or return None to drop it; `shift` is added to stamps; `pause` stops all.
    """

    def __init__(
        self, peer: Peer, names: list[str], rate: float = 50.0, qos: QoSProfile | int = 10, kind: type = PoseStamped
    ) -> None:
        self.names, self._rate, self._peer, self._kind = names, rate, peer, kind
        self.publishers = {name: peer.node.create_publisher(kind, f"/{name}/pose", qos) for name in names}
        self.silent: set[str] = set()
        self.edit: Callable[[str, Any], Any] = lambda name, message: message
        self.shift, self.pause, self.now = 0.0, False, START
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @staticmethod
    def position(index: int, moment: float) -> tuple[float, float, float]:
        return 3.0 * index + math.cos(moment), math.sin(moment), float(index)

    def message(self, index: int, moment: float) -> Any:
        """The message of one agent at a stream time."""
        message = self._kind()
        message.header.stamp, message.header.frame_id = stamp(moment + self.shift), "world"
        pose = message.pose if self._kind is PoseStamped else message.pose.pose
        pose.position.x, pose.position.y, pose.position.z = self.position(index, moment)
        return message

    def _run(self) -> None:
        begin, tick = time.monotonic(), 0
        while not self._stopping:
            tick += 1
            time.sleep(max(0.0, begin + tick / self._rate - time.monotonic()))
            if self.pause:
                continue
            self.now += 1 / self._rate
            for index, name in enumerate(self.names):
                if name not in self.silent:
                    message = self.edit(name, self.message(index, self.now))
                    if message is not None:
                        self.publishers[name].publish(message)

    def close(self) -> None:
        self._stopping = True
        self._thread.join(2.0)
        for publisher in self.publishers.values():
            self._peer.node.destroy_publisher(publisher)


def choose_domain() -> None:
    """A ROS domain of this process's own, heard on this machine only; children inherit it."""
    os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
