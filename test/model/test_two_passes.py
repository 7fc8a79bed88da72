"""The two passes against the dense least squares problem that they solve."""

from __future__ import annotations

import numpy as np

from siha_ros.model.two_passes import two_passes

FRAMES, SIZE = 6, 3


def problem(seed):
    random = np.random.default_rng(seed)
    factors = random.normal(size=(2, FRAMES, SIZE, SIZE))
    information = factors @ factors.swapaxes(-1, -2) + 0.1 * np.eye(SIZE)
    first = random.normal(size=(2, SIZE, SIZE))
    return (
        information,
        random.normal(size=(2, FRAMES, SIZE)),
        random.normal(size=(2, FRAMES - 1, SIZE, SIZE)),
        random.normal(size=(2, FRAMES - 1, SIZE)),
        random.uniform(0.5, 5.0, SIZE),
        first @ first.swapaxes(-1, -2),
        random.normal(size=(2, SIZE)),
    )


def dense(information, vector, move, drift, precision, before, before_vector, frames):
    """Mean and information of all frames up to a number of them, of one sample; the last frame's own term left out if
    there are more."""
    matrix, right = np.zeros((frames, SIZE, frames, SIZE)), np.zeros((frames, SIZE))
    for t in range(frames):
        matrix[t, :, t] += information[t]
        right[t] += vector[t]
    matrix[0, :, 0] += before
    right[0] += before_vector
    weight = np.diag(precision)
    for t in range(frames - 1):
        matrix[t, :, t] += move[t].T @ weight @ move[t]
        matrix[t + 1, :, t + 1] += weight
        matrix[t, :, t + 1] -= move[t].T @ weight
        matrix[t + 1, :, t] -= weight @ move[t]
        right[t] -= move[t].T @ weight @ drift[t]
        right[t + 1] += weight @ drift[t]
    return matrix.reshape(frames * SIZE, -1), right.ravel()


def test_change_and_covariance_are_those_of_the_whole_problem():
    parts = problem(0)
    found = two_passes(*parts)
    for sample in range(2):
        matrix, right = dense(*(part if part.ndim == 1 else part[sample] for part in parts), FRAMES)
        covariance = np.linalg.inv(matrix)
        np.testing.assert_allclose(found.change[sample].ravel(), covariance @ right, rtol=1e-9, atol=1e-9)
        for t in range(FRAMES):
            block = covariance[t * SIZE : (t + 1) * SIZE, t * SIZE : (t + 1) * SIZE]
            np.testing.assert_allclose(found.covariance[sample, t], block, rtol=1e-8, atol=1e-10)


def test_what_arrives_at_a_frame_comes_from_the_earlier_ones_alone():
    parts = problem(1)
    found = two_passes(*parts)
    np.testing.assert_array_equal(found.arrived[:, 0], parts[5])
    np.testing.assert_array_equal(found.arrived_vector[:, 0], parts[6])
    for t in range(1, FRAMES):
        sample = [part if part.ndim == 1 else part[0].copy() for part in parts]
        sample[0][t] = 0  # the frame's own information does not count
        sample[1][t] = 0
        matrix, right = dense(*sample, t + 1)
        covariance = np.linalg.inv(matrix)[-SIZE:, -SIZE:]
        np.testing.assert_allclose(np.linalg.inv(found.arrived[0, t]), covariance, rtol=1e-7)
        mean = np.linalg.solve(found.arrived[0, t], found.arrived_vector[0, t])
        np.testing.assert_allclose(mean, np.linalg.solve(matrix, right)[-SIZE:], rtol=1e-7, atol=1e-9)
