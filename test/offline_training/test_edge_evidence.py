"""Edges told by a model of single steps: its posterior by hand and by trying, what it learns without labels, and NRI
that learns from it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from offline_training.config import load_config
from offline_training.datasets.benchmarks import SYSTEMS
from offline_training.stages import edge_evidence
from offline_training.stages.edge_evidence import (
    PairDynamics,
    drawn_senders,
    evaluate_pair_dynamics,
    log_odds,
    negative_likelihood,
    sender_sets,
    train_pair_dynamics,
)
from offline_training.stages.loop import Schedule
from offline_training.team import described, fit_nri
from siha_ros.model.nri import NRI, NRIConfig

AGENTS, FRAMES = 4, 6
SCHEDULE = Schedule(100, validate_every=100)


def random_terms(features=2, batch=3, frames=5):
    """Left over, sent, log variances and weights, float64; one step was not measured."""
    torch.manual_seed(3)
    left, log_variance = torch.randn(2, batch, frames, AGENTS, features, dtype=torch.float64)
    sent = torch.randn(batch, frames, AGENTS, AGENTS - 1, features, dtype=torch.float64)
    weight = torch.ones_like(left)
    weight[0, 1, 2] = 0
    return left, sent, log_variance, weight


def make_dynamics(*, last=False, first_acts=False, width=8) -> PairDynamics:
    torch.manual_seed(5)
    return PairDynamics(width, torch.randn(20, AGENTS, FRAMES, 2), first_acts, last)


def springs(count, split="train"):
    return trajectories("springs", count, split)


def trajectories(system, count, split="train", agents=AGENTS):
    return SYSTEMS[system].windows(split, count, agents, 50, 0)


# Posterior


def test_sets_of_senders():
    assert sender_sets(torch.zeros(1, 3)).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_odds_by_hand():
    # receivers that moved by 2 each with two senders that would add 2 and 1, at a variance of 1:
    # (4 - (2 - sum)^2) / 2 is 0, 2, 1.5, 1.5; at twice the standard deviation a quarter of that
    left = torch.full((1, 1, 3, 1), 2.0)
    sent = torch.tensor([[2.0], [1.0]]).expand(1, 1, 3, 2, 1)
    for log_variance, share in ((0.0, 1.0), (math.log(4), 0.25)):
        found = log_odds(left, sent, torch.full_like(left, log_variance), torch.ones_like(left))
        assert found.flatten().tolist() == pytest.approx(3 * [share * odds for odds in (0, 2, 1.5, 1.5)])


def test_odds_are_those_of_trying_every_graph():
    left, sent, log_variance, weight = random_terms()
    sets = sender_sets(sent[:, 0])
    tried = []
    for senders in sets:
        error = left - (sent * senders[:, None]).sum(-2)
        tried.append(-(0.5 * error.square() * (-log_variance).exp() * weight).sum((1, 3)))
    expected = torch.stack(tried, -1) - tried[0].unsqueeze(-1)
    found = log_odds(left, sent, log_variance, weight)
    torch.testing.assert_close(found, expected)


def test_sets_are_drawn_as_often_as_they_are_likely():
    odds = torch.tensor([0.2, 0.1, 0.0, 0.7]).log().expand(1, 3, 4)
    draws = torch.tensor([[0.0, 0.19, 0.21], [0.29, 0.31, 0.99999]])
    sets = [drawn_senders(odds, draw[None])[0].tolist() for draw in draws]
    assert sets == [[[0, 0], [0, 0], [1, 0]], [[1, 0], [1, 1], [1, 1]]]
    first_without_chance = torch.tensor([0.0, 0.7, 0.2, 0.1]).log().expand(1, 3, 4)
    assert drawn_senders(first_without_chance, torch.zeros(1, 3))[0].tolist() == 3 * [[1, 0]]
    torch.manual_seed(0)
    drawn = drawn_senders(odds.expand(20_000, 3, 4), torch.rand(20_000, 3)).flatten(0, 1)
    assert drawn.mean(0).tolist() == pytest.approx([0.8, 0.7], abs=0.01)


def test_half_precision_does_not_reach_the_odds():
    dynamics, x = make_dynamics(), 30 * torch.randn(4, AGENTS, FRAMES, 2)
    with torch.autocast("cpu", torch.bfloat16):
        inside = dynamics.graph(x)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, dynamics.graph(x))


def test_batches_go_evenly_to_processes(monkeypatch):
    sizes = []
    for count in (1, 3, 16, 32):
        monkeypatch.setattr(edge_evidence.processes, "count", lambda count=count: count)
        sizes.append(edge_evidence.batch_size())
    assert sizes == [16, 18, 16, 32]


def test_likelihood_is_that_of_a_normal_distribution():
    left, sent, log_variance, weight = random_terms()
    senders = torch.bernoulli(torch.full((3, AGENTS, AGENTS - 1), 0.5, dtype=torch.float64))
    mean = (sent * senders[:, None, ..., None]).sum(-2)
    each = -torch.distributions.Normal(mean, (0.5 * log_variance).exp()).log_prob(left) - 0.5 * math.log(2 * math.pi)
    expected = each[weight > 0].sum() / each.numel()
    found = negative_likelihood(left, sent, log_variance, weight, senders)
    assert float(found) == pytest.approx(float(expected))
    inputs = [part.requires_grad_() for part in (left, sent, log_variance)]
    assert torch.autograd.gradcheck(lambda *terms: negative_likelihood(*terms, weight, senders), inputs)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("first_acts", [False, True])
def test_another_order_of_agents_is_another_order_of_edges(last, first_acts):
    dynamics = make_dynamics(last=last, first_acts=first_acts).double()
    x, order = torch.randn(3, AGENTS, FRAMES, 2, dtype=torch.float64), torch.tensor([2, 0, 3, 1])
    terms = dynamics.step_terms(x, None, torch.arange(FRAMES - 2))
    mixed = dynamics.step_terms(x[:, order], None, torch.arange(FRAMES - 2))
    for index in (0, 2, 3):
        torch.testing.assert_close(mixed[index], terms[index][:, :, order])
    there = edge_evidence.incoming_to_matrix(dynamics.graph(x))
    expected = there[:, order][:, :, order]
    torch.testing.assert_close(edge_evidence.incoming_to_matrix(dynamics.graph(x[:, order])), expected)


def test_steps_in_their_units_and_the_last_change():
    dynamics = make_dynamics(last=True)
    nn.init.zeros_(dynamics.own[-1].weight)
    nn.init.zeros_(dynamics.own[-1].bias)
    x = torch.randn(2, AGENTS, FRAMES, 2)
    left, *_ = dynamics.step_terms(x, None, torch.tensor([0, 3]))
    torch.testing.assert_close(left[:, 0], (x[:, :, 2] - 2 * x[:, :, 1] + x[:, :, 0]) / dynamics.unit)
    torch.testing.assert_close(left[:, 1], (x[:, :, 5] - 2 * x[:, :, 4] + x[:, :, 3]) / dynamics.unit)


def test_a_feature_that_never_changes_counts_for_nothing():
    examples = torch.randn(20, AGENTS, FRAMES, 2)
    examples[..., 1] = examples[:, :, :1, 1]
    dynamics = PairDynamics(8, examples, False, False)
    *_, weight = dynamics.step_terms(examples, None, torch.arange(3))
    assert weight[..., 0].eq(1).all() and weight[..., 1].eq(0).all()


@pytest.mark.parametrize("last", [False, True])
def test_what_was_not_measured_says_nothing(last):
    dynamics = make_dynamics(last=last)
    x, known = torch.randn(2, AGENTS, FRAMES, 2), torch.ones(2, AGENTS, FRAMES, 2, dtype=torch.bool)
    known[0, 1, 3] = False
    filled = x.clone()
    filled[0, 1, 3] += 7.0
    frames = torch.arange(FRAMES - 1 - last)
    draws = torch.rand(2, AGENTS)
    losses, graphs, asked = [], [], []
    for states in (x, filled):
        asked.append(dynamics.graph(states, known))
        terms = dynamics.step_terms(states, known, frames)
        losses.append(negative_likelihood(*terms, torch.ones(2, AGENTS, AGENTS - 1)).item())
        graphs.append(log_odds(*terms))
        torch.manual_seed(0)
        losses.append(dynamics.loss(states, known, draws, False).item())
    assert losses[:2] == pytest.approx(losses[2:])
    torch.testing.assert_close(graphs[0], graphs[1])
    torch.testing.assert_close(asked[0], asked[1])
    assert not torch.allclose(dynamics.graph(x), dynamics.graph(filled))
    assert not torch.allclose(log_odds(*dynamics.step_terms(filled, None, frames)), graphs[0])


# Learning


@pytest.mark.parametrize(
    ("system", "agents", "steps", "last", "least"), [("springs", 4, 400, False, 97), ("kuramoto", 3, 600, True, 90)]
)
def test_edges_are_found_without_labels(tmp_path, system, agents, steps, last, least):
    data = trajectories(system, 4000, agents=agents)
    held_out = trajectories(system, 200, "validation", agents)
    config = NRIConfig(50, data.all_states.shape[3], decoder_width=128)

    def sample(generator):
        return data.all_states[torch.randint(0, len(data), (edge_evidence.BATCH,), generator=generator)]

    dynamics = train_pair_dynamics(
        "edges", tmp_path, config, sample, held_out.all_states, held_out.edges, SCHEDULE, steps, last=last
    )
    found = evaluate_pair_dynamics(dynamics, held_out.all_states, held_out.edges)
    assert found["accuracy"] > least
    row = json.loads((tmp_path / "edges.jsonl").read_text().splitlines()[-1])
    assert row["step"] == steps and row["accuracy"] == pytest.approx(found["accuracy"], abs=0.5)


def test_labels_change_nothing_but_the_log(tmp_path):
    data = springs(100)
    config = NRIConfig(50, 4, decoder_width=8)
    schedule = replace(SCHEDULE, steps=10, validate_every=5)
    weights = []
    for name, edges in (("with", data.edges), ("without", None), ("others", ~data.edges)):
        trained = train_pair_dynamics(
            name, tmp_path, config, lambda _: data.all_states[:16], data.all_states, edges, schedule, 60
        )
        weights.append(torch.cat([part.flatten() for part in trained.parameters()]))
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])


def test_what_cannot_be_tried_is_said(tmp_path):
    many = torch.randn(2, 13, 20, 4)
    for config, states in ((NRIConfig(20, 4), many), (NRIConfig(20, 4, edge_types=3), many[:, :4])):
        with pytest.raises(ValueError, match="evidence: .* agents and . edge types, expected at most 12 and 2"):
            train_pair_dynamics("edges", tmp_path, config, many.clone, states, None, SCHEDULE, 10)


# NRI


def test_nri_is_taught(tmp_path):
    """The same steps of NRI, with and without: only the one that is taught tells edges."""
    settings = [
        "hidden=1", "visible=3", "nri_batch=32", "nri.encoder_width=64", "stages.nri.steps=100",
        "stages.nri.validate_every=100",
    ]  # fmt: skip
    data, held_out = springs(4000), springs(200, "validation")
    accuracy = {}
    for evidence in (0.0, 4.0):
        config = load_config("springs", settings=[*settings, f"evidence={evidence}"])
        plan = config.plan(len(data), AGENTS, 1, len(held_out))
        torch.manual_seed(0)
        folder = tmp_path / f"{evidence:g}"
        fit_nri("nri", plan, NRI(plan.nri), data, held_out, folder, agents=AGENTS, scale=1.0, seed=0)
        rows = {log.stem: json.loads(log.read_text().splitlines()[-1]) for log in folder.glob("*.jsonl")}
        assert set(rows) == ({"nri", "nri_edges"} if evidence else {"nri"})
        accuracy[evidence] = rows["nri"]["accuracy"]
    assert rows["nri_edges"]["step"] == 400
    assert accuracy[4.0] > accuracy[0.0] + 10


def small_plan(steps):
    settings = ["hidden=1", "visible=3", "nri_batch=8", "nri.encoder_width=8", "nri.decoder_width=8", "evidence=3.0"]
    settings += [f"stages.nri.steps={steps}", "stages.*.checkpoint_seconds=-1"]
    return load_config("springs", settings=settings).plan(64, AGENTS, 1, 16)


def fitted(plan, folder, data, held_out):
    """All weights of an NRI that was taught in ``folder``."""
    torch.manual_seed(0)
    nri = NRI(plan.nri)
    fit_nri("nri", plan, nri, data, held_out, folder, agents=AGENTS, scale=1.0, seed=0)
    return torch.cat([part.flatten() for part in nri.state_dict().values()])


def test_labels_do_not_reach_nri(tmp_path):
    data, held_out = springs(64), springs(16, "validation")
    right = fitted(small_plan(20), tmp_path / "right", data, held_out)
    unlabelled, wrong = replace(data, edges=None), replace(held_out, edges=~held_out.edges)
    assert torch.equal(fitted(small_plan(20), tmp_path / "wrong", unlabelled, wrong), right)


@pytest.mark.parametrize(("where", "calls"), [("loss", 25), ("graph", 4)])  # of the model of steps, of NRI
def test_a_killed_run_ends_as_one_that_never_was(where, calls, tmp_path, monkeypatch):
    data, held_out = springs(64), springs(16, "validation")
    whole = fitted(small_plan(10), tmp_path / "whole", data, held_out)
    done, real = [], getattr(PairDynamics, where)

    def killed(*arguments):
        done.append(where)
        if len(done) > calls:
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PairDynamics, where, killed)
        fitted(small_plan(10), tmp_path / "killed", data, held_out)
    assert torch.equal(fitted(small_plan(10), tmp_path / "killed", data, held_out), whole)


def test_what_was_not_measured_teaches_nothing():
    torch.manual_seed(0)
    nri = NRI(NRIConfig(FRAMES, 2, encoder_width=8, decoder_width=8, teacher_forcing=2)).eval()
    x, known = torch.randn(3, AGENTS, FRAMES, 2), torch.ones(3, AGENTS, FRAMES, 2, dtype=torch.bool)
    edges = torch.softmax(torch.randn(3, AGENTS, AGENTS - 1, 2), -1)
    known[1, 2, 4:] = False
    loss, shown = nri.taught_loss(x, edges, known=known)
    whole, _ = nri.taught_loss(x, edges)
    squared = (nri.predict(x, edges) - x[:, :, 1:]).square()
    counts = known[:, :, 1:].clone()
    counts[1, :, 4:] = False  # what starts from frame 4, where one was not measured
    expected = (squared * counts).sum() / (2 * 5e-5) / (3 * AGENTS)
    assert shown["nll"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.item() < whole.item()


def test_a_taught_loss_by_hand():
    torch.manual_seed(0)
    nri = NRI(NRIConfig(FRAMES, 2, encoder_width=8, decoder_width=8, teacher_forcing=5)).eval()
    x = torch.randn(3, AGENTS, FRAMES, 2)
    edges = torch.softmax(torch.randn(3, AGENTS, AGENTS - 1, 2), -1)
    loss, shown = nri.taught_loss(x, edges)
    told = torch.softmax(nri.encoder(x), -1)
    crossed = -(edges * told.log()).sum() / (3 * AGENTS)
    squared = (nri.predict(x, edges) - x[:, :, 1:]).square().sum()
    assert shown["missed"].item() == pytest.approx(crossed.item(), rel=1e-5)
    expected = crossed + squared / (2 * 5e-5) / (3 * AGENTS)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    assert all(part.grad is not None and part.grad.abs().sum() > 0 for part in (nri.encoder.out, nri.decoder.update3)
               for part in part.parameters())  # fmt: skip


# Options


def test_the_visible_only_nri_is_taught_by_itself():
    """On Springs it is the one that it was without the option, and NRI of all agents does not depend on it."""
    alone, taught = (load_config("springs", options).plan(1000, 6, 1, 100) for options in ([], ["evidence"]))
    assert described(taught.for_nri("nri_visible")) == described(alone)
    own = taught.for_nri("nri")
    assert own.evidence == 1 and own == replace(taught, evidence_visible=2.0).for_nri("nri")
    both = load_config("kuramoto").plan(1000, 6, 1, 100)
    assert both.for_nri("nri_visible") == both.for_nri("nri") == both
    with pytest.raises(ValueError, match="evidence_visible: -1.0, expected 0 or more"):
        load_config("springs", settings=["evidence_visible=-1.0"])
    with pytest.raises(ValueError, match="evidence: 1, expected 0 with more than 12 agents"):
        load_config("springs", settings=["evidence=0.0", "evidence_visible=1.0", "visible=12"])


def test_models_of_the_papers_way_keep_their_names():
    plan = load_config("springs", []).plan(1000, 6, 1, 100)
    assert not {"evidence", "evidence_last", "evidence_visible"} & set(described(plan))
    assert described(replace(plan, evidence=2.0))["evidence"] == 2.0
    assert load_config("kuramoto", options=[]).evidence == 0.0
    assert load_config("kuramoto").evidence_last and not load_config("charged").evidence_last


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("kuramoto", "hidden=8"),
        ("charged", "nri.tied=true"),
        ("kuramoto", "nri.edge_types=3"),
        ("charged", "nri.prior=[0.9, 0.1]"),
    ],
)
def test_who_cannot_be_taught_is_said_before_anything_is_made(name, setting):
    with pytest.raises(ValueError, match=r"evidence: 15, expected 0 with more than 12 agents, other than 2 edge types"):
        load_config(name, settings=[setting])
    load_config(name, settings=[setting, "evidence=0.0"])
    with pytest.raises(ValueError, match=r"evidence: 1, expected 0 .* or system cmu"):
        load_config("cmu35", settings=["evidence=1.0"])


@pytest.mark.parametrize(("wrong", "why"), [(".nan", "nan is not finite"), ("-1.0", "-1.0, expected 0 or more")])
def test_no_share_of_steps(wrong, why):
    with pytest.raises(ValueError, match=f"evidence: {why}"):
        load_config("springs", settings=[f"evidence={wrong}"])
