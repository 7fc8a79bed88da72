"""The debounced verdict of each agent, frame by frame."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.window.visibility import Cause, Visibility, VisibilityParameters, unseen_causes, valid_orientations

ALL = np.array([0])


def drive(visibility: Visibility, causes, rate: float, start: float = 1.0) -> list[bool]:
    """The verdict after each sample of one agent at a fixed rate."""
    verdicts = []
    for number, cause in enumerate(causes):
        stamp = start + number / rate
        visibility.silence(stamp, start)
        visibility.observe(ALL, stamp, np.array([cause], dtype=np.int8), stamp)
        verdicts.append(bool(visibility.shown[0]))
    return verdicts


def test_causes_by_hand():
    positions = np.array(
        [[1, 2, 3], [np.nan, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, np.inf], [2e9, 0, 0], [5, 5, 5], [1, 0, 0]]
    )
    tracked = np.array([True, True, True, True, True, True, False, True])
    nan = np.nan
    orientations = np.array(
        [[nan] * 4, [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    )
    expected = [
        Cause.SEEN,  # a NaN quaternion with a valid position
        Cause.NOT_FINITE,
        Cause.ZERO,
        Cause.SEEN,  # parked at the origin
        Cause.NOT_FINITE,
        Cause.NOT_FINITE,
        Cause.UNTRACKED,
        Cause.SEEN,  # a zero quaternion with a position
    ]
    assert unseen_causes(positions, tracked, orientations).tolist() == expected
    assert unseen_causes(np.zeros((1, 3)), np.array([True])).tolist() == [Cause.SEEN]  # no quaternion to tell by
    # Of a source that sends the origin for what it lost: with any quaternion but one that was measured.
    turned, origin, three = [0.5, 0.5, 0.5, 0.5], np.zeros((4, 3)), np.ones(4, bool)
    lost = unseen_causes(origin, three, np.array([turned, [0, 0, 0, 1], [nan] * 4, [0] * 4]), trusted=False)
    assert lost.tolist() == [Cause.SEEN, Cause.ZERO, Cause.ZERO, Cause.ZERO]
    assert unseen_causes(np.zeros((1, 3)), np.array([True]), trusted=False).tolist() == [Cause.ZERO]
    confidence = np.array([0.3, 0.29, nan, 1.0])
    unsure = unseen_causes(np.ones((4, 3)), np.array([True] * 3 + [False]), None, confidence, min_confidence=0.3)
    assert unsure.tolist() == [Cause.SEEN, Cause.UNSURE, Cause.UNSURE, Cause.UNTRACKED]


def test_what_is_an_orientation():
    valid = [[0.0, 0.0, 0.0, 1.0], [0.5, -0.5, 0.5, -0.5], [0.0, 2.0, 0.0, 0.0]]
    none = [[0.0] * 4, [np.nan, 0, 0, 1], [0, 0, np.inf, 1], [5e-324] * 4, [1e308, 0, 0, 1]]
    assert valid_orientations(np.array(valid + none)).tolist() == [True] * 3 + [False] * 5
    assert valid_orientations(np.zeros((0, 4))).tolist() == []


def test_shown_after_time_and_samples():
    v = Visibility(VisibilityParameters(show_after=0.1, show_samples=3), 1)
    assert drive(v, [Cause.SEEN] * 8, rate=50) == [False] * 5 + [True] * 3  # 0.1 s are the sixth sample at 50 Hz
    v = Visibility(VisibilityParameters(show_after=0.1, show_samples=3), 1)
    assert drive(v, [Cause.SEEN] * 4, rate=10) == [False, False, True, True]  # three samples take longer than 0.1 s


def test_hidden_after_time_and_samples():
    parameters = VisibilityParameters(hide_after=0.1, hide_samples=3)
    v = Visibility(parameters, 1)
    verdicts = drive(v, [Cause.SEEN] * 10 + [Cause.UNTRACKED] * 8, rate=50)
    assert verdicts[9:] == [True] * 5 + [False] * 4  # the fifth bad sample is 0.1 s after the last good one
    assert v.cause[0] == Cause.UNTRACKED
    assert v.last_good[0] == pytest.approx(1.0 + 9 / 50)
    v = Visibility(parameters, 1)
    verdicts = drive(v, [Cause.SEEN] * 10 + [Cause.ZERO] * 4, rate=20)
    assert verdicts[9:] == [True] * 3 + [False, False]  # three samples take longer than 0.1 s


def test_silence_hides_in_stream_time():
    v = Visibility(VisibilityParameters(silence_timeout=0.3), 1)
    drive(v, [Cause.SEEN] * 10, rate=10)  # the last one at 1.9 s
    hidden, _ = v.silence(2.2, 1.0)
    assert len(hidden) == 0 and v.shown[0]
    hidden, _ = v.silence(2.21, 1.0)
    assert hidden.tolist() == [0] and not v.shown[0] and v.cause[0] == Cause.SILENT


def test_silence_counts_from_where_the_stream_went_on():
    v = Visibility(VisibilityParameters(silence_timeout=0.3), 1)
    drive(v, [Cause.SEEN] * 10, rate=10)
    v.silence(8.0, resumed=8.0)
    v.silence(8.3, resumed=8.0)
    assert v.shown[0]
    v.silence(8.31, resumed=8.0)
    assert not v.shown[0]


@pytest.mark.parametrize("rate", [50, 100, 120, 240])
@pytest.mark.parametrize("bad", [cause for cause in Cause if cause not in (Cause.SEEN, Cause.SILENT, Cause.LATE)])
def test_one_bad_frame_in_eight_never_flaps(rate, bad):
    v = Visibility(VisibilityParameters(), 1)
    causes = [bad if frame % 8 == 5 else Cause.SEEN for frame in range(20 * rate)]
    verdicts = drive(v, causes, rate)
    first = verdicts.index(True)
    assert first / rate < 0.15
    assert all(verdicts[first:])


@pytest.mark.parametrize("rate", [50, 100, 120, 240])
def test_one_bad_frame_in_eight_at_random_never_flaps(rate):
    random = np.random.default_rng(rate).random(60 * rate) < 1 / 8
    v = Visibility(VisibilityParameters(), 1)
    verdicts = drive(v, np.where(random, Cause.UNTRACKED, Cause.SEEN), rate)
    assert all(verdicts[verdicts.index(True) :])
    assert verdicts.index(True) / rate < 0.5


def test_flapping_input_keeps_the_state_it_met():
    flapping = [Cause.SEEN if frame // 6 % 2 else Cause.UNTRACKED for frame in range(1200)]  # 50 ms each way
    seen_before = Visibility(VisibilityParameters(), 1)
    assert all(drive(seen_before, [Cause.SEEN] * 60 + flapping, 120)[30:])
    hidden_before = Visibility(VisibilityParameters(), 1)
    assert not any(drive(hidden_before, [Cause.SEEN] * 60 + [Cause.UNTRACKED] * 60 + flapping, 120)[80:])


def test_a_few_good_frames_do_not_show_a_hidden_agent():
    v = Visibility(VisibilityParameters(), 1)
    drive(v, [Cause.SEEN] * 60 + [Cause.UNTRACKED] * 60, 120)
    verdicts = drive(v, [Cause.SEEN] * 5 + [Cause.UNTRACKED] * 40 + [Cause.SEEN] * 30, 120, start=3.0)
    assert verdicts.index(True) == 45 + 12  # 0.1 s into the second run
    assert v.last_good[0] == pytest.approx(3.0 + 74 / 120)


def test_late_samples_change_nothing():
    v = Visibility(VisibilityParameters(), 1)
    drive(v, [Cause.SEEN] * 20, 100)
    before = {name: np.copy(value) for name, value in vars(v).items() if name != "parameters"}
    v.observe(ALL, 1.05, np.array([Cause.UNTRACKED], dtype=np.int8), 1.19)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(v, name), value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"silence_timeout": 0.0}, "silence_timeout is 0.0"),
        ({"hide_after": -1.0}, "hide_after is -1.0"),
        ({"show_samples": 0}, "show_samples is 0, expected at least 1"),
        ({"max_speed": -1.0}, "max_speed is -1.0, expected a number, 0 or more"),
        ({"frozen_after": float("nan")}, "frozen_after is nan"),
    ],
)
def test_parameters_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        VisibilityParameters(**change)
