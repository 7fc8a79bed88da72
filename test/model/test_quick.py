"""Traced networks say what the networks themselves say, and step aside where they cannot."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.quick import Traced, quick_nri, quick_predictor
from siha_ros.model.refinement import Refinement

AGENTS, FRAMES = 5, 8


def small_nri(skip_first=True, types=2):
    torch.manual_seed(1)
    config = NRIConfig(
        FRAMES, 4, types, difference_gain=30.0, encoder_width=12, decoder_width=12, skip_first=skip_first, tied=True
    )
    return NRI(config).eval().requires_grad_(False)


def small_predictor(alphas=(), identities=0):
    torch.manual_seed(2)
    config = HSPConfig(FRAMES, 4, 2, width=12, heads=2, alphas=list(alphas), identities=identities)
    return HiddenStatePredictor(config).eval().requires_grad_(False)


@torch.inference_mode()
@pytest.mark.parametrize(("skip_first", "types"), [(True, 2), (False, 2), (False, 3)])
def test_a_quick_nri_agrees_for_each_number_of_agents(skip_first, types):
    nri = small_nri(skip_first, types)
    quick = quick_nri(nri)
    for agents in (AGENTS, 3, AGENTS):
        x = torch.randn(1, agents, FRAMES, 4)
        graph = nri.graph(x)
        torch.testing.assert_close(quick.graph(x), graph, atol=1e-6, rtol=1e-5)
        expected = nri.forecast(x[:, :, -1], graph, 6)
        assert expected.shape == (1, agents, 6, 4)
        torch.testing.assert_close(quick.forecast(x[:, :, -1], graph, 6), expected, atol=1e-6, rtol=1e-5)


@torch.inference_mode()
def test_a_trace_depends_on_its_input_and_not_on_the_first_one():
    quick, nri = quick_nri(small_nri()), small_nri()
    first, second = torch.zeros(1, AGENTS, FRAMES, 4), torch.randn(1, AGENTS, FRAMES, 4)
    quick.graph(first)
    torch.testing.assert_close(quick.graph(second), nri.graph(second), atol=1e-6, rtol=1e-5)


@torch.inference_mode()
def test_quick_predictors_agree_in_the_refinement():
    nri, sa, sg = small_nri(), small_predictor(), small_predictor((0.0, 1e9))
    plain = Refinement(sa, sg, nri, 3)
    quick = Refinement(quick_predictor(sa), quick_predictor(sg), quick_nri(nri), 3)
    visible = torch.randn(1, AGENTS - 2, FRAMES, 4)
    expected, found = plain(visible), quick(visible)
    torch.testing.assert_close(found.hidden, expected.hidden, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.graph, expected.graph, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_names_of_agents_are_inputs_of_the_trace():
    plain = small_predictor(identities=6)
    quick = quick_predictor(plain)
    visible = torch.randn(1, 4, FRAMES, 4)
    for seen, hidden in (([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1]), ([5, 4, 3, 2], [1, 0])):
        names = torch.tensor(seen), torch.tensor(hidden)
        torch.testing.assert_close(quick(visible, names=names), plain(visible, names=names), atol=1e-6, rtol=1e-5)


def test_batches_and_gradients_go_to_the_network_itself():
    calls = []

    class Network(nn.Module):
        def forward(self, x):
            calls.append(len(x))
            return 2 * x

    traced = Traced(Network()).eval()
    with torch.inference_mode():
        assert traced(torch.ones(3, 1)).tolist() == [[2], [2], [2]]
        assert traced(torch.ones(3, 1)).tolist() == [[2], [2], [2]]
    assert calls == [3, 3]
    traced(torch.ones(1, 1, requires_grad=True)).sum().backward()
    assert calls == [3, 3, 1]


def test_a_network_that_a_trace_gets_wrong_goes_on_untraced():
    class Fickle(nn.Module):
        """Says something else at every call."""

        def __init__(self):
            super().__init__()
            self.count = 0

        def forward(self, x):
            self.count += 1
            return x + self.count

    traced = Traced(Fickle()).eval()
    with torch.inference_mode():
        with pytest.warns(UserWarning, match="Fickle runs untraced and slower"):
            first = traced(torch.zeros(1, 1))
        assert traced(torch.zeros(1, 1)) == first + 1  # the network is alive: a trace would repeat itself
