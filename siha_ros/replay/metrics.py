"""What an estimate is judged by, in the terms of the paper's tables: edge accuracies by block of visible and hidden."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray


def label_permutation(predicted: NDArray[np.integer], truth: NDArray[np.integer], types: int) -> tuple[int, ...]:
    """The renaming of predicted edge types that fits a whole test set best: entry k is the true type for predicted k.

    predicted, truth: ``[n, A, A]`` types of all samples; the diagonal is ignored. One renaming for everything, chosen
    on all edges together: types that training found without labels have no names of their own.
    """
    off = ~np.eye(truth.shape[-1], dtype=bool)
    guess, true = predicted[:, off], truth[:, off]
    return max(permutations(range(types)), key=lambda names: float((np.asarray(names)[guess] == true).mean()))


def edge_accuracy(
    predicted: NDArray[np.integer], truth: NDArray[np.integer], hidden: NDArray[np.bool_], types: int = 2
) -> dict[str, float | None]:
    """Accuracy in percent of the blocks visible-visible, visible-hidden (both directions) and hidden-hidden.

    predicted, truth: ``[n, A, A]``; hidden: ``[A]``. None where a block holds no edge.
    """
    names = np.asarray(label_permutation(predicted, truth, types))
    right = names[predicted] == truth
    off = ~np.eye(truth.shape[-1], dtype=bool)
    count = hidden[:, None].astype(int) + hidden[None, :]
    blocks = {"acc_vv": count == 0, "acc_vh": count == 1, "acc_hh": count == 2}
    entries = {name: right[:, block & off] for name, block in blocks.items()}
    return {name: float(block.mean() * 100) if block.size else None for name, block in entries.items()}
