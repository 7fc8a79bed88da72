"""The node in a process of its own, and a test that talks to it over DDS."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rclpy
import yaml
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, SetParameters
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from siha_ros.msg import AgentState, ReconstructedStates, SkeletonFrame
from std_srvs.srv import Trigger

HOLD_NODE = Path(__file__).with_name("hold_node.py")
TRANSITIONS = {"configure": 1, "cleanup": 2, "activate": 3, "deactivate": 4}
SEEN = (AgentState.VISIBLE, AgentState.BRIDGED)
_numbers = itertools.count()
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

    def __init__(self, domain: int) -> None:
        self.domain, self.context = domain, rclpy.Context()
        rclpy.init(context=self.context, domain_id=domain)
        self.node = rclpy.create_node("peer", context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join(2.0)
        self.node.destroy_node()
        self.context.try_shutdown()

    def run(self, action: Callable[[], Any]) -> Any:
        """The result of an action in the spinning thread: what a thread waits on must not be destroyed by another."""
        task = self._executor.create_task(action)
        wait_until(task.done, 30.0, "the peer's executor")
        return task.result()

    def listen(self, topic: str, kind: type) -> list[tuple[float, Any]]:
        """The list, growing, of (monotonic time, message) heard on a topic."""
        heard: list[tuple[float, Any]] = []
        self.run(
            lambda: self.node.create_subscription(
                kind, topic, lambda message: heard.append((time.monotonic(), message)), 100
            )
        )
        return heard

    def call(self, kind: type, service: str, request: Any, timeout: float = 60.0, again: bool = True) -> Any:
        """The answer of a service. A server that has not found the client yet loses its answer: after a pause the
        request is sent `again`, where it may come twice."""
        client = self.run(lambda: self.node.create_client(kind, service))
        try:
            wait_until(client.service_is_ready, timeout, f"service {service}")
            if not again:
                time.sleep(0.5)
            futures = [client.call_async(request)]
            sent = time.monotonic()

            def answer() -> Any:
                nonlocal sent
                if again and time.monotonic() > sent + 5.0:
                    futures.append(client.call_async(request))
                    sent = time.monotonic()
                return next((result for future in futures if future.done() and (result := future.result())), None)

            return wait_until(answer, timeout, f"answer of {service}")
        finally:
            self.run(lambda: self.node.destroy_client(client))


class Usage(NamedTuple):
    """Resident memory (MiB), threads and open files of a process."""

    memory: float
    threads: int
    files: int


class NodeProcess:
    """The node under test, in a namespace of its own; the name of `bundle` chooses what hold_node.py does."""

    def __init__(
        self,
        folder: Path,
        peer: Peer,
        bundle: str = "team",
        command: tuple[str, ...] = (str(HOLD_NODE),),
        wait: bool = True,
        **parameters: Any,
    ) -> None:
        self.peer, self.namespace = peer, f"/n{next(_numbers)}"
        (folder / bundle).mkdir(exist_ok=True)
        (folder / bundle / "bundle.yaml").touch()
        source = "/skeleton" if "body" in bundle else "/{agent}/pose"  # not in the node's namespace, as the default is
        values = {"bundle": str(folder / bundle), "input.topic": source} | {
            name.replace("__", "."): value for name, value in parameters.items()
        }
        file = folder / "parameters.yaml"
        file.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
        self._log, self._read = folder / "log", 0
        self._process = subprocess.Popen(
            [sys.executable, *command, "--ros-args", "--params-file", str(file), "-r", f"__ns:={self.namespace}"],
            stdout=self._log.open("w"),
            stderr=subprocess.STDOUT,
            cwd=Path(__file__).parents[2],
            env=os.environ | {"ROS_DOMAIN_ID": str(peer.domain)},
        )
        self.states = self.listen("states", ReconstructedStates)
        self.diagnostics = peer.listen("/diagnostics", DiagnosticArray)
        if wait:
            self.wait_state("active" if values.get("autostart", True) else "unconfigured")

    # What it says

    def listen(self, topic: str, kind: type) -> list[tuple[float, Any]]:
        """The list, growing, of (monotonic time, message) heard on one of the node's own topics."""
        return self.peer.listen(f"{self.namespace}/siha/{topic}", kind)

    @property
    def log(self) -> str:
        """What it has printed since the last `forget`."""
        return self._log.read_text()[self._read :]

    def forget(self) -> None:
        """Look only at what comes from here on: log, states, diagnostics."""
        self._read += len(self.log)
        self.states.clear()
        self.diagnostics.clear()

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
                if status.name == f"{self.namespace}/siha: {part}":
                    return {"level": str(status.level[0]), "message": status.message} | {
                        pair.key: pair.value for pair in status.values
                    }
        return {}

    # What it is told

    def change(self, transition: str) -> bool:
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[transition]
        return self.peer.call(ChangeState, f"{self.namespace}/siha/change_state", request, again=False).success

    def state(self) -> str:
        return self.peer.call(GetState, f"{self.namespace}/siha/get_state", GetState.Request()).current_state.label

    def wait_state(self, label: str, timeout: float = 60.0) -> None:
        wait_until(lambda: self.state() == label, timeout, f"state {label}; log:\n{self.log}")

    def set(self, name: str, value: Any) -> Any:
        """The SetParametersResult of setting one parameter."""
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        return self.peer.call(SetParameters, f"{self.namespace}/siha/set_parameters", request).results[0]

    def describe(self, *names: str) -> Any:
        """The ParameterDescriptors of parameters."""
        request = DescribeParameters.Request(names=names)
        return self.peer.call(DescribeParameters, f"{self.namespace}/siha/describe_parameters", request).descriptors

    def reset(self) -> Any:
        return self.peer.call(Trigger, f"{self.namespace}/siha/reset", Trigger.Request())

    def usage(self) -> Usage:
        """What its process holds now."""
        process = Path("/proc", str(self._process.pid))
        memory = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return Usage(memory / 2**20, len(list((process / "task").iterdir())), len(list((process / "fd").iterdir())))

    def stop(self, number: int = signal.SIGINT, timeout: float = 10.0) -> tuple[int, float]:
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


class Player:
    """Calls `publish(moment)` in a thread, `rate` times a second, with stream times from START on.

    `shift` is added to stamps, `pause` stops all; `now` is the newest stream time, without the shift.
    """

    def __init__(self, peer: Peer, rate: float) -> None:
        self.peer, self.rate = peer, rate
        self.shift, self.pause, self.now, self.sent = 0.0, False, START, 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def publish(self, moment: float) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        begin, tick = time.monotonic(), 0
        while not self._stopping:
            tick += 1
            time.sleep(max(0.0, begin + tick / self.rate - time.monotonic()))
            if not self.pause:
                self.now += 1 / self.rate
                self.publish(self.now)
                self.sent += 1

    def close(self) -> None:
        self._stopping = True
        self._thread.join(2.0)


class Team(Player):
    """Agents that walk on circles of 1 m, agent i at (3 i + cos t, sin t, i) at stream time t, each on /<name>/pose.

    `silent` agents are left out; `edit(name, message)` may change a message or return None to drop it.
    """

    def __init__(
        self,
        peer: Peer,
        names: list[str],
        kind: type = PoseStamped,
        rate: float = 50.0,
        qos: dict[str, QoSProfile] | None = None,
    ) -> None:
        self.names, self.kind = names, kind
        self.publishers = {
            name: peer.node.create_publisher(kind, f"/{name}/pose", (qos or {}).get(name, 10)) for name in names
        }
        self.silent: set[str] = set()
        self.edit: Callable[[str, Any], Any] = lambda name, message: message
        super().__init__(peer, rate)

    @staticmethod
    def position(index: int, moment: float) -> tuple[float, float, float]:
        return 3.0 * index + math.cos(moment), math.sin(moment), float(index)

    def publish(self, moment: float) -> None:
        for index, name in enumerate(self.names):
            message = self.kind()
            message.header.stamp, message.header.frame_id = stamp(moment + self.shift), "world"
            pose = message.pose if self.kind is PoseStamped else message.pose.pose
            pose.position.x, pose.position.y, pose.position.z = self.position(index, moment)
            publisher = self.publishers.get(name)  # a test may have destroyed it
            if publisher and name not in self.silent and (message := self.edit(name, message)) is not None:
                publisher.publish(message)

    def close(self) -> None:
        super().close()
        self.peer.run(lambda: [self.peer.node.destroy_publisher(publisher) for publisher in self.publishers.values()])


class Body(Player):
    """A SkeletonFrame on /skeleton: joint i at (cos t, i / 10, 1); `lost` joints are not tracked."""

    def __init__(self, peer: Peer, joints: list[str], rate: float = 120.0) -> None:
        self.joints, self.lost = joints, set()
        self.publisher = peer.node.create_publisher(SkeletonFrame, "/skeleton", 10)
        super().__init__(peer, rate)

    def publish(self, moment: float) -> None:
        frame = SkeletonFrame(
            group="ann", joints=self.joints, tracked=[joint not in self.lost for joint in self.joints]
        )
        frame.header.stamp, frame.header.frame_id = stamp(moment + self.shift), "world"
        frame.positions = [value for index in range(len(self.joints)) for value in (math.cos(moment), index / 10, 1.0)]
        self.publisher.publish(frame)

    def close(self) -> None:
        super().close()
        self.peer.run(lambda: self.peer.node.destroy_publisher(self.publisher))


class SimClock(Player):
    """/clock in the stream time of a Player that starts with it, in ticks of its own."""

    def __init__(self, peer: Peer, rate: float = 50.0) -> None:
        self.publisher = peer.node.create_publisher(Clock, "/clock", 10)
        super().__init__(peer, rate)

    def publish(self, moment: float) -> None:
        self.publisher.publish(Clock(clock=stamp(moment)))

    def close(self) -> None:
        super().close()
        self.peer.run(lambda: self.peer.node.destroy_publisher(self.publisher))


def all_seen(node: NodeProcess, names: list[str]) -> None:
    """Wait until every agent is seen, and no other is there."""
    wait_until(lambda: set(node.latest()) == set(names), 60.0, f"{names} in ~/states; log:\n{node.log}")
    wait_until(lambda: all(state.status in SEEN for state in node.latest().values()), 60.0, "all seen")


def finite(message: Any) -> bool:
    """Whether every number of a message, at any depth, is finite."""
    if isinstance(message, float):
        return math.isfinite(message)
    if hasattr(message, "SLOT_TYPES"):
        return all(finite(getattr(message, slot)) for slot in message.__slots__)
    if isinstance(message, (list, tuple)) and message and not isinstance(message[0], float):
        return all(finite(item) for item in message)
    if isinstance(message, (list, tuple)) or type(message).__module__ in ("array", "numpy"):
        return bool(np.isfinite(message).all())
    return True
