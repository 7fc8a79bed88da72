"""Hold, constant velocity and mean of the visible, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.baselines import ConstantVelocity, Hold, MeanVisible, mean_of_seen, time_to_seen
from siha_ros.window import Observation, SlidingWindow, Status, Window

BASELINES = [Hold, ConstantVelocity, MeanVisible]


def window(positions, observed, last_seen, last_position, last_velocity, dt=0.5, begin=10.0) -> Window:
    """A window of planar agents from what a test cares for."""
    positions, observed = np.array(positions, dtype=float), np.array(observed, dtype=bool)
    agents, length, _ = positions.shape
    positions[~observed] = np.nan
    seen = observed[:, -1]
    return Window(
        names=[f"r{agent}" for agent in range(agents)],
        times=begin + dt * np.arange(length),
        positions=positions,
        velocities=np.full_like(positions, np.nan),
        observed=observed,
        confidence=observed.astype(np.float32),
        status=np.where(seen, Status.VISIBLE, Status.HIDDEN).astype(np.int8),
        reason=["" if s else "silent" for s in seen],
        last_seen=np.array(last_seen, dtype=float),
        last_position=np.array(last_position, dtype=float),
        last_velocity=np.array(last_velocity, dtype=float),
    )


def example() -> Window:
    """From 10 to 12 s r0 goes along x at 2 m/s, r1 rests; r2 goes along y at 1 m/s and is last seen at 10.5 s."""
    r0 = [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]]
    r1 = [[0, 4]] * 5
    r2 = [[6, 1], [6, 1.5], [0, 0], [0, 0], [0, 0]]
    return window(
        [r0, r1, r2],
        [[1] * 5, [1] * 5, [1, 1, 0, 0, 0]],
        [12.5, 12.5, 10.5],
        [[5, 0], [0, 4], [6, 1.5]],
        [[2, 0], [0, 0], [0, 1]],
    )


def gone() -> Window:
    """As the example, 20 s later: r2 was last seen 18 s before the window begins."""
    later = example()
    later.times = later.times + 20.0
    later.last_seen = np.array([32.5, 32.5, 12.0])
    later.observed[2] = False
    later.positions[2] = np.nan
    return later


def assert_sound(estimate, given: Window, horizon: int) -> None:
    agents, length, dims = given.positions.shape
    assert estimate.positions.shape == estimate.velocities.shape == (agents, length, dims)
    assert estimate.covariance.shape == (agents, length, dims, dims)
    assert estimate.position_95.shape == (agents, length)
    assert estimate.forecast.positions.shape == estimate.forecast.velocities.shape == (agents, horizon, dims)
    assert estimate.forecast.covariance.shape == (agents, horizon, dims, dims)
    forecast = estimate.forecast
    arrays = [estimate.positions, estimate.velocities, estimate.covariance, estimate.position_95, estimate.adjacency]
    arrays += [forecast.times, forecast.positions, forecast.velocities, forecast.covariance]
    for array in arrays:
        assert np.isfinite(array).all()
    np.testing.assert_array_equal(estimate.positions[given.observed], given.positions[given.observed])
    measured = np.isfinite(given.velocities)
    np.testing.assert_array_equal(estimate.velocities[measured], given.velocities[measured])
    assert (np.linalg.eigvalsh(estimate.covariance) > 0).all()
    assert (np.linalg.eigvalsh(forecast.covariance) > 0).all()
    assert (np.diff(forecast.times, prepend=given.times[-1]) > 0).all()


def test_hold_by_hand():
    estimate = Hold(horizon=2).estimate(example())
    np.testing.assert_allclose(estimate.positions[2], [[6, 1], [6, 1.5], [6, 1.5], [6, 1.5], [6, 1.5]])
    np.testing.assert_allclose(estimate.velocities[2], [[0, 1], [0, 1], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(estimate.forecast.positions[2], [[6, 1.5]] * 2)
    np.testing.assert_allclose(estimate.forecast.positions[0], [[5, 0], [6, 0]])
    np.testing.assert_allclose(estimate.forecast.times, [12.5, 13.0])
    np.testing.assert_allclose(Hold(horizon=2).estimate(gone()).positions[2], [[6, 1.5]] * 5)
    assert estimate.reason == ["", "", "hold: silent"]


def test_constant_velocity_by_hand():
    estimate = ConstantVelocity(horizon=2).estimate(example())
    np.testing.assert_allclose(estimate.positions[2], [[6, 1], [6, 1.5], [6, 2], [6, 2.5], [6, 3]])
    np.testing.assert_allclose(estimate.velocities[2], [[0, 1]] * 5)
    np.testing.assert_allclose(estimate.forecast.positions[2], [[6, 3.5], [6, 4]])
    estimate = ConstantVelocity(horizon=2).estimate(gone())  # 18 to 20 s at 1 m/s after (6, 1.5)
    np.testing.assert_allclose(estimate.positions[2], [[6, 19.5], [6, 20], [6, 20.5], [6, 21], [6, 21.5]])


def test_mean_visible_by_hand():
    decay = MeanVisible(horizon=2, time_constant=0.5 / np.log(2.0))  # halves with every step
    estimate = decay.estimate(example())
    # The mean of r0 and r1 runs (0, 2), (0.5, 2), (1, 2), (1.5, 2), (2, 2); r2 is off by (5.5, -0.5) when last seen.
    expected = [[6, 1], [6, 1.5], [1 + 2.75, 2 - 0.25], [1.5 + 1.375, 2 - 0.125], [2 + 0.6875, 2 - 0.0625]]
    np.testing.assert_allclose(estimate.positions[2], expected)
    step = (np.array([2.6875, 1.9375]) - [2.875, 1.875]) / 0.5
    np.testing.assert_allclose(estimate.velocities[2, -1], step)
    np.testing.assert_allclose(estimate.forecast.positions[2], [[2.6875, 1.9375] + 0.5 * step, [2.6875, 1.9375] + step])
    after_twenty = decay.estimate(gone())
    np.testing.assert_allclose(after_twenty.positions[2], mean_of_seen(gone()), atol=1e-6)


def test_mean_visible_remembers_the_offset_from_when_the_agent_was_lost():
    slow = MeanVisible(time_constant=1e6)
    previous = slow.estimate(example())
    later = example()
    later.times = later.times + 2.0
    later.positions[:2] += [100.0, 0.0]  # the team is elsewhere by now
    later.observed[2], later.positions[2] = False, np.nan
    for _ in range(3):
        previous = slow.estimate(later, previous)
    np.testing.assert_allclose(previous.positions[2] - mean_of_seen(later), [[5.5, -0.5]] * 5, atol=1e-3)
    without = slow.estimate(later)
    np.testing.assert_allclose(without.positions[2, 0], [6.0, 1.5], atol=1e-3)


@pytest.mark.parametrize("baseline", BASELINES)
def test_gaps_inside_are_interpolated_and_the_time_before_is_held(baseline):
    given = example()
    given.observed[1] = [False, True, False, True, True]
    given.positions[1] = [[np.nan] * 2, [2, 4], [np.nan] * 2, [4, 4], [4, 4]]
    given.observed[2], given.positions[2] = True, given.positions[0] + [0, 4]
    estimate = baseline().estimate(given)
    mean = mean_of_seen(given)  # of r0, r1 held and r2
    offset = given.positions[1] - mean
    if baseline is MeanVisible:
        expected = [mean[0] + offset[1], given.positions[1, 1], mean[2] + (offset[1] + offset[3]) / 2]
    else:
        expected = [[2, 4], [2, 4], [3, 4]]
    np.testing.assert_allclose(estimate.positions[1, :3], expected)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("given", [example, gone])
def test_estimates_are_sound_and_say_nothing_of_the_graph(baseline, given):
    estimate = baseline(horizon=7).estimate(given())
    assert_sound(estimate, given(), 7)
    expected = np.repeat((1 - np.eye(3))[..., None] * 0.5, 2, axis=2)
    np.testing.assert_array_equal(estimate.adjacency, expected)
    assert estimate.names == given().names and estimate.rounds == 0 and estimate.change == 0.0 and estimate.ms > 0


@pytest.mark.parametrize("baseline", BASELINES)
def test_deviation_grows_with_the_time_since_seen(baseline):
    estimate = baseline(horizon=4).estimate(example())
    assert (np.diff(estimate.position_95[2, 1:]) > 0).all()
    assert (np.diff(np.trace(estimate.forecast.covariance[2], axis1=1, axis2=2)) > 0).all()
    assert np.allclose(estimate.position_95[:2], estimate.position_95[0, 0])
    late = baseline(horizon=4).estimate(gone())
    assert late.position_95[2, 0] > estimate.position_95[2, -1]


def test_deviations_by_hand():
    np.testing.assert_allclose(time_to_seen(example())[2], [0, 0, 0.5, 1.0, 1.5])
    np.testing.assert_allclose(time_to_seen(gone())[2], [18, 18.5, 19, 19.5, 20])
    hold = Hold(seen_deviation=0.01, growth=0.4).estimate(example())
    np.testing.assert_allclose(hold.covariance[2, -1], np.eye(2) * 0.61**2)
    velocity = ConstantVelocity(seen_deviation=0.01, growth=0.4).estimate(example())
    np.testing.assert_allclose(velocity.covariance[2, -1], np.eye(2) * (0.01 + 0.2 * 1.5**2) ** 2)
    mean = MeanVisible(seen_deviation=0.01, growth=0.4, time_constant=2.0).estimate(example())
    np.testing.assert_allclose(mean.covariance[2, -1], np.eye(2) * (0.01 + 0.8 * (1 - np.exp(-0.75))) ** 2)


@pytest.mark.parametrize("baseline", BASELINES)
def test_never_seen_and_nobody_seen(baseline):
    given = example()
    given.observed[2], given.positions[2] = False, np.nan
    given.last_seen[2], given.last_position[2], given.last_velocity[2] = np.nan, np.nan, np.nan
    estimate = baseline().estimate(given)
    assert_sound(estimate, given, 50)
    np.testing.assert_allclose(estimate.positions[2], mean_of_seen(given))
    assert estimate.position_95[2].min() > 2.0
    given.observed[:], given.positions[:] = False, np.nan
    assert_sound(baseline().estimate(given, estimate), given, 50)
    given.last_seen[:], given.last_position[:], given.last_velocity[:] = np.nan, np.nan, np.nan
    nothing = baseline().estimate(given)
    assert_sound(nothing, given, 50)
    np.testing.assert_array_equal(nothing.positions, 0.0)


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_live_loss_continues_without_a_jump(baseline):
    """From the window itself: r1 circles and falls silent; the estimate leaves its last position at a bounded speed."""
    sliding, estimator, previous, newest = SlidingWindow(0.1, 21, 2), baseline(), None, []
    for frame in range(400):
        stamp = 50.0 + frame / 50
        for agent in range(3):
            if agent != 1 or stamp < 54.0:
                angle = 0.5 * stamp + 2 * agent
                sliding.add(Observation(stamp, "team", f"r{agent}", [np.cos(angle), np.sin(angle), 0.0]))
        given = sliding.window()
        if given is not None:
            previous = estimator.estimate(given, previous)
            assert_sound(previous, given, 50)
            newest.append(previous.positions[1, -1])
    speed = np.linalg.norm(np.diff(newest, axis=0), axis=1) * 50
    # Bridging ends 0.3 s after the loss. Then hold steps back by 0.2 s at 0.5 m/s, and the offset of mean_visible,
    # 1.5 m from the mean of the two others, decayed for 0.2 s; from there on each goes its own slow way.
    assert np.sort(speed)[-2] < 1.0
    step = {Hold: 0.1, ConstantVelocity: 0.02, MeanVisible: 0.1 + 1.5 * (1 - np.exp(-0.1))}[baseline]
    assert np.linalg.norm(np.diff(newest, axis=0), axis=1).max() < step + 0.01


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="horizon is 0"):
        Hold(horizon=0)
    with pytest.raises(ValueError, match="time_constant is 0"):
        MeanVisible(time_constant=0.0)
