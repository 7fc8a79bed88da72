"""The node's life and its parameters, each test with a node of its own: field situations 4, 5, 12, 15 to 22."""

from __future__ import annotations

import shutil
import signal
import time

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2 (rclpy)")

from geometry_msgs.msg import PoseArray, PoseStamped, PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from node_harness import SEEN, Body, Player, SimClock, Team, all_seen, finite, seconds, stamp, wait_until
from rclpy.qos import QoSProfile, ReliabilityPolicy
from siha_ros.msg import AgentState, SkeletonFrame

pytestmark = pytest.mark.ros

JOINTS = [f"j{index}" for index in range(31)]


def test_row_5_stamps_on_arrival_by_parameter(start, play):
    robots = play(Team, ["c0", "c1", "c2"])
    robots.edit = lambda name, message: setattr(message.header, "stamp", stamp(0.0)) or message
    node = start(stamp_source="arrival")
    all_seen(node, robots.names)
    assert seconds(node.states[-1][1].header.stamp) == pytest.approx(time.time(), abs=1.0)


def test_row_12_unknown_missing_and_doubled_joints(start, play):
    body = play(Body, [*JOINTS[:30], "thumb", "j0"])
    node = start("body")
    wait_until(lambda: node.states, 30.0, f"states; log:\n{node.log}")
    time.sleep(0.5)
    states = node.latest()
    assert list(states) == JOINTS
    assert states["j0"].status in SEEN
    never = states["j30"]
    assert never.status == AgentState.HIDDEN and "never seen" in never.reason and never.time_since_seen == -1.0
    assert states["j0"].pose.position.y == pytest.approx(
        0.0, abs=1e-6
    )  # the first of the two, at 0 m; the second stands at 3.1 m
    assert len(node.lines("thumb")) <= 2 and node.lines("j30") and node.state() == "active"
    assert len(node.lines("name twice")) == 1
    body.close()


def test_row_15_best_effort_and_reliable_publishers_are_heard_and_an_incompatible_one_is_named(start, play):
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    robots = play(Team, ["g0", "g1", "g2"], qos={"g0": best_effort, "g1": QoSProfile(depth=10)})
    node = start(qos_overrides={"/g0/pose": {"subscription": {"reliability": "best_effort"}}})
    all_seen(node, robots.names)
    strict = start(qos_overrides={"/g0/pose": {"subscription": {"reliability": "reliable"}}}, wait=False)
    wait_until(lambda: strict.lines("/g0/pose"), 30.0, "the incompatible topic is named")
    assert "RELIABILITY" in strict.lines("/g0/pose")[0]


def test_row_16_parameters(start):
    node = start(rate=500.0, autostart=False)
    assert node.change("configure") is False
    (line,) = node.lines("parameter rate")
    assert "parameter rate is 500.0: expected a number from 0.1 to 200" in line
    assert node.set("rate", 50).successful  # a whole number for a float
    refused = node.set("rate", 0.0)
    assert not refused.successful and "rate" in refused.reason and "0.1" in refused.reason
    assert not node.set("autostart", True).successful  # read-only
    described = node.describe("rate", "input.depth", "autostart")
    assert [d.read_only for d in described] == [False, False, True] and all(d.description for d in described)
    assert (described[0].floating_point_range[0].from_value, described[0].floating_point_range[0].to_value) == (
        0.1,
        200.0,
    )
    assert (described[1].integer_range[0].from_value, described[1].integer_range[0].to_value) == (1, 10000)
    assert node.change("configure") is True
    late = node.set("bundle", "body")
    assert not late.successful and "takes effect at configure" in late.reason
    wrong = start(autostart="true", wait=False)
    wait_until(
        lambda: wrong.lines("parameter autostart is 'true': expected true or false"), 30.0, "the wrong type is said"
    )
    assert wrong.state() == "unconfigured" and "Traceback" not in wrong.log + node.log


@pytest.fixture
def real_bundle(repository, tmp_path):
    """A copy, to be damaged, of the bundle that ships for teams."""
    pytest.importorskip("torch", reason="needs torch")
    shutil.copytree(repository / "bundles" / "springs_team", tmp_path / "copy")
    return tmp_path / "copy"


def test_row_17_18_device_and_bundle_faults_are_one_line_and_configure_can_be_tried_again(start, real_bundle):
    node = start(command=("-m", "siha_ros.node"), autostart=False)
    text, noise = (real_bundle / "bundle.yaml").read_text(), (real_bundle / "nri.safetensors").read_bytes()

    def fails(*parts: str) -> None:
        node.forget()
        assert node.change("configure") is False and node.state() == "unconfigured"
        (line,) = node.lines("[ERROR]")
        assert "configure failed: " in line and all(part in line for part in parts), line
        assert "Traceback" not in node.log
        wait_until(lambda: node.diagnostic("node").get("level") == "2", 30.0, "an ERROR in the diagnostics")

    node.set("bundle", str(real_bundle / "nowhere"))
    fails("nowhere")
    node.set("bundle", str(real_bundle))
    node.set("device", "cuda:99")
    fails("cuda")
    node.set("device", "auto")
    (real_bundle / "nri.safetensors").write_bytes(noise[: len(noise) // 2])
    fails("nri.safetensors")
    (real_bundle / "nri.safetensors").write_bytes(noise)
    (real_bundle / "bundle.yaml").write_text(text.replace("format: 1", "format: 99"))
    fails("bundle.yaml", "format 99")
    changed = text.replace("agent_names: []", "agent_names: [left, right]")
    (real_bundle / "bundle.yaml").write_text(changed)
    fails("bundle.yaml", "changed by hand", "SHA-256")
    (real_bundle / "bundle.yaml").write_text(changed.partition("\n")[2])
    fails("bundle.yaml", "agent_names")
    (real_bundle / "bundle.yaml").write_text(text)
    node.forget()
    assert node.change("configure") is True and not node.lines("[ERROR]")
    device = wait_until(lambda: node.diagnostic("node").get("device"), 30.0, "the device in the diagnostics")
    assert device.startswith("cuda") or (device == "cpu" and node.lines("device auto: no GPU was found"))
    wait_until(lambda: node.diagnostic("node").get("level") in ("0", "1"), 30.0, "the error is gone")


def test_input_that_the_bundle_was_not_made_for_is_a_warning_also_while_all_are_seen(start, play, real_bundle):
    play(Team, ["s0", "s1", "s2", "s3", "s4"])
    node = start(command=("-m", "siha_ros.node"), autostart=False)
    node.set("bundle", str(real_bundle))
    assert node.change("configure") and node.change("activate")
    line = "extrapolated: 5 agents, the bundle knows 7"
    wait_until(lambda: line in node.diagnostic("model").get("message", ""), 30.0, f"a warning; log:\n{node.log}")
    assert node.diagnostic("model")["level"] == "1" and node.diagnostic("agents")["message"] == "all 5 seen"
    assert all(state.status in SEEN and line in state.reason for state in node.latest().values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_row_20_signals_while_busy(start, play, number):
    play(Team, ["h0", "h1", "h2"])
    node = start("slow_team")
    wait_until(lambda: node.states, 30.0, "estimates under way")
    code, taken = node.stop(number)
    assert code == 0 and taken < 2.0 and "Traceback" not in node.log, node.log


def test_row_20_signal_during_an_estimate_that_does_not_end(start, play):
    play(Team, ["h0", "h1", "h2"])
    node = start("stuck_team")
    wait_until(lambda: node.lines("stuck"), 30.0, "an estimate under way")
    code, taken = node.stop(signal.SIGINT)
    assert code == 0 and taken < 2.0 and "Traceback" not in node.log, node.log


def test_row_20_signal_while_loading(start):
    node = start("slow_loading_team", wait=False)
    wait_until(lambda: node.lines("loading"), 30.0, "configure under way")
    code, taken = node.stop(signal.SIGTERM)  # not after the 10 s that it loads
    assert code == 0 and taken < 2.0 and "Traceback" not in node.log, node.log


def test_row_21_deactivated_node_hears_and_says_nothing_and_starts_clean(start, play, peer):
    robots = play(Team, ["i0", "i1", "i2"])
    node = start()
    all_seen(node, robots.names)
    assert node.change("deactivate")
    wait_until(lambda: peer.node.count_subscribers("/i0/pose") == 0, 30.0, "the subscriptions are gone")
    time.sleep(0.2)
    node.forget()
    time.sleep(0.5)
    assert not node.states
    wait_until(lambda: node.diagnostic("node").get("state") == "inactive", 30.0, "inactive in the diagnostics")
    assert not node.reset().success
    since = robots.now
    assert node.change("activate")
    wait_until(lambda: node.states, 30.0, "output after activation")
    assert (
        seconds(node.states[0][1].header.stamp) >= since + 0.9
    )  # a whole window of 1 s that was heard after activation
    all_seen(node, robots.names)
    assert node.change("deactivate") and node.change("cleanup") and node.change("configure") and node.change("activate")
    all_seen(node, robots.names)


def test_row_22_body_at_120_hz_with_a_slow_model_keeps_up(start, play):
    body = play(Body, JOINTS)
    node = start("slow_body")
    heard = node.listen("skeleton", SkeletonFrame)
    wait_until(lambda: len(heard) > 2, 30.0, "skeletons")
    body.lost = {"j7"}
    wait_until(lambda: not heard[-1][1].tracked[7], 30.0, "j7 not tracked")
    before, sent, goal = int(node.diagnostic("node")["messages received"]), body.sent, body.now + 4.0
    # An estimate takes 0.3 s: one for each of these 480 frames would take 144.
    wait_until(lambda: seconds(heard[-1][1].header.stamp) > goal, 60.0, "the skeleton of 4 s later")
    expected = 0.9 * (body.sent - sent)

    def received() -> int:
        return int(node.diagnostic("node")["messages received"]) - before

    wait_until(lambda: received() > expected, 30.0, f"{expected:.0f} messages more in the diagnostics")
    values = node.diagnostic("node")
    assert "dropped, inbox full" not in values
    skeleton = heard[-1][1]
    assert skeleton.group == "ann" and skeleton.joints == JOINTS and finite(skeleton)
    assert [joint for joint, seen in zip(JOINTS, skeleton.tracked, strict=True) if not seen] == ["j7"]


def test_exception_in_the_model_is_one_line_and_the_node_goes_on(start, play):
    robots = play(Team, ["k0", "k1", "k2"])
    node = start("broken_team")
    all_seen(node, robots.names)
    wait_until(
        lambda: "broken on purpose" in node.diagnostic("node").get("message", ""), 30.0, "the error in the diagnostics"
    )
    count = len(node.states)
    wait_until(lambda: len(node.states) > count + 8, 30.0, "estimates all the while")
    assert len(node.lines("broken on purpose")) == 1 and "RuntimeError" in node.log and "Traceback" not in node.log


@pytest.mark.parametrize("agent", ["robot-1", "1"])
def test_agent_name_that_is_no_part_of_a_topic_fails_configure(start, agent):
    node = start(input__agents=[agent], autostart=False)
    assert node.change("configure") is False and node.state() == "unconfigured"
    (line,) = node.lines("[ERROR]")
    assert f"configure failed: parameter input.agents has '{agent}': expected a part of the topic" in line
    assert node.set("input.agents", ["robot_1"]).successful
    assert node.change("configure") and node.change("activate")
    time.sleep(1.0)  # two looks for the input
    assert node.state() == "active" and "Traceback" not in node.log


def test_input_that_cannot_be_read_is_said_and_the_node_lives_on(start, play):
    node = start("poor_team")
    robots = play(Team, ["u0", "u1"], kind=Odometry)
    wait_until(lambda: "nav_msgs" in node.diagnostic("node").get("message", ""), 30.0, "an error in the diagnostics")
    time.sleep(1.0)
    assert node.state() == "active" and node.diagnostic("node")["level"] == "2"
    assert len(node.lines("the input cannot be read: messages of type nav_msgs/msg/Odometry need")) == 1
    robots.close()
    assert node.change("deactivate") and node.change("activate")
    wait_until(lambda: "nav_msgs" not in node.diagnostic("node").get("message", "nav_msgs"), 30.0, "the error is over")


def test_stream_slower_than_the_bundle_expects_is_said(start, play):
    robots = play(Team, ["q0", "q1", "q2"], rate=5.0)
    node = start()
    line = "the stream comes at 5 Hz, the bundle was made for 10 to 1000 Hz"
    wait_until(lambda: line in node.diagnostic("model").get("message", ""), 30.0, "a warning")
    assert node.diagnostic("model")["level"] == "1"
    robots.close()
    faster = play(Team, robots.names, rate=20.0)
    faster.now = robots.now
    wait_until(lambda: node.diagnostic("model")["level"] == "0", 30.0, "the warning is over")
    assert float(node.diagnostic("model")["rate of the stream (Hz)"]) == pytest.approx(20.0, rel=0.05)


def test_row_4_sim_time_without_a_clock(start, play):
    node = start(use_sim_time=True, stamp_source="arrival")
    play(Team, ["l0", "l1", "l2"])
    wait_until(lambda: node.lines("/clock"), 30.0, "a warning")
    wait_until(lambda: "/clock" in node.diagnostic("node").get("message", ""), 30.0, "a diagnostic")
    assert not node.states
    assert all(array.header.stamp.sec > 0 for _, array in node.diagnostics)


def test_row_14_wall_clock_stamps_among_sim_time_are_one_error(start, play):
    play(SimClock)
    robots = play(Team, ["v0", "v1", "v2", "v3"])

    def edit(name, message):
        if name == "v3":
            message.header.stamp = stamp(time.time())
        return message

    robots.edit = edit
    node = start(use_sim_time=True)
    wait_until(
        lambda: "stamps of v3" in node.diagnostic("node").get("message", ""), 30.0, f"an error; log:\n{node.log}"
    )
    assert node.diagnostic("node")["level"] == "2" and "is wall time mixed with sim time?" in node.log
    offset = float(node.diagnostic("agents")["clock offset of v3 (s)"])
    assert offset == pytest.approx(time.time() - robots.now, abs=60.0)
    all_seen(node, robots.names[:3])  # the others go on
    time.sleep(2.0)
    assert len(node.lines("stamps of v3")) == 1
    robots.edit = lambda name, message: message
    wait_until(lambda: node.diagnostic("node")["level"] == "0", 30.0, "the error is over")


def test_troubles_of_topics_end_with_what_they_came_from(start, play, peer):
    robots = play(Team, ["w0", "w1", "w2", "w3"], qos={"w3": QoSProfile(depth=1)})
    node = start(qos_overrides={"/w3/pose": {"subscription": {"reliability": "reliable"}}})
    all_seen(node, robots.names)

    def trouble(kind, topic, line, qos=10):
        """A publisher on a topic is said once, and over when it is gone."""
        publisher = peer.node.create_publisher(kind, topic, qos)
        wait_until(lambda: line in node.diagnostic("node").get("message", ""), 30.0, line)
        time.sleep(1.2)
        assert len(node.lines(line)) == 1 and node.diagnostic("node")["level"] == "1"
        peer.run(lambda: peer.node.destroy_publisher(publisher))
        wait_until(lambda: node.diagnostic("node")["level"] == "0", 30.0, f"no longer: {line}")
        assert node.diagnostic("node")["message"] == "active" and len(node.lines(line)) == 1

    trouble(PoseStamped, "/w0/pose", "2 publishers on /w0/pose: expected one per agent")
    trouble(Odometry, "/w4/pose", "/w4/pose is not read: it is of type nav_msgs/msg/Odometry")
    robots.peer.run(lambda: peer.node.destroy_publisher(robots.publishers.pop("w3")))
    robots.silent = {"w3"}
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    trouble(PoseStamped, "/w3/pose", "a publisher of /w3/pose is not heard: its QoS policy RELIABILITY", best_effort)


class Array(Player):
    """A PoseArray of three agents on circles."""

    def __init__(self, peer) -> None:
        self.publisher = peer.node.create_publisher(PoseArray, "/poses", 10)
        super().__init__(peer, 50.0)

    def publish(self, moment: float) -> None:
        message = PoseArray()
        message.header.stamp, message.header.frame_id = stamp(moment), "world"
        for index in range(3):
            pose = PoseStamped().pose
            pose.position.x, pose.position.y, pose.position.z = Team.position(index, moment)
            message.poses.append(pose)
        self.publisher.publish(message)

    def close(self) -> None:
        super().close()
        self.peer.run(lambda: self.peer.node.destroy_publisher(self.publisher))


@pytest.mark.parametrize("kind", [PoseWithCovarianceStamped, Odometry, PoseArray])
def test_types_are_asked_from_the_graph_and_positions_arrive(start, play, kind):
    if kind is PoseArray:
        play(Array)
        node = start(input__topic="/poses", input__agents=["m0", "m1", "m2"])
    else:
        play(Team, ["m0", "m1", "m2"], kind=kind)
        node = start()
    all_seen(node, ["m0", "m1", "m2"])
    message = node.states[-1][1]
    for index, state in enumerate(sorted(message.agents, key=lambda state: state.name)):
        expected = Team.position(index, seconds(message.header.stamp))
        assert (state.pose.position.x, state.pose.position.y, state.pose.position.z) == pytest.approx(
            expected, abs=2e-3
        )


def test_nodes_in_namespaces_hear_their_own_team_by_default(start, play):
    node = start(input__topic="")
    elsewhere = play(Team, ["o0", "o1", "o2"])
    robots = play(Team, [f"{node.namespace[1:]}/p{index}" for index in range(3)])
    all_seen(node, ["p0", "p1", "p2"])
    assert elsewhere.sent > 50 and node.diagnostic("node")["input"] == f"{node.namespace}/{{agent}}/pose"
    robots.close()


def test_agents_that_would_share_a_topic_are_told_apart_and_it_is_said_once(start, play):
    play(Array)
    node = start(input__topic="/poses", input__agents=["x-1", "x_1", "x2"])
    first, second = (node.listen(f"recovered/{token}/pose", PoseWithCovarianceStamped) for token in ("x_1", "x_1_2"))
    wait_until(lambda: len(first) > 5 and len(second) > 5, 30.0, "both are published")
    assert first[-1][1].pose.pose.position.z == 1.0 and second[-1][1].pose.pose.position.z == 0.0  # x_1, x-1
    assert len(node.lines("agent 'x-1' is on ~/recovered/x_1_2/pose: another has ~/recovered/x_1/pose")) == 1


def test_listed_agents_are_there_before_they_are_seen(start, play):
    play(Team, ["n0", "n1", "n2"])
    node = start(input__agents=["n0", "n1", "n2", "n3"], input__type="geometry_msgs/msg/PoseStamped")
    recovered = node.listen("recovered/n1/pose", PoseWithCovarianceStamped)
    wait_until(lambda: node.states, 30.0, "states")
    assert list(node.latest()) == ["n0", "n1", "n2", "n3"]
    assert node.status("n3") not in SEEN and node.latest()["n3"].time_since_seen == -1.0
    _, message = wait_until(lambda: recovered[-1:], 30.0, "recovered pose")[0]
    moment = seconds(message.header.stamp)
    p = message.pose.pose.position
    assert (p.x, p.y, p.z) == pytest.approx(Team.position(1, moment), abs=2e-3)
