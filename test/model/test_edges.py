"""Edge layouts against an example worked by hand, and each against its inverse."""

from __future__ import annotations

import pytest
import torch

from siha_ros.model.edges import (
    flat_to_matrix,
    gather_senders,
    incoming_to_matrix,
    matrix_to_flat,
    matrix_to_incoming,
    off_diagonal,
    senders,
)

# entry "ij" is the influence of agent i on agent j
MATRIX = torch.tensor([[0, 1, 2], [10, 0, 12], [20, 21, 0]]).unsqueeze(-1)


def test_flat_is_the_off_diagonal_in_row_major_order():
    assert matrix_to_flat(MATRIX).flatten().tolist() == [1, 2, 10, 12, 20, 21]


def test_incoming_lists_the_senders_of_each_receiver():
    assert matrix_to_incoming(MATRIX).squeeze(-1).tolist() == [[10, 20], [1, 21], [2, 12]]


def test_senders_are_everyone_else():
    assert senders(3).tolist() == [[1, 2], [0, 2], [0, 1]]


def test_gather_senders_takes_the_features_of_everyone_else():
    nodes = torch.tensor([[5.0, 50.0], [6.0, 60.0], [7.0, 70.0]])
    assert gather_senders(nodes).tolist() == [[[6, 60], [7, 70]], [[5, 50], [7, 70]], [[5, 50], [6, 60]]]


@pytest.mark.parametrize("agents", [2, 3, 7])
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)])
def test_round_trips(agents, leading):
    matrix = torch.randn(*leading, agents, agents, 2)
    matrix[..., torch.arange(agents), torch.arange(agents), :] = 0
    assert torch.equal(flat_to_matrix(matrix_to_flat(matrix), agents), matrix)
    assert torch.equal(incoming_to_matrix(matrix_to_incoming(matrix)), matrix)
    flat = torch.randn(*leading, agents * (agents - 1), 2)
    assert torch.equal(matrix_to_flat(flat_to_matrix(flat, agents)), flat)


def test_both_inverses_leave_the_diagonal_zero():
    ones = torch.ones(5, 4, 3, 2)
    for matrix in (incoming_to_matrix(ones), flat_to_matrix(torch.ones(5, 12, 2), 4)):
        assert matrix.diagonal(dim1=1, dim2=2).eq(0).all()
        assert matrix.sum() == 5 * 12 * 2


def test_gradients_flow_through_the_layouts():
    flat = torch.randn(1, 6, 2, dtype=torch.float64, requires_grad=True)
    nodes = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)

    def layouts(flat):
        return matrix_to_incoming(incoming_to_matrix(matrix_to_incoming(flat_to_matrix(flat, 3))))

    assert torch.autograd.gradcheck(layouts, flat)
    assert torch.autograd.gradcheck(gather_senders, nodes)


def test_indices_first_used_at_inference_serve_training_too():
    senders.cache_clear()
    off_diagonal.cache_clear()
    with torch.inference_mode():
        gather_senders(torch.randn(4, 2))
        matrix_to_flat(torch.randn(4, 4, 1))
    nodes = torch.ones(4, 2, requires_grad=True)
    matrix = torch.ones(4, 4, 1, requires_grad=True)
    (gather_senders(nodes).sum() + matrix_to_flat(matrix).sum()).backward()
    assert nodes.grad.eq(3).all()  # every agent sends to three others
    assert matrix.grad.sum() == 12
