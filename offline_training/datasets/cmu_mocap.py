"""Reads Acclaim motion capture (an ASF skeleton and its AMC motions, as the CMU database gives them) as joint
positions.

Positions are metres with z up; at rest the subject faces +x and its left is +y. Any skeleton of the format is read:
other axis orders, units and line ends, blank lines, comments, and AMC files without their header. What cannot be read
is one `MocapError` with file and line. Translating or stretching bones (degrees of freedom tx, ty, tz, l) are not
supported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CMU_RATE = 120.0  # Hz; the files do not say it
INCH = 0.0254  # m; the unit of an ASF file is an inch over its `length` factor
_ROTATIONS = ("RX", "RY", "RZ")


class MocapError(ValueError):
    """A motion capture file that cannot be read; the message starts with file and line."""

    def __init__(self, path: Path, line: int, message: str):
        super().__init__(f"{path.name}:{line}: {message}")


@dataclass(frozen=True)
class Trial:
    """One recorded motion: `positions` [A, T, 3] in metres, z up, of the named joints at `rate` Hz."""

    name: str
    joints: list[str]
    positions: np.ndarray
    rate: float


@dataclass(frozen=True)
class Skeleton:
    """An ASF skeleton: the root, then the bones in file order; a joint's position is the far end of its bone.

    Lengths are in metres and angles in radians already; axes are the file's (y up).
    """

    joints: list[str]
    parents: np.ndarray  # int [A], the index of the parent joint, -1 for the root
    offsets: np.ndarray  # f8 [A, 3], the bone at rest; for the root where it stands at rest
    axes: np.ndarray  # f8 [A, 3, 3], the frame in which the joint's angles are given
    orders: list[str]  # per joint, the axes in the order in which they are applied, "XYZ"
    channels: list[list[str]]  # per joint, the meaning of its values in the AMC file, "TX" ... "RZ"
    metres: float  # length of one file unit
    radians: float  # size of one file angle


def load_subject(folder: str | Path, rate: float = CMU_RATE) -> list[Trial]:
    """All motions of a folder that holds one `.asf` file and its `.amc` files, sorted by name."""
    folder = Path(folder)
    skeletons = sorted(path for path in folder.glob("*") if path.suffix.lower() == ".asf")
    motions = sorted(path for path in folder.glob("*") if path.suffix.lower() == ".amc")
    if len(skeletons) != 1 or not motions:
        raise FileNotFoundError(
            f"{folder}: expected one .asf file and at least one .amc file, found {len(skeletons)} and {len(motions)}"
        )
    skeleton = read_skeleton(skeletons[0])
    return [
        Trial(path.stem, skeleton.joints, joint_positions(skeleton, read_motion(path, skeleton)), rate)
        for path in motions
    ]


def read_skeleton(path: str | Path) -> Skeleton:
    """Read an ASF file; raises `MocapError`."""
    path = Path(path)
    return _SkeletonParser(path).skeleton()


def read_motion(path: str | Path, skeleton: Skeleton) -> np.ndarray:
    """Read an AMC file of this skeleton: f8 [T, A, 6], per frame and joint TX TY TZ (m) and RX RY RZ (rad).

    Channels that a joint does not have are zero. Frame numbers must be consecutive and every frame complete.
    """
    path = Path(path)
    index = {name: i for i, name in enumerate(skeleton.joints)}
    slots = [
        ["TX", "TY", "TZ", *_ROTATIONS].index(c) + 6 * i
        for i, channels in enumerate(skeleton.channels)
        for c in channels
    ]
    starts = np.cumsum([0] + [len(channels) for channels in skeleton.channels])
    moving = {i for i, channels in enumerate(skeleton.channels) if channels}
    radians = skeleton.radians
    frames: list[list[float]] = []
    seen: set[int] = moving
    number = None
    line = 0

    def check_complete() -> None:
        if moving - seen:
            missing = ", ".join(skeleton.joints[i] for i in sorted(moving - seen))
            raise MocapError(path, line, f"frame {number} ends without a line for {missing}")

    for line, words in _lines(path):
        if words[0].startswith(":"):
            if words[0].upper() in (":DEGREES", ":RADIANS"):
                radians = np.pi / 180 if words[0].upper() == ":DEGREES" else 1.0
        elif len(words) == 1 and words[0].isdigit():
            check_complete()
            if number is not None and int(words[0]) != number + 1:
                raise MocapError(path, line, f"frame {words[0]} follows frame {number}, expected {number + 1}")
            number, seen = int(words[0]), set()
            frames.append([0.0] * len(slots))
        else:
            joint = index.get(words[0])
            if joint is None:
                raise MocapError(path, line, f"'{words[0]}' is none of the skeleton's {len(index)} bones")
            if number is None:
                raise MocapError(path, line, "values, expected a frame number first")
            if joint in seen:
                raise MocapError(path, line, f"a second line for {words[0]}, expected frame {number + 1}")
            if len(words) - 1 != len(skeleton.channels[joint]):
                raise MocapError(
                    path, line, f"{words[0]} has {len(words) - 1} values, expected {len(skeleton.channels[joint])}"
                )
            seen.add(joint)
            frames[-1][starts[joint] : starts[joint + 1]] = _numbers(path, line, words[1:])
    check_complete()
    if not frames:
        raise MocapError(path, max(line, 1), "no frame found, expected a line with its number and one for each bone")
    motion = np.zeros((len(frames), len(skeleton.joints) * 6))
    motion[:, slots] = frames
    return motion.reshape(len(frames), -1, 6) * np.repeat([skeleton.metres, radians], 3)


def joint_positions(skeleton: Skeleton, motion: np.ndarray) -> np.ndarray:
    """Forward kinematics: motion [T, A, 6] (m, rad) to positions [A, T, 3] in metres, z up."""
    rotations = skeleton.axes @ _euler_matrices(motion[..., 3:], skeleton.orders) @ skeleton.axes.swapaxes(-1, -2)
    world = np.empty_like(rotations)  # [T, A, 3, 3]
    positions = np.empty(motion.shape[:2] + (3,))
    for joint in _parents_first(skeleton.parents):
        parent = skeleton.parents[joint]
        if parent < 0:
            world[:, joint] = rotations[:, joint]
            positions[:, joint] = skeleton.offsets[joint] + motion[:, joint, :3]
        else:
            world[:, joint] = world[:, parent] @ rotations[:, joint]
            positions[:, joint] = positions[:, parent] + world[:, joint] @ skeleton.offsets[joint]
    return positions[..., [2, 0, 1]].swapaxes(0, 1).copy()  # the file's z (ahead), x (left), y (up)


def every_second_frame(trial: Trial) -> list[Trial]:
    """The trial at half its rate: one trial that starts at its first frame and one that starts at its second."""
    return [Trial(trial.name, trial.joints, trial.positions[:, phase::2], trial.rate / 2) for phase in (0, 1)]


def _euler_matrices(angles: np.ndarray, orders: list[str]) -> np.ndarray:
    """Rotation matrices [..., A, 3, 3] of angles [..., A, 3] about x, y, z, applied in each joint's order about
    fixed axes.
    """
    cos, sin = np.cos(angles), np.sin(angles)
    about = {}
    for k, axis in enumerate("XYZ"):
        i, j = (k + 1) % 3, (k + 2) % 3
        about[axis] = np.zeros(angles.shape + (3,))
        about[axis][..., k, k] = 1.0
        about[axis][..., i, i] = about[axis][..., j, j] = cos[..., k]
        about[axis][..., i, j], about[axis][..., j, i] = -sin[..., k], sin[..., k]
    matrices = np.empty(angles.shape + (3,))
    for order in set(orders):
        joints = [i for i, o in enumerate(orders) if o == order]
        first, second, third = (about[axis][..., joints, :, :] for axis in order)
        matrices[..., joints, :, :] = third @ second @ first
    return matrices


def _parents_first(parents: np.ndarray) -> list[int]:
    depth = []
    for joint in range(len(parents)):
        steps = 0
        while parents[joint] >= 0:
            joint, steps = parents[joint], steps + 1
        depth.append(steps)
    return [int(i) for i in np.argsort(depth, kind="stable")]


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and words of every line that is neither blank nor a comment."""
    for number, text in enumerate(path.read_text(encoding="latin-1").splitlines(), start=1):
        words = text.split("#", 1)[0].split()
        if words:
            yield number, words


def _numbers(path: Path, line: int, words: list[str]) -> list[float]:
    try:
        values = [float(word) for word in words]
    except ValueError:
        raise MocapError(path, line, f"expected numbers, got '{' '.join(words)}'") from None
    if not math.isfinite(sum(values)):
        raise MocapError(path, line, f"expected finite numbers, got '{' '.join(words)}'")
    return values


class _SkeletonParser:
    """One pass over an ASF file, section by section."""

    def __init__(self, path: Path):
        self.path = path
        self.line = 1
        self.length = 1.0
        self.degrees = True
        self.bones: list[dict] = [{"name": "root", "order": "XYZ", "channels": [], "line": 1}]
        self.parent_of: dict[str, str] = {}
        section = ""
        bone: dict | None = None
        for self.line, words in _lines(path):
            key = words[0].lower()
            if key.startswith(":"):
                section = key
            elif section == ":units":
                self._unit(key, words)
            elif section == ":root":
                self._root(key, words)
            elif section == ":bonedata":
                if key == "begin":
                    bone = {"order": "XYZ", "angles": [0.0, 0.0, 0.0], "channels": [], "line": self.line}
                elif bone is None:
                    raise self._error(f"'{words[0]}' outside begin and end, expected begin")
                elif key == "end":
                    self._close(bone)
                    bone = None
                else:
                    self._bone(bone, key, words)
            elif section == ":hierarchy" and key not in ("begin", "end"):
                for name in words:
                    if not any(name == known["name"] for known in self.bones):
                        raise self._error(f"the hierarchy names '{name}', which is no bone, expected one of :bonedata")
                for child in words[1:]:
                    if child in self.parent_of:
                        raise self._error(f"{child}: expected one parent, got {self.parent_of[child]} and {words[0]}")
                    self.parent_of[child] = words[0]

    def skeleton(self) -> Skeleton:
        metres = INCH / self.length
        radians = np.pi / 180 if self.degrees else 1.0
        joints = [bone["name"] for bone in self.bones]
        index = {name: i for i, name in enumerate(joints)}
        unplaced = [name for name in joints[1:] if self._distance_to_root(name) is None]
        if unplaced or not joints[1:]:
            raise self._error(
                f"expected a way to the root in the hierarchy for every bone, none for {', '.join(unplaced) or 'any'}"
            )
        orders = [bone["order"] for bone in self.bones]
        angles = np.array([bone.get("angles", [0.0, 0.0, 0.0]) for bone in self.bones])
        return Skeleton(
            joints=joints,
            parents=np.array([-1] + [index[self.parent_of[name]] for name in joints[1:]]),
            offsets=np.array([bone.get("offset", [0.0, 0.0, 0.0]) for bone in self.bones]) * metres,
            axes=_euler_matrices(angles * radians, orders),
            orders=orders,
            channels=[bone["channels"] for bone in self.bones],
            metres=metres,
            radians=radians,
        )

    def _distance_to_root(self, name: str) -> int | None:
        for steps in range(len(self.bones)):
            if name == "root":
                return steps
            name = self.parent_of.get(name, "")
        return None

    def _unit(self, key: str, words: list[str]) -> None:
        if key == "length":
            self.length = self._values(words, 1)[0]
            if self.length <= 0:
                raise self._error(f"length must be positive, got {words[1]}")
        elif key == "angle":
            if len(words) < 2 or words[1][:3].lower() not in ("deg", "rad"):
                raise self._error("angle must be deg or rad")
            self.degrees = words[1][:3].lower() == "deg"

    def _root(self, key: str, words: list[str]) -> None:
        root = self.bones[0]
        if key == "order":
            root["channels"] = self._channels(words[1:], ("TX", "TY", "TZ", *_ROTATIONS))
        elif key == "axis":
            root["order"] = self._order(words)
        elif key == "position":
            root["offset"] = self._values(words, 3)
        elif key == "orientation" and any(self._values(words, 3)):
            raise self._error("a root orientation other than 0 0 0 is not supported")

    def _bone(self, bone: dict, key: str, words: list[str]) -> None:
        if key == "name":
            bone["name"] = words[-1]
        elif key == "direction":
            bone["direction"] = self._values(words, 3)
        elif key == "length":
            bone["length"] = self._values(words, 1)[0]
        elif key == "axis":  # angles about x, y, z; the letters are the order in which they are applied
            bone["angles"], bone["order"] = self._values(words, 3), self._order(words)
        elif key == "dof":
            bone["channels"] = self._channels(words[1:], _ROTATIONS)

    def _close(self, bone: dict) -> None:
        for field in ("name", "direction", "length"):
            if field not in bone:
                raise self._error(f"expected {field} in the bone that begins in line {bone['line']}")
        if any(bone["name"] == other["name"] for other in self.bones):
            raise self._error(f"a second bone named {bone['name']}, expected another name")
        norm = float(np.linalg.norm(bone["direction"]))
        if norm == 0.0:
            raise self._error(f"the direction of {bone['name']} is zero, expected a vector of some length")
        bone["offset"] = [d * bone["length"] / norm for d in bone["direction"]]
        self.bones.append(bone)

    def _order(self, words: list[str]) -> str:
        order = words[-1].upper()
        if sorted(order) != ["X", "Y", "Z"]:
            raise self._error(f"expected an axis order such as XYZ, got '{words[-1]}'")
        return order

    def _channels(self, words: list[str], known: tuple[str, ...]) -> list[str]:
        channels = [word.upper() for word in words]
        for channel in channels:
            if channel not in known or channels.count(channel) > 1:
                raise self._error(f"degree of freedom {channel}: expected {' '.join(known)}, each at most once")
        return channels

    def _values(self, words: list[str], count: int) -> list[float]:
        if len(words) < count + 1:
            raise self._error(f"{words[0]} needs {count} values, got {len(words) - 1}")
        return _numbers(self.path, self.line, words[1 : count + 1])

    def _error(self, message: str) -> MocapError:
        return MocapError(self.path, self.line, message)
