"""Messages of the node as the viewer keeps them; from ROS or from a bag, whose messages have the same fields.

Each function raises ValueError or IndexError where the arrays of a message do not fit together.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.viewer.memory import Floats, Graph, Paths, States, Truth
from siha_ros.window.types import Status

FORECAST_STEPS = 17  # of a forecast that are kept, at most: the largest part of a long memory
GUIDING_TYPE = 1  # of the types of interaction, the one that means "acts on"; 0 is "none"


def states_of(message: Any) -> States:
    """Of a ReconstructedStates."""
    agents = message.agents
    points = [agent.pose.position for agent in agents]
    return States(
        stamp=_seconds(message.header),
        group=message.group,
        names=_shared(agent.name for agent in agents),
        status=np.array([Status(agent.status) for agent in agents], dtype=np.int8),
        reason=_shared(agent.reason for agent in agents),
        positions=np.array([(point.x, point.y, point.z) for point in points]).reshape(-1, 3),
        position_95=np.array([agent.position_95 for agent in agents]),
        since_seen=np.array([agent.time_since_seen for agent in agents]),
        latency=message.latency,
        bundle=message.bundle,
        frame_id=message.header.frame_id,
    )


def window_of(message: Any) -> Paths:
    """Of a HiddenTrajectories; its last time is its stamp. Covariances are not kept: nothing is drawn of them."""
    stamp, count = _seconds(message.header), len(message.agents)
    steps = len(message.observed) // max(count, 1)
    positions, _ = _arrays(message, steps)
    times = stamp - message.step * np.arange(steps - 1, -1, -1)
    return Paths(stamp, message.group, _shared(message.agents), times, positions, np.empty((count, 0, 2, 2), "f4"))


def forecast_of(message: Any) -> Paths:
    """Of a Forecast: some of its steps, the last one among them, as lines and bands need no more."""
    stamp = _seconds(message.header)
    positions, covariance = _arrays(message, message.horizon)
    kept = np.arange(message.horizon - 1, -1, -max(1, math.ceil(message.horizon / FORECAST_STEPS)))[::-1]
    return Paths(
        stamp,
        message.group,
        _shared(message.agents),
        stamp + message.step * (kept + 1.0),
        positions[:, kept],
        covariance[:, kept, :2, :2].copy(),
    )


def graph_of(message: Any) -> Graph:
    """Of an InteractionGraph: the probability of the guiding type of interaction, 0 where all types are equally
    likely, since nothing is known there."""
    count = len(message.agents)
    probability = np.array(message.probability, dtype=float).reshape(count, count, len(message.edge_types))
    known = probability.max(axis=2, initial=0.0) > probability.min(axis=2, initial=1.0)
    guiding = np.where(known, probability[:, :, GUIDING_TYPE], 0.0)
    return Graph(_seconds(message.header), message.group, _shared(message.agents), guiding.astype(np.float32))


def truth_of(message: Any) -> Truth:
    """Of a SkeletonFrame with true positions."""
    positions = np.array(message.positions, dtype=float).reshape(len(message.joints), 3)
    return Truth(_seconds(message.header), message.group, _shared(message.joints), positions)


def _arrays(message: Any, steps: int) -> tuple[Floats, NDArray[np.float32]]:
    """Positions f8[A, T, 3] (m) and covariances f4[A, T, 3, 3] (m^2)."""
    shape = (len(message.agents), steps)
    covariance = np.array(message.covariance, dtype=np.float32).reshape(*shape, 3, 3)
    return np.array(message.positions, dtype=float).reshape(*shape, 3), covariance


def _shared(texts: Any) -> list[str]:
    return _one_list(tuple(texts))


@lru_cache(maxsize=256)
def _one_list(texts: tuple[str, ...]) -> list[str]:
    """The same list for the same texts: a memory of thousands of messages holds their names once."""
    return list(texts)


def _seconds(header: Any) -> float:
    return float(header.stamp.sec + 1e-9 * header.stamp.nanosec)
