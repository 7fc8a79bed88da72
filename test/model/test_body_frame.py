"""The body frame: recovers a known pose, moves and turns with the body, and does not care which limb is hidden."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.model.body_frame import BodyFrame, BodyTemplate

CORE = np.array([0, 1, 2, 3])  # pelvis, chest, neck, head; then 4, 5 the hands and 6, 7 the feet
POSE = np.array(
    [
        [0, 0, 1.0],
        [0.03, 0, 1.3],
        [0.02, 0, 1.5],
        [0.08, 0, 1.65],
        [0.1, 0.4, 1],
        [0, -0.4, 1],
        [0.2, 0.1, 0],
        [-0.2, -0.1, 0],
    ]
)
TRAVEL = 0.9


def walking(count, wobble, seed):
    """Windows [count, 8, 5, 3] of the pose walking along +x, with a heading of its own each; returns windows and
    headings.
    """
    rng = np.random.default_rng(seed)
    headings = rng.uniform(-3, 3, count)
    body = POSE[None, :, None] + rng.normal(0, 1, (count, 8, 1, 3)) * wobble[:, None, None]
    way = np.linspace(-TRAVEL, 0, 5)[:, None] * np.array([1.0, 0, 0])
    frame = BodyFrame(headings, rng.uniform(-5, 5, (count, 3)))
    return frame.to_world(body + way), headings


@pytest.fixture(scope="module")
def template():
    windows, headings = walking(4000, np.array([0.003, 0.003, 0.003, 0.01, 0.1, 0.1, 0.05, 0.05]), seed=1)
    return BodyTemplate.of(windows, headings, CORE)


def test_template_is_the_mean_pose_facing_along_x(template):
    expected = POSE - POSE[CORE].mean(0)
    np.testing.assert_allclose(template.pose[:, :2], expected[:, :2], atol=0.01)
    np.testing.assert_allclose(template.pose[CORE], expected[CORE], atol=0.001)
    assert template.travel == pytest.approx(TRAVEL, abs=0.001)


def test_finds_the_heading_and_the_place_of_an_undisturbed_body(template):
    windows, headings = walking(10, np.zeros(8), seed=2)
    frame = template.fit(windows, np.ones(8, bool))
    np.testing.assert_allclose(np.angle(np.exp(1j * (frame.heading - headings))), 0, atol=np.radians(0.1))
    np.testing.assert_allclose(
        frame.to_body(windows)[:, CORE, -1], np.tile(template.pose[CORE], (10, 1, 1)), atol=0.003
    )


def test_moves_and_turns_with_the_body(template):
    windows, _ = walking(6, np.full(8, 0.02), seed=3)
    before = template.fit(windows, np.ones(8, bool))
    motion = BodyFrame(np.full(6, 2.0), np.tile([3.0, -4.0, 0.5], (6, 1)))
    moved = motion.to_world(windows)
    after = template.fit(moved, np.ones(8, bool))
    np.testing.assert_allclose(after.to_body(moved), before.to_body(windows), atol=1e-9)
    turned = np.angle(np.exp(1j * (after.heading - before.heading - 2.0)))
    np.testing.assert_allclose(turned, 0, atol=1e-9)


def test_does_not_move_when_limbs_are_lost(template):
    windows, _ = walking(6, np.full(8, 0.02), seed=4)
    whole = template.fit(windows, np.ones(8, bool))
    windows = windows.copy()
    windows[:, 4:] = np.nan
    core_only = template.fit(windows, np.isin(np.arange(8), CORE))
    np.testing.assert_array_equal(core_only.heading, whole.heading)
    np.testing.assert_array_equal(core_only.origin, whole.origin)


def test_a_lost_head_moves_it_little(template):
    windows, _ = walking(200, np.full(8, 0.005), seed=5)
    whole = template.fit(windows, np.ones(8, bool))
    without = template.fit(windows, np.arange(8) != 3)
    assert np.degrees(np.abs(np.angle(np.exp(1j * (without.heading - whole.heading))))).mean() < 1.0
    assert np.linalg.norm(without.origin - whole.origin, axis=1).mean() < 0.01


def test_without_a_core_it_fits_what_is_seen(template):
    windows, headings = walking(5, np.zeros(8), seed=6)
    windows[:, :3] = np.nan
    frame = template.fit(windows, np.arange(8) > 2)
    np.testing.assert_allclose(np.angle(np.exp(1j * (frame.heading - headings))), 0, atol=np.radians(1))
    np.testing.assert_allclose(
        frame.to_body(windows)[:, 3:, -1].mean(1), np.tile(template.pose[3:].mean(0), (5, 1)), atol=0.01
    )


def test_a_body_that_stands_is_still_fitted_by_its_pose(template):
    windows, headings = walking(5, np.zeros(8), seed=7)
    windows = np.repeat(windows[:, :, -1:], 5, axis=2)
    frame = template.fit(windows, np.ones(8, bool))
    np.testing.assert_allclose(np.angle(np.exp(1j * (frame.heading - headings))), 0, atol=np.radians(1))


def test_needs_two_agents(template):
    with pytest.raises(ValueError, match="two agents"):
        template.fit(np.zeros((8, 5, 3)), np.arange(8) == 4)


def test_frames_go_there_and_back_and_keep_the_vertical():
    frame = BodyFrame(np.array(np.pi / 2), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(frame.to_world(np.array([[[1.0, 0, 0.5]]])), [[[1.0, 3.0, 3.5]]], atol=1e-12)
    points = np.random.default_rng(0).normal(size=(4, 3, 3))
    np.testing.assert_allclose(frame.to_body(frame.to_world(points)), points, atol=1e-12)
    np.testing.assert_allclose(frame.turn_to_body(np.array([[[0.0, 1.0, 2.0]]])), [[[1.0, 0.0, 2.0]]], atol=1e-12)
