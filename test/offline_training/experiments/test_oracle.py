"""A case made by hand in which the graph is all there is to know: the true one must win."""

from __future__ import annotations

import torch

from offline_training.datasets.benchmarks import StateWindows
from offline_training.experiments.oracle import train_oracle
from offline_training.stages.loop import Schedule
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig, reconstruction_error

FRAMES, VISIBLE = 2, 3


def copies(count, seed):
    """Three visible agents anywhere, and a hidden one that is where the one is that it is joined to."""
    generator = torch.Generator().manual_seed(seed)
    visible = torch.randn(count, VISIBLE, FRAMES, 2, generator=generator)
    other = torch.randint(0, VISIBLE, (count,), generator=generator)
    edges = torch.zeros(count, VISIBLE + 1, VISIBLE + 1, dtype=torch.bool)
    edges[torch.arange(count), other, VISIBLE] = edges[torch.arange(count), VISIBLE, other] = True
    hidden = visible[torch.arange(count), other].unsqueeze(1)
    return StateWindows(torch.cat([visible, hidden], 1), edges, False)


def test_under_the_true_graph_a_hidden_agent_is_found_and_under_a_wrong_one_it_is_not(tmp_path):
    torch.manual_seed(0)
    hsp = HiddenStatePredictor(HSPConfig(FRAMES, 2, 1, width=32, alphas=list(PAPER_ALPHAS)))
    schedule = Schedule(250, rate=3e-3, average=0.98, validate_every=125, bf16=False)
    metrics = train_oracle(tmp_path, hsp, copies(2000, 0), copies(300, 1), schedule, batch=64)
    test = copies(300, 2)
    assert test.edges is not None
    seen, truth = test.all_states[:, :VISIBLE], test.all_states[:, VISIBLE:]

    def error(graph):
        with torch.no_grad():
            return float(reconstruction_error(hsp(seen, graph), truth).mean())

    true = error(test.edges.float())
    unsure = error(torch.full(test.edges.shape, 0.5))  # what an encoder says that has not left chance
    mean = float((seen.mean(1, keepdim=True) - truth).square().mean())
    assert abs(true - metrics["mse"]) < 0.05
    assert true < 0.25 * mean < unsure
