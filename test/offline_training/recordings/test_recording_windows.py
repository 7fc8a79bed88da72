"""Windows cut from recordings: straight motion stays straight on any grid, and no gap is filled and called seen."""

from __future__ import annotations

import lzma

import numpy as np
import pytest

from offline_training.recordings.recording import RecordingError, Track, from_tracks
from offline_training.recordings.windows import agents_together, to_grid, windows


def straight(stamps, agent):
    """Agent k moves from (k, 0) at (1, -k) m/s."""
    return np.stack([agent + stamps, -agent * stamps], -1)


def team(agents=4, seconds=10.0, rate=20.0, gap=None, seed=0):
    """Agents with irregular stamps of their own; gap (agent, begin, end) leaves samples out."""
    random = np.random.default_rng(seed)
    tracks = {}
    for agent in range(agents):
        stamps = 100 + (np.arange(round(seconds * rate)) + random.uniform(0.1, 0.9, round(seconds * rate))) / rate
        stamps = np.concatenate([[100.0], stamps, [100 + seconds]])
        if gap is not None and gap[0] == agent:
            stamps = stamps[(stamps < 100 + gap[1]) | (stamps > 100 + gap[2])]
        tracks[f"r{agent}"] = Track(stamps, straight(stamps - 100, agent))
    return from_tracks(tracks, "made up")


def test_straight_motion_stays_straight():
    grid = to_grid(team(), 0.1, max_gap=1.0)
    assert grid.known.all() and len(grid.times) == 101
    for agent in range(4):
        np.testing.assert_allclose(grid.positions[agent], straight(grid.times - 100, agent), atol=1e-9)
    cut = windows([grid], 5, 3, agents=4, step=10)
    assert cut.positions.shape == (10, 4, 8, 2) and cut.observed.all()
    np.testing.assert_allclose(cut.start, 100 + np.arange(0, 94, 10) * 0.1)
    np.testing.assert_allclose(cut.positions[3, 2], straight(3.0 + 0.1 * np.arange(8), 2), atol=1e-9)


def test_stamps_that_are_far_off_are_named():
    far = from_tracks({"r0": Track(np.array([1.0, 1.1, 1.2, 1.7e9]), np.zeros((4, 2)))}, "made up")
    with pytest.raises(
        RecordingError, match=r"made up: 4 stamps on 1.7e\+10 steps of 0.1 s, the longest gap from 1.2 to 17"
    ):
        to_grid(far, 0.1)
    night = from_tracks({"r0": Track(np.array([1.0, 1.1, 1.2, 40_000.0]), np.zeros((4, 2)))}, "made up")
    assert len(to_grid(night, 0.1).times) == 399_991


def test_a_gap_is_not_filled():
    grid = to_grid(team(gap=(1, 4.05, 4.95)), 0.1, max_gap=0.5)
    unknown = np.flatnonzero(~grid.known[1])
    assert grid.times[unknown[0]] - 100 == pytest.approx(4.1, abs=0.21) and len(unknown) >= 9
    assert grid.known[[0, 2, 3]].all() and np.isnan(grid.positions[1, unknown]).all()
    cut = windows([grid], 10, 0, agents=4)
    begins = np.round((cut.start - 100) * 10).astype(int)
    assert not any(begin <= frame < begin + 10 for begin in begins for frame in unknown)
    assert len(cut) == sum(not any(b <= u < b + 10 for u in unknown) for b in range(92))
    assert to_grid(team(gap=(1, 4.05, 4.95)), 0.1, max_gap=2.0).known.all()  # unless that is asked for


def test_with_a_share_missing_the_mask_says_what_is_filled():
    grid = to_grid(team(gap=(1, 4.05, 4.55)), 0.1, max_gap=0.35)
    unknown = np.flatnonzero(~grid.known[1])
    cut = windows([grid], 20, 0, agents=4, missing=0.4)
    assert len(cut) == 82 and np.isfinite(cut.positions).all()
    holding = np.flatnonzero(~cut.observed.all((1, 2)))
    for number in holding:
        begin = round((cut.start[number] - 100) * 10)
        missing = [frame - begin for frame in unknown if begin <= frame < begin + 20]
        np.testing.assert_array_equal(np.flatnonzero(~cut.observed[number, 1]), missing)
        assert cut.observed[number, [0, 2, 3]].all()
        inside = [frame for frame in missing if min(missing) > 0 and max(missing) < 19]
        want = straight(cut.start[number] - 100 + 0.1 * np.arange(20), 1)
        np.testing.assert_allclose(cut.positions[number, 1, inside], want[inside], atol=1e-9)
    assert len(windows([grid], 20, 0, agents=4, missing=0.1)) < 82


def test_the_default_gap_goes_by_the_rate():
    stamps = np.array([0, 1, 2, 3, 5, 6, 9, 10.0])
    recording = from_tracks({"a": Track(stamps, np.stack([stamps, stamps], -1))}, "made up")
    known = to_grid(recording, 0.5).known[0]  # 2.5 intervals of 1 s: the hole of 2 s is bridged, that of 3 s is not
    np.testing.assert_array_equal(np.flatnonzero(~known) * 0.5, [6.5, 7, 7.5, 8, 8.5])


def test_of_a_crowd_those_that_are_close_to_each_other():
    stamps = np.arange(0, 3, 0.1)
    places = {"far": (50, 0), "a": (0, 0), "b": (1, 0), "lone": (0, 30), "c": (0, 1), "d": (1, 1), "late": (0.5, 0.5)}
    tracks = {name: Track(stamps, np.tile(np.array(at, float), (30, 1))) for name, at in places.items()}
    tracks["late"] = Track(stamps[10:], tracks["late"].positions[10:])
    grid = to_grid(from_tracks(tracks, "crowd"), 0.1)
    np.testing.assert_array_equal(agents_together([grid], 21), [6] * 10)
    cut = windows([grid], 21, 0, agents=4)
    assert len(cut) == 10
    np.testing.assert_array_equal(cut.positions[0, :, 0], [[0, 0], [1, 0], [0, 1], [1, 1]])
    assert len(windows([grid], 21, 0, agents=7)) == 0
    np.testing.assert_array_equal(cut.recording, 0)


def test_a_recording_shorter_than_a_window():
    cut = windows([to_grid(team(seconds=1.0), 0.1, 1.0)], 10, 5, agents=4)
    assert len(cut) == 0 and cut.positions.shape == (0, 4, 15, 2)


@pytest.mark.data
def test_real_robots_with_stamps_of_their_own(shared_data):
    """MRCLAM: five robots, irregular 62 Hz, holes up to 2 s, robot 1 stops early: nothing of that is filled."""
    tracks = {}
    for robot in range(1, 6):
        with lzma.open(shared_data / "mrclam" / "Dataset6" / f"Robot{robot}_Groundtruth.dat.xz", "rt") as file:
            rows = np.loadtxt(file)
        tracks[f"robot_{robot}"] = Track(rows[:, 0], rows[:, 1:3])
    recording = from_tracks(tracks, "mrclam")
    assert recording.interval == pytest.approx(0.016, abs=1e-3)
    grid = to_grid(recording, 0.1)
    assert len(grid.times) == pytest.approx(9000, abs=3)
    last = grid.times[np.flatnonzero(grid.known[0])[-1]] - grid.times[0]
    assert last == pytest.approx(771.9, abs=1)  # as its description says
    assert 0.99 < grid.known[1:].mean() < 1
    hole = np.diff(tracks["robot_4"].stamps)
    begin = tracks["robot_4"].stamps[hole.argmax()]
    inside = (grid.times > begin + 0.05) & (grid.times < begin + hole.max() - 0.05)
    assert hole.max() > 2 and inside.sum() >= 19 and not grid.known[3, inside].any()
    cut = windows([grid], 50, 50, agents=5, step=25)
    step = np.linalg.norm(np.diff(cut.positions, axis=2), axis=-1)
    assert len(cut) > 200 and step.max() < 0.1 * 1.0  # under 1 m/s
