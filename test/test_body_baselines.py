"""The regressions of a body behind the estimator's interface, where a limb follows from the other joints exactly."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from siha_ros.body_baselines import RidgeEstimator, ridge_estimators
from siha_ros.model.body_frame import BodyTemplate
from siha_ros.model.body_linear import LinearPath, WindowRidge
from siha_ros.model.ridge import fit_limb_ridge
from siha_ros.window.types import Status, Window

NAMES = ["hip", "spine", "neck", "head", "knee", "hand", "foot"]
CORE, ARM, LEG = np.array([0, 1, 2, 3]), np.array([5]), np.array([4, 6])
DT, FRAMES = 1 / 60, 20
REST = np.array(
    [[0, 0.1, 1], [0, -0.1, 1.2], [0.05, 0.1, 1.5], [0.1, 0, 1.7], [0, 0.1, 0.5], [0.2, 0.4, 1], [0, 0.1, 0]]
)


def walk(phase, speed):
    """Windows f8[A, T, 3] of a body that walks along +x: the hand is where knee and core say."""
    t = DT * np.arange(FRAMES)
    body = np.repeat(REST[:, None], FRAMES, axis=1)
    body[4, :, 0] += 0.3 * np.sin(6 * t + phase)
    body[4, :, 2] += 0.1 * np.cos(11 * t + phase)
    body[5, :, 0] = 0.2 - (body[4, :, 0] - 0.5 * body[4, :, 2])
    body[6] = body[4] - [0, 0, 0.5]
    body[:, :, 0] += speed * t
    return body


@pytest.fixture(scope="module")
def bundle():
    random = np.random.default_rng(0)
    walks = np.stack([walk(*pair) for pair in zip(random.uniform(0, 6, 60), random.uniform(1, 1.5, 60), strict=True)])
    template = BodyTemplate.of(walks, np.zeros(len(walks)), CORE)
    windows = template.fit(walks, np.ones(7, bool)).to_body(walks)
    arrays = {}
    for kind, lags in (("ridge_frame", (0,)), ("ridge_window", (0, 3))):
        for limb, hidden in (("arm", ARM), ("leg", LEG)):
            ridge, _ = fit_limb_ridge(windows[:40], windows[40:], hidden, CORE, [lags], [1e-9], DT)
            arrays |= {f"{kind}.{limb}.{key}": tensor for key, tensor in ridge.tensors().items()}
    nothing = WindowRidge(np.eye(2), *(np.zeros(1) for _ in range(3)))
    path = LinearPath(template, nothing, nothing, np.zeros(1), np.zeros(1))
    config = SimpleNamespace(agent_names=NAMES, limbs={"arm": ["hand"], "leg": ["knee", "foot"]}, horizon=5)
    return SimpleNamespace(config=config, arrays={"linear": path.tensors(), "ridge": arrays})


def turned(body, angle=2.0, offset=(3.0, -1.0, 0.2)):
    """The same body elsewhere, facing elsewhere."""
    cos, sin = np.cos(angle), np.sin(angle)
    return body @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]]) + np.array(offset)


def window_of(positions, lost, lost_from, order):
    observed = np.ones((7, FRAMES), dtype=bool)
    observed[lost, lost_from:] = False
    seen = np.where(observed[..., None], positions, np.nan)
    last = positions[:, max(lost_from - 1, 0)] if lost_from < FRAMES else positions[:, -1]
    return Window(
        names=[NAMES[i] for i in order],
        times=100 + DT * np.arange(FRAMES),
        positions=seen[order],
        velocities=np.full_like(positions, np.nan),
        observed=observed[order],
        confidence=observed[order].astype(np.float32),
        status=np.where(observed[order, -1], Status.VISIBLE, Status.HIDDEN).astype(np.int8),
        reason=[""] * 7,
        last_seen=np.full(7, 100 + DT * (max(lost_from, 1) - 1)),
        last_position=last[order],
        last_velocity=np.zeros((7, 3)),
    )


@pytest.mark.parametrize("kind", ["ridge_frame", "ridge_window"])
@pytest.mark.parametrize("lost_from", [0, 12])
def test_a_hand_that_follows_from_the_rest_is_found(bundle, kind, lost_from):
    truth = turned(walk(1.3, 1.2))
    order = np.array([5, 0, 3, 1, 6, 2, 4])
    window = window_of(truth, ARM, lost_from, order)
    estimate = RidgeEstimator(bundle, kind).estimate(window)
    assert estimate.names == window.names
    reached = slice(3 if kind == "ridge_window" else 0, None)  # the lags of earlier frames lie before the window
    np.testing.assert_allclose(estimate.positions[:, reached], truth[order][:, reached], atol=1e-3)
    moved = np.abs(truth[5] - truth[5, :1]).max()
    assert moved > 0.1  # holding it would not do
    speed = np.diff(truth[5], axis=0) / DT
    np.testing.assert_allclose(estimate.velocities[0, 4:], speed[3:], atol=0.1)


def test_more_than_one_limb_goes_on_at_constant_velocity(bundle):
    truth = turned(walk(1.3, 1.2))
    window = window_of(truth, np.array([5, 6]), 12, np.arange(7))
    estimate = RidgeEstimator(bundle, "ridge_frame").estimate(window)
    np.testing.assert_allclose(estimate.positions[5, -1], truth[5, 11], atol=1e-9)


def test_they_come_with_bundles_of_bodies(bundle):
    assert list(ridge_estimators(bundle)) == ["ridge_frame", "ridge_window"]
    assert ridge_estimators(SimpleNamespace(config=bundle.config, arrays={})) == {}
