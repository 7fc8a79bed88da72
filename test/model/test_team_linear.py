"""The linear path of a team against a Gaussian that is conditioned the long way."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.model.team_linear import TeamLinear
from siha_ros.model.total import Total

AGENTS, FRAMES, DT = 5, 12, 0.2


def kernel() -> np.ndarray:
    """Smooth paths: squared exponential, of 0.6 s and 0.5 m."""
    times = DT * np.arange(FRAMES)
    return np.asarray(0.25 * np.exp(-0.5 * np.square((times[:, None] - times) / 0.6)))


def total(variance: float = 1e-6, drift: float = 1e-3) -> Total:
    return Total(0.0, np.zeros((2, 2)), np.eye(2), variance, drift)


def covariances(variance: float, sums: Total) -> tuple[np.ndarray, np.ndarray]:
    """Of all positions ``[A T, A T]`` for one axis without and with what is beside the kernel; the line on which the
    sum goes has a deviation of some hundred m and m/s in the place of none."""
    times = DT * np.arange(FRAMES)
    earlier, later = np.minimum(times[:, None], times), np.maximum(times[:, None], times)
    wandered = sums.drift * (earlier**2 * later / 2 - earlier**3 / 6)
    line = 1e5 * AGENTS * (1 + np.outer(times, times))
    mean = np.full((AGENTS, AGENTS), 1 / AGENTS)
    below = np.kron(np.eye(AGENTS) - mean, kernel()) + np.kron(mean, (wandered + line) / AGENTS)
    beside = np.kron(np.eye(AGENTS) - mean, variance * np.eye(FRAMES))
    beside += np.kron(mean, max(AGENTS * variance, sums.variance) / AGENTS * np.eye(FRAMES))
    return below, below + beside


def drawn(seed: int, variance: float, sums: Total, count: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Windows ``[n, A, T, 2]`` without and with what is beside the kernel."""
    rng = np.random.default_rng(seed)
    below, whole = covariances(variance, sums)
    values, vectors = np.linalg.eigh(np.stack([below, whole - below]))
    roots = vectors * np.sqrt(values.clip(0))[:, None]
    parts = [np.einsum("ij,njp->nip", root, rng.standard_normal((count, len(root), 2))) for root in roots]
    shape = (count, AGENTS, FRAMES, 2)
    return parts[0].reshape(shape), (parts[0] + parts[1]).reshape(shape)


def lost(*times: slice) -> np.ndarray:
    """Which positions are observed, where the last agents are not at ``times``."""
    observed = np.ones((AGENTS, FRAMES), bool)
    for agent, frames in enumerate(times):
        observed[AGENTS - len(times) + agent, frames] = False
    return observed


@pytest.mark.parametrize("times", [(slice(7, None),), (slice(7, None), slice(3, 6)), (slice(None), slice(8, None))])
def test_it_is_the_conditional_gaussian(times: tuple[slice, ...]) -> None:
    variance, sums = 1e-4, total()
    _, windows = drawn(1, variance, sums)
    observed = lost(*times)
    found = TeamLinear(kernel()).complete(windows[0], observed, variance, sums, DT)

    below, whole = covariances(variance, sums)
    seen = observed.ravel()
    gain = np.linalg.solve(whole[np.ix_(seen, seen)], below[seen]).T
    mean = (gain @ windows[0].reshape(-1, 2)[seen]).reshape(AGENTS, FRAMES, 2)
    left = (below - gain @ below[seen]).reshape(AGENTS, FRAMES, AGENTS, FRAMES)
    own = np.einsum("itis->its", left)[-len(times) :]
    change = own[:, 1:, 1:] + own[:, :-1, :-1] - own[:, 1:, :-1] - own[:, :-1, 1:]
    np.testing.assert_allclose(found.positions, mean[-len(times) :], atol=1e-3)
    np.testing.assert_allclose(found.variance[..., 0], np.einsum("itt->it", own), rtol=0.01, atol=1e-6)
    np.testing.assert_allclose(found.variance[:, 1:, 1], np.einsum("itt->it", change), rtol=0.01, atol=1e-6)


def test_what_is_unseen_is_what_follows_from_the_others_alone() -> None:
    _, windows = drawn(2, 1e-4, total())
    model = TeamLinear(kernel())
    some = model.complete(windows[0], lost(slice(9, None), slice(4, None)), 1e-4, total(), DT)
    none = model.complete(windows[0], lost(slice(None), slice(None)), 1e-4, total(), DT)
    np.testing.assert_allclose(some.unseen, none.variance, rtol=1e-6)
    assert (some.variance[..., 0] < none.variance[..., 0]).all()


def test_what_is_stated_is_what_is_missed() -> None:
    variance, sums, observed = 1e-5, total(), lost(slice(6, None), slice(6, None))
    truth, windows = drawn(3, variance, sums, 400)
    model = TeamLinear(kernel())
    found = [model.complete(window, observed, variance, sums, DT) for window in windows]
    missed = np.stack([one.positions for one in found]) - truth[:, -2:]
    ratio = np.square(missed).mean((0, 1, 3)) / found[0].variance[..., 0].mean(0)
    assert ratio == pytest.approx(1.0, abs=0.25)
    assert np.mean([one.surprise for one in found]) == pytest.approx(1.0, abs=0.15)


def test_a_team_that_moves_otherwise_surprises() -> None:
    variance, observed = 1e-5, lost(slice(6, None), slice(6, None))
    _, windows = drawn(4, variance, total(), 50)
    model = TeamLinear(kernel())
    quick = [model.complete(3 * window, observed, variance, total(), DT).surprise for window in windows]
    assert np.mean(quick) == pytest.approx(9.0, rel=0.3)


@pytest.mark.parametrize("variance", [1e-8, 1e-6, 1e-3])
def test_noise_is_found(variance: float) -> None:
    _, windows = drawn(5, variance, total(), 60)
    found = [TeamLinear(kernel()).noise(window[:4]) for window in windows]
    assert np.exp(np.mean(np.log(found))) == pytest.approx(variance, rel=0.35)


def test_the_kernel_of_windows_is_found() -> None:
    truth, _ = drawn(6, 1e-12, total(), 4000)
    np.testing.assert_allclose(TeamLinear.fit(truth).kernel, kernel(), atol=0.01)


def test_one_that_is_lost_is_where_the_sum_leaves_it() -> None:
    """By hand: four agents stand still, the fifth goes straight on, and so does the sum."""
    positions = np.zeros((AGENTS, FRAMES, 2))
    positions[1:4] = [[[1.0, 0.0]], [[0.0, 2.0]], [[-3.0, 1.0]]]
    positions[4] = np.array([0.5, -1.0]) + DT * np.arange(FRAMES)[:, None] * [0.3, 0.1]
    found = TeamLinear(kernel()).complete(positions, lost(slice(5, None)), 1e-10, total(1e-12, 1e-12), DT)
    np.testing.assert_allclose(found.positions[0], positions[4], atol=1e-4)
    assert found.variance[0, -1, 0] < 1e-6 < found.unseen[0, -1, 0] + 1e-5
