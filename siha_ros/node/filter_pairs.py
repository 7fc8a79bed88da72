"""Poses and twists paired by message_filters, where that is installed."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

from siha_ros.node.inputs.sample import seconds
from siha_ros.node.inputs.twists import KEPT, SLOP, NearestPairs, Pairs

BACK = 0.5  # s: stamps of one topic that go back by more tell that time did


class FilterPairs:
    """The Pairs of an approximate time synchronizer. It only pairs: what falls silent stops nothing.

    A synchronizer that is full forgets the oldest stamps, which after a jump back are all that come: it is made anew.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        from message_filters import ApproximateTimeSynchronizer, SimpleFilter

        self._filters = SimpleFilter(), SimpleFilter()
        self._synchronizer = ApproximateTimeSynchronizer(list(self._filters), KEPT, SLOP)
        self._synchronizer.registerCallback(self._take)
        self._newest = [-math.inf, -math.inf]
        self._pair: tuple[Any, Any] | None = None

    def _take(self, pose: Any, twist: Any) -> None:
        self._pair = pose, twist

    def add_pose(self, pose: Any) -> Any | None:
        """See Pairs."""
        return self._paired(0, pose)

    def add_twist(self, twist: Any) -> Any | None:
        """See Pairs."""
        return self._paired(1, twist)

    def _paired(self, own: int, message: Any) -> Any | None:
        stamp = seconds(message.header.stamp)
        if stamp < self._newest[own] - BACK:
            self._begin()
        self._newest[own], self._pair = max(stamp, self._newest[own]), None
        self._filters[own].signalMessage(message)
        return None if self._pair is None else self._pair[1 - own]


def new_pairs() -> Pairs:
    """Pairs of an agent, by message_filters where it is installed."""
    return FilterPairs() if find_spec("message_filters") else NearestPairs()
