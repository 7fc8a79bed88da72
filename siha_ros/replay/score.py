"""How good estimates are of agents that a bag does hold and that were hidden from the estimator.

First the whole bag runs with nothing hidden: that gives the truth and the graph of full observation. Then each loss
runs by itself, from a few seconds before it, and every estimate made in it is compared with the truth by name. The
other methods complete the same windows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siha_ros.node.messages import NewMessage, Scene
from siha_ros.progress import shown
from siha_ros.replay.losses import LEAD_IN
from siha_ros.replay.stream import Stream, Summary, Withheld, only, run
from siha_ros.replay.truth import RecordingWindow, Truth
from siha_ros.window.types import Estimate, Status, WindowEstimator

INTERPOLATION = "interpolation"  # sees the future: a bound, not a method
MOST_LOSSES = 10_000  # one after another; a clock that was set while recording would make millions
HORIZONS = 8  # forecast times that are judged, at most
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Guesses:
    """What a method said, n rows. loss: i8[n] which loss. agent: [n] names. seconds: f8[n] since the agent's last
    sample, or ahead (s). error: f8[n, P] truth minus estimate (m). deviation: f8[n, P] stated along each axis (m).
    radius: f8[n] stated, of 95 % (m). Deviation and radius are NaN where the method states none."""

    loss: NDArray[np.int64]
    agent: NDArray[np.str_]
    seconds: Array
    error: Array
    deviation: Array
    radius: Array

    @classmethod
    def of(
        cls, loss: int, agents: Sequence[str], seconds: Array, error: Array, stated: tuple[Array, Array] | None
    ) -> Guesses:
        """Rows of one estimate; stated: covariances f8[n, P, P] (m^2) and radii f8[n] (m)."""
        deviation, radius = np.full(error.shape, np.nan), np.full(len(error), np.nan)
        if stated is not None:
            deviation, radius = np.sqrt(np.diagonal(stated[0], axis1=-2, axis2=-1)), stated[1]
        return cls(np.full(len(agents), loss), np.array(agents, dtype=str), seconds, error, deviation, radius)

    @classmethod
    def joined(cls, parts: Sequence[Guesses]) -> Guesses:
        """All rows of several."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    @property
    def distance(self) -> Array:
        """f8[n] (m)."""
        return np.linalg.norm(self.error, axis=-1)


@dataclass
class Score:
    """Everything that was counted.

    newest: by method, the lost agents in the newest frame. ahead: by "seen" and "lost" agents, by method, forecasts.
    agreement: by pairs of seen (vv), seen and lost (vh), lost agents (hh): edges, edges of the same type as with all
    observed, summed absolute difference of the probability, edges of which nothing was said (left out of the three).
    reasons: how often siha gave each reason for a lost agent's
    state; of reasons that differ in numbers only, the first (kept in examples) counts for all. unseen: why others were
    hidden too, which the bag does hold. nonfinite: estimates of siha that were not finite. ms: of each estimate of
    siha.
    """

    losses: list[Withheld] = field(default_factory=list)
    newest: dict[str, list[Guesses]] = field(default_factory=lambda: defaultdict(list))
    ahead: dict[str, dict[str, list[Guesses]]] = field(
        default_factory=lambda: {"seen": defaultdict(list), "lost": defaultdict(list)}
    )
    agreement: dict[str, Array] = field(default_factory=lambda: {key: np.zeros(4) for key in ("vv", "vh", "hh")})
    reasons: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    estimates: int = 0
    nonfinite: int = 0
    ms: list[float] = field(default_factory=list)

    def count(self, counter: Counter[str], reason: str) -> None:
        """Count a reason once more."""
        counter[self.examples.setdefault(re.sub(r"[\d.]+", "#", reason), reason)] += 1


@dataclass
class Full:
    """The bag with nothing hidden: its truth, the graph by number of the estimate, and what the run was."""

    truth: Truth
    graphs: dict[int, tuple[list[str], Array]]
    summary: Summary


class _GraphRecorder:
    def __init__(self) -> None:
        self.graphs: dict[int, tuple[list[str], Array]] = {}
        self.tick = 0

    def at(self, tick: int, _: float) -> None:
        self.tick = tick

    def publish(self, scene: Scene) -> None:
        self.graphs[self.tick] = list(scene.estimate.names), scene.estimate.adjacency

    def clear_markers(self) -> None:
        pass


def full_observation(stream: Stream, estimator: Any, new: NewMessage) -> Full:
    """Run the whole bag with nothing hidden. Raises ValueError where it cannot be scored."""
    window = stream.window(RecordingWindow)
    assert isinstance(window, RecordingWindow)
    recorder = _GraphRecorder()
    summary = run(stream, estimator, only(recorder), new, open_window=lambda: window, on_tick=recorder.at)
    return Full(window.truth(), recorder.graphs, summary)


def loss_times(begin: float, end: float, at: float, lasts: float, sweep: bool) -> list[float]:
    """When losses begin (s), ``at`` seconds after ``begin``, one after another until ``end`` where swept. Raises
    ValueError where none fits."""
    if begin + at + lasts > end:
        raise ValueError(f"--at {at:g} s --for {lasts:g} s: the bag is {end - begin:.1f} s long")
    count = int((end - begin - at) / lasts + 1e-9) if sweep else 1
    if count > MOST_LOSSES:
        raise ValueError(f"{count} losses of {lasts:g} s in {end - begin:.6g} s, expected {MOST_LOSSES} or fewer")
    return [begin + at + number * lasts for number in range(count)]


def score_losses(
    stream: Stream,
    estimator: Any,
    methods: Mapping[str, WindowEstimator],
    full: Full,
    losses: Sequence[Withheld],
    new: NewMessage,
    progress: bool = False,
) -> Score:
    """Run every loss; ``methods`` are compared with beside interpolation."""
    score = Score(losses=list(losses))
    lead = stream.config.window * stream.config.dt + LEAD_IN
    for number, withheld in enumerate(shown(losses, "losses", progress=progress)):
        judge = _Judge(score, number, withheld, methods, full)
        run(
            stream,
            estimator,
            only(judge),
            new,
            withheld=withheld,
            begin=withheld.begin - lead,
            end=withheld.end,
            on_tick=judge.at,
        )
    if "siha" not in score.newest:
        raise ValueError(
            f"no estimate was made while an agent was hidden: estimates begin when the group was heard for"
            f" {stream.config.window * stream.config.dt:g} s, and agents are judged where the bag holds them"
        )
    return score


class _Judge:
    """A pipeline's sink that compares the estimates of one loss with the truth."""

    def __init__(
        self, score: Score, number: int, withheld: Withheld, methods: Mapping[str, WindowEstimator], full: Full
    ) -> None:
        self._score, self._number, self._withheld, self._methods, self._full = score, number, withheld, methods, full
        self._previous: dict[str, Estimate] = {}
        self._tick, self._moment = 0, 0.0

    def at(self, tick: int, moment: float) -> None:
        """Number and time of recording (s) of the estimate that comes next."""
        self._tick, self._moment = tick, moment

    def clear_markers(self) -> None:
        """The stream starts anew."""
        self._previous.clear()

    def publish(self, scene: Scene) -> None:
        """Compare one estimate."""
        if not self._withheld.at(self._moment) or (scene.window.status == Status.STALE).any():
            return
        score, estimate, now = self._score, scene.estimate, float(scene.estimate.times[-1])
        last = {name: self._full.truth.loss(name, self._withheld)[0] for name in self._withheld.agents}
        lost = [index for index, name in enumerate(estimate.names) if name in last and not now <= last[name]]
        if not lost:
            return
        if not (np.isfinite(estimate.positions).all() and np.isfinite(estimate.covariance).all()):
            score.nonfinite += 1  # the node publishes nothing then
            return
        estimates = {"siha": estimate}
        for method, other in self._methods.items():
            estimates[method] = self._previous[method] = other.estimate(scene.window, self._previous.get(method))
        self._judge_newest(estimates, lost, last)
        self._judge_forecasts(estimates, lost)
        self._judge_graph(estimate, lost)
        for index in lost:
            score.count(score.reasons, estimate.reason[index] or "none")
        window = scene.window
        for name, status, why in zip(window.names, window.status.tolist(), window.reason, strict=True):
            if status == Status.HIDDEN and name not in self._withheld.agents:
                score.count(score.unseen, why)
        score.estimates += 1
        score.ms.append(estimate.ms)

    def _judge_newest(self, estimates: Mapping[str, Estimate], lost: Sequence[int], last: Mapping[str, float]) -> None:
        names, now = estimates["siha"].names, float(estimates["siha"].times[-1])
        truths = {index: self._full.truth.at(names[index], np.array([now]))[0] for index in lost}
        held = [index for index in lost if np.isfinite(truths[index]).all()]
        if not held:
            return
        agents, truth = [names[index] for index in held], np.array([truths[index] for index in held])
        since = np.array([now - last[name] for name in agents])
        since[np.isnan(since)] = self._moment - self._withheld.begin  # never seen before
        for method, estimate in estimates.items():
            error = truth - estimate.positions[held, -1]
            stated = estimate.covariance[held, -1], estimate.position_95[held, -1]
            self._score.newest[method].append(Guesses.of(self._number, agents, since, error, stated))
        between = np.array([self._full.truth.interpolated(name, self._withheld, now) for name in agents])
        if np.isfinite(between).all():
            guess = Guesses.of(self._number, agents, since, truth - between, None)
            self._score.newest[INTERPOLATION].append(guess)

    def _judge_forecasts(self, estimates: Mapping[str, Estimate], lost: Sequence[int]) -> None:
        names, forecast = estimates["siha"].names, estimates["siha"].forecast
        steps = min(len(estimate.forecast.times) for estimate in estimates.values())
        if not steps:
            return
        chosen = np.unique(np.linspace(0, steps - 1, min(HORIZONS, steps)).round().astype(int))
        ahead = forecast.times[chosen] - estimates["siha"].times[-1]
        truth = np.array([self._full.truth.at(name, forecast.times[chosen]) for name in names])  # [A, h, P]
        held, hidden = np.isfinite(truth).all(-1), np.isin(np.arange(len(names)), lost)[:, None]
        for group, rows in (("seen", held & ~hidden), ("lost", held & hidden)):
            agents, places = np.nonzero(rows)
            if not len(agents):
                continue
            for method, estimate in estimates.items():
                found = estimate.forecast
                error = truth[agents, places] - found.positions[agents, chosen[places]]
                guess = Guesses.of(
                    self._number,
                    [names[agent] for agent in agents],
                    ahead[places],
                    error,
                    (found.covariance[agents, chosen[places]], found.position_95[agents, chosen[places]]),
                )
                self._score.ahead[group][method].append(guess)

    def _judge_graph(self, estimate: Estimate, lost: Sequence[int]) -> None:
        names, reference = self._full.graphs.get(self._tick, ([], np.zeros(0)))
        if set(names) != set(estimate.names):
            return
        order = [names.index(name) for name in estimate.names]
        reference = reference[np.ix_(order, order)]
        hidden = np.isin(np.arange(len(order)), lost)
        pairs = hidden[:, None].astype(int) + hidden
        pairs[np.diag_indices_from(pairs)] = -1
        known = _says_something(estimate.adjacency) & _says_something(reference)
        same = estimate.adjacency.argmax(-1) == reference.argmax(-1)
        apart = np.abs(estimate.adjacency - reference).sum(-1) / 2  # total variation
        for number, counts in enumerate(self._score.agreement.values()):
            block = (pairs == number) & known
            counts += block.sum(), same[block].sum(), apart[block].sum(), ((pairs == number) & ~known).sum()


def _says_something(adjacency: Array) -> NDArray[np.bool_]:
    """bool[A, A], false where all types of interaction are equally likely: there is no graph."""
    found: NDArray[np.bool_] = adjacency.max(axis=-1) > adjacency.min(axis=-1)
    return found
