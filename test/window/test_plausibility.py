"""Samples that tell of themselves that they are wrong: frozen poses, jumps, names that changed places."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from siha_ros.window import SlidingWindow, Status, WindowParameters
from siha_ros.window.visibility import CAUSE_TEXT, Cause

NAMES = ["a", "b", "c"]
RATES = [50, 100, 120, 240]
HALF_TURN = np.array([0.0, 0.0, 1.0, 0.0])


def place(agent: int, time):
    """f8[..., 3]: circles of 1 m around centres 0.75 m apart, once in 2 pi seconds."""
    time = np.asarray(time, dtype=np.float64)
    return np.stack([0.75 * agent + np.cos(time), np.sin(time), 1.0 + 0.0 * time], axis=-1)


class Run:
    """A stream of all agents at a rate, judged after every stamp; `edit(time, f8[3, 3])` changes the positions.

    Attributes: states[agent], the statuses after each stamp; times; reasons, by agent, all that were given.
    """

    def __init__(self, edit, rate=100, seconds=3.0, trusted=False, apart=False, **parameters):
        self.window = SlidingWindow(0.05, 5, 2, NAMES, WindowParameters(**parameters))
        self.times = np.arange(round(seconds * rate)) / rate
        self.states, self.reasons, self.positions = [[], [], []], [set(), set(), set()], []
        for time in self.times:
            positions = edit(time, np.stack([place(agent, time) for agent in range(3)]))
            turns = np.tile(HALF_TURN, (3, 1))
            rows = [[0], [1], [2]] if apart else [[0, 1, 2]]
            for part, row in enumerate(rows):
                stamp = 1000.0 + time + 1e-3 * part
                names = [NAMES[agent] for agent in row]
                more = {"complete": not apart, "trusted": trusted, "orientations": turns[row], "names": names}
                self.window.add_frame(stamp, positions[row], **more)
            now = self.window.window()
            for agent in range(3) if now is not None else ():
                self.states[agent].append(Status(int(now.status[agent])))
                self.reasons[agent].add(now.reason[agent])
            self.positions.append(None if now is None else now.positions)

    def between(self, agent: int, begin: float, end: float) -> set[Status]:
        """Statuses of an agent from one time to another."""
        missing = len(self.times) - len(self.states[agent])
        chosen = (self.times[missing:] >= begin) & (self.times[missing:] < end)
        return {state for state, inside in zip(self.states[agent], chosen, strict=True) if inside}


SEEN = {Status.VISIBLE, Status.BRIDGED}


def frozen(agent=1, begin=1.0, end=2.0):
    def edit(time, positions):
        if begin <= time < end:
            positions[agent] = place(agent, begin)
        return positions

    return edit


# Frozen


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("apart", [False, True])
def test_frozen_agent_is_hidden_while_others_move(rate, apart):
    run = Run(frozen(), rate, apart=apart)
    assert run.between(1, 0.5, 1.25) <= SEEN and run.between(1, 1.31, 2.0) == {Status.HIDDEN}
    assert run.between(1, 2.15, 3.0) <= SEEN
    assert run.between(0, 0.5, 3.0) == run.between(2, 0.5, 3.0) == {Status.VISIBLE}
    hidden = {reason for reason in run.reasons[1] if reason.startswith(CAUSE_TEXT[Cause.FROZEN])}
    assert len(hidden) > 10  # with how long it has lasted


def test_what_froze_is_not_believed_from_the_first_repeat_on():
    run = Run(frozen(), 100)
    index = int(np.flatnonzero(run.times >= 1.24)[0])  # still bridged: where it was going, not where it stood
    grid = 1.19
    assert run.positions[index][1, -1] == pytest.approx(place(1, grid)[:2], abs=0.03)
    assert np.linalg.norm(place(1, 1.0) - place(1, grid)) > 0.15


def test_parked_agents_stay_visible():
    random = np.random.default_rng(1)

    def noisy(time, positions):
        positions[1] = place(1, 0.0) + random.normal(0.0, 1e-5, 3)
        return positions

    assert Run(noisy).between(1, 0.5, 3.0) == {Status.VISIBLE}

    def all_parked(time, positions):
        return np.stack([place(agent, 0.0) for agent in range(3)])

    assert all(Run(all_parked).between(agent, 0.5, 3.0) == {Status.VISIBLE} for agent in range(3))
    assert Run(frozen(), trusted=True).between(1, 0.5, 2.0) == {Status.VISIBLE}
    assert Run(frozen(), frozen_after=0.0).between(1, 0.5, 2.0) == {Status.VISIBLE}


def test_values_that_come_twice_or_turn_only_are_not_frozen():
    def twice(time, positions):  # a publisher at twice the rate of its camera
        return np.stack([place(agent, np.floor(time * 50) / 50) for agent in range(3)])

    run = Run(twice, 100)
    assert all(run.between(agent, 0.5, 3.0) == {Status.VISIBLE} for agent in range(3))


def test_alone_nobody_is_frozen():
    window = SlidingWindow(0.05, 5, 2, ["a"])
    for k in range(100):
        window.add_frame(10.0 + 0.01 * k, np.ones((1, 3)), trusted=False)
    assert window.window().status.tolist() == [Status.VISIBLE]


# Jumps


def moved(agents, begin, end, offset):
    def edit(time, positions):
        if begin <= time + 1e-9 < end:
            positions[agents] += offset
        return positions

    return edit


@pytest.mark.parametrize("rate", RATES)
def test_one_frame_elsewhere_is_bridged_and_leaves_no_trace(rate):
    run = Run(moved([1], 1.0, 1.0 + 0.9 / rate, [3.0, 0.0, 0.0]), rate)
    assert run.between(1, 0.5, 3.0) <= SEEN
    for time, positions in zip(run.times, run.positions, strict=True):
        if time > 0.5:
            grid = time - 0.05 - 0.05 * np.arange(4, -1, -1)
            assert np.abs(positions - np.stack([place(agent, grid)[:, :2] for agent in range(3)])).max() < 5e-3


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("late", [0.0, 0.006])
def test_a_bad_frame_that_comes_again_or_late_leaves_no_trace(rate, late):
    """Late by 0: each frame comes twice, as with two publishers, or with a pose that is given again with its twist."""
    window = SlidingWindow(0.053, 5, 2, NAMES)
    for kind in (moved([1], 1.0, 1.0 + 0.9 / rate, [5.0, 0.0, 0.0]), swapped(1.0, 1.0 + 2.9 / rate)):
        window.reset()
        for time in np.arange(1.5 * rate) / rate:
            good = np.stack([place(agent, time) for agent in range(3)])
            odd = kind(time, good.copy())
            window.add_frame(1000.0 + time, good if late else odd, trusted=False)
            if late and (odd != good).any():
                window.add_frame(1000.0 + time - late, odd + [3.0, 0.0, 0.0], trusted=False)
            elif not late:
                window.add_frame(1000.0 + time, odd, velocities=np.zeros((3, 3)), trusted=False)
            if time > 1.0 and (now := window.window()) is not None:
                grid = time - 0.053 - 0.053 * np.arange(4, -1, -1)
                truth = np.stack([place(agent, grid)[:, :2] for agent in range(3)])
                assert np.abs(now.positions - truth)[np.isfinite(now.positions)].max() < 5e-3


def test_a_late_repeat_of_a_frozen_pose_is_not_kept():
    window = SlidingWindow(0.05, 5, 2, NAMES)
    for tick in range(152):
        time = 0.01 * tick
        positions = np.stack([place(agent, time) for agent in range(3)])
        if tick in (150, 151):
            positions[1] = place(1, 1.49)
        window.add_frame(1000.0 + time, positions, trusted=False)
    window.add_frame(1001.505, place(1, [1.49]), names=["b"], complete=False, trusted=False)
    index = np.array([1])
    assert not window._rings.holds(index, 1001.505) and window._rings.holds(index, 1000.0 + 0.01 * 149)


@pytest.mark.parametrize("rate", RATES)
def test_who_stays_where_it_jumped_to_is_hidden_and_then_seen_there(rate):
    run = Run(moved([1], 1.0, 9.0, [5.0, 0.0, 0.0]), rate)
    assert Status.HIDDEN in run.between(1, 1.0, 1.2) and run.between(1, 1.4, 3.0) == {Status.VISIBLE}
    states = run.states[1]
    changes = sum((before == Status.HIDDEN) != (after == Status.HIDDEN) for before, after in pairwise(states))
    assert changes == 2
    assert any(reason.startswith("jumped farther than anything moves for ") for reason in run.reasons[1])
    for time, positions in zip(run.times, run.positions, strict=True):
        if positions is not None:  # each is here or there, nothing in between
            x = positions[1, :, 0]
            grid = time - 0.05 - 0.05 * np.arange(4, -1, -1)
            offset = (x - place(1, grid)[:, 0])[np.isfinite(x)]
            assert ((np.abs(offset) < 0.05) | (np.abs(offset - 5.0) < 0.05)).all()


def test_fast_agents_and_stamps_that_jitter_have_not_jumped():
    random = np.random.default_rng(4)
    window = SlidingWindow(0.05, 5, 2, ["a", "b"], WindowParameters())
    stamp = 10.0
    for k in range(300):
        stamp = max(stamp + 1e-4, 10.0 + 0.01 * k + random.uniform(-0.009, 0.0))
        places = np.array([[0.15 * k, 0.0, 1.0], [0.0, 0.05 * k, 1.0]])  # 15 and 5 m/s
        window.add_frame(stamp, places + random.normal(0.0, 1e-3, (2, 3)), trusted=False)
    assert window.window().status.tolist() == [Status.VISIBLE] * 2 and not window.take_notes()
    assert (window._visibility.bad_count == 0).all()


def test_balls_in_a_box_at_ten_a_second_have_not_jumped():
    random = np.random.default_rng(5)
    names = [f"r{index}" for index in range(7)]
    window = SlidingWindow(0.1, 10, 2, names)
    x, v = random.uniform(-2.0, 2.0, (7, 2)), random.uniform(-1.5, 1.5, (7, 2))
    for k in range(600):
        window.add_frame(10.0 + 0.1 * k, np.concatenate([x, np.ones((7, 1))], axis=1), trusted=False)
        assert (window._visibility.bad_count == 0).all()
        x = x + 0.1 * v
        v = np.where(np.abs(x) > 2.0, -np.sign(x) * np.abs(v), v)


# Places that change


def swapped(begin, end):
    def edit(time, positions):
        return positions[[1, 0, 2]] if begin <= time + 1e-9 < end else positions

    return edit


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("apart", [False, True])
def test_names_that_swap_places_are_gated_and_flagged(rate, apart):
    run = Run(swapped(1.0, 9.0), rate, apart=apart)
    for agent in (0, 1):
        assert Status.HIDDEN in run.between(agent, 1.0, 1.25) and run.between(agent, 1.45, 3.0) == {Status.VISIBLE}
        assert any(reason.startswith("jumped to the place of another agent for ") for reason in run.reasons[agent])
    assert run.between(2, 0.5, 3.0) == {Status.VISIBLE}
    notes = run.window.take_notes()
    assert len(notes) == 2 and notes[0].startswith("a took the place of b in one step")


@pytest.mark.parametrize("rate", RATES)
def test_names_that_swap_back_at_once_are_bridged(rate):
    run = Run(swapped(1.0, 1.0 + 2.9 / rate), rate)
    assert run.between(0, 0.5, 3.0) <= SEEN and run.between(1, 0.5, 3.0) <= SEEN
    index = int(np.flatnonzero(run.times >= 1.1)[0])
    assert run.positions[index][0, -1] == pytest.approx(place(0, run.times[index] - 0.05)[:2], abs=5e-3)


def test_agents_that_pass_through_each_other_keep_their_names():
    window = SlidingWindow(0.05, 5, 2, ["a", "b"])
    for k in range(200):
        x = -1.0 + 0.01 * k
        window.add_frame(10.0 + 0.01 * k, np.array([[x, 0.001, 1.0], [-x, 0.0, 1.0]]), trusted=False)
        assert (window._visibility.bad_count == 0).all()


# Never flaps


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("seed", [1, 2])
def test_one_bad_frame_in_eight_of_any_kind_is_bridged(rate, seed):
    random = np.random.default_rng(seed)
    last = {}

    def edit(time, positions):
        if time > 0.3 and random.random() < 1 / 8:
            kind = random.integers(4)
            if kind == 0:
                positions[1] = np.nan
            elif kind == 1:
                positions[1] = 0.0
            elif kind == 2:
                positions[1] += random.normal(0.0, 5.0, 3)
            else:
                positions[1] = last[1]
        last[1] = positions[1].copy()
        return positions

    run = Run(edit, rate, 6.0)
    assert run.between(1, 0.3, 6.0) <= SEEN and run.between(0, 0.3, 6.0) == {Status.VISIBLE}
    for time, positions in zip(run.times, run.positions, strict=True):
        if time > 0.6:
            grid = time - 0.05 - 0.05 * np.arange(4, -1, -1)
            assert np.abs(positions[1] - place(1, grid)[:, :2]).max() < 0.02


# A message that names nobody


def test_message_without_anybody_hides_all():
    window = SlidingWindow(0.05, 5, 2, NAMES)
    for k in range(60):
        count = 3 if k < 40 else 0
        positions = np.array([[agent + 0.01 * k, 0.0, 1.0] for agent in range(count)]).reshape(-1, 3)
        window.add_frame(10.0 + 0.01 * k, positions, names=NAMES[:count])
    now = window.window()
    assert now.status.tolist() == [Status.HIDDEN] * 3 and now.reason[0].startswith("missing from the message for 0.2")
