"""The refinement loop against the four equations of section 4.4 written out."""

from __future__ import annotations

import pytest
import torch

from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.refinement import Refinement

FRAMES, FEATURES, VISIBLE, HIDDEN = 8, 4, 4, 2


@pytest.fixture
def modules():
    torch.manual_seed(5)
    size = {"frames": FRAMES, "features": FEATURES}
    f_pre = HiddenStatePredictor(HSPConfig(**size, hidden=HIDDEN, width=16))
    f_sg = HiddenStatePredictor(HSPConfig(**size, hidden=HIDDEN, width=16, alphas=list(PAPER_ALPHAS)))
    g_nri = NRI(NRIConfig(**size, encoder_width=16))
    return f_pre.eval(), f_sg.eval(), g_nri.eval()


@pytest.fixture
def visible():
    torch.manual_seed(6)
    return torch.randn(3, VISIBLE, FRAMES, FEATURES)


def written_out(modules, visible, rounds):
    """Hidden states and structures (probability of type 1) after each round."""
    f_pre, f_sg, g_nri = modules
    with torch.no_grad():
        x_hid = [f_pre(visible)]
        a = [g_nri.graph(torch.cat([visible, x_hid[0]], 1))[..., 1]]
        for r in range(rounds):
            x_hid.append(f_sg(visible, a[r]))
            a.append(g_nri.graph(torch.cat([visible, x_hid[r + 1]], 1))[..., 1])
    return x_hid, a


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_refinement_is_the_paper_s_four_equations(modules, visible, rounds):
    x_hid, a = written_out(modules, visible, rounds)
    refined = Refinement(*modules, rounds)(visible)
    assert refined.rounds == rounds
    assert torch.equal(refined.hidden, x_hid[-1]) and torch.equal(refined.graph[..., 1], a[-1])
    assert refined.graph.shape == (3, VISIBLE + HIDDEN, VISIBLE + HIDDEN, 2)
    assert torch.equal(refined.moved, x_hid[-1] - x_hid[-2] if rounds else torch.zeros_like(x_hid[0]))
    if rounds:
        assert refined.change == pytest.approx(float((a[-1] - a[-2]).abs().max()))
        assert (x_hid[1] - x_hid[0]).abs().max() > 0.01  # guidance does something


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_steady_refinement_keeps_edges_of_visible_agents_and_counts_all_rounds(modules, visible, rounds):
    f_pre, f_sg, g_nri = modules
    with torch.no_grad():
        hidden = f_pre(visible)
        graphs = [g_nri.graph(torch.cat([visible, hidden], 1))]
        for _ in range(rounds):
            guide = graphs[-1][..., 1].clone()
            guide[:, :VISIBLE, :VISIBLE] = graphs[0][:, :VISIBLE, :VISIBLE, 1]
            hidden = f_sg(visible, guide)
            graphs.append(g_nri.graph(torch.cat([visible, hidden], 1)))
    product = torch.stack(graphs).prod(0) ** (1 / len(graphs))
    mean = product / product.sum(-1, keepdim=True).clamp_min(1e-12)
    refined = Refinement(*modules, rounds, steady=True)(visible)
    assert torch.equal(refined.hidden, hidden)
    assert torch.allclose(refined.graph, mean, atol=1e-5)
    assert not refined.graph.diagonal(dim1=1, dim2=2).any()
    assert rounds == 0 or (mean - graphs[-1]).abs().max() > 1e-3


def test_a_settled_sample_of_a_steady_refinement_counts_its_own_rounds(modules, visible):
    """Each of a batch as it would be alone, those that settle early too; graphs that are sure of all give numbers."""
    refinement = Refinement(*modules, rounds=6, steady=True)
    together = refinement(visible, tolerance=1e-3)
    alone = [refinement(visible[one : one + 1], tolerance=1e-3) for one in range(3)]
    assert len({one.rounds for one in alone}) > 1
    assert torch.allclose(together.graph, torch.cat([one.graph for one in alone]), atol=1e-4)
    modules[2].config.argmax_graph = True
    sure = refinement(visible).graph
    assert torch.isfinite(sure).all() and torch.allclose(sure.sum(-1) + torch.eye(VISIBLE + HIDDEN), torch.ones(1))


def test_five_rounds_by_default(modules, visible):
    assert Refinement(*modules)(visible).rounds == 5


def test_early_stop_when_the_graph_no_longer_changes(modules, visible):
    """Stops after the first round that changes A by no more than the tolerance, with the states of that round."""
    visible = visible[:1]
    x_hid, a = written_out(modules, visible, 8)
    changes = [float((a[r + 1] - a[r]).abs().max()) for r in range(8)]
    assert changes[2] < min(changes[:2])  # the example is one that settles
    refined = Refinement(*modules, rounds=8)(visible, tolerance=changes[2])
    assert refined.rounds == 3
    assert torch.equal(refined.hidden, x_hid[3]) and torch.equal(refined.graph[..., 1], a[3])
    assert refined.change == pytest.approx(changes[2])
    assert Refinement(*modules, rounds=8)(visible, tolerance=1.0).rounds == 1


def test_one_sample_of_a_batch_is_refined_as_on_its_own(modules, visible):
    refinement = Refinement(*modules, rounds=3)
    together, alone = refinement(visible), refinement(visible[1:2])
    assert torch.allclose(together.hidden[1:2], alone.hidden, atol=1e-4)
    assert torch.allclose(together.graph[1:2], alone.graph, atol=1e-4)


def test_samples_of_a_batch_settle_one_by_one(modules, visible):
    refinement, tolerance = Refinement(*modules, rounds=8), 1e-3
    together = refinement(visible, tolerance=tolerance)
    alone = [refinement(sample[None], tolerance=tolerance) for sample in visible]
    assert len({one.rounds for one in alone}) > 1  # the example is one in which they differ
    assert together.rounds == max(one.rounds for one in alone)
    for name in ("hidden", "moved", "graph"):
        expected = torch.cat([getattr(one, name) for one in alone])
        torch.testing.assert_close(getattr(together, name), expected, atol=2e-5, rtol=0)


def test_named_agents(visible):
    size = {"frames": FRAMES, "features": FEATURES}
    options = {"hidden": HIDDEN, "width": 16, "identities": 6}
    sa = HiddenStatePredictor(HSPConfig(**size, **options)).eval()
    sg = HiddenStatePredictor(HSPConfig(**size, **options, alphas=list(PAPER_ALPHAS))).eval()
    nri = NRI(NRIConfig(**size, encoder_width=16)).eval()
    names = torch.tensor([0, 1, 3, 5]), torch.tensor([4, 2])
    refined = Refinement(sa, sg, nri, rounds=1)(visible, names)
    with torch.no_grad():
        a = nri.graph(torch.cat([visible, sa(visible, names=names)], 1))[..., 1]
        assert torch.equal(refined.hidden, sg(visible, a, names))
