"""The node with the baseline that holds the last position in a trained model's place: starts at once, needs no torch.

Run by the harness as a process of its own. The folder name of the bundle chooses the kind: `team` (any names, planar, a
window of 1 s) or `body` (joints j0 to j30, a window of 0.25 s). `slow` in the name makes every estimate take 0.3 s,
`stuck` 10 s, `broken` makes every third one fail, `loading` makes configure take 10 s, and with `poor` there is no
package nav_msgs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

from siha_ros.baselines import Hold
from siha_ros.node.main import main


class HoldEstimator:
    """Hold behind the interface of a loaded bundle."""

    def __init__(self, path: Path) -> None:
        if "loading" in path.name:
            print("loading", flush=True)
            time.sleep(10.0)
        if "poor" in path.name:
            sys.modules["nav_msgs.msg"] = None
        body = "body" in path.name
        config = SimpleNamespace(
            name=path.name,
            identified=body,
            agent_names=[f"j{index}" for index in range(31)] if body else [],
            count=31 if body else 7,
            dims=3 if body else 2,
            dt=1 / 60 if body else 0.1,
            window=15 if body else 10,
            horizon=5,
            edge_types=["none", "acts"],
            ranges=SimpleNamespace(rate=[60.0 if body else 10.0, 1000.0]),
        )
        self.bundle, self.device = SimpleNamespace(config=config), "cpu"
        self._hold = Hold(horizon=config.horizon)
        self._slow, self._stuck = "slow" in path.name, "stuck" in path.name
        self._broken, self._count = "broken" in path.name, 0

    def warm_up(self) -> None:
        pass

    def estimate(self, window, previous=None):
        self._count += 1
        if self._slow:
            time.sleep(0.3)
        if self._stuck:
            print("stuck", flush=True)
            time.sleep(10.0)
        if self._broken and self._count % 3 == 0:
            raise RuntimeError("broken on purpose")
        return self._hold.estimate(window, previous)


if __name__ == "__main__":
    main(loader=lambda path, device: HoldEstimator(path))
