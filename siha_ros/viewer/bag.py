"""A bag with the node's outputs, as `siha replay` writes it or as a live run is recorded, into a SceneState; no ROS."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from siha_ros.replay.bag import Bag, BagError
from siha_ros.viewer.messages import forecast_of, graph_of, states_of, truth_of, window_of
from siha_ros.viewer.scene_state import SceneState

Take = Callable[[Any], None]


class BagReader:
    """Reads a bag as fast as it goes; used as a context.

    Args:
        path: the bag.
        state: is given what it holds.
        source: full name of the node whose outputs these are.
        truth, truth_graph: topics of the truth, where the bag holds them.

    Raises:
        BagError: one line, where it holds no outputs of the node.
    """

    def __init__(self, path: str | Path, state: SceneState, source: str, truth: str, truth_graph: str) -> None:
        self._state = state
        self._bag = Bag(path)
        self._takes: dict[str, Take] = {
            f"{source}/trajectories": lambda message: state.add_window(window_of(message)),
            f"{source}/forecast": lambda message: state.add_forecast(forecast_of(message)),
            f"{source}/graph": lambda message: state.add_graph(graph_of(message)),
            _absolute(truth): lambda message: state.add_truth(truth_of(message)),
            _absolute(truth_graph): lambda message: state.add_truth_graph(graph_of(message)),
        }
        self._states = f"{source}/states"
        if self._states not in self._bag.types:
            self._bag.close()
            raise BagError(
                f"bag {path}: no estimates on {self._states} (see --node); `siha replay {path} --bundle DIR` writes a"
                " bag with them"
            )

    def read(self, stop: threading.Event) -> None:
        """Take all of it, or until stopped; a message that cannot be used is said once a topic and left out."""
        said: set[str] = set()
        for entry in self._bag.messages({self._states, *self._takes}):
            if stop.is_set():
                return
            try:
                message = self._bag.read(entry)
                if entry.topic == self._states:
                    self._state.add_states(states_of(message), since_begin=entry.time - self._bag.begin)
                else:
                    self._takes[entry.topic](message)
            except (ValueError, IndexError, AttributeError) as error:
                if entry.topic not in said:
                    print(f"siha view: {entry.topic}: malformed message left out ({error})", file=sys.stderr)
                said.add(entry.topic)
        self._state.end()

    def __enter__(self) -> BagReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._bag.close()


def _absolute(topic: str) -> str:
    return topic if topic.startswith("/") else f"/{topic}"
