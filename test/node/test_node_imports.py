"""The node's modules load without torch, and without what only a full ROS install has."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")


def test_node_does_not_need_torch_tf_message_filters_or_diagnostic_updater(repository):
    code = """
import sys
import siha_ros.node.main
unwanted = {"torch", "tf2_ros", "message_filters", "diagnostic_updater", "launch", "offline_training"}
print(sorted(unwanted & {name.split(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_parameters_need_no_ros(repository):
    code = "import sys, siha_ros.node.parameters; print('rclpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_help_of_the_executable_does_not_start_the_node(repository):
    command = [sys.executable, "-m", "siha_ros.node", "--help"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("usage: siha node [--ros-args")
