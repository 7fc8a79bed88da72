"""Edge layouts: the one place that knows how ordered pairs of agents are laid out in memory.

Three layouts occur:

* *matrix* ``[..., A, A, K]``: ``matrix[i, j]`` is the influence of sender ``i`` on receiver ``j``; the diagonal is
  zero. Everything outside the network code uses it.
* *flat* ``[..., E, K]`` with ``E = A (A - 1)``: the off-diagonal entries of the matrix in row-major order.
* *incoming* ``[..., A, A - 1, K]``: for every receiver its senders in ascending order. The networks work in it, since
  the sum over a receiver's senders is then a plain reduction and no gather is needed for the receiver.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
@torch.inference_mode(False)  # kept for later calls, which may need gradients
def senders(agents: int) -> Tensor:
    """``[A, A - 1]`` indices: row ``j`` lists the senders of receiver ``j`` (everyone else, ascending)."""
    grid = torch.arange(agents).expand(agents, agents)
    return grid[~torch.eye(agents, dtype=torch.bool)].view(agents, agents - 1)


@cache
@torch.inference_mode(False)
def off_diagonal(agents: int) -> Tensor:
    """``[E]`` positions of the off-diagonal entries in a flattened ``A x A`` matrix, row-major."""
    return torch.nonzero(~torch.eye(agents, dtype=torch.bool).flatten()).flatten()


def matrix_to_flat(matrix: Tensor) -> Tensor:
    """``[..., A, A, K]`` to ``[..., E, K]``, off-diagonal entries in row-major order."""
    agents = matrix.shape[-2]
    index = off_diagonal(agents).to(matrix.device)
    return matrix.flatten(-3, -2).index_select(-2, index)


def flat_to_matrix(flat: Tensor, agents: int) -> Tensor:
    """``[..., E, K]`` to ``[..., A, A, K]`` with a zero diagonal. Inverse of :func:`matrix_to_flat`."""
    index = off_diagonal(agents).to(flat.device)
    matrix = flat.new_zeros(*flat.shape[:-2], agents * agents, flat.shape[-1])
    return matrix.index_copy(-2, index, flat).unflatten(-2, (agents, agents))


def matrix_to_incoming(matrix: Tensor) -> Tensor:
    """``[..., A, A, K]`` to ``[..., A, A - 1, K]`` (receiver, sender)."""
    agents = matrix.shape[-2]
    index = senders(agents).to(matrix.device)
    receiver = torch.arange(agents, device=matrix.device)[:, None]
    return matrix[..., index, receiver, :]


def incoming_to_matrix(incoming: Tensor) -> Tensor:
    """``[..., A, A - 1, K]`` to ``[..., A, A, K]`` with a zero diagonal. Inverse of :func:`matrix_to_incoming`."""
    agents = incoming.shape[-3]
    index = senders(agents).to(incoming.device)
    receiver = torch.arange(agents, device=incoming.device)[:, None]
    matrix = incoming.new_zeros(*incoming.shape[:-3], agents, agents, incoming.shape[-1])
    matrix[..., index, receiver, :] = incoming
    return matrix


def gather_senders(nodes: Tensor) -> Tensor:
    """Node features ``[..., A, F]`` to the features of each receiver's senders ``[..., A, A - 1, F]``."""
    agents = nodes.shape[-2]
    index = senders(agents).to(nodes.device).flatten()
    return nodes.index_select(-2, index).unflatten(-2, (agents, agents - 1))
