"""Memory: what large arrays leave is kept for the next ones, and what says that there is too little."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's mallopt
KEPT = 2**31 - 1  # bytes at the end of the heap that may stay unused
GROWTH = 2**26  # bytes that the heap grows by at least


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed, whatever its size. False where there is no glibc, and nothing is changed.

    It gives blocks of 32 MB and more back at once, and the system clears each page of the next such block when it is
    first touched: a sixth of the time of training steps on 31 joints, half of that of explaining a batch of windows
    (docs/results.md, Speed). For commands that work through batches; a process that others wait beside, such as the
    node, gives back what it does not need.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return all(mallopt(name, value) for name, value in ((_TRIM_THRESHOLD, KEPT), (_TOP_PAD, GROWTH), (_MMAP_MAX, 0)))


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory was asked for that is not there. PyTorch has a type for it on GPUs alone."""
    kind = type(error).__name__
    return isinstance(error, MemoryError) or kind == "OutOfMemoryError" or "allocate memory" in str(error)
