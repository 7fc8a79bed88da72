"""Fuzz: whatever is sent, as any type of input, nothing breaks, nothing that is not finite is published, and the
stream that comes after is seen as it is.

Short in the suite, 100,000 messages of every type in `make soak`.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from hold_node import HoldEstimator
from node_harness import SEEN, Player, Team, all_seen, finite, seconds, wait_until
from odd_messages import blank, fill, mutate
from rclpy.serialization import serialize_message
from siha_ros.msg import Forecast, HiddenTrajectories, InteractionGraph
from visualization_msgs.msg import MarkerArray

from siha_ros.node.groups import Groups
from siha_ros.node.inputs import INPUT_TYPES, make_input, message_type
from siha_ros.node.inputs.sample import MalformedMessage
from siha_ros.node.intake import Intake
from siha_ros.node.markers import MarkerScene
from siha_ros.node.messages import output_messages, recovered_message, states_message
from siha_ros.node.parameters import Parameters
from siha_ros.window.sliding_window import SlidingWindow

INSTALLED = [kind for kind in INPUT_TYPES if find_spec(kind.split("/")[0])]
NAMES = ["r0", "r1", "r2", "r3"]
RATE = 50.0  # Hz of each agent
OUTPUTS = {
    "trajectories": HiddenTrajectories,
    "graph": InteractionGraph,
    "forecast": Forecast,
    "markers": MarkerArray,
}


class FiniteSink:
    """Makes every message of every scene, and checks each number of it."""

    def __init__(self, body: bool) -> None:
        self._makers = [make for _, make in output_messages(body=body).values()]
        self._markers, self.states = MarkerScene(0.1, 0.5), None

    def publish(self, scene) -> None:
        messages = [make(scene) for make in self._makers]
        messages += [recovered_message(scene, index) for index in range(len(scene.window.names))]
        messages.append(self._markers.message(scene))
        for message in messages:
            assert finite(message), message
        self.states = states_message(scene)

    def clear_markers(self) -> None:
        assert finite(self._markers.clear())


def raised(error: Exception) -> None:
    raise error


class Storm:
    """The node's own way from messages to outputs, with its clock in the test's hands: an estimate for every `every`
    messages."""

    def __init__(self, kind: str, estimator, fixed: bool, names=NAMES, place=Team.position, every: int = 20) -> None:
        self.kind, self.source, self.every = kind, make_input(kind, names, twists="/{agent}/twist"), every
        self.names, self.place, config = names, place, estimator.bundle.config
        self.said: list[str] = []
        self.window = SlidingWindow(config.dt, config.window, config.dims, names if fixed else None)
        self.intake = Intake(lambda: self.window, Parameters(groups_max=1), "team", self.said.append)
        self.intake.source, self.sink = self.source, FiniteSink(body=config.identified)
        self.groups = Groups(
            self.intake, estimator, lambda feed: self.sink, 10.0, self.said.append, raised, clock=lambda: self.clock
        )
        self.moment, self.clock, self.sent = 1000.0, 50.0, 0

    @staticmethod
    def checked(read):
        """A reader that may refuse a message, but not stumble over it: the node would drop it all the same."""

        def read_or_refuse(message, agent):
            try:
                return read(message, agent)
            except MalformedMessage:
                raise
            except ValueError as error:
                raise AssertionError("not meant to be refused") from error

        return read_or_refuse

    def send(self, odd) -> None:
        """One stamp of all agents, each message passed through `odd`."""
        self.moment, self.clock = self.moment + 1 / RATE, self.clock + 1 / RATE
        for index, name in enumerate(self.names if self.source.per_agent else [""]):
            message, self.sent = odd(fill(blank(self.kind), self.moment, self.names, index, self.place)), self.sent + 1
            if message is not None:
                self.intake.push(message, name, self.moment, self.clock, self.checked(self.source.read))
        if self.sent >= self.every:
            self.sent = 0
            self.groups.step()

    def rage(self, count: int) -> None:
        """Send `count` messages through weather."""
        weather = Weather(count)
        while weather.count < count:
            self.send(weather)
            for companion in self.source.companions if weather.random.random() < 0.2 else ():
                message = mutate(fill(blank(companion.type_name), self.moment, self.names), weather.random, 0.1)
                self.intake.push(message, self.names[0], self.moment, self.clock, self.checked(companion.read))
        assert all(len(line) < 500 and "\n" not in line for line in self.said)

    def clear_up(self) -> None:
        """What comes after, in good weather, is seen where it is."""
        self.moment, self.clock = self.moment + 10.0, self.clock + 10.0
        for _ in range(round((self.window.duration + 1.0) * RATE)):
            self.send(lambda message: message)
        self.groups.step()
        seen = {state.name: state.pose.position for state in self.sink.states.agents if state.status in SEEN}
        assert set(seen) == set(self.names), self.said
        moment = seconds(self.sink.states.header.stamp)
        for index, name in enumerate(self.names):
            expected = self.place(index, moment)
            assert (seen[name].x, seen[name].y) == pytest.approx(expected[:2], abs=1e-3)


class Weather:
    """Passes messages through, or not: as they are, with one odd value, with several, or not at all."""

    def __init__(self, seed: int) -> None:
        self.random, self.count = np.random.default_rng(seed), 0

    def __call__(self, message):
        self.count += 1
        draw = self.random.random()
        if draw < 0.5 or self.count <= 2 * len(NAMES):  # the first say which frame and group the stream is of
            return message
        if draw < 0.6:
            return None
        return mutate(message, self.random, 0.0 if draw < 0.8 else 0.1 if draw < 0.95 else 0.5)


@pytest.mark.parametrize("fixed", [False, True], ids=["open", "fixed"])
@pytest.mark.parametrize("count", [400, pytest.param(50_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", INPUT_TYPES)
def test_odd_messages_break_nothing(kind, count, fixed, tmp_path):
    storm = Storm(kind, HoldEstimator(tmp_path / "team"), fixed)
    storm.rage(count)
    assert storm.groups.estimates > count / 100, storm.said
    storm.clear_up()


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_odd_messages_break_no_trained_model(count):
    pytest.importorskip("torch", reason="needs torch")
    from siha_ros.estimator import load_estimator

    team = load_estimator("springs_team", "cpu")
    storm = Storm("geometry_msgs/msg/PoseStamped", team, False, [f"r{index}" for index in range(7)], circle, every=70)
    storm.rage(count)
    assert storm.groups.estimates > 0, storm.said
    storm.clear_up()
    body = load_estimator("body", "cpu")
    pose, names = body.path.template.pose, body.bundle.config.agent_names
    storm = Storm("siha_ros/msg/SkeletonFrame", body, True, names, lambda index, moment: walk(pose[index], moment), 40)
    storm.rage(count)
    assert storm.groups.estimates > 0, storm.said
    storm.clear_up()


def circle(index: int, moment: float) -> tuple[float, float, float]:
    """Seven robots on a circle of 2 m, at 0.6 m/s."""
    angle = 0.3 * (moment - 1000.0) + 2 * np.pi * index / 7
    return 2.0 * np.cos(angle), 2.0 * np.sin(angle), 0.0


def walk(joint: np.ndarray, moment: float) -> tuple[float, float, float]:
    """A joint of a body that glides along x at 0.5 m/s."""
    return joint[0] + 0.5 * (moment - 1000.0), joint[1], joint[2]


class Stream(Player):
    """A message type on its topics over DDS, through weather and, of every tenth message, with bits of it flipped."""

    def __init__(self, peer, kind: str, weather: Weather | None) -> None:
        self.kind, self.weather = message_type(kind), weather
        self.per_agent = make_input(kind, NAMES).per_agent
        topics = [f"/{name}/pose" for name in NAMES] if self.per_agent else ["/all"]
        self.publishers = [peer.node.create_publisher(self.kind, topic, 10) for topic in topics]
        super().__init__(peer, RATE)

    def publish(self, moment: float) -> None:
        for index, publisher in enumerate(self.publishers):
            message = fill(self.kind(), moment, NAMES, index)
            if self.weather is not None:
                message = self.weather(message)
            if message is not None and self.weather is not None and self.weather.random.random() < 0.1:
                message = self.flipped(serialize_message(message))
            if message is not None:
                publisher.publish(message)

    def flipped(self, data: bytes) -> bytes:
        """A serialised message with a few bits the other way round, and sometimes cut short."""
        random, content = self.weather.random, bytearray(data)
        for place in random.integers(4, len(content), random.integers(1, 5)):  # 4 bytes say how the rest is written
            content[place] ^= 1 << random.integers(8)
        return bytes(content[: random.integers(4, len(content))] if random.random() < 0.3 else content)

    def close(self) -> None:
        super().close()
        self.peer.run(lambda: [self.peer.node.destroy_publisher(publisher) for publisher in self.publishers])


SHORT = ("geometry_msgs/msg/PoseStamped", "siha_ros/msg/SkeletonFrame")


@pytest.mark.ros
@pytest.mark.parametrize(
    ("kind", "length"),
    [(kind, 8) for kind in SHORT] + [pytest.param(kind, 120, marks=pytest.mark.soak) for kind in INSTALLED],
)
def test_odd_messages_over_dds_leave_the_node_as_it_was(start, play, kind, length):
    topic = "/{agent}/pose" if make_input(kind, NAMES).per_agent else "/all"
    agents = [""] if kind in SHORT else NAMES  # none: an open group, where names may be odd
    node = start(input__type=kind, input__topic=topic, input__agents=agents)
    outputs = [node.listen(name, kind) for name, kind in OUTPUTS.items()]
    stream = play(Stream, kind, Weather(length))
    wait_until(lambda: stream.sent > length * RATE, 3 * length + 20.0, f"{length} s of the stream")
    wait_until(lambda: len(node.states) > 15, 30.0, "estimates all the while")
    stream.weather = None
    node.reset()  # what an open group has taken for agents is forgotten
    all_seen(node, NAMES)
    assert "Traceback" not in node.log and not node.lines("estimate failed")
    assert all(finite(message) for heard in (node.states, *outputs) for _, message in heard)
    assert all(heard for heard in outputs)
