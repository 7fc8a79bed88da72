"""What experiments make of numbers, against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from offline_training.experiments import alphas, count, encoders, seeds, table1, table2, unmodeled, unsupervised
from offline_training.experiments.count import chosen
from offline_training.experiments.focus import focus_edges
from offline_training.experiments.lab import Space
from offline_training.experiments.measure import all_figures, differences, per_window
from offline_training.experiments.report import budget, difference_rows, figure, short, table
from offline_training.experiments.seeds import spread
from offline_training.experiments.unsupervised import Pair
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.replay.evaluate import Answer, Task


def test_mean_and_deviation_of_runs():
    mean, deviation = spread([2.0, 4.0, 4.0, 6.0, None])
    assert mean == 4.0 and deviation == pytest.approx((8 / 3) ** 0.5)
    assert spread([5.0]) == (5.0, 0.0) and spread([None, None]) is None


def test_differences_are_those_of_the_same_run():
    """Runs that differ much from one another, and methods that do not."""
    runs = [
        {"siha_paper - hsp_sa": {"mse_hsp_mean": [gap, 0.0, 0.0], "acc_vv": [percent, 0.0, 0.0]}}
        for gap, percent in ((-0.002, 1.0), (-0.004, 3.0), (0.0, -1.0))
    ]
    assert seeds.paired(runs) == [["SIHA - HSP-sa", "-2.0e-3±2.0e-3, 2 of 3", "1.0±2.0, 1 of 3", "-"]]


def test_numbers_as_they_are_written():
    assert [short(0.00213), short(12.34, True), short(None)] == ["2.1e-3", "12.3", "-"]
    found = {"acc_vv": 98.76, "acc_vv_ci": [98.0, 99.5]}
    assert figure(found, "acc_vv", "98.9") == "98.8 [98.0, 99.5] (98.9)"
    assert figure(found, "mse_hsp_mean") == "-"
    fsp = {"mse_fsp_openloop_hidden": 2.0, "mse_fsp_openloop_hidden_median": 0.25}
    assert figure(fsp, "mse_fsp_openloop_hidden") == "2.0e+00"  # 8 times
    assert figure(fsp | {"mse_fsp_openloop_hidden": 3.0}, "mse_fsp_openloop_hidden") == "3.0e+00, median 2.5e-1"
    hsp = {"mse_hsp_mean": 0.5, "mse_hsp_median": 0.01}
    assert figure(hsp, "mse_hsp_mean", "0.1") == "5.0e-1, median 1.0e-2 (0.1)"
    assert budget([{"samples_seen": 1500, "minutes": 0.25}, {"samples_seen": 500, "minutes": 1.0}]) == "2 k, 1.2 min"
    gaps = {"siha_paper - hsp_sa": {"acc_vv": [1.25, 0.5, 2.0]}}
    assert difference_rows(gaps, ["acc_vv", "acc_vh"], table1.METHODS) == [["SIHA - HSP-sa", "1.25 [0.50, 2.00]", "-"]]
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_the_papers_numbers_have_a_place_each():
    assert all(len(text.split()) == len(alphas.COLUMNS) for text in alphas.PAPER.values())
    assert set(alphas.PAPER) == set(alphas.VARIANTS) - {"unguided"}
    assert all(len(text.split()) == len(count.COUNTS) for text in count.PAPER.values())
    assert all(0 < float(text) < 1 for text in encoders.PAPER.values())
    assert all(len(column.split()) == 3 for rows in seeds.PAPER.values() for column in rows)
    assert all(len(rows) == len(seeds.COLUMNS) for rows in seeds.PAPER.values())
    assert all(len(row.split()) == 3 for rows in table2.PAPER.values() for row in rows)
    assert len(unmodeled.PAPER) == len(unmodeled.ADDED)
    for text in unsupervised.PAPER.values():
        assert [len(part.split("/")) for part in text.split()] == [3] * 5


def test_the_number_of_hidden_agents_whose_models_are_best():
    """Two true numbers, three models, four windows: errors by hand."""
    errors = np.array(
        [
            [[1, 1, 5, 1], [2, 2, 2, 2], [3, 3, 1, 3]],  # best: 0 0 2 0
            [[3, 1, 3, 3], [2, 2, 2, 2], [4, 4, 4, 1]],  # best: 1 0 1 2
        ],
        dtype=float,
    )
    found = chosen(errors)
    assert found["confusion_percent"] == [[75.0, 0.0, 25.0], [25.0, 50.0, 25.0]]
    assert found["accuracy"] == [75.0, 50.0]
    assert all(low <= value <= high for value, (low, high) in zip(found["accuracy"], found["accuracy_ci"], strict=True))


def test_the_joints_that_a_hand_is_joined_to():
    graph = np.zeros((4, 4))
    graph[0, 1], graph[1, 0] = 1.0, 0.9  # 0.95
    graph[2, 0], graph[0, 2] = 0.8, 0.8
    graph[3, 0], graph[0, 3] = 1.0, 0.4  # 0.7: too little
    graph[0, 0] = 5.0  # itself does not count
    assert focus_edges(graph, 0, 8) == [(1, pytest.approx(0.95)), (2, pytest.approx(0.8))]
    assert focus_edges(graph, 0, 1) == [(1, pytest.approx(0.95))]
    assert graph[0, 0] == 5.0


def small_task(windows=3):
    """Two visible agents and one hidden, two frames and one of the future."""
    generator = torch.Generator().manual_seed(0)
    edges = np.zeros((windows, 3, 3), bool)
    edges[:, 0, 1] = edges[:, 1, 0] = edges[:, 0, 2] = edges[:, 2, 0] = True
    return Task(torch.randn(windows, 3, 3, 2, generator=generator), edges, 1, 0, 2, True)


def answer(task, off, wrong):
    """Hidden agents and future too large by ``off``, and so many windows with one visible edge wrong."""
    graph = torch.nn.functional.one_hot(torch.from_numpy(task.edges.astype(int)), 2).float()
    for window in range(wrong):
        graph[window, 0, 1] = torch.tensor([1.0, 0.0])
    return Answer(task.truth + off, graph, task.future + off, task.future + off)


def test_windows_that_overlap_belong_together():
    assert table2.blocks([99, 107], 99).tolist() == [0, 1, 1, 1]
    assert table2.blocks([89], 74).tolist() == [0] * 4  # subject 69
    assert table2.blocks([250], 99).tolist() == [0] * 25 + [1] * 13
    task = small_task()
    task.groups = np.array([0, 0, 1])
    answers = {"a": answer(task, 0.5, 1), "b": answer(task, 1.0, 0)}
    gap = differences(answers, task, [("a", "b")])["a - b"]
    assert gap["acc_vv"] == pytest.approx([-50 / 3, -25.0, 0.0])
    found = all_figures(answers, task, Space(2, Scale(1.0, 1.0)))["a"]
    assert found["acc_vv_ci"] == pytest.approx([75.0, 100.0])
    task.groups = np.zeros(3, int)
    (only,) = differences(answers, task, [("a", "b")])["a - b"]["mse_hsp_mean"]
    assert only == pytest.approx(-0.75) and figure({"mse": only, "mse_ci": []}, "mse") == "-7.5e-1"


def test_figures_of_each_window_and_differences_between_methods():
    task = small_task()
    found = per_window(answer(task, 0.5, 1), task)
    assert found["mse_hsp_mean"] == pytest.approx([0.25] * 3)
    assert found["mse_fsp_onestep_visible"] == pytest.approx([0.25] * 3)
    assert found["acc_vv"].tolist() == [50.0, 100.0, 100.0]
    assert found["acc_vh"].tolist() == [100.0] * 3
    answers = {"a": answer(task, 0.5, 1), "b": answer(task, 1.0, 0)}
    gap = differences(answers, task, [("a", "b")])["a - b"]
    assert gap["mse_hsp_mean"] == pytest.approx([-0.75] * 3)
    assert gap["acc_vv"][0] == pytest.approx(-50 / 3) and gap["acc_vv"][1] <= gap["acc_vv"][0] <= gap["acc_vv"][2]


def pair(frozen):
    torch.manual_seed(0)
    nri = NRI(NRIConfig(6, 4, encoder_width=8, decoder_width=8, teacher_forcing=3))
    return Pair(HiddenStatePredictor(HSPConfig(6, 4, 1, width=8)), nri, frozen)


def test_without_hidden_targets_the_visible_agents_alone_teach():
    """The loss is NRI's bound on the visible agents, and it reaches HSP-sa; frozen, NRI has no part in the learning."""
    visible = torch.randn(5, 3, 6, 4, generator=torch.Generator().manual_seed(1))
    together = pair(False).eval()
    torch.manual_seed(5)
    loss, parts = together.losses(visible)
    torch.manual_seed(5)
    with torch.no_grad():
        complete = torch.cat([visible, together.hsp(visible)], 1)
        logits = together.nri.encoder(complete)
        predicted = together.nri.predict(complete, together.nri.sample(logits))[:, :3]
        squared = (predicted - visible[:, :, 1:]).square()
        log = torch.log_softmax(logits, -1)
        divergence = (log.exp() * (log + np.log(2))).sum((1, 2, 3)).mean() / 4
    assert float(parts["mse"]) == pytest.approx(float(squared.mean()), rel=1e-5)
    bound = squared.sum((1, 2, 3)).mean() / (2 * 5e-5 * 3) + divergence
    assert loss.item() == pytest.approx(bound.item(), rel=1e-5)
    loss.backward()
    assert all(weight.grad.abs().max() > 0 for weight in together.hsp.out.parameters())
    assert together.nri.decoder.update1.weight.grad.abs().max() > 0
    alone = pair(True).train()
    assert not alone.nri.training and all(name.startswith("hsp.") for name in alone.state_dict())
    alone.losses(visible)[0].backward()
    assert alone.nri.decoder.update1.weight.grad is None and alone.hsp.out[0].weight.grad.abs().max() > 0
