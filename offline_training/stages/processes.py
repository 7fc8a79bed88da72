"""Training in several processes, on many GPUs or machines: ``torchrun`` starts them, each computes its share of every
batch, and the first one writes. Without torchrun there is one process, and all of this does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel

from siha_ros.model.nri import BatchNorm

Found = TypeVar("Found")


def count() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def number() -> int:
    """Of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextmanager
def joined() -> Iterator[None]:
    """While it lasts, the processes that torchrun started are one group."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def agreed(find: Callable[[], Found]) -> Found:
    """What the first process finds, in all of them; a ValueError or OSError of it is raised in all, as ValueError."""
    if count() == 1:
        return find()
    box: list[Found | Exception | None] = [None]
    if number() == 0:
        try:
            box[0] = find()
        except (ValueError, OSError) as error:
            box[0] = ValueError(str(error))
    dist.broadcast_object_list(box)
    found = box[0]
    if isinstance(found, ValueError):
        raise found
    return found  # type: ignore[return-value]


def share(batch: Tensor) -> Tensor:
    """The rows of a batch that are this process's; all have drawn the same batch. Raises ValueError where it cannot be
    shared out evenly."""
    if len(batch) % count():
        raise ValueError(f"a batch of {len(batch)} cannot be shared out evenly to {count()} processes")
    size = len(batch) // count()
    return batch[number() * size : (number() + 1) * size]


def mean(value: Tensor) -> Tensor:
    """The mean over all processes."""
    if count() > 1:
        value = value.detach().clone()
        dist.all_reduce(value)
        value /= count()
    return value


def summed(parts: Tensor) -> Tensor:
    """The sum over all processes, in all of them: a whole, of which each has made some rows and holds zeros in place of
    the others."""
    if count() > 1:
        dist.all_reduce(parts)
    return parts


class StageLoss(nn.Module):
    """What DistributedDataParallel wraps: the loss of a stage, which uses the model's modules as it likes."""

    def __init__(self, model: nn.Module, loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, step: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """As the loss."""
        return self.loss(step, generator)


@contextmanager
def in_step(
    model: nn.Module, loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]
) -> Iterator[Callable[..., tuple[Tensor, dict[str, Tensor]]]]:
    """A loss whose gradients are those of the whole batch in every process, where ``loss`` is the mean over this
    process's share; batch normalisation of the model sees the whole batch. It starts from the first one's weights."""
    if count() == 1:
        yield loss
        return
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    for norm in norms:
        norm.forward = MethodType(_normalise, norm)  # type: ignore[method-assign]
    try:
        yield DistributedDataParallel(StageLoss(model, loss), broadcast_buffers=False)
    finally:
        for norm in norms:
            del norm.forward


def _normalise(self: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """Batch normalisation with the statistics of all processes' batches, which are of one size. (PyTorch's own,
    SyncBatchNorm, is for GPUs alone.)"""
    if not self.training:
        return type(self).forward(self, x)
    last = x if isinstance(self, BatchNorm) else x.movedim(1, -1)
    rows = last.flatten(0, -2).float()
    total = len(rows) * count()
    centre = all_reduce(rows.sum(0)) / total
    variance = all_reduce((rows - centre).square().sum(0)) / total
    with torch.no_grad():
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        self.running_mean.lerp_(centre.detach(), self.momentum or 0.0)
        self.running_var.lerp_(variance.detach() * total / (total - 1), self.momentum or 0.0)
    out = (last.float() - centre) * torch.rsqrt(variance + self.eps) * self.weight + self.bias
    out = out.to(x.dtype)
    return out if isinstance(self, BatchNorm) else out.movedim(-1, 1)
