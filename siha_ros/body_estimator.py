"""The estimator of bodies: named joints, a hidden limb, one frame that moves and turns with the body.

Layers, each of which is right on its own: the linear path completes the hidden joints from the visible ones; what was
last seen of them carries on and fades; the hidden-state predictors refine that under the graph that NRI reads (the
paper's loop); NRI's decoder forecasts. Which joints hide is free as long as they belong to two limbs at most and the
core stays in sight; beyond that, and outside the ranges of training, a hidden joint keeps its place relative to the
joints still seen and the reason says why.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from siha_ros.baselines import MeanVisible
from siha_ros.estimator import FORECAST, OWN_FRAME_DEVIATION, time_since_seen
from siha_ros.model.body_frame import CORE_MINIMUM, BodyFrame
from siha_ros.model.body_linear import LinearPath, ResidualCarry
from siha_ros.model.bundle import Bundle, BundleError
from siha_ros.model.captured import Captured
from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.quick import quick_nri, quick_predictor
from siha_ros.model.refinement import Refined, Refinement
from siha_ros.window.completion import only_seen
from siha_ros.window.grid import backward_difference
from siha_ros.window.types import Estimate, Forecast, Status, Window

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Joints = TypeVar("Joints", list[str], NDArray[Any])

MOST_LIMBS = 2  # limbs that may be hidden at once
EVIDENCE_SECONDS = 0.05  # spacing of the moments that the carry remembers
MEMORY_SECONDS = 1.5  # how far back before a loss it remembers
FALLBACK_SECONDS = 1e12  # for ever: at constant velocity a foot would be off by a metre after a second
FEWEST_MOMENTS = 5  # remembered, to tell how large errors of the linear path are for this body
LEAST_MULTIPLE = 0.25  # of the usual deviation, where less hides than what that was measured of
FORGOTTEN_SECONDS = MEMORY_SECONDS - FEWEST_MOMENTS * EVIDENCE_SECONDS  # after the loss of a part of a limb
SETTLED = 0.02  # change of the graph below which the refinement stops
UNSEEN = "unseen"  # end of the name of a joint's error table when nothing was ever seen of it
FALLBACK = "fallback"  # error table of what the bundle was not made for, and start of the name of two more
TWO = "two"  # and when a second limb is hidden too
HALF, ALONE = "half", "alone"  # and when only half a limb hides, or of a limb just this joint
CORE = "core"  # name of the carry of the joints that belong to no limb
SHARE = "share"  # array of how much of the predictors' refinement is used, by time since loss


def halves(joints: Joints) -> tuple[Joints, Joints]:
    """The half of a limb that is near the core, and the far one, which has one joint more of an odd number."""
    return joints[: len(joints) // 2], joints[len(joints) // 2 :]


def unlike(errors: FloatArray, usual: FloatArray) -> FloatArray:
    """How large errors ``[..., n, J, 3]`` (m, NaN: not known) of the linear path are at n moments, as a multiple of
    usual half-widths ``[J]`` (m)."""
    multiple: FloatArray = np.nanquantile(np.abs(errors) / usual[:, None], 0.6827, axis=(-3, -2, -1))
    return multiple


class OverLinearPath:
    """A hidden-state predictor whose output, times a gain ``[D]``, is added to a first completion ``[B, H, T, D]``."""

    def __init__(self, predictor: HiddenStatePredictor, first: Tensor, gain: Tensor):
        self.predictor, self.first, self.gain = predictor, first, gain

    def __call__(
        self, visible: Tensor, structure: Tensor | None = None, names: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """As :class:`HiddenStatePredictor`."""
        return self.first + self.gain * self.predictor(visible, structure, names)


@dataclass(frozen=True)
class Remembered:
    """What the linear path got wrong of a group of joints while it was seen: rows of moments in time order.

    times: f8 [n] (s). errors: f8 [n, J, 3] in body axes (m), NaN where a joint was not seen. poses: f8 [n, Q].
    visible: bool [n, J], the joints of the group that the completion could see.
    """

    times: FloatArray
    errors: FloatArray
    poses: FloatArray
    visible: BoolArray

    def merged(self, newer: Remembered, keep_from: float) -> Remembered:
        """These rows before the first newer one, then the newer ones; nothing older than ``keep_from`` (s)."""
        first = newer.times[0] if len(newer.times) else np.inf
        old = (self.times < first - 0.5 * EVIDENCE_SECONDS) & (self.times >= keep_from)
        return Remembered(
            *(
                np.concatenate([mine[old], theirs])
                for mine, theirs in (
                    (self.times, newer.times),
                    (self.errors, newer.errors),
                    (self.poses, newer.poses),
                    (self.visible, newer.visible),
                )
            )
        )


@dataclass
class _Memory:
    """What a body estimate leaves to the next one: per limb or joint of the core, and the newest time it knows."""

    time: float
    groups: dict[str, Remembered]


class BodyEstimator:
    """See the module.

    refine: False leaves the hidden-state predictors out (the linear path and its carry alone). rounds: of the
    refinement, None for the bundle's; 0 is HSP-sa alone.
    """

    def __init__(self, bundle: Bundle, device: torch.device, refine: bool = True, rounds: int | None = None):
        _check(bundle)
        self.bundle, self.device, self.refine = bundle, device, refine
        self.rounds = bundle.config.rounds if rounds is None else rounds
        for network in bundle.networks.values():
            network.to(device)
        config = bundle.config
        self.names = config.agent_names
        index = {name: row for row, name in enumerate(self.names)}
        self.limbs = {limb: np.array([index[joint] for joint in joints]) for limb, joints in config.limbs.items()}
        self.path = LinearPath.from_tensors(bundle.arrays["linear"])
        self.core = self.path.template.core
        self.groups = self.limbs | {self.names[joint]: np.array([joint]) for joint in self.core}
        carries = {name: ResidualCarry.from_tensor(tensor) for name, tensor in bundle.arrays["carry"].items()}
        self.carries = {group: carries.get(group, carries[CORE]) for group in self.groups}
        ahead = config.dt * np.arange(1, config.horizon + 1)  # s; deviations of forecasts [2, A, H], [2, 1, H] (m)
        self.ahead = np.stack([config.errors[f"{name}_{FORECAST}"].at(ahead) for name in self.names], axis=1)
        self.ahead_fallback = np.stack([config.errors[f"{FALLBACK}_{FORECAST}"].at(ahead)], axis=1)
        self.share = bundle.arrays["refinement"][SHARE].double().numpy()  # [limbs, 2, n]: seconds and share
        self.gain = bundle.arrays["refinement"]["gain"].to(device)
        self.nri = quick_nri(bundle.nri())
        self.hsp_sa, self.hsp_sg = (quick_predictor(bundle.predictor(name)) for name in ("hsp_sa", "hsp_sg"))
        settled = partial(self.paper_loop, tolerance=SETTLED)
        self._loop = Captured(partial(settled, stop_early=False), eager=partial(settled, stop_early=True))
        self.fallback = MeanVisible(horizon=config.horizon, time_constant=FALLBACK_SECONDS)

    def warm_up(self) -> None:
        """Complete made-up windows: nothing hidden, and each limb."""
        for hidden in ([], *self.limbs.values()):
            self.estimate(self._made_up_window(np.asarray(hidden, int)))

    @torch.inference_mode()
    def estimate(self, window: Window, previous: Estimate | None = None) -> Estimate:
        """The completed window; ``previous`` is what this estimator said of an earlier window of the same stream."""
        began = time.perf_counter()
        memory = previous.internal if previous is not None and isinstance(previous.internal, _Memory) else None
        if memory is not None and window.times[-1] < memory.time:
            memory = previous = None
        unfit = self._unfit_shape(window)
        if unfit:
            return self._extrapolate(window, unfit, previous, began)
        order = np.array([window.names.index(name) for name in self.names])
        unbridged = only_seen(window)
        if not self._unfit_sight(unbridged.observed[order].all(1), unbridged.observed[order]):
            window = unbridged  # else the whole stream hiccuped, and is bridged as it is
        observed, positions = window.observed[order], window.positions[order]
        throughout = observed.all(1)
        unfit = self._unfit_sight(throughout, observed)
        if unfit:
            return self._extrapolate(window, unfit, previous, began)
        frame = self.path.template.fit(positions, throughout)
        body = frame.to_body(positions)
        unfit = self._outside(body, throughout)
        if unfit:
            return self._extrapolate(window, unfit, previous, began)

        linear = self._complete(body, throughout)
        known = self._remember(window, body, observed, throughout, linear, memory)
        filled = linear.copy()
        for group, joints in self.groups.items():
            if (~throughout[joints]).any():
                filled[joints] += self._carried(window.times, linear, observed[joints], known[group], group, throughout)
        since = time_since_seen(window)[order]
        move, rounds, change = self._refine(linear, throughout, since)
        filled = np.where(observed[..., None], body, filled + move)
        graph, ahead = self._look_ahead(filled)
        names, exact = self._measured_as(throughout)
        return self._answer(
            window,
            order,
            frame,
            filled,
            ahead,
            graph,
            rounds,
            change,
            self._deviations(since, observed, names) * self._unlike(known, throughout, names, exact)[:, None],
            _Memory(float(window.times[-1]), known),
            began,
        )

    # what the bundle was made for

    def _unfit_shape(self, window: Window) -> str:
        config = self.bundle.config
        if sorted(window.names) != sorted(self.names):
            lacking = sorted(set(self.names) - set(window.names))
            return f"joints {', '.join(lacking) or 'beyond the bundle'!s}: the bundle knows {len(self.names)} by name"
        if len(window.times) != config.window or abs(window.dt - config.dt) > 1e-3 * config.dt:
            return (
                f"a window of {len(window.times)} frames of {window.dt:.4g} s, the bundle knows {config.window} of "
                f"{config.dt:.4g} s"
            )
        return ""

    def _unfit_sight(self, throughout: BoolArray, observed: BoolArray) -> str:
        if throughout[self.core].sum() < CORE_MINIMUM:
            return f"fewer than {CORE_MINIMUM} joints of the core seen in the whole window"
        gone = [limb for limb, joints in self.limbs.items() if not throughout[joints].all()]
        if len(gone) > MOST_LIMBS:
            return f"joints of {len(gone)} limbs hidden, the bundle knows up to {MOST_LIMBS}"
        return ""

    def _outside(self, body: FloatArray, throughout: BoolArray) -> str:
        ranges = self.bundle.config.ranges
        seen = body[throughout]
        extent = float(np.linalg.norm(seen, axis=-1).max())
        speed = float(np.linalg.norm(backward_difference(seen, self.bundle.config.dt), axis=-1).max())
        if extent > ranges.extent:
            return f"a joint is {extent:.1f} m from the body's frame, training saw up to {ranges.extent:.1f} m"
        if speed > ranges.speed:
            return f"a joint moves at {speed:.1f} m/s, training saw up to {ranges.speed:.1f} m/s"
        return ""

    def _extrapolate(self, window: Window, why: str, previous: Estimate | None, began: float) -> Estimate:
        estimate = self.fallback.estimate(_seen_in(window, previous))
        estimate.internal = previous.internal if previous is not None else None  # for when the window is fit again
        estimate.reason = [f"extrapolated: {why}"] * len(window.names)
        errors, since = self.bundle.config.errors, time_since_seen(window)
        never = np.asarray(np.isinf(since).all(1))
        deviations = np.where(never[:, None], errors[f"{FALLBACK}_{UNSEEN}"].at(since), errors[FALLBACK].at(since))
        self._deviate(estimate, deviations, self.ahead_fallback)
        estimate.ms = (time.perf_counter() - began) * 1e3
        return estimate

    # linear path and carry

    def _complete(self, body: FloatArray, visible: BoolArray) -> FloatArray:
        """Window ``[A, T, 3]`` (body frame) with the joints that are not visible put in by the linear path."""
        completed: FloatArray = self.path.complete(body[None], visible)[0]
        return completed

    def _remember(
        self,
        window: Window,
        body: FloatArray,
        observed: BoolArray,
        throughout: BoolArray,
        linear: FloatArray,
        memory: _Memory | None,
    ) -> dict[str, Remembered]:
        """The memory of each limb and joint of the core with what this window tells: rows every few frames back from
        the newest frame it is seen in.
        """
        step = max(1, round(EVIDENCE_SECONDS / window.dt))
        groups = {}
        everything = throughout.all()
        for group, joints in self.groups.items():
            old = memory.groups.get(group) if memory is not None else None
            visible = throughout.copy()
            if throughout[joints].all():
                # another regression for each that stays in sight would cost more than it helps
                if not everything or group not in self.limbs:
                    if old is not None:
                        groups[group] = old
                    continue
                visible[joints] = False  # as if it were hidden
            completed = linear if (visible == throughout).all() else self._complete(body, visible)
            seen = np.flatnonzero(observed[joints].any(0))
            rows = np.zeros(0, int)
            if len(seen):
                rows = np.arange(seen[-1], -1, -step)[::-1]
                rows = rows[np.isin(rows, seen)]
            errors = np.where(
                observed[joints][:, rows, None], body[joints][:, rows] - completed[joints][:, rows], np.nan
            )
            newer = Remembered(
                window.times[rows],
                errors.swapaxes(0, 1),
                self.path.pose_coordinates(completed[None])[0, rows],
                np.repeat(visible[joints][None], len(rows), 0),
            )
            last = (
                window.times[rows[-1]] if len(rows) else (old.times[-1] if old is not None and len(old.times) else 0.0)
            )
            groups[group] = newer if old is None else old.merged(newer, last - MEMORY_SECONDS)
        return groups

    def _carried(
        self,
        times: FloatArray,
        linear: FloatArray,
        observed: BoolArray,
        known: Remembered,
        group: str,
        throughout: BoolArray,
    ) -> FloatArray:
        """Errors of the linear path ``[J, T, 3]`` (m, body axes) at the frames in which the group's joints are not
        observed, else zero.
        """
        joints = self.groups[group]
        carried = np.zeros((len(joints), len(times), 3))
        usable = (known.visible == throughout[joints]).all(1)
        poses = self.path.pose_coordinates(linear[None])[0]
        told = usable[:, None] & np.isfinite(known.errors[..., 0])  # [n, J]
        patterns: dict[bytes, list[int]] = {}
        for joint in np.flatnonzero(~throughout[joints]):
            patterns.setdefault(told[:, joint].tobytes() + observed[joint].tobytes(), []).append(int(joint))
        for alike in patterns.values():
            rows, frames = told[:, alike[0]], np.flatnonzero(~observed[alike[0]])
            if rows.any():
                carry = self.carries[group]
                weights = carry.weights(known.times[rows], known.poses[rows], times[frames], poses[frames])
                carried[np.ix_(np.array(alike), frames)] = np.einsum(
                    "mn,njp->jmp", weights, known.errors[rows][:, alike]
                )
        return carried

    def _unlike(
        self, known: dict[str, Remembered], throughout: BoolArray, names: list[str], exact: BoolArray
    ) -> FloatArray:
        """``[A]``: how large the linear path's errors of the joints that are now hidden were while they were seen, as a
        multiple of those of the bundle's own data; 1 where that is not known.

        They are larger for a body unlike those of training, smaller where less hides than what the tables were measured
        of. Where just that hides it is 1 at least, as tables are of trials that differ too. names, exact: of
        :meth:`_measured_as`.
        """
        multiple = np.ones(len(throughout))
        for group, joints in self.groups.items():
            gone = ~throughout[joints]
            if group not in known or not gone.any():
                continue
            usable = (known[group].visible == throughout[joints]).all(1)
            errors = known[group].errors[usable][:, gone]
            if np.isfinite(errors[..., 0]).any(1).sum() >= FEWEST_MOMENTS:
                tables = (self.bundle.config.errors[f"{names[joint]}_{UNSEEN}"] for joint in joints[gone])
                usual = np.maximum([table.half_width[0] for table in tables], 1e-4)
                least = 1.0 if exact[joints].all() else LEAST_MULTIPLE
                multiple[joints] = max(least, float(unlike(errors, usual)))
        return multiple

    def _measured_as(self, throughout: BoolArray) -> tuple[list[str], BoolArray]:
        """Of each joint the name of its tables, which are of the smallest measured set that holds all that hides of
        its limb; and whether just that set hides ``[A]``. A bundle without tables of parts of limbs has those of
        whole ones."""
        names, exact = list(self.names), np.ones(len(throughout), bool)
        for joints in self.limbs.values():
            gone = ~throughout[joints]
            parts = [part for part in halves(gone) if part.any()]
            end = ALONE if gone.sum() == 1 else HALF if len(parts) == 1 else ""
            if end and all(f"{self.names[joint]}_{end}" in self.bundle.config.errors for joint in joints[gone]):
                for joint in joints[gone]:
                    names[joint] += f"_{end}"
                exact[joints] = end == ALONE or parts[0].all()
            else:
                exact[joints] = gone.all()
        return names, exact

    # refinement and forecast

    def _states(self, body: FloatArray) -> Tensor:
        """Normalised states ``[1, n, T, 6]`` of completed positions ``[n, T, 3]`` (m, body frame)."""
        scale, dt = self.bundle.config.scale, self.bundle.config.dt
        states = np.concatenate([body / scale.position, backward_difference(body, dt) / scale.velocity], -1)
        return torch.from_numpy(np.ascontiguousarray(states, np.float32)).to(self.device)[None]

    def _refine(self, linear: FloatArray, throughout: BoolArray, since: FloatArray) -> tuple[FloatArray, int, float]:
        """What the paper's loop adds to the linear path ``[A, T, 3]`` (m), the rounds it took and the largest move in
        the last one (m); where one limb is concerned.

        How much of it is used, by time since loss, was chosen on validation data.
        """
        move = np.zeros_like(linear)
        gone = [limb for limb, joints in self.limbs.items() if not throughout[joints].all()]
        if not self.refine or len(gone) != 1 or not throughout[self.core].all():
            return move, 0, 0.0
        hidden = self.limbs[gone[0]]
        visible = np.setdiff1d(np.arange(len(self.names)), hidden)
        states = self._states(linear)
        names = (torch.from_numpy(visible).to(self.device), torch.from_numpy(hidden).to(self.device))
        refined = Refined.of(*self._loop(states[:, visible], states[:, hidden], *names))
        seconds, share = self.share[list(self.limbs).index(gone[0])]
        weight = np.interp(np.minimum(since[hidden], seconds[-1]), seconds, share)[..., None]
        added, last = (
            weight * part[0, ..., :3].double().cpu().numpy() * self.bundle.config.scale.position
            for part in (refined.hidden - states[:, hidden], refined.moved)
        )
        move[hidden] = added
        return move, refined.rounds, float(np.linalg.norm(last, axis=-1).max())

    def paper_loop(
        self, visible: Tensor, first: Tensor, seen: Tensor, hidden: Tensor, tolerance: float, stop_early: bool
    ) -> tuple[Tensor, ...]:
        """What :meth:`Refinement.loop` gives for states ``[1, V, T, 6]`` and a first completion ``[1, H, T, 6]`` of the
        joints ``seen`` and ``hidden``."""
        parts: Any = [OverLinearPath(network, first, self.gain) for network in (self.hsp_sa, self.hsp_sg)]
        return Refinement(parts[0], parts[1], self.nri, self.rounds).loop(
            visible, (seen, hidden), tolerance, stop_early
        )

    def _look_ahead(self, filled: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Graph ``[A, A, K]`` and forecast states ``[A, H, 6]`` (m, m/s, body frame)."""
        states = self._states(filled)
        graph = self.nri.graph(states)
        ahead = self.nri.forecast(states[:, :, -1], graph, self.bundle.config.horizon)[0].double().cpu().numpy()
        scale = self.bundle.config.scale
        return graph[0].double().cpu().numpy(), ahead * np.repeat([scale.position, scale.velocity], 3)

    # metres and back

    def _answer(
        self,
        window: Window,
        order: NDArray[np.intp],
        frame: BodyFrame,
        filled: FloatArray,
        ahead: FloatArray,
        graph: FloatArray,
        rounds: int,
        change: float,
        deviations: FloatArray,
        memory: _Memory,
        began: float,
    ) -> Estimate:
        back = np.argsort(order)
        positions = np.where(window.observed[..., None], window.positions, frame.to_world(filled)[back])
        later = window.times[-1] + np.arange(1, self.bundle.config.horizon + 1) * window.dt
        velocities = backward_difference(positions, window.dt)
        velocities = np.where(np.isfinite(window.velocities), window.velocities, velocities)
        never = ~np.isfinite(window.last_seen)
        estimate = Estimate(
            names=window.names,
            times=window.times,
            positions=positions,
            velocities=velocities,
            covariance=np.zeros((*window.observed.shape, 3, 3)),
            position_95=np.zeros(window.observed.shape),
            observed=window.observed,
            adjacency=graph[np.ix_(back, back)],
            forecast=Forecast(
                times=later,
                positions=frame.to_world(ahead[..., :3])[back],
                velocities=frame.turn_to_world(ahead[..., 3:])[back],
                covariance=np.zeros((len(order), len(later), 3, 3)),
                position_95=np.zeros((len(order), len(later))),
            ),
            rounds=rounds,
            change=change,
            ms=0.0,
            reason=[
                "" if seen else "never seen: from the other joints alone" if unknown else ""
                for seen, unknown in zip(window.observed[:, -1], never, strict=True)
            ],
            internal=memory,
        )
        self._deviate(estimate, deviations[:, back], self.ahead[:, back])
        estimate.ms = (time.perf_counter() - began) * 1e3
        return estimate

    def _deviate(self, estimate: Estimate, deviations: FloatArray, ahead: FloatArray) -> None:
        """Deviations ``[2, A, T]`` (m) where nothing was observed: 68 % half-width per axis, 95 % radius; and those of
        forecasts of seen agents ``[2, A or 1, H]``.
        """
        seen = np.array([OWN_FRAME_DEVIATION, 2.8 * OWN_FRAME_DEVIATION])[:, None, None]
        now = np.where(estimate.observed, seen, deviations)
        lost = np.hypot(now[..., -1:], ahead)  # what is not known now and what comes are independent
        later = np.where(estimate.observed[:, -1:], np.maximum(ahead, seen), lost)
        eye = np.eye(estimate.positions.shape[-1])
        estimate.covariance, estimate.position_95 = np.square(now[0])[..., None, None] * eye, now[1]
        estimate.forecast.covariance = np.square(later[0])[..., None, None] * eye
        estimate.forecast.position_95 = later[1]

    def _deviations(self, since: FloatArray, observed: BoolArray, measured_as: list[str]) -> FloatArray:
        """68 % half-width per axis and 95 % radius (m) ``[2, A, T]`` by time since each joint was seen ``[A, T]`` (s;
        infinite: never). measured_as: names of their tables.
        """
        errors = self.bundle.config.errors
        width, radius = np.empty_like(since), np.empty_like(since)
        gone = [limb for limb, joints in self.limbs.items() if not observed[joints].all()]
        for row, (name, measured) in enumerate(zip(self.names, measured_as, strict=True)):
            never = np.isinf(since[row]).all()
            width[row], radius[row] = errors[f"{measured}_{UNSEEN}" if never else measured].at(since[row])
            if measured != name:  # what is seen of the limb pushes what was seen of the rest out of the memory
                forgotten = since[row] > FORGOTTEN_SECONDS
                width[row, forgotten], radius[row, forgotten] = errors[f"{measured}_{UNSEEN}"].at(since[row, forgotten])
            if len(gone) > 1 and f"{name}_{TWO}" in errors:  # less is left to tell from: as much worse as was measured
                two, unseen = errors[f"{name}_{TWO}"], errors[f"{name}_{UNSEEN}"]
                width[row] *= max(1.0, two.half_width[0] / unseen.half_width[0])
                radius[row] *= max(1.0, two.radius[0] / unseen.radius[0])
        return np.stack([width, radius])

    def _made_up_window(self, hidden: Sequence[int] | NDArray[np.int64]) -> Window:
        """The template walking along x, with some joints out of sight."""
        config = self.bundle.config
        times = np.arange(config.window, dtype=np.float64) * config.dt
        way = np.linspace(-self.path.template.travel, 0, config.window)[:, None] * np.array([1.0, 0, 0])
        positions = self.path.template.pose[:, None] + way
        observed = np.ones(positions.shape[:2], bool)
        observed[hidden] = False
        positions = np.where(observed[..., None], positions, np.nan)
        last = np.where(observed[:, -1], times[-1], np.nan)
        return Window(
            names=list(self.names),
            times=times,
            positions=positions,
            velocities=np.full_like(positions, np.nan),
            observed=observed,
            confidence=observed.astype(np.float32),
            status=np.where(observed[:, -1], Status.VISIBLE, Status.HIDDEN).astype(np.int8),
            reason=[""] * len(self.names),
            last_seen=last,
            last_position=positions[:, -1],
            last_velocity=np.full((len(self.names), 3), np.nan),
        )


def _seen_in(window: Window, previous: Estimate | None) -> Window:
    """The window, as if agents that the estimate before already missed had been seen where it put them."""
    if previous is None or previous.names != window.names:
        return window
    if not window.times[0] <= previous.times[-1] <= window.times[-1]:
        return window
    then = previous.times[-1]
    missed = ~previous.observed[:, -1] & ~(window.observed & (window.times > then - 0.5 * window.dt)).any(1)
    return replace(
        window,
        last_seen=np.where(missed, then, window.last_seen),
        last_position=np.where(missed[:, None], previous.positions[:, -1], window.last_position),
    )


def _check(bundle: Bundle) -> None:
    """Raises BundleError, in one line, where a bundle does not hold what a body needs."""
    config, file = bundle.config, bundle.path / "bundle.yaml"
    names, count, frames = config.agent_names, config.count, config.window
    inside = [joint for limb in config.limbs.values() for joint in limb]
    core = [row for row, name in enumerate(names) if name not in inside]
    for fine, key, expected in (
        (config.dims == 3, "dims", "3"),
        (config.velocity == "backward_difference", "velocity", "backward_difference"),
        (bool(names), "agent_names", "a name for every joint"),
        (all(config.limbs.values()) and len(inside) == len(set(inside)) > 0, "limbs", "limbs that share no joint"),
        (len(core) >= CORE_MINIMUM, "limbs", f"at least {CORE_MINIMUM} joints that are in none"),
    ):
        if not fine:
            raise BundleError(f"{file}: {key}: expected {expected}")
    for table in (f"{name}{end}" for name in (*names, FALLBACK) for end in ("", f"_{UNSEEN}", f"_{FORECAST}")):
        if table not in config.errors:
            raise BundleError(f"{file}: errors: table {table!r} is missing")
    nri, largest = bundle.nri().config, max(len(limb) for limb in config.limbs.values())
    shapes = {(nri.frames, nri.features)}
    for name in ("hsp_sa", "hsp_sg"):
        predictor = bundle.predictor(name).config
        shapes.add((predictor.frames, predictor.features))
        if predictor.identities != count or predictor.hidden < largest:
            raise BundleError(f"{file}: modules.{name}: expected identities {count} and hidden {largest} or more")
    if shapes != {(frames, 6)}:
        raise BundleError(f"{file}: modules are not of {frames} frames and 6 features")

    def expect(module: str, name: str, *shape: int | None, positive: bool = False) -> Tensor:
        """A tensor of this shape (None: any length above 0)."""
        tensor = bundle.arrays.get(module, {}).get(name)
        where = f"{bundle.path / module}.safetensors: {name}"
        wanted = " x ".join("any" if size is None else str(size) for size in shape) + " numbers"
        if tensor is None:
            raise BundleError(f"{where} is missing, expected {wanted}")
        same = len(tensor.shape) == len(shape) and tensor.numel() > 0
        if not same or any(size not in (None, given) for size, given in zip(shape, tensor.shape, strict=True)):
            raise BundleError(f"{where}: expected {wanted}, got {tuple(tensor.shape)}")
        if positive and not bool((tensor > 0).all()):
            raise BundleError(f"{where}: expected numbers above 0")
        return tensor

    expect("linear", "template_pose", count, 3)
    expect("linear", "template_travel", 1)
    expect("linear", "template_covariance", 2, count + 1, count + 1)
    expect("linear", "pose_mean", 3 * count)
    expect("linear", "pose_axes", None, 3 * count)
    if expect("linear", "core", None).tolist() != core:
        raise BundleError(f"{bundle.path / 'linear.safetensors'}: core: expected the joints of no limb, {core}")
    for ridge, reach in (("long", frames), ("short", None)):
        basis = expect("linear", f"{ridge}_basis", reach, None)
        features = (count + 1) * 3 * (basis.shape[1] + 2)
        expect("linear", f"{ridge}_mean", features)
        expect("linear", f"{ridge}_factor", None, features)
        expect("linear", f"{ridge}_penalty", count, positive=True)
    if not 2 <= len(basis) < frames:
        raise BundleError(f"{bundle.path / 'linear.safetensors'}: short_basis: expected 2 to {frames - 1} frames")
    for group in (*config.limbs, CORE):
        expect("carry", group, 8, positive=True)
    expect("refinement", "gain", 6)
    seconds, share = expect("refinement", SHARE, len(config.limbs), 2, None).unbind(1)
    if bool((seconds.diff() <= 0).any()) or bool((share < 0).any()) or bool((share > 1).any()):
        raise BundleError(
            f"{bundle.path / 'refinement.safetensors'}: {SHARE}: expected ascending seconds, and shares of 0 to 1"
        )
