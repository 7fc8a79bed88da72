"""How good a bundle is on complete recordings in which agents are hidden: the figures of the paper's tables, and
centimetres.

Every method answers the same question for the same windows: where the hidden agents are, who influences whom, where
all go. :func:`evaluate` asks what goes through the estimator's interface (siha and the baselines),
:func:`network_answers` runs the bundle's networks by themselves, batched, as the paper does. Data come from the
caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from siha_ros.model.body_linear import LinearPath
from siha_ros.model.bundle import Bundle, BundleConfig
from siha_ros.model.frame import Scale, team_frame
from siha_ros.model.hidden_state import HiddenStatePredictor, align, take_slots
from siha_ros.model.nri import NRI
from siha_ros.model.refinement import Refined, Refinement
from siha_ros.progress import shown
from siha_ros.replay.bootstrap import interval
from siha_ros.replay.metrics import edge_accuracy, label_permutation
from siha_ros.replay.stated import Stated
from siha_ros.replay.windows import Recording
from siha_ros.window.grid import backward_difference
from siha_ros.window.types import WindowEstimator

CHUNK_EDGES = 12_000  # edges in one pass of a network: bounds its memory
LEARNED = ("hsp_sa", "siha")  # methods behind the estimator's interface that know the bundle's graph and dynamics
SCHEMA = 1


class Space(Protocol):
    """What turns normalised positions into metres: a bundle's config, for one."""

    @property
    def dims(self) -> int:
        """2 or 3."""

    @property
    def scale(self) -> Scale:
        """Half-ranges (m, m/s)."""


@dataclass
class Answer:
    """What a method says of n windows, normalised, in the frame of each window; None where it says nothing.

    hidden: f4[n, H, T, D]. graph: f4[n, A, A, K]. onestep: f4[n, A, F, D], each frame from the true states of the
    agents seen and the rolled ones of the others in the frame before. openloop: f4[n, A, F, D], all rolled from the
    newest frame. Agents seen come first; a method that knows only those has only those.
    """

    hidden: Tensor | None
    graph: Tensor | None
    onestep: Tensor | None
    openloop: Tensor | None


@dataclass
class Task:
    """n windows as the networks see them: states f4[n, A, T + F, D], agents seen first, the last ``hidden`` out of
    sight from ``lost_at`` on. groups: i8[n], of windows that overlap, or None.
    """

    states: Tensor
    edges: NDArray[np.bool_] | None
    hidden: int
    lost_at: int
    frames: int
    aligned: bool
    groups: NDArray[np.int64] | None = None

    @property
    def seen(self) -> int:
        """Number of agents seen throughout."""
        return self.states.shape[1] - self.hidden

    @property
    def truth(self) -> Tensor:
        """f4[n, H, T, D] true states of the hidden agents."""
        return self.states[:, self.seen :, : self.frames]

    @property
    def future(self) -> Tensor:
        """f4[n, A, F, D] true states after the window."""
        return self.states[:, :, self.frames :]


def evaluate(
    bundle: Bundle,
    recording: Recording,
    hidden: NDArray[np.intp],
    methods: Mapping[str, WindowEstimator],
    *,
    lost_at: int = 0,
    data: str,
    seed: int | None,
    networks: bool = True,
    progress: bool = False,
) -> dict[str, Any]:
    """The report of ``siha evaluate``, schema 1.

    methods: estimators by the name that they have in the report. lost_at: first frame of the window in which
    ``hidden`` [H] are out of sight (0: they were never seen). networks: also run the networks of a team's bundle by
    themselves (hsp_sa, siha_paper, nri_visible, nri_complete).
    """
    config = bundle.config
    agents = len(recording.names)
    order = np.concatenate([np.setdiff1d(np.arange(agents), hidden), hidden])
    recording = Recording(
        [recording.names[agent] for agent in order],
        recording.positions[:, order],
        None if recording.velocities is None else recording.velocities[:, order],
        None if recording.edges is None else recording.edges[:, order][:, :, order],
        recording.dt,
    )
    frames = frames_of(bundle, recording, agents - len(hidden))
    task = Task(
        true_states(config, recording, frames),
        recording.edges,
        len(hidden),
        lost_at,
        config.window,
        lost_at == 0 and not config.identified,
    )
    answers = network_answers(bundle.networks, config.rounds, task, progress) if networks else {}
    stated = Stated()
    for name, estimator in methods.items():
        noted = stated if name == "siha" else None
        answers[name] = estimator_answers(name, estimator, bundle, recording, task, frames, progress, noted)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "data": data,
        "seed": seed,
        "samples": len(recording),
        "hidden": recording.names[task.seen :],
        "lost_at": lost_at,
        "alignment": "unordered slots matched to the truth once per window" if task.aligned else "by name",
        "methods": {name: figures(answer, task, config) for name, answer in answers.items()},
    }
    if "siha" in answers and task.hidden:
        rivals = {name: answer for name, answer in answers.items() if name in methods and name not in LEARNED}
        report["against_best_baseline"] = against_best(answers["siha"], rivals, task, config)
    if stated.error:
        report["stated"] = stated.coverage()
    if task.edges is not None:
        report["floor"] = unknowable(task)
    return report


@dataclass
class Frames:
    """The frame of each of n windows, and the bundle's scale.

    origin: f8[n, 1, T + F, D], its own position and velocity (m, m/s). rotation: f8[n, 1, P, P], its axes. unit: f8[D]
    (m, m/s).
    """

    origin: NDArray[np.float64]
    rotation: NDArray[np.float64]
    unit: NDArray[np.float64]

    def inside(
        self,
        positions: NDArray[np.float64],
        velocities: NDArray[np.float64],
        part: slice,
        number: int | slice = slice(None),
    ) -> Tensor:
        """Normalised states f4[..., A, t, D] of positions and velocities f8[..., A, t, P] in the frames ``part`` of
        windows ``number``.
        """
        relative = np.concatenate([positions, velocities], -1) - self.origin[number, :, part]
        dims = positions.shape[-1]
        turned = np.concatenate(
            [relative[..., :dims] @ self.rotation[number], relative[..., dims:] @ self.rotation[number]], -1
        )
        return torch.from_numpy((turned / self.unit).astype(np.float32))


def frames_of(bundle: Bundle, recording: Recording, seen: int) -> Frames:
    """The frame of every window, from its first ``seen`` agents, as the bundle's estimator would lay it."""
    config = bundle.config
    count, _, total, dims = recording.positions.shape
    origin = np.zeros((count, 1, total, 2 * dims))
    rotation = np.broadcast_to(np.eye(dims), (count, 1, dims, dims))
    if config.frame == "team":
        past = torch.from_numpy(recording.positions[:, :seen, : config.window])
        frame = team_frame(past, recording.dt)
        steps = torch.arange(total) - (config.window - 1)
        origin[:, 0, :, :dims] = frame.at(steps).numpy()
        origin[:, 0, :, dims:] = frame.velocity[:, None].numpy()
    elif config.frame == "body":
        template = LinearPath.from_tensors(bundle.arrays["linear"]).template
        order = np.array([recording.names.index(name) for name in config.agent_names])
        body = template.fit(recording.positions[:, order, : config.window], order < seen)
        origin[:, 0, :, :dims] = body.origin[:, None]
        rotation = body.rotation[:, None]
    return Frames(origin, rotation, np.repeat([config.scale.position, config.scale.velocity], dims))


def true_states(config: BundleConfig, recording: Recording, frames: Frames) -> Tensor:
    """Normalised states f4[n, A, T + F, D] of complete recordings; velocities as the bundle wants them."""
    if config.velocity == "measured" and recording.velocities is not None:
        velocities = recording.velocities
    else:
        velocities = backward_difference(recording.positions, recording.dt)
    return frames.inside(recording.positions, velocities, slice(None))


# the networks by themselves


@torch.inference_mode()
def network_answers(
    networks: Mapping[str, nn.Module], rounds: int, task: Task, progress: bool = False
) -> dict[str, Answer]:
    """Of networks by the names that they have in a bundle. hsp_sa: one pass of HSP-sa. siha_paper: its refinement loop
    of ``rounds`` rounds. nri_complete: NRI with nobody hidden. nri_visible: NRI trained and run on the agents seen,
    where there is one. All treat the hidden agents as never seen."""
    count, nri = task.hidden, networks["nri"]
    assert isinstance(nri, NRI)
    todo: dict[str, Callable[[Tensor], Tensor | Refined]] = {}
    hsp_sa, hsp_sg = networks.get(f"hsp_sa_{count}"), networks.get(f"hsp_sg_{count}")
    if isinstance(hsp_sa, HiddenStatePredictor):
        todo["hsp_sa"] = hsp_sa
        if isinstance(hsp_sg, HiddenStatePredictor):
            refinement = Refinement(hsp_sa, hsp_sg, nri, rounds)
            todo["siha_paper"] = refinement
    answers = {name: network_answer(name, nri, task, guess, progress) for name, guess in todo.items()}
    answers["nri_complete"] = network_answer("nri_complete", nri, task, None, progress)
    visible_only = networks.get("nri_visible")
    if isinstance(visible_only, NRI):
        alone = Task(task.states[:, : task.seen], None, 0, 0, task.frames, False)
        answers["nri_visible"] = network_answer("nri_visible", visible_only, alone, None, progress)
    return answers


@torch.inference_mode()
def network_answer(
    name: str,
    nri: NRI,
    task: Task,
    guess: Callable[..., Tensor | Refined] | None,
    progress: bool = False,
    given: Tensor | None = None,
    ordered: bool = False,
) -> Answer:
    """Hidden trajectories by ``guess`` from the visible ones [b, V, T, D] (None: the true ones, and no answer), slots
    put in the order of the truth unless they are ``ordered``, then the graph by ``nri`` unless the guess has one, and
    the future by ``nri``. given: [n, ...], of which each window's part goes to ``guess`` too.
    """
    device = next(nri.parameters()).device
    parts: list[tuple[Tensor, ...]] = []
    size = _chunk(task)
    for begin in shown(range(0, len(task.states), size), name, progress=progress):
        states = task.states[begin : begin + size]
        past = states[:, :, : task.frames].to(device)
        visible, hidden = past[:, : task.seen], past[:, task.seen :]
        graph = None
        if guess is not None:
            found = guess(visible) if given is None else guess(visible, given[begin : begin + size].to(device))
            guessed, graph = (found.hidden, found.graph) if isinstance(found, Refined) else (found, None)
            if not ordered:
                order = align(guessed, hidden)
                guessed, graph = take_slots(guessed, order), None if graph is None else _reordered(graph, order)
            hidden = guessed
        complete = torch.cat([visible, hidden], 1)
        graph = nri.graph(complete) if graph is None else graph
        onestep, openloop = _future(nri, graph, complete[:, :, -1], states[:, :, task.frames :].to(device), task.seen)
        parts.append((hidden.cpu(), graph.cpu(), onestep, openloop))
    answer = Answer(*(torch.cat(part) for part in zip(*parts, strict=True)))
    if guess is None:
        answer.hidden = None
    return answer


def _reordered(graph: Tensor, order: Tensor) -> Tensor:
    """``[B, A, A, K]``, the last agents in the order ``[B, H]``."""
    seen = graph.shape[1] - order.shape[1]
    agents = torch.cat([torch.arange(seen, device=order.device).expand(len(order), -1), seen + order], 1)
    sample = torch.arange(len(order), device=order.device)[:, None, None]
    return graph[sample, agents[:, :, None], agents[:, None, :]]


def _chunk(task: Task) -> int:
    agents = task.states.shape[1]
    return max(1, CHUNK_EDGES // (agents * (agents - 1)))


def _future(nri: NRI, graph: Tensor, newest: Tensor, future: Tensor, seen: int) -> tuple[Tensor, Tensor]:
    """Predictions [n, A, F, D] from the newest states [n, A, D]: one step with the agents seen fed in, and open
    loop.
    """
    state, steps = newest, []
    for frame in range(future.shape[2]):
        ahead = nri.step(state, graph)
        steps.append(ahead)
        state = torch.cat([future[:, :seen, frame], ahead[:, seen:]], 1)
    return torch.stack(steps, 2).cpu(), nri.forecast(newest, graph, future.shape[2]).cpu()


# whatever has the estimator's interface


@torch.inference_mode()
def estimator_answers(
    name: str,
    estimator: WindowEstimator,
    bundle: Bundle,
    recording: Recording,
    task: Task,
    frames: Frames,
    progress: bool = False,
    stated: Stated | None = None,
) -> Answer:
    """Run an estimator on every window by itself, with no estimate before it. stated: notes what it stated."""
    hidden_agents = np.arange(task.seen, len(recording.names))
    learned = name in LEARNED
    hidden, graphs, ahead = [], [], []
    for number in shown(range(len(recording)), name, progress=progress):
        window = recording.window(number, task.frames, hidden_agents, task.lost_at)
        estimate = estimator.estimate(window)
        past = frames.inside(estimate.positions, estimate.velocities, slice(task.frames), number)
        forecast, horizon = estimate.forecast, task.future.shape[2]
        if len(forecast.times) < horizon:
            raise ValueError(f"{name} forecasts {len(forecast.times)} frames, {horizon} are wanted")
        later = slice(task.frames, task.frames + horizon)
        future = frames.inside(forecast.positions[:, :horizon], forecast.velocities[:, :horizon], later, number)
        slots = torch.arange(task.hidden)
        if task.aligned:
            slots = align(past[None, task.seen :], task.truth[number : number + 1])[0]
        rows = torch.cat([torch.arange(task.seen), task.seen + slots])
        hidden.append(past[rows][task.seen :])
        ahead.append(future[rows])
        graphs.append(torch.from_numpy(estimate.adjacency).float()[rows][:, rows])
        if stated is not None:
            stated.note(estimate, recording.positions[number, rows.argsort().numpy()], recording.dt)
    answer = Answer(torch.stack(hidden), torch.stack(graphs) if learned else None, None, None)
    answer.openloop = torch.stack(ahead)
    if learned and answer.graph is not None and answer.hidden is not None:
        complete = torch.cat([task.states[:, : task.seen, task.frames - 1], answer.hidden[:, :, -1]], 1)
        parts = zip(*(part.split(_chunk(task)) for part in (answer.graph, complete, task.future)), strict=True)
        nri = bundle.nri()
        device = next(nri.parameters()).device
        moved = ([part.to(device) for part in row] for row in parts)
        answer.onestep = torch.cat([_future(nri, graph, now, later, task.seen)[0] for graph, now, later in moved])
    else:  # a baseline goes on at constant velocity
        answer.onestep = answer.openloop.clone()
        now = task.states[:, : task.seen, task.frames - 1 : -1]
        dims = now.shape[-1] // 2
        step = recording.dt * bundle.config.scale.velocity / bundle.config.scale.position
        answer.onestep[:, : task.seen] = torch.cat([now[..., :dims] + step * now[..., dims:], now[..., dims:]], -1)
    return answer


# figures


def figures(answer: Answer, task: Task, config: Space) -> dict[str, Any]:
    """The figures of one method, each mean with its 95 % interval (over windows) under the same name and ``_ci``; None
    where undefined.
    """
    out: dict[str, Any] = {}

    def put(name: str, values: Tensor | None, statistic: str = "mean", factor: float = 1.0) -> None:
        """values: one number for each window."""
        if values is None or not len(values):
            out[name] = out[f"{name}_ci"] = None
            return
        numbers = values.double().numpy()
        functions: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
            "mean": lambda x: x.mean(-1),
            "median": lambda x: np.median(x, axis=-1),
            "root": lambda x: np.sqrt(x.mean(-1)),
        }
        function = functions[statistic]
        out[name] = float(function(numbers)) * factor
        out[f"{name}_ci"] = [bound * factor for bound in interval(numbers, function, groups=task.groups)]

    squares = distances = None
    if answer.hidden is not None and task.hidden:
        squares = (answer.hidden - task.truth)[:, :, task.lost_at :].square().flatten(1).mean(1)
        distances = _distances(answer, task, config)
    put("mse_hsp_mean", squares)
    put("mse_hsp_median", squares, "median")
    for kind, predicted in (("onestep", answer.onestep), ("openloop", answer.openloop)):
        missed = None
        if predicted is not None and task.future.shape[2]:
            missed = (predicted - task.future[:, : predicted.shape[1]]).square().mean((2, 3))  # [n, A]
        absent = missed is None or not task.hidden or missed.shape[1] <= task.seen
        for who, values in (
            ("visible", None if missed is None else missed[:, : task.seen].mean(1)),
            ("hidden", None if absent or missed is None else missed[:, task.seen :].mean(1)),
        ):
            put(f"mse_fsp_{kind}_{who}", values)
            put(f"mse_fsp_{kind}_{who}_median", values, "median")  # a roll-out that diverges can decide the mean
    out |= accuracies(answer.graph, task)
    put("error_cm_window", None if distances is None else distances.flatten(1).mean(1), factor=100)
    put("error_cm_newest", None if distances is None else distances[..., -1].mean(1), factor=100)
    put("rmse_cm_newest", None if distances is None else distances[..., -1].square().mean(1), "root", factor=100)
    return out


def _distances(answer: Answer, task: Task, config: Space) -> Tensor:
    """Errors [n, H, T - lost_at] of the hidden agents' positions (m)."""
    assert answer.hidden is not None
    wrong = (answer.hidden - task.truth)[:, :, task.lost_at :, : config.dims]
    return wrong.norm(dim=-1) * config.scale.position


def against_best(siha: Answer, rivals: Mapping[str, Answer], task: Task, config: Space) -> dict[str, Any] | None:
    """By how much (cm, below 0: closer) the mean error of siha differs from that of the best other method, on the same
    windows: ``window`` over all frames, ``newest``; each with its 95 % interval over windows."""
    out: dict[str, Any] = {}
    for name, part in (("window", slice(None)), ("newest", slice(-1, None))):
        means = {rival: _distances(answer, task, config)[..., part].mean((1, 2)) for rival, answer in rivals.items()}
        if not means:
            return None
        best = min(means, key=lambda rival: float(means[rival].mean()))
        apart = 100 * (_distances(siha, task, config)[..., part].mean((1, 2)) - means[best]).double().numpy()
        out[name] = {
            "baseline": best,
            "difference_cm": float(apart.mean()),
            "difference_cm_ci": interval(apart, groups=task.groups),
        }
    return out


def accuracies(graph: Tensor | None, task: Task) -> dict[str, Any]:
    """Edge accuracies in percent by block, under one renaming of the edge types for all windows together."""
    names = ("acc_vv", "acc_vh", "acc_hh")
    if graph is None or task.edges is None:
        return {key: None for name in names for key in (name, f"{name}_ci")}
    agents = graph.shape[1]
    types = graph.shape[-1]
    predicted, truth = graph.argmax(-1).numpy(), task.edges[:, :agents, :agents].astype(int)
    hidden = np.arange(agents) >= task.seen
    out: dict[str, Any] = dict(edge_accuracy(predicted, truth, hidden, types))
    right = np.asarray(label_permutation(predicted, truth, types))[predicted] == truth
    blocks = hidden[:, None].astype(int) + hidden + 3 * np.eye(agents, dtype=int)
    for number, name in enumerate(names):
        share = right[:, blocks == number]
        out[f"{name}_ci"] = (
            [100 * bound for bound in interval(share.mean(1), groups=task.groups)] if share.shape[1] else None
        )
    return out


def unknowable(task: Task) -> dict[str, float]:
    """What no method can win: hidden agents that no path of true edges joins to an agent seen.

    agents_percent: how many of the hidden agents. mse_hsp_mean: what they add to it when nothing better is said than
    the centre.
    """
    assert task.edges is not None
    reached = np.zeros(task.edges.shape[:2], dtype=bool)
    reached[:, : task.seen] = True
    for _ in range(task.hidden):
        reached |= (reached[:, :, None] & task.edges).any(1)
    lost = ~reached[:, task.seen :]
    share = task.truth[:, :, task.lost_at :].square().mean((2, 3)).numpy() * lost
    return {"agents_percent": 100 * float(lost.mean()), "mse_hsp_mean": float(share.mean())}
