"""Edge layouts: the one place that knows how ordered pairs of agents are laid out in memory.

Three layouts occur:

* *matrix* ``[..., A, A, K]``: ``matrix[i, j]`` is the influence of sender ``i`` on receiver ``j``; the diagonal is
  zero. Everything outside the network code uses it.
* *flat* ``[..., E, K]`` with ``E = A (A - 1)``: the off-diagonal entries of the matrix in row-major order.
* *incoming* ``[..., A, A - 1, K]``: for every receiver its senders in ascending order. The networks work in it, since
  the sum over a receiver's senders is then a plain reduction and no gather is needed for the receiver.

Indices are kept per device: a copy to a GPU in every call would wait for it, and no CUDA graph could record it.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F


@cache
@torch.inference_mode(False)  # kept for later calls, which may need gradients
def senders(agents: int, device: torch.device | None = None) -> Tensor:
    """``[A, A - 1]`` indices: row ``j`` lists the senders of receiver ``j`` (everyone else, ascending)."""
    grid = torch.arange(agents, device=device).expand(agents, agents)
    return grid[~torch.eye(agents, dtype=torch.bool, device=device)].view(agents, agents - 1)


@cache
@torch.inference_mode(False)
def off_diagonal(agents: int, device: torch.device | None = None) -> Tensor:
    """``[E]`` positions of the off-diagonal entries in a flattened ``A x A`` matrix, row-major."""
    return torch.nonzero(~torch.eye(agents, dtype=torch.bool, device=device).flatten()).flatten()


@cache
@torch.inference_mode(False)
def incoming_places(agents: int, device: torch.device | None = None) -> Tensor:
    """``[A (A - 1)]`` positions of the entries of the incoming layout in a flattened ``A x A`` matrix."""
    return (senders(agents, device) * agents + torch.arange(agents, device=device)[:, None]).flatten()


@cache
@torch.inference_mode(False)
def matrix_places(agents: int, device: torch.device | None = None) -> Tensor:
    """``[A A]`` positions of the entries of the matrix in a flattened incoming layout after a leading zero: 0 on the
    diagonal."""
    places = torch.zeros(agents * agents, dtype=torch.long, device=device)
    places[incoming_places(agents, device)] = torch.arange(1, agents * (agents - 1) + 1, device=device)
    return places


def matrix_to_flat(matrix: Tensor) -> Tensor:
    """``[..., A, A, K]`` to ``[..., E, K]``, off-diagonal entries in row-major order."""
    agents = matrix.shape[-2]
    index = off_diagonal(agents, matrix.device)
    return matrix.flatten(-3, -2).index_select(-2, index)


def flat_to_matrix(flat: Tensor, agents: int) -> Tensor:
    """``[..., E, K]`` to ``[..., A, A, K]`` with a zero diagonal. Inverse of :func:`matrix_to_flat`."""
    index = off_diagonal(agents, flat.device)
    matrix = flat.new_zeros(*flat.shape[:-2], agents * agents, flat.shape[-1])
    return matrix.index_copy(-2, index, flat).unflatten(-2, (agents, agents))


def matrix_to_incoming(matrix: Tensor) -> Tensor:
    """``[..., A, A, K]`` to ``[..., A, A - 1, K]`` (receiver, sender)."""
    agents = int(matrix.shape[-2])
    index = incoming_places(agents, matrix.device)
    return matrix.flatten(-3, -2).index_select(-2, index).unflatten(-2, (agents, agents - 1))


def incoming_to_matrix(incoming: Tensor) -> Tensor:
    """``[..., A, A - 1, K]`` to ``[..., A, A, K]`` with a zero diagonal. Inverse of :func:`matrix_to_incoming`."""
    agents = int(incoming.shape[-3])
    index = matrix_places(agents, incoming.device)
    flat = F.pad(incoming.flatten(-3, -2), (0, 0, 1, 0))
    return flat.index_select(-2, index).unflatten(-2, (agents, agents))


def gather_senders(nodes: Tensor) -> Tensor:
    """Node features ``[..., A, F]`` to the features of each receiver's senders ``[..., A, A - 1, F]``."""
    agents = int(nodes.shape[-2])
    index = senders(agents, nodes.device).flatten()
    return nodes.index_select(-2, index).unflatten(-2, (agents, agents - 1))
