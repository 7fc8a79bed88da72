"""All agents of a team together: the sum of their positions.

Beyond the paper. What two agents do to each other cancels in the sum where it acts both ways (springs, charges). The
sum then goes straight on, so that one lost agent is where the others leave it to be, and of two lost ones all but their
difference is known. How straight is measured twice: on validation data (:func:`measure_total`), and in the stream at
hand, in the frames that the sum is taken from. For a team that it does not hold for its deviation soon is so large that
nothing follows from it.

A sum goes on at constant velocity with white accelerations; one covariance serves all axes. Positions may be of any
frame that moves straight on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from siha_ros.model.denoise import THIRD

Array = NDArray[np.float64]

FEWEST = 5  # frames that a sum is taken from
LEAST = 1e-4  # m, deviation of what is seen of a sum in a frame
UNKNOWN = 1e3  # deviation of a sum before any frame: m, m/s
SURPRISING = 5.0  # deviations from what was expected, by which something else has acted
NOTICED = 4.0  # deviations by which the second half of some frames is not where the first half leads
MEDIAN = 0.455  # of the square of a normal number


@dataclass(frozen=True)
class Total:
    """A sum at ``time`` (s): state ``[2, P]`` (position m, velocity m/s) and covariance ``[2, 2]``. variance (m^2): of
    what is seen of it in a frame. drift (m^2/s^3): variance that a second of accelerations gives to its velocity."""

    time: float
    state: Array
    covariance: Array
    variance: float
    drift: float

    def at(self, time: float) -> Total:
        """The same at a later time."""
        dt = time - self.time
        move = np.array([[1.0, dt], [0.0, 1.0]])
        noise = self.drift * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
        return Total(time, move @ self.state, move @ self.covariance @ move.T + noise, self.variance, self.drift)

    def seen(self, position: Array) -> Total:
        """The same after the sum was seen at ``position [P]`` (m)."""
        gain = self.covariance[:, 0] / (self.covariance[0, 0] + self.variance)
        left = np.eye(2) - np.outer(gain, [1.0, 0.0])
        covariance = left @ self.covariance @ left.T + self.variance * np.outer(gain, gain)
        state = self.state + np.outer(gain, position - self.state[0])
        return Total(self.time, state, covariance, self.variance, self.drift)

    def expects(self, position: Array) -> bool:
        """Whether the sum may be at ``position [P]`` (m)."""
        most = SURPRISING**2 * (self.covariance[0, 0] + self.variance)
        return bool((np.square(position - self.state[0]) <= most).all())


def follow(total: Total | None, times: Array, positions: Array, variance: float, drift: float) -> Total | None:
    """The sum after the frames in which all agents are seen: ``positions [n, P]`` (m), their sums at ``times [n]``.
    total: after earlier ones. variance, drift: at least. None where too few are known; a sum that is where it was not
    expected is taken anew from there on."""
    if total is None:
        return _begin(times, positions, variance, drift)
    total = replace(total, variance=max(total.variance, variance), drift=max(total.drift, drift))
    for time, position in zip(times, positions, strict=True):
        if time <= total.time + 1e-6:
            continue
        total = total.at(float(time))
        if total.expects(position):
            total = total.seen(position)
        else:
            total = _anew(total.time, position, total.variance, total.drift)
    return total


def _anew(time: float, position: Array, variance: float, drift: float) -> Total:
    """A sum of which one frame is known."""
    state = np.stack([position, np.zeros_like(position)])
    return Total(time, state, UNKNOWN**2 * np.eye(2), variance, drift).seen(position)


def _begin(times: Array, positions: Array, variance: float, drift: float) -> Total | None:
    count = len(times)
    if count < FEWEST:
        return None
    since = times - times[0]
    powers = np.stack([np.ones(count), since, since**2 / 2], -1)
    wiggle = np.square(positions - powers @ np.linalg.lstsq(powers, positions, rcond=None)[0]).sum(0).max() / (
        count - 3
    )
    third = np.square(np.diff(positions, n=3, axis=0))
    noise = max(variance, LEAST**2, min(float(wiggle), float(np.median(third)) / (MEDIAN * THIRD)))
    # does the first half tell where the second one goes?
    half = count // 2
    line, begun = powers[half:, :2], powers[:half, :2]
    missed = np.square(positions[half:] - line @ np.linalg.lstsq(begun, positions[:half], rcond=None)[0]).max(1)
    expected = noise * (1 + np.einsum("ni,ij,nj->n", line, np.linalg.inv(begun.T @ begun), line))
    later = times[half:] - times[half - 1]
    noticed = missed > NOTICED**2 * expected
    if noticed.any():
        drift = max(drift, float((3 * missed / np.maximum(later, later[-1] / 2) ** 3)[noticed].max()))
    total = _anew(float(times[0]), positions[0], max(noise, float(wiggle)), drift)
    for time, position in zip(times[1:], positions[1:], strict=True):
        total = total.at(float(time)).seen(position)
    return total


def measure_total(positions: Array, dt: float) -> tuple[float, float]:
    """variance (m^2) and drift (m^2/s^3) of sums, from complete windows ``positions [n, A, T, P]`` (m), frames ``dt``
    (s) apart: a line fitted to the first half of each window is compared with the other half. The drift is so large
    that the errors are covered at all times since then."""
    sums = positions.sum(1)
    half = sums.shape[1] // 2
    times = dt * np.arange(sums.shape[1])
    line = np.stack([np.ones_like(times), times], -1)
    fitted = np.linalg.lstsq(line[:half], sums[:, :half].transpose(1, 0, 2).reshape(half, -1), rcond=None)[0]
    missed = (line @ fitted).reshape(len(times), len(sums), -1).transpose(1, 0, 2) - sums
    left = np.square(missed[:, half:]).mean((0, 2))
    since = times[half:] - times[half - 1]
    return float(left[0]), float((3 * (left - left[0]).clip(0) / since**3).max())
