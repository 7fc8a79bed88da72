"""What is inferred of recordings, that parts share no moment, and runs with losses whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from offline_training.recordings.recording import ReadOptions, RecordingError, Track, from_tracks, read_recordings
from offline_training.recordings.team_data import infer, losses, measure_scale, split, team_windows
from siha_ros.model.frame import Scale


def team(number=0, agents=5, seconds=60.0, rate=20.0, gap=()):
    """Agents on circles of 1 m at 0.5 rad/s, a metre apart, that drift together; gap (agent, begin, end) in s."""
    tracks = {}
    for agent in range(agents):
        stamps = 1000 * number + np.arange(0, seconds, 1 / rate)
        if gap and agent == gap[0]:
            stamps = stamps[(stamps < gap[1]) | (stamps > gap[2])]
        angle = 0.5 * stamps + agent
        tracks[f"r{agent}"] = Track(stamps, np.stack([np.cos(angle) + agent + 0.3 * stamps, np.sin(angle)], -1))
    return from_tracks(tracks, f"run_{number}")


def test_rate_agents_and_dimensions_are_inferred():
    spec, grids = infer([team(0), team(1)])
    assert spec.rate == pytest.approx(20) and spec.dt == 0.1 and spec.dims == 2 and spec.agents == 5
    assert spec.window == 50 and spec.horizon == 25 and spec.hidden_counts == (1, 2)
    assert [len(grid.times) for grid in grids] == [600, 600]
    assert infer([team(0, rate=4.0, seconds=120)])[0].dt == pytest.approx(0.25)
    assert infer([team(0, agents=4)])[0].hidden_counts == (1,)  # three must be seen
    assert infer([team(0, seconds=24.0)])[0].window == 40  # 240 frames have 201 windows of that length
    given, _ = infer([team(0)], dt=0.2, agents=4, window=30)
    assert (given.dt, given.agents, given.window) == (0.2, 4, 30)


def test_a_crowd_that_comes_and_goes_has_the_size_that_most_moments_have():
    sizes = [team(0, agents=7, seconds=60.0), team(1, agents=6, seconds=200.0)]
    assert infer(sizes)[0].agents == 6


@pytest.mark.parametrize(
    ("recordings", "message"),
    [
        ([team(0, agents=3)], "at most 3 agents are seen at once, expected 4 or more"),
        ([team(0, seconds=10.0)], r"81 windows of 20 frames of 0.1 s in which 4 .*, expected 200 .*window 12: 89\)"),
    ],
)
def test_too_little_is_said(recordings, message):
    with pytest.raises(RecordingError, match=message):
        infer(recordings)


def test_parts_share_no_moment():
    spec, grids = infer([team(0), team(1)])
    parts = split(grids, spec)
    assert "by time" in parts.how
    times = [np.concatenate([grid.times for grid in part]) for part in (parts.training, parts.validation, parts.test)]
    assert [len(part) for part in times] == [840, 180, 180]
    assert len(np.unique(np.concatenate(times))) == 1200
    spec, grids = infer([team(number) for number in range(6)])
    parts = split(grids, spec)
    assert parts.how == "by recording: 4 train, 1 validate, 1 test"
    sources = [grid.source for part in (parts.training, parts.validation, parts.test) for grid in part]
    assert sorted(sources) == [f"run_{number}" for number in range(6)]


def test_windows_keep_at_most_one_agent_with_gaps_and_it_is_last():
    spec, grids = infer([team(0, gap=(2, 20.0, 20.6))])
    data = team_windows(grids, spec, Scale(1.0, 1.0), future=0, missing=0.2)
    assert data.known is not None
    assert data.known[:, :-1].all() and not data.known[:, -1].all()
    assert team_windows(grids, spec, Scale(1.0, 1.0), future=0).known is None
    # where nothing is missing, states are the circles' whatever the order: the same distance between two agents
    whole = data.positions[data.known.all(2).all(1)][0].double()
    chord = torch.cdist(whole[:, 0], whole[:, 0]).sort().values[:, 1].min()
    assert 0.05 < chord < 3 and whole[:, 0].mean(0).abs().max() < 1e-5


def test_the_scale_is_that_of_the_teams_own_motion():
    spec, grids = infer([team(0)])
    data = team_windows(grids, spec, Scale(1.0, 1.0), future=0)
    scale, extent, speed = measure_scale(data, spec)
    assert 0.3 < scale.velocity < 1.2 and scale.velocity <= speed * 1.01  # 0.5 m/s on the circles, less the drift
    assert 1.5 < scale.position < 6 and scale.position <= extent * 1.01
    still = from_tracks({f"r{k}": Track(np.arange(300) / 10, np.full((300, 2), float(k))) for k in range(4)}, "still")
    spec, grids = infer([still])
    with pytest.raises(RecordingError, match="nothing moves"):
        measure_scale(team_windows(grids, spec, Scale(1.0, 1.0), future=0), spec)


def test_losses_have_a_lead_in_and_the_truth():
    spec, grids = infer([team(0)])
    runs = losses(grids, spec, 2, 5, seed=0)
    assert len(runs) == 5
    for run in runs:
        assert len(run.lost) == 2 and run.lost_at == 49 + 30 and run.end == run.positions.shape[1]
        assert np.isfinite(run.positions).all()
        apart = np.linalg.norm(np.diff(run.positions, axis=1), axis=-1)
        assert apart.max() < 0.1 * (0.5 + 0.3) * 1.01  # nobody jumps
    assert losses([grid.part(0, 90) for grid in grids], spec, 1, 5, seed=0) == []


# data of others, where it is at hand


@pytest.mark.data
def test_real_chains_are_split_by_recording(shared_data):
    options = ReadOptions(rate=12, unit=1 / 300, agents=["H", "F1", "F2", "F3", "T"])
    spec, grids = infer(read_recordings(shared_data / "retlo" / "5Robots", options))
    assert (spec.agents, spec.dims, spec.window, spec.hidden_counts) == (5, 2, 50, (1, 2))
    assert spec.rate == pytest.approx(12) and spec.dt == 0.1
    parts = split(grids, spec)
    assert parts.how == "by recording: 4 train, 1 validate, 1 test"
    data = team_windows(parts.training, spec, Scale(1.0, 1.0), future=0)
    assert len(data) > 10_000 and data.known is None
    scale, _, speed = measure_scale(data, spec)
    assert 0.2 < scale.position < 2.0 and speed > 1.0  # tracking faults: jumps of over 10 cm in 1/12 s
    assert len(losses(parts.test, spec, 2, 20, seed=0)) == 20


@pytest.mark.data
def test_a_real_crowd(shared_data):
    """People who come and go, 2.5 frames a second: a smaller team and a shorter window than the usual."""
    rows = np.loadtxt(shared_data / "pedestrians" / "ucy_zara01" / "obsmat.txt")
    tracks = {
        str(int(person)): Track(rows[rows[:, 1] == person, 0] / 25, rows[rows[:, 1] == person][:, [2, 4]])
        for person in np.unique(rows[:, 1])
    }
    spec, grids = infer([from_tracks(tracks, "zara")])
    assert spec.rate == pytest.approx(2.5) and spec.dt == pytest.approx(0.4)
    assert (spec.window, spec.agents) == (20, 4) and spec.hidden_counts == (1,)
    data = team_windows(split(grids, spec).training, spec, Scale(1.0, 1.0), future=0)
    assert len(data) > 100 and torch.isfinite(data.positions).all()
    assert 1.0 < measure_scale(data, spec)[0].velocity < 4.0  # m/s within the team: some walk the other way
