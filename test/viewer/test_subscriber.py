"""Messages of the node as the viewer keeps them: order of the arrays, times, the guiding type of interaction."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
pytest.importorskip("siha_ros.msg", reason="needs the built messages of siha_ros")

from siha_ros.msg import (
    AgentState,
    Forecast,
    HiddenTrajectories,
    InteractionGraph,
    ReconstructedStates,
    SkeletonFrame,
)

from siha_ros.viewer import messages, subscriber
from siha_ros.window.types import Status

pytestmark = pytest.mark.ros


def stamped(message, sec=100, nanosec=500_000_000):
    message.header.stamp.sec, message.header.stamp.nanosec = sec, nanosec
    message.group = "team"
    return message


def test_states():
    agent = AgentState(name="r1", status=AgentState.HIDDEN, reason="silent", position_95=0.4, time_since_seen=1.5)
    agent.pose.position.x, agent.pose.position.y, agent.pose.position.z = 1.0, 2.0, 3.0
    message = stamped(ReconstructedStates(bundle="springs_team", agents=[agent, AgentState(name="r2")], latency=0.01))
    message.header.frame_id = "map"
    states = messages.states_of(message)
    assert (states.stamp, states.group, states.bundle, states.latency) == (100.5, "team", "springs_team", 0.01)
    assert (states.names, states.frame_id) == (["r1", "r2"], "map")
    assert states.reason == ["silent", ""]
    np.testing.assert_array_equal(states.status, [Status.HIDDEN, Status.UNKNOWN])
    np.testing.assert_array_equal(states.positions, [[1, 2, 3], [0, 0, 0]])
    np.testing.assert_array_equal(states.position_95, [0.4, 0])
    np.testing.assert_array_equal(states.since_seen, [1.5, 0])


def test_states_of_no_agents():
    assert messages.states_of(stamped(ReconstructedStates())).positions.shape == (0, 3)


def test_forecast_begins_one_step_after_its_stamp():
    positions = np.arange(12.0)
    message = stamped(Forecast(agents=["r1", "r2"], step=0.1, horizon=2, positions=positions))
    message.covariance = np.arange(36.0)
    paths = messages.forecast_of(message)
    np.testing.assert_allclose(paths.times, [100.6, 100.7])
    np.testing.assert_array_equal(paths.positions, positions.reshape(2, 2, 3))
    np.testing.assert_array_equal(paths.covariance[1, 0], [[18, 19], [21, 22]])  # level with the ground


def test_of_a_long_forecast_some_steps_are_kept_and_the_last_one():
    message = stamped(Forecast(agents=["r1"], step=0.1, horizon=50, positions=np.arange(150.0)))
    message.covariance = np.arange(450.0)
    paths = messages.forecast_of(message)
    steps = np.arange(2, 51, 3)  # every third
    np.testing.assert_allclose(paths.times, 100.5 + 0.1 * steps)
    np.testing.assert_array_equal(paths.positions[0, :, 0], 3 * (steps - 1))
    assert paths.covariance.shape == (1, 17, 2, 2) and paths.covariance.base is None  # else it holds all of the message
    np.testing.assert_array_equal(paths.covariance[0, :, 0, 0], 9 * (steps - 1))


def test_window_ends_at_its_stamp():
    message = stamped(HiddenTrajectories(agents=["r1"], step=0.1, observed=[True, False, False]))
    message.positions, message.covariance = np.arange(9.0), np.zeros(27)
    paths = messages.window_of(message)
    np.testing.assert_allclose(paths.times, [100.3, 100.4, 100.5])
    np.testing.assert_array_equal(paths.positions[0, 2], [6, 7, 8])


def test_window_of_nobody():
    paths = messages.window_of(stamped(HiddenTrajectories(step=0.1)))
    assert paths.names == []
    assert len(paths.times) == 0


def test_graph_keeps_the_sender_in_the_row_and_the_guiding_type():
    message = stamped(InteractionGraph(agents=["r1", "r2"], edge_types=["none", "spring"]))
    message.probability = np.array([0, 0, 0.25, 0.75, 1.0, 0.0, 0, 0], dtype=np.float32)
    graph = messages.graph_of(message)
    np.testing.assert_array_equal(graph.probability, [[0, 0.75], [0, 0]])


@pytest.mark.parametrize("types", [2, 3])
def test_a_graph_that_says_nothing_has_no_edges(types):
    message = stamped(InteractionGraph(agents=["r1", "r2", "r3"], edge_types=[f"type {k}" for k in range(types)]))
    unknown = np.repeat((1 - np.eye(3))[..., None] / types, types, axis=2)
    message.probability = unknown.astype(np.float32).ravel()
    assert not messages.graph_of(message).probability.any()


def test_truth():
    message = stamped(SkeletonFrame(joints=["r1", "r2"], positions=np.arange(6.0), tracked=[True, False]))
    truth = messages.truth_of(message)
    assert truth.names == ["r1", "r2"]
    np.testing.assert_array_equal(truth.positions, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (messages.states_of, ReconstructedStates(agents=[AgentState(name="r1", status=9)])),
        (messages.forecast_of, Forecast(agents=["r1"], horizon=2, positions=[0.0] * 5, covariance=[0.0] * 18)),
        (messages.window_of, HiddenTrajectories(agents=["r1"], observed=[True], positions=[0.0] * 2)),
        (messages.graph_of, InteractionGraph(agents=["r1"], edge_types=["none"], probability=[0.0])),
        (messages.truth_of, SkeletonFrame(joints=["r1", "r2"], positions=[0.0] * 3)),
    ],
)
def test_malformed_messages_are_refused(convert, message):
    with pytest.raises((ValueError, IndexError)):
        convert(stamped(message))


def test_a_malformed_message_leaves_the_viewer_listening(ros_domain):
    import rclpy
    from rclpy.executors import SingleThreadedExecutor

    from siha_ros.viewer.scene_state import SceneState

    context = rclpy.Context()
    rclpy.init(context=context, domain_id=ros_domain)
    state = SceneState()
    viewer = subscriber.ViewerNode(state, "/siha", "/truth", "/truth_graph", context=context)
    sender = rclpy.create_node("stand_in", context=context)
    publisher = sender.create_publisher(ReconstructedStates, "/siha/states", 10)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(viewer)
    deadline = time.monotonic() + 30.0
    try:
        while not state.agents():
            assert time.monotonic() < deadline, "nothing arrived"
            publisher.publish(stamped(ReconstructedStates(agents=[AgentState(name="bad", status=9)])))
            executor.spin_once(timeout_sec=0.1)
            publisher.publish(stamped(ReconstructedStates(agents=[AgentState(name="good", status=1)])))
            executor.spin_once(timeout_sec=0.1)
    finally:
        executor.shutdown()
        viewer.destroy_node()
        sender.destroy_node()
        context.try_shutdown()
    assert state.agents() == [("team", "good")]
