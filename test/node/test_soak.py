"""A long stream: memory, threads, files and latency at its end are what they were at its beginning.

A minute of stream and no model in the suite, an hour of it and a trained model in `make soak`; as fast as the node can
follow, with one or two robots lost for half of the time.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
pytest.importorskip("numba", reason="needs numba, for the simulated team")

from node_harness import START, finite, seconds
from robot_processes import drive, publish_springs
from siha_ros.msg import AgentState

pytestmark = pytest.mark.ros

NAMES = [f"robot_{number}" for number in range(1, 8)]
FAST = {  # of a stream that comes in pieces of a second, where one topic may run ahead of another by as much
    "rate": 200.0,
    "visibility__silence_timeout": 2.0,
    "window__reorder_tolerance": 2.0,
}


def test_a_minute_leaves_the_node_as_it_was(start, peer):
    run(start(**FAST), peer, 60.0, every=0.25)


@pytest.mark.soak
def test_an_hour_leaves_a_trained_model_as_fast_and_as_large_as_it_was(start, peer):
    pytest.importorskip("torch", reason="needs torch")
    node = start(command=("-m", "siha_ros.node"), autostart=False, **FAST)
    assert node.set("bundle", "springs_team").successful and node.change("configure") and node.change("activate")
    latencies = run(node, peer, 3600.0, every=2.0)
    third = len(latencies) // 3
    first, last = np.nanmedian(latencies[:third]), np.nanmedian(latencies[-third:])
    print(f"latency p99: {first:.0f} ms in the first third, {last:.0f} ms in the last")
    assert last < 1.3 * first + 5.0


def run(node, peer, length: float, every: float) -> list[float]:
    """Latencies p99 (ms) over a stream of `length` s; its node is looked at all `every` s of wall time."""
    driver = drive(publish_springs, peer.domain, NAMES, length, f"{node.namespace}/siha/states")
    usages, latencies, hidden, begin = [], [], 0, time.monotonic()
    try:
        while driver.is_alive():
            driver.join(every)
            heard = [message for _, message in node.states]
            del node.states[:-1], node.diagnostics[:-1]
            assert all(finite(message) for message in heard)
            hidden += any(agent.status == AgentState.HIDDEN for message in heard for agent in message.agents)
            if heard:
                usages.append(node.usage())
                latencies.append(float(node.diagnostic("node").get("latency p99 (ms)") or "nan"))
    finally:
        driver.kill()
    print(f"{length:g} s of stream in {time.monotonic() - begin:.0f} s")
    assert driver.exitcode == 0 and seconds(node.states[-1][1].header.stamp) > START + length - 2.0
    assert hidden > 2 and not node.lines("window reset") and "Traceback" not in node.log
    part = len(usages) // 4
    early, late = usages[part : 2 * part], usages[-part:]  # the first part warms up
    memory = [max(usage.memory for usage in some) for some in (early, late)]
    print(f"memory: {memory[0]:.1f} MiB in the second quarter, {memory[1]:.1f} MiB in the last")
    assert memory[1] < 1.05 * memory[0]
    assert max(usage.threads for usage in late) <= max(usage.threads for usage in early)
    assert max(usage.files for usage in late) <= max(usage.files for usage in early)
    return latencies[part:]
