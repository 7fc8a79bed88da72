"""The simulator as a process of its own, heard over DDS."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs rclpy")
pytest.importorskip("siha_ros.msg", reason="needs the built messages")
pytestmark = pytest.mark.ros


def test_team_is_published_at_50_hz_and_two_robots_fall_silent(ear):
    from geometry_msgs.msg import PoseStamped
    from siha_ros.msg import InteractionGraph, SkeletonFrame

    from siha_ros.demo.schedule import loss_schedule

    names = [f"robot_{i}" for i in range(1, 8)]
    topics = {f"/{name}/pose": PoseStamped for name in names}
    one = ear(topics | {"/truth": SkeletonFrame, "/truth_graph": InteractionGraph})
    arguments = ("--seed", 5, "--duration", 6, "--wait-for", "demo_ear")
    assert one.run("siha_ros.demo.simulator", *arguments) == 0
    (loss,) = loss_schedule(names, 6.0, seed=5)
    assert (loss.start, loss.end) == (2.0, 4.0)
    truth = one.heard["/truth"]
    begin = truth[0][0]
    truth_at = {stamp: np.array(m.positions).reshape(-1, 3) for stamp, m in truth}
    tracked = {stamp: m.tracked for stamp, m in truth}
    assert truth[0][1].joints == names
    assert np.median(np.diff(list(truth_at))) == pytest.approx(0.02, abs=0.002)
    for index, name in enumerate(names):
        heard = one.heard[f"/{name}/pose"]
        assert len(heard) == sum(seen[index] for seen in tracked.values())
        for stamp, message in heard:
            place = message.pose.position
            assert tracked[stamp][index] and place.z == 0.0
            assert (place.x, place.y, place.z) == pytest.approx(tuple(truth_at[stamp][index]), abs=1e-12)
        for stamp, seen in tracked.items():
            lost = 2.0 - 1e-6 <= stamp - begin < 4.0 - 1e-6
            assert seen[index] != (lost and name in loss.agents)
    _, graph = one.heard["/truth_graph"][0]
    edges = np.array(graph.probability).reshape(7, 7, 2)
    assert np.array_equal(edges[..., 1], edges[..., 1].T) and set(edges[..., 1].ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(edges.sum(-1), 1 - np.eye(7))


def test_team_in_a_namespace_keeps_to_it(ear):
    from geometry_msgs.msg import PoseStamped
    from siha_ros.msg import InteractionGraph, SkeletonFrame

    names = [f"robot_{i}" for i in range(1, 4)]
    topics = {f"/field/{name}/pose": PoseStamped for name in names}
    topics |= {"/field/truth": SkeletonFrame, "/field/truth_graph": InteractionGraph}
    one = ear(topics | {f"/{name}/pose": PoseStamped for name in names})
    options = ("--agents", 3, "--hidden", 1, "--losses", 0, "--duration", 1, "--wait-for", "demo_ear")
    assert one.run("siha_ros.demo.simulator", *options, "--ros-args", "-r", "__ns:=/field") == 0
    assert len(one.heard["/field/truth_graph"]) == 1
    frames = len(one.heard["/field/truth"])
    assert frames > 10 and all(len(one.heard[f"/field/{name}/pose"]) == frames for name in names)
    assert not any(one.heard[f"/{name}/pose"] for name in names)


def test_missed_ticks_are_left_out_and_none_comes_twice():
    from siha_ros.demo.publishing import paced

    stop, begin, times = threading.Event(), time.monotonic(), []
    for elapsed in paced(100.0, stop):
        late = time.monotonic() - begin - elapsed
        assert late >= -1e-3
        times.append(elapsed)
        if len(times) == 5:
            time.sleep(0.055)
        if len(times) == 20:
            stop.set()
    ticks = np.array(times) * 100
    np.testing.assert_allclose(ticks, np.round(ticks), atol=1e-6)
    assert (np.diff(ticks) > 0.5).all() and ticks[0] < 1
    assert ticks[5] - ticks[4] > 4.5


def test_simulator_says_in_one_line_what_is_wrong(ear):
    one = ear({})
    assert one.run("siha_ros.demo.simulator", "--hidden", 7) == 1
