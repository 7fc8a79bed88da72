"""From recordings of a team to what its networks are trained and judged on: what can be inferred, the split, windows,
scale, and runs in which agents are lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from offline_training.datasets.team import TeamWindows
from offline_training.recordings.recording import Recording, RecordingError
from offline_training.recordings.windows import FEWEST, Grid, agents_together, to_grid, windows
from siha_ros.model.frame import Scale
from siha_ros.replay.losses import LEAD_IN, Run

DT = 0.1  # s, where the recordings are faster
FRAME_CHOICES = (50, 40, 30, 20)  # of a window: the longest of which there are enough
LEAST_FRAMES = 12  # of a window: one frame and the ten that the decoder is rolled out over
LEAST_STARTS = 200  # windows that training needs, overlapping ones counted
LEAST_CHECKS = 30  # windows that validation and test need
MOST_CHECKS = 1000  # that they use, spread over all of their time
MOST_WINDOWS = 50_000
SHARES = (0.7, 0.15, 0.15)  # of training, validation, test
USUAL_HIDDEN = 2  # at once; 1 in a team that is too small for it
MOST_MISSING = 0.2  # of an agent's frames in a training window; what is missing is masked
STILL = 1e-4  # m and m/s: less than this is no motion
LOSS_SECONDS = (15.0, 10.0, 5.0, 3.0, 2.0, 1.0)


@dataclass(frozen=True)
class TeamSpec:
    """What a team's bundle is made for. rate: of the recordings (Hz). dt: of the grid (s). window, horizon: frames."""

    rate: float
    dt: float
    dims: int
    agents: int
    window: int
    horizon: int
    hidden_counts: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """Parts of recordings on the grid, and how they were parted. No two parts share a moment of a recording."""

    training: list[Grid]
    validation: list[Grid]
    test: list[Grid]
    how: str


def infer(
    recordings: Sequence[Recording],
    *,
    dt: float | None = None,
    agents: int | None = None,
    window: int | None = None,
    hidden: int = USUAL_HIDDEN,
) -> tuple[TeamSpec, list[Grid]]:
    """What the recordings are of, and they on its grid; None is inferred. Raises RecordingError, in one line, where
    they are too few, too short or too small a team.

    Team: the number of agents that all recordings have, else one that 70 % of the moments with enough agents reach.
    """
    if window is not None and window < LEAST_FRAMES:
        raise RecordingError(f"a window of {window} frames: expected {LEAST_FRAMES} or more")
    dims = {recording.dims for recording in recordings}
    if len(dims) != 1:
        raise RecordingError("recordings of the plane and of space together: train them apart")
    intervals = [recording.interval for recording in recordings if recording.interval > 0]
    if not intervals:
        raise RecordingError("no agent has two samples")
    interval = float(np.median(intervals))
    dt = dt or max(interval, DT)
    grids = [to_grid(recording, dt) for recording in recordings]
    for frames in (window,) if window else FRAME_CHOICES:
        together = agents_together(grids, frames)
        team = agents or _team([len(grid.names) for grid in grids], together)
        if team >= FEWEST and int((together >= team).sum()) >= LEAST_STARTS:
            most = team - FEWEST + 1
            if hidden > max(most, USUAL_HIDDEN):
                raise RecordingError(
                    f"{hidden} hidden of a team of {team}: expected {most} or fewer, so that {FEWEST - 1} are seen"
                )
            counts = tuple(range(1, min(hidden, most) + 1))
            return TeamSpec(1 / interval, dt, dims.pop(), team, frames, max(1, frames // 2), counts), grids
    raise RecordingError(f"too little to train on: {_lacking(grids, dt, window or FRAME_CHOICES[-1], agents)}")


def _lacking(grids: Sequence[Grid], dt: float, frames: int, agents: int | None) -> str:
    """Why these are too few windows, and which length there would be enough of."""
    together, team = agents_together(grids, frames), agents or FEWEST
    most = max(int(grid.known.sum(0).max(initial=0)) for grid in grids)
    if most < max(team, FEWEST):
        return f"at most {most} agents are seen at once, expected {max(team, FEWEST)} or more"
    enough = int((together >= team).sum())
    line = (
        f"{enough} windows of {frames} frames of {dt:.3g} s in which {team} or more agents are seen throughout,"
        f" expected {LEAST_STARTS} or more"
    )
    shorter = int((agents_together(grids, LEAST_FRAMES) >= team).sum())
    return line + (f" (--window {LEAST_FRAMES}: {shorter})" if frames > LEAST_FRAMES else "")


def _team(sizes: list[int], together: np.ndarray) -> int:
    enough = together[together >= FEWEST]
    if not len(enough):
        return 0
    if len(set(sizes)) == 1 and (together == sizes[0]).sum() >= max(LEAST_STARTS, 0.3 * len(enough)):
        return sizes[0]
    return int(np.quantile(enough, 0.3))


def split(grids: Sequence[Grid], spec: TeamSpec) -> Split:
    """By recording where there are five or more, else each recording by time, in blocks one after the other."""
    count = len(grids)
    if count >= 5:
        each = max(1, round(SHARES[2] * count))
        picked = np.linspace(0, count - 1, 2 * each).round().astype(int)  # spread over the recordings
        validation, test = set(picked[::2].tolist()), set(picked[1::2].tolist())
        return Split(
            [grid for number, grid in enumerate(grids) if number not in validation | test],
            [grids[number] for number in sorted(validation)],
            [grids[number] for number in sorted(test)],
            f"by recording: {count - 2 * each} train, {each} validate, {each} test",
        )
    parts: list[list[Grid]] = [[], [], []]
    for grid in grids:
        edges = np.cumsum([0, *SHARES]) * len(grid.times)
        for part, begin, end in zip(parts, edges[:-1].round().astype(int), edges[1:].round().astype(int), strict=True):
            part.append(grid.part(int(begin), int(end)))
    shares = ", ".join(f"{100 * share:.0f} %" for share in SHARES)
    return Split(
        parts[0], parts[1], parts[2], f"by time: the first {shares} of each recording train, validate and test"
    )


def team_windows(
    grids: Sequence[Grid],
    spec: TeamSpec,
    scale: Scale,
    *,
    future: int,
    missing: float = 0.0,
    most: int = MOST_WINDOWS,
    seed: int = 0,
) -> TeamWindows:
    """About ``most`` windows in which the agents stand in random order, those with gaps last; one agent may have
    gaps."""
    starts = int((agents_together(grids, spec.window + future) >= spec.agents).sum())
    step = max(1, math.ceil(starts / most))
    cut = windows(grids, spec.window, future, agents=spec.agents, step=step, missing=missing)
    gaps = np.asarray(~cut.observed.all(2))
    kept = gaps.sum(1) <= min(spec.hidden_counts)
    positions, observed, gaps = cut.positions[kept], cut.observed[kept], gaps[kept]
    order = np.argsort(np.random.default_rng(seed).random(gaps.shape) + gaps, axis=1)
    positions = np.take_along_axis(positions, order[:, :, None, None], 1)
    observed = np.take_along_axis(observed, order[:, :, None], 1)
    positions = positions - positions[:, :, :1].mean(1, keepdims=True)  # float32 is exact near the team only
    return TeamWindows(
        torch.from_numpy(positions.astype(np.float32)),
        None,
        None,
        None if observed.all() else torch.from_numpy(observed),
        "team",
        "backward_difference",
        spec.dt,
        spec.window,
        scale,
        mixed=True,
    )


def measure_scale(data: TeamWindows, spec: TeamSpec) -> tuple[Scale, float, float]:
    """Half-ranges that normalise the team's states, and the largest distance (m) and speed (m/s) in its frame."""
    plain = replace(data, scale=Scale(1.0, 1.0))
    states = plain.states(slice(None), spec.agents - max(spec.hidden_counts))
    known = data.known_states(slice(None))
    if known is not None:
        states = states * known
    positions, velocities = plain.scale.split(states)
    extent, speed = positions.norm(dim=-1).flatten(), velocities.norm(dim=-1).flatten()
    usual = [float(np.quantile(part.numpy(), 0.999)) for part in (extent, speed)]
    if min(usual) < STILL:
        raise RecordingError("nothing moves in the recordings, or all agents are in one place")
    return Scale(*(float(f"{value:.3g}") for value in usual)), float(extent.max()), float(speed.max())


def losses(grids: Sequence[Grid], spec: TeamSpec, lost: int, count: int, seed: int) -> list[Run]:
    """Up to ``count`` runs in which ``lost`` random agents fall silent, for as long as the recordings allow (15 s at
    most); none where they are too short. All agents are seen throughout, so the truth is known."""
    warm = spec.window - 1 + math.ceil(LEAD_IN / spec.dt)
    for seconds in LOSS_SECONDS:
        gone = round(seconds / spec.dt)
        if gone < 2:
            continue
        cut = windows(grids, warm, gone, agents=spec.agents, step=max(1, spec.window // 5))
        if len(cut) >= LEAST_CHECKS:
            return list(_runs(cut.positions, spec, lost, warm, count, seed))
    return []


def _runs(positions: np.ndarray, spec: TeamSpec, lost: int, warm: int, count: int, seed: int) -> Iterator[Run]:
    random = np.random.default_rng([seed, lost])
    for number in random.permutation(len(positions))[:count]:
        yield Run(
            names=[f"agent_{agent + 1}" for agent in range(spec.agents)],
            positions=positions[number],
            dt=spec.dt,
            edges=None,
            lost=np.sort(random.choice(spec.agents, lost, replace=False)),
            lost_at=warm,
            end=positions.shape[2],
        )
