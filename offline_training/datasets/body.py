"""Walking trials as training windows: limbs, split by trial, mirror images, headings. For walking bodies with CMU's
joint names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offline_training.datasets.cmu_mocap import Trial, every_second_frame

LEFT_ARM = ["lclavicle", "lhumerus", "lradius", "lwrist", "lhand", "lfingers", "lthumb"]  # the paper's masks
LEFT_LEG = ["lhipjoint", "lfemur", "ltibia", "lfoot", "ltoes"]
TEST = ("05", "11", "30")
VALIDATION = ("03", "09", "33")
FRAMES = 49  # T of the paper
STRIDE_SECONDS = 2.0  # a heading is the way walked in this time: longer than a stride, so that sway cancels
MINIMUM_WAY = 0.3  # m

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Walk:
    """A stretch of walking on the model's grid: positions [A, F, 3] (m, z up), true headings [F] (rad), and where it
    is from.
    """

    trial: str
    mirrored: bool
    positions: FloatArray
    headings: FloatArray

    def windows(self, frames: int = FRAMES, step: int = 1) -> FloatArray:
        """All windows [N, A, frames, 3] that start every `step` frames (a view)."""
        view = np.lib.stride_tricks.sliding_window_view(self.positions, frames, axis=1)  # [A, N, 3, frames]
        return view.transpose(1, 0, 3, 2)[::step]

    def window_headings(self, frames: int = FRAMES, step: int = 1) -> FloatArray:
        """True headings [N] at the newest time of each window."""
        return self.headings[frames - 1 :: step]


def mirrored_name(name: str, names: Sequence[str]) -> str:
    """The joint on the other side: lhand for rhand; a joint of the middle is its own mirror image."""
    other = {"l": "r", "r": "l"}.get(name[:1], "") + name[1:]
    return other if other in names else name


def limbs(names: Sequence[str]) -> dict[str, list[str]]:
    """The four limbs: the paper's left ones and their mirror images. Raises ValueError naming a joint that is not
    there.
    """
    left = {"arm": LEFT_ARM, "leg": LEFT_LEG}
    found = {f"left_{kind}": list(joints) for kind, joints in left.items()}
    found |= {f"right_{kind}": [mirrored_name(joint, names) for joint in joints] for kind, joints in left.items()}
    for limb, joints in found.items():
        missing = [joint for joint in joints if joint not in names]
        if missing or (limb.startswith("right") and set(joints) & set(found[limb.replace("right", "left")])):
            raise ValueError(f"{limb}: the skeleton has no {', '.join(missing) or 'mirrored joints'}")
    return found


def mirror_order(names: Sequence[str]) -> NDArray[np.int64]:
    """For each joint the index of its mirror image."""
    return np.array([list(names).index(mirrored_name(name, names)) for name in names])


def mirror(positions: FloatArray, order: NDArray[np.int64]) -> FloatArray:
    """Positions [A, F, 3] of the body seen in a mirror: left and right change places, y changes sign."""
    return positions[order] * np.array([1.0, -1.0, 1.0])


def way_headings(positions: FloatArray, rate: float) -> FloatArray:
    """Headings [F] (rad): the direction of the way that the centroid of [A, F, 3] walks in the two seconds around each
    frame.

    Raises ValueError where a body does not walk.
    """
    centre = positions.mean(0)[:, :2]
    frames = len(centre)
    half = int(round(STRIDE_SECONDS / 2 * rate))
    begin = np.clip(np.arange(frames) - half, 0, max(frames - 1 - 2 * half, 0))
    end = np.minimum(begin + 2 * half, frames - 1)
    way = centre[end] - centre[begin]
    if np.linalg.norm(way, axis=1).min() < MINIMUM_WAY:
        raise ValueError("the body stands still: its heading is taken from the way it walks")
    return np.arctan2(way[:, 1], way[:, 0])


def walks(trials: Sequence[Trial], numbers: Sequence[str] | None = None, mirrored: bool = False) -> list[Walk]:
    """The trials at half their rate, both phases apart, and their mirror images if asked for.

    numbers: endings of the trial names to take, such as "05"; None takes all.
    """
    out = []
    for trial in trials:
        if numbers is not None and trial.name.split("_")[-1] not in numbers:
            continue
        order = mirror_order(trial.joints)
        for phase in every_second_frame(trial):
            for flip in (False, True) if mirrored else (False,):
                positions = mirror(phase.positions, order) if flip else phase.positions
                out.append(Walk(trial.name, flip, positions, way_headings(positions, phase.rate)))
    return out


def training_numbers(trials: Sequence[Trial]) -> list[str]:
    """Numbers of the trials that train: all that are neither test nor validation."""
    return [number for trial in trials if (number := trial.name.split("_")[-1]) not in TEST + VALIDATION]
