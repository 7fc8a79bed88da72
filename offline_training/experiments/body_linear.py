"""How far a body's linear path and its carry get on unseen trials, beside the plain ridges: ``python -m`` this module.

Two questions. A limb that is hidden for a whole window and was never seen: mean joint error over the window and in its
newest frame. A limb that is lost while the body walks: mean joint error in the newest frame by time since the loss.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_training.datasets.body import FRAMES, TEST, Walk, walks
from offline_training.datasets.cmu_mocap import Trial, load_subject
from offline_training.stages.linear_path import Episodes, LinearFit, body_windows, complete_walk, episodes, fit_linear
from siha_ros.model.ridge import LimbRidge

FloatArray = NDArray[np.float64]
BINS = ((0.0, 0.1), (0.1, 0.3), (0.3, 1.0), (1.0, np.inf))  # s since the loss
AGES = (1, 2, 3, 4, 5, 7, 9, 12, 15, 18, 24, 30, 36, 42, 48, 54, 60, 66, 72, 78, 84, 90)  # frames
WINDOW_STEP = 12  # frames between windows that a bootstrap draws from
DRAWS = 2000


def whole_windows(fit: LinearFit, test: Sequence[Walk]) -> dict[str, dict]:
    """Mean joint errors (cm) of each limb and method when the limb is hidden throughout, with a bootstrap over
    windows.
    """
    out = {}
    for limb, hidden in fit.limbs.items():
        completed = [complete_walk(walk, fit.path, hidden).errors[::WINDOW_STEP] for walk in test]
        errors: dict[str, list[Any]] = {"linear_path": completed}
        for name, ridges in (("ridge_frame", fit.ridge_frame), ("ridge_window", fit.ridge_window)):
            errors[name] = [
                _ridge_errors(ridges[limb], body_windows(walk, fit.path.template, WINDOW_STEP)) for walk in test
            ]
        joints = {name: np.linalg.norm(np.concatenate(parts), axis=-1) * 100 for name, parts in errors.items()}
        window = {name: error.mean((1, 2)) for name, error in joints.items()}
        better = min(("ridge_frame", "ridge_window"), key=lambda name: float(window[name].mean()))
        out[limb] = {
            "window_cm": {name: round(float(error.mean()), 3) for name, error in joints.items()},
            "newest_cm": {name: round(float(error[..., -1].mean()), 3) for name, error in joints.items()},
            "better_ridge": better,
            "less_than_it_cm": [round(bound, 3) for bound in bootstrap(window[better] - window["linear_path"])],
            "windows": len(window[better]),
        }
    return out


def _ridge_errors(ridge: LimbRidge, windows: FloatArray) -> FloatArray:
    return windows[:, ridge.hidden] - ridge.complete(windows)


def bootstrap(values: FloatArray, seed: int = 0) -> tuple[float, float]:
    """95 % interval of the mean of independent values [n]."""
    rng = np.random.default_rng(seed)
    means = values[rng.integers(0, len(values), (DRAWS, len(values)))].mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def after_losses(fit: LinearFit, test: Sequence[Walk], every: int = 6) -> dict[str, dict]:
    """Mean joint errors (cm) in the newest frame by time since the loss, for each limb and method."""
    out = {}
    for limb, hidden in fit.limbs.items():
        lost = episodes([complete_walk(walk, fit.path, hidden) for walk in test], AGES, every, fit.dt)
        found = {"carry": lost.target - lost.carried(fit.carries[limb], fit.dt), "linear_path": lost.target}
        for name, ridges in (("ridge_frame", fit.ridge_frame), ("ridge_window", fit.ridge_window)):
            newest = [_ridge_errors(ridges[limb], body_windows(walk, fit.path.template))[:, :, -1] for walk in test]
            found[name] = np.stack([newest[walk][window] for walk, window in zip(lost.walk, lost.window, strict=True)])
        now, then, before = (_truth(test, hidden, lost, ago) for ago in (0 * lost.since, lost.since, lost.since + 1))
        found["hold"] = now - then
        found["constant_velocity"] = now - then - (then - before) * lost.since[:, None, None]
        seconds = lost.since * fit.dt
        out[limb] = {
            name: {
                f"{low:g}-{high:g} s": round(float(np.linalg.norm(error[inside], axis=-1).mean() * 100), 3)
                for low, high in BINS
                if (inside := (seconds >= low) & (seconds < high)).any()
            }
            for name, error in found.items()
        }
    return out


def _truth(test: Sequence[Walk], hidden: NDArray[np.int64], lost: Episodes, ago: NDArray[np.int64]) -> FloatArray:
    """Positions [E, H, 3] (m) so many frames before the newest frame of each episode."""
    frames = lost.window + FRAMES - 1 - ago
    return np.stack([test[walk].positions[hidden, frame] for walk, frame in zip(lost.walk, frames, strict=True)])


def frame_errors(fit: LinearFit, test: Sequence[Walk]) -> dict[str, float]:
    """Mean and largest error (degrees) of the body frame's heading."""
    everyone = np.ones(len(fit.names), bool)
    errors = np.concatenate(
        [fit.path.template.fit(walk.windows(), everyone).heading - walk.window_headings() for walk in test]
    )
    degrees = np.degrees(np.abs(np.angle(np.exp(1j * errors))))
    return {"mean": round(float(degrees.mean()), 2), "largest": round(float(degrees.max()), 2)}


def evaluate(fit: LinearFit, trials: Sequence[Trial]) -> dict:
    """All figures on the test trials."""
    test = walks(trials, TEST)
    return {
        "trials": list(TEST),
        "chosen": fit.report,
        "heading_degrees": frame_errors(fit, test),
        "whole_window": whole_windows(fit, test),
        "after_loss": after_losses(fit, test),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit on a subject's folder and print or write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder with an .asf file and .amc files")
    parser.add_argument("--json", type=Path, help="file to write; standard output if not given")
    options = parser.parse_args(arguments)
    trials = load_subject(options.data)
    text = json.dumps(evaluate(fit_linear(trials), trials), indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
