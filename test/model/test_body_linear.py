"""Ridge regressions against plain least squares, the linear path of a body, and the carry of its errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from siha_ros.model.body_frame import BodyTemplate
from siha_ros.model.body_linear import CarryKernel, LinearPath, ResidualCarry, WindowRidge
from siha_ros.model.ridge import LimbRidge, Ridge, fit_limb_ridge, fit_ridge, lagged_features

AGENTS, FRAMES = 6, 9
CORE = np.array([0, 1, 2])


def linear_windows(count, seed, noise=0.0):
    """Windows [count, 6, 9, 3] in the body frame: joints 3, 4, 5 swing; 5 is a linear map of 3 and 4 (plus noise)."""
    rng = np.random.default_rng(seed)
    time = np.linspace(-1, 1, FRAMES)
    shapes = np.stack([np.ones(FRAMES), time, time**2])
    swing = np.einsum("nack,kt->nact", rng.normal(0, 0.1, (count, 2, 3, 3)), shapes)
    rest = np.array([[0, 0, 0.1], [0, 0, 0.0], [0, 0, -0.1], [0, 0.2, 0], [0, -0.2, 0], [0.1, 0.1, 0.1]])
    way = np.stack([time - 1, 0 * time, 0 * time], -1)
    windows = np.broadcast_to(rest[:, None] + way, (count, AGENTS, FRAMES, 3)).copy()
    windows[:, 3:5] += swing.swapaxes(-1, -2)
    windows[:, 5] += 0.5 * swing[:, 0].swapaxes(-1, -2) - swing[:, 1].swapaxes(-1, -2)[..., [1, 0, 2]]
    windows[:, 5] += rng.normal(0, noise, windows[:, 5].shape)
    return windows


def ridge_of(path, windows, frames, penalty):
    """The regression over the last `frames` frames of windows."""
    relative, centre = path.relative(windows, np.ones(AGENTS, bool))
    ridge = WindowRidge(
        np.linalg.qr(np.vander(np.linspace(-1, 1, frames), 4))[0],
        *(np.zeros(0) for _ in range(2)),
        np.full(AGENTS, penalty),
    )
    x = ridge.features(relative[:, :, -frames:], centre[:, -frames:])
    values, vectors = np.linalg.eigh((x - x.mean(0)).T @ (x - x.mean(0)))
    return replace(ridge, mean=x.mean(0), factor=np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)


def path_of(windows, penalty=1e-9):
    template = BodyTemplate.of(windows, np.zeros(len(windows)), CORE)
    nothing = WindowRidge(np.eye(2), *(np.zeros(0) for _ in range(3)))
    path = LinearPath(template, nothing, nothing, np.zeros(3 * AGENTS), np.eye(3 * AGENTS)[:4])
    long, short = (ridge_of(path, windows, frames, penalty) for frames in (FRAMES, 5))
    return replace(path, long=long, short=short)


def test_ridge_is_the_penalised_least_squares_solution():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)) + 3, rng.normal(size=(50, 2)) - 1
    for penalty, ridge in zip((0.0, 2.0), fit_ridge(x, y, (0.0, 2.0)), strict=True):
        stacked = np.vstack([x - x.mean(0), np.sqrt(penalty) * np.eye(4)])
        expected = np.linalg.lstsq(stacked, np.vstack([y - y.mean(0), np.zeros((4, 2))]), rcond=None)[0]
        np.testing.assert_allclose(ridge.weights, expected, atol=1e-10)
        np.testing.assert_allclose(ridge(x).mean(0), y.mean(0), atol=1e-12)


def test_lagged_features_by_hand():
    positions = np.zeros((1, 3, 3, 3))
    positions[0, 1, :, 0] = [1.0, 2.0, 4.0]
    positions[0, 0, :, 0] = [0.5, 0.25, 0.5]
    features = lagged_features(positions, np.array([1]), np.array([0]), (0, 1), dt=0.5)
    # position less the core of the frame, velocity times 0.1 s, then both a frame before; from the second frame on
    np.testing.assert_allclose(features[0, 1, [0, 3, 6, 9]], [3.5, 0.4, 1.5, 0.2])
    np.testing.assert_allclose(features[0, 0, [0, 3, 6, 9]], [1.75, 0.2, 0.75, 0.2])
    assert features.shape == (1, 2, 12)


def test_limb_ridge_takes_the_best_penalty_and_as_many_lags_as_help():
    training, validation = linear_windows(60, 0, 0.01), linear_windows(20, 1)
    hidden = np.array([5])
    limb, chosen = fit_limb_ridge(training, validation, hidden, CORE, [(0,), (0, 2)], (1e-6, 1e3), 0.1)
    assert [stage["penalty"] for stage in chosen] == [1e-6] * len(chosen) and chosen[0]["validation_cm"] < 0.5
    found = limb.complete(np.where(np.arange(AGENTS)[:, None, None] == 5, np.nan, validation))
    newest = np.linalg.norm(found[:, :, -1] - validation[:, hidden, -1], axis=-1).mean() * 100
    assert newest == pytest.approx(chosen[-1]["validation_cm"], abs=1e-3)
    again = LimbRidge.from_tensors(limb.tensors())
    np.testing.assert_allclose(again.complete(validation), found, atol=1e-5)


def test_a_frame_is_completed_by_the_last_stage_its_window_reaches():
    rng = np.random.default_rng(3)
    windows = rng.normal(size=(1, AGENTS, FRAMES, 3))
    visible, hidden = np.arange(5), np.array([5])
    constant = [Ridge(np.zeros((30 * stages, 3)), np.full(3, float(stages))) for stages in (1, 2)]
    limb = LimbRidge(visible, hidden, CORE, 0.1, (((0,), constant[0]), ((0, 4), constant[1])))
    above_core = limb.complete(windows)[0, 0] - windows[0, CORE].mean(0)
    np.testing.assert_allclose(above_core[:, 0], [1, 1, 1, 1, 2, 2, 2, 2, 2])


@pytest.mark.parametrize("hidden", [[5], [3], [4, 2]])
def test_path_completes_whatever_follows_from_the_rest(hidden):
    path = path_of(linear_windows(200, 2))
    windows = linear_windows(5, 3)
    broken = windows.copy()
    broken[:, hidden] = np.nan
    found = path.complete(broken, ~np.isin(np.arange(AGENTS), hidden))
    np.testing.assert_allclose(found, windows, atol=1e-4)


def test_path_leaves_visible_joints_alone_and_falls_back_to_the_mean():
    training = linear_windows(200, 4)
    path = path_of(training, penalty=1e9)
    windows = linear_windows(5, 5)
    visible = np.arange(AGENTS) != 5
    found = path.complete(windows, visible)
    np.testing.assert_array_equal(found[:, visible], windows[:, visible])
    mean = (training[:, 5] - training[:, CORE].mean(1)).mean((0, 1))
    np.testing.assert_allclose((found[:, 5] - windows[:, CORE].mean(1)).mean((0, 1)), mean, atol=0.001)


def test_the_short_regression_has_half_a_say_in_the_newest_frame_and_none_at_first():
    path = path_of(linear_windows(200, 2))
    windows, visible = linear_windows(4, 3), np.arange(AGENTS) != 5
    shifted = replace(path, short=replace(path.short, mean=path.short.mean + 0.8))
    moved = (shifted.complete(windows, visible) - path.complete(windows, visible))[:, 5]
    np.testing.assert_allclose(moved[:, :5], 0, atol=1e-9)
    ramp = np.diff(moved[:, 4:, 0], axis=1)
    np.testing.assert_allclose(ramp, ramp[:, :1] * np.ones(4), rtol=1e-6)  # linear from the fifth frame on
    relative, centre = path.relative(windows, visible)
    alone = path.short.newest(relative[:, :, -5:], centre[:, -5:], visible)
    shifted_alone = shifted.short.newest(relative[:, :, -5:], centre[:, -5:], visible)
    np.testing.assert_allclose(moved[:, -1], 0.5 * (shifted_alone - alone)[:, 0], rtol=1e-6)


def test_path_survives_the_way_through_tensors():
    path = path_of(linear_windows(100, 6), penalty=1e-3)
    again = LinearPath.from_tensors(path.tensors())
    windows, visible = linear_windows(3, 7), np.arange(AGENTS) != 4
    np.testing.assert_allclose(again.complete(windows, visible), path.complete(windows, visible), atol=1e-5)
    np.testing.assert_allclose(again.pose_coordinates(windows), path.pose_coordinates(windows), atol=1e-5)
    frame = path.template.fit(windows, visible)
    np.testing.assert_allclose(again.template.fit(windows, visible).heading, frame.heading, atol=1e-5)


def test_pose_coordinates_are_relative_to_the_core():
    path = path_of(linear_windows(100, 8))
    windows = linear_windows(2, 9)
    np.testing.assert_allclose(
        path.pose_coordinates(windows + [1.0, 2.0, 3.0]), path.pose_coordinates(windows), atol=1e-12
    )


KERNEL = CarryKernel(0.1, 1.0, 2.0, 1.0, 0.2, 0.1, 0.05, 1e-6)


def carried(errors, times, wanted, poses=None, wanted_poses=None):
    poses = np.zeros((len(times), 2)) if poses is None else poses
    wanted_poses = np.zeros((len(wanted), 2)) if wanted_poses is None else wanted_poses
    return ResidualCarry(KERNEL).weights(np.array(times), poses, np.array(wanted), wanted_poses) @ errors


def test_carry_passes_through_what_was_seen():
    errors = np.array([0.01, 0.02, 0.015])
    np.testing.assert_allclose(carried(errors, [-0.2, -0.1, 0.0], [-0.2, 0.0]), errors[[0, 2]], atol=1e-6)
    just_after = carried(errors, [-0.2, -0.1, 0.0], [0.001])
    np.testing.assert_allclose(just_after, errors[2], atol=1e-4)


def test_carry_fades_and_returns_with_the_pose():
    far, same = np.array([[9.0, 0.0]]), np.array([[0.0, 0.0]])
    seen = np.zeros((1, 2))
    late_elsewhere = carried(np.array([1.0]), [0.0], [5.0], seen, far)
    late_same = carried(np.array([1.0]), [0.0], [5.0], seen, same)
    np.testing.assert_allclose(late_elsewhere, 0.1 / 2.2, atol=1e-3)  # the bias alone
    np.testing.assert_allclose(late_same, 1.1 / 2.2, atol=1e-3)  # bias and pose


def test_carry_is_the_textbook_regression():
    rng = np.random.default_rng(1)
    times, poses = rng.uniform(-1, 0, 7), rng.normal(size=(7, 2))
    wanted, there = np.array([0.3]), rng.normal(size=(1, 2))

    def covariance(t1, p1, t2, p2):
        gap = abs(t1 - t2)
        pose = np.exp(-0.5 * np.sum((p1 - p2) ** 2) / KERNEL.pose_length**2)
        rough = gap / KERNEL.fast_seconds
        return (
            KERNEL.bias
            + KERNEL.pose * pose
            + KERNEL.slow * np.exp(-0.5 * (gap / KERNEL.slow_seconds) ** 2)
            + KERNEL.fast * (1 + rough) * np.exp(-rough)
        )

    full = np.array(
        [[covariance(a, p, b, q) for b, q in zip(times, poses, strict=True)] for a, p in zip(times, poses, strict=True)]
    )
    cross = np.array([covariance(wanted[0], there[0], b, q) for b, q in zip(times, poses, strict=True)])
    expected = np.linalg.inv(full + KERNEL.noise * np.eye(7)) @ cross
    np.testing.assert_allclose(ResidualCarry(KERNEL).weights(times, poses, wanted, there)[0], expected, rtol=1e-6)


def test_carry_survives_the_way_through_a_tensor():
    again = ResidualCarry.from_tensor(ResidualCarry(KERNEL).tensor())
    assert again.kernel.slow_seconds == pytest.approx(KERNEL.slow_seconds) and again.kernel.noise == pytest.approx(1e-6)
