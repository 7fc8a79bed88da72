"""Charged particles against forces worked out by hand, a plain integrator written here, and energy."""

from __future__ import annotations

import numpy as np
import pytest

from offline_training.systems.charged import LANES, SPEED, STEP, draw_starts, energy, integrate, simulate_charged


def plain_run(x, v, charges, frames):
    """One run f8[A, 2] by the textbook, agent by agent: [A, frames, 2] twice."""
    x, v = x.copy(), v.copy()
    kept_x, kept_v = [], []
    for step in range(1, frames * 100 + 1):
        force = np.zeros_like(x)
        for i in range(len(x)):
            for j in range(len(x)):
                if i != j:
                    apart = x[i] - x[j]
                    force[i] += charges[i] * charges[j] * apart / np.linalg.norm(apart) ** 3
        v += 0.001 * np.clip(force, -100.0, 100.0)
        x += 0.001 * v
        over, under = x > 5.0, x < -5.0
        x[over], v[over] = 10.0 - x[over], -np.abs(v[over])
        x[under], v[under] = -10.0 - x[under], np.abs(v[under])
        if step % 100 == 0:
            kept_x.append(x.copy())
            kept_v.append(v.copy())
    return np.stack(kept_x, 1), np.stack(kept_v, 1)


def pair(distance, charges, frames=1):
    """Two agents at rest on the x axis, this far apart."""
    x = np.array([[[-distance / 2, 0.0], [distance / 2, 0.0]]])
    return integrate(x, np.zeros_like(x), np.array([charges], float), frames)


def test_starts_are_those_of_the_paper():
    x, v, charges = draw_starts(4000, agents=5, seed=3)
    assert np.allclose(x.std((0, 1)), 1.0, atol=0.02) and np.allclose(x.mean((0, 1)), 0, atol=0.02)
    assert np.allclose(np.linalg.norm(v, axis=-1), SPEED) and abs(v.mean()) < 0.01
    assert set(np.unique(charges)) == {-1.0, 1.0} and abs(charges.mean()) < 0.02


@pytest.mark.parametrize(("charges", "sign"), [((1, 1), 1), ((-1, -1), 1), ((1, -1), -1), ((-1, 1), -1)])
def test_like_charges_repel_and_unlike_ones_attract(charges, sign):
    # 2 m apart the force is 1/4: after 0.1 s the speed is 0.025 m/s (the distance changes by a thousandth meanwhile)
    x, v = pair(2.0, charges)
    np.testing.assert_allclose(v[0, :, 0], [[-sign * 0.025, 0], [sign * 0.025, 0]], atol=1e-4)
    assert sign * (x[0, 1, 0, 0] - x[0, 0, 0, 0] - 2.0) > 0


def test_the_force_is_capped_where_charges_meet():
    # 0.02 m apart: 1/0.02^2 = 2500 m/s^2 is cut to 100, in 0.1 s 10 m/s; without the cap energy gives over 9 m/s
    x, v = pair(0.02, (1, 1))
    assert v[0, 1, 0, 0] == pytest.approx(plain_run(*(np.array(p, float) for p in (
        [[-0.01, 0], [0.01, 0]], [[0, 0], [0, 0]], [1, 1])), 1)[1][1, 0, 0], abs=1e-5)  # fmt: skip
    # the cap holds for at least the 30 steps in which each goes the 0.04 m to where the force is 1/0.1^2 = 100
    assert 2.8 < v[0, 1, 0, 0] < 5.0 < np.sqrt(1 / 0.02)
    # and it cuts each component of the sum: two charges close on both axes push by 100 along x and by 100 along y
    corner = np.array([[[0.0, 0.0], [0.01, 0.0], [0.0, 0.01]]])
    x, v = integrate(corner, np.zeros_like(corner), np.ones((1, 3)), 1)
    slow = plain_run(corner[0], np.zeros((3, 2)), np.ones(3), 1)
    np.testing.assert_allclose(v[0], slow[1], atol=1e-4)
    np.testing.assert_allclose(v[0, 0, 0, 0], v[0, 0, 0, 1], atol=1e-5)


def test_walls_reflect():
    x = np.array([[[4.9, -4.8], [-3.0, 3.0]]])
    v = np.array([[[0.5, -0.5], [0.0, 0.0]]])
    got_x, got_v = integrate(x, v, np.array([[0.0, 1.0]]), 10)  # an agent without charge flies straight
    t = 0.1 * np.arange(1, 11)
    np.testing.assert_allclose(got_x[0, 0, :, 0], np.where(t < 0.2, 4.9 + 0.5 * t, 5.1 - 0.5 * t), atol=1e-5)
    np.testing.assert_allclose(got_x[0, 0, :, 1], np.where(t < 0.4, -4.8 - 0.5 * t, -5.2 + 0.5 * t), atol=1e-5)
    np.testing.assert_allclose(np.abs(got_v[0, 0]), 0.5, atol=1e-7)
    np.testing.assert_array_equal(got_x[0, 1], np.broadcast_to(np.float32([-3, 3]), (10, 2)))


def test_agrees_with_a_plain_integrator_and_permutes_with_the_agents():
    x, v, charges = draw_starts(LANES + 2, agents=4, seed=7)
    order = np.array([3, 0, 2, 1])
    got_x, got_v = integrate(x, v, charges, 5)
    turned, _ = integrate(x[:, order], v[:, order], charges[:, order], 5)
    for n in (0, LANES + 1):
        want_x, want_v = plain_run(x[n], v[n], charges[n], 5)
        np.testing.assert_allclose(got_x[n], want_x, atol=2e-5)
        np.testing.assert_allclose(got_v[n], want_v, atol=2e-4)
    np.testing.assert_allclose(turned[0], got_x[0][order], atol=2e-5)


def test_energy_is_kept_where_nobody_comes_close():
    """Kick and drift of 1 ms keeps energy to first order in the step, so encounters nearer than 0.5 m are left out."""
    run = simulate_charged(3000, 50, agents=5, seed=17)
    first, second = np.triu_indices(5, 1)
    nearest = np.linalg.norm(run.positions[:, first] - run.positions[:, second], axis=-1).min((1, 2))
    calm = nearest > 0.5
    assert calm.sum() > 20
    total = energy(run.positions, run.velocities, run.charges)[calm]
    assert np.abs(total - total[:, :1]).max() < 0.02  # of kinetic energies of 0.6 to start with
    kinetic = 0.5 * (run.velocities[calm].astype(float) ** 2).sum((1, 3))
    assert np.abs(kinetic - kinetic[:, :1]).max() > 0.5  # while it goes to and fro between both kinds


def test_edges_are_like_charges():
    run = simulate_charged(300, 1, agents=6, seed=5)
    assert np.array_equal(run.edges, run.edges.transpose(0, 2, 1))
    assert not run.edges.diagonal(axis1=1, axis2=2).any()
    product = run.charges[:, :, None] * run.charges[:, None]
    off = ~np.eye(6, dtype=bool)
    assert np.array_equal(run.edges[:, off], product[:, off] == 1)


def test_same_seed_same_bytes_however_a_set_is_cut():
    whole = simulate_charged(70, 3, seed=19)
    parts = [simulate_charged(n, 3, seed=19, first_index=first) for first, n in ((0, 13), (13, 40), (53, 17))]
    for field in ("positions", "velocities", "charges"):
        assert getattr(whole, field).tobytes() == np.concatenate([getattr(p, field) for p in parts]).tobytes()
    assert not np.array_equal(whole.charges, simulate_charged(70, 3, seed=20).charges)
    assert STEP == 0.001 and whole.positions.shape == (70, 7, 3, 2)


def test_too_many_agents():
    with pytest.raises(ValueError, match="charged: 2 to 100 agents, not 101"):
        simulate_charged(1, 1, agents=101, seed=0)
