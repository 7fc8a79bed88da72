"""The window needs numpy alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "rclpy", "scipy", "numba", "yaml"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Block())
import siha_ros.window, siha_ros.baselines, siha_ros.window.completion
print(siha_ros.window.SlidingWindow.__name__)
"""


def test_window_and_baselines_import_with_neither_torch_nor_ros():
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", BLOCKED], cwd=root, capture_output=True, text=True)
    assert run.stdout == "SlidingWindow\n", run.stderr
