"""The messages: found from the repository's root, fields as documented, unchanged by serialisation and by DDS."""

from __future__ import annotations

import array
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS 2: rclpy cannot be imported")
messages = pytest.importorskip("siha_ros.msg", reason="the messages are not built")

from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402

pytestmark = pytest.mark.ros

STATUS = {"UNKNOWN": 0, "VISIBLE": 1, "BRIDGED": 2, "HIDDEN": 3, "WARMING_UP": 4, "STALE": 5}
NAMES = ["AgentState", "Forecast", "HiddenTrajectories", "InteractionGraph", "ReconstructedStates", "SkeletonFrame"]


def filled(name: str):
    """A message with a distinct value in each field, arrays set from numpy or array.array."""
    message = getattr(messages, name)()
    for position, (field, kind) in enumerate(message.get_fields_and_field_types().items(), start=1):
        if kind in ("float64", "double", "float32", "float"):
            setattr(message, field, position + 0.25)
        elif kind in ("uint8", "uint32"):
            setattr(message, field, position)
        elif kind == "boolean":
            setattr(message, field, True)
        elif kind == "string":
            setattr(message, field, f"{field} of {name}")
        elif kind == "double[9]":
            setattr(message, field, np.arange(9.0) + position)
        elif kind == "sequence<double>":
            setattr(message, field, array.array("d", [position, -position, 1e-9]))
        elif kind == "sequence<float>":
            setattr(message, field, array.array("f", [0.25, 0.75, position]))
        elif kind == "sequence<boolean>":
            setattr(message, field, [True, False, True])
        elif kind == "sequence<string>":
            setattr(message, field, [field, name, ""])
        elif kind == "sequence<siha_ros/AgentState>":
            setattr(message, field, [filled("AgentState"), messages.AgentState(name="other")])
        elif kind == "std_msgs/Header":
            message.header.stamp.sec, message.header.stamp.nanosec, message.header.frame_id = 7, 8, "map"
        elif kind == "geometry_msgs/Pose":
            message.pose.position.x, message.pose.position.z, message.pose.orientation.w = 1.5, -2.5, 0.5
        elif kind == "geometry_msgs/Vector3":
            message.velocity.y = 3.5
        else:
            raise AssertionError(f"{name}.{field} is a {kind}: this test does not know how to fill it")
    return message


def test_messages_import_from_the_root_of_the_repository(repository):
    code = "import siha_ros, siha_ros.msg; print(siha_ros.__file__); print(siha_ros.msg.Forecast.__name__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(repository / "siha_ros" / "__init__.py"), "Forecast"]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_survives_serialisation(name):
    message = filled(name)
    assert deserialize_message(serialize_message(message), type(message)) == message


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_documented(name, repository):
    lines = (repository / "msg" / f"{name}.msg").read_text().splitlines()
    assert lines[0].startswith("# ")
    fields = [line for line in lines if line and not line.startswith("#")]
    for line in fields:
        assert re.search(r"\S\s+# \S", line), f"{name}.msg: no comment in {line!r}"
    plain = [line.split("#")[0].split()[1] for line in fields if "=" not in line.split("#")[0]]
    assert plain == list(getattr(messages, name).get_fields_and_field_types())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "AgentState"])
def test_every_output_says_time_and_group(name):
    kinds = getattr(messages, name).get_fields_and_field_types()
    assert (kinds["header"], kinds["group"]) == ("std_msgs/Header", "string")


def test_status_numbers_are_those_of_the_window():
    from siha_ros.window.types import Status

    assert {status.name: int(status) for status in Status} == STATUS
    assert {name: getattr(messages.AgentState, name) for name in STATUS} == STATUS


def test_large_arrays_are_not_lists():
    for field in ("positions", "velocities", "covariance"):
        assert isinstance(getattr(messages.Forecast(), field), array.array)
    assert isinstance(messages.InteractionGraph().probability, array.array)


def test_a_message_arrives_from_another_process(ros_domain, repository):
    import rclpy

    code = """
import time, rclpy
from siha_ros.msg import SkeletonFrame
rclpy.init()
node = rclpy.create_node("sender")
publisher = node.create_publisher(SkeletonFrame, "skeleton", 10)
frame = SkeletonFrame(group="body", joints=["hand", "foot"], tracked=[True, False])
frame.positions = [1.0, 2.0, 3.0, float("nan"), 0.0, 0.0]
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    publisher.publish(frame)
    time.sleep(0.05)
"""
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=ros_domain)
    executor = SingleThreadedExecutor(context=context)
    node = rclpy.create_node("receiver", context=context)
    executor.add_node(node)
    received: list = []
    node.create_subscription(messages.SkeletonFrame, "skeleton", received.append, 10)
    sender = subprocess.Popen([sys.executable, "-c", code], cwd=repository, env=os.environ)
    try:
        deadline = time.monotonic() + 20
        while not received and time.monotonic() < deadline:
            executor.spin_once(timeout_sec=0.1)
    finally:
        sender.kill()
        sender.wait()
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
    assert received, "nothing arrived in 20 s"
    assert received[0].joints == ["hand", "foot"] and list(received[0].tracked) == [True, False]
    np.testing.assert_array_equal(received[0].positions, [1.0, 2.0, 3.0, np.nan, 0.0, 0.0])
