"""What is measured of the answers to a test set: the figures of each method, and by how much methods differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from siha_ros.replay.bootstrap import interval
from siha_ros.replay.evaluate import Answer, Space, Task, figures
from siha_ros.replay.metrics import label_permutation


def all_figures(answers: Mapping[str, Answer], task: Task, space: Space) -> dict[str, dict[str, Any]]:
    """The figures of each method."""
    return {name: figures(answer, task, space) for name, answer in answers.items()}


def per_window(answer: Answer, task: Task) -> dict[str, NDArray[np.float64]]:
    """One number for each window, f8[n], of what a method answers: mse_hsp_mean, mse_fsp_onestep_visible, and acc_vv,
    acc_vh in percent under one renaming of the edge types for all windows."""
    out = {}
    if answer.hidden is not None:
        out["mse_hsp_mean"] = (answer.hidden - task.truth)[:, :, task.lost_at :].square().flatten(1).mean(1)
    if answer.onestep is not None and task.future.shape[2]:
        missed = (answer.onestep - task.future[:, : answer.onestep.shape[1]])[:, : task.seen]
        out["mse_fsp_onestep_visible"] = missed.square().flatten(1).mean(1)
    if answer.graph is not None and task.edges is not None:
        agents, types = answer.graph.shape[1], answer.graph.shape[-1]
        guess, truth = answer.graph.argmax(-1).numpy(), task.edges[:, :agents, :agents].astype(int)
        right = torch.from_numpy(np.asarray(label_permutation(guess, truth, types))[guess] == truth)
        pairs = ~torch.eye(task.seen, dtype=torch.bool)
        out["acc_vv"] = 100 * right[:, : task.seen, : task.seen][:, pairs].double().mean(1)
        if agents > task.seen:
            across = [right[:, : task.seen, task.seen :], right[:, task.seen :, : task.seen].transpose(1, 2)]
            out["acc_vh"] = 100 * torch.cat(across, 2).double().flatten(1).mean(1)
    return {name: values.double().numpy() for name, values in out.items()}


def differences(
    answers: Mapping[str, Answer], task: Task, pairs: Sequence[tuple[str, str]]
) -> dict[str, dict[str, list[float]]]:
    """For each pair of methods, "A - B": what A has more than B of the same windows: mean, low and high end of its 95 %
    interval, of each figure that both have."""
    numbers = {name: per_window(answers[name], task) for name in {name for pair in pairs for name in pair}}
    out = {}
    for one, other in pairs:
        both = numbers[one].keys() & numbers[other].keys()
        apart = {name: numbers[one][name] - numbers[other][name] for name in sorted(both)}
        out[f"{one} - {other}"] = {
            name: [float(values.mean()), *interval(values, groups=task.groups)] for name, values in apart.items()
        }
    return out
