"""Fixtures of the node's tests; where there is no ROS, those that need it are skipped with the reason."""

from __future__ import annotations

import pytest
from domains import own_domain


@pytest.fixture(scope="session")
def peer():
    """The test's own ROS node, in a domain of its own that is heard on this machine only."""
    pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")
    from node_harness import Peer

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        peer = Peer(own_domain())
        yield peer
        peer.close()


@pytest.fixture
def start(peer, tmp_path):
    """Starts nodes with hold_node.py's estimator: `start(bundle="team", **parameters)`, dots as double underscores."""
    from node_harness import NodeProcess

    running = []

    def start_node(bundle: str = "team", **options):
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(NodeProcess(folder, peer, bundle, **options))
        return running[-1]

    yield start_node
    for process in running:
        process.close()


@pytest.fixture
def play(peer):
    """Starts players, which end with the test: `play(Team, ["r1", "r2"])`."""
    running = []

    def make(player, *arguments, **options):
        running.append(player(peer, *arguments, **options))
        return running[-1]

    yield make
    for player in running:
        player.close()
