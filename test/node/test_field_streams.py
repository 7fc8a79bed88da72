"""Situations from the field that need drivers, bags or clocks of their own, over DDS: rows 1, 2, 6, 7, 11 and 13.

The other rows of the node are in test_field_situations.py and test_node_processes.py; docs/situations.md lists all.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from make_bags import BEGIN, lines, write_bag
from node_harness import SEEN, SimClock, Team, all_seen, seconds, wait_until
from robot_processes import Robots, stream_time
from siha_ros.msg import AgentState

pytestmark = pytest.mark.ros

VELOCITIES = np.array([[1.0, 0.0], [0.0, -2.0], [0.5, 0.5]])


def test_row_1_a_killed_publisher_is_hidden_and_seen_again_once_it_is_back(start, play):
    robots = play(Robots, ["a0", "a1", "a2", "a3"])
    node = start()
    all_seen(node, robots.names)
    robots.kill("a3")
    killed = stream_time()
    wait_until(lambda: node.status("a3") == AgentState.HIDDEN, 30.0, "a3 hidden")
    seen = [stamp_of(m) for _, m in node.states if any(s.name == "a3" and s.status in SEEN for s in m.agents)]
    assert max(seen) <= killed + 0.3  # silence_timeout
    node.forget()
    wait_until(lambda: len(node.states) > 5, 30.0, "output goes on")
    for _, message in node.states:
        assert {s.name for s in message.agents if s.status in SEEN} == {"a0", "a1", "a2"}
    robots.start("a3")
    all_seen(node, robots.names)
    assert not node.lines("window reset")


def test_row_2_a_bag_in_a_loop_resets_once_each_time_it_begins_anew(start, peer, tmp_path):
    path = write_bag(tmp_path / "team", "mcap", lines(3.0, VELOCITIES))
    node = start(input__topic="/{agent}/pose", use_sim_time=True)
    command = [sys.executable, "-m", "siha_ros.demo.bag_player", str(path), "--loop", "--wait-for", "siha"]
    player = subprocess.Popen(command, env=os.environ | {"ROS_DOMAIN_ID": str(peer.domain)})
    try:
        wait_until(lambda: len(runs(node.states)) == 3, 60.0, f"output of a third loop; log:\n{node.log}")
        resets, loops = node.lines("window reset"), runs(node.states)
    finally:
        player.kill()
        player.wait()
    assert len(resets) == 2 and all("time went back by" in line for line in resets)
    for loop in loops:
        # The window of 1 s is full once its newest grid time, 0.1 s behind the newest stamp, is 0.9 s after the begin.
        assert seconds(loop[0].header.stamp) - BEGIN >= 0.9 - 1e-3
        for message in loop:
            since = seconds(message.header.stamp) - BEGIN
            for index, agent in enumerate(message.agents):
                if agent.status == AgentState.VISIBLE:
                    expected = VELOCITIES[index] * since + [0.0, index]
                    assert (agent.pose.position.x, agent.pose.position.y) == pytest.approx(expected, abs=1e-3)
    assert all(agent.status in SEEN for agent in loops[0][-1].agents)


def runs(states) -> list[list]:
    """The messages heard, cut where their stamps go back."""
    messages = [message for _, message in states]
    back = [b for (a, b) in itertools.pairwise(range(len(messages))) if stamp_of(messages[b]) < stamp_of(messages[a])]
    return [messages[a:b] for a, b in itertools.pairwise([0, *back, len(messages)])]


def stamp_of(message) -> float:
    return seconds(message.header.stamp)


def errors(node, positions: dict[str, int]) -> dict[str, np.ndarray]:
    """Distances (m) from the truth of agents that are VISIBLE; positions: whose circle each is on."""
    found = {name: [] for name in positions}
    for _, message in node.states:
        for agent in message.agents:
            if agent.status == AgentState.VISIBLE:
                p, truth = agent.pose.position, Team.position(positions[agent.name], stamp_of(message))
                found[agent.name].append(np.linalg.norm(np.subtract((p.x, p.y, p.z), truth)))
    return {name: np.array(distances) for name, distances in found.items()}


def interpolated(distances: np.ndarray, gap: float) -> bool:
    """Whether these are errors of linear interpolation between samples `gap` s apart, at 1 m/s^2: gap^2 / 8. Where the
    machine was busy and samples were lost, of a larger gap, which max_gap bounds."""
    return len(distances) > 2 and np.median(distances) <= gap**2 / 8 + 1e-6 and distances.max() <= 0.3**2 / 8


@pytest.mark.parametrize("source", ["header", "arrival"])
@pytest.mark.parametrize("clock", [40.0, 120.0])
def test_row_6_data_at_120_hz_under_a_slower_clock(start, play, clock, source):
    """By their own stamps the result is the truth, whatever the clock. On arrival three messages have one stamp, and
    are as old as the machine is slow: everybody is seen all the same."""
    node = start(use_sim_time=True, stamp_source=source)
    play(SimClock, rate=clock)
    robots = play(Team, ["p0", "p1"], rate=120.0)
    all_seen(node, robots.names)
    node.forget()
    wait_until(lambda: len(node.states) > 8, 120.0, "some states")
    assert not node.lines("window reset")
    seen = [agent.status in SEEN for _, message in node.states for agent in message.agents]
    assert np.mean(seen) > 0.8  # all, on a machine that is not busy
    for distances in errors(node, {name: index for index, name in enumerate(robots.names)}).values():
        assert source == "arrival" or interpolated(distances, 1 / 120)


def test_row_7_rates_of_50_to_240_hz_give_the_same_motion(start, play):
    rates = {"r50": 50.0, "r100": 100.0, "r120": 120.0, "r240": 240.0}
    for name, rate in rates.items():
        play(Team, [name], rate=rate)
    node = start()
    all_seen(node, list(rates))
    node.forget()
    wait_until(lambda: len(node.states) > 8, 120.0, "some states")
    for name, distances in errors(node, dict.fromkeys(rates, 0)).items():
        assert interpolated(distances, 1 / rates[name]), (name, distances)


def test_row_13_another_frame_is_dropped_counted_and_said_once(start, play):
    robots = play(Team, ["q0", "q1", "q2", "q3"])

    def edit(name, message):
        message.header.frame_id = "camera" if name == "q3" else "map"
        return message

    robots.edit = edit
    node = start(frame_id="map")
    all_seen(node, ["q0", "q1", "q2"])
    wait_until(
        lambda: int(node.diagnostic("node").get("dropped, other frame", 0)) > 50, 30.0, "drops in the diagnostics"
    )
    assert len(node.lines("its frame is 'camera', expected 'map'")) == 1
    assert all(message.header.frame_id == "map" for _, message in node.states)
    robots.edit = lambda name, message: setattr(message.header, "frame_id", "map") or message
    all_seen(node, robots.names)


def test_row_13_data_with_y_up_comes_out_with_z_up(start, play):
    robots = play(Team, ["u0", "u1", "u2"])

    def edit(name, message):
        p = message.pose.position
        p.x, p.y, p.z = p.x, p.z, -p.y
        return message

    robots.edit = edit
    node = start(input__up_axis="y")
    all_seen(node, robots.names)
    message = node.states[-1][1]
    for index, agent in enumerate(sorted(message.agents, key=lambda agent: agent.name)):
        p = agent.pose.position
        assert (p.x, p.y, p.z) == pytest.approx(Team.position(index, stamp_of(message)), abs=2e-3)


def test_row_11_names_that_change_places_are_gated_and_flagged(start, play):
    robots, apart = play(Team, ["s0", "s1", "s2"]), 0.75
    begin = end = np.inf

    def edit(name, message):
        p, moment = message.pose.position, seconds(message.header.stamp)
        places = {"s0": 0.0, "s1": apart, "s2": 3.0}
        if begin < moment < end:
            places["s0"], places["s1"] = places["s1"], places["s0"]
        p.x, p.y, p.z = Team.position(0, moment)
        p.x += places[name]
        return message

    def heard(since: float, until: float) -> list[tuple[int, str, float]]:
        """Status and reason of s0, and its place, 0 for its own and 0.75 for that of s1."""
        wait_until(
            lambda: node.states and stamp_of(node.states[-1][1]) > until,
            90.0,
            f"states until {until}; log:\n{node.log}",
        )
        messages = [message for _, message in node.states if since < stamp_of(message) <= until]
        agents = [({agent.name: agent for agent in m.agents}["s0"], Team.position(0, stamp_of(m))[0]) for m in messages]
        return [(agent.status, agent.reason, agent.pose.position.x - x) for agent, x in agents]

    robots.edit = edit
    node = start()
    all_seen(node, robots.names)
    begin = robots.now + 0.03
    end = begin + 0.02  # one message
    states = heard(begin - 0.5, begin + 0.5)
    assert all(status in SEEN and abs(place) < 0.1 for status, _, place in states)
    assert len(node.lines("s0 took the place of s1 in one step")) == 1
    begin, end = robots.now + 0.03, np.inf  # for good
    states = heard(begin - 0.5, begin + 1.0)
    first, last = (edge([status == AgentState.HIDDEN for status, _, _ in states], which) for which in (0, -1))
    assert all(status in SEEN and abs(place) < 0.3 for status, _, place in states[:first])
    assert all("jumped to the place of another agent" in reason for _, reason, _ in states[first : last + 1])
    assert states[last + 1 :] and all(
        status in SEEN and abs(place - apart) < 0.01 for status, _, place in states[last + 1 :]
    )
    assert len(node.lines("s0 took the place of s1")) == 1 and not node.lines("window reset")


def edge(truths: list[bool], which: int) -> int:
    """Index of the first (0) or last (-1) that is true."""
    return [index for index, truth in enumerate(truths) if truth][which]
