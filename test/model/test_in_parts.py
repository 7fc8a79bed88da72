"""Sums in parts by hand: values, gradients of what needs one, and what is kept for the backward pass."""

from __future__ import annotations

import weakref

import pytest
import torch

from siha_ros.model.in_parts import sum_in_parts

PARTS = [(slice(0, 2), 1.0), (slice(2, 3), 10.0)]


def weighed(a, b, part, weight):
    return weight * (a[part] * b[part]).sum() ** 2


def test_sum_and_gradients_by_hand():
    """1 (2 a0 + 3 a1)^2 + 10 (5 a2)^2, of which a is 1, 2, 3: 64 + 2250."""
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = torch.tensor([2.0, 3.0, 5.0], requires_grad=True)
    apart = torch.tensor(7.0, requires_grad=True)  # a parameter that the function does not use
    total = sum_in_parts(weighed, PARTS, [a, b], [apart, torch.tensor([1.0])])
    assert total.item() == 64 + 2250
    (total / 2).backward()
    assert a.grad.tolist() == [8 * 2, 8 * 3, 10 * 15 * 5]
    assert b.grad.tolist() == [8 * 1, 8 * 2, 10 * 15 * 3]
    assert float(apart.grad) == 0
    with torch.no_grad():
        assert float(sum_in_parts(weighed, PARTS, [a, b])) == 2314


def test_gradients_go_on_to_what_the_inputs_are_made_of():
    """Both inputs are made of one tensor: 2 a^2 weighed, by the product rule once through each."""
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    sum_in_parts(lambda a, b, part, weight: weight * (a[part] * b[part]).sum(), PARTS, [2 * a, a]).backward()
    assert a.grad.tolist() == [4, 8, 120]


def test_weights_need_not_be_inputs():
    w = torch.tensor(3.0, requires_grad=True)
    a = torch.tensor([1.0, 2.0, 3.0])
    sum_in_parts(lambda a, part, weight: weight * w * a[part].sum(), PARTS, [a], [w]).backward()
    assert float(w.grad) == 3 + 30


def test_no_part_outlives_its_turn():
    """What is kept at any moment is of one part, however many there are."""
    alive, seen = [], []

    def function(a, part, weight):
        kept = a[part] * 1.0
        alive.append(sum(reference() is not None for reference in seen))
        seen.append(weakref.ref(kept))
        return (kept * kept).sum() * weight

    sum_in_parts(function, PARTS * 4, [torch.ones(3, requires_grad=True)]).backward()
    assert alive == [0] * 8


def test_it_is_differentiated_once():
    a = torch.ones(3, requires_grad=True)
    total = sum_in_parts(lambda a, part, weight: weight * a[part].pow(3).sum(), PARTS, [a])
    (first,) = torch.autograd.grad(total, a, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        first.sum().backward()
