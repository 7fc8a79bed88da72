"""The springs simulator against physics, against a plain integrator written here, and against the exact solution of
its linear system."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from offline_training.systems.springs import (
    BOX,
    FRAME_DT,
    LANES,
    SPEED,
    SPRING,
    STEP,
    SpringsStepper,
    draw_starts,
    energy,
    integrate,
    simulate_springs,
    team_windows,
)


def plain_run(x, v, edges, frames):
    """One run f8[A, 2] by the textbook: kick, drift, reflect; every hundredth step is a frame. Returns [A, frames, 2]
    twice."""
    x, v = x.copy(), v.copy()
    kept_x, kept_v = [], []
    for step in range(1, frames * 100 + 1):
        forces = np.zeros_like(x)
        for i in range(len(x)):
            for j in range(len(x)):
                if edges[i, j]:
                    forces[i] -= 0.1 * (x[i] - x[j])
        v += 0.001 * forces
        x += 0.001 * v
        over, under = x > 5.0, x < -5.0
        x[over], v[over] = 10.0 - x[over], -np.abs(v[over])
        x[under], v[under] = -10.0 - x[under], np.abs(v[under])
        if step % 100 == 0:
            kept_x.append(x.copy())
            kept_v.append(v.copy())
    return np.stack(kept_x, 1), np.stack(kept_v, 1)


def exact_run(x, v, edges, times):
    """One run without walls, by the matrix exponential. Kick and drift is leapfrog whose velocities lag half a step: x
    f8[A, len(times), 2] at the times, v half a step earlier."""
    agents = len(x)
    laplacian = np.diag(edges.sum(1)) - edges
    system = np.block([[np.zeros((agents, agents)), np.eye(agents)], [-SPRING * laplacian, np.zeros((agents, agents))]])
    start = np.vstack([x, v - 0.5 * STEP * SPRING * laplacian @ x])
    at = np.stack([(expm(system * t) @ start)[:agents] for t in times], 1)
    before = np.stack([(expm(system * (t - STEP / 2)) @ start)[agents:] for t in times], 1)
    return at, before


def test_starts_are_those_of_the_paper():
    x, v, edges = draw_starts(4000, agents=7, seed=3, start="fresh")
    assert np.allclose(x.std((0, 1)), 0.5, atol=0.01) and np.allclose(x.mean((0, 1)), 0, atol=0.01)
    assert np.allclose(np.linalg.norm(v, axis=-1), SPEED)
    assert abs(v.mean()) < 0.01
    assert abs(edges.sum() / (4000 * 42) - 0.5) < 0.01


@pytest.mark.parametrize("start", ["fresh", "team"])
def test_edges_are_symmetric_without_self_loops(start):
    edges = simulate_springs(300, 2, seed=5, start=start).edges
    assert np.array_equal(edges, edges.transpose(0, 2, 1))
    assert not edges.diagonal(axis1=1, axis2=2).any()


def test_teams_are_connected_and_stay():
    run = simulate_springs(200, 600, seed=11, start="team")
    reach = np.linalg.matrix_power(np.eye(7) + run.edges, 6)
    assert (reach > 0).all()
    centroid = run.positions.mean(1)
    assert np.abs(run.velocities.mean(1)).max() < 1e-6
    assert np.abs(centroid - centroid[:, :1]).max() < 1e-5
    assert np.abs(run.positions).max() < BOX - 0.1
    fresh_edges = simulate_springs(200, 1, seed=11).edges
    assert not (np.linalg.matrix_power(np.eye(7) + fresh_edges, 6) > 0).all()


def test_agrees_with_a_plain_integrator_and_permutes_with_the_agents():
    x, v, edges = draw_starts(2, agents=5, seed=7, start="fresh")
    x[0, 0], v[0, 0] = (4.9, -4.8), (0.45, -0.3)
    order = np.array([3, 0, 4, 1, 2])
    got_x, got_v = integrate(x, v, edges, 12, np.ones((2, 1), dtype=np.int64))
    turned_x, turned_v = integrate(
        x[:, order], v[:, order], edges[:, order][:, :, order], 12, np.ones((2, 1), dtype=np.int64)
    )
    for n in range(2):
        want_x, want_v = plain_run(x[n], v[n], edges[n], 12)
        np.testing.assert_allclose(got_x[n, 0], want_x, atol=2e-6)
        np.testing.assert_allclose(got_v[n, 0], want_v, atol=2e-6)
    np.testing.assert_allclose(turned_x, got_x[:, :, order], atol=1e-6)
    np.testing.assert_allclose(turned_v, got_v[:, :, order], atol=1e-6)


def test_agrees_with_the_exact_solution():
    run = simulate_springs(LANES + 3, 600, seed=13, start="team")
    x, v, edges = draw_starts(LANES + 3, agents=7, seed=13, start="team")
    frames = np.array([0, 1, 49, 299, 599])
    for n in (0, LANES + 2):
        want_x, want_v = exact_run(x[n], v[n], edges[n], (frames + 1) * FRAME_DT)
        np.testing.assert_allclose(run.positions[n][:, frames], want_x, atol=5e-6)
        np.testing.assert_allclose(run.velocities[n][:, frames], want_v, atol=5e-6)


def test_energy_is_kept():
    run = simulate_springs(500, 100, seed=17)
    total = energy(run.positions, run.velocities, run.edges)
    assert np.abs(total / total[:, :1] - 1).max() < 2e-3


def test_walls_reflect():
    x = np.array([[[4.0, -4.5], [0.0, 0.0]]])
    v = np.array([[[0.5, -0.5], [0.0, 0.0]]])
    edges = np.zeros((1, 2, 2), dtype=bool)
    got_x, got_v = integrate(x, v, edges, 30, np.ones((1, 1), dtype=np.int64))
    t = 0.1 * np.arange(1, 31)
    np.testing.assert_allclose(got_x[0, 0, 0, :, 0], np.where(t < 2, 4 + 0.5 * t, 6 - 0.5 * t), atol=1e-5)
    np.testing.assert_allclose(got_x[0, 0, 0, :, 1], np.where(t < 1, -4.5 - 0.5 * t, -5.5 + 0.5 * t), atol=1e-5)
    np.testing.assert_allclose(np.abs(got_v[0, 0, 0]), 0.5, atol=1e-7)
    assert got_v[0, 0, 0, -1, 0] < 0 < got_v[0, 0, 0, -1, 1]
    np.testing.assert_array_equal(got_x[0, 0, 1], 0)


def test_same_seed_same_bytes_however_a_set_is_cut():
    whole = simulate_springs(70, 20, seed=19)
    again = simulate_springs(70, 20, seed=19)
    parts = [simulate_springs(n, 20, seed=19, first_index=first) for first, n in ((0, 13), (13, 40), (53, 17))]
    for field in ("positions", "velocities", "edges"):
        assert getattr(whole, field).tobytes() == getattr(again, field).tobytes()
        assert getattr(whole, field).tobytes() == np.concatenate([getattr(p, field) for p in parts]).tobytes()
    assert simulate_springs(70, 20, seed=20).positions.tobytes() != whole.positions.tobytes()
    later = simulate_springs(70, 12, seed=19, first_frame=9)
    np.testing.assert_array_equal(later.positions, whole.positions[:, :, 8:])


def test_windows_are_cut_from_runs():
    cut = team_windows(12, 50, seed=23, run_seconds=20, per_run=4)
    runs = simulate_springs(3, 200, seed=23, start="team")
    for k in range(12):
        first = cut.first_frame[k] - 1
        np.testing.assert_array_equal(cut.positions[k], runs.positions[k // 4][:, first : first + 50])
        np.testing.assert_array_equal(cut.edges[k], runs.edges[k // 4])
    many = team_windows(3000, 50, seed=23, run_seconds=10, per_run=1000).first_frame
    assert many.min() == 1 and many.max() == 51
    assert np.bincount(many)[1:].std() < 12  # Poisson's would be 7.7


def test_stepper_is_the_same_run():
    stepper = SpringsStepper(seed=29)
    run = simulate_springs(1, 30, seed=29, start="team")
    for _ in range(150):
        stepper.step(0.02)
    assert stepper.time == pytest.approx(3.0)
    np.testing.assert_allclose(stepper.positions, run.positions[0, :, 29], atol=1e-6)
    np.testing.assert_allclose(stepper.velocities, run.velocities[0, :, 29], atol=1e-6)
    np.testing.assert_array_equal(stepper.edges, run.edges[0])


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match='"fresh" or "team"'):
        simulate_springs(1, 1, seed=0, start="stale")
    with pytest.raises(ValueError, match="shorter than 50 frames"):
        team_windows(1, 50, seed=0, run_seconds=4)
    with pytest.raises(ValueError, match="number 1"):
        simulate_springs(1, 1, seed=0, first_frame=0)
