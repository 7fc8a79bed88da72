"""Several teams or bodies in one stream, each with a window of its own; they come and go."""

from __future__ import annotations

import math

import numpy as np
from driver_messages import header, new, point, pose
from plain_estimator import PlainEstimator

from siha_ros.node.groups import Groups
from siha_ros.node.inputs import make_input
from siha_ros.node.intake import Intake
from siha_ros.node.parameters import Parameters
from siha_ros.window import SlidingWindow, Status

BODY = {"dims": 3, "identified": True, "agent_names": ["nose", "left_eye", "right_eye"]}


class Run:
    """A stream through the node's own way, its clock (s) and its messages in the test's hands.

    Attributes: scenes, by group, all that were published; said; forgotten, by name; errors.
    """

    def __init__(self, kind: str, names: list[str], estimator=None, **parameters) -> None:
        self.estimator = estimator or PlainEstimator(**(BODY | {"agent_names": names} if names else {}))
        self.clock, self.said, self.scenes, self.forgotten, self.errors = 100.0, [], {}, [], []
        config, checked = self.estimator.bundle.config, Parameters.checked(parameters)

        def open_window():
            return SlidingWindow(config.dt, config.window, config.dims, names or None)

        self.intake = Intake(open_window, checked, "body" if names else "team", self.said.append)
        self.intake.source = make_input(kind)
        self.groups = Groups(
            self.intake,
            self.estimator,
            lambda feed: Kept(self.scenes.setdefault(feed.name, [])),
            checked.groups_forget_after,
            self.said.append,
            self.errors.append,
            lambda feed: self.forgotten.append(feed.name),
            clock=lambda: self.clock,
            new=new,
        )

    def go(self, seconds: float, messages, rate: float = 50.0) -> None:
        """`messages(clock)` gives (message, agent, group) of each stamp."""
        for _ in range(round(seconds * rate)):
            self.clock += 1 / rate
            for message, agent, group in messages(self.clock):
                self.intake.push(message, agent, self.clock, self.clock, group=group)
            self.groups.step()

    def status(self, group: str, name: str) -> Status:
        """The newest status of an agent."""
        window = self.scenes[group][-1].window
        return Status(int(window.status[window.names.index(name)]))


class Kept:
    def __init__(self, scenes: list) -> None:
        self.publish = scenes.append

    def clear_markers(self) -> None:
        pass


def people(clock: float, *ids: str, without: str = ""):
    """yolo_msgs/DetectionArray: person k is at x = 10 k, moving along y; the nose of `without` is lost."""
    found = []
    for person in ids:
        data = [
            new("yolo_msgs/msg/KeyPoint3D", id=part + 1, point=point(10.0 * int(person), clock + part, 1.0), score=0.9)
            for part in range(3)
            if not (part == 0 and person == without)
        ]
        keypoints = new("yolo_msgs/msg/KeyPoint3DArray", data=data, frame_id="camera")
        found.append(new("yolo_msgs/msg/Detection", id=person, keypoints3d=keypoints))
    yield new("yolo_msgs/msg/DetectionArray", header=header(clock, "camera"), detections=found), "", ""


def bodies(**parameters) -> Run:
    return Run("yolo_msgs/msg/DetectionArray", BODY["agent_names"], **parameters)


def test_each_body_has_a_window_of_its_own():
    run = bodies()
    run.go(1.5, lambda clock: people(clock, "1", "2"))
    run.go(0.5, lambda clock: people(clock, "1", "2", without="2"))
    assert list(run.scenes) == ["1", "2"] and run.groups.estimates == sum(map(len, run.scenes.values())) > 100
    for group, scenes in run.scenes.items():
        assert {scene.group for scene in scenes} == {group} and scenes[-1].frame_id == "camera"
        assert np.nanmax(np.abs(scenes[-1].window.positions[..., 0] - 10.0 * int(group))) < 1e-9
    assert run.status("2", "nose") == Status.HIDDEN and run.status("2", "left_eye") == Status.VISIBLE
    assert run.status("1", "nose") == Status.VISIBLE
    assert not run.said and not run.errors


def test_bodies_come_and_go_and_there_is_a_most_of_them():
    run = bodies(**{"groups.max": 2, "groups.forget_after": 1.5})
    run.go(1.0, lambda clock: people(clock, "1", "2"))
    run.go(0.5, lambda clock: people(clock, "1", "3"))
    assert list(run.intake.feeds) == ["1", "2"] and run.intake.dropped == {"other group": 25}
    assert run.said == ["message dropped: group '3' is one more than groups.max, 2 (said once)"]
    run.go(2.0, lambda clock: people(clock, "1", "3"))
    assert run.forgotten == ["2"] and list(run.groups.pipelines) == ["1", "3"]
    assert run.said[1:] == [
        "group 2: the stream has stopped: states are stale",
        "group 2 is forgotten: silent for 1.5 s",
    ]
    assert run.status("3", "nose") == Status.VISIBLE
    run.go(1.0, lambda clock: people(clock, "2"))
    assert run.scenes["2"][-1].window.names == BODY["agent_names"]  # back, in a window that is new


def test_a_stream_that_stops_forgets_nobody():
    run = bodies(**{"groups.forget_after": 1.0})
    run.go(1.0, lambda clock: people(clock, "1", "2"))
    run.go(5.0, lambda clock: ())
    assert list(run.groups.pipelines) == ["1", "2"] and run.groups.stale and not run.forgotten
    assert run.status("1", "nose") == run.status("2", "nose") == Status.STALE


def test_one_group_by_name():
    run = bodies(group="2")
    run.go(1.0, lambda clock: people(clock, "1", "2"))
    assert list(run.scenes) == ["2"] and run.intake.dropped == {"other group": 50}
    assert not run.intake.feeds["2"].named  # what it is called is the user's choice
    assert run.said == ["message dropped: its group is '1', expected '2' (said once)"]


def test_estimate_that_fails_leaves_the_other_groups_alone():
    class Fails(PlainEstimator):
        def estimate(self, window, previous=None):
            if window.positions[0, -1, 0] > 15.0 and previous is not None:
                raise ZeroDivisionError("body 2")
            return super().estimate(window, previous)

    run = Run("yolo_msgs/msg/DetectionArray", BODY["agent_names"], Fails(**BODY))
    run.go(2.0, lambda clock: people(clock, "1", "2"))
    assert len(run.scenes["1"]) - 2 * len(run.scenes["2"]) in (-1, 0, 1)  # each second one of body 2 goes on anew
    assert len(run.errors) > 10 and str(run.errors[0]) == "body 2"


def test_group_whose_outputs_cannot_be_made_leaves_the_others_alone():
    run = bodies()
    open_sink = run.groups._open_sink

    def fails(feed):
        if feed.name == "1":
            raise OSError("no more publishers")
        return open_sink(feed)

    run.groups._open_sink = fails
    run.go(1.0, lambda clock: people(clock, "1", "2"))
    assert run.status("2", "nose") == Status.VISIBLE and "1" not in run.scenes
    assert {str(error) for error in run.errors} == {"no more publishers"}


def teams(clock: float, teams: dict[str, list[str]]):
    """A geometry_msgs/PoseStamped of every agent of every team on its own topic."""
    for number, (team, agents) in enumerate(teams.items()):
        for row, agent in enumerate(agents):
            place = pose((math.cos(clock) + 5.0 * row, math.sin(clock), float(number)))
            yield new("geometry_msgs/msg/PoseStamped", header=header(clock), pose=place), agent, team


def test_teams_by_topic_may_have_agents_of_one_name():
    run = Run("geometry_msgs/msg/PoseStamped", [])
    run.go(1.5, lambda clock: teams(clock, {"red": ["r1", "r2"], "blue": ["r1"]}))
    assert run.scenes["red"][-1].window.names == ["r1", "r2"] and run.scenes["blue"][-1].window.names == ["r1"]
    assert run.scenes["red"][-1].heights.tolist() == [0.0, 0.0] and run.scenes["blue"][-1].heights.tolist() == [1.0]
    assert run.intake.feeds["red"].named


def test_stream_without_groups_is_one_group_by_default():
    run = Run("geometry_msgs/msg/PoseStamped", [])
    run.go(1.0, lambda clock: teams(clock, {"": ["r1"]}))
    assert list(run.scenes) == ["team"] and not run.intake.feeds["team"].named
