"""Which trials are played, and what is published of them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs rclpy")
pytest.importorskip("siha_ros.msg", reason="needs the built messages")
pytestmark = pytest.mark.ros

SKELETON = """
:units
  length 1
  angle deg
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     name arm
     direction 1 0 0
     length 10
     axis 0 0 0  XYZ
  end
:hierarchy
  begin
    root arm
  end
"""
BUNDLE = """
format: 1
name: body
system: body
purpose: a test
count: 2
agent_names: [root, arm]
limbs: {left_arm: [arm]}
dims: 3
dt: 0.016666666666666666
window: 49
horizon: 25
frame: body
velocity: backward_difference
scale: {position: 1.0, velocity: 1.0}
edge_types: [none, link]
max_hidden: 1
hidden_sets: [left_arm]
rounds: 0
ranges: {agents: [2, 2], rate: [30, 240], speed: 10, extent: 3}
errors: {}
training: {command: none, data: none, seed: 0, trials: ['7_01'], samples: {}, minutes: {}, revision: '', versions: {}}
metrics: {}
modules: {}
"""

UNIT = 0.0254  # m: the skeleton's length is 1, so that a file unit is an inch


@pytest.fixture
def folders(tmp_path):
    """A bundle without modules, and a subject whose trials last 1.5 s and move ahead by 1 file unit a frame."""
    bundle, subject = tmp_path / "bundle", tmp_path / "subject"
    bundle.mkdir()
    (bundle / "bundle.yaml").write_text(BUNDLE)
    subject.mkdir()
    (subject / "7.asf").write_text(SKELETON)
    for trial in ("7_01", "7_02", "7_03"):
        frames = "".join(f"{k + 1}\nroot 0 0 {k} 0 0 0\n" for k in range(180))
        (subject / f"{trial}.amc").write_text(f":FULLY-SPECIFIED\n:DEGREES\n{frames}")
    return bundle, subject


def test_training_trials_are_refused_unless_forced():
    from siha_ros.demo.player import choose_trials

    available, training = ["35_01", "35_02", "35_05", "35_11"], ["35_01", "02"]
    assert choose_trials(available, training, [], False) == ["35_05", "35_11"]
    assert choose_trials(available, training, ["11", "35_05"], False) == ["35_11", "35_05"]
    with pytest.raises(ValueError, match="trial 35_02 is a training trial of the bundle: FORCE=1"):
        choose_trials(available, training, ["02"], False)
    assert choose_trials(available, training, ["02"], True) == ["35_02"]
    with pytest.raises(ValueError, match="no trial '12': expected one of 35_01"):
        choose_trials(available, training, ["12"], False)
    with pytest.raises(ValueError, match="every trial of the folder"):
        choose_trials(["35_01"], training, [], False)


def test_a_limb_is_lost_after_the_first_second(ear, folders):
    from siha_ros.msg import SkeletonFrame

    bundle, subject = folders
    one = ear({"/skeleton": SkeletonFrame, "/truth": SkeletonFrame})
    resets = one.answer_resets()
    begin = ("--bundle", bundle, "--duration", 4.5, "--wait-for", "demo_ear")
    assert one.run("siha_ros.demo.player", subject, *begin) == 0
    frames = one.heard["/skeleton"]
    stamps = np.array([stamp for stamp, _ in frames])
    assert np.median(np.diff(stamps)) == pytest.approx(1 / 120, abs=1e-4)
    truth = {stamp: np.array(message.positions).reshape(2, 3) for stamp, message in one.heard["/truth"]}
    assert sorted(truth) == sorted(stamps)
    number = np.round([truth[stamp][0, 0] / UNIT for stamp in stamps]).astype(int)  # of the frame in its trial
    starts = np.flatnonzero(np.diff(number) < 0) + 1
    assert len(starts) == 2 and len(resets) == 2  # 1.5 s, pause, 1.5 s, pause, half a second
    assert (stamps[starts] - stamps[starts - 1] > 0.45).all()
    for k, (stamp, message) in zip(number, frames, strict=True):
        positions = np.array(message.positions).reshape(2, 3)
        np.testing.assert_allclose(truth[stamp], UNIT * np.array([[k, 0, 0], [k, 10, 0]]), atol=1e-9)
        assert message.joints == ["root", "arm"] and message.group == "body"
        assert list(message.tracked) == [True, k < 120]
        np.testing.assert_array_equal(positions[0], truth[stamp][0])
        assert np.isnan(positions[1]).all() if k >= 120 else np.array_equal(positions[1], truth[stamp][1])
    for trial in np.split(np.stack([stamps, number], 1), starts):
        np.testing.assert_allclose(trial[:, 0] - trial[0, 0], (trial[:, 1] - trial[0, 1]) / 120, atol=1e-6)


def test_body_in_a_namespace_keeps_to_it(ear, folders):
    from siha_ros.msg import SkeletonFrame

    bundle, subject = folders
    one = ear({"/field/skeleton": SkeletonFrame, "/field/truth": SkeletonFrame, "/skeleton": SkeletonFrame})
    begin = ("--bundle", bundle, "--trial", "7_02", "--duration", 0.5, "--wait-for", "demo_ear")
    assert one.run("siha_ros.demo.player", subject, *begin, "--ros-args", "-r", "__ns:=/field") == 0
    assert len(one.heard["/field/skeleton"]) == len(one.heard["/field/truth"]) > 10
    assert not one.heard["/skeleton"]


def test_player_says_in_one_line_what_is_wrong(folders, capsys):
    from siha_ros.demo.player import load_trials

    bundle, subject = folders
    with pytest.raises(ValueError, match="expected one .asf file and .amc files, found 0 and 0"):
        load_trials(bundle, [], [], False)
    assert [trial.name for trial in load_trials(subject, ["7_01"], [], False)] == ["7_02", "7_03"]
