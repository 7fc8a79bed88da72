"""A baseline that knows the dynamics: agents out of sight are rolled on from where they were last seen by the decoder
of a bundle, with the visible agents fed in and the graph that was read before the loss. No hidden-state prediction,
and nothing is learned while they are hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from siha_ros.baselines import ConstantVelocity
from siha_ros.model.bundle import Bundle
from siha_ros.model.frame import TeamFrame, still_frame, team_frame
from siha_ros.window.grid import STAMP_TOLERANCE, backward_difference
from siha_ros.window.types import Estimate, Window

FEWEST_SEEN = 3  # agents seen in the whole window that a frame can be fitted to


@dataclass(frozen=True)
class _Roll:
    """States f8[n, A, 2 P] (m, m/s) of all agents at times f8[n] (s), one dt apart; graph f4[1, A, A, K]."""

    names: list[str]
    times: NDArray[np.float64]
    states: NDArray[np.float64]
    graph: torch.Tensor


class DynamicsRoll:
    """Behind the estimator's interface. `previous` must be this estimator's own for a roll-out to go on beyond a
    window."""

    name = "dynamics_roll"

    def __init__(self, bundle: Bundle) -> None:
        self._config, self._nri = bundle.config, bundle.nri()
        self._device = next(self._nri.parameters()).device
        dims, scale = bundle.config.dims, bundle.config.scale
        self._unit = np.repeat([scale.position, scale.velocity], dims)
        self._fallback = ConstantVelocity(horizon=max(bundle.config.horizon, 1))

    @torch.inference_mode()
    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """Complete the window; at constant velocity where it is not one of the bundle's."""
        estimate = self._fallback.estimate(window)
        throughout = window.observed.all(axis=1)
        if len(window.names) != self._config.count or throughout.sum() < FEWEST_SEEN:
            return estimate
        seen = torch.from_numpy(window.positions[throughout])
        frame = team_frame(seen, window.dt) if self._config.frame == "team" else still_frame(seen, window.dt)
        roll = previous.internal if previous is not None else None
        if not isinstance(roll, _Roll) or roll.names != window.names or roll.times[-1] < window.times[0]:
            roll = self._begin(window, estimate.positions, frame)
        roll = self._advance(roll, window, frame)
        estimate.positions = np.where(window.observed[..., None], window.positions, _positions(roll, window))
        estimate.velocities = backward_difference(estimate.positions, window.dt)
        estimate.internal = roll
        return estimate

    def _begin(self, window: Window, filled: NDArray[np.float64], frame: TeamFrame) -> _Roll:
        """A roll-out that begins at the window's first frame; the graph is read from the window, gaps at constant
        velocity."""
        states = np.concatenate([filled, backward_difference(filled, window.dt)], axis=-1)
        normalised = self._normalised(states, window.times, window.times[-1], frame)
        graph = self._nri.graph(normalised[None])
        return _Roll(window.names, window.times[:1], states[None, :, 0], graph)

    def _advance(self, roll: _Roll, window: Window, frame: TeamFrame) -> _Roll:
        """The roll-out up to the window's newest time: what is seen is taken as seen, the rest as the decoder says."""
        dt, newest = window.dt, window.times[-1]
        measured = self._config.velocity == "measured"
        velocities = window.velocities if measured else backward_difference(window.positions, dt)
        seen = np.concatenate([window.positions, velocities], axis=-1)
        times, states = list(roll.times), list(roll.states)
        while times[-1] + dt <= newest + STAMP_TOLERANCE:
            ahead = times[-1] + dt
            now = self._normalised(states[-1][:, None], np.array([times[-1]]), newest, frame)
            after = self._nri.step(now[None, :, 0], roll.graph)[0].cpu().double().numpy()
            predicted = after * self._unit + self._origin(np.array([ahead]), newest, frame)[0]
            known = _between(seen, (ahead - window.times[0]) / dt)
            times.append(ahead)
            states.append(np.where(np.isfinite(known), known, predicted))
        kept = slice(-self._config.window - 1, None)
        return _Roll(roll.names, np.array(times[kept]), np.stack(states[kept]), roll.graph)

    def _origin(self, times: NDArray[np.float64], newest: float, frame: TeamFrame) -> NDArray[np.float64]:
        """f8[T, 2 P]: the frame's origin and velocity at times."""
        origin, velocity = frame.origin.double().numpy(), frame.velocity.double().numpy()
        positions = origin + (times - newest)[:, None] * velocity
        return np.concatenate([positions, np.broadcast_to(velocity, positions.shape)], axis=-1)

    def _normalised(
        self, states: NDArray[np.float64], times: NDArray[np.float64], newest: float, frame: TeamFrame
    ) -> torch.Tensor:
        """f4[A, T, 2 P] in the frame and scale of the bundle, from f8[A, T, 2 P] (m, m/s)."""
        inside = (states - self._origin(times, newest, frame)) / self._unit
        return torch.from_numpy(inside.astype(np.float32)).to(self._device)


def _between(states: NDArray[np.float64], place: float) -> NDArray[np.float64]:
    """f8[A, D]: states f8[A, T, D] at a place between two frames, counted in frames; NaN where either is."""
    left = int(np.clip(np.floor(place + 1e-6), 0, states.shape[1] - 1))
    weight = place - left
    if weight < 1e-4:
        return states[:, left]
    return (1 - weight) * states[:, left] + weight * states[:, left + 1]


def _positions(roll: _Roll, window: Window) -> NDArray[np.float64]:
    """f8[A, T, P] positions (m) of a roll-out at the window's times; at constant velocity after its last state."""
    dims = window.positions.shape[-1]
    columns = roll.states[..., :dims].reshape(len(roll.times), -1)
    inside = np.stack([np.interp(window.times, roll.times, column) for column in columns.T])
    positions = inside.reshape(len(window.names), dims, -1).transpose(0, 2, 1)
    late = np.maximum(window.times - roll.times[-1], 0.0)
    return positions + late[:, None] * roll.states[-1, :, None, dims:]
