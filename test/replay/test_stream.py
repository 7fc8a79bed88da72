"""A bag through the node's code: causal estimates at fixed times, alike in every format, with agents withheld."""

from __future__ import annotations

import numpy as np
import pytest
from make_bags import BEGIN, FORMATS, lines, pose_message, skeleton, write_bag
from plain_estimator import PlainEstimator

from siha_ros.node.discovery import AGENT
from siha_ros.node.parameters import ParameterError, Parameters
from siha_ros.replay.bag import Bag, BagError, MessageFactory, own_types
from siha_ros.replay.stream import Stream, Withheld, only, run
from siha_ros.window.types import Status

VELOCITIES = np.array([[1.0, 0.0], [0.0, -2.0], [0.5, 0.5]])


class Kept:
    """A sink that keeps the scenes, by time of recording (s after BEGIN)."""

    def __init__(self) -> None:
        self.scenes, self.restarts, self.moment = [], 0, 0.0
        self.ticks = []

    def at(self, tick, moment):
        self.moment = moment
        self.ticks.append(tick)

    def publish(self, scene):
        self.scenes.append((self.moment - BEGIN, scene))

    def clear_markers(self):
        self.restarts += 1


def replayed(path, estimator=None, withheld=None, begin=None, end=None, **parameters):
    """The summary, the sink and the estimator of a run over a bag."""
    estimator, sink = estimator or PlainEstimator(), Kept()
    with Bag(path) as bag:
        stream = Stream(bag, estimator.bundle.config, Parameters(**({"rate": 10.0} | parameters)))
        new = MessageFactory(own_types()).new
        summary = run(stream, estimator, only(sink), new, withheld=withheld, begin=begin, end=end, on_tick=sink.at)
    return summary, sink, estimator


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp("bag") / "team", "mcap", lines(3.0, VELOCITIES))


def test_estimates_come_at_fixed_times_from_what_was_recorded_before(bag):
    summary, sink, estimator = replayed(bag)
    # Windows of 0.5 s that end 0.1 s before the newest stamp: the first full one is at 0.6 s. The bag ends at 2.98 s.
    assert [moment for moment, _ in sink.scenes] == pytest.approx([0.6 + 0.1 * k for k in range(24)], abs=1e-6)
    assert summary.estimates == 24 and summary.messages == 450 and summary.failures == 0
    assert summary.stream_seconds == pytest.approx(2.98, abs=1e-6) and summary.run_seconds > 0
    for (moment, scene), window in zip(sink.scenes, estimator.windows, strict=True):
        newest = np.floor(moment * 50 + 1e-3) / 50  # the newest frame of 50 Hz
        assert scene.estimate.times[-1] - BEGIN == pytest.approx(newest - 0.1, abs=1e-5)
        times = window.times - BEGIN
        expected = np.arange(3)[:, None, None] * [0.0, 1.0] + VELOCITIES[:, None] * times[:, None]
        assert np.allclose(window.positions, expected, atol=1e-5)
        assert window.names == ["r0", "r1", "r2"] and (window.status == Status.VISIBLE).all()


def test_latency_is_the_age_in_the_bag_and_not_what_the_computer_took(bag):
    _, sink, _ = replayed(bag, rate=40.0)
    ages = {round(scene.latency, 4) for _, scene in sink.scenes}
    assert ages == {0.0, 0.005, 0.01, 0.015}  # ticks every 25 ms, samples every 20 ms


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_estimates(bag, form, tmp_path):
    _, sink, _ = replayed(write_bag(tmp_path / "other", form, lines(3.0, VELOCITIES)))
    _, expected, _ = replayed(bag)
    for (moment, scene), (other_moment, other) in zip(sink.scenes, expected.scenes, strict=True):
        assert moment == other_moment
        assert np.array_equal(scene.estimate.positions, other.estimate.positions)


def test_a_withheld_agent_is_lost_and_comes_back(bag):
    withheld = Withheld(frozenset({"r1"}), BEGIN + 1.0, BEGIN + 2.0)
    _, sink, _ = replayed(bag, withheld=withheld)
    status = {round(moment, 1): Status(int(scene.window.status[1])) for moment, scene in sink.scenes}
    assert status[1.0] == Status.VISIBLE and status[1.2] == Status.BRIDGED
    assert {status[round(1.4 + 0.1 * k, 1)] for k in range(6)} == {Status.HIDDEN}  # silent for 0.3 s
    assert status[2.4] == Status.VISIBLE
    scene = {round(moment, 1): scene for moment, scene in sink.scenes}[1.5]
    assert scene.window.last_seen[1] - BEGIN == pytest.approx(0.98, abs=1e-5)
    assert scene.estimate.positions[1, -1] == pytest.approx([0.0, 1.0 - 2.0 * 0.98], abs=1e-4)
    assert (scene.window.status[[0, 2]] == Status.VISIBLE).all()


def test_a_withheld_joint_is_missing_from_its_messages(tmp_path):
    times = np.arange(240) / 120
    positions = np.zeros((3, 240, 3))
    positions[:, :, 0] = times
    positions[:, :, 2] = np.arange(3)[:, None]
    path = write_bag(tmp_path / "body", "mcap", skeleton(["a", "b", "c"], positions))
    estimator = PlainEstimator(identified=True, agent_names=["a", "b", "c"], dims=3)
    _, sink, _ = replayed(path, estimator, Withheld(frozenset({"b"}), BEGIN + 1.0, BEGIN + 1.5))
    scenes = {round(moment, 1): scene for moment, scene in sink.scenes}
    assert scenes[0.9].group == "body" and (scenes[0.9].window.status == Status.VISIBLE).all()
    assert scenes[1.4].window.status.tolist() == [Status.VISIBLE, Status.HIDDEN, Status.VISIBLE]
    assert scenes[1.4].window.reason[1].startswith("missing from the message")
    assert scenes[1.8].window.status.tolist() == [Status.VISIBLE] * 3


def test_names_are_those_of_the_bundle(bag):
    withheld = Withheld(frozenset({"left"}), BEGIN + 1.0, BEGIN + 2.0)
    _, sink, _ = replayed(bag, withheld=withheld, name_map=("r1:left",))
    scene = sink.scenes[-12][1]  # at 1.8 s
    assert scene.window.names == ["r0", "left", "r2"] and scene.window.status[1] == Status.HIDDEN


def test_a_part_of_a_bag_has_the_times_of_the_whole(bag):
    _, part, _ = replayed(bag, begin=BEGIN + 1.03, end=BEGIN + 2.0)
    _, whole, _ = replayed(bag)
    assert part.ticks == [tick for tick in whole.ticks if 1.03 <= tick * 0.1 <= 2.0]
    assert part.scenes[-1][0] == pytest.approx(2.0) and part.scenes[0][0] == pytest.approx(1.7, abs=1e-6)


def test_an_hour_of_silence_costs_nothing_and_hides_nobody(tmp_path):
    def messages(new):
        for start in (0.0, 3600.0):
            for frame in range(100):
                time = start + frame / 50
                for agent in range(2):
                    kind = "geometry_msgs/msg/PoseStamped"
                    yield f"/r{agent}/pose", kind, time, pose_message(new, time, time - start, agent)

    summary, sink, _ = replayed(write_bag(tmp_path / "pause", "mcap", messages))
    assert len(sink.ticks) < 70 and summary.stream_seconds == pytest.approx(3601.98)
    assert sink.restarts == 1 and any("gap of" in line for line in summary.lines)
    after = [scene for moment, scene in sink.scenes if moment > 3600]
    assert len(after) == 14 and not any((scene.window.status == Status.HIDDEN).any() for _, scene in sink.scenes)


def test_an_estimate_that_fails_is_said_and_the_next_one_is_made(bag):
    class Broken(PlainEstimator):
        def estimate(self, window, previous=None):
            if len(self.windows) == 3:
                self.windows.append(window)
                raise ZeroDivisionError("three")
            return super().estimate(window, previous)

    summary, sink, _ = replayed(bag, Broken())
    assert summary.failures == 1 and len(sink.scenes) == 23
    assert "estimate failed: ZeroDivisionError: three" in summary.lines


def test_agents_and_topics_as_asked_for(bag, tmp_path):
    _, sink, _ = replayed(bag, input_agents=("r2", "r0"))
    assert sink.scenes[0][1].window.names == ["r2", "r0"]
    _, sink, _ = replayed(bag, input_topic=f"r{AGENT}/pose")
    assert sink.scenes[0][1].window.names == ["0", "1", "2"]
    with pytest.raises(
        BagError, match=r"no input on /poses .* it holds /r0/pose \(geometry_msgs/msg/PoseStamped\), /r1"
    ):
        replayed(bag, input_topic="/poses")
    with pytest.raises(BagError, match="no input on /{agent}/odom"):
        replayed(bag, input_topic=f"/{AGENT}/odom")
    with pytest.raises(ParameterError, match="expected {agent} in it"):
        replayed(bag, input_topic="/pose", input_type="geometry_msgs/msg/PoseStamped")
