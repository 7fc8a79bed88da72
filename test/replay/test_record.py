"""Recordings as bags: who is seen is in it, and who is not is silent or untracked."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.cli import main
from siha_ros.replay.bag import Bag
from siha_ros.replay.record import BEGIN, write_tracks

NAN = np.nan
STAMPS = np.array([50.0, 50.1, 50.25])
TRACKS = np.array([[[1.0, 2.0], [1.5, 2.0], [2.0, 2.0]], [[0.0, 0.0], [NAN, NAN], [3.0, 4.0]]])


def messages(path):
    """(topic, time of recording after the begin, message) of a bag."""
    with Bag(path) as bag:
        return [(entry.topic, entry.time - BEGIN, bag.read(entry)) for entry in bag.messages()]


def test_a_team_has_a_pose_for_every_sample(tmp_path):
    assert write_tracks(tmp_path / "bag", ["a", "b"], STAMPS, TRACKS, skeleton=False) == 5
    found = messages(tmp_path / "bag")
    assert [(topic, round(time, 3)) for topic, time, _ in found] == [
        ("/a/pose", 0.0),
        ("/b/pose", 0.0),
        ("/a/pose", 0.1),
        ("/a/pose", 0.25),
        ("/b/pose", 0.25),
    ]
    last = found[-1][2]
    assert (last.pose.position.x, last.pose.position.y, last.pose.position.z) == (3.0, 4.0, 0.0)
    assert (last.pose.orientation.w, last.header.frame_id) == (1.0, "map")
    assert (last.header.stamp.sec, last.header.stamp.nanosec) == (1, 250_000_000)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_skeleton_says_who_is_tracked(storage, tmp_path):
    tracks = np.concatenate([TRACKS, np.full((2, 3, 1), 7.0)], axis=-1)
    assert write_tracks(tmp_path / "bag", ["a", "b"], STAMPS, tracks, skeleton=True, storage=storage) == 3
    found = messages(tmp_path / "bag")
    assert [topic for topic, _, _ in found] == ["/skeleton"] * 3
    assert found[1][2].tracked.tolist() == [True, False] and found[1][2].joints == ["a", "b"]
    assert found[2][2].positions.tolist() == [2.0, 2.0, 7.0, 3.0, 4.0, 7.0]


def test_files_of_a_team_become_bags(tmp_path, capsys):
    rows = ["time,x,y,agent"] + [f"{t / 10},{t + a},{a},r{a}" for t in range(5) for a in range(2)]
    (tmp_path / "run.csv").write_text("\n".join(rows) + "\n")
    assert main(["data", "bag", str(tmp_path / "run.csv"), "--to", str(tmp_path / "bags")]) == 0
    assert "run: 2 agents, 0.4 s, 10 messages" in capsys.readouterr().out
    found = [
        message.pose.position.x for topic, _, message in messages(tmp_path / "bags" / "run") if topic == "/r1/pose"
    ]
    assert found == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert main(["data", "bag", str(tmp_path / "run.csv"), "--to", str(tmp_path / "bags")]) == 2
    assert "exists already" in capsys.readouterr().err
    far = ["data", "bag", str(tmp_path / "run.csv"), "--to", str(tmp_path / "far"), "--time-unit", "1e300"]
    assert main(far) == 2
    assert "run: 4e+299 s, longer than a stamp of ROS tells: are they in seconds?" in capsys.readouterr().err
    assert not (tmp_path / "far" / "run").exists()


@pytest.mark.data
def test_motion_capture_becomes_a_skeleton(shared_data, tmp_path):
    from offline_training.datasets.cmu_mocap import joint_positions, read_motion, read_skeleton

    folder = shared_data / "cmu" / "35"
    assert main(["data", "bag", str(folder), "--to", str(tmp_path), "--names", "35_05"]) == 0
    assert main(["data", "bag", str(folder), "--to", str(tmp_path), "--names", "35_05,nope"]) == 2
    skeleton = read_skeleton(folder / "35.asf")
    positions = joint_positions(skeleton, read_motion(folder / "35_05.amc", skeleton))
    found = messages(tmp_path / "35_05")
    assert len(found) == positions.shape[1] and found[0][2].joints == skeleton.joints
    assert found[-1][1] == pytest.approx((len(found) - 1) / 120, abs=1e-6)
    assert np.array_equal(found[200][2].positions.reshape(-1, 3), positions[:, 200])
