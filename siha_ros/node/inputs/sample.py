"""What an input makes of one message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sample:
    """One or several agents at the stamp of one message.

    Attributes:
        names: [n] agents, as the stream names them.
        positions: f8[n, 3] (m), NaN where the source says so.
        tracked: bool[n] the source's own flag, None for types that have none.
        velocities: f8[n, 3] (m/s) in the frame of the positions, NaN where not measured.
        orientations: f8[n, 4] quaternions (x, y, z, w) as they came, None for types that have none.
        confidence: f8[n] in 0..1, None for types that have none.
        complete: the message speaks for all agents, so that one not named in it was not seen.
    """

    names: Sequence[str]
    positions: NDArray[np.float64]
    tracked: NDArray[np.bool_] | None = None
    velocities: NDArray[np.float64] | None = None
    orientations: NDArray[np.float64] | None = None
    confidence: NDArray[np.float64] | None = None
    complete: bool = False
