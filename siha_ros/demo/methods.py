"""What the node is compared with in a demo, and the window that the comparison runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from siha_ros.baselines import ConstantVelocity, Hold, MeanVisible
from siha_ros.body_baselines import ridge_estimators
from siha_ros.dynamics_roll import DynamicsRoll
from siha_ros.model.bundle import Bundle, BundleConfig
from siha_ros.node.parameters import Parameters, window_parameters
from siha_ros.window.sliding_window import SlidingWindow
from siha_ros.window.types import WindowEstimator


def node_parameters(path: Path) -> Parameters:
    """The node's parameters as a ROS parameter file gives them."""
    content = yaml.safe_load(path.read_text()) or {}
    values: dict[str, Any] = {}
    for section in content.values():
        values |= _flat((section or {}).get("ros__parameters") or {})
    return Parameters.checked(values)


def window_factory(config: BundleConfig, parameters: Parameters) -> Callable[[], SlidingWindow]:
    """Makes windows like the node's own."""
    return lambda: SlidingWindow(
        config.dt, config.window, config.dims, config.agent_names or None, window_parameters(parameters)
    )


def baseline_methods(bundle: Bundle) -> dict[str, WindowEstimator]:
    """Estimators by the name that they have in the report."""
    methods: dict[str, WindowEstimator] = {
        kind.name: kind(horizon=bundle.config.horizon) for kind in (Hold, ConstantVelocity, MeanVisible)
    }
    if bundle.config.identified:
        methods |= ridge_estimators(bundle)
    else:
        methods[DynamicsRoll.name] = DynamicsRoll(bundle)
    return methods


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in parameters.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
