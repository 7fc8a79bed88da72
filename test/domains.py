"""ROS domains for tests, so that none hears another, nor what runs beside it in another process of pytest-xdist."""

from __future__ import annotations

import os
import zlib

DOMAINS = 100  # 1 to 100: those above 101 share their ports with other programs
_given = 0


def own_domain() -> int:
    """A domain that was not given for as long as there are others."""
    global _given
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    turn = _given % max(1, DOMAINS // workers)
    _given += 1
    return 1 + (zlib.crc32(run.encode()) + turn * workers + worker) % DOMAINS
