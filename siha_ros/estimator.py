"""A window in, an estimate in metres out: the one seam that the live node, recorded bags and training tables run
through.

:func:`load_estimator` opens a bundle. :class:`TeamEstimator` is the estimator of like agents (robots of a team); bodies
have theirs in :mod:`siha_ros.body_estimator`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from siha_ros.baselines import ConstantVelocity
from siha_ros.model.bundle import Bundle, load_bundle
from siha_ros.model.dynamics import Evidence, edge_log_odds, graph_of, smooth
from siha_ros.model.frame import TeamFrame, backward_velocity, still_frame, team_frame
from siha_ros.model.hidden_state import align, take_slots
from siha_ros.model.quick import quick_nri, quick_predictor
from siha_ros.model.refinement import GUIDING_TYPE, Refinement
from siha_ros.resources import bundle_path
from siha_ros.window.types import Estimate, Forecast, Status, Window

Array = NDArray[np.float64]

FEWEST_SEEN = 3  # agents seen throughout that a frame can be fitted to
BELIEF_SECONDS = 2.0  # time constant of the running belief in an edge whose agents are both seen
OWN_FRAME_DEVIATION = 0.002  # m, of a state that was observed: interpolation and sensor


class Estimator(Protocol):
    """What every estimator of a bundle offers."""

    bundle: Bundle
    device: torch.device

    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """The completed window; ``previous`` is what this estimator said of an earlier window of the same stream."""
        ...

    def warm_up(self) -> None:
        """Run every code path once, so that the first window is not a slow one."""
        ...


def choose_device(name: str) -> torch.device:
    """ "auto", "cpu", "cuda" or "cuda:N" to a device. Raises ValueError, in one line, where it does not exist."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name!r} is unknown, expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r}: no CUDA device is available to this PyTorch, use auto or cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r}: only {torch.cuda.device_count()} CUDA devices are available")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} is not supported, expected auto, cpu, cuda or cuda:N")
    return device


def load_estimator(bundle: str | Path, device: str = "auto") -> Estimator:
    """The estimator of a bundle, by the name of a shipped one or by path. Raises BundleError, FileNotFoundError or
    ValueError."""
    chosen = choose_device(device)
    loaded = load_bundle(bundle_path(bundle))
    if loaded.config.frame == "body":
        from siha_ros.body_estimator import BodyEstimator

        return BodyEstimator(loaded, chosen)
    return TeamEstimator(loaded, chosen)


@dataclass
class _Memory:
    """What a team estimate leaves to the next one: the belief in each edge (log odds of the guiding type ``[A, A]``)
    and, of the n agents that were not seen throughout, their smoothed states ``[n, T, 2 P]`` and the filter's mean
    ``[T, n, 2 P]`` and information ``[T, n, 2 P, n, 2 P]``, all in metres and seconds of the stream's own frame;
    guessed: newest positions of agents that were never seen."""

    time: float
    log_odds: Array
    names: list[str]
    times: Array
    states: Array
    mean: Array
    information: Array
    guessed: dict[str, Array]


@dataclass
class _Completion:
    """hidden ``[1, n, T, 2 P]`` normalised; log_odds ``[1, A, A]``; filtered and filtered_information as in
    :class:`Smoothed`."""

    hidden: Tensor
    log_odds: Tensor
    rounds: int
    change: float
    filtered: Tensor
    filtered_information: Tensor


class TeamEstimator:
    """Like agents, in the plane or in space.

    Agents seen in the whole window drive everything. The others are completed in layers: HSP and NRI guess (the paper's
    loop, when nothing else is known of them); the learned dynamics join that with what was seen of them, in the window
    or before it, into trajectories that explain the visible agents; and the belief in each edge outlives the window in
    which its agents were seen.
    """

    def __init__(self, bundle: Bundle, device: torch.device, evidence_rounds: int = 3):
        self.bundle, self.device, self.evidence_rounds = bundle, device, evidence_rounds
        for network in bundle.networks.values():
            network.to(device)
        self.nri = quick_nri(bundle.nri())
        config = bundle.config
        self.dims, self.scale = config.dims, config.scale
        self.unit = torch.tensor(
            [config.scale.position] * config.dims + [config.scale.velocity] * config.dims, device=device
        )
        noise = {name: tensor.to(device) for name, tensor in bundle.arrays["noise"].items()}
        self.step_variance = noise["step_variance"]
        counts = range(1, config.max_hidden + 1)
        self.guess_variance = {count: noise[f"guess_variance_{count}"] for count in counts}
        self.refinements = {
            count: Refinement(
                quick_predictor(bundle.predictor(f"hsp_sa_{count}")),
                quick_predictor(bundle.predictor(f"hsp_sg_{count}")),
                self.nri,
                config.rounds,
            )
            for count in counts
        }
        self.fallback = ConstantVelocity()

    def warm_up(self) -> None:
        """Complete made-up windows: each number of hidden agents, absent and lost half-way."""
        config = self.bundle.config
        for hidden in range(config.max_hidden + 1):
            for lost_at in (0, config.window // 2):
                self.estimate(_made_up_window(config.count, config.window, config.dims, config.dt, hidden, lost_at))

    @torch.inference_mode()
    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """See :class:`Estimator`. A window that the bundle was not made for is continued at constant velocity, and the
        reason says why."""
        began = time.perf_counter()
        unfit = self._unfit(window)
        if unfit:
            return self._extrapolate(window, unfit, began)
        throughout = window.observed.all(1)
        order = np.concatenate([np.flatnonzero(throughout), np.flatnonzero(~throughout)])
        missing = order[throughout.sum() :]
        seen = self._tensor(window.positions[throughout])
        frame = team_frame(seen, window.dt) if self.bundle.config.frame == "team" else still_frame(seen, window.dt)
        outside = self._outside(seen, frame)
        if outside:
            return self._extrapolate(window, outside, began)

        memory = None
        if previous is not None and previous.names == window.names and isinstance(previous.internal, _Memory):
            memory = previous.internal
        visible = self._states(window, order[: len(order) - len(missing)], frame)
        if len(missing):
            done = self._complete(window, order, missing, frame, visible, memory)
        else:
            odds = self._believe(edge_log_odds(self.nri, visible, self.step_variance), window, order, memory)
            nothing = visible[:, :0]
            done = _Completion(
                nothing,
                odds,
                0,
                0.0,
                nothing.new_zeros(1, len(window.times), 0),
                nothing.new_zeros(1, len(window.times), 0, 0),
            )
        states = torch.cat([visible, done.hidden], 1)
        graph = graph_of(done.log_odds)
        ahead = self.nri.forecast(states[:, :, -1], graph, self.bundle.config.horizon)
        return self._answer(window, order, missing, frame, states, ahead, graph, done, began)

    # what the bundle was made for

    def _unfit(self, window: Window) -> str:
        config = self.bundle.config
        agents, throughout = len(window.names), int(window.observed.all(1).sum())
        gone = int((~window.observed[:, -1]).sum())
        low, high = config.ranges.agents
        if not low <= agents <= high:
            return f"{agents} agents, the bundle knows {low}" + (f" to {high}" if high > low else "")
        if len(window.times) != config.window or abs(window.dt - config.dt) > 1e-3 * config.dt:
            given, known = f"{len(window.times)} frames of {window.dt:.4g} s", f"{config.window} of {config.dt:.4g} s"
            return f"a window of {given}, the bundle knows {known}"
        if gone > config.max_hidden:
            return f"{gone} agents hidden, the bundle knows up to {config.max_hidden}"
        if throughout < FEWEST_SEEN:
            return f"only {throughout} agents seen in the whole window"
        if int((~window.observed.any(1)).sum()) not in (0, *self.refinements):
            return "more agents absent from the window than the bundle knows"
        return ""

    def _outside(self, seen: Tensor, frame: TeamFrame) -> str:
        ranges = self.bundle.config.ranges
        positions = seen - frame.at(torch.arange(1 - seen.shape[1], 1, device=self.device))
        extent = float(positions.norm(dim=-1).max())
        speed = float(backward_velocity(positions, frame.dt).norm(dim=-1).max())
        if extent > ranges.extent:
            return f"an agent is {extent:.1f} m from the team's centre, training saw up to {ranges.extent:.1f} m"
        if speed > ranges.speed:
            return f"an agent moves at {speed:.1f} m/s within the team, training saw up to {ranges.speed:.1f} m/s"
        return ""

    def _extrapolate(self, window: Window, why: str, began: float) -> Estimate:
        estimate = self.fallback.estimate(window)
        estimate.reason = ["" if seen else f"extrapolated: {why}" for seen in window.observed[:, -1]]
        self._deviate(estimate, window, ["constant_velocity"] * len(window.names))
        estimate.ms = (time.perf_counter() - began) * 1e3
        return estimate

    # completion

    def _complete(
        self,
        window: Window,
        order: NDArray[np.intp],
        missing: NDArray[np.intp],
        frame: TeamFrame,
        visible: Tensor,
        memory: _Memory | None,
    ) -> _Completion:
        """Trajectories of the agents ``missing`` in some frame, and the belief in every edge. Tensors are ordered
        visible first."""
        count, frames = len(missing), len(window.times)
        seen = self._states(window, missing, frame)
        start, known = self._start(window, missing, frame, seen, memory)
        fresh = memory is None or not known.all()
        refinement = self.refinements.get(count)

        def believe(hidden: Tensor) -> Tensor:
            return self._believe(
                edge_log_odds(self.nri, torch.cat([visible, hidden], 1), self.step_variance), window, order, memory
            )

        if not known.any():
            return self._guess(window, order, missing, frame, visible, memory)
        odds = believe(start) if memory is None else self._tensor(memory.log_odds[np.ix_(order, order)])[None]
        if refinement is None:  # more gaps than HSP knows agents: the dynamics alone
            guess, variance = start, torch.full_like(self.step_variance, torch.inf)
        else:
            if not known.all():
                first = refinement.hsp_sa(visible)
                start = torch.where(
                    self._tensor(known).bool()[None, :, None, None], start, take_slots(first, align(first, start))
                )
            guess = refinement.hsp_sg(visible, torch.sigmoid(odds))
            guess, variance = take_slots(guess, align(guess, start)), self.guess_variance[count] * frames
        arrival, information = self._arrival(window, missing, frame, start, memory)
        velocity_copied = seen.clone()
        velocity_copied[:, :, 0, self.dims :] = torch.nan
        evidence = Evidence(
            seen=velocity_copied,
            guess=guess,
            guess_variance=variance.expand(1, count, frames, -1),
            arrival=arrival,
            arrival_information=information,
            step_variance=self.step_variance,
        )
        hidden, change = start, 0.0
        rounds = self.evidence_rounds if fresh else 1
        for _ in range(rounds):
            smoothed = smooth(self.nri.decoder, visible, hidden, graph_of(odds), evidence, iterations=2 if fresh else 1)
            change = float((smoothed.hidden - hidden)[..., : self.dims].abs().max()) * self.scale.position
            hidden = torch.where(seen.isfinite(), seen, smoothed.hidden)
            odds = believe(hidden)
        return _Completion(hidden, odds, rounds, change, smoothed.filtered, smoothed.filtered_information)

    def _guess(
        self,
        window: Window,
        order: NDArray[np.intp],
        missing: NDArray[np.intp],
        frame: TeamFrame,
        visible: Tensor,
        memory: _Memory | None,
    ) -> _Completion:
        """Agents of which nothing was ever seen: the paper's refinement, its slots named by continuity with what was
        last said or seen."""
        refined = self.refinements[len(missing)](visible)
        last = window.last_position[missing].copy()
        if memory is not None:
            for row, agent in enumerate(missing):
                if window.names[agent] in memory.guessed:
                    last[row] = memory.guessed[window.names[agent]]
        newest = refined.hidden[0, :, -1, : self.dims] * self.scale.position + frame.origin
        distance = np.linalg.norm(last[:, None] - newest.cpu().double().numpy()[None], axis=-1)
        slots = linear_sum_assignment(np.nan_to_num(distance))[1]
        nodes = np.concatenate([np.arange(len(order) - len(missing)), len(order) - len(missing) + slots])
        odds = refined.graph[:, nodes][:, :, nodes]
        odds = odds[..., GUIDING_TYPE].clamp_min(1e-6).log() - odds[..., 0].clamp_min(1e-6).log()
        nothing = visible[:, :0]
        return _Completion(
            refined.hidden[:, slots],
            self._believe(odds, window, order, memory),
            refined.rounds,
            refined.change,
            nothing.new_zeros(1, len(window.times), 0),
            nothing.new_zeros(1, len(window.times), 0, 0),
        )

    def _start(
        self, window: Window, missing: NDArray[np.intp], frame: TeamFrame, seen: Tensor, memory: _Memory | None
    ) -> tuple[Tensor, NDArray[np.bool_]]:
        """A first trajectory ``[1, n, T, 2 P]``: what was seen, else what was said before, continued at constant
        velocity. known ``[n]``: whether there was any of it (zeros where not)."""
        states = seen[0].cpu().double().numpy()
        if memory is not None:
            for row, agent in enumerate(missing):
                if window.names[agent] in memory.names:
                    told = memory.states[memory.names.index(window.names[agent])]
                    within = (window.times >= memory.times[0]) & (window.times <= memory.times[-1])
                    past = np.stack([np.interp(window.times, memory.times, column) for column in told.T], -1)
                    past = self._normalise(past, window, frame)
                    gap = np.isnan(states[row]) & within[:, None]
                    states[row] = np.where(gap, past, states[row])
        known = np.isfinite(states[..., 0]).any(1)
        return self._tensor(fill_gaps(states, window.dt * self.scale.velocity / self.scale.position))[None], known

    def _arrival(
        self, window: Window, missing: NDArray[np.intp], frame: TeamFrame, start: Tensor, memory: _Memory | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """What the memory knows of the first frame: mean ``[1, n 2 P]`` and information, between its two frames around
        that time."""
        if memory is None or not memory.names or not memory.times[0] <= window.times[0] < memory.times[-1]:
            return None, None
        after = int(np.searchsorted(memory.times, window.times[0], "right"))
        share = (window.times[0] - memory.times[after - 1]) / (memory.times[after] - memory.times[after - 1])
        there = [row for row, agent in enumerate(missing) if window.names[agent] in memory.names]
        here = [memory.names.index(window.names[missing[row]]) for row in there]
        size, features = len(missing), 2 * self.dims
        information = np.zeros((size, features, size, features))
        weighted = np.zeros((size, features))
        unit = self.unit.cpu().double().numpy()
        for index, weight in ((after - 1, 1 - share), (after, share)):
            ahead = window.times[0] - memory.times[index]
            mean = memory.mean[index].copy()
            mean[:, : self.dims] += ahead * mean[:, self.dims :]
            mean = self._normalise(mean[:, None], window, frame, first_only=True)[:, 0]
            # agents that the window does not miss any more are left out by marginalising over them
            full = memory.information[index].reshape(len(memory.names) * features, -1)
            covariance = np.linalg.inv(full + 1e-9 * np.eye(len(full))).reshape(memory.information[index].shape)
            kept = np.linalg.inv(
                covariance[np.ix_(here, range(features), here, range(features))].reshape(len(here) * features, -1)
            )
            part = kept.reshape(len(here), features, len(here), features) * weight * unit[:, None, None] * unit
            information[np.ix_(there, range(features), there, range(features))] += part
            weighted[there] += np.einsum("afbg,bg->af", part, mean[here])
        flat = information.reshape(size * features, -1)
        mean = np.linalg.solve(flat + 1e-9 * np.eye(len(flat)), weighted.ravel())
        return self._tensor(mean)[None], torch.from_numpy(flat)[None].to(self.device)

    # belief in edges

    def _believe(self, odds: Tensor, window: Window, order: NDArray[np.intp], memory: _Memory | None) -> Tensor:
        """The belief so far, moved towards what this window says: slowly for pairs seen throughout, hardly for pairs
        that were not seen."""
        if memory is None:
            return odds
        share = window.observed.mean(1)[order]
        pair = np.minimum(share[:, None], share[None]) ** 2
        elapsed = max(0.0, float(window.times[-1]) - memory.time)
        weight = self._tensor(pair * (1 - np.exp(-elapsed / BELIEF_SECONDS)))
        before = self._tensor(memory.log_odds[np.ix_(order, order)])
        return before + weight * (odds - before)

    # metres and back

    def _tensor(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(self.device)

    def _states(self, window: Window, rows: NDArray[np.intp], frame: TeamFrame) -> Tensor:
        """Normalised states ``[1, n, T, 2 P]``, NaN where not observed (velocities also where the frame before was
        not)."""
        positions = self._tensor(window.positions[rows]) - frame.at(
            torch.arange(1 - len(window.times), 1, device=self.device)
        )
        if self.bundle.config.velocity == "measured":
            velocities = self._tensor(window.velocities[rows]) - frame.velocity
        else:
            velocities = backward_velocity(positions, window.dt)
        return self.scale.features(positions, velocities)[None]

    def _origin(self, window: Window, frame: TeamFrame, steps: NDArray[np.int64]) -> Array:
        """Origin of the frame and its velocity as a state ``[F, 2 P]`` (m, m/s) at steps from the newest frame."""
        origin = frame.at(torch.from_numpy(steps).to(self.device)).cpu().double().numpy()
        return np.concatenate([origin, np.broadcast_to(frame.velocity.cpu().double().numpy(), origin.shape)], -1)

    def _normalise(self, states: Array, window: Window, frame: TeamFrame, first_only: bool = False) -> Array:
        """States ``[..., T, 2 P]`` in metres of the stream to normalised ones in the frame; first_only: they are all of
        the first frame."""
        steps = np.arange(1 - len(window.times), 1)[: 1 if first_only else None]
        result: Array = (states - self._origin(window, frame, steps)) / self.unit.cpu().double().numpy()
        return result

    def _metres(self, states: Tensor, window: Window, frame: TeamFrame, steps: NDArray[np.int64]) -> Array:
        """Inverse of :meth:`_normalise` for tensors ``[..., F, 2 P]`` at steps from the newest frame."""
        result: Array = states.cpu().double().numpy() * self.unit.cpu().double().numpy() + self._origin(
            window, frame, steps
        )
        return result

    def _answer(
        self,
        window: Window,
        order: NDArray[np.intp],
        missing: NDArray[np.intp],
        frame: TeamFrame,
        states: Tensor,
        ahead: Tensor,
        graph: Tensor,
        done: _Completion,
        began: float,
    ) -> Estimate:
        back = np.argsort(order)
        past_steps, future_steps = np.arange(1 - len(window.times), 1), np.arange(1, ahead.shape[2] + 1)
        past = self._metres(states[0], window, frame, past_steps)
        future = self._metres(ahead[0], window, frame, future_steps)[back]
        features, unit = 2 * self.dims, self.unit.cpu().double().numpy()
        tracked = list(missing) if done.filtered.shape[-1] else []
        information = done.filtered_information[0].cpu().double().numpy()
        information = information.reshape(len(past_steps), len(tracked), features, len(tracked), features) / (
            unit[:, None, None] * unit
        )
        filtered = done.filtered[0].unflatten(-1, (len(tracked), features)).transpose(0, 1)
        memory = _Memory(
            time=float(window.times[-1]),
            log_odds=done.log_odds[0].cpu().double().numpy()[np.ix_(back, back)],
            names=[window.names[agent] for agent in tracked],
            times=window.times,
            states=past[len(order) - len(tracked) :],
            mean=self._metres(filtered, window, frame, past_steps).transpose(1, 0, 2),
            information=information,
            guessed={window.names[agent]: past[back[agent], -1, : self.dims] for agent in missing}
            if not tracked
            else {},
        )
        past = past[back]
        positions = np.where(window.observed[..., None], window.positions, past[..., : self.dims])
        agents, steps = len(order), len(future_steps)
        never_seen = ~np.isfinite(window.last_seen)
        estimate = Estimate(
            names=window.names,
            times=window.times,
            positions=positions,
            velocities=past[..., self.dims :],
            covariance=np.zeros((agents, len(past_steps), self.dims, self.dims)),
            position_95=np.zeros((agents, len(past_steps))),
            observed=window.observed,
            adjacency=graph[0].cpu().double().numpy()[np.ix_(back, back)],
            forecast=Forecast(
                times=window.times[-1] + future_steps * window.dt,
                positions=future[..., : self.dims],
                velocities=future[..., self.dims :],
                covariance=np.zeros((agents, steps, self.dims, self.dims)),
            ),
            rounds=done.rounds,
            change=done.change,
            ms=0.0,
            reason=["never seen: which agent is where is a guess" if never else "" for never in never_seen],
            internal=memory,
        )
        self._deviate(estimate, window, ["hsp" if never else "siha" for never in never_seen])
        estimate.ms = (time.perf_counter() - began) * 1e3
        return estimate

    def _deviate(self, estimate: Estimate, window: Window, tables: list[str]) -> None:
        """Deviations by time since loss, from the bundle's tables of measured errors."""
        errors = self.bundle.config.errors
        since = time_since_seen(window)
        width, radius = (np.empty_like(since) for _ in range(2))
        for table in set(tables):
            rows = [row for row, name in enumerate(tables) if name == table]
            width[rows], radius[rows] = errors[table].at(since[rows])
        width[window.observed], radius[window.observed] = OWN_FRAME_DEVIATION, 2.45 * OWN_FRAME_DEVIATION
        eye = np.eye(self.dims)
        estimate.covariance = width[..., None, None] ** 2 * eye
        estimate.position_95 = radius
        later, _ = errors["forecast"].at(estimate.forecast.times - window.times[-1])
        estimate.forecast.covariance = (width[:, -1:, None, None] ** 2 + later[None, :, None, None] ** 2) * eye


def fill_gaps(states: Array, step: float) -> Array:
    """States ``[n, T, 2 P]`` with NaN gaps, filled: linear within, held before the first, at constant velocity after
    the last known frame.

    step: what a velocity of 1 adds to a position in a frame. Rows that are NaN throughout become zero.
    """
    frames, dims = np.arange(states.shape[1]), states.shape[2] // 2
    filled = np.zeros_like(states)
    for row, state in enumerate(states):
        for column in range(2 * dims):
            known = np.isfinite(state[:, column])
            if known.any():
                filled[row, :, column] = np.interp(frames, frames[known], state[known, column])
        known = np.isfinite(state[:, 0])
        if known.any():
            last = frames[known][-1]
            filled[row, last + 1 :, :dims] += step * (frames[last + 1 :] - last)[:, None] * filled[row, last, dims:]
    return filled


def time_since_seen(window: Window) -> Array:
    """``[A, T]`` seconds to the nearest earlier sight of each agent, or to a later one where that is nearer; infinite
    where never seen."""
    stamps = np.where(window.observed, window.times, -np.inf)
    before = window.times - np.maximum.accumulate(stamps, 1)
    earlier = np.where(np.isfinite(window.last_seen)[:, None], window.times - window.last_seen[:, None], np.inf)
    before = np.where(np.isfinite(before), before, np.where(earlier >= 0, earlier, np.inf))
    later = np.minimum.accumulate(np.where(window.observed, window.times, np.inf)[:, ::-1], 1)[:, ::-1] - window.times
    since: Array = np.minimum(before, later)
    return since


def _made_up_window(agents: int, frames: int, dims: int, dt: float, hidden: int, lost_at: int) -> Window:
    """A circle of slowly turning agents of which the last ``hidden`` are lost at a frame."""
    times: Array = np.arange(frames) * np.float64(dt)
    angle = np.linspace(0, 2 * np.pi, agents, endpoint=False)[:, None] + 0.1 * times
    positions = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)][:dims], -1)
    observed = np.ones((agents, frames), dtype=bool)
    observed[agents - hidden :, lost_at:] = False
    positions[~observed] = np.nan
    last = np.full(agents, times[-1])
    last[agents - hidden :] = times[lost_at - 1] if lost_at else np.nan
    return Window(
        names=[f"agent_{index}" for index in range(agents)],
        times=times,
        positions=positions,
        velocities=np.full_like(positions, np.nan),
        observed=observed,
        confidence=observed.astype(np.float32),
        status=np.where(observed[:, -1], Status.VISIBLE, Status.HIDDEN).astype(np.int8),
        reason=[""] * agents,
        last_seen=last,
        last_position=np.full((agents, dims), np.nan),
        last_velocity=np.full((agents, dims), np.nan),
    )
