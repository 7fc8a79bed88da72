"""SAITS and BRITS of PyPOTS (an optional dependency) behind the interface of the plain methods.

They are trained as PyPOTS trains them: on complete windows, of which SAITS hides random values from itself and BRITS
predicts each value from the ones before and after; neither is told which agents will be hidden. The epoch is kept that
completes the validation windows best, with the agents hidden that the first set hides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import torch

from offline_training.experiments.plain_methods import BoolArray, FloatArray, Method, hide

MISSING = "SAITS and BRITS are left out: PyPOTS is not installed (pip install pypots)"
EPOCHS, WINDOWS, VALIDATION, BATCH = 20, 4000, 500, 64
MINUTES = 20.0  # of both, for 6 agents with two threads of the machine of docs/results.md; for a budget only


def available() -> bool:
    """Whether PyPOTS is installed."""
    return find_spec("pypots") is not None


def deep_needs(name: str, scale: float) -> dict[str, float]:
    """Minutes, about, that both take for the problem of a name; nothing where they are not there."""
    return {f"SAITS and BRITS {name}": MINUTES * scale} if available() else {}


@dataclass
class DeepImputer:
    """make: an untrained model for so many frames and features. It is trained once, for whatever sets follow, in so
    many epochs."""

    make: Callable[[int, int], Any]
    epochs: int
    samples: int = field(default=0, init=False)
    _model: Any = field(default=None, init=False, repr=False)

    def fit(self, training: FloatArray, validation: FloatArray, hidden: int, seen: BoolArray) -> None:
        """See :class:`Method`."""
        if self._model is not None:
            return
        torch.manual_seed(0)
        checks = validation[:VALIDATION]
        self.samples = self.epochs * len(training[:WINDOWS])
        self._model = self.make(training.shape[2], training.shape[1] * training.shape[3])
        self._model.fit(
            {"X": _series(training[:WINDOWS])},
            {"X": _series(hide(checks, hidden, seen)), "X_ori": _series(checks)},
        )

    def complete(self, windows: FloatArray, hidden: int, seen: BoolArray) -> FloatArray:
        """See :class:`Method`."""
        count, agents, frames, features = windows.shape
        found = self._model.predict({"X": _series(windows)})["imputation"]
        out: FloatArray = found.reshape(count, frames, agents, features).transpose(0, 2, 1, 3)[:, -hidden:]
        return out.astype(float)


def _series(windows: FloatArray) -> Any:
    """``[n, A, T, D]`` as PyPOTS wants it: f4 ``[n, T, A D]``."""
    return windows.transpose(0, 2, 1, 3).reshape(len(windows), windows.shape[2], -1).astype("float32")


def deep_methods(scale: float) -> dict[str, Method]:
    """Both, by name. scale: of their epochs."""
    from pypots.imputation import BRITS, SAITS

    epochs = max(1, round(EPOCHS * scale))
    common = {
        "batch_size": BATCH,
        "epochs": epochs,
        "device": "cpu",
        "model_saving_strategy": None,
        "verbose": False,
    }
    attention = {"n_layers": 2, "d_model": 256, "n_heads": 4, "d_k": 64, "d_v": 64, "d_ffn": 256}
    return {
        "saits": DeepImputer(lambda frames, features: SAITS(frames, features, **attention, **common), epochs),
        "brits": DeepImputer(lambda frames, features: BRITS(frames, features, rnn_hidden_size=256, **common), epochs),
    }
