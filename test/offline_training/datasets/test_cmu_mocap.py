"""The ASF/AMC reader, against joints worked out by hand, broken files, and (where it is at hand) a real subject."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from offline_training.datasets.cmu_mocap import (
    INCH,
    MocapError,
    every_second_frame,
    joint_positions,
    load_subject,
    read_motion,
    read_skeleton,
)

SKELETON = """# a comment
:version 1.10
:units
  mass 1.0
  length 0.5
  angle deg
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     id 1
     name upper
     direction 1 0 0
     length 2
     axis 0 0 0  XYZ
    dof rx ry rz
    limits (-180 180)
           (-180 180)
           (-180 180)
  end
  begin
     id 2
     name lower
     direction 0 3 0
     length 1
     axis 0 0 90  XYZ
    dof rx
  end
  begin
     id 3
     name tip
     direction 0 0 1
     length 1
     axis 0 0 0  XYZ
  end
:hierarchy
  begin
    root upper
    upper lower
    lower tip
  end
"""
UNIT = INCH / 0.5  # metres per unit of length
REST = [[0, 0, 0], [2, 0, 0], [2, 1, 0], [2, 1, 1]]  # root, upper, lower, tip in the file's axes


def frame(number=1, root="0 0 0 0 0 0", upper="0 0 0", lower="0"):
    return f"{number}\nroot {root}\nupper {upper}\nlower {lower}\n"


def write(tmp_path, motion, skeleton=SKELETON, newline="\n"):
    (tmp_path / "hand.asf").write_bytes(skeleton.replace("\n", newline).encode())
    (tmp_path / "hand_01.amc").write_bytes(motion.replace("\n", newline).encode())
    return tmp_path


def joints(tmp_path, motion, skeleton=SKELETON, newline="\n"):
    """Positions [A, T, 3] back in the file's axes and units."""
    (trial,) = load_subject(write(tmp_path, motion, skeleton, newline))
    assert trial.joints == ["root", "upper", "lower", "tip"] and trial.rate == 120.0
    return trial.positions[..., [1, 2, 0]] / UNIT


HEADER = "#!OML:ASF hand.asf\n:FULLY-SPECIFIED\n:DEGREES\n"


def test_rest_pose_in_metres_with_z_up(tmp_path):
    (trial,) = load_subject(write(tmp_path, HEADER + frame(root="1 20 3 0 0 0")))
    # the file's x is the subject's left, y up, z ahead
    expected = [[x + 1, y + 20, z + 3] for x, y, z in REST]
    np.testing.assert_allclose(
        trial.positions[:, 0], [[z * UNIT, x * UNIT, y * UNIT] for x, y, z in expected], atol=1e-12
    )


@pytest.mark.parametrize(
    ("motion", "expected"),
    [
        (frame(root="0 0 0 0 0 90"), [[0, 0, 0], [0, 2, 0], [-1, 2, 0], [-1, 2, 1]]),
        (frame(upper="0 0 90"), [[0, 0, 0], [0, 2, 0], [-1, 2, 0], [-1, 2, 1]]),
        # lower turns about its own x axis, which its `axis` line has turned onto the file's y: tip swings from z to x
        (frame(lower="90"), [[0, 0, 0], [2, 0, 0], [2, 1, 0], [3, 1, 0]]),
        # x first, then y: upper's (1,0,0) goes to -z; its lower child's (0,1,0) goes to z, then to x; (0,0,1) to -y
        (frame(upper="90 90 0"), [[0, 0, 0], [0, 0, -2], [1, 0, -2], [1, -1, -2]]),
    ],
)
def test_hand_checked_joints(tmp_path, motion, expected):
    np.testing.assert_allclose(joints(tmp_path, HEADER + motion)[:, 0], expected, atol=1e-9)


def test_axis_order_is_the_order_of_rotation(tmp_path):
    skeleton = SKELETON.replace("axis 0 0 0  XYZ\n    dof rx ry rz", "axis 0 0 0  YXZ\n    dof rx ry rz")
    # y first: upper's (1,0,0) goes to (0,0,-1), then x turns that to (0,1,0); lower's (0,1,0) goes to (0,0,1)
    found = joints(tmp_path, HEADER + frame(upper="90 90 0"), skeleton)[:, 0]
    np.testing.assert_allclose(found[:3], [[0, 0, 0], [0, 2, 0], [0, 2, 1]], atol=1e-9)


def test_order_of_the_values(tmp_path):
    skeleton = SKELETON.replace("dof rx ry rz", "dof rz rx ry").replace(
        "order TX TY TZ RX RY RZ", "order RZ RY RX TX TY TZ"
    )
    found = joints(tmp_path, HEADER + frame(root="90 0 0 5 6 7", upper="90 0 0"), skeleton)[:, 0]
    # the root turns x onto y, upper turns once more: upper's (1,0,0) points to -x, lower's (0,1,0) to -y
    np.testing.assert_allclose(found[:3], [[5, 6, 7], [3, 6, 7], [3, 5, 7]], atol=1e-9)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_missing_header_blank_lines_and_line_ends(tmp_path, newline):
    motion = "\n\n" + frame(1, upper="0 0 90") + "\n" + frame(2, upper="0 0 90")
    found = joints(tmp_path, motion, newline=newline)
    np.testing.assert_allclose(found[1], [[0, 2, 0], [0, 2, 0]], atol=1e-9)


def test_units(tmp_path):
    radians = SKELETON.replace("angle deg", "angle rad").replace("axis 0 0 90", f"axis 0 0 {np.pi / 2}")
    motion = frame(upper=f"0 0 {np.pi / 2}", lower=f"{np.pi / 2}")
    np.testing.assert_allclose(joints(tmp_path, motion, radians)[3, 0], [-1, 3, 0], atol=1e-9)
    np.testing.assert_allclose(
        joints(tmp_path, HEADER + frame(upper="0 0 90", lower="90"))[3, 0], [-1, 3, 0], atol=1e-9
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lower 0", "lower 0 0", "hand_01.amc:7: lower has 2 values, expected 1"),
        ("lower 0", "", "hand_01.amc:6: frame 1 ends without a line for lower"),
        ("lower 0", "nose 0", "hand_01.amc:7: 'nose' is none of the skeleton's 4 bones"),
        ("lower 0", "lower x", "hand_01.amc:7: expected numbers, got 'x'"),
        ("lower 0", "lower nan", "hand_01.amc:7: expected finite numbers, got 'nan'"),
        ("lower 0", "lower 0\nupper 0 0 0", "hand_01.amc:8: a second line for upper, expected frame 2"),
        ("lower 0", "lower 0\n3", "hand_01.amc:8: frame 3 follows frame 1, expected 2"),
        ("1\nroot", "root", "hand_01.amc:4: values, expected a frame number first"),
    ],
)
def test_errors_in_a_motion_name_file_and_line(tmp_path, old, new, message):
    motion = HEADER + frame()
    with pytest.raises(MocapError) as error:
        load_subject(write(tmp_path, motion.replace(old, new, 1)))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("length 2", "length two", "hand.asf:17: expected numbers, got 'two'"),
        ("     length 2\n", "", "hand.asf:22: expected length in the bone that begins in line 13"),
        (
            "direction 0 3 0",
            "direction 0 0 0",
            "hand.asf:31: the direction of lower is zero, expected a vector of some length",
        ),
        (
            "XYZ\n    dof rx ry rz",
            "XYX\n    dof rx ry rz",
            "hand.asf:18: expected an axis order such as XYZ, got 'XYX'",
        ),
        ("dof rx ry rz", "dof rx ry tz", "hand.asf:19: degree of freedom TZ: expected RX RY RZ, each at most once"),
        (
            "    lower tip\n",
            "",
            "hand.asf:43: expected a way to the root in the hierarchy for every bone, none for tip",
        ),
        (
            "    lower tip\n",
            "    lower top\n",
            "hand.asf:43: the hierarchy names 'top', which is no bone, expected one of :bonedata",
        ),
        ("length 0.5", "length 0", "hand.asf:5: length must be positive, got 0"),
    ],
)
def test_errors_in_a_skeleton_name_file_and_line(tmp_path, old, new, message):
    with pytest.raises(MocapError) as error:
        load_subject(write(tmp_path, HEADER + frame(), SKELETON.replace(old, new, 1)))
    assert str(error.value) == message


def test_a_folder_without_a_skeleton(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected one .asf file and at least one .amc file, found 0 and 0"):
        load_subject(tmp_path)


def test_every_second_frame_keeps_both_phases(tmp_path):
    (trial,) = load_subject(write(tmp_path, HEADER + "".join(frame(n, root=f"{n} 0 0 0 0 0") for n in range(1, 6))))
    even, odd = every_second_frame(trial)
    assert even.rate == odd.rate == 60.0
    np.testing.assert_allclose(even.positions[0, :, 1] / UNIT, [1, 3, 5])
    np.testing.assert_allclose(odd.positions[0, :, 1] / UNIT, [2, 4])


@pytest.fixture(scope="module")
def subject():
    folder = Path(os.environ.get("SIHA_DATA", Path(__file__).parents[4] / "shared" / "data")) / "cmu" / "35"
    if not folder.is_dir():
        pytest.skip(f"no CMU subject 35 in {folder}; SIHA_DATA names the data folder")
    return folder


def test_a_real_subject_is_a_walking_body(subject):
    skeleton = read_skeleton(subject / "35.asf")
    trials = load_subject(subject)
    assert len(trials) == 20 and sum(trial.positions.shape[1] for trial in trials) == 8335
    left, right = trials[0].joints.index("lhipjoint"), trials[0].joints.index("rhipjoint")
    for trial in trials:
        bones = trial.positions[1:] - trial.positions[skeleton.parents[1:]]
        lengths = np.linalg.norm(bones, axis=-1)
        assert np.abs(lengths - np.linalg.norm(skeleton.offsets[1:], axis=-1)[:, None]).max() < 1e-9
        travel = (trial.positions[0, -1] - trial.positions[0, 0]) / ((trial.positions.shape[1] - 1) / trial.rate)
        assert 1.0 < np.linalg.norm(travel[:2]) < 1.4 and abs(travel[2]) < 0.05  # m/s
        across = (trial.positions[left] - trial.positions[right]).mean(axis=0)
        assert travel[0] * across[1] - travel[1] * across[0] > 0.1 * np.linalg.norm(travel[:2])  # left is on the left
        assert -0.02 < trial.positions[..., 2].min() < 0.06 and 1.6 < trial.positions[..., 2].max() < 1.8


def test_a_file_without_its_header_lines_is_the_same_walk():
    """Subject 69 as it is passed on: no header, CRLF in the skeleton. Its steps are a walk of human speed and size."""
    folder = Path(os.environ.get("SIHA_DATA", Path(__file__).parents[4] / "shared" / "data")) / "cmu" / "69"
    if not folder.is_dir():
        pytest.skip(f"no CMU subject 69 in {folder}; SIHA_DATA names the data folder")
    assert (
        b":DEGREES" not in next(folder.glob("*.amc")).read_bytes()
        and b"\r\n" in next(folder.glob("*.asf")).read_bytes()
    )
    (trial,) = load_subject(folder)
    assert trial.positions.shape == (31, 469, 3)
    assert 1.5 < trial.positions[..., 2].max() < 1.8 and -0.02 < trial.positions[..., 2].min() < 0.06
    path = np.linalg.norm(np.diff(trial.positions[0, :, :2], axis=0), axis=-1)
    assert 0.5 < path.sum() / (468 / trial.rate) < 1.6  # m/s along the way


def test_500_frames_are_read_quickly(subject, tmp_path):
    """From the file to positions: under 50 ms where Python reads the numbers alone in 8, elsewhere by that measure."""
    skeleton = read_skeleton(subject / "35.asf")
    frames = (subject / "35_29.amc").read_text().split(":DEGREES\n")[1].splitlines()
    motion, per_frame = [], 30
    for number in range(500):
        start = per_frame * (number % (len(frames) // per_frame))
        motion += [str(number + 1), *frames[start + 1 : start + per_frame]]
    file = tmp_path / "500.amc"
    file.write_text("\n".join(motion))

    def least_seconds(read):
        begins = []
        for _ in range(5):
            begins.append((time.process_time(), read(), time.process_time()))
        return min(end - begin for begin, _, end in begins), begins[0][1]

    def numbers():
        return [[float(word) for word in line.split()[1:]] for line in file.read_text().splitlines()]

    alone, _ = least_seconds(numbers)
    whole, positions = least_seconds(lambda: joint_positions(skeleton, read_motion(file, skeleton)))
    assert positions.shape == (31, 500, 3)
    assert whole < alone * 50 / 8
