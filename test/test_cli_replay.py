"""`siha replay` from bag to bag and from bag to report; what it cannot do is one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from make_bags import BEGIN, FORMATS, lines, team, write_bag
from small_team import save_small_team

from siha_ros.cli import main
from siha_ros.cli_replay import file_parameters, hidden_sets
from siha_ros.node.parameters import ParameterError
from siha_ros.replay.bag import Bag
from siha_ros.resources import config_path

RATE = "4"
OUTPUTS = {
    "states": "siha_ros/msg/ReconstructedStates",
    "trajectories": "siha_ros/msg/HiddenTrajectories",
    "graph": "siha_ros/msg/InteractionGraph",
    "forecast": "siha_ros/msg/Forecast",
    "markers": "visualization_msgs/msg/MarkerArray",
    "recovered/robot_1/pose": "geometry_msgs/msg/PoseWithCovarianceStamped",
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return str(save_small_team(tmp_path_factory.mktemp("bundle") / "small_team"))


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """Five robots of the springs team for 4 s; robot_2 is silent from 2 s to 3 s."""
    messages = team(4.0, agents=5, silent={"robot_2": (2.0, 3.0)})
    return write_bag(tmp_path_factory.mktemp("bag") / "team", "mcap", messages)


def replay(*arguments):
    return main(["replay", *map(str, arguments), "--threads", "1"])


def failed(capsys, *arguments):
    """The one line of a command that cannot be run."""
    assert replay(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1 and output.err.startswith("siha: ")
    return output.err


def read(path):
    """(time, message) by topic."""
    found: dict[str, list] = {}
    with Bag(path) as opened:
        for entry in opened.messages():
            found.setdefault(entry.topic, []).append((entry.time - BEGIN, opened.read(entry)))
        return opened.types, found


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_the_outputs_stand_beside_the_inputs(bag, bundle, storage, tmp_path, capsys):
    out = tmp_path / "out"
    assert replay(bag, "--bundle", bundle, "--out", out, "--rate", RATE, "--storage", storage) == 0
    said = capsys.readouterr().out
    assert "950 messages on 5 topics in 4.0 s" in said and "times real time" in said and f"wrote {out}" in said
    types, found = read(out)
    assert {topic: [kind] for topic, kind in OUTPUTS.items()}.items() <= {
        topic.removeprefix("/siha/"): kinds for topic, kinds in types.items()
    }.items()
    before, after = read(bag)[1], {topic: rows for topic, rows in found.items() if not topic.startswith("/siha/")}
    assert {topic: len(rows) for topic, rows in before.items()} == {topic: len(rows) for topic, rows in after.items()}
    states = found["/siha/states"]
    assert [time for time, _ in states] == pytest.approx(np.arange(1.0, 4.0, 0.25), abs=1e-6)
    lost = {round(time, 2): message for time, message in states}[2.75].agents[1]
    assert (lost.name, lost.status) == ("robot_2", 3) and lost.reason.startswith("silent for 0.76 s")
    seen = states[0][1].agents[0]
    stamp = states[0][1].header.stamp
    time = stamp.sec + 1e-9 * stamp.nanosec - BEGIN
    poses = [message.pose.position for moment, message in found["/robot_1/pose"] if abs(moment - time) < 1e-4]
    assert (seen.pose.position.x, seen.pose.position.y) == pytest.approx((poses[0].x, poses[0].y), abs=1e-5)
    assert seen.pose.orientation.w == pytest.approx(1.0)


def test_same_bag_same_bytes(bag, bundle, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        assert replay(bag, "--bundle", bundle, "--out", tmp_path / folder / "out", "--rate", RATE) == 0
    one, two = (sorted((tmp_path / folder / "out").iterdir()) for folder in ("one", "two"))
    assert [file.name for file in one] == [file.name for file in two] == ["metadata.yaml", "out.mcap"]
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]


def test_outputs_of_an_earlier_replay_are_not_kept(bag, bundle, tmp_path):
    first, second = tmp_path / "a" / "out", tmp_path / "b" / "out"
    first.parent.mkdir()
    second.parent.mkdir()
    assert replay(bag, "--bundle", bundle, "--out", first, "--rate", RATE) == 0
    assert replay(first, "--bundle", bundle, "--out", second, "--rate", RATE) == 0
    assert {topic: len(rows) for topic, rows in read(first)[1].items()} == {
        topic: len(rows) for topic, rows in read(second)[1].items()
    }


@pytest.mark.parametrize("form", FORMATS)
def test_a_scored_replay_of_every_format(bundle, form, tmp_path, capsys):
    straight = lines(3.2, np.array([[0.0, 0.1], [0.3, 0.0], [0.0, 0.0], [0.1, 0.1], [0.0, -0.1]]))
    path = write_bag(tmp_path / "lines", form, straight)
    files = {"--json": tmp_path / "report.json", "--html": tmp_path / "report.html"}
    options = ["--hide", "r1", "--at", "2s", "--for", "500ms", "--sweep", "--rate", "10"]
    given = [text for pair in files.items() for text in pair]
    assert replay(path, "--bundle", bundle, *options, *given) == 0
    assert "Error in cm, root mean square (median), by seconds since the agent was last seen" in capsys.readouterr().out
    result = json.loads(files["--json"].read_text())
    assert (result["losses"], result["for_s"], result["at_s"], result["hidden"]) == (2, 0.5, 2.0, [["r1"]])
    assert set(result["methods"]) == {"siha", "hold", "constant_velocity", "mean_visible", "interpolation"}
    methods = {method: bins["all"] for method, bins in result["methods"].items()}
    assert methods["constant_velocity"]["rmse_cm"] < 0.1 and methods["interpolation"]["rmse_cm"] < 0.1
    held = methods["hold"]["rmse_cm"]
    assert 0.5 * 30 * 0.3 < held < 30 * 0.5  # 0.3 m/s for up to half a second, the first 0.2 s of it bridged
    assert files["--html"].read_text().startswith("<!DOCTYPE html>")


def test_one_loss_is_written_beside_its_truth(bundle, tmp_path, capsys):
    velocities = np.array([[0.0, 0.1], [0.3, 0.0], [0.0, 0.0], [0.1, 0.1], [0.0, -0.1]])
    path = write_bag(tmp_path / "lines", "mcap", lines(3.2, velocities))
    out = tmp_path / "out"
    options = ["--hide", "r1", "--at", "2s", "--for", "1s", "--rate", "10"]
    assert replay(path, "--bundle", bundle, *options, "--out", out) == 0
    assert f"wrote {out}" in capsys.readouterr().out
    found = read(out)[1]
    assert len(found["/r1/pose"]) == 160, "what was withheld from the window is in the bag"
    states = [message for time, message in found["/siha/states"] if 2.65 < time < 2.95]
    assert [[agent.status for agent in message.agents] for message in states] == [[1, 3, 1, 1, 1]] * 3
    truths = [message for time, message in found["/truth"] if 2.65 < time < 2.95]
    for state, truth in zip(states, truths, strict=True):
        assert (truth.header.stamp, list(truth.joints)) == (state.header.stamp, [f"r{k}" for k in range(5)])
        moment = truth.header.stamp.sec + 1e-9 * truth.header.stamp.nanosec - BEGIN
        there = np.concatenate([velocities * moment + np.array([[0, k] for k in range(5)]), np.zeros((5, 1))], axis=1)
        np.testing.assert_allclose(truth.positions.reshape(5, 3), there, atol=1e-6)


def test_what_cannot_be_replayed_is_one_line(bag, bundle, tmp_path, capsys):
    assert "no such file or folder" in failed(capsys, tmp_path / "absent", "--bundle", bundle)
    assert "no bundle 'absent'" in failed(capsys, bag, "--bundle", "absent")
    assert "no input on /skeleton" in failed(capsys, bag, "--bundle", bundle, "--topics", "/skeleton")
    assert "exists already" in failed(capsys, bag, "--bundle", bundle, "--out", bag)
    assert "go with --hide" in failed(capsys, bag, "--bundle", bundle, "--sweep")
    for several in (["--hide", "each"], ["--hide", "robot_1", "--sweep"]):
        assert "--out holds one loss" in failed(capsys, bag, "--bundle", bundle, *several, "--out", tmp_path / "out")
    assert "does not hold robot_9" in failed(capsys, bag, "--bundle", bundle, "--hide", "robot_1,robot_9")
    line = failed(capsys, bag, "--bundle", bundle, "--hide", "robot_1", "--at", "3.5s")
    assert "--at 3.5 s --for 1 s: the bag is 4.0 s long" in line
    line = failed(capsys, bag, "--bundle", bundle, "--hide", "robot_1", "--at", "0", "--for", "0.5s")
    assert "no estimate was made while an agent was hidden" in line
    with pytest.raises(SystemExit, match="2"):
        failed(capsys, bag, "--bundle", bundle, "--hide", "robot_1", "--html", "/no/where/r.html")
    assert "argument --html: /no/where/r.html: the folder /no/where does not exist" in capsys.readouterr().err


def test_limbs_stand_for_their_joints():
    limbs, known = {"arm": ["elbow", "hand"], "leg": ["knee"]}, ["elbow", "hand", "head", "knee"]
    assert hidden_sets("arm", known, limbs) == [["elbow", "hand"]]
    assert hidden_sets("head, arm,hand", known, limbs) == [["head", "elbow", "hand"]]
    assert hidden_sets("each", known, limbs) == [["elbow", "hand"], ["knee"]]
    assert hidden_sets("each", ["a", "b"], {}) == [["a"], ["b"]]
    with pytest.raises(ValueError, match="--hide tail: the bag does not hold tail; expected of each, arm, leg, elbow"):
        hidden_sets("tail", known, limbs)


def test_a_parameter_file_of_the_node(tmp_path):
    values = file_parameters(config_path("siha.yaml"))
    assert values["visibility.silence_timeout"] == 0.3 and values["rate"] == 20.0
    file = tmp_path / "mine.yaml"
    file.write_text("siha:\n  ros__parameters:\n    use_sim_time: true\n    window: {max_gap: 0.5}\n")
    assert file_parameters(file) == {"window.max_gap": 0.5}
    file.write_text("siha:\n  ros__parameters:\n    window: {gap: 0.5}\n")
    with pytest.raises(ParameterError, match="no parameter window.gap"):
        file_parameters(file)
    for absurd in ("just a text", "siha: {ros__parameters: [1]}", "1: {a: 2}"):
        file.write_text(absurd)
        with pytest.raises(ParameterError, match="mine.yaml: expected parameters of the node"):
            file_parameters(file)
    for broken in ("[" * 1500, "2020-13-45: {}", "siha: ["):
        file.write_text(broken)
        with pytest.raises(ParameterError, match="mine.yaml is not YAML: "):
            file_parameters(file)


def test_all_groups_of_a_bag_are_written_and_one_is_scored(bundle, tmp_path, capsys):
    def teams(new):
        red, blue = (team(4.0, agents=5, seed=seed)(new) for seed in (1, 2))
        for (topic, *rest), (_, _, _, message) in zip(red, blue, strict=True):
            yield f"/red{topic}", *rest
            yield f"/blue{topic}", *rest[:-1], message

    path = write_bag(tmp_path / "teams", "mcap", teams)
    arguments = (path, "--bundle", bundle, "--rate", RATE, "--topics", "/{group}/{agent}/pose")
    assert replay(*arguments, "--out", tmp_path / "out") == 0
    assert "2000 messages on 10 topics" in capsys.readouterr().out
    types, found = read(tmp_path / "out")
    assert {f"/siha/recovered/{group}/robot_1/pose" for group in ("red", "blue")} <= set(types)
    states = {group: [s for _, s in found["/siha/states"] if s.group == group] for group in ("red", "blue")}
    assert len(states["red"]) == len(states["blue"]) > 10
    drawn = [marker.id // 100_000 for _, array in found["/siha/markers"] for marker in array.markers]
    assert set(drawn) == {0, 1}  # each group draws under numbers of its own
    report = tmp_path / "report.json"
    hide = ("--hide", "robot_2", "--at", "2s", "--for", "500ms", "--json", report)
    assert replay(*arguments, *hide, "--group", "blue") == 0
    blue = json.loads(report.read_text())["methods"]["hold"]
    assert replay(*arguments, *hide) == 0
    assert json.loads(report.read_text())["methods"]["hold"] != blue  # red: it comes first
