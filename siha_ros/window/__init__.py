"""From a stream of observations to windows on a uniform grid, and who is seen in them; numpy only, no ROS, no torch."""

from __future__ import annotations

from siha_ros.window.grid import backward_difference, resample
from siha_ros.window.sliding_window import Observation, SlidingWindow, WindowParameters
from siha_ros.window.types import Estimate, Forecast, Status, Window, WindowEstimator
from siha_ros.window.visibility import VisibilityParameters

__all__ = [
    "Estimate",
    "Forecast",
    "Observation",
    "SlidingWindow",
    "Status",
    "VisibilityParameters",
    "Window",
    "WindowEstimator",
    "WindowParameters",
    "backward_difference",
    "resample",
]
