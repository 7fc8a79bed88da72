"""A window in, an estimate in metres out: the one seam that the live node, recorded bags and training tables run
through.

:func:`load_estimator` opens a bundle. :class:`TeamEstimator` is the estimator of like agents (robots of a team); bodies
have theirs in :mod:`siha_ros.body_estimator`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from siha_ros.baselines import ConstantVelocity
from siha_ros.foretold import Foretold, kept, missed
from siha_ros.model.bundle import Bundle, BundleError, ErrorTable, by_number, load_bundle
from siha_ros.model.captured import Captured
from siha_ros.model.denoise import THIRD, Noise, roughness
from siha_ros.model.dynamics import FAINT, SEEN_DEVIATION, Evidence, edge_log_odds, graph_of, smooth
from siha_ros.model.explain import EXPLAINED, explain, step_residual
from siha_ros.model.frame import TeamFrame, still_frame, team_frame
from siha_ros.model.hidden_state import align, take_slots
from siha_ros.model.mix import MOVING, OWN, between_numbers, mixed, mixes_of
from siha_ros.model.quick import quick_nri, quick_predictor
from siha_ros.model.refinement import GUIDING_TYPE, Refined, Refinement
from siha_ros.model.team_linear import TeamLinear
from siha_ros.model.total import Total, follow
from siha_ros.resources import bundle_path
from siha_ros.straight_line import straight_line_errors
from siha_ros.window.completion import only_seen
from siha_ros.window.grid import STAMP_TOLERANCE, backward_difference, between
from siha_ros.window.types import Estimate, Forecast, Status, Window

Array = NDArray[np.float64]

FEWEST_SEEN = 3  # agents seen throughout that a frame can be fitted to
BELIEF_SECONDS = 2.0  # time constant of the running belief in an edge whose agents are both seen
OTHER_STREAM = 0.5  # m between two estimates of agents seen in both, by which they cannot be of the same stream
UNEXPLAINED = "nothing within the world explains the others"
BELIEVABLE = 2.0  # how much farther than training saw a reconstruction may be, before it is not believed
SEARCH_SECONDS = 0.3  # between two searches for trajectories of never seen agents that explain the others
GIVEN_UP = 2 * EXPLAINED  # residual of such trajectories at which they are given up
SIHA, HSP = "siha", "hsp"  # error tables by seconds since loss, and of agents that were never seen; of the latter
SOLVED = "solved"  # where their trajectories explain the others
STRAIGHT = "constant_velocity"  # error table of what the bundle was not made for, and of agents that are bridged
FORECAST, FORECAST_LOST = "forecast", "forecast_lost"  # error tables by seconds ahead, of agents seen and lost; with
# _1, _2 at the end where that many are lost, _hsp or _solved where some were never seen
NOISY = "noise"  # error table by the deviation of noise (m) in place of seconds, in units of the predicted deviation;
# it too by the number of agents lost
NOISE_AGE = "noise_age"  # what of that is had by the time since the loss (s), as a factor; by the number lost likewise
RADIUS = {1: 1.96, 2: 2.45, 3: 2.80}  # of 95 % in so many dimensions, in deviations
STEP_CAUTION = 200.0  # the decoder's errors hang together for long: beside the sum of all it is so much less sure
NOISE_CAUTION = 4.0  # times the variance that smoothing says it leaves: its errors hang together as well
PUSHED = 100.0  # times the usual roughness, of an agent that is moved by something else than the others
SURPRISING = 4.0  # of the linear path: mean squared error over variance, of which 64 validation runs had 3.3 at most
MISSED = 3.0  # of forecasts of the last seconds: squared error over stated variance, the median of the agents seen ...
MISSED_ALONE = 12.0  # ... and of one of them (docs/method.md)
HELD = 5.0  # s in which it is forgotten that forecasts have missed
GONE_SECONDS = 1.0  # in which the number of lost agents is followed: some are away for a moment alone
VELOCITY_SECONDS = 0.1  # that a last velocity is taken from
NEWS = 1e-3  # share of a variance that what was seen must take away to be told from rounding
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
    guessed: newest positions of agents that were never seen; placed: those first placed by what the others do, and not
    seen since; solved: those of them whose trajectories explain the others; searched: when such were last looked for in
    vain; searches: how often in a row. track ``[A, n, P]``: positions at track_times ``[n]``, NaN where not observed:
    the window's, and those of a little before it. total: of all agents, from the frames in which they were last all
    seen. surprise: of the linear path, in the last window that shows something of the lost agents. foretold: forecasts
    of the last seconds; missed: by how much they did (variance), forgotten within HELD. gone: number of agents lost, of
    which changes are followed within GONE_SECONDS while some are."""

    time: float
    log_odds: Array
    names: list[str]
    times: Array
    states: Array
    mean: Array
    information: Array
    guessed: dict[str, Array]
    placed: frozenset[str]
    solved: frozenset[str]
    searched: float
    searches: int
    track_times: Array
    track: Array
    total: Total | None
    surprise: float
    foretold: tuple[Foretold, ...]
    missed: float
    gone: float


@dataclass
class _Completion:
    """hidden ``[1, n, T, 2 P]`` normalised; log_odds ``[1, A, A]``; filtered and filtered_information as in
    :class:`Smoothed`; guessed ``[n]``: of whom nothing but the others is known. explained: whether the dynamics found
    hidden trajectories within the world that training knew; if not, these are continued at constant velocity. spread
    ``[n, T]``: deviation (m) per axis that the smoother predicts, NaN where it says nothing. solved, searched and
    searches are as in :class:`_Memory`, solved for all of them; surprise and least as in :class:`_Linear`."""

    hidden: Tensor
    log_odds: Tensor
    rounds: int
    change: float
    filtered: Tensor
    filtered_information: Tensor
    guessed: NDArray[np.bool_]
    spread: Array
    explained: bool = True
    solved: bool = False
    searched: float = -np.inf
    searches: int = 0
    total: Total | None = None
    surprise: float = 1.0
    least: Array | None = None


@dataclass
class _Linear:
    """The linear path of the agents that are missing in some frame, normalised ``[1, n, T, 2 P]``: states and their
    variance; news: the information in the frames in which they were seen, beside what the others and the sum say;
    surprise: as of :class:`siha_ros.model.team_linear.Completed`; least ``[n, T]``: deviation (m) per axis to state at
    least, 0 where the team moves as its bundle's data."""

    states: Tensor
    variance: Tensor
    news: Tensor
    surprise: float
    least: Array


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
        self.unit: Array = np.repeat(np.array([config.scale.position, config.scale.velocity]), config.dims)
        ranges = config.ranges
        self.reach: Array = np.repeat(np.array([ranges.extent, ranges.speed]), config.dims) / self.unit
        counts = [count for count in range(1, config.max_hidden + 1) if f"hsp_sa_{count}" in bundle.networks]
        _check(bundle, counts)
        noise = {name: tensor.to(device) for name, tensor in bundle.arrays["noise"].items()}
        self.step_variance = noise["step_variance"]
        self.total_noise = noise["total"].tolist() if "total" in noise else None  # m^2, m^2/s^3
        self.caution = STEP_CAUTION if "total" in noise else 1.0  # a bundle without has tables of spreads without
        self.radius = RADIUS[self.dims]
        self.linear = TeamLinear(noise["kernel"].cpu().double().numpy()) if "kernel" in noise else None
        self.usual_roughness = float(noise["roughness"]) if "roughness" in noise else None  # m^2
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
        self.loops = {
            count: Captured(partial(refinement.loop, names=None, tolerance=0.0, stop_early=False))
            for count, refinement in self.refinements.items()
        }
        self.fallback = ConstantVelocity(horizon=config.horizon)
        self.mix = mixes_of(bundle)

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
        memory = _recall(window, previous)
        unbridged = only_seen(window)
        if int((~unbridged.observed[:, -1]).sum()) <= self.bundle.config.max_hidden:  # else the whole stream hiccuped
            window = unbridged
        window = _without_spikes(window, self.bundle.config.ranges.speed)
        measured, noise = window, self._noise(window)
        unfit = self._unfit(window)
        if unfit:
            return self._extrapolate(window, unfit, noise, memory, began)
        throughout = window.observed.all(1)
        order = np.concatenate([np.flatnonzero(throughout), np.flatnonzero(~throughout)])
        missing = order[throughout.sum() :]
        if noise is not None:
            window = replace(window, positions=noise.smooth(window.positions, window.observed))
        seen = self._exact(window.positions[throughout])
        frame = team_frame(seen, window.dt) if self.bundle.config.frame == "team" else still_frame(seen, window.dt)
        outside = self._outside(window, frame)
        if outside:
            return self._extrapolate(measured, outside, noise, memory, began)

        visible = self._states(window, order[: len(order) - len(missing)], frame)
        if len(missing):
            done = self._complete(window, measured, noise, order, missing, frame, visible, memory)
            if not self._believable(done.hidden):
                return self._extrapolate(measured, UNEXPLAINED, noise, memory, began)
        else:
            odds = self._believe(edge_log_odds(self.nri, visible, self._steps(noise)), window, order, memory)
            nothing = visible[:, :0]
            done = _Completion(
                nothing,
                odds,
                0,
                0.0,
                nothing.new_zeros(1, len(window.times), 0),
                nothing.new_zeros(1, len(window.times), 0, 0),
                np.zeros(0, dtype=bool),
                np.zeros((0, len(window.times))),
            )
        states = torch.cat([visible, done.hidden], 1)
        graph = graph_of(done.log_odds)
        ahead = self.nri.forecast(states[:, :, -1], graph, self.bundle.config.horizon)
        return self._answer(measured, noise, order, missing, frame, states, ahead, graph, done, memory, began)

    # noise

    def _noise(self, window: Window) -> Noise | None:
        """What positions of the window have beyond what those of validation data have; None where that is nothing."""
        if self.usual_roughness is None or self.bundle.config.velocity == "measured":
            return None
        noise = Noise.of(np.where(window.observed[..., None], window.positions, np.nan), self.usual_roughness)
        return noise if noise.variance > 0 else None

    def _steps(self, noise: Noise | None) -> Tensor:
        """Variances of a step of the decoder of agents that are seen ``[2 P]``, normalised."""
        if noise is None:
            return self.step_variance
        config = self.bundle.config
        left = NOISE_CAUTION * noise.of_steps(config.window)
        own = np.repeat([left, left / config.dt**2], self.dims) / self.unit**2
        return self.step_variance + self._tensor(own)

    # what the bundle was made for

    def _believable(self, hidden: Tensor) -> bool:
        farthest = float(hidden[..., : self.dims].norm(dim=-1).max()) * self.scale.position
        return farthest <= BELIEVABLE * self.bundle.config.ranges.extent

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
            return "agents absent from the window in a number that the bundle does not know"
        if config.velocity == "measured" and not np.isfinite(window.velocities[window.observed]).all():
            return "velocities are not measured, and the bundle needs them"
        return ""

    def _outside(self, window: Window, frame: TeamFrame) -> str:
        ranges = self.bundle.config.ranges
        positions = self._exact(window.positions) - self._origins(window, frame)
        extent = float(positions.norm(dim=-1).nan_to_num().max())
        speed = float(backward_difference(positions, frame.dt).norm(dim=-1).nan_to_num().max())
        if extent > ranges.extent:
            return f"an agent is {extent:.1f} m from the team's centre, training saw up to {ranges.extent:.1f} m"
        if speed > ranges.speed:
            return f"an agent moves at {speed:.1f} m/s within the team, training saw up to {ranges.speed:.1f} m/s"
        return ""

    def _extrapolate(
        self, window: Window, why: str, noise: Noise | None, memory: _Memory | None, began: float
    ) -> Estimate:
        estimate = self.fallback.estimate(window)
        estimate.internal = memory  # for the time when the window is one of the bundle's again
        estimate.reason = [f"extrapolated: {why}"] * len(window.names)
        self._deviate(estimate, window, [STRAIGHT] * len(window.names), noise)
        estimate.ms = (time.perf_counter() - began) * 1e3
        return estimate

    # completion

    def _complete(
        self,
        window: Window,
        measured: Window,
        noise: Noise | None,
        order: NDArray[np.intp],
        missing: NDArray[np.intp],
        frame: TeamFrame,
        visible: Tensor,
        memory: _Memory | None,
    ) -> _Completion:
        """Trajectories of the agents ``missing`` in some frame, and the belief in every edge. Tensors are ordered
        visible first. measured: the window before its ``noise`` was smoothed."""
        count, frames, seen_throughout = len(missing), len(window.times), visible.shape[1]
        step_variance = self._steps(noise)
        seen = self._states(window, missing, frame)
        start, known = self._start(window, missing, frame, seen, memory)
        fresh = memory is None or not known.all()
        refinement = self.refinements.get(count)

        def believe(hidden: Tensor, steps: Tensor | None = None) -> Tensor:
            states = torch.cat([visible, hidden], 1)
            return self._believe(edge_log_odds(self.nri, states, step_variance, steps), window, order, memory)

        if not known.any():
            return self._guess(window, step_variance, order, missing, frame, visible, memory)
        total = self._total(measured, noise, memory)
        linear = None if total is None else self._linear(measured, noise, missing, frame, total)
        if memory is None and linear is not None:
            start = torch.where(seen.isfinite(), start, linear.states)
            gaps = linear.variance.masked_fill(seen.isfinite(), 0) / step_variance
            clear = 1 / (1 + gaps.amax((0, 1, 3)))
            odds = believe(start, torch.minimum(clear[1:-1], clear[2:]))
        elif memory is None:  # the steps between frames in which all are seen: what fills the gaps knows no springs
            complete = np.asarray(window.observed.all(axis=0))
            odds = believe(start, self._tensor(complete[1:-1] & complete[2:]))
        else:
            odds = self._tensor(memory.log_odds[np.ix_(order, order)])[None]
        unknown = int((~known).sum())
        guess, variance = torch.zeros_like(start), self._tensor(self.reach**2 * frames).repeat(count, 1)
        if unknown:  # the paper's first guess; of more gaps than it knows agents, it takes the known ones as seen
            absent = count if refinement is not None else unknown
            context = visible if refinement is not None else torch.cat([visible, start[:, known]], 1)
            first = self.refinements[absent].hsp_sa(context)
            if refinement is not None:
                first = take_slots(first, align(first, start))[:, ~known]
            start = start.clone()
            start[:, ~known] = guess[:, ~known] = first
            variance[self._tensor(~known).bool()] = self.guess_variance[absent] * frames
        if refinement is not None:
            guess = refinement.hsp_sg(visible, torch.sigmoid(odds))
            guess = take_slots(guess, align(guess, start))
            variance = (self.guess_variance[count] * frames).expand(count, -1)
        trust = (1 / variance[None, :, None]).expand(1, count, frames, -1)
        if linear is not None:
            guess = (trust * guess + linear.news * linear.states) / (trust + linear.news)
            trust = trust + linear.news
        arrival, information = self._arrival(window, missing, frame, start, memory)
        moving, shown = visible.clone(), seen.clone() if noise is None else self._states(measured, missing, frame)
        own, unsure = self._first_velocities(window, order, frame, memory), 0.0
        shown[0, :, 0, self.dims :] = own[seen_throughout:]
        own = own[:seen_throughout]
        if noise is not None:  # velocities have the same noise, which would be taken for another
            shown[..., self.dims :] = torch.nan
            own, unsure = torch.full_like(own, torch.nan), noise.variance / self.scale.position**2
        first_step = bool(own.isfinite().all())
        if first_step:
            moving[0, :, 0, self.dims :] = own
        together = self._together(window, frame, moving, first_step, total)
        evidence = Evidence(
            seen=shown,
            guess=guess,
            guess_variance=self.caution / trust,
            arrival=arrival,
            arrival_information=information,
            step_variance=self.caution * self.step_variance,
            first_step=first_step,
            visible_variance=step_variance + (self.caution - 1) * self.step_variance,
            seen_variance=self.caution * SEEN_DEVIATION**2 + unsure,
            total=together,
        )
        hidden, change, explained = start, 0.0, True
        filtered = start.transpose(1, 2).flatten(2)
        certainty = filtered.new_zeros(*filtered.shape, filtered.shape[-1])
        spread: Array = np.full((count, frames), np.nan)
        rounds = self.evidence_rounds if fresh else 1
        for _ in range(rounds):
            smoothed = smooth(self.nri.decoder, moving, hidden, graph_of(odds), evidence, iterations=2 if fresh else 1)
            explained = self._believable(smoothed.hidden)
            if not explained:  # linearised too far from the truth: what was said before goes on
                break
            change = float((smoothed.hidden - hidden)[..., : self.dims].abs().max()) * self.scale.position
            hidden = torch.where(shown.isfinite(), shown, smoothed.hidden) if noise is None else smoothed.hidden
            filtered, certainty = smoothed.filtered, smoothed.filtered_information
            spread = self._spread(smoothed.covariance)
            odds = believe(hidden)
            solved = memory is not None and all(window.names[agent] in memory.solved for agent in missing)
            if (
                solved
                and not shown.isfinite().any()
                and (float(step_residual(self.nri, moving, hidden, odds, step_variance)) > GIVEN_UP)
            ):
                return self._guess(window, step_variance, order, missing, frame, visible, memory)
        done = _Completion(hidden, odds, rounds, change, filtered, certainty, ~known, spread, explained, total=total)
        if linear is not None:
            done.surprise, done.least = linear.surprise, linear.least
        elif memory is not None:
            done.surprise = memory.surprise
        return done

    def _linear(
        self, window: Window, noise: Noise | None, missing: NDArray[np.intp], frame: TeamFrame, total: Total
    ) -> _Linear | None:
        """None where the bundle has none, or nothing was seen of these agents in the window."""
        if self.linear is None or not window.observed[missing].any():
            return None
        throughout, measured = window.observed.all(1), self.bundle.config.velocity == "measured"
        positions = (self._exact(window.positions) - self._origins(window, frame)).cpu().numpy()
        variance = self.linear.noise(positions[throughout])
        found = self.linear.complete(positions, window.observed, variance, total, window.dt)
        if measured:
            velocities = CubicSpline(window.times, found.positions, axis=1)(window.times, 1)
        else:
            velocities = backward_difference(torch.from_numpy(found.positions), window.dt).numpy()
        states = np.concatenate([found.positions, velocities], -1) / self.unit

        unit = self.unit[:: self.dims] * [1, window.dt]
        scaled, unseen = (
            np.repeat(max(1.0, found.surprise) * part / unit**2, self.dims, -1) + FAINT**2
            for part in (found.variance, found.unseen)
        )
        left = 1 - scaled / unseen
        news = np.where(left > NEWS, left / scaled, 0.0)
        news[:, :: 1 if measured else len(window.times), self.dims :] = 0  # a velocity there is no difference of two
        tensors = [self._tensor(part)[None] for part in (states, scaled, news)]
        known = max(OWN_FRAME_DEVIATION**2, 0.0 if noise is None else noise.variance)
        other = max(found.surprise, variance / known) > SURPRISING
        least = np.sqrt(max(1.0, found.surprise) * found.variance[..., 0]) * other
        return _Linear(tensors[0], tensors[1], tensors[2], found.surprise, least)

    def _total(self, window: Window, noise: Noise | None, memory: _Memory | None) -> Total | None:
        """The sum of all agents, by the frames in which all are seen. None where something else than they has acted
        on those that are seen in the whole window."""
        if self.total_noise is None:
            return None
        if self.usual_roughness is not None:
            usual = self.usual_roughness + (0.0 if noise is None else THIRD * noise.variance)
            if (roughness(window.positions[window.observed.all(1)][:, None]) > PUSHED * usual).any():
                return None
        variance, drift = self.total_noise
        if noise is not None:
            variance = max(variance, len(window.names) * noise.variance)
        complete = window.observed.all(0)
        sums = window.positions[:, complete].sum(0)
        return follow(None if memory is None else memory.total, window.times[complete], sums, variance, drift)

    def _together(
        self, window: Window, frame: TeamFrame, visible: Tensor, first_step: bool, total: Total | None
    ) -> tuple[Tensor, Tensor] | None:
        """Where the agents that are missing in some frame are together, ``[1, T, 2 P]`` and its variance, normalised:
        what the visible ones leave of the sum of all, in frames after the last one in which all are seen. None where
        there are no such frames, or the sum is not known."""
        if total is None or total.time >= window.times[-1] - STAMP_TOLERANCE:
            return None
        after = window.times > total.time + STAMP_TOLERANCE
        sums = np.zeros((len(window.times), 2 * self.dims))
        variance = np.full_like(sums, np.inf)
        for step in np.flatnonzero(after):
            then = total.at(float(window.times[step]))
            sums[step] = then.state.ravel()
            variance[step] = np.repeat(then.covariance.diagonal(), self.dims)
        agents, steps = len(window.names), np.arange(1 - len(window.times), 1)
        sums = (sums - agents * self._origin(window, frame, steps)) / self.unit
        seen = np.repeat([total.variance, 2 * total.variance / window.dt**2], self.dims)  # velocities: differences
        variance = (after.sum() * variance + seen) / self.unit**2  # the error of the sum is one in all frames
        if not first_step:  # the first velocities are those of the second frame
            variance[0, self.dims :] = np.inf
        return self._tensor(sums)[None] - visible.sum(1), self._tensor(variance)[None]

    def _spread(self, covariance: Tensor) -> Array:
        """Deviations per axis ``[n, T]`` (m) from the smoother's covariance ``[1, T, n 2 P, n 2 P]``."""
        variances = covariance[0].diagonal(dim1=-2, dim2=-1).unflatten(-1, (-1, 2 * self.dims))[..., : self.dims]
        result: Array = variances.mean(-1).clamp_min(0).sqrt().T.cpu().double().numpy() * self.scale.position
        return result

    def _guess(
        self,
        window: Window,
        step_variance: Tensor,
        order: NDArray[np.intp],
        missing: NDArray[np.intp],
        frame: TeamFrame,
        visible: Tensor,
        memory: _Memory | None,
    ) -> _Completion:
        """Agents of which nothing was ever seen: the paper's refinement, and trajectories that explain the others where
        such are found from it; slots are named by continuity with what was last said or seen."""
        count, now = len(missing), float(window.times[-1])
        refined = Refined.of(*self.loops[count](visible))
        found, searched, searches = None, -np.inf, 0
        if memory is not None:
            searched, searches = memory.searched, memory.searches
        if now - searched >= SEARCH_SECONDS:
            found = explain(
                self.refinements[count],
                visible,
                refined,
                self.guess_variance[count],
                step_variance,
                self._tensor(BELIEVABLE * self.reach),
                first_step=self.bundle.config.velocity == "measured",
                only=None if memory is None else searches,  # in turn: all take too long in a stream
            )
            if float(found.residual) > EXPLAINED:
                found, searched, searches = None, now, searches + 1
        last = window.last_position[missing].copy()
        if memory is not None:
            for row, agent in enumerate(missing):
                if window.names[agent] in memory.guessed:
                    last[row] = memory.guessed[window.names[agent]]
        hidden = refined.hidden if found is None else found.smoothed.hidden
        newest = hidden[0, :, -1, : self.dims] * self.scale.position + frame.origin
        distance = np.linalg.norm(last[:, None] - newest.cpu().double().numpy()[None], axis=-1)
        slots = linear_sum_assignment(np.nan_to_num(distance))[1]
        nodes = np.concatenate([np.arange(len(order) - count), len(order) - count + slots])
        if found is None:
            odds = refined.graph[..., GUIDING_TYPE].clamp_min(1e-6).log() - refined.graph[..., 0].clamp_min(1e-6).log()
            filtered = hidden.new_zeros(1, len(window.times), 0)
            certainty = hidden.new_zeros(1, len(window.times), 0, 0)
            spread: Array = np.full((count, len(window.times)), np.nan)
        else:
            odds = found.log_odds
            columns = (slots[:, None] * 2 * self.dims + np.arange(2 * self.dims)).ravel()
            filtered = found.smoothed.filtered[..., columns]
            certainty = found.smoothed.filtered_information[..., columns, :][..., columns] / self.caution
            spread = self._spread(self.caution * found.smoothed.covariance)[slots]
        odds = odds[:, nodes][:, :, nodes]
        believed = self._believe(odds, window, order, memory)
        if found is not None:  # what was believed of their edges before was a guess
            believed[:, -count:], believed[:, :, -count:] = odds[:, -count:], odds[:, :, -count:]
        return _Completion(
            hidden[:, slots],
            believed,
            refined.rounds,
            float(refined.moved[..., : self.dims].abs().max()) * self.scale.position,
            filtered,
            certainty,
            np.ones(count, dtype=bool),
            spread,
            solved=found is not None,
            searched=searched,
            searches=searches,
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
                    within = (window.times >= memory.times[0] - STAMP_TOLERANCE) & (
                        window.times <= memory.times[-1] + STAMP_TOLERANCE
                    )
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
        if memory is None or not memory.times[0] - STAMP_TOLERANCE <= window.times[0] < memory.times[-1]:
            return None, None
        there = [row for row, agent in enumerate(missing) if window.names[agent] in memory.names]
        if not there:
            return None, None
        after = max(1, int(np.searchsorted(memory.times, window.times[0], "right")))
        share = (window.times[0] - memory.times[after - 1]) / (memory.times[after] - memory.times[after - 1])
        here = [memory.names.index(window.names[missing[row]]) for row in there]
        size, features = len(missing), 2 * self.dims
        information = np.zeros((size, features, size, features))
        for index, weight in ((after - 1, 1 - share), (after, share)):
            # agents that the window does not miss any more are left out by marginalising over them
            full = memory.information[index].reshape(len(memory.names) * features, -1)
            covariance = np.linalg.inv(full + FAINT * np.eye(len(full))).reshape(memory.information[index].shape)
            kept = np.linalg.inv(
                covariance[np.ix_(here, range(features), here, range(features))].reshape(len(here) * features, -1)
            )
            kept = kept.reshape(len(here), features, len(here), features) * self.unit[:, None, None] * self.unit
            information[np.ix_(there, range(features), there, range(features))] += weight * kept
        states = memory.states[here]  # a smooth curve, from which the filter's means differ by little
        off = [memory.mean[index][here] - states[:, index] for index in (after - 1, after)]
        mean = between(memory.times, states, window.times[0]) + (1 - share) * off[0] + share * off[1]
        start = start[0, :, 0].clone()
        start[there] = self._tensor(self._normalise(mean[:, None], window, frame, first_only=True)[:, 0])
        flat = torch.from_numpy(information.reshape(size * features, -1))
        return start.flatten()[None], flat[None].to(self.device)

    def _first_velocities(
        self, window: Window, order: NDArray[np.intp], frame: TeamFrame, memory: _Memory | None
    ) -> Tensor:
        """Normalised velocities ``[A, P]`` in the first frame, by where the agents were a step before it; NaN where
        that is not known."""
        if self.bundle.config.velocity == "measured":
            return self._states(window, order, frame)[0, :, 0, self.dims :]
        before = window.times[0] - window.dt
        if memory is None or not memory.track_times[0] - STAMP_TOLERANCE <= before <= memory.track_times[-1]:
            return torch.full((len(order), self.dims), torch.nan, device=self.device)
        rows = memory.track[order].transpose(0, 2, 1).reshape(-1, len(memory.track_times))
        positions = np.reshape([np.interp(before, memory.track_times, row) for row in rows], (len(order), self.dims))
        velocities = (window.positions[order, 0] - positions) / window.dt - frame.velocity.cpu().numpy()
        return self._tensor(velocities / self.scale.velocity)

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

    def _exact(self, values: Array) -> Tensor:
        """Metres of the stream: float32 would round them to millimetres a few kilometres from its origin."""
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(self.device)

    def _origins(self, window: Window, frame: TeamFrame) -> Tensor:
        """Origin of the frame ``[T, P]`` (m) at the window's times."""
        return frame.at(torch.arange(1 - len(window.times), 1, device=self.device))

    def _states(self, window: Window, rows: NDArray[np.intp], frame: TeamFrame) -> Tensor:
        """Normalised states ``[1, n, T, 2 P]``, NaN where not observed (velocities also where the frame before was
        not)."""
        positions = self._exact(window.positions[rows]) - self._origins(window, frame)
        if self.bundle.config.velocity == "measured":
            velocities = self._exact(window.velocities[rows]) - frame.velocity
        else:
            velocities = backward_difference(positions, window.dt)
        return self.scale.features(positions, velocities).float()[None]

    def _origin(self, window: Window, frame: TeamFrame, steps: NDArray[np.int64]) -> Array:
        """Origin of the frame and its velocity as a state ``[F, 2 P]`` (m, m/s) at steps from the newest frame."""
        origin = frame.at(torch.from_numpy(steps).to(self.device)).cpu().numpy()
        return np.concatenate([origin, np.broadcast_to(frame.velocity.cpu().numpy(), origin.shape)], -1)

    def _normalise(self, states: Array, window: Window, frame: TeamFrame, first_only: bool = False) -> Array:
        """States ``[..., T, 2 P]`` in metres of the stream to normalised ones in the frame; first_only: they are all of
        the first frame."""
        steps = np.arange(1 - len(window.times), 1)[: 1 if first_only else None]
        result: Array = (states - self._origin(window, frame, steps)) / self.unit
        return result

    def _metres(self, states: Tensor, window: Window, frame: TeamFrame, steps: NDArray[np.int64]) -> Array:
        """Inverse of :meth:`_normalise` for tensors ``[..., F, 2 P]`` at steps from the newest frame."""
        result: Array = states.cpu().double().numpy() * self.unit + self._origin(window, frame, steps)
        return result

    def _answer(
        self,
        window: Window,
        noise: Noise | None,
        order: NDArray[np.intp],
        missing: NDArray[np.intp],
        frame: TeamFrame,
        states: Tensor,
        ahead: Tensor,
        graph: Tensor,
        done: _Completion,
        memory: _Memory | None,
        began: float,
    ) -> Estimate:
        back = np.argsort(order)
        past_steps, future_steps = np.arange(1 - len(window.times), 1), np.arange(1, ahead.shape[2] + 1)
        past = self._metres(states[0], window, frame, past_steps)
        future = self._metres(ahead[0], window, frame, future_steps)[back]
        features = 2 * self.dims
        tracked = list(missing) if done.filtered.shape[-1] else []
        information = done.filtered_information[0].cpu().double().numpy()
        information = information.reshape(len(past_steps), len(tracked), features, len(tracked), features) / (
            self.unit[:, None, None] * self.unit
        )
        filtered = done.filtered[0].unflatten(-1, (len(tracked), features)).transpose(0, 1)
        track_times, track = _track(window, memory)
        placed, solved = (frozenset(), frozenset()) if memory is None else (memory.placed, memory.solved)
        guessed = np.zeros(len(order), dtype=bool)
        still = [window.names[agent] in placed and not window.observed[agent].any() for agent in missing]
        guessed[missing] = done.guessed | np.array(still, dtype=bool)
        names = frozenset(window.names[agent] for agent in np.flatnonzero(guessed))
        solved = names if done.solved else solved & names if tracked else frozenset()
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
            placed=names,
            solved=solved,
            searched=done.searched,
            searches=done.searches,
            track_times=track_times,
            track=track,
            total=done.total,
            surprise=done.surprise,
            foretold=() if memory is None else memory.foretold,
            missed=1.0
            if memory is None
            else 1 + (memory.missed - 1) * float(np.exp((memory.time - window.times[-1]) / HELD)),
            gone=_gone(window, memory),
        )
        past = past[back]
        never = ~(np.isfinite(window.last_seen) | window.observed.any(1))
        reason = [
            "never seen: which agent is where is a guess"
            if never[agent]
            else "not seen in the window: placed by what the others do"
            if guessed[agent]
            else f"extrapolated: {UNEXPLAINED}"
            if not done.explained and agent in missing
            else ""
            for agent in range(len(order))
        ]
        told = SOLVED if SOLVED in self.bundle.config.errors else HSP
        tables = [
            STRAIGHT if why.startswith("extrapolated") else (told if name in solved else HSP) if why else SIHA
            for name, why in zip(window.names, reason, strict=True)
        ]
        spread = np.full((len(order), len(past_steps)), np.nan)
        spread[missing] = done.spread
        whole = np.concatenate([past, future], 1)
        unsure = self._mixed(window, tables, noise, memory.gone, whole, spread)
        past, future = np.split(whole, [len(past_steps)], 1)
        positions = np.where(window.observed[..., None], window.positions, past[..., : self.dims])
        agents, steps = len(order), len(future_steps)
        velocities = np.where(np.isfinite(window.velocities), window.velocities, past[..., self.dims :])
        estimate = Estimate(
            names=window.names,
            times=window.times,
            positions=positions,
            velocities=velocities,
            covariance=np.zeros((agents, len(past_steps), self.dims, self.dims)),
            position_95=np.zeros((agents, len(past_steps))),
            observed=window.observed,
            adjacency=graph[0].cpu().double().numpy()[np.ix_(back, back)],
            forecast=Forecast(
                times=window.times[-1] + future_steps * window.dt,
                positions=future[..., : self.dims],
                velocities=future[..., self.dims :],
                covariance=np.zeros((agents, steps, self.dims, self.dims)),
                position_95=np.zeros((agents, steps)),
            ),
            rounds=done.rounds,
            change=done.change,
            ms=0.0,
            reason=reason,
            internal=memory,
            spread=spread,
        )
        least = np.zeros((agents, len(past_steps)))
        if done.least is not None:
            least[missing] = done.least
        self._deviate(estimate, window, tables, noise, done.surprise, least, unsure)
        estimate.ms = (time.perf_counter() - began) * 1e3
        return estimate

    def _mixed(
        self, window: Window, tables: list[str], noise: Noise | None, gone: float, whole: Array, spread: Array
    ) -> Array:
        """Mix trajectories ``whole [A, T + F, 2 P]`` (m, m/s), of the window and the forecast, with lost agents' last
        motion as the bundle says, where they are not placed by what the others do. gone: how many are lost. spread
        ``[A, T]`` (m): what the smoother predicts is of their own alone; of what is mixed it becomes NaN.

        Returns what is not known of them because of noise ``[A, T + F]`` (m per axis), beside what tables say.
        """
        frames, unsure = spread.shape[1], np.zeros(whole.shape[:2])
        if not self.mix:
            return unsure
        times = window.times[-1] + window.dt * np.arange(1 - frames, whole.shape[1] - frames + 1)
        last = np.concatenate([window.last_position, window.last_velocity], -1)
        lost = window.last_seen < window.times[-1] - STAMP_TOLERANCE  # else it is about to be seen again
        lost &= ~window.observed[:, -1] & np.isfinite(last).all(1) & np.isin(tables, (SIHA, STRAIGHT))
        rows = np.flatnonzero(lost)
        if not len(rows):
            return unsure
        since = times - window.last_seen[rows, None]
        weights, longest = between_numbers(self.mix, gone, since)
        later, lasting = since > STAMP_TOLERANCE, np.minimum(since, longest)
        position, velocity = window.last_position[rows, None], window.last_velocity[rows, None]
        own = whole[rows][..., : self.dims]
        told = np.where(later[..., None], mixed(weights, own, position + velocity * lasting[..., None], position), own)
        speed = np.where(later[..., None], backward_difference(told, window.dt), whole[rows][..., self.dims :])
        whole[rows] = np.concatenate([told, speed], -1)
        if noise is not None:
            off = weights[..., MOVING] * lasting * np.sqrt(2 * noise.variance) / min(window.dt, VELOCITY_SECONDS)
            path = np.nan_to_num(np.pad(spread[rows], ((0, 0), (0, whole.shape[1] - frames)), mode="edge"))
            unsure[rows] = np.where(later, np.hypot(off, weights[..., OWN] * path), 0)
        spread[rows] = np.where(later[:, :frames], np.nan, spread[rows])
        return unsure

    def _deviate(
        self,
        estimate: Estimate,
        window: Window,
        tables: list[str],
        noise: Noise | None,
        surprise: float = 1.0,
        least: Array | float = 0.0,
        motion: Array | None = None,
    ) -> None:
        """Deviations by time since loss, from the bundle's tables of measured errors. Where the team moves otherwise
        than theirs did they grow: of lost agents where a ``surprise`` shows it, and at ``least [A, T]`` (m); of lost
        agents and of forecasts where those of the last seconds have missed. motion: what :meth:`_mixed` gives."""
        errors = self.bundle.config.errors
        straight = [errors[STRAIGHT]]
        if STRAIGHT in tables and (shown := straight_line_errors(window)) is not None:
            straight.append(shown)  # the bundle was made for other motion: what this stream shows counts too
        since = time_since_seen(window)
        bridged = window.observed & (window.times > window.last_seen[:, None] + STAMP_TOLERANCE)
        seen = window.observed[:, -1] & ~bridged[:, -1]
        lost = int((~seen).sum())
        width, radius = (np.empty_like(since) for _ in range(2))
        deviation = max(OWN_FRAME_DEVIATION, 0.0 if noise is None else float(np.sqrt(noise.variance)))
        own = deviation, self.radius * deviation
        memory = estimate.internal if isinstance(estimate.internal, _Memory) and set(tables) != {STRAIGHT} else None
        alone: Array = np.ones(len(tables))
        if memory is not None:
            alone = missed(memory.foretold, window, deviation)
            memory.missed = max(memory.missed, _together(alone[seen]))
        together = 1.0 if memory is None else memory.missed
        other = np.sqrt(surprise) if surprise > SURPRISING else 1.0
        for table in set(tables):
            rows = [row for row, name in enumerate(tables) if name == table]
            spread = None if estimate.spread is None else estimate.spread[rows]
            if table == STRAIGHT:
                width[rows], radius[rows] = _largest(straight, since[rows])
            elif table == SIHA:
                width[rows], radius[rows] = other * long_lost(errors[SIHA], errors[HSP], since[rows], spread)
            else:
                width[rows], radius[rows] = errors[table].at(since[rows], spread=spread)
        if noise is not None and estimate.spread is not None:  # which no table knows
            times, most = np.ones_like(since), np.full_like(since, self.radius)
            if (noisy := by_number(errors, NOISY, lost)) is not None:
                times, most = (part[0] * times for part in noisy.at(np.sqrt([noise.variance]), growing=1.0))
            if (age := by_number(errors, NOISE_AGE, lost)) is not None:
                times, most = (part * own for part, own in zip((times, most), age.at(since), strict=True))
            width, radius = np.fmax(width, times * estimate.spread), np.fmax(radius, most * estimate.spread)
        width, radius = np.maximum(width, least), np.maximum(radius, self.radius * least)
        if motion is not None:
            past = motion[:, : since.shape[1]]
            width, radius = np.hypot(width, past), np.hypot(radius, self.radius * past)
        known = np.stack([width[:, -1], radius[:, -1]])
        width, radius = self._grown(np.stack([width, radius]), max(1.0, together / other**2))
        width, radius = np.maximum(width, own[0]), np.maximum(radius, own[1])  # none is better than what is seen
        width[window.observed], radius[window.observed] = own
        width[bridged], radius[bridged] = _largest(straight, (window.times - window.last_seen[:, None])[bridged])
        eye = np.eye(self.dims)
        estimate.covariance = width[..., None, None] ** 2 * eye
        estimate.position_95 = radius
        ahead = estimate.forecast.times - window.times[-1]
        later = np.stack((ahead_table(errors, FORECAST, tables, lost) or errors[FORECAST]).at(ahead))[:, None]
        if noise is not None:
            steps = np.arange(1, len(ahead) + 1)
            unsure = np.sqrt(NOISE_CAUTION * noise.ahead(len(window.times), steps))
            later = np.hypot(later, np.stack([unsure, self.radius * unsure])[:, None])
        if memory is not None:
            memory.foretold = kept(memory.foretold, estimate, np.broadcast_to(later[0], (len(seen), len(ahead))), seen)
        known = np.maximum(known, np.array(own)[:, None])
        forecast = lost_ahead(ahead_table(errors, FORECAST_LOST, tables, lost), ahead, known, later, noise is not None)
        if together > 1:  # a table knows nothing of that
            forecast = np.maximum(self._grown(forecast, together), np.stack([width[:, -1:], radius[:, -1:]]))
        alone = np.where(seen & np.isfinite(alone), _missing(alone, alone, MISSED_ALONE), 1.0)
        later = self._grown(np.repeat(later, len(seen), 1), np.maximum(together, alone)[:, None])
        if motion is not None:
            forecast = np.hypot(forecast, np.stack([part * motion[:, since.shape[1] :] for part in (1, self.radius)]))
        later = np.where(seen[:, None], later, forecast)
        rows = np.array(tables) == STRAIGHT
        gone = np.nan_to_num(window.times[-1] - window.last_seen, nan=window.times[-1] - window.times[0])
        later[:, rows] = _largest(straight, gone[rows, None] + ahead)
        later = np.maximum(later, np.array(own)[:, None, None])
        estimate.forecast.covariance = later[0, ..., None, None] ** 2 * eye
        estimate.forecast.position_95 = later[1]

    def _grown(self, stated: Array, times: Array | float) -> Array:
        """Half-widths and radii ``[2, ...]`` (m) of so many ``times`` the variance, but no larger than the team in
        training."""
        farthest = self.bundle.config.ranges.extent
        most = np.array([farthest / self.radius, farthest]).reshape(2, *([1] * (stated.ndim - 1)))
        grown: Array = np.minimum(np.sqrt(times) * stated, np.maximum(stated, most))
        return grown


def ahead_table(errors: dict[str, ErrorTable], name: str, tables: list[str], lost: int) -> ErrorTable | None:
    """The table of forecasts of a name where the states of the agents are told by ``tables``: beside agents that were
    never seen it is their own, where the bundle has it, of the worse kind of answer that is among them."""
    unseen = (f"{name}_{kind}" for kind in (HSP, SOLVED) if kind in tables)
    return next((errors[table] for table in unseen if table in errors), by_number(errors, name, lost))


def long_lost(table: ErrorTable, unseen: ErrorTable, since: Array, spread: Array | None) -> Array:
    """Half-widths and radii ``[2, ...]`` (m) at times since loss. Beyond those of the table they grow as in it, up to
    how far apart two states are that know nothing of each other: the spread of the data, which is how far off the guess
    of an agent is that was never seen, times the square root of 2."""
    known = np.stack(table.at(since, spread=spread))
    growing = np.stack(table.at(since, table.trend * (1 - table.exponent), spread))  # a predicted one grows itself
    most = np.sqrt(2) * np.array([unseen.half_width[0], unseen.radius[0]]).reshape(2, *([1] * since.ndim))
    result: Array = np.minimum(growing, np.maximum(known, most))
    return result


def _together(ratios: Array) -> float:
    """By how much (variance) the forecasts of a team have missed, from those of each agent; NaN does not tell."""
    told = np.sort(ratios[np.isfinite(ratios)])
    return float(_missing(told[-2:-1], np.median(told), MISSED)[0]) if len(told) > 2 else 1.0


def _missing(ratio: Array, told: Array | np.floating, limit: float) -> Array:
    """A ratio of squared errors where another of them tells it: 1 up to its ``limit``, all of it from twice that on."""
    grown: Array = 1 + np.clip(told / limit - 1, 0, 1) * (np.maximum(ratio, 1) - 1)
    return grown


def _largest(tables: list[ErrorTable], seconds: Array) -> Array:
    """Half-widths and radii ``[2, ...]`` (m) at times since loss, the larger of some tables of errors that grow."""
    result: Array = np.max([np.stack(table.at(seconds, growing=1.0)) for table in tables], axis=0)
    return result


def lost_ahead(table: ErrorTable | None, ahead: Array, known: Array, later: Array, noisy: bool = False) -> Array:
    """Half-widths of 68 % per axis and radii of 95 % ``[2, A, H]`` (m) of forecasts of lost agents.

    What is not known of them now, ``known [2, A]``, and what of a forecast of a seen agent, ``later [2, A or 1, H]``,
    add up as if they were independent, until a table of measured errors by ``ahead [H]`` (s) corrects that. noisy: it
    was measured without noise, which makes states many times worse than any that it knows, so it states no less.
    """
    both: Array = np.hypot(known[..., None], later)
    if table is None:
        return both
    measured = np.stack(table.at(np.broadcast_to(ahead, both[0].shape), spread=both[0]))
    return np.maximum(measured, both) if noisy else measured


def _check(bundle: Bundle, counts: list[int]) -> None:
    """Raises BundleError, in one line, where a bundle does not hold what a team needs for hidden agents of these
    numbers."""
    config, features = bundle.config, 2 * bundle.config.dims
    if config.max_hidden not in counts:
        raise BundleError(f"{bundle.path}: module hsp_sa_{config.max_hidden} is missing, for max_hidden agents")
    nri = bundle.nri().config
    shapes = {(nri.frames, nri.features)}
    for name in (f"hsp_{kind}_{count}" for kind in ("sa", "sg") for count in counts):
        predictor = bundle.predictor(name).config
        shapes.add((predictor.frames, predictor.features))
    if shapes != {(config.window, features)}:
        raise BundleError(f"{bundle.path}: modules are not of {config.window} frames and {features} features")
    noise = bundle.arrays.get("noise", {})
    for name in ("step_variance", *(f"guess_variance_{count}" for count in counts)):
        if name not in noise or noise[name].shape != (features,) or not bool((noise[name] > 0).all()):
            raise BundleError(f"{bundle.path}: noise.safetensors: {name}: expected {features} variances above 0")
    total = noise.get("total", torch.zeros(2))
    if total.shape != (2,) or not bool((total >= 0).all()):
        raise BundleError(f"{bundle.path}: noise.safetensors: total: expected 2 numbers of at least 0")
    kernel = noise.get("kernel", torch.eye(config.window))
    if kernel.shape != (config.window, config.window) or not bool(kernel.isfinite().all()):
        size = f"{config.window} x {config.window}"
        raise BundleError(f"{bundle.path}: noise.safetensors: kernel: expected {size} finite numbers")
    roughness = noise.get("roughness", torch.ones(()))
    if roughness.shape != () or not bool(roughness > 0):
        raise BundleError(f"{bundle.path}: noise.safetensors: roughness: expected a number above 0")
    for table in (SIHA, HSP, STRAIGHT, FORECAST):
        if table not in config.errors:
            raise BundleError(f"{bundle.path / 'bundle.yaml'}: errors: table {table!r} is missing")


def _recall(window: Window, previous: Estimate | None) -> _Memory | None:
    """What the estimate before left, if its window reaches into this one and shows the same agents where both saw
    them."""
    if previous is None or not isinstance(previous.internal, _Memory) or previous.names != window.names:
        return None
    memory = previous.internal
    if memory.track.shape[-1] != window.positions.shape[-1]:
        return None
    if not window.times[0] <= memory.time <= window.times[-1] + STAMP_TOLERANCE:
        return None
    shared = window.times <= memory.time + STAMP_TOLERANCE
    apart = [
        np.abs(np.interp(window.times[shared], memory.track_times, before) - now)
        for agent, positions in zip(memory.track, window.positions[:, shared], strict=True)
        for before, now in zip(agent.T, positions.T, strict=True)
    ]
    largest = np.nan_to_num(apart).reshape(len(window.names), -1).max(1)
    return None if np.median(largest) > OTHER_STREAM else memory


def _gone(window: Window, memory: _Memory | None) -> float:
    """How many agents are lost; while some are, more or fewer of them within GONE_SECONDS."""
    now = float((~window.observed[:, -1]).sum())
    if memory is None or not memory.gone or not now:
        return now
    return now + (memory.gone - now) * float(np.exp((memory.time - window.times[-1]) / GONE_SECONDS))


def _without_spikes(window: Window, fastest: float) -> Window:
    """The window without single frames in which an agent was elsewhere, farther than it moves at ``fastest`` (m/s,
    within the team): one wrong sample must not cost the estimate of the others. An agent that is elsewhere, or fast,
    for longer than a frame is left as it is."""

    def fast(frames: int) -> NDArray[np.bool_]:
        steps = (window.positions[:, frames:] - window.positions[:, :-frames]) / (frames * window.dt)
        middle = np.nanmedian(np.where(np.isfinite(steps).any(0), steps, 0.0), axis=0)
        result: NDArray[np.bool_] = np.nan_to_num(np.linalg.norm(steps - middle, axis=-1)) > fastest
        return result

    step, two = fast(1), fast(2)
    spike = np.zeros_like(window.observed)
    spike[:, 1:-1] = step[:, :-1] & step[:, 1:] & ~two
    spike[:, 0], spike[:, -1] = step[:, 0] & ~step[:, 1], step[:, -1] & ~step[:, -2]
    if not spike.any():
        return window
    return replace(
        window,
        positions=np.where(spike[..., None], np.nan, window.positions),
        velocities=np.where(spike[..., None], np.nan, window.velocities),
        observed=window.observed & ~spike,
    )


def _track(window: Window, memory: _Memory | None) -> tuple[Array, Array]:
    """Times ``[n]`` and positions ``[A, n, P]`` of the window and of up to two steps before it."""
    if memory is None:
        return window.times, window.positions
    before = (memory.track_times < window.times[0] - STAMP_TOLERANCE) & (
        memory.track_times > window.times[0] - 2.5 * window.dt
    )
    times = np.concatenate([memory.track_times[before], window.times])
    return times, np.concatenate([memory.track[:, before], window.positions], 1)


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
    velocities = backward_difference(positions, dt)
    observed = np.ones((agents, frames), dtype=bool)
    observed[agents - hidden :, lost_at:] = False
    positions[~observed] = np.nan
    last = np.full(agents, times[-1])
    last[agents - hidden :] = times[lost_at - 1] if lost_at else np.nan
    return Window(
        names=[f"agent_{index}" for index in range(agents)],
        times=times,
        positions=positions,
        velocities=velocities,
        observed=observed,
        confidence=observed.astype(np.float32),
        status=np.where(observed[:, -1], Status.VISIBLE, Status.HIDDEN).astype(np.int8),
        reason=[""] * agents,
        last_seen=last,
        last_position=np.full((agents, dims), np.nan),
        last_velocity=np.full((agents, dims), np.nan),
    )
