"""Readers: the same team in every layout gives the same tracks; gaps stay gaps; what is wrong is said with file and
line."""

from __future__ import annotations

import gzip
import importlib.util
import lzma
import sys

import numpy as np
import pytest

from offline_training.recordings.recording import (
    ReadOptions,
    Recording,
    RecordingError,
    Track,
    from_tracks,
    read_recordings,
)

STAMPS = np.array([10.0, 10.5, 11.0, 12.0])
A = np.array([[0.0, 1.0], [0.5, 1.5], [1.0, 2.0], [2.0, 3.0]])
B = np.array([[5.0, -1.0], [np.nan, np.nan], [5.0, -2.0], [5.0, -3.0]])  # not seen at 10.5
WIDE = "time,a_x,a_y,b.X,b.Y,battery\n10,0,1,5,-1,9\n10.5,.5,1.5,,,9\n\n11,1,2,5,-2,9\n12,2,3,nan,-3,9\n"


def read(tmp_path, name, text, options=None):
    (tmp_path / name).write_text(text)
    return read_recordings(tmp_path, options)


def test_wide(tmp_path):
    (found,) = read(tmp_path, "team.csv", WIDE)
    assert found.names == ["a", "b"] and found.velocities is None and found.source.endswith("team.csv")
    np.testing.assert_array_equal(found.stamps, STAMPS)
    np.testing.assert_array_equal(found.positions[0], A)
    np.testing.assert_array_equal(found.observed, [[1, 1, 1, 1], [1, 0, 1, 0]])  # half a position is none
    np.testing.assert_array_equal(found.positions[1, [0, 2]], B[[0, 2]])
    assert np.isnan(found.positions[1, [1, 3]]).all()


@pytest.mark.parametrize("mark", [";", "\t"])
def test_cells_are_parted_by_other_marks(tmp_path, mark):
    (found,) = read(tmp_path, "team.csv", WIDE.replace(",", mark))
    (plain,) = read(tmp_path, "team.csv", WIDE)
    np.testing.assert_array_equal(found.positions, plain.positions)


def test_long_with_frames_and_velocities(tmp_path):
    text = "id,frame,label,x_est [cm],y_est [cm],vx_est,vy_est\n"
    text += "7,104,ped,100,200,1,2\n3,103,ped,0,0,3,4\n7,103,ped,90,190,5,6\n"
    (found,) = read(tmp_path, "people.csv", text, ReadOptions(rate=10, unit=0.01))
    assert found.names == ["7", "3"]
    np.testing.assert_allclose(found.stamps, [10.3, 10.4])
    np.testing.assert_allclose(found.positions[0], [[0.9, 1.9], [1, 2]])
    np.testing.assert_allclose(found.velocities[0], [[0.05, 0.06], [0.01, 0.02]])
    np.testing.assert_array_equal(found.observed, [[1, 1], [1, 0]])
    assert np.isnan(found.velocities[1, 1]).all()


def test_one_file_for_each_agent_is_one_recording_and_its_stamps_may_differ(tmp_path):
    (tmp_path / "cf1.csv").write_text("# time[ms],x[m],y[m],z[m],u1[N],u1[PWM]\n1000,0,0,1,8,9\n2000,1,0,1,8,9\n")
    with gzip.open(tmp_path / "cf2.csv.gz", "wt") as file:
        file.write("t,x,y,z\n1.5,0,2,1\n")
    with lzma.open(tmp_path / "cf3.csv.xz", "wt") as file:
        file.write("stamp,x,y,z\n# a comment\n1.0,0,3,2\n")
    (found,) = read_recordings(tmp_path)
    assert found.names == ["cf1", "cf2", "cf3"] and found.dims == 3 and found.source == str(tmp_path)
    np.testing.assert_allclose(found.stamps, [1.0, 1.5, 2.0])
    np.testing.assert_array_equal(found.observed, [[1, 0, 1], [0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(found.positions[2, 0], [0, 3, 2])
    assert found.interval == 1.0


def test_names_of_files_may_have_dots(tmp_path):
    for number in range(3):
        (tmp_path / f"robot.{number}.csv").write_text(f"t,x,y\n0,{number},0\n1,{number},1\n")
    (found,) = read_recordings(tmp_path)
    assert found.names == ["robot.0", "robot.1", "robot.2"]
    np.testing.assert_array_equal(found.positions[:, 0, 0], [0, 1, 2])
    with gzip.open(tmp_path / "robot.2.csv.gz", "wt") as file:
        file.write("t,x,y\n0,9,0\n")
    with pytest.raises(RecordingError, match=r"robot.2.csv.gz: a second file of agent robot.2, beside robot.2.csv$"):
        read_recordings(tmp_path)


def test_files_of_one_agent_each_are_in_the_plane_or_in_space_together(tmp_path):
    (tmp_path / "high.csv").write_text("t,x,y,z\n0,0,0,1\n1,0,0,2\n")
    (tmp_path / "low.csv").write_text("t,x,y,z\n0,5,5,0\n1,5,5,0\n")
    (found,) = read_recordings(tmp_path)
    np.testing.assert_array_equal(found.positions[:, 1], [[0, 0, 2], [5, 5, 0]])
    (tmp_path / "flat.csv").write_text("t,x,y\n0,7,7\n1,7,7\n")
    (found,) = read_recordings(tmp_path)
    assert found.dims == 2 and found.names == ["flat", "high", "low"]


def test_units_in_brackets_count_unless_the_options_give_one(tmp_path):
    text = "time[min],a_x[cm],a_y[cm],b_x,b_y [mm]\n0,100,200,3,4000\n0.5,0,0,0,0\n"
    (found,) = read(tmp_path, "team.csv", text)
    np.testing.assert_allclose(found.positions[:, 0], [[1, 2], [3, 4]])
    np.testing.assert_allclose(found.stamps, [0, 30])
    (found,) = read_recordings(tmp_path, ReadOptions(unit=0.5, time_unit=2.0))
    np.testing.assert_allclose(found.positions[:, 0], [[50, 100], [1.5, 2000]])
    np.testing.assert_allclose(found.stamps, [0, 1])
    text = "agent,t,x[mm],y[mm],vx[mm/s],vy[mm/s]\na,0,1000,2000,300,400\n"
    (found,) = read(tmp_path, "team.csv", text)
    np.testing.assert_allclose(found.positions[0, 0], [1, 2])
    np.testing.assert_allclose(found.velocities[0, 0], [0.3, 0.4])


def test_a_height_that_is_not_given_or_never_changes_from_zero_is_none(tmp_path):
    (found,) = read(tmp_path, "a.csv", "agent,t,x,y,z\nball,0,1,2,3\nman,0,4,5,\n")
    assert found.dims == 2
    (found,) = read(tmp_path, "a.csv", "agent,t,x,y,z\nball,0,1,2,0\nman,0,4,5,0\n")
    assert found.dims == 2


def test_npz(tmp_path):
    positions = np.stack([A, B])
    np.savez(tmp_path / "a.npz", positions=positions, stamps=STAMPS, names=["a", "b"], velocities=positions * 2)
    observed = np.isfinite(positions).all(-1)
    observed[0, 0] = False
    np.savez(tmp_path / "b.npz", positions=positions, rate=4.0, observed=observed)
    first, second = read_recordings(tmp_path)
    np.testing.assert_array_equal(first.positions, positions)
    np.testing.assert_array_equal(first.observed, [[1, 1, 1, 1], [1, 0, 1, 1]])
    np.testing.assert_array_equal(first.velocities, positions * 2)
    assert second.names == ["agent_0", "agent_1"] and second.velocities is None
    np.testing.assert_allclose(second.stamps, [0, 0.25, 0.5, 0.75])
    assert np.isnan(second.positions[0, 0]).all()  # what is said not to be observed is not used


def test_agents_are_chosen_in_order(tmp_path):
    (found,) = read(tmp_path, "team.csv", WIDE, ReadOptions(agents=["b", "a"], unit=2.0))
    assert found.names == ["b", "a"]
    np.testing.assert_array_equal(found.positions[1], 2 * A)


def test_the_newer_of_two_samples_at_one_stamp_and_any_order():
    track = Track(np.array([2.0, 1.0, 2.0]), np.array([[1.0, 1], [2, 2], [3, 3]]))
    found = from_tracks({"a": track}, "here")
    np.testing.assert_array_equal(found.stamps, [1, 2])
    np.testing.assert_array_equal(found.positions[0], [[2, 2], [3, 3]])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "t,a_x,a_y\n1,2,3\n2,x,4\n", "a.csv:3: column a_x: expected a number, got 'x'"),
        ("a.csv", "t,a_x,a_y\n1,2,3\n\n2,3\n", "a.csv:4: 2 cells, expected 3, one for each column"),
        ("a.csv", "t,u,v\n1,2,3\n", "a.csv:1: no positions: expected x and y, or NAME_x and NAME_y, got t, u, v"),
        ("a.csv", "frame,x,y\n1,2,3\n", "a.csv: numbers frames: give the rate, or a column time or t"),
        ("a.csv", "x,y\n1,2\n", "a.csv: gives no times: give the rate"),
        ("a.csv", "t,x,y\n1,2,3\n,2,3\n", "a.csv:3: a row without a time"),
        ("a.csv", "t,a_x,a_y,b_x\n1,2,3,4\n", "a.csv:1: b_x without b_y (no agent? --names tells which ones are)"),
        ("a.csv", "t;a_x;a_y\n1;2,5;4\n", "a.csv:2: column a_x: expected a number, got '2,5'"),
        ("a.csv", "t,x[px],y[px]\n1,2,3\n", "a.csv:1: column x in px: expected m, dm, cm, mm, "),
        ("a.csv", "t[days],x,y\n1,2,3\n", "a.csv:1: column t in days: expected s, ms, us, ns, min, h, "),
        ("a.csv", "", "a.csv: empty"),
        ("a.csv", "t,x,y\n", "a.csv: no rows under the names of the columns"),
        ("a.csv", "t,x,y,x\n1,1,1,1\n", "a.csv:1: two columns are called x"),
        ("a.npz", "no zip", "a.npz: no readable .npz file"),
        ("a.csv.xz", "no xz", "a.csv.xz: cannot be read"),
        ("a.bag", "no bag", "a.bag"),
        ("a.txt", "1 2 3", "nothing to read, expected .csv, .csv.gz"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, name, text, message):
    with pytest.raises(RecordingError) as error:
        read(tmp_path, name, text)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_other_columns_and_what_is_infinite(tmp_path):
    """Those of agents that are not asked for may be anything; an infinite number is a gap, as an empty cell is."""
    text = "t,a_x,a_y,b_x,b_y,max_x\n1,1,2,3,4,5\n2,1,-inf,3,inf,5\n"
    (found,) = read(tmp_path, "team.csv", text, ReadOptions(agents=["b", "a"]))
    assert found.names == ["b", "a"] and found.observed.tolist() == [[True, False]] * 2
    np.testing.assert_array_equal(found.positions[0, 0], [3, 4])


def test_more_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_recordings(tmp_path / "nothing")
    (tmp_path / "a.txt").write_text("1 2 3")
    with pytest.raises(RecordingError, match="files of this kind cannot be read"):
        read_recordings(tmp_path / "a.txt")
    with pytest.raises(RecordingError, match="no agent c, it has a, b"):
        read(tmp_path, "team.csv", WIDE, ReadOptions(agents=["a", "c"]))
    np.savez(tmp_path / "b.npz", positions=np.zeros((2, 3, 2)))
    with pytest.raises(RecordingError, match=r"b.npz: neither stamps \[T\] nor rate in it: give the rate"):
        read_recordings(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", positions=np.zeros((9, 3, 2)), rate=1.0)
    with pytest.raises(RecordingError, match=r"b.npz: positions of 9 agents in 3 frames, expected them as \[A, T, P\]"):
        read_recordings(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", positions=np.zeros((9, 3, 2)), stamps=[0, 1, 2])
    assert read_recordings(tmp_path / "b.npz")[0].positions.shape == (9, 3, 2)  # the stamps tell which axis is time
    np.savez(tmp_path / "b.npz", positions=np.zeros((2, 3, 2)), stamps=[0, 2, 1])
    with pytest.raises(RecordingError, match="b.npz: stamps that do not ascend"):
        read_recordings(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", positions=np.zeros((2, 3, 2)), rate=1.0, names="a")
    with pytest.raises(RecordingError, match="b.npz: 1 names for 2 tracks"):
        read_recordings(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", positions=np.zeros((2, 3, 2)), rate=1.0, observed=np.ones(3))
    with pytest.raises(RecordingError, match=r"b.npz: observed \(3,\), expected \[2, 3\]"):
        read_recordings(tmp_path / "b.npz")
    for key, value in {"positions": np.zeros((2, 3, 2), complex), "rate": "fast"}.items():
        np.savez(tmp_path / "b.npz", **{"positions": np.zeros((2, 3, 2)), "rate": 1.0, key: value})
        with pytest.raises(RecordingError, match=f"b.npz: {key}: expected real numbers, got "):
            read_recordings(tmp_path / "b.npz")
    positions = np.zeros((2, 3, 2))
    np.savez(tmp_path / "b.npz", positions=positions, rate=1.0, observed=[[1, 0, np.nan], [1, 1, 1]])
    assert read_recordings(tmp_path / "b.npz")[0].observed.tolist() == [[True, False, False], [True] * 3]
    zipped = bytearray((tmp_path / "b.npz").read_bytes())
    zipped[zipped.index(b"PK\x01\x02") + 10] = 99  # the method of compression that its directory names
    (tmp_path / "b.npz").write_bytes(zipped)
    with pytest.raises(RecordingError, match="b.npz: no readable .npz file .That compression method is not supported"):
        read_recordings(tmp_path / "b.npz")
    np.save(tmp_path / "b.npy", positions)
    for other in ((tmp_path / "b.npy").read_bytes(), b""):
        (tmp_path / "b.npz").write_bytes(other)
        with pytest.raises(RecordingError, match="b.npz: no readable .npz file .File is not a zip file"):
            read_recordings(tmp_path / "b.npz")
    whole = gzip.compress("".join(f"{k},{k * 0.37},{k**0.5}\n" for k in range(500)).encode())
    (tmp_path / "c.csv.gz").write_bytes(whole[:800] + b"\xff" * 800 + whole[1600:])
    with pytest.raises(RecordingError, match="c.csv.gz: cannot be read"):
        read_recordings(tmp_path / "c.csv.gz")
    np.savez(tmp_path / "b.npz", positions=np.zeros((2, 3, 2)), rate=1.0, names=["a", "a"])
    with pytest.raises(RecordingError, match="b.npz: two agents of one name"):
        read_recordings(tmp_path / "b.npz")


def test_c3d_needs_a_package(tmp_path, monkeypatch):
    for name in ("ezc3d", "c3d"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "walk.c3d").write_bytes(b"")
    with pytest.raises(ImportError, match="walk.c3d: reading .c3d needs the package ezc3d or c3d: pip install ezc3d"):
        read_recordings(tmp_path)


# data of others, where it is at hand


@pytest.mark.data
@pytest.mark.parametrize("package", ["ezc3d", "c3d"])
def test_real_markers_with_gaps(shared_data, monkeypatch, package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.setitem(sys.modules, {"ezc3d": "c3d", "c3d": "ezc3d"}[package], None)
    (found,) = read_recordings(shared_data / "c3d")
    assert found.positions.shape == (12, 3361, 3) and found.names[0] == "Foot_Marker1"
    assert found.interval == pytest.approx(1 / 160)
    assert 1 - found.observed.mean() == pytest.approx(0.0743, abs=1e-4)  # as its description says
    assert (~found.observed[0]).sum() == 1011 and (~found.observed).any(1).all()
    assert 0.3 < np.nanmax(found.positions[..., 1]) < 2.5  # metres: a leg


@pytest.mark.data
def test_real_drones_one_file_each(shared_data):
    (found,) = read_recordings(shared_data / "neural_swarm" / "swap_sss", ReadOptions(time_unit=1e-6))
    assert found.names == ["cf50_00", "cf51_00", "cf52_00"] and found.dims == 3
    np.testing.assert_array_equal(found.observed.sum(1), [1824, 1739, 1817])
    assert found.interval == pytest.approx(1 / 101, rel=0.03)
    for agent in range(3):  # the velocities in the file are those of its positions, which tells the unit of time
        seen = found.observed[agent]
        moved = np.gradient(found.positions[agent, seen], found.stamps[seen], axis=0)
        told = found.velocities[agent, seen]
        assert np.corrcoef(moved[:, 0], told[:, 0])[0, 1] > 0.8
        assert np.std(moved[:, 0]) / np.std(told[:, 0]) == pytest.approx(1, abs=0.3)


@pytest.mark.data
def test_real_chains_people_and_players(shared_data):
    chains = read_recordings(
        shared_data / "retlo" / "5Robots", ReadOptions(rate=12, unit=1 / 300, agents=["H", "F1", "F2", "F3", "T"])
    )
    assert [chain.positions.shape[1] for chain in chains] == [3720, 3720, 3550, 3720, 3720, 2258]
    assert all(chain.observed.all() and chain.positions.max() < 3.0 for chain in chains)  # an arena of 2.84 m
    people = read_recordings(shared_data / "pedestrians" / "citr", ReadOptions(rate=29.97))
    assert [walk.positions.shape for walk in people] == [(10, 183, 2), (10, 324, 2)]
    speed = np.linalg.norm(people[0].velocities, axis=-1)
    assert 0.5 < np.median(speed) < 2.0
    (match,) = read_recordings(shared_data / "soccer", ReadOptions(rate=20))
    assert match.positions.shape == (21, 195, 2) and match.observed.all()


def test_a_recording_must_agree_with_itself():
    good = {
        "names": ["a"],
        "stamps": np.arange(2.0),
        "positions": np.zeros((1, 2, 2)),
        "observed": np.ones((1, 2), bool),
        "velocities": None,
        "source": "here",
    }
    Recording(**good)
    for change, message in (
        ({"names": ["a", "b"]}, "here: 2 names for 1 tracks"),
        ({"observed": np.zeros((1, 2), bool)}, "here: positions and observed do not agree"),
        ({"positions": np.zeros((1, 2, 4))}, "here: 4 coordinates, expected 2 or 3"),
        ({"stamps": np.array([0, np.nan])}, "here: stamps that are not finite"),
    ):
        with pytest.raises(RecordingError, match=message):
            Recording(**(good | change))
