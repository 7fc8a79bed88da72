"""How far long work is: a bar on a terminal, elsewhere a line about once a minute. Both go to stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from tqdm import tqdm

SILENCE = 60.0  # s without a line, after which the next step says one
Item = TypeVar("Item")


def shown(items: Iterable[Item], name: str, total: int | None = None, *, progress: bool = True) -> Iterator[Item]:
    """``items``; what each takes counts for the rate. total: how many, where they do not know it. progress: False
    shows nothing."""
    if not progress or sys.stderr.isatty():
        yield from tqdm(items, name, total=total, disable=not progress, leave=False, smoothing=0.05)
        return
    count = len(items) if total is None and isinstance(items, Sized) else total
    of, said = "" if count is None else f" of {count}", time.monotonic()
    for number, item in enumerate(items):
        yield item
        if time.monotonic() - said > SILENCE:
            said = time.monotonic()
            print(f"{name}: {number + 1}{of}", file=sys.stderr, flush=True)
