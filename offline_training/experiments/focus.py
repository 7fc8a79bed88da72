"""``siha reproduce focus``: the paper's figure of which joints the hands are joined to, subject 35 with the left arm
hidden, in six panels; edges are means over the test windows.

For a hand i the score of joint j is (A_ij + A_ji) / 2; a panel draws the k highest above 0.75.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from offline_training.datasets.cmu_mocap import read_skeleton
from offline_training.experiments import table2
from offline_training.experiments.cells import Cell, Options
from offline_training.experiments.lab import Lab
from offline_training.experiments.report import table
from siha_ros.model.refinement import GUIDING_TYPE

LIMB, LEAST = "left_arm", 0.75
PANELS = (  # title, method, hands, edges at most
    ("(a) NRI, nothing hidden", "nri_complete", ("lhand", "rhand"), 8),
    ("(b) visible-only NRI", "nri_visible", ("rhand",), 8),
    ("(c) HSP-sa, left hand", "hsp_sa", ("lhand",), 14),
    ("(d) HSP-sa, right hand", "hsp_sa", ("rhand",), 14),
    ("(e) SIHA, left hand", "siha_paper", ("lhand",), 14),
    ("(f) SIHA, right hand", "siha_paper", ("rhand",), 14),
)


def focus_edges(graph: NDArray[np.floating], joint: int, most: int, least: float = LEAST) -> list[tuple[int, float]]:
    """The joints that ``joint`` is joined to most, with their scores, highest first. graph: f[A, A], the probability of
    an influence of row on column."""
    scores = (graph[joint] + graph[:, joint]) / 2
    scores[joint] = 0.0
    return [(int(other), float(scores[other])) for other in np.argsort(-scores)[:most] if scores[other] > least]


def cells(lab: Lab, options: Options) -> list[Cell]:
    """One, of subject 35."""
    folders = [folder for folder in table2.subjects(options) if folder.name == "35"]
    if not folders:
        raise ValueError("motion capture of subject 35 is needed: --data DIR, with the folder 35")
    return [_cell(lab, options, folders[0])]


def _cell(lab: Lab, options: Options, folder: Path) -> Cell:
    def run() -> dict[str, Any]:
        data = table2.body(folder, LIMB, options)
        answers = table2.answers_of(table2.models(lab, data), data.task)
        panels = []
        for title, method, hands, most in PANELS:
            graph = answers[method].graph
            assert graph is not None
            mean = graph[..., GUIDING_TYPE].double().mean(0).numpy()
            edges = {
                hand: [[data.names[other], score] for other, score in focus_edges(mean, data.names.index(hand), most)]
                for hand in hands
            }
            panels.append({"title": title, "joints": data.names[: len(mean)], "edges": edges})
        skeleton = read_skeleton(next(folder.glob("*.[aA][sS][fF]")))
        pose = data.test.all_states[len(data.test) // 2, :, table2.FRAMES - 1, :3] * data.space.scale.position
        return {
            "panels": panels,
            "pose": dict(zip(data.names, pose.double().tolist(), strict=True)),
            "bones": [
                [joint, skeleton.joints[parent]]
                for joint, parent in zip(skeleton.joints, skeleton.parents, strict=True)
                if parent >= 0
            ],
        }

    key = table2.cell_key(lab, options, folder, LIMB)
    return Cell("focus", f"{folder.name}_{LIMB}", key, table2.needs(lab, options, folder, LIMB), run)


def write(results: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """The edges as Markdown, and ``folder/focus.png``, the six panels."""
    result = results[-1]
    drawing = Figure(figsize=(12, 4.6), layout="tight")
    FigureCanvasAgg(drawing)
    rows = []
    for axis, panel in zip(drawing.subplots(1, len(PANELS)), result["panels"], strict=True):
        draw(axis, panel, result["pose"], result["bones"])
        for hand, edges in panel["edges"].items():
            rows.append([panel["title"], hand, ", ".join(f"{name} {score:.2f}" for name, score in edges) or "none"])
    drawing.savefig(folder / "focus.png", dpi=120)
    return (
        f"joints that a hand is joined to with a score above {LEAST}, means over test windows; focus.png draws them\n\n"
        + table(["panel", "hand", "joints"], rows)
    )


def draw(axis: Axes, panel: Mapping[str, Any], pose: Mapping[str, Sequence[float]], bones: Sequence[Any]) -> None:
    """One panel: the body from the front, its joints that the method knows, and the edges of its hands."""
    known = set(panel["joints"])

    def line(one: str, other: str, **style: Any) -> None:
        axis.plot([pose[one][1], pose[other][1]], [pose[one][2], pose[other][2]], **style)

    for one, other in bones:
        shown = {one, other} <= known
        line(one, other, color="0.6" if shown else "0.9", linewidth=1.5, zorder=1)
    for name in known:
        axis.plot(pose[name][1], pose[name][2], ".", color="0.3", markersize=4, zorder=2)
    for hand, edges in panel["edges"].items():
        for name, score in edges:
            line(hand, name, color="tab:red", linewidth=0.5 + 1.5 * (score - LEAST) / (1 - LEAST), zorder=3)
        axis.plot(pose[hand][1], pose[hand][2], "o", color="tab:blue", markersize=7, zorder=4)
    axis.set(title=panel["title"], aspect="equal", xticks=[], yticks=[])
