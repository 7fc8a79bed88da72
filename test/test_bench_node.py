"""The stream of the node's bench by hand, what is made of what was heard, and one short run over DDS."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_team import save_small_team

from siha_ros.bench_stream import Motion
from siha_ros.replay.bag import MessageFactory, own_types

TEAM = Motion(["a", "b"], [[1.0, 0.0, 0.0], [0.0, 2.0, 0.5]], [1.0, 0.0, 0.0], np.pi / 2, [1], body=False)


def test_a_motion_turns_and_moves_on():
    """A quarter turn a second, and a metre a second along x."""
    expected = [[[1, 0, 0], [1, 1, 0]], [[0, 2, 0.5], [-1, 0, 0.5]]]
    np.testing.assert_allclose(TEAM.at(np.array([0.0, 1.0])), expected, atol=1e-12)


def test_lost_robots_are_silent_and_lost_joints_untracked():
    new = MessageFactory(own_types()).new
    whole = list(TEAM.messages(new, 0.0, 3_000_000_007, False))
    assert [(topic, kind) for topic, kind, _ in whole] == [
        ("/a/pose", "geometry_msgs/msg/PoseStamped"),
        ("/b/pose", "geometry_msgs/msg/PoseStamped"),
    ]
    message = whole[1][2]
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (3, 7)
    assert (message.pose.position.y, message.pose.position.z, message.pose.orientation.w) == (2.0, 0.5, 1.0)
    assert [topic for topic, *_ in TEAM.messages(new, 0.0, 0, True)] == ["/a/pose"]
    body = Motion(TEAM.names, TEAM.pose, TEAM.velocity, 0.0, [1], body=True)
    (topic, kind, frame), (_, _, other) = body.messages(new, 2.0, 0, True, groups=2)
    assert (topic, kind, list(frame.joints)) == ("/skeleton", "siha_ros/msg/SkeletonFrame", ["a", "b"])
    assert (frame.group, other.group) == ("body_1", "body_2")
    assert list(frame.tracked) == [True, False]
    assert list(frame.positions) == [3, 0, 0, 2, 2, 0.5]


def bench_node():
    pytest.importorskip("rclpy")
    from siha_ros import bench_node

    return bench_node


@pytest.mark.ros
def test_figures_of_what_was_heard_by_hand():
    """Ten seconds at 20 Hz to two groups: half of the estimates come, 30 ms after their newest stamp, one after 130."""
    bench = bench_node()
    arrivals = [0.1 * number for number in range(-20, 120)]
    times = [(arrival, arrival - 0.1 - (0.13 if number == 50 else 0.03)) for number, arrival in enumerate(arrivals)] * 2
    processor = [(float(moment), 0.8 * moment) for moment in range(-2, 13)]
    heard = bench.Listened(times, 1890, 5, processor)
    row = bench.summary(heard, 0.0, 10.0, 0.1, 2, {"messages": 2000, "ticks_missed": 3})
    assert row["estimates_per_second"] == pytest.approx(10) and row["missed_percent"] == pytest.approx(50)
    assert row["latency_ms"]["p50"] == pytest.approx(30) and 30 < row["latency_ms"]["p99"] <= 130
    assert row["processor_percent"] == pytest.approx(80)
    assert row["messages"] == {"published": 2000, "received": 1890, "unused": 5}
    assert row["messages_lost_percent"] == pytest.approx(5.5) and row["publisher_ticks_missed"] == 3
    with pytest.raises(ValueError, match="no estimate came"):
        bench.summary(bench.Listened([], 0, 0, processor), 0.0, 10.0, 0.1, 2, {"messages": 1, "ticks_missed": 0})


@pytest.mark.ros
def test_a_short_run(tmp_path, monkeypatch, ros_domain, capsys):
    bench = bench_node()
    bundle = save_small_team(tmp_path / "small_team")
    monkeypatch.setitem(bench.SCENARIOS, "team_7", bench.Scenario(str(bundle), 20.0))
    monkeypatch.setattr(bench, "BAG_SECONDS", 3.0)
    from siha_ros.cli import main

    code = main(["bench", "node", "--scenarios", "team_7", "--seconds", "3", "--json", str(tmp_path / "node.json")])
    assert code == 0
    row = json.loads((tmp_path / "node.json").read_text())["scenarios"]["team_7"]
    assert 0 < row["latency_ms"]["p50"] <= row["latency_ms"]["p99"]
    assert row["estimates_per_second"] > 0 and row["processor_percent"] > 0 and row["replay_times_real_time"] > 0
    assert 0 < row["messages"]["received"] <= row["messages"]["published"]
    assert "team_7" in capsys.readouterr().out
