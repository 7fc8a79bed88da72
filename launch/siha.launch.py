"""Starts the node `siha`; with arguments, also what publishes its input and what shows its output.

    ros2 launch siha_ros siha.launch.py bundle:=body topics:=/skeleton
    ros2 launch siha_ros siha.launch.py agents:=robot_1,robot_2,robot_3 topics:=/{agent}/odom
    ros2 launch siha_ros siha.launch.py simulator:=true viewer:=true
    ros2 launch siha_ros siha.launch.py player:=FOLDER limb:=left_arm rviz:=true
    ros2 launch siha_ros siha.launch.py bag:=RECORDING topics:=/{agent}/odom viewer:=true

An argument that is left empty leaves the value of the parameter file as it is.
"""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from siha_ros.resources import config_path

NODE_STARTS_IN = "10"  # s
ARGUMENTS = {
    "bundle": ("", "trained model: name of a shipped one, or path of a bundle's folder"),
    "agents": ("", "names of the agents, with commas between; empty: all whose topic matches"),
    "topics": ("", "input topic; {agent} stands for an agent's name where each agent has a topic"),
    "device": ("", "where the model runs: auto, cpu, cuda or cuda:N"),
    "use_sim_time": ("false", "take the time from /clock: true or false"),
    "params_file": (str(config_path("siha.yaml")), "parameters of the node"),
    "namespace": (
        "",
        "of the node and of what this file starts beside it; other input, a bag's too, needs topics:=",
    ),
    "simulator": ("false", "start a simulated robot team: true or false"),
    "player": ("", "play motion capture: a folder with one .asf file and .amc files"),
    "limb": ("left_arm", "limb that the player hides: left_arm, right_arm, left_leg or right_leg"),
    "bag": ("", "play a bag (rosbag2 or ROS 1) to the node, in the bag's time: use_sim_time becomes true"),
    "viewer": ("false", "show the output in a browser: true or false"),
    "port": ("8080", "port of the viewer"),
    "rviz": ("false", "show the output in RViz: true or false"),
}


def start(context: LaunchContext) -> list[Action]:
    """The processes that the arguments ask for."""
    given = {name: LaunchConfiguration(name).perform(context).strip() for name in ARGUMENTS}
    namespace = given["namespace"].strip("/")
    common = {"package": "siha_ros", "namespace": namespace, "output": "screen", "emulate_tty": True}
    clock = {"use_sim_time": flag(given, "use_sim_time") or bool(given["bag"])}
    parameters = [*parameter_files(given), node_parameters(given) | clock]
    nodes: list[Action] = [Node(executable="siha_node", name="siha", parameters=parameters, **common)]
    if flag(given, "simulator"):
        nodes.append(Node(executable="siha_simulator", arguments=["--duration", "0"], **common))
    full_name = f"/{namespace}/siha" if namespace else "/siha"
    if given["player"]:
        options = ["--limb", given["limb"], "--siha", full_name, "--bundle", given["bundle"] or "body"]
        nodes.append(Node(executable="siha_player", arguments=[given["player"], *options], **common))
    if given["bag"] and ros2_bag_plays(Path(given["bag"])):
        nodes.append(ExecuteProcess(cmd=ros2_bag_command(given["bag"]), output="screen"))
    elif given["bag"]:
        options = ["--siha", full_name, "--wait-for", "siha"]
        nodes.append(Node(executable="siha_bag_player", arguments=[given["bag"], *options], **common))
    if flag(given, "viewer"):
        nodes.append(Node(executable="siha_viewer", arguments=["--node", full_name, "--port", given["port"]], **common))
    if flag(given, "rviz"):
        display = {**common, "package": "rviz2"}
        arguments = ["-d", str(config_path("siha.rviz"))]
        topic = [("/siha/markers", f"{full_name}/markers")]
        nodes.append(Node(executable="rviz2", arguments=arguments, parameters=[clock], remappings=topic, **display))
    return nodes


def ros2_bag_plays(path: Path) -> bool:
    """Whether `ros2 bag` is installed and reads this bag; the package's own player reads all others."""
    try:
        get_package_share_directory("ros2bag")
    except PackageNotFoundError:
        return False
    return (path / "metadata.yaml").is_file()


def ros2_bag_command(path: str) -> list[str]:
    """`ros2 bag play` with /clock; it begins when the node has had the time to load its model."""
    return ["ros2", "bag", "play", path, "--clock", "100", "--delay", NODE_STARTS_IN]


def parameter_files(given: dict[str, str]) -> list[str]:
    """The parameter file, checked to exist: one line here beats a traceback of the node."""
    if not Path(given["params_file"]).is_file():
        raise FileNotFoundError(f"params_file is {given['params_file']!r}: no such file")
    return [given["params_file"]]


def node_parameters(given: dict[str, str]) -> dict[str, str | list[str]]:
    """Those arguments that set a parameter of the node, where they are given; a player alone asks for the body."""
    values: dict[str, str | list[str]] = {
        "bundle": given["bundle"] or ("body" if given["player"] else ""),
        "input.agents": [name.strip() for name in given["agents"].split(",") if name.strip()],
        "input.topic": given["topics"],
        "device": given["device"],
    }
    return {name: value for name, value in values.items() if value}


def flag(given: dict[str, str], name: str) -> bool:
    """An argument that is true or false."""
    if given[name].lower() not in ("true", "false"):
        raise ValueError(f"{name} is {given[name]!r}: expected true or false")
    return given[name].lower() == "true"


def generate_launch_description() -> LaunchDescription:
    """What `ros2 launch` runs."""
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=start)])
