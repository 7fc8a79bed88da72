"""`ros2 launch siha_ros siha.launch.py` for real: node and simulator in a namespace, until states arrive."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path

import pytest

launch_pytest = pytest.importorskip("launch_pytest", reason="no launch_pytest: it comes with a ROS 2 install only")
pytest.importorskip("launch_ros", reason="no launch_ros: it comes with a ROS 2 install only")

import rclpy  # noqa: E402
from launch import LaunchDescription  # noqa: E402
from launch.actions import IncludeLaunchDescription, SetEnvironmentVariable  # noqa: E402
from launch.launch_description_sources import PythonLaunchDescriptionSource  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from siha_ros.msg import AgentState, ReconstructedStates  # noqa: E402

from siha_ros.resources import bundle_path  # noqa: E402

FILE = Path(__file__).parents[2] / "launch" / "siha.launch.py"
DOMAIN = 1 + (os.getpid() * 17) % 100


def launch_file():
    """The launch file as a module."""
    spec = importlib.util.spec_from_file_location("siha_launch", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(**given):
    module = launch_file()
    return module, {name: default for name, (default, _) in module.ARGUMENTS.items()} | given


def test_an_argument_that_is_not_given_leaves_the_parameter_file_as_it_is():
    module, given = arguments()
    assert module.node_parameters(given) == {}


def test_arguments_set_parameters_of_the_node():
    module, given = arguments(bundle="mine", agents="a, b", topics="/{agent}/odom", device="cpu")
    assert module.node_parameters(given) == {
        "bundle": "mine",
        "input.agents": ["a", "b"],
        "input.topic": "/{agent}/odom",
        "device": "cpu",
    }


def test_a_player_asks_for_the_body():
    module, given = arguments(player="/recordings")
    assert module.node_parameters(given) == {"bundle": "body"}


def test_a_single_file_or_a_bag_of_ros_1_is_not_for_ros2_bag(tmp_path):
    module, _ = arguments()
    for name in ("recording.mcap", "recording.bag"):
        (tmp_path / name).touch()
        assert not module.ros2_bag_plays(tmp_path / name)


def test_a_wrong_flag_is_named():
    module, given = arguments(viewer="yes")
    with pytest.raises(ValueError, match="viewer is 'yes': expected true or false"):
        module.flag(given, "viewer")


@launch_pytest.fixture
def team():
    settings = {"ROS_DOMAIN_ID": str(DOMAIN), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    options = {"simulator": "true", "namespace": "field", "agents": "robot_1,robot_2,robot_3", "device": "cpu"}
    return LaunchDescription(
        [
            *(SetEnvironmentVariable(name, value) for name, value in settings.items()),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(str(FILE)), launch_arguments=options.items()),
            launch_pytest.actions.ReadyToTest(),
        ]
    )


@pytest.mark.launch(fixture=team)
def test_states_of_the_agents_asked_for_arrive():
    bundle_path("springs_team")
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=DOMAIN)
    node = rclpy.create_node("listener", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    received: list[ReconstructedStates] = []
    node.create_subscription(ReconstructedStates, "/field/siha/states", received.append, 10)
    try:
        deadline = time.monotonic() + 90.0
        while time.monotonic() < deadline and not any(
            all(agent.status == AgentState.VISIBLE for agent in message.agents) for message in received
        ):
            executor.spin_once(timeout_sec=0.1)
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
    assert received, "no states in 90 s"
    assert [agent.name for agent in received[-1].agents] == ["robot_1", "robot_2", "robot_3"]
    assert received[-1].header.frame_id == "map"
    assert all(agent.status == AgentState.VISIBLE for agent in received[-1].agents)
