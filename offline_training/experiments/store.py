"""Trained models and results of experiments, kept by what they were made with: whatever has the same options is made
once, and used by every experiment that asks for it, in later sessions too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from offline_training.stages.logs import stage_rows
from offline_training.stages.loop import read_note, write_atomically, write_weights
from siha_ros.errors import one_line

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class Trained(Generic[Network]):
    """A network with the weights of its best validation. key: what names it in the store. samples, minutes: what its
    training cost."""

    network: Network
    key: str
    samples: int
    minutes: float

    @property
    def cost(self) -> dict[str, Any]:
        """For a report."""
        return {"model": self.key, "samples_seen": self.samples, "minutes": self.minutes}


def digest(options: Mapping[str, Any]) -> str:
    """12 hexadecimal digits of the content of ``options``, whatever their order."""
    text = json.dumps(options, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Store:
    """``folder/models``: weights, options and log of each model. ``folder/NAME``: results of experiment NAME. device:
    where models are trained and live."""

    def __init__(self, folder: Path, device: str = "cpu"):
        self.folder, self.device = folder, device

    def model(
        self,
        kind: str,
        options: Mapping[str, Any],
        make: Callable[[], Network],
        train: Callable[[Network, Path], None],
    ) -> Trained[Network]:
        """The network ``make()`` as ``train`` leaves it. train: is given a folder, in which it goes on where it was
        interrupted; it is not called where the weights are there already."""
        key = f"{kind}-{digest({'kind': kind, **options})}"
        place = self.folder / "models" / key
        weights, network = place / "weights.safetensors", make().to(self.device)
        if weights.exists():
            try:
                network.load_state_dict(load_file(weights))
            except (SafetensorError, RuntimeError) as error:
                raise ValueError(
                    f"{weights}: damaged ({one_line(error):.120}): remove its folder, and the model is trained anew"
                ) from None
        else:
            place.mkdir(parents=True, exist_ok=True)
            (place / "options.json").write_text(json.dumps(options, indent=1, default=str) + "\n")
            train(network, place)
            write_weights(weights, network)
            for checkpoint in place.glob("*.pt"):
                checkpoint.unlink()  # with optimiser and structure cache many times the weights
        rows = stage_rows(place).values()
        samples, seconds = sum(row["samples"] for row in rows), sum(row["seconds"] for row in rows)
        return Trained(network.eval(), key, samples, round(seconds / 60, 2))

    def result(
        self, experiment: str, cell: str, options: Mapping[str, Any], compute: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """What ``compute`` returned for these options, now or earlier."""
        place = self.folder / experiment / f"{cell}-{digest(options)}.json"
        if not place.exists():
            content = {"schema": 1, "experiment": experiment, "cell": cell, "options": dict(options), **compute()}
            place.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(content, indent=1, default=str) + "\n"
            write_atomically(place, lambda path: path.write_text(text))
        return read_note(place, "remove it, and the cell is measured anew", experiment=str, cell=str, options=dict)

    def has_result(self, experiment: str, cell: str, options: Mapping[str, Any]) -> bool:
        """Whether :meth:`result` has nothing to compute."""
        return (self.folder / experiment / f"{cell}-{digest(options)}.json").exists()
