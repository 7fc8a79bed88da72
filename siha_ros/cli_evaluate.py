"""``siha evaluate``: the data for a bundle, the methods it is compared with, and the report as a table.

Imports offline_training, for its data.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from siha_ros.baselines import ConstantVelocity, Hold, MeanVisible
from siha_ros.body_baselines import ridge_estimators
from siha_ros.body_estimator import BodyEstimator, halves
from siha_ros.dynamics_roll import DynamicsRoll
from siha_ros.estimator import Estimator, load_estimator
from siha_ros.model.bundle import BundleConfig
from siha_ros.replay.evaluate import evaluate
from siha_ros.replay.losses import report, run_losses, with_noise
from siha_ros.replay.windows import Recording
from siha_ros.tables import columns
from siha_ros.window.types import WindowEstimator

TEAM_SAMPLES, BODY_SAMPLES = 2000, 400
BOUNDS = {"rate": (0.1, 200.0), "noise": (0.0, 1000.0), "faster": (0.01, 100.0)}
MANY = LIMBS, HALVES, JOINTS = "limbs", "halves", "joints"  # --hide with --losses: a random one of these each time


def evaluate_command(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """The report and its text. Raises ValueError, in one line, for options that do not go with the bundle."""
    estimator = load_estimator(options.bundle, options.device)
    config = estimator.bundle.config
    lost_at = _lost_at(options.lose, config)
    for name in ("noise", "faster"):
        if getattr(options, name) is not None and not options.losses:
            raise ValueError(f"--{name} is of runs with losses: add --losses N")
    for name, (low, high) in BOUNDS.items():
        if not low <= (getattr(options, name) or low) <= high:
            raise ValueError(f"--{name} {getattr(options, name):g}: expected {low:g} to {high:g}")
    if config.identified:
        _refuse(options, config, "set", "hidden", "faster")
        return _body(options, estimator, lost_at)
    _refuse(options, config, "data", "hide")
    return _team(options, estimator, lost_at)


def _refuse(options: argparse.Namespace, config: BundleConfig, *names: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} does not go with the bundle {config.name} of the system {config.system}")


def _lost_at(text: str, config: BundleConfig) -> int:
    if text == "whole":
        return 0
    if not text.isdigit() or not 1 <= int(text) < config.window:
        raise ValueError(f"--lose {text}: expected whole, or a frame from 1 to {config.window - 1}")
    return int(text)


def baselines(estimator: Estimator) -> dict[str, WindowEstimator]:
    """What is always compared with, by its name in reports; the ridges come with a body's bundle."""
    horizon = max(estimator.bundle.config.horizon, 1)
    plain: dict[str, WindowEstimator] = {
        kind.name: kind(horizon=horizon) for kind in (Hold, ConstantVelocity, MeanVisible)
    }
    return plain | dict(ridge_estimators(estimator.bundle))


def guess_alone(estimator: Estimator) -> WindowEstimator:
    """A body's estimator without refinement rounds: hsp_sa."""
    bundle = estimator.bundle
    return BodyEstimator(replace(bundle, config=replace(bundle.config, rounds=0)), estimator.device)


# the simulated team


def _team(options: argparse.Namespace, estimator: Estimator, lost_at: int) -> tuple[dict[str, Any], str]:
    from offline_training.datasets.losses import team_losses
    from offline_training.datasets.simulated import split_seed, springs_recording
    from offline_training.experiments.team_ridge import springs_ridge

    config = estimator.bundle.config
    if config.system != "springs":
        raise ValueError(
            f"{config.name} is of recordings: what their test part said is in siha bundle info; on others it is"
            f" measured by siha replay BAG --bundle {options.bundle} --hide each --sweep (siha data bag makes bags)"
        )
    hidden = options.hidden or config.max_hidden
    if hidden > config.count - 3:
        raise ValueError(f"--hidden {hidden}: at least 3 of {config.count} agents must be seen")
    kind = options.set or ("any" if config.frame == "team" else "fresh")
    seed = split_seed(options.split, options.seed)
    methods: dict[str, WindowEstimator] = {"siha": estimator, **({} if options.alone else baselines(estimator))}
    if not options.alone and config.frame == "team":
        methods["ridge"] = springs_ridge(config, options.noise or 0.0)
    if options.losses:
        if not options.alone:
            methods["dynamics_roll"] = DynamicsRoll(estimator.bundle)
        faster = options.faster or 1.0
        runs = team_losses(options.losses, hidden, options.split, options.seed, faster=faster)
        data = f"springs, 60 s runs of a connected team, {options.split}"
        data += "" if faster == 1 else f", {faster:g} times as fast as in training"
        return _losses(options, config, methods, runs, data, seed)
    recording = springs_recording(config, kind, options.split, options.samples or TEAM_SAMPLES, options.seed)
    lost = np.arange(config.count - hidden, config.count)
    result = evaluate(
        estimator.bundle,
        recording,
        lost,
        methods,
        lost_at=lost_at,
        data=f"springs {kind} {options.split}",
        seed=seed,
        networks=not options.alone,
        progress=True,
    )
    return result, evaluation_table(result)


# a body


def _body(options: argparse.Namespace, estimator: Estimator, lost_at: int) -> tuple[dict[str, Any], str]:
    from offline_training.datasets.body import TEST, VALIDATION, walks
    from offline_training.datasets.cmu_mocap import load_subject
    from offline_training.datasets.losses import body_losses

    config = estimator.bundle.config
    if options.data is None:
        raise ValueError(
            f"--data FOLDER is needed for the bundle {config.name}: the folder with the .asf and .amc files"
        )
    numbers = TEST if options.split == "test" else VALIDATION
    trials = [trial for trial in load_subject(options.data) if trial.name.split("_")[-1] in numbers]
    used = [trial.name for trial in trials if trial.name in config.training.trials]
    if used:
        raise ValueError(f"--data {options.data}: the bundle was trained on {', '.join(used)}")
    if not trials:
        raise ValueError(f"--data {options.data}: none of the {options.split} trials {', '.join(numbers)} is there")
    if not options.losses and options.hide in (None, *MANY):
        raise ValueError(f"--hide LIMB is needed, one of {', '.join(config.limbs)}, or joints A,B")
    sets = hidden_sets(config, options.hide)
    index = {name: number for number, name in enumerate(trials[0].joints)}
    hidden = {name: np.array([index[joint] for joint in joints]) for name, joints in sets.items()}
    data = f"CMU motion capture, {options.split} trials {', '.join(trial.name for trial in trials)}"
    methods: dict[str, WindowEstimator] = {"siha": estimator, **({} if options.alone else baselines(estimator))}
    if options.losses:
        runs = body_losses(trials, hidden, options.losses, config.window * config.dt, options.seed)
        return _losses(options, config, methods, runs, data, options.seed)
    if not options.alone:
        methods = {"hsp_sa": guess_alone(estimator), **methods}
    frames = config.window + config.horizon
    cut = np.concatenate([walk.windows(frames) for walk in walks(trials)])
    samples = min(options.samples or BODY_SAMPLES, len(cut))
    cut = cut[np.sort(np.random.default_rng(options.seed).choice(len(cut), samples, replace=False))]
    recording = Recording(list(trials[0].joints), cut, None, None, config.dt)
    result = evaluate(
        estimator.bundle,
        recording,
        hidden[options.hide],
        methods,
        lost_at=lost_at,
        data=data,
        seed=options.seed,
        networks=not options.alone,
        progress=True,
    )
    return result, evaluation_table(result)


def hidden_sets(config: BundleConfig, hide: str | None) -> dict[str, list[str]]:
    """Joints that hide together, by name: what ``--hide`` says of a body. Raises ValueError for what it has not."""
    limbs = config.limbs
    if hide in (None, LIMBS):
        return limbs
    if hide == HALVES:
        return {
            f"{limb}_{end}": part
            for limb, joints in limbs.items()
            for end, part in zip(("near", "far"), halves(joints), strict=True)
        }
    if hide == JOINTS:
        return {joint: [joint] for joint in config.agent_names}
    assert hide is not None
    joints = limbs.get(hide) or hide.split(",")
    if unknown := [joint for joint in joints if joint not in config.agent_names]:
        raise ValueError(
            f"--hide {unknown[0]}: expected joints of {config.name}, {', '.join(MANY)} or one of {', '.join(limbs)}"
        )
    return {hide: joints}


def _losses(
    options: argparse.Namespace,
    config: BundleConfig,
    methods: Mapping[str, WindowEstimator],
    runs: Any,
    data: str,
    seed: int,
) -> tuple[dict[str, Any], str]:
    if options.noise:
        runs, data = with_noise(runs, options.noise, seed), f"{data}, noise of {1e3 * options.noise:g} mm"
    losses = run_losses(
        config, methods, runs, rate=options.rate, seed=options.seed, progress=True, total=options.losses
    )
    result = report(losses, config, data=data, seed=seed, rate=options.rate)
    return result, losses_table(result)


# tables


def evaluation_table(result: Mapping[str, Any]) -> str:
    """The report of an evaluation for people."""
    titles = {
        "mse_hsp_mean": "MSE hidden",
        "mse_hsp_median": "median",
        "mse_fsp_onestep_visible": "1-step seen",
        "mse_fsp_onestep_hidden": "1-step hid.",
        "mse_fsp_openloop_visible": "open seen",
        "mse_fsp_openloop_hidden": "open hid.",
        "acc_vv": "V-V %",
        "acc_vh": "V-H %",
        "acc_hh": "H-H %",
        "error_cm_window": "cm window",
        "error_cm_newest": "cm newest",
        "rmse_cm_newest": "rmse newest",
    }
    rows = [["method", *titles.values()]]
    for name, figures in result["methods"].items():
        rows.append([name, *(_short(figures.get(key), key) for key in titles)])
    lost = "whole window" if not result["lost_at"] else f"from frame {result['lost_at']} on"
    head = [
        f"{result['data']}: {result['samples']} windows, seed {result['seed']}",
        f"hidden ({lost}): {', '.join(result['hidden'])}; compared: {result['alignment']}",
    ]
    tail = []
    for part, found in (result.get("against_best_baseline") or {}).items():
        low, high = found["difference_cm_ci"]
        apart = f"{found['difference_cm']:+.2f} cm (95 %, over windows: {low:+.2f} to {high:+.2f})"
        tail.append(f"siha against {found['baseline']}, mean error, {part}: {apart}")
    if "stated" in result:
        newest, ahead = result["stated"]["newest"], result["stated"]["forecast"]
        held = {"hidden, newest frame": newest} if newest else {}
        held |= {f"{who}, {label} s ahead": row for who, found in ahead.items() for label, row in found.items()}
        tail.append("% inside what siha states: 68 % half-width per axis, 95 % radius (cases)")
        tail += [
            f"  {name}: {row['inside_68_percent']:.1f}, {row['inside_95_percent']:.1f} ({row['cases']})"
            for name, row in held.items()
        ]
    if "floor" in result:
        share, floor = result["floor"]["agents_percent"], result["floor"]["mse_hsp_mean"]
        tail.append(
            f"{share:.2f} % of the hidden agents have no path to one that is seen: "
            f"they add {floor:.2g} to the mean MSE of whatever method"
        )
    return "\n".join([*head, "", *columns(rows), *tail])


def losses_table(result: Mapping[str, Any]) -> str:
    """The report of losses for people."""
    labels = list(next(iter(result["methods"].values())))
    rows = [["rmse (median) in cm, s since loss", *labels]]
    for name, bins in result["methods"].items():
        rows.append(
            [
                name,
                *(
                    "-" if bins[label] is None else f"{bins[label]['rmse_cm']:.2f} ({bins[label]['median_cm']:.2f})"
                    for label in labels
                ),
            ]
        )
    against = result["against_best_baseline"]
    if against:
        rows.append(
            [
                "siha / best baseline",
                *("-" if against[label] is None else f"{against[label]['ratio']:.2f}" for label in labels),
            ]
        )
    inside = result["methods"].get("siha")
    if inside:
        rows.append(
            [
                "siha: % inside its 95 % radius",
                *("-" if inside[label] is None else f"{inside[label]['inside_95_percent']:.0f}" for label in labels),
            ]
        )
    graph = {block: value for block, value in result["graph_accuracy"].items() if value is not None}
    tail = (
        ["graph while lost: " + ", ".join(f"{block.upper()} {value:.1f} %" for block, value in graph.items())]
        if graph
        else []
    )
    if "estimate_ms" in result:
        fast, slow = result["estimate_ms"]["p50"], result["estimate_ms"]["p99"]
        tail.append(f"one estimate: p50 {fast:.1f} ms, p99 {slow:.1f} ms; not finite: {result['nonfinite']}")
    head = (
        f"{result['data']}: {result['losses']} losses of {result['lost_agents']} agents, "
        f"{result['rate_hz']:g} estimates a second, seed {result['seed']}; by name"
    )
    return "\n".join([head, "", *columns(rows), *tail])


def _short(value: float | None, key: str) -> str:
    if value is None:
        return "-"
    if key.startswith("mse"):
        return f"{value:.2e}"
    return f"{value:.1f}" if key.startswith("acc") else f"{value:.2f}"
