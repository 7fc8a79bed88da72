"""Streams as they come, and the windows that they must give."""

from __future__ import annotations

import math

import numpy as np
import pytest

from siha_ros.window import Observation, SlidingWindow, Status, WindowParameters

TEAM = ["r0", "r1", "r2", "r3"]


def path(agent: int, stamp):
    """A parabola of its own for each agent: acceleration 0.4 m/s^2 along x, and -0.2 along y."""
    t = np.asarray(stamp) % 1000.0 if np.isfinite(stamp).all() else 0.0
    return np.stack(
        [agent + 0.5 * t + 0.2 * (t - 3.0) ** 2, 2.0 - 0.1 * (t - 3.0) ** 2 - agent * t, 0.3 + 0 * t], axis=-1
    )


def send(window: SlidingWindow, stamp: float, agents, **more) -> None:
    for agent in agents:
        window.add(Observation(stamp, "team", f"r{agent}", path(agent, stamp), **more))


def stream(window: SlidingWindow, begin: float, end: float, rate: float = 50.0, agents=(0, 1, 2, 3)) -> float:
    """Samples of all agents in [begin, end); returns the newest stamp."""
    stamps = begin + np.arange(round((end - begin) * rate)) / rate
    for stamp in stamps:
        send(window, stamp, agents)
    return float(stamps[-1])


def team(names=None, **parameters) -> SlidingWindow:
    return SlidingWindow(0.1, 11, 2, names, WindowParameters(**parameters))


def check(window) -> None:
    """What holds of every window, whatever was sent."""
    agents, times = window.observed.shape
    assert window.positions.shape == window.velocities.shape and window.positions.shape[:2] == (agents, times)
    assert (np.isfinite(window.positions) == window.observed[..., None]).all()
    assert np.isfinite(window.velocities[~np.isnan(window.velocities)]).all()
    assert not np.isfinite(window.velocities[~window.observed]).any()
    assert ((window.confidence > 0) <= window.observed).all() and (window.confidence <= 1).all()
    assert np.allclose(np.diff(window.times), window.dt, atol=1e-6)
    for agent, status in enumerate(window.status):
        if status in (Status.VISIBLE, Status.BRIDGED):
            assert window.observed[agent, -1]
        if status in (Status.HIDDEN, Status.UNKNOWN):
            assert not window.observed[agent, -1]
        assert (status == Status.VISIBLE) == (window.reason[agent] == "")
        seen = np.isfinite(window.last_seen[agent])
        assert np.isfinite(window.last_position[agent]).all() == seen
        assert np.isfinite(window.last_velocity[agent]).all() == seen
        if status == Status.HIDDEN and seen:
            assert not window.observed[agent, window.times > window.last_seen[agent] + 1e-6].any()


# ---------------------------------------------------------------- the grid


@pytest.mark.parametrize("rate", [50, 100, 120, 240])
@pytest.mark.parametrize("epoch", [0.0, 1.7e9])
def test_a_parabola_comes_back_at_every_rate(rate, epoch):
    window = team()
    newest = stream(window, epoch + 1.0, epoch + 4.0, rate)
    result = window.window()
    check(result)
    np.testing.assert_allclose(result.times, newest - 0.1 - 0.1 * np.arange(10, -1, -1), atol=1e-6)
    assert result.observed.all() and (result.status == Status.VISIBLE).all()
    error = np.abs(result.positions - np.stack([path(a, result.times)[:, :2] for a in range(4)]))
    assert error.max() < 0.4 / 8 / rate**2 + 1e-5  # of linear interpolation: a h^2 / 8


def test_windows_come_oftener_than_the_grid_step():
    window = team()
    stream(window, 1.0, 3.0)
    ends = []
    for frame in range(10):
        send(window, 3.0 + frame / 50, range(4))
        ends.append(window.window().times[-1])
    np.testing.assert_allclose(ends, 2.9 + np.arange(10) / 50)


def test_none_until_the_whole_window_was_heard():
    window = team()
    stream(window, 5.0, 6.09)
    assert window.window() is None
    send(window, 6.1, range(4))
    assert window.window() is not None


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.4])
def test_grid_delay(delay):
    window = team(grid_delay=delay, silence_timeout=1.0)
    newest = stream(window, 1.0, 4.0)
    assert window.window().times[-1] == pytest.approx(newest - delay)


def test_frames_and_single_samples_give_the_same_window():
    single, frames = team(TEAM), team(TEAM)
    for stamp in 1.0 + np.arange(150) / 50:
        positions = np.stack([path(a, stamp) for a in range(4)])
        if 2.0 < stamp < 2.1:
            positions[2] = np.nan
        for a in range(4):
            single.add(Observation(stamp, "team", TEAM[a], None if np.isnan(positions[a, 0]) else positions[a]))
        frames.add_frame(stamp, positions)
    one, other = single.window(), frames.window()
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_array_equal(one.status, other.status)
    np.testing.assert_array_equal(one.last_velocity, other.last_velocity)


def test_measured_velocities_are_interpolated_and_absent_ones_are_nan():
    window = team()
    for stamp in 1.0 + np.arange(150) / 50:
        send(window, stamp, [0], velocity=[stamp, -1.0, 0.0])
        send(window, stamp, [1])
        send(window, stamp, [2], velocity=[np.nan, 0.0, 0.0])
    result = window.window()
    np.testing.assert_allclose(result.velocities[0], np.stack([result.times, -np.ones(11)], axis=1), atol=1e-9)
    assert np.isnan(result.velocities[1:]).all() and result.observed.all()


def test_jittered_stamps_are_resampled_at_their_own_times():
    rng = np.random.default_rng(3)
    window = team()
    for stamp in 1.0 + np.cumsum(rng.uniform(0.0005, 0.04, 200)):
        send(window, stamp, range(4))
    result = window.window()
    assert result.observed.all()
    error = np.abs(result.positions - np.stack([path(a, result.times)[:, :2] for a in range(4)]))
    assert error.max() < 0.4 / 8 * 0.045**2 + 1e-5


def test_agents_out_of_phase_and_at_their_own_rates():
    window = team()
    events = [(1.0 + n / rate + 0.003 * a, a) for a, rate in enumerate([50, 33, 120, 20]) for n in range(4 * rate)]
    for stamp, agent in sorted(events):
        send(window, stamp, [agent])
    result = window.window()
    assert (result.status == Status.VISIBLE).all() and result.observed.all()
    error = np.abs(result.positions - np.stack([path(a, result.times)[:, :2] for a in range(4)]))
    assert error.max() < 0.4 / 8 * 0.05**2 + 1e-5


# ---------------------------------------------------------------- time


def test_reordering_by_a_millisecond_is_harmless():
    plain, shuffled = team(), team()
    stamps = 1.0 + np.arange(1300) / 1000
    for stamp in stamps:
        send(plain, stamp, [0])
    for stamp in stamps.reshape(-1, 2)[:, ::-1].ravel():
        send(shuffled, stamp, [0])
    assert shuffled.resets == 0
    one, other = plain.window(), shuffled.window()
    np.testing.assert_allclose(one.positions, other.positions, atol=2e-6)
    assert (other.status == Status.VISIBLE).all()


def test_a_late_sample_finds_its_place():
    window = team(reorder_tolerance=0.6, max_gap=0.05)
    late = []
    for frame in range(120):
        stamp = 1.0 + frame / 50
        if 100 <= frame < 110:
            late.append(stamp)  # 3.0 to 3.18 s
        else:
            send(window, stamp, [0])
        send(window, stamp, [1])
    np.testing.assert_allclose(window.window().times[-5:], [2.88, 2.98, 3.08, 3.18, 3.28])
    assert window.window().observed[0, -5:].tolist() == [True, True, False, False, True]
    for stamp in np.random.default_rng(0).permutation(late):
        send(window, stamp, [0])
    result = window.window()
    assert result.observed.all() and window.resets == 0
    np.testing.assert_allclose(result.positions[0], path(0, result.times)[:, :2], atol=1e-5)


@pytest.mark.parametrize("agents", [[0], [0, 1, 2, 3]])
def test_ten_seconds_back_resets_once(agents):
    window = team()
    stream(window, 20.0, 23.0, agents=agents)
    window.take_notes()
    stream(window, 10.0, 10.2, agents=agents)
    assert window.resets == 1
    assert window.last_reset == "time went back by 12.980 s"
    assert window.take_notes() == ["window reset: time went back by 12.980 s"]
    assert window.window() is None
    stream(window, 10.2, 11.2, agents=agents)
    result = window.window()
    check(result)
    assert (result.status == Status.VISIBLE).all() and result.observed.all()
    assert window.resets == 1


def test_looped_stream_resets_once_per_loop_despite_a_straggler():
    window = team()
    for loop in range(3):
        stream(window, 100.0, 103.0)
        assert window.resets == loop
        send(window, 100.0, [0, 1])
        send(window, 103.0, [3])  # the last message of the loop, overtaken
        send(window, 100.02, [0, 1, 2, 3])
        assert window.resets == loop + 1
    assert window.rejected["stamp far from the group's"] > 0


def test_one_agent_with_foreign_stamps_does_not_reset_the_others():
    window = team()
    for stamp in 50.0 + np.arange(200) / 50:
        send(window, stamp, [0, 1, 2])
        window.add(Observation(stamp - 10.0, "team", "r3", path(3, stamp)))
        window.add(Observation(stamp + 30.0, "team", "r0", path(0, stamp)))
    assert window.resets == 0
    assert window.rejected["stamp far from the group's"] >= 390
    result = window.window()
    assert result.observed[:3].all() and (result.status[:3] == Status.VISIBLE).all()


def test_one_message_that_holds_the_whole_group_is_no_jump_and_two_are():
    window = team(TEAM)
    for number, stamp in enumerate(20.0 + np.arange(150) / 50):
        stray = (stamp + 10.0 * (number % 3 - 1)) if number % 10 == 5 else stamp
        window.add_frame(stray, np.array([path(agent, stamp) for agent in range(4)]))
    assert window.resets == 0 and window.rejected["stamp far from the group's"] == 4 * 10  # of 15, 5 are as they were
    assert window.window().observed.all()
    for stamp in (10.0, 10.02):
        window.add_frame(stamp, np.array([path(agent, stamp) for agent in range(4)]))
    assert window.resets == 1 and window.newest == 10.02


def test_the_first_stamp_may_be_wrong():
    window = team()
    window.add(Observation(9000.0, "team", "r0", path(0, 9.0)))
    stream(window, 50.0, 52.0)
    assert window.newest == pytest.approx(51.98)
    assert (window.window().status == Status.VISIBLE).all()


def test_a_gap_longer_than_the_window_restarts_the_warm_up():
    window = team()
    stream(window, 20.0, 23.0)
    stream(window, 30.0, 30.5)
    assert window.resets == 1 and window.last_reset == "gap of 7.020 s, longer than the window of 1.000 s"
    assert window.window() is None
    stream(window, 30.5, 31.2)
    assert window.window().observed.all()


def test_a_gap_longer_than_the_window_that_only_some_survive():
    window = team()
    stream(window, 20.0, 23.0)
    stream(window, 30.0, 32.0, agents=[1])
    assert window.resets == 1
    assert window.window().names == ["r1"]


def test_a_pause_of_the_whole_stream_hides_nobody():
    window = team()
    stream(window, 20.0, 23.0)
    statuses = []
    for frame in range(30):
        for agent in range(4):
            send(window, 23.6 + frame / 50, [agent])
            statuses.append(window.window().status)
    assert not (np.array(statuses) == Status.HIDDEN).any()
    assert (statuses[-1] == Status.VISIBLE).all()
    result = window.window()
    check(result)
    gap = (result.times > 22.98 + 1e-6) & (result.times < 23.6 - 1e-6)
    assert not result.observed[:, gap].any() and result.observed[:, ~gap].all()
    assert window.resets == 0


def test_duplicate_stamps_keep_the_first_sample():
    window = team()
    for stamp in 1.0 + np.arange(100) / 50:
        send(window, stamp, [0])
        window.add(Observation(stamp, "team", "r0", [99.0, 99.0, 99.0]))
    assert window.rejected["duplicate stamp"] == 100
    assert np.abs(window.window().positions).max() < 10


def test_second_sample_of_a_stamp_adds_the_velocity_that_the_first_lacked():
    window = SlidingWindow(0.1, 3, 2, ["a"])
    for k in range(60):
        place = [[0.02 * k, 0.0, 0.0]]
        window.add_frame(10.0 + 0.02 * k, np.array(place))
        window.add_frame(10.0 + 0.02 * k, np.array([[9.0, 9.0, 9.0]]), velocities=np.array([[1.0, 0.5, 0.0]]))
    window.add_frame(11.18, np.array(place), velocities=np.array([[7.0, 7.0, 7.0]]))  # and no third one
    now = window.window()
    assert np.allclose(now.velocities, [1.0, 0.5]) and np.allclose(now.positions[0, :, 0], now.times - 10.0, atol=1e-6)
    assert window.rejected["duplicate stamp"] == 1


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [
        (0.0, "stamp is zero or negative"),
        (-3.0, "stamp is zero or negative"),
        (math.nan, "stamp is NaN, Inf or not in seconds"),
        (math.inf, "stamp is NaN, Inf or not in seconds"),
        (1.7e18, "stamp is NaN, Inf or not in seconds"),
    ],
)
def test_impossible_stamps_are_counted_and_said_once(stamp, reason):
    window = team()
    stream(window, 1.0, 3.0)
    before = window.window()
    for _ in range(5):
        send(window, stamp, [2])
    assert window.rejected == {reason: 5}
    assert window.take_notes() == [f"sample of r2 not used: {reason}"]
    np.testing.assert_array_equal(window.window().positions, before.positions)


def test_clock_offsets():
    window = team()
    rng = np.random.default_rng(0)
    for stamp in 50.0 + np.arange(200) / 50:
        for agent, ahead in enumerate([0.0, 0.2, 0.0, -0.1]):
            observation = Observation(stamp + ahead, "team", f"r{agent}", path(agent, stamp))
            window.add(observation, now=stamp + 7.0 + rng.exponential(0.01))
    assert window.clock_offsets == pytest.approx({"r0": 0.0, "r1": 0.2, "r2": 0.0, "r3": -0.1}, abs=0.005)
    assert team(TEAM).clock_offsets == {}


@pytest.mark.parametrize("names", [None, TEAM])
@pytest.mark.parametrize("ahead", [1.7e9, -20.0])
def test_clock_offset_of_an_agent_whose_stamps_are_too_far_off_to_be_used(names, ahead):
    window = team(names)

    def run(begin, off):
        for stamp in begin + np.arange(100) / 50:
            for agent in range(4):
                moment = stamp + off * (agent == 3)
                window.add(Observation(moment, "team", f"r{agent}", path(agent, stamp)), now=stamp + 7.0)

    run(50.0, ahead)
    assert window.resets <= 1 and window.rejected["stamp far from the group's"] > 90
    assert window.clock_offsets == pytest.approx({"r0": 0.0, "r1": 0.0, "r2": 0.0, "r3": ahead})
    run(52.0, 0.0)
    assert window.clock_offsets == pytest.approx(dict.fromkeys(TEAM, 0.0), abs=1e-9)
    run(54.0, ahead)
    stream_alone = window.newest + np.arange(1, 60) / 50
    for stamp in stream_alone:  # r3 falls silent: what its clock was is forgotten after stale_timeout
        for agent in range(3):
            window.add(Observation(stamp, "team", f"r{agent}", path(agent, stamp)), now=stamp + 7.0)
    assert "r3" not in window.clock_offsets


def test_the_clock_of_an_agent_that_was_hidden_in_a_slow_simulation_is_not_off():
    window = team()
    for stamp in 50.0 + np.arange(20 * 50) / 50:  # at half the speed of real time: delays grow by a second a second
        hidden = 60.0 <= stamp < 65.0
        for agent in range(3 if hidden else 4):
            window.add(Observation(stamp, "team", f"r{agent}", path(agent, stamp)), now=2 * stamp)
        assert max(map(abs, window.clock_offsets.values())) < 0.31  # it is hidden after 0.3 s of silence
    assert "r3" in window.clock_offsets


@pytest.mark.parametrize("rate", [2.0, 10.0, 50.0, 240.0])
def test_sample_rate_is_that_of_an_agent_whatever_gaps_it_has(rate):
    window = team()
    assert math.isnan(window.sample_rate)
    newest = stream(window, 5.0, 15.0, 200.0)
    assert window.sample_rate == pytest.approx(200.0, rel=1e-6)
    newest = stream(window, newest + 1.0, newest + 4.0, rate)
    newest = stream(window, newest + 1.0 / rate, newest + 2.0, rate, agents=(0, 1))
    assert window.sample_rate == pytest.approx(rate, rel=1e-6)


# ---------------------------------------------------------------- who is seen


def test_one_silent_agent_is_hidden_while_the_others_go_on():
    window = team()
    stream(window, 1.0, 4.0)
    stream(window, 4.0, 6.0, agents=[0, 2, 3])
    result = window.window()
    check(result)
    assert result.status.tolist() == [Status.VISIBLE, Status.HIDDEN, Status.VISIBLE, Status.VISIBLE]
    assert result.hidden.tolist() == [False, True, False, False]
    assert result.reason[1] == "silent for 2.00 s"
    assert result.last_seen[1] == pytest.approx(3.98)
    np.testing.assert_allclose(result.last_position[1], path(1, 3.98)[:2])
    # A line through the last 0.1 s of a parabola has its slope in the middle, 0.05 s before the end.
    expected = [0.5 + 0.4 * (3.93 - 3.0), -0.2 * (3.93 - 3.0) - 1.0]
    np.testing.assert_allclose(result.last_velocity[1], expected, atol=1e-6)
    assert not result.observed[1].any() and result.observed[[0, 2, 3]].all()


def test_a_lost_agent_is_bridged_first_then_hidden_then_seen_in_part():
    window = team()
    stream(window, 1.0, 4.0)
    seen = []
    for stamp in 4.0 + np.arange(60) / 50:
        send(window, stamp, [0, 2, 3])
        result = window.window()
        check(result)
        seen.append((round(stamp - 3.98, 2), Status(int(result.status[1]))))
        if result.status[1] == Status.BRIDGED:
            # Extrapolated from the last sample with the last velocity, and trusted less.
            elapsed = result.times[-1] - 3.98
            expected = result.last_position[1] + elapsed * result.last_velocity[1]
            np.testing.assert_allclose(result.positions[1, -1], expected)
            assert result.confidence[1, -1] == pytest.approx(1 - elapsed / 0.3, abs=1e-5)
            assert result.reason[1] == f"bridged: last sample {stamp - 3.98:.2f} s old"
    assert [age for age, status in seen if status == Status.VISIBLE] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1])
    assert [age for age, status in seen if status == Status.BRIDGED] == pytest.approx(np.arange(0.12, 0.31, 0.02))
    assert all(status == Status.HIDDEN for age, status in seen if age > 0.31)
    result = window.window()
    np.testing.assert_array_equal(result.observed[1], result.times <= 3.98)


def test_a_returning_agent_is_shown_after_the_debounce_with_its_first_samples():
    window = team()
    stream(window, 1.0, 4.0)
    stream(window, 4.0, 6.0, agents=[0, 2, 3])
    statuses = []
    for stamp in 6.0 + np.arange(15) / 50:
        send(window, stamp, range(4))
        result = window.window()
        check(result)
        statuses.append(Status(int(result.status[1])))
        if stamp == 6.04:
            assert result.reason[1] == "seen again for 0.04 s of 0.10 s; before: silent"
    assert statuses == [Status.HIDDEN] * 5 + [Status.VISIBLE] * 10
    np.testing.assert_array_equal(result.observed[1], result.times >= 6.0 - 1e-6)


def test_one_bad_frame_in_eight_is_bridged():
    window = SlidingWindow(1 / 60, 49, 3, TEAM)
    for frame in range(600):
        stamp = 1.0 + frame / 120
        tracked = np.array([frame % 8 != 3, True, True, (frame + 4) % 8 != 3])
        positions = np.stack([path(a, stamp) for a in range(4)])
        positions[~tracked] = 77.0  # what is flagged is never used
        window.add_frame(stamp, positions, tracked)
        result = window.window()
        if result is not None:
            check(result)
            assert result.observed.all() and set(result.status) <= {Status.VISIBLE, Status.BRIDGED}
            assert np.abs(result.positions).max() < 20
    error = np.abs(result.positions - np.stack([path(a, result.times) for a in range(4)]))
    assert error.max() < 1e-3


@pytest.mark.parametrize(
    ("position", "more", "reason"),
    [
        (None, {}, "flagged as untracked"),
        ([1.0, 2.0, 3.0], {"tracked": False}, "flagged as untracked"),
        ([math.nan, 2.0, 3.0], {}, "position is NaN, Inf or beyond 1e8 m"),
        ([1.0, math.inf, 3.0], {}, "position is NaN, Inf or beyond 1e8 m"),
        ([0.0, 0.0, 0.0], {"orientation": [0.0, 0.0, 0.0, 0.0]}, "exactly at the origin"),
    ],
)
def test_what_counts_as_not_seen(position, more, reason):
    window = team()
    stream(window, 1.0, 4.0)
    for stamp in 4.0 + np.arange(50) / 50:
        send(window, stamp, [0, 1, 2])
        window.add(Observation(stamp, "team", "r3", position, **more))
        result = window.window()
        check(result)
        expected = Status.HIDDEN if stamp - 3.98 > 0.119 else Status.VISIBLE if stamp - 3.98 < 0.101 else Status.BRIDGED
        assert result.status[3] == expected
    assert result.reason[3] == f"{reason} for 1.00 s"
    assert (result.status[:3] == Status.VISIBLE).all()


@pytest.mark.parametrize("orientation", [[math.nan] * 4, [0.0] * 4, None])
def test_a_bad_quaternion_with_a_position_hides_nobody(orientation):
    window = team()
    for stamp in 1.0 + np.arange(150) / 50:
        send(window, stamp, range(3), orientation=[0.0, 0.0, 0.6, 0.8])
        send(window, stamp, [3], orientation=[0.0, 0.0, 1.0, 0.0] if stamp < 2 else orientation)
    assert (window.window().status == Status.VISIBLE).all()
    np.testing.assert_allclose(window.orientations, [[0, 0, 0.6, 0.8]] * 3 + [[0, 0, 1, 0]])
    np.testing.assert_allclose(window.heights, 0.3)


def test_missing_entries_of_a_frame():
    window = team()
    for frame in range(150):
        stamp = 1.0 + frame / 50
        names = TEAM if frame < 100 else ["r3", "r0", "r1"]  # in another order, too
        window.add_frame(stamp, np.stack([path(int(name[1]), stamp) for name in names]), names=names)
    result = window.window()
    check(result)
    assert result.names == TEAM and result.hidden.tolist() == [False, False, True, False]
    assert result.reason[2] == "missing from the message for 1.00 s"
    assert np.abs(result.positions[3] - path(3, result.times)[:, :2]).max() < 1e-4


def test_all_silent_is_stale_and_hides_nobody():
    window = team()
    stamps = 1.0 + np.arange(150) / 50
    for stamp in stamps:
        for agent in range(4):
            if agent != 2 or stamp < 2.5:
                window.add(Observation(stamp, "team", f"r{agent}", path(agent, stamp)), now=500.0 + stamp)
    assert not window.stale(504.0)
    assert window.window(now=504.0).status.tolist() == [1, 1, 3, 1]
    result = window.window(now=506.48)
    assert result.status.tolist() == [Status.STALE, Status.STALE, Status.HIDDEN, Status.STALE]
    assert result.reason[0] == "the stream stopped 2.5 s ago"
    assert result.hidden.tolist() == [False, False, True, False]
    for stamp in 4.0 + np.arange(5) / 50:
        for agent in (0, 1, 3):
            window.add(Observation(stamp, "team", f"r{agent}", path(agent, stamp)), now=510.0 + stamp)
    assert window.window(now=514.1).status.tolist() == [1, 1, 3, 1]


def test_everybody_flagged_is_hidden_not_stale():
    window = team(TEAM)
    stream(window, 1.0, 3.0)
    for stamp in 3.0 + np.arange(50) / 50:
        window.add_frame(stamp, np.zeros((4, 3)), np.zeros(4, dtype=bool), now=stamp)
    assert (window.window(now=4.0).status == Status.HIDDEN).all()


def test_agents_whose_stamps_lag_say_so():
    window = team()
    for stamp in 1.0 + np.arange(200) / 50:
        send(window, stamp, [0, 1])
        send(window, stamp - 0.4 if stamp > 3 else stamp, [2])
    result = window.window()
    assert result.status[2] == Status.HIDDEN
    assert result.reason[2].startswith("stamps behind the newest of the group")


# ---------------------------------------------------------------- names


def test_late_joiners_warm_up_and_are_seen_in_part():
    window = team()
    stream(window, 1.0, 4.0, agents=[0, 1])
    statuses = []
    for stamp in 4.0 + np.arange(20) / 50:
        send(window, stamp, [0, 1, 2])
        result = window.window()
        check(result)
        statuses.append(Status(int(result.status[2])))
    assert result.names == ["r0", "r1", "r2"]
    assert statuses == [Status.WARMING_UP] * 5 + [Status.VISIBLE] * 15
    np.testing.assert_array_equal(result.observed[2], result.times >= 4.0 - 1e-6)


def test_a_fixed_group_has_its_names_from_the_start_and_refuses_others():
    window = team(["r0", "r1", "ghost"])
    stream(window, 1.0, 1.2, agents=[0, 1, 3])
    window.take_notes()
    stream(window, 1.2, 4.0, agents=[0, 1, 3])
    assert window.take_notes() == []
    assert window.rejected == {"unknown agent": 150}
    result = window.window()
    check(result)
    assert result.names == ["r0", "r1", "ghost"]
    assert result.status.tolist() == [Status.VISIBLE, Status.VISIBLE, Status.HIDDEN]
    assert result.reason[2] == "never seen: silent" and math.isnan(result.last_seen[2])


def test_unknown_agents_do_not_move_time():
    window = team(["r0", "r1"])
    stream(window, 1.0, 3.0, agents=[0, 1])
    stream(window, 3.0, 9.0, agents=[3])
    assert window.newest == pytest.approx(2.98) and window.resets == 0


def test_an_agent_of_a_fixed_group_is_unknown_before_it_can_be_hidden():
    window = team(["r0", "r1"], silence_timeout=2.0)
    stream(window, 1.0, 2.5, agents=[0])
    assert window.window().status.tolist() == [Status.VISIBLE, Status.UNKNOWN]
    stream(window, 2.5, 3.1, agents=[0])
    assert window.window().status.tolist() == [Status.VISIBLE, Status.HIDDEN]


def test_a_name_twice_in_one_message_is_said_once_and_the_first_counts():
    window = team()
    for stamp in 1.0 + np.arange(100) / 50:
        window.add_frame(stamp, [[1.0, 2.0, 0.0], [9.0, 9.0, 9.0]], names=["a", "a"])
    assert window.take_notes() == ["sample of a not used: name twice in one message"]
    np.testing.assert_allclose(window.window().positions, np.broadcast_to([1.0, 2.0], (1, 11, 2)))


def test_agents_beyond_the_limit_are_refused():
    window = team(max_agents=3)
    stream(window, 1.0, 3.0)
    assert window.names == ["r0", "r1", "r2"] and window.rejected == {"more than 3 agents": 100}


# ---------------------------------------------------------------- bounds and errors


def memory(value, known: set[int]) -> int:
    """Bytes of arrays and number of items reachable from an object."""
    if id(value) in known:
        return 0
    known.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return len(value) + sum(memory(v, known) for v in value.values())
    if isinstance(value, (list, tuple, set)) or hasattr(value, "maxlen"):
        return len(value) + sum(memory(v, known) for v in value)
    return memory(vars(value), known) if hasattr(value, "__dict__") else 0


def test_memory_is_bounded_under_a_flood_and_the_window_stays_right():
    window = team(TEAM)
    rng = np.random.default_rng(0)
    sizes = []
    stamps = 1.0 + np.arange(9000) / 5000
    frames = np.stack([path(a, stamps) for a in range(4)], axis=1)
    for frame, stamp in enumerate(stamps):
        window.add_frame(stamp, frames[frame])
        if frame % 20 == 0:
            window.add(Observation(rng.uniform(100, 9e9), "team", "r1", [0.0, 0.0, 0.0]))
            window.add(Observation(stamp, "team", f"name {frame}", [0.0, 0.0, 0.0]))
        if frame % 3000 == 2999:
            sizes.append(memory(window, set()))
    assert max(sizes) - min(sizes) < 200  # a few notes and names more
    result = window.window()
    assert result.observed.all() and window.resets == 0
    error = np.abs(result.positions - np.stack([path(a, result.times)[:, :2] for a in range(4)]))
    assert error.max() < 1e-4


def test_reset_forgets_everything_and_says_why():
    window = team()
    stream(window, 1.0, 3.0)
    window.reset("asked for by the operator")
    assert window.window() is None and window.names == [] and math.isnan(window.newest)
    assert window.take_notes() == ["window reset: asked for by the operator"]
    stream(window, 1.0, 3.0)
    assert window.window().observed.all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 11, 2), "dt is 0.0"),
        ((0.1, 1, 2), "length is 1"),
        ((0.1, 11, 4), "dims 4"),
        ((0.1, 11, 2, ["a", "a"]), "agent names must differ"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        SlidingWindow(*arguments)


def test_parameters_and_shapes_are_checked():
    with pytest.raises(ValueError, match="grid_delay is -1"):
        WindowParameters(grid_delay=-1)
    with pytest.raises(ValueError, match="max_gap is 0"):
        WindowParameters(max_gap=0)
    with pytest.raises(ValueError, match="velocity_samples is 2, expected at least 3"):
        WindowParameters(velocity_samples=2)
    with pytest.raises(ValueError, match=r"shape \(3, 3\), expected \(4, 3\)"):
        team(TEAM).add_frame(1.0, np.zeros((3, 3)))


# ---------------------------------------------------------------- anything at all


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_sent_the_window_is_well_formed(seed):
    rng = np.random.default_rng(seed)
    odd = [math.nan, math.inf, -math.inf, 0.0, 1e300, -1e9]
    window = SlidingWindow(
        0.05, 12, int(rng.integers(2, 4)), TEAM if seed % 2 else None, WindowParameters(max_agents=6)
    )
    clock, windows, statuses = 1000.0, 0, set()
    for _ in range(3000):
        clock += rng.exponential(0.004)
        stamp = clock + rng.normal(0, 0.002)
        kind = rng.random()
        if kind < 0.02:
            stamp = rng.choice([0.0, math.nan, -1.0, clock - 30, clock + 30, math.inf, clock - 0.4, clock + 0.25])
        elif kind < 0.0205:
            clock += rng.choice([-50.0, 50.0, 0.5])
        position = rng.normal(0, 0.1, 3) + (5.0 if rng.random() < 0.05 else 0.0)
        if rng.random() < 0.1:
            position[rng.integers(3)] = rng.choice(odd)
        if rng.random() < 0.02:
            position[:] = 0.0
        agent = rng.integers(0, 9 if rng.random() < 0.01 else 4)
        if int(clock) % 4 == agent:
            continue  # each is silent for a second in turn
        window.add(
            Observation(
                float(stamp),
                "team",
                f"r{agent}",
                None if rng.random() < 0.05 else position,
                velocity=rng.choice([1.0, math.nan, 1e300, 3.0], 3) if rng.random() < 0.5 else None,
                orientation=rng.choice([0.0, 1.0, math.nan], 4) if rng.random() < 0.5 else None,
                confidence=float(rng.choice([1.0, 0.5, 7.0] if rng.random() < 0.95 else [math.nan, -1.0])),
                tracked=rng.random() > 0.05,
            ),
            now=clock,
        )
        if rng.random() < 0.1:
            result = window.window(now=clock)
            if result is not None:
                check(result)
                windows += 1
                statuses |= set(result.status.tolist())
    assert windows > 50
    assert {Status.VISIBLE, Status.HIDDEN} <= statuses
    assert sum(window.rejected.values()) > 0


def test_agents_that_have_long_been_gone_are_forgotten_where_names_are_open():
    window = team(forget_after=2.0)
    stream(window, 1.0, 4.0)
    stream(window, 4.0, 5.9, agents=(0, 2, 3))
    assert window.window().names == TEAM and window.window().status[1] == Status.HIDDEN
    stream(window, 5.9, 6.5, agents=(0, 2, 3))
    result = window.window()
    check(result)
    assert result.names == ["r0", "r2", "r3"] and (result.status == Status.VISIBLE).all()
    assert np.abs(result.positions - np.stack([path(a, result.times)[:, :2] for a in (0, 2, 3)])).max() < 1e-3
    assert "forgotten, not named for 2 s: r1" in window.take_notes() and len(window.heights) == 3
    stream(window, 6.5, 8.0, agents=(0, 1, 2, 3))  # back, as a new one
    assert window.window().names == ["r0", "r2", "r3", "r1"]
    fixed = team(names=TEAM, forget_after=2.0)
    stream(fixed, 1.0, 4.0)
    stream(fixed, 4.0, 8.0, agents=(0, 2, 3))
    assert fixed.window().names == TEAM and fixed.window().status[1] == Status.HIDDEN


def test_who_is_missing_from_messages_for_all_is_forgotten_and_who_is_named_as_lost_is_not():
    window = SlidingWindow(0.1, 5, 2, parameters=WindowParameters(forget_after=2.0))
    for tick in range(200):
        names = ["a", "b", "ghost"] if tick < 5 else ["a", "b"]
        positions = np.stack([[0.01 * tick, row, 1.0] for row in range(len(names))])
        positions[1] = np.nan if tick > 50 else positions[1]
        window.add_frame(10.0 + 0.02 * tick, positions, names=names)
        if tick == 100:
            assert window.window().names == ["a", "b", "ghost"]
    now = window.window()
    assert now.names == ["a", "b"] and now.status.tolist() == [Status.VISIBLE, Status.HIDDEN]


def test_orientation_counts_for_the_last_sample_also_after_time_has_gone_back():
    window = SlidingWindow(0.1, 5, 2, ["a", "b"])
    turns = np.array([[0.0, 0.0, 1.0, 0.0], [np.nan] * 4])
    for begin, quaternions, expected in ((100.0, turns, [True, False]), (10.0, turns[::-1], [False, True])):
        for tick in range(60):
            positions = np.array([[0.01 * tick, row, 1.0] for row in range(2)])
            window.add_frame(begin + 0.02 * tick, positions, orientations=quaternions)
        assert window.window().status.tolist() == [Status.VISIBLE] * 2
        assert window.oriented.tolist() == expected
    window.add_frame(11.2, positions)
    assert window.oriented.tolist() == [False, False]
