"""Plays recorded bodies that lose a limb: one SkeletonFrame per recorded frame, in real time, on /skeleton.

The limb is untracked from the first second of each trial on. Between two trials the stream pauses for half a second
and the node's window is reset. The truth goes out on /truth.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import rclpy
from rclpy.client import Client
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args
from std_srvs.srv import Trigger

from siha_ros.demo.options import LIMBS
from siha_ros.demo.publishing import (
    RELIABLE,
    TRUTH_TOPIC,
    end,
    end_on_signals,
    paced,
    skeleton_frame,
    stop_on_signals,
    wait_for_subscribers,
)
from siha_ros.model.bundle import load_config
from siha_ros.msg import SkeletonFrame
from siha_ros.resources import bundle_path

if TYPE_CHECKING:
    from offline_training.datasets.cmu_mocap import Trial

FRAME_ID = "map"
TOPIC = "skeleton"
LOST_FROM = 1.0  # s after the start of a trial
PAUSE = 0.5  # s between two trials


def choose_trials(available: Sequence[str], training: Sequence[str], wanted: Sequence[str], force: bool) -> list[str]:
    """Names of the trials to play: those wanted ("35_05", or "05" alone), by default all that are not in training.

    Raises ValueError, in one line, for one that is not there, and for a training trial unless forced.
    """

    def trained_on(name: str) -> bool:
        return name in training or name.split("_")[-1] in training

    if not wanted:
        chosen = [name for name in available if force or not trained_on(name)]
        if not chosen:
            raise ValueError(
                "every trial of the folder is a training trial of the bundle: FORCE=1 plays them all the same"
            )
        return chosen
    chosen = []
    for name in wanted:
        matches = [full for full in available if full == name or full.split("_")[-1] == name]
        if len(matches) != 1:
            raise ValueError(f"no trial {name!r}: expected one of {', '.join(available)}")
        if trained_on(matches[0]) and not force:
            raise ValueError(f"trial {matches[0]} is a training trial of the bundle: FORCE=1 plays it all the same")
        chosen += matches
    return chosen


def load_trials(folder: Path, training: Sequence[str], wanted: Sequence[str], force: bool) -> list[Trial]:
    """The chosen trials (see choose_trials) of a folder with one .asf file."""
    from offline_training.datasets.cmu_mocap import CMU_RATE, Trial, joint_positions, read_motion, read_skeleton

    motions = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() == ".amc"}
    skeletons = [path for path in sorted(folder.iterdir()) if path.suffix.lower() == ".asf"]
    if len(skeletons) != 1 or not motions:
        raise ValueError(f"{folder}: expected one .asf file and .amc files, found {len(skeletons)} and {len(motions)}")
    skeleton = read_skeleton(skeletons[0])
    chosen = choose_trials(list(motions), training, wanted, force)
    return [
        Trial(name, skeleton.joints, joint_positions(skeleton, read_motion(motions[name], skeleton)), CMU_RATE)
        for name in chosen
    ]


class BodyPublisher:
    """Publishes frames of trials, with a limb untracked."""

    def __init__(self, node: Node, lost: Sequence[str], siha: str) -> None:
        self._node, self._lost = node, set(lost)
        self._frames = node.create_publisher(SkeletonFrame, TOPIC, RELIABLE)
        self._truth = node.create_publisher(SkeletonFrame, TRUTH_TOPIC, RELIABLE)
        self._reset: Client[Any, Any] = node.create_client(Trigger, f"{siha}/reset")

    def play(self, trial: Trial, until: float, stop: threading.Event) -> None:
        """From the first to the last frame, or until a monotonic time (s)."""
        begin_ns = time.time_ns()
        untracked = np.array([joint in self._lost for joint in trial.joints])
        for elapsed in paced(trial.rate, stop):
            frame = round(elapsed * trial.rate)
            if frame >= trial.positions.shape[1] or time.monotonic() >= until:
                return
            tracked = ~untracked | (frame / trial.rate < LOST_FROM)
            positions = trial.positions[:, frame]
            time_ns = begin_ns + round(frame / trial.rate * 1e9)
            seen = np.where(tracked[:, None], positions, np.nan)
            self._frames.publish(skeleton_frame(time_ns, FRAME_ID, "body", trial.joints, seen, tracked))
            self._truth.publish(skeleton_frame(time_ns, FRAME_ID, "truth", trial.joints, positions, tracked))

    def pause(self, stop: threading.Event) -> None:
        """Half a second without frames, in which the node is told that another recording follows."""
        deadline = time.monotonic() + PAUSE
        done = self._reset.call_async(Trigger.Request()) if self._reset.service_is_ready() else None
        while done is not None and not done.done() and time.monotonic() < deadline:
            rclpy.spin_once(self._node, timeout_sec=0.02)
        stop.wait(max(0.0, deadline - time.monotonic()))


def run(
    trials: Sequence[Trial],
    lost: Sequence[str],
    duration: float,
    wait_for: Sequence[str],
    siha: str,
    stop: threading.Event,
) -> None:
    """Play the trials in turn until duration (s; 0: each once) is over or stop is set."""
    node = rclpy.create_node("siha_player")
    body = BodyPublisher(node, lost, siha)
    wait_for_subscribers(node, [TOPIC], wait_for, stop)
    until = time.monotonic() + (duration or np.inf)
    played = 0
    while not stop.is_set() and time.monotonic() < until and (duration or played < len(trials)):
        if played:
            body.pause(stop)
        body.play(trials[played % len(trials)], until, stop)
        played += 1
    node.destroy_node()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of the executable siha_player."""
    arguments = list(sys.argv if argv is None else ["siha_player", *argv])
    parser = argparse.ArgumentParser("siha_player", description="Plays recorded bodies that lose a limb.")
    parser.add_argument("folder", type=Path, help="folder with one .asf file and .amc files")
    parser.add_argument(
        "--limb", choices=LIMBS, default="left_arm", help="lost from the first second on (default left_arm)"
    )
    parser.add_argument(
        "--trial", nargs="*", default=[], help="trials to play, as 35_05 or 05; by default those not used in training"
    )
    parser.add_argument("--force", action="store_true", help="play training trials too")
    parser.add_argument(
        "--bundle", default="body", help="names the joints of the limb and the training trials (default body)"
    )
    parser.add_argument("--duration", type=float, default=0.0, help="seconds, trials in turn; 0: each once (default)")
    parser.add_argument("--siha", default="/siha", help="node whose window is reset between trials (default /siha)")
    parser.add_argument("--wait-for", nargs="*", default=[], metavar="NODE", help="begin when these nodes listen")
    options = parser.parse_args(remove_ros_args(arguments)[1:])
    end_on_signals()
    try:
        bundle = load_config(bundle_path(options.bundle))
        if options.limb not in bundle.limbs:
            known = ", ".join(bundle.limbs) or "a bundle of bodies"
            raise ValueError(f"bundle {bundle.name} has no limb {options.limb}: expected {known}")
        trials = load_trials(options.folder, bundle.training.trials, options.trial, options.force)
        stop = stop_on_signals()
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
        run(trials, bundle.limbs[options.limb], options.duration, options.wait_for, options.siha, stop)
    except (ValueError, OSError, TimeoutError) as error:
        print(f"siha_player: {error}", file=sys.stderr)
        return 1
    finally:
        rclpy.try_shutdown()
    end()


if __name__ == "__main__":
    sys.exit(main())
