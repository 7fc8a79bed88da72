"""Fitting the linear path: folds that are really out, episodes that hold what they say, a carry that pays."""

from __future__ import annotations

import numpy as np
import pytest

from offline_training.datasets.body import FRAMES, Walk, limbs, mirror, mirror_order, mirrored_name, way_headings
from offline_training.datasets.body_states import gather
from offline_training.stages.calibration import part_tables
from offline_training.stages.linear_path import (
    Completion,
    Moments,
    _read_cache,
    _write_cache,
    body_windows,
    complete_walk,
    empty_path,
    episodes,
    fit_carry,
    fit_template,
    out_of_fold,
    total,
    trial_moments,
    with_moments,
    with_penalties,
)
from siha_ros.body_estimator import unlike
from siha_ros.model.frame import Scale

NAMES = ["root", "chest", "head", "lhand", "rhand"]
CORE = np.array([0, 1, 2])
HAND = np.array([3])
RATE = 60.0
REST = np.array([[0, 0, 1.0], [0.03, 0, 1.3], [0.02, 0, 1.6], [0.1, 0.4, 1.0], [0.1, -0.4, 1.0]])


def made_up_walk(trial, seed, bias=0.0, frames=170):
    """A walk along +x whose hands swing against each other; the left one is `bias` (m) further out."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6) + 2 * np.pi * 0.9 * np.arange(frames) / RATE
    positions = np.repeat(REST[:, None], frames, 1) + np.arange(frames)[:, None] / RATE * np.array([1.2, 0, 0])
    size = rng.uniform(0.1, 0.3)
    positions[3, :, 0] += size * np.sin(phase)
    positions[4, :, 0] -= size * np.sin(phase)
    positions[3, :, 1] += bias
    positions += rng.normal(0, 1e-4, positions.shape)
    return Walk(trial, False, positions, np.zeros(frames))


@pytest.fixture(scope="module")
def fitted():
    biases = (-0.03, 0.02, 0.01, -0.02)
    walks = [made_up_walk(f"t{number}", number, bias) for number, bias in enumerate(biases)]
    path = empty_path(walks, fit_template(walks, CORE))
    moments = trial_moments(walks, path)
    path = with_penalties(with_moments(path, total(moments)), np.full(5, 1e-2), np.full(5, 1e-2))
    return walks, path, moments, out_of_fold(walks, path, moments, {"hand": HAND})


def test_moments_add_up():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    both, first, second = (Moments.of(rows) for rows in (np.vstack([x, y]), x, y))
    np.testing.assert_allclose(both.second, sum(np.outer(row, row) for row in np.vstack([x, y])))
    for left, right in ((first + second, both), (both - second, first)):
        assert left.count == right.count
        np.testing.assert_allclose(left.first, right.first, atol=1e-12)
        np.testing.assert_allclose(left.second, right.second, atol=1e-12)


def test_a_fold_has_not_seen_its_trial(fitted):
    walks, path, moments, folds = fitted
    for number, done in enumerate(folds["hand"]):
        others = total({trial: own for trial, own in moments.items() if trial != done.trial})
        expected = complete_walk(walks[number], with_moments(path, others), HAND)
        np.testing.assert_allclose(done.errors, expected.errors, atol=1e-4)
        assert np.abs(done.errors).mean() > np.abs(complete_walk(walks[number], path, HAND).errors).mean()


def test_errors_out_of_fold_are_the_bias_of_a_trial(fitted):
    # the bias of a trial cannot be told from the other joints: what is left is its distance from the others' mean
    biases = np.array([-0.03, 0.02, 0.01, -0.02])
    for number, done in enumerate(fitted[3]["hand"]):
        others = np.delete(biases, number).mean()
        assert done.errors[..., 1].mean() == pytest.approx(biases[number] - others, abs=0.004)


def test_episodes_hold_what_the_windows_told():
    count = 130
    windows, frames = np.meshgrid(np.arange(count), np.arange(FRAMES), indexing="ij")
    told = (1000 * windows + frames).astype(np.float32)  # says which window and frame it is from
    done = Completion("t", np.repeat(told[:, None, :, None], 3, 3), told[..., None])
    dt = 1 / RATE
    found = episodes([done], since=(10, 60), every=7, dt=dt)
    assert set(found.since) == {10, 60}
    np.testing.assert_allclose(found.times[0, [0, -2, -1]], [-90 * dt, -3 * dt, 0])
    for row in range(len(found.since)):
        newest = found.window[row] + FRAMES - 1  # the frame of the walk that is asked for
        assert found.target[row, 0, 0] == 1000 * found.window[row] + FRAMES - 1
        for place, ago in enumerate(np.arange(90, -1, -3)):
            seen = newest - found.since[row] - ago
            window = min(found.window[row], seen)  # the newest window that holds that frame
            assert found.errors[row, place, 0, 0] == 1000 * window + (seen - window)
            assert found.poses[row, place, 0] == 1000 * window + (seen - window)


def test_episodes_of_every_third_window():
    count, step = 60, 3
    windows, frames = np.meshgrid(step * np.arange(count), np.arange(FRAMES), indexing="ij")
    told = (1000 * windows + frames).astype(np.float32)
    done = Completion("t", np.repeat(told[:, None, :, None], 3, 3), told[..., None])
    found = episodes([done], since=(1, 2, 30), every=6, dt=1 / RATE, reach=45, step=step)
    assert set(found.since) == {1, 2, 30} and found.errors.shape[1] == 16
    for row, since in enumerate(found.since):
        newest = step * found.window[row]
        assert found.target[row, 0, 0] == 1000 * newest + FRAMES - 1
        for place, ago in enumerate(np.arange(45, -1, -3)):
            seen = newest - since - ago + FRAMES - 1  # the frame of the walk
            window = step * (min(newest, seen) // step)
            assert newest - since < window  # which ends after the loss
            assert found.errors[row, place, 0, 0] == 1000 * window + seen - window


def test_a_carry_removes_what_stays(fitted):
    lost = episodes(fitted[3]["hand"], (3, 30, 60), 5, 1 / RATE)
    carry = fit_carry([lost], 1 / RATE, evaluations=30)
    left = np.linalg.norm(lost.target - lost.carried(carry, 1 / RATE), axis=-1).mean()
    assert left < 0.25 * np.linalg.norm(lost.target, axis=-1).mean()


def test_cache_gives_back_what_it_was_given(fitted, tmp_path):
    lost = episodes(fitted[3]["hand"], (3,), 20, 1 / RATE)
    carry = fit_carry([lost], 1 / RATE, evaluations=2)
    _write_cache(tmp_path / "new" / "linear.npz", fitted[3], {"arm": carry, "leg": carry})
    completions, carries = _read_cache(tmp_path / "new" / "linear.npz", {"hand": HAND})
    assert carries["leg"] == carry and [done.trial for done in completions["hand"]] == ["t0", "t1", "t2", "t3"]
    np.testing.assert_array_equal(completions["hand"][2].errors, fitted[3]["hand"][2].errors)


def test_windows_for_the_networks(fitted):
    walks, path, _, folds = fitted
    data = gather(walks, folds, {"hand": HAND}, path.template, NAMES, Scale(2.0, 4.0), 1 / RATE, step=5)
    expected = np.concatenate([body_windows(walk, path.template)[::5] for walk in walks])
    np.testing.assert_allclose(data.positions, expected, atol=1e-6)
    assert data.errors[:, [0, 1, 2, 4]].abs().max() == 0
    states = data.states(data.positions[:2])
    np.testing.assert_allclose(states[0, 3, 7, :3], expected[0, 3, 7] / 2, atol=1e-5)
    np.testing.assert_allclose(states[0, 3, 7, 3:], (expected[0, 3, 7] - expected[0, 3, 6]) * RATE / 4, atol=1e-4)
    mirrored = data.mirrored.numpy()
    assert mirrored.tolist() == [0, 1, 2, 4, 3]
    with pytest.raises(ValueError, match="other walks"):
        gather(walks[:2], folds, {"hand": HAND}, path.template, NAMES, Scale(2.0, 4.0), 1 / RATE)


def test_limbs_and_their_mirror_images():
    names = [
        "root",
        "lhipjoint",
        "lfemur",
        "ltibia",
        "lfoot",
        "ltoes",
        "rhipjoint",
        "rfemur",
        "rtibia",
        "rfoot",
        "rtoes",
    ]
    arms = [f"{side}{joint}" for side in "lr" for joint in
            ("clavicle", "humerus", "radius", "wrist", "hand", "fingers", "thumb")]  # fmt: skip
    found = limbs([*names, "lowerback", *arms])
    assert found["right_leg"] == ["rhipjoint", "rfemur", "rtibia", "rfoot", "rtoes"]
    assert found["left_arm"][:2] == ["lclavicle", "lhumerus"] and found["right_arm"][-1] == "rthumb"
    assert mirrored_name("lowerback", ["root", "lowerback"]) == "lowerback"
    with pytest.raises(ValueError, match="left_arm: the skeleton has no lclavicle"):
        limbs(names)


def test_a_mirror_image_swaps_sides_and_turns_the_other_way():
    positions = np.arange(3 * 2 * 3, dtype=float).reshape(3, 2, 3)
    flipped = mirror(positions, mirror_order(["root", "lhand", "rhand"]))
    np.testing.assert_allclose(flipped[1], positions[2] * [1, -1, 1])
    np.testing.assert_allclose(mirror(flipped, mirror_order(["root", "lhand", "rhand"])), positions)


def test_headings_follow_the_way_that_is_walked():
    angle = 2.5
    way = np.arange(200)[:, None] / RATE * np.array([np.cos(angle), np.sin(angle), 0.0])
    sway = 0.05 * np.sin(2 * np.pi * np.arange(200) / RATE)[:, None] * np.array([-np.sin(angle), np.cos(angle), 0.0])
    headings = way_headings((way + sway)[None] + np.zeros((2, 1, 1)), RATE)
    np.testing.assert_allclose(headings[60:-60], angle, atol=1e-6)
    with pytest.raises(ValueError, match="stands still"):
        way_headings(np.zeros((2, 200, 3)), RATE)


def test_tables_of_parts_hold_on_the_next_walks(fitted):
    """A hand beside the bias of its trial is white noise of 0.1 mm and what the regression adds; what it does not add
    is known from before the loss."""
    walks, path, _, _ = fitted
    carry = fit_carry([episodes(fitted[3]["hand"], (3, 30, 60), 5, 1 / RATE)], 1 / RATE, evaluations=30)
    limbs = {"left": np.array([3]), "right": np.array([4])}
    tables = part_tables(path, {"left": carry, "right": carry, "core": carry}, NAMES, limbs, walks, 1 / RATE)
    kinds = {f"{hand}_{end}{more}" for hand in NAMES[3:] for end in ("half", "alone") for more in ("", "_unseen")}
    assert set(tables) == kinds | {f"{name}{more}" for name in NAMES[:3] for more in ("", "_unseen")}
    assert tables["lhand_half"] == tables["lhand_alone"]  # a limb of one joint
    biases = np.abs(np.array([-0.03, 0.02, 0.01, -0.02]))  # half of them, and of the other two axes nothing
    assert 0.002 < tables["lhand_alone_unseen"].half_width[0] < 2 * biases.max()
    done = complete_walk(made_up_walk("next", 9, 0.025), path, HAND, 3)
    lost = episodes([done], (3, 9, 30, 60), 6, 1 / RATE, reach=45, step=3)
    multiple = np.maximum(1, unlike(lost.errors, np.array(tables["lhand_alone_unseen"].half_width)))
    width, radius = np.stack(tables["lhand_alone"].at(lost.since / RATE)) * multiple
    left = (lost.target - lost.carried(carry, 1 / RATE))[:, 0]
    assert (np.abs(left) <= width[:, None]).mean() > 0.6
    assert (np.linalg.norm(left, axis=-1) <= radius).mean() > 0.9
    assert np.median(radius) < 0.025  # less than the bias that only what was seen can tell
