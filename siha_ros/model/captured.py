"""A function of tensors as one CUDA graph for each shape of its inputs: static buffers, no call to launch but one.

A window on a GPU costs little arithmetic and hundreds of small kernels, whose launches take most of its time. Recorded
once, they are played back together. Elsewhere than on a CUDA device, the function is called as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

TOLERANCE = 1e-4  # largest difference from the function itself that a recording may have, in normalised units
WARM_UPS = 3  # calls before a recording: libraries choose their algorithms in them
LARGEST_KEPT = 32  # shapes

Function = Callable[..., tuple[Tensor, ...]]


class Playable(Protocol):
    """What was recorded."""

    def replay(self) -> None:
        """Compute the static outputs from the static inputs."""
        ...


@dataclass
class Recording:
    """A graph and the buffers that it reads and writes."""

    graph: Playable
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def play(self, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The outputs for these inputs, in tensors of their own."""
        for static, tensor in zip(self.inputs, given, strict=True):
            static.copy_(tensor)
        self.graph.replay()
        return tuple(tensor.clone() for tensor in self.outputs)


Recorder = Callable[[Function, tuple[Tensor, ...]], Recording]


class Captured:
    """``function`` behind the same call, recorded for each shape of its inputs when that is met for the first time (a
    moment: warm up). It must do all its work on the device: no value may come back to Python on the way. What is
    recorded is checked against the function; where it differs, or cannot be recorded, the function itself goes on, and
    a warning says so.

    eager: what is called where nothing is recorded, if it is not the function. record: another recorder than CUDA's.
    """

    def __init__(self, function: Function, eager: Function | None = None, record: Recorder | None = None):
        self.function, self.eager = function, eager or function
        self._record, self._always = record or record_cuda, record is not None
        self._kept: dict[object, Recording | None] = {}

    @torch.inference_mode()
    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """As the function's."""
        if not self._always and inputs[0].device.type != "cuda":
            return self.eager(*inputs)
        key = tuple((tuple(x.shape), x.dtype, x.device) for x in inputs)
        if key not in self._kept:
            if len(self._kept) >= LARGEST_KEPT:
                self._kept.clear()
            self._kept[key] = self._checked(inputs)
        recording = self._kept[key]
        return self.eager(*inputs) if recording is None else recording.play(inputs)

    def _checked(self, inputs: tuple[Tensor, ...]) -> Recording | None:
        try:
            recording = self._record(self.function, inputs)
            pairs = zip(recording.play(inputs), self.function(*inputs), strict=True)
            difference = max(float((one.double() - other.double()).abs().max()) for one, other in pairs)
        except RuntimeError as error:  # whatever CUDA does not record
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        else:
            if difference <= TOLERANCE:
                return recording
            reason = f"it differs by {difference:.1e}"
        warnings.warn(f"the loop of a window runs uncaptured and slower ({reason})", stacklevel=3)
        return None


def record_cuda(function: Function, inputs: tuple[Tensor, ...]) -> Recording:
    """Record the function on the current CUDA device, its inputs copied into static buffers."""
    static = tuple(x.clone() for x in inputs)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function(*static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function(*static)
    return Recording(graph, static, outputs)
