"""Edge accuracies against numbers counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from siha_ros.replay.metrics import edge_accuracy, label_permutation

# agents 0, 1 visible, 2, 3 hidden; the diagonals of truth and prediction differ on purpose
TRUTH = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]])
HIDDEN = np.array([False, False, True, True])


def wrong_at(*places):
    """TRUTH with the given (sample, i, j) turned over, two samples."""
    predicted = np.stack([TRUTH, TRUTH]) - np.eye(4, dtype=int)
    for place in places:
        predicted[place] = 1 - predicted[place]
    return predicted


def test_blocks_by_hand():
    """Two samples of 2 visible-visible, 8 visible-hidden and 2 hidden-hidden edges."""
    predicted = wrong_at((0, 0, 1), (0, 0, 2), (0, 3, 1), (1, 1, 2), (1, 2, 3), (1, 3, 2))
    accuracy = edge_accuracy(predicted, np.stack([TRUTH, TRUTH]), HIDDEN)
    assert accuracy == pytest.approx({"acc_vv": 75.0, "acc_vh": 100 * 13 / 16, "acc_hh": 50.0})


def test_block_without_edges_is_undefined():
    accuracy = edge_accuracy(TRUTH[None], TRUTH[None], np.array([False, False, False, True]))
    assert accuracy == {"acc_vv": 100.0, "acc_vh": 100.0, "acc_hh": None}
    accuracy = edge_accuracy(TRUTH[None], TRUTH[None], np.zeros(4, bool))
    assert accuracy == {"acc_vv": 100.0, "acc_vh": None, "acc_hh": None}


def test_names_of_types_do_not_matter():
    truth = np.stack([TRUTH, TRUTH])
    predicted = wrong_at((0, 0, 2))
    assert label_permutation(predicted, truth, 2) == (0, 1)
    assert label_permutation(1 - predicted, truth, 2) == (1, 0)
    assert edge_accuracy(1 - predicted, truth, HIDDEN) == edge_accuracy(predicted, truth, HIDDEN)


def test_entry_k_is_the_true_type_of_predicted_type_k():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, (20, 5, 5))
    renamed = np.array([2, 0, 1])[truth]  # true 0 is called 2, 1 is called 0, 2 is called 1
    assert label_permutation(renamed, truth, 3) == (1, 2, 0)
    assert edge_accuracy(renamed, truth, np.zeros(5, bool), 3)["acc_vv"] == 100.0


def test_one_renaming_for_the_whole_set():
    """Three samples right, one with all types swapped: it counts as wrong, not as right under a renaming of its own."""
    predicted = np.stack([1 - TRUTH, TRUTH, TRUTH, TRUTH])
    accuracy = edge_accuracy(predicted, np.stack([TRUTH] * 4), HIDDEN)
    assert accuracy == {"acc_vv": 75.0, "acc_vh": 75.0, "acc_hh": 75.0}


def test_one_renaming_for_all_blocks():
    """All hidden-hidden edges turned over, the rest right: that block is 0 %, not 100."""
    predicted = wrong_at((0, 2, 3), (0, 3, 2), (1, 2, 3), (1, 3, 2))
    accuracy = edge_accuracy(predicted, np.stack([TRUTH, TRUTH]), HIDDEN)
    assert accuracy == {"acc_vv": 100.0, "acc_vh": 100.0, "acc_hh": 0.0}


def test_samples_weigh_alike():
    """The accuracy of a set is the mean over its samples, however it is put together."""
    rng = np.random.default_rng(1)
    truth, predicted = rng.integers(0, 2, (2, 60, 6, 6))
    predicted = np.where(rng.random(truth.shape) < 0.6, truth, predicted)
    hidden = np.array([False] * 4 + [True] * 2)
    whole = edge_accuracy(predicted, truth, hidden)
    few, many = (edge_accuracy(predicted[part], truth[part], hidden) for part in (slice(0, 10), slice(10, 60)))
    for block in whole:
        assert whole[block] == pytest.approx((10 * few[block] + 50 * many[block]) / 60)
