"""Poses and twists paired by message_filters, where that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from siha_ros.node.inputs.twists import KEPT, SLOP, NearestPairs, Pairs


class FilterPairs:
    """The Pairs of an approximate time synchronizer. It only pairs: what falls silent stops nothing."""

    def __init__(self) -> None:
        from message_filters import ApproximateTimeSynchronizer, SimpleFilter

        self._poses, self._twists = SimpleFilter(), SimpleFilter()
        self._synchronizer = ApproximateTimeSynchronizer([self._poses, self._twists], KEPT, SLOP)
        self._synchronizer.registerCallback(self._take)
        self._pair: tuple[Any, Any] | None = None

    def _take(self, pose: Any, twist: Any) -> None:
        self._pair = pose, twist

    def add_pose(self, pose: Any) -> Any | None:
        """See Pairs."""
        return self._paired(self._poses, pose, 1)

    def add_twist(self, twist: Any) -> Any | None:
        """See Pairs."""
        return self._paired(self._twists, twist, 0)

    def _paired(self, own: Any, message: Any, other: int) -> Any | None:
        self._pair = None
        own.signalMessage(message)
        return None if self._pair is None else self._pair[other]


def new_pairs() -> Pairs:
    """Pairs of an agent, by message_filters where it is installed."""
    return FilterPairs() if find_spec("message_filters") else NearestPairs()
