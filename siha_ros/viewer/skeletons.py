"""Which joints of a body are joined by a bone, for drawing only: built-in skeletons, or a user's YAML file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Bone = tuple[str, str]

# CMU motion capture, 31 joints: the hierarchy section of the data set's .asf files.
CMU_CHAINS = (
    ("root", "lowerback", "upperback", "thorax", "lowerneck", "upperneck", "head"),
    ("root", "lhipjoint", "lfemur", "ltibia", "lfoot", "ltoes"),
    ("root", "rhipjoint", "rfemur", "rtibia", "rfoot", "rtoes"),
    ("thorax", "lclavicle", "lhumerus", "lradius", "lwrist", "lhand", "lfingers"),
    ("thorax", "rclavicle", "rhumerus", "rradius", "rwrist", "rhand", "rfingers"),
    ("lwrist", "lthumb"),
    ("rwrist", "rthumb"),
)
CMU_BONES: tuple[Bone, ...] = tuple(pair for chain in CMU_CHAINS for pair in zip(chain[:-1], chain[1:], strict=True))


def load_bones(path: str | Path) -> tuple[Bone, ...]:
    """Read bones from a YAML file holding a list of joint pairs, e.g. `- [elbow, wrist]`.

    Raises:
        ValueError: one line, when the file is not such a list.
    """
    import yaml

    try:
        pairs = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"bones file {path}: cannot be read ({str(error).splitlines()[0]})") from error
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(joint, str) for joint in pair) for pair in pairs
    ):
        raise ValueError(f"bones file {path}: expected a YAML list of joint pairs such as [elbow, wrist]")
    return tuple((first, second) for first, second in pairs)


def bone_indices(names: list[str], bones: Iterable[Bone]) -> list[tuple[int, int]]:
    """The bones between joints that are in `names`, as index pairs; names that are not joints have none."""
    index = {name: i for i, name in enumerate(names)}
    return [(index[a], index[b]) for a, b in bones if a in index and b in index]


def chain_ends(count: int, bones: list[tuple[int, int]]) -> set[int]:
    """Joints with exactly one bone (head, fingers, toes) among `count` joints."""
    degree = [0] * count
    for a, b in bones:
        degree[a] += 1
        degree[b] += 1
    return {i for i in range(count) if degree[i] == 1}
