"""Completion through the dynamics: against springs by hand, autograd and dense least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from springs_by_hand import SCALE, graph, simulate, spring_nri, states

from siha_ros.model.dynamics import (
    ENCODER_SHARE,
    GAP_CAUTION,
    LARGEST_LOG_ODDS,
    SEEN_DEVIATION,
    Evidence,
    edge_evidence,
    edge_log_odds,
    graph_of,
    linearise,
    smooth,
)
from siha_ros.model.edges import matrix_to_incoming
from siha_ros.model.nri import Decoder, NRIConfig

AGENTS, HIDDEN, VISIBLE, DIMS, FEATURES = 6, 2, 4, 2, 4
STEP = 1e-4  # deviation of a step of the decoder, normalised


def decoder():
    return spring_nri(frames=12).decoder.double()


def team(frames, seed=0, symmetric=True):
    """Positions, velocities (m, m/s) and edges of a team in which both hidden agents, the last two, pull at others."""
    random = np.random.default_rng(seed)
    edges = random.random((AGENTS, AGENTS)) < 0.4
    edges = np.triu(edges, 1) | np.triu(edges, 1).T if symmetric else edges & ~np.eye(AGENTS, dtype=bool)
    for hidden, others in ((4, (0, 1)), (5, (1, 2, 3))):
        for other in range(AGENTS):
            edges[hidden, other] = edges[other, hidden] = other in others
    x, v = simulate(random.normal(0, 1, (AGENTS, DIMS)), random.normal(0, 0.3, (AGENTS, DIMS)), edges, frames)
    return x, v, edges


def nothing_known(frames, **known):
    """Evidence of hidden agents of which nothing is known but what ``known`` says."""
    blank = torch.full((1, HIDDEN, frames, FEATURES), torch.nan, dtype=torch.float64)
    fields = {
        "seen": blank,
        "guess": torch.zeros_like(blank),
        "guess_variance": torch.full_like(blank, torch.inf),
        "arrival": None,
        "arrival_information": None,
        "step_variance": torch.full((FEATURES,), STEP**2, dtype=torch.float64),
    }
    return Evidence(**(fields | known))


def away_from(truth, seed=1):
    """A starting point half a unit off."""
    torch.manual_seed(seed)
    return truth + 0.5 * torch.randn_like(truth)


def by_frame(x):
    """``[1, agents, T, D]`` to ``[T, agents D]`` in numpy."""
    return x[0].transpose(0, 1).flatten(1).numpy()


# the decoder by hand


def test_the_decoder_by_hand_is_springs():
    x, v, edges = team(20, symmetric=False)
    stepped = decoder()(states(x, v)[:, :, :-1].transpose(1, 2), matrix_to_incoming(graph(edges)).unsqueeze(1))
    torch.testing.assert_close(stepped.transpose(1, 2), states(x, v)[:, :, 1:], rtol=0, atol=1e-14)


# linearisation


@pytest.mark.parametrize(("types", "skip_first"), [(2, True), (3, False)])
def test_linearise_is_autograds_jacobian(types, skip_first):
    torch.manual_seed(3)
    config = NRIConfig(12, FEATURES, edge_types=types, decoder_width=9, skip_first=skip_first)
    network = Decoder(config).double()
    x = torch.randn(2, AGENTS, 4, FEATURES, dtype=torch.float64)
    edges = torch.rand(2, AGENTS, AGENTS, types, dtype=torch.float64)
    predicted, slope = linearise(network, x, edges, HIDDEN)
    incoming = matrix_to_incoming(edges)
    assert predicted.shape == (2, 3, AGENTS, FEATURES)
    assert slope.shape == (2, 3, AGENTS * FEATURES, HIDDEN * FEATURES)
    for batch in range(2):
        for t in range(3):

            def step(hidden, batch=batch, t=t):
                return network(torch.cat([x[batch, :VISIBLE, t], hidden]), incoming[batch])

            exact = torch.autograd.functional.jacobian(step, x[batch, VISIBLE:, t])
            torch.testing.assert_close(slope[batch, t], exact.reshape(AGENTS * FEATURES, -1), rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(predicted[batch, t], step(x[batch, VISIBLE:, t]), rtol=1e-10, atol=1e-12)
    assert slope[:, :, : VISIBLE * FEATURES].abs().max() > 1e-3  # hidden agents are felt by visible ones here


# smoothing


def test_hidden_agents_are_recovered_from_the_visible_ones_alone():
    x, v, edges = team(20)
    truth = states(x, v)[:, VISIBLE:]
    start = away_from(truth)
    done = smooth(decoder(), states(x, v)[:, :VISIBLE], start, graph(edges), nothing_known(20))
    error = (done.hidden - truth).abs() * SCALE.position
    assert (start - truth)[..., :DIMS].abs().max() * SCALE.position > 2.0
    assert error[..., :DIMS].max() < 1e-3  # metres
    assert done.residual.item() < 1e-6  # exact physics, exact graph


def test_a_wrong_graph_shows_in_the_residual():
    x, v, edges = team(20)
    truth = states(x, v)[:, VISIBLE:]
    edges[0, 3] = edges[3, 0] = ~edges[0, 3]
    done = smooth(decoder(), states(x, v)[:, :VISIBLE], away_from(truth), graph(edges), nothing_known(20))
    assert done.residual.item() > 100


def dense(network, visible, edges, evidence, point, upto=None):
    """The same quadratic as one least squares problem over all frames: mean ``[T, H D]`` and information.

    upto: only what is known of frames before this one, and the steps to it.
    """
    frames, size = visible.shape[2], HIDDEN * FEATURES
    incoming, both = matrix_to_incoming(edges)[0], torch.cat([visible, point], 1)[0]
    last = frames - 1 if upto is None else upto
    rows, targets = [], []

    def add(row, target, deviation):
        rows.append(row / np.asarray(deviation)[:, None])
        targets.append(target / deviation)

    step = np.sqrt(evidence.step_variance.numpy())
    for t in range(last):

        def ahead(hidden, t=t):
            return network(torch.cat([both[:VISIBLE, t], hidden]), incoming).flatten()

        slope = torch.autograd.functional.jacobian(ahead, both[VISIBLE:, t]).reshape(-1, size).numpy()
        offset = ahead(both[VISIBLE:, t]).detach().numpy() - slope @ both[VISIBLE:, t].flatten().numpy()
        if t or evidence.first_step:
            row = np.zeros((VISIBLE * FEATURES, frames * size))
            row[:, t * size : (t + 1) * size] = slope[: VISIBLE * FEATURES]
            seen = both[:VISIBLE, t + 1].flatten().numpy()
            add(row, seen - offset[: VISIBLE * FEATURES], np.tile(step, VISIBLE))
        row = np.zeros((size, frames * size))
        row[:, (t + 1) * size : (t + 2) * size] = np.eye(size)
        row[:, t * size : (t + 1) * size] = -slope[VISIBLE * FEATURES :]
        add(row, offset[VISIBLE * FEATURES :], np.tile(step, HIDDEN))
    shown, guess = by_frame(evidence.seen), by_frame(evidence.guess)
    spread = np.sqrt(by_frame(evidence.guess_variance))
    for t in range(last + (upto is None)):
        for place in range(size):
            row = np.zeros((1, frames * size))
            row[0, t * size + place] = 1
            if np.isfinite(shown[t, place]):
                add(row, shown[t, place], [SEEN_DEVIATION])
            if np.isfinite(spread[t, place]):
                add(row, guess[t, place], [spread[t, place]])
        if evidence.total is not None:
            together, variance = (part[0, t].numpy() for part in evidence.total)
            for place in np.flatnonzero(np.isfinite(variance)):
                row = np.zeros((1, frames * size))
                row[0, t * size + place : (t + 1) * size : FEATURES] = 1
                add(row, together[place], [np.sqrt(variance[place])])
    if evidence.arrival is not None:
        root = np.linalg.cholesky(evidence.arrival_information[0].numpy()).T
        add(np.hstack([root, np.zeros((size, (frames - 1) * size))]), root @ evidence.arrival[0].numpy(), np.ones(size))
    matrix, vector = np.concatenate(rows), np.concatenate([np.atleast_1d(target) for target in targets])
    return matrix.T @ matrix, matrix.T @ vector


def some_evidence(truth, frames, seed=5, **more):
    """Frames seen at both ends and in the middle, guesses, and what came before."""
    torch.manual_seed(seed)
    shown = torch.full_like(truth, torch.nan)
    shown[:, 0, 2:4], shown[:, 1, -2] = truth[:, 0, 2:4], truth[:, 1, -2]
    shown[:, 0, 2, DIMS:] = torch.nan  # a velocity needs two frames
    size = HIDDEN * FEATURES
    root = torch.randn(1, size, size, dtype=torch.float64)
    return nothing_known(
        frames,
        seen=shown,
        guess=truth + 0.2 * torch.randn_like(truth),
        guess_variance=0.01 + 0.1 * torch.rand_like(truth),
        arrival=by_frame_tensor(truth)[:, 0] + 0.1,
        arrival_information=root @ root.mT + 5 * torch.eye(size, dtype=torch.float64),
        step_variance=torch.tensor([1e-4, 2e-4, 1e-3, 2e-3], dtype=torch.float64),
        **more,
    )


def by_frame_tensor(x):
    return x.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("first_step", [False, True])
def test_smoothing_is_the_dense_least_squares_solution(first_step, together):
    frames, network = 6, decoder()
    x, v, edges = team(frames, seed=2)
    visible, truth = states(x, v)[:, :VISIBLE], states(x, v)[:, VISIBLE:]
    evidence, point = some_evidence(truth, frames, first_step=first_step), away_from(truth)
    if together:
        variance = torch.tensor([1e-3, 2e-3, 3e-3, torch.inf], dtype=torch.float64).repeat(1, frames, 1)
        variance[:, :2] = torch.inf
        evidence.total = truth.sum(1) + 0.05, variance
    done = smooth(network, visible, point, graph(edges), evidence, iterations=1)
    information, vector = dense(network, visible, graph(edges), evidence, point)
    size = HIDDEN * FEATURES
    np.testing.assert_allclose(by_frame(done.hidden).ravel(), np.linalg.solve(information, vector), atol=1e-6)
    covariance = np.linalg.inv(information)
    for t in range(frames):
        block = covariance[t * size : (t + 1) * size, t * size : (t + 1) * size]
        np.testing.assert_allclose(done.covariance[0, t], block, rtol=1e-4, atol=1e-9)
    # the filter knows earlier frames only
    for t in range(1, frames):
        information, vector = dense(network, visible, graph(edges), evidence, point, upto=t)
        part = (t + 1) * size
        covariance = np.linalg.inv(information[:part, :part])
        block = covariance[-size:, -size:]
        np.testing.assert_allclose(done.filtered_information[0, t], np.linalg.inv(block), rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(done.filtered[0, t], (covariance @ vector[:part])[-size:], atol=1e-5)


def test_seen_frames_pin_the_trajectory():
    x, v, edges = team(20)
    edges[4:, :], edges[:, 4:] = False, False  # nobody feels the hidden agents: only their seen frames tell
    x, v = simulate(x[:, 0], v[:, 0], edges, 20)
    truth = states(x, v)[:, VISIBLE:]
    shown = torch.full_like(truth, torch.nan)
    shown[:, :, 8:10] = truth[:, :, 8:10]
    evidence = nothing_known(20, seen=shown)
    done = smooth(decoder(), states(x, v)[:, :VISIBLE], away_from(truth), graph(edges), evidence)
    assert (done.hidden - truth)[:, :, 8:10].abs().max() < SEEN_DEVIATION
    assert (done.hidden - truth)[..., :DIMS].abs().max() * SCALE.position < 0.01  # constant velocity carries it on
    deviation = done.covariance[0].diagonal(dim1=-2, dim2=-1).sqrt()
    assert deviation[8:10].max() < 1.1 * SEEN_DEVIATION
    assert (deviation[10:, 0].diff() > 0).all() and (deviation[:9, 0].diff() < 0).all()  # less sure away from them


@pytest.mark.parametrize("shift", [1, 3])
def test_windows_in_a_chain_equal_one_long_window(shift):
    """What a window passes on is all that it knew: only the frames after those of the long window are missing."""
    frames, length, network = 16, 10, decoder()
    x, v, edges = team(frames, seed=4)
    visible, truth = states(x, v)[:, :VISIBLE], states(x, v)[:, VISIBLE:]
    shown = torch.full_like(truth, torch.nan)
    shown[:, :, 1:3] = truth[:, :, 1:3]
    full = nothing_known(frames, seen=shown, guess=truth + 0.1, guess_variance=torch.full_like(truth, 0.3))
    point = away_from(truth)
    expected = smooth(network, visible, point, graph(edges), full, iterations=1)
    arrival = information = None
    for first in range(0, frames - length + 1, shift):
        window = slice(first, first + length)
        part = nothing_known(
            length,
            seen=shown[:, :, window],
            guess=full.guess[:, :, window],
            guess_variance=full.guess_variance[:, :, window],
            arrival=arrival,
            arrival_information=information,
            first_step=first > 0,
        )
        done = smooth(network, visible[:, :, window], point[:, :, window], graph(edges), part, iterations=1)
        arrival, information = done.filtered[:, shift], done.filtered_information[:, shift]
    assert first + length == frames
    torch.testing.assert_close(done.hidden, expected.hidden[:, :, first:], rtol=0, atol=1e-5)
    torch.testing.assert_close(done.covariance, expected.covariance[:, first:], rtol=1e-3, atol=1e-8)


def test_the_velocity_copied_into_the_first_frame_is_no_evidence():
    x, v, edges = team(20)
    visible = states(x, v)[:, :VISIBLE].clone()
    truth = states(x, v)[:, VISIBLE:]
    visible[:, :, 0, DIMS:] = visible[:, :, 1, DIMS:]
    done = smooth(decoder(), visible, away_from(truth), graph(edges), nothing_known(20))
    assert (done.hidden - truth)[..., :DIMS].abs().max() * SCALE.position < 1e-3
    taken = smooth(decoder(), visible, away_from(truth), graph(edges), nothing_known(20, first_step=True))
    assert (taken.hidden - truth)[..., :DIMS].abs().max() * SCALE.position > 1e-2


def test_nothing_known_stays_where_it_is_and_is_finite():
    """No edges, no sight, no guess: nothing says where the agents are."""
    x, v, edges = team(20)
    edges[:] = False
    x, v = simulate(x[:, 0], v[:, 0], edges, 20)
    start = states(x, v)[:, VISIBLE:] + 0.7
    done = smooth(decoder(), states(x, v)[:, :VISIBLE], start, graph(edges), nothing_known(20))
    assert (done.hidden - start)[..., :DIMS].abs().max() < 1.0
    for values in (done.hidden, done.covariance, done.filtered, done.filtered_information, done.residual):
        assert values.isfinite().all()


# edges


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_steps_give_every_edge_the_right_sign(symmetric):
    x, v, edges = team(30, seed=6, symmetric=symmetric)
    variance = torch.full((FEATURES,), STEP**2, dtype=torch.float64)
    odds = edge_evidence(decoder(), states(x, v), graph_of(torch.zeros(1, AGENTS, AGENTS)).double(), variance, False)
    off = ~np.eye(AGENTS, dtype=bool)
    assert ((odds[0].numpy() > 0) == edges)[off].all()
    assert odds[0].numpy()[off & edges].min() > 3 and odds[0].numpy()[off & ~edges].max() < -3
    assert (odds[0].diagonal() == 0).all()


@pytest.mark.parametrize("believed", [0.0, 3.0, -3.0])
def test_steps_that_say_nothing_leave_the_belief_as_it_is(believed):
    x, v, _ = team(12)
    variance = torch.full((FEATURES,), 1e9, dtype=torch.float64)
    belief = graph_of(torch.full((1, AGENTS, AGENTS), believed)).double()
    assert edge_evidence(decoder(), states(x, v), belief, variance, True).abs().max() < 1e-6


def test_steps_of_no_weight_are_not_looked_at():
    x, v, edges = team(20, seed=6)
    spoilt = states(x, v)
    spoilt[:, :, 12:] += 0.3 * torch.randn(1, AGENTS, 8, FEATURES)
    uniform = graph_of(torch.zeros(1, AGENTS, AGENTS)).double()
    variance = torch.full((FEATURES,), STEP**2, dtype=torch.float64)
    steps = (torch.arange(18) < 10).double()  # from frame 1 to 2, and so on to 11
    odds = edge_evidence(decoder(), spoilt, uniform, variance, False, steps)
    torch.testing.assert_close(odds, edge_evidence(decoder(), spoilt[:, :, :12], uniform, variance, False))
    off = ~np.eye(AGENTS, dtype=bool)
    assert ((odds[0].numpy() > 0) == edges)[off].all()
    all_steps = edge_evidence(decoder(), spoilt, uniform, variance, False)
    assert ((all_steps[0].numpy() > 0) != edges)[off].any()


def test_tied_edges_add_up_both_directions():
    x, v, _ = team(12, seed=7, symmetric=False)
    variance = torch.full((FEATURES,), 1e-3, dtype=torch.float64)
    uniform = graph_of(torch.zeros(1, AGENTS, AGENTS)).double()
    free = edge_evidence(decoder(), states(x, v), uniform, variance, False)
    tied = edge_evidence(decoder(), states(x, v), uniform, variance, True)
    torch.testing.assert_close(tied, free + free.mT)
    assert (free - free.mT).abs().max() > 0.1


def test_log_odds_join_encoder_and_steps_within_bounds():
    nri = spring_nri(frames=12)
    x, v, edges = team(12, seed=8)
    on = edge_log_odds(nri, states(x, v).float(), torch.full((FEATURES,), STEP**2))
    off = ~np.eye(AGENTS, dtype=bool)
    assert ((on[0].numpy() > 0) == edges)[off].all()
    assert on.abs().max() <= LARGEST_LOG_ODDS
    torch.testing.assert_close(on, on.mT)
    vague = edge_log_odds(nri, states(x, v).float(), torch.full((FEATURES,), 1e9))  # the steps say nothing
    logits = torch.log(nri.graph(states(x, v).float()))
    expected = (logits[..., 1] - logits[..., 0])[0].numpy()
    np.testing.assert_allclose(vague[0].numpy()[off], ENCODER_SHARE * expected[off], atol=1e-4)
    gaps = torch.cat([torch.ones(5), torch.zeros(5)])
    vague = edge_log_odds(nri, states(x, v).float(), torch.full((FEATURES,), 1e9), gaps)
    np.testing.assert_allclose(vague[0].numpy()[off], ENCODER_SHARE * expected[off] / 2**GAP_CAUTION, atol=1e-4)


def test_graph_of_log_odds():
    edges = graph_of(torch.tensor([[[5.0, 3.0], [1 / 3, 0.2]]]).log())[0]
    torch.testing.assert_close(edges[0, 1], torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(edges[1, 0], torch.tensor([0.75, 0.25]))
    assert (edges.diagonal() == 0).all()
