"""The package's own player over DDS: the bag's messages in the order and with the values recorded, and its time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from make_bags import BEGIN, UNKNOWN, lines, pose_message, write_bag  # noqa: E402

VELOCITIES = np.array([[1.0, 0.0], [0.0, -2.0]])
RUN = "siha_ros.demo.bag_player"


def mixed(new):
    """Two robots for a second, one topic of an earlier run of the node, and one of a type that is nowhere."""
    for topic, kind, time, message in lines(1.0, VELOCITIES, rate=20.0)(new):
        yield topic, kind, time, message
        if topic == "/r1/pose":
            yield "/siha/recovered/r1/pose", "geometry_msgs/msg/PoseStamped", time, pose_message(new, time, 9.0, 9.0)
            yield "/chatter", UNKNOWN, time, new(UNKNOWN, text="hello")


@pytest.mark.ros
@pytest.mark.parametrize("form", ["sqlite3", "ros1"])
def test_messages_are_played_as_recorded(ear, form, tmp_path, capfd):
    from geometry_msgs.msg import PoseStamped

    kinds = {"/r0/pose": PoseStamped, "/r1/pose": PoseStamped, "/siha/recovered/r1/pose": PoseStamped}
    listener = ear(kinds)
    clock = listen_to_clock(listener)
    path = write_bag(tmp_path / "bag", form, mixed if form == "sqlite3" else lines(1.0, VELOCITIES, rate=20.0))
    assert listener.run(RUN, path, "--rate", "4", "--wait-for", "demo_ear") == 0
    for agent, velocity in enumerate(VELOCITIES):
        heard = listener.heard[f"/r{agent}/pose"]
        times = np.array([stamp for stamp, _ in heard]) - BEGIN
        assert times == pytest.approx(np.arange(20) / 20, abs=1e-6)
        found = [(message.pose.position.x, message.pose.position.y - agent) for _, message in heard]
        assert np.allclose(found, times[:, None] * velocity, atol=1e-6)
        assert all(message.header.frame_id == "map" for _, message in heard)
    assert not listener.heard["/siha/recovered/r1/pose"]
    played = sorted(set(clock))
    assert clock == sorted(clock) and played[0] == pytest.approx(BEGIN) and len(played) == 96  # 100 Hz up to 0.95 s
    assert np.diff(played) == pytest.approx(np.full(95, 0.01), abs=1e-6)
    if form == "sqlite3":
        assert "/chatter is not played: messages of type gone_msgs/msg/Note need" in capfd.readouterr().err


class Recorder:
    """In the place of publisher, clock and stop event: notes (s since the start, what), and waits without waiting."""

    def __init__(self) -> None:
        self.now, self.notes = 0.0, []

    def wait(self, seconds):
        self.now += seconds
        return False

    def publish(self, entry):
        self.notes.append((self.now, entry.topic))

    def tell_time(self, moment):
        self.notes.append((self.now, moment - BEGIN))


@pytest.mark.ros
def test_a_bag_is_played_at_the_speed_asked_for(tmp_path, monkeypatch):
    from siha_ros.demo import bag_player
    from siha_ros.replay.bag import Bag

    recorder = Recorder()
    monkeypatch.setattr(bag_player, "time", SimpleNamespace(monotonic=lambda: recorder.now))
    with Bag(write_bag(tmp_path / "bag", "mcap", lines(0.2, VELOCITIES, rate=20.0))) as bag:
        bag_player.play(bag, recorder, 2.0, recorder)
    messages = [(now, what) for now, what in recorder.notes if isinstance(what, str)]
    assert [what for _, what in messages] == ["/r0/pose", "/r1/pose"] * 4
    assert [now for now, _ in messages] == pytest.approx(np.repeat([0.0, 0.025, 0.05, 0.075], 2), abs=1e-5)
    clock = np.array([(now, what) for now, what in recorder.notes if not isinstance(what, str)])
    assert clock[:, 1] == pytest.approx(np.arange(16) / 100, abs=1e-6)
    assert clock[:, 0] == pytest.approx(clock[:, 1] / 2, abs=1e-5)


@pytest.mark.ros
def test_what_cannot_be_played_is_one_line(ear, tmp_path, capfd):
    listener = ear({})
    assert listener.run(RUN, tmp_path / "absent") == 1
    assert capfd.readouterr().err.strip().endswith("absent: no such file or folder")


def listen_to_clock(listener):
    """The list, growing, of the times (s) on /clock."""
    from rosgraph_msgs.msg import Clock

    from siha_ros.demo.publishing import RELIABLE, seconds

    heard = []
    listener.node.create_subscription(Clock, "/clock", lambda m: heard.append(seconds(m.clock)), RELIABLE)
    return heard
