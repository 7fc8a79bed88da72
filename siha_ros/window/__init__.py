"""From a stream of observations to windows on a uniform grid, and who is seen in them; numpy only, no ROS, no torch."""

from __future__ import annotations

from siha_ros.window.types import Estimate, Forecast, Status, Window, WindowEstimator

__all__ = ["Estimate", "Forecast", "Status", "Window", "WindowEstimator"]
