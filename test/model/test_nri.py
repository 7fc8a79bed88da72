"""NRI against Kipf et al.'s formulation (one-hot relations, concatenated pairs, same weights), and by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from siha_ros.model.edges import incoming_to_matrix, matrix_to_incoming
from siha_ros.model.nri import NRI, PAIRS_AT_ONCE, NRIConfig, PairLinear

AGENTS, FRAMES, FEATURES = 4, 14, 3


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1)


def make_nri(**options) -> NRI:
    """A small model in float64 whose batch normalisations have seen something."""
    sizes = {"frames": FRAMES, "features": FEATURES, "encoder_width": 8, "decoder_width": 7} | options
    nri = NRI(NRIConfig(**sizes)).double().eval()
    for module in nri.modules():
        if isinstance(module, nn.BatchNorm1d):
            for tensor in (module.weight, module.bias, module.running_mean):
                nn.init.normal_(tensor)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return nri


def trajectories(batch=3, agents=AGENTS, frames=FRAMES) -> torch.Tensor:
    return torch.randn(batch, agents, frames, FEATURES, dtype=torch.float64)


def graphs(batch=3, agents=AGENTS, types=2) -> torch.Tensor:
    """Random edge types as the decoder takes them, ``[B, A, A - 1, K]``."""
    return torch.randn(batch, agents, agents - 1, types, dtype=torch.float64).softmax(-1)


# The reference. Edges are in Kipf's order, receiver-major, which is the incoming layout flattened.


def relations(agents):
    receivers, senders = torch.where(~torch.eye(agents, dtype=torch.bool))
    return F.one_hot(receivers).double(), F.one_hot(senders).double()


def node2edge(x):
    receive, send = relations(x.shape[1])
    return torch.cat([send @ x, receive @ x], -1)


def edge2node(x, agents):
    receive, _ = relations(agents)
    return receive.T @ x / agents


def joined(layer):
    """Weight and bias of the layer on concatenated pairs that a split one stands for."""
    if isinstance(layer, (nn.Linear, nn.Conv1d)):
        return layer.weight, layer.bias
    parts = [layer.sender, layer.receiver] + ([layer.edge] if getattr(layer, "edge", None) is not None else [])
    return torch.cat([part.weight for part in parts], 1), layer.receiver.bias


def normalise(norm, x):
    """Batch normalisation of ``x [rows, features]``."""
    mean, variance = (x.mean(0), x.var(0, unbiased=False)) if norm.training else (norm.running_mean, norm.running_var)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def kipf_mlp(mlp, x):
    weight, bias = joined(mlp.first)
    x = F.elu(x @ weight.T + bias)
    x = F.elu(x @ mlp.second.weight.T + mlp.second.bias)
    return normalise(mlp.norm, x.flatten(0, 1)).view_as(x)


def kipf_cnn(cnn, x):
    """Series ``[rows, channels, T]`` to one vector a row."""
    weight, bias = joined(cnn)
    x = F.relu(F.conv1d(x, weight, bias))
    x = normalise(cnn.norm1, x.transpose(1, 2).flatten(0, 1)).view(len(x), -1, x.shape[1]).transpose(1, 2)
    x = F.max_pool1d(x, 2)
    x = F.relu(F.conv1d(x, cnn.conv2.weight, cnn.conv2.bias))
    x = normalise(cnn.norm2, x.transpose(1, 2).flatten(0, 1)).view(len(x), -1, x.shape[1]).transpose(1, 2)
    value = F.conv1d(x, cnn.value.weight, cnn.value.bias)
    attention = F.conv1d(x, cnn.attention.weight, cnn.attention.bias).softmax(2)
    return (value * attention).mean(2)


def kipf_encoder(encoder, x):
    batch, agents, frames, _ = x.shape
    if encoder.config.encoder == "mlp":
        x = kipf_mlp(encoder.embed, x.reshape(batch, agents, -1))
        x = skip = kipf_mlp(encoder.pair1, node2edge(x))
    else:
        series = node2edge(x.reshape(batch, agents, -1))  # [B, E, 2 T F]
        send, receive = (half.reshape(batch * agents * (agents - 1), frames, -1) for half in series.chunk(2, -1))
        x = kipf_cnn(encoder.pair1[0], torch.cat([send, receive], -1).transpose(1, 2))
        x = skip = kipf_mlp(encoder.mix, x.view(batch, agents * (agents - 1), -1))
    x = kipf_mlp(encoder.node, edge2node(x, agents))
    x = kipf_mlp(encoder.pair2, torch.cat([node2edge(x), skip], -1))
    layers = [encoder.out] if encoder.config.out_layers == 1 else list(encoder.out)[::2]
    for layer in layers[:-1]:
        x = F.elu(x @ layer.weight.T + layer.bias)
    return x @ layers[-1].weight.T + layers[-1].bias


def kipf_step(decoder, x, edges):
    """States ``[B, A, D]``, edge types ``[B, E, K]``."""
    receive, _ = relations(x.shape[1])
    skipped = edges.shape[-1] - len(decoder.message1)
    messages = 0
    for kind in range(skipped, edges.shape[-1]):
        weight, bias = joined(decoder.message1[kind - skipped])
        message = F.relu(node2edge(x) @ weight.T + bias)
        message = F.relu(decoder.message2[kind - skipped](message))
        messages = messages + message * edges[..., kind : kind + 1]
    x_and_messages = torch.cat([x, receive.T @ messages], -1)
    return x + decoder.update3(F.relu(decoder.update2(F.relu(decoder.update1(x_and_messages)))))


# Encoder and decoder


@pytest.mark.parametrize("edge_features", [0, 5])
def test_pair_linear_is_the_linear_map_of_the_concatenated_pair(edge_features):
    layer = PairLinear(FEATURES, 6, edge_features).double()
    plain = nn.Linear(2 * FEATURES + edge_features, 6).double()
    plain.weight.data, plain.bias.data = joined(layer)
    nodes = torch.randn(2, AGENTS, FEATURES, dtype=torch.float64)
    edges = torch.randn(2, AGENTS, AGENTS - 1, edge_features, dtype=torch.float64)
    expected = plain(torch.cat([node2edge(nodes), edges.flatten(1, 2)], -1))
    out = layer(nodes, edges if edge_features else None)
    assert out.shape == (2, AGENTS, AGENTS - 1, 6)
    assert torch.allclose(out.flatten(1, 2), expected, atol=1e-12)


def test_pair_linear_starts_as_the_concatenated_layer_does():
    weight = joined(PairLinear(60, 100, 30))[0].detach()
    bound = 1 / math.sqrt(150)
    assert 0.99 * bound < weight.abs().max() <= bound
    assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("encoder", ["mlp", "conv"])
@pytest.mark.parametrize(("types", "layers"), [(2, 1), (3, 1), (2, 3)])
def test_encoder_is_that_of_kipf(encoder, types, layers, training):
    nri = make_nri(encoder=encoder, edge_types=types, out_layers=layers).train(training)
    x = trajectories()
    expected = kipf_encoder(nri.encoder, x)
    logits = nri.encoder(x)
    assert logits.shape == (3, AGENTS, AGENTS - 1, types)
    assert torch.allclose(logits.flatten(1, 2).double(), expected, atol=1e-5)
    assert expected.std() > 0.1


@pytest.mark.parametrize("pairs", [1, 2 * AGENTS * (AGENTS - 1)])
def test_convolutions_in_parts_are_those_of_kipf(monkeypatch, pairs):
    """One sample a part, and two and one."""
    monkeypatch.setattr("siha_ros.model.nri.CONVOLVED_AT_ONCE", pairs)
    nri, x = make_nri(encoder="conv"), trajectories()
    with torch.no_grad():
        assert torch.allclose(nri.encoder(x).flatten(1, 2).double(), kipf_encoder(nri.encoder, x), atol=1e-5)


@pytest.mark.parametrize("encoder", ["mlp", "conv"])
def test_difference_gain_adds_scaled_frame_differences_as_features(encoder):
    nri = make_nri(encoder=encoder, difference_gain=30.0)
    x = trajectories()
    difference = torch.zeros_like(x)
    difference[:, :, 1:] = 30 * (x[:, :, 1:] - x[:, :, :-1])
    expected = kipf_encoder(nri.encoder, torch.cat([x, difference], -1))
    assert torch.allclose(nri.encoder(x).flatten(1, 2).double(), expected, atol=1e-4)


@pytest.mark.parametrize("skip_first", [True, False])
@pytest.mark.parametrize("types", [2, 3])
def test_decoder_is_that_of_kipf(types, skip_first):
    decoder = make_nri(edge_types=types, skip_first=skip_first).decoder
    x, edges = trajectories()[:, :, 0], graphs(types=types)
    assert len(decoder.message1) == types - skip_first
    step = decoder(x, edges)
    assert torch.allclose(step, kipf_step(decoder, x, edges.flatten(1, 2)), atol=1e-12)
    assert (step - x).abs().mean() > 0.01


def test_type_zero_sends_nothing_when_skipped():
    nri = make_nri()
    x = trajectories()[:, :, 0]
    nothing = torch.zeros(3, AGENTS, AGENTS, 2, dtype=torch.float64)
    nothing[..., 0] = 1
    elsewhere = x.clone()
    elsewhere[:, 1:] += 1
    assert torch.equal(nri.step(x, nothing)[:, 0], nri.step(elsewhere, nothing)[:, 0])
    assert not torch.allclose(nri.step(x, 1 - nothing)[:, 0], nri.step(elsewhere, 1 - nothing)[:, 0])


def test_influence_goes_from_row_to_column():
    """One edge, 2 to 0: moving agent 2 moves agent 0's next state, and nothing else does."""
    nri = make_nri()
    graph = torch.zeros(1, AGENTS, AGENTS, 2, dtype=torch.float64)
    graph[0, 2, 0, 1] = 1
    x = trajectories(batch=1)[:, :, 0].requires_grad_()
    jacobian = torch.autograd.functional.jacobian(lambda x: nri.step(x, graph)[0].sum(-1), x)[:, 0].abs().sum(-1)
    off = ~torch.eye(AGENTS, dtype=torch.bool)
    assert torch.nonzero((jacobian > 0) & off).tolist() == [[0, 2]]


def test_output_gain_scales_the_first_guess():
    torch.manual_seed(0)
    plain = NRI(NRIConfig(FRAMES, FEATURES))
    torch.manual_seed(0)
    small = NRI(NRIConfig(FRAMES, FEATURES, output_gain=0.05))
    x, edges = trajectories()[:, :, 0].float(), graphs().float()
    assert torch.allclose(small.decoder(x, edges) - x, 0.05 * (plain.decoder(x, edges) - x), atol=1e-6)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("encoder", ["mlp", "conv"])
def test_agents_have_no_order(encoder, tied):
    nri = make_nri(encoder=encoder, tied=tied)
    x, order = trajectories(agents=5), torch.tensor([3, 0, 4, 1, 2])
    graph = nri.graph(x)
    assert torch.allclose(nri.graph(x[:, order]), graph[:, order][:, :, order], atol=1e-5)
    rollout = nri.forecast(x[:, :, -1], graph.double(), 3)
    assert torch.allclose(nri.forecast(x[:, order, -1], graph[:, order][:, :, order].double(), 3), rollout[:, order])


@pytest.mark.parametrize("batch, agents", [(1, 2), (1, 9), (6, 3)])
def test_any_number_of_samples_and_agents(batch, agents):
    nri = make_nri()
    x = trajectories(batch, agents)
    graph = nri.graph(x)
    assert graph.shape == (batch, agents, agents, 2)
    assert torch.allclose(graph.sum(-1), 1 - torch.eye(agents))
    assert nri.forecast(x[:, :, -1], graph.double(), 5).shape == (batch, agents, 5, FEATURES)


def test_tied_graph_is_symmetric_and_the_mean_of_both_directions():
    nri = make_nri(tied=True)
    x = trajectories()
    logits = incoming_to_matrix(nri.encoder(x))
    assert torch.equal(logits, logits.transpose(1, 2))
    free = incoming_to_matrix(kipf_encoder(nri.encoder, x).view(3, AGENTS, AGENTS - 1, 2))
    assert torch.allclose(logits.double(), (free + free.transpose(1, 2)) / 2, atol=1e-5)


def test_argmax_graph_is_the_likeliest_type_of_each_edge():
    probable, certain = make_nri(edge_types=3), make_nri(edge_types=3, argmax_graph=True)
    certain.load_state_dict(probable.state_dict())
    x = trajectories()
    graph = certain.graph(x)
    off_diagonal = ~torch.eye(AGENTS, dtype=torch.bool)
    assert torch.equal(graph.argmax(-1)[:, off_diagonal], probable.graph(x).argmax(-1)[:, off_diagonal])
    assert torch.equal(graph.sum(-1), off_diagonal.to(x).expand(3, -1, -1)) and set(graph.unique().tolist()) == {0, 1}


def test_message_passing_has_the_gradients_it_claims():
    decoder = make_nri(edge_types=3).decoder
    x = trajectories(batch=1)[:, :, 0].requires_grad_()
    edges = graphs(batch=1, types=3).requires_grad_()
    assert torch.autograd.gradcheck(decoder, (x, edges))
    layer = PairLinear(FEATURES, 4, 2).double()
    pairs = torch.randn(1, AGENTS, AGENTS - 1, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x, pairs))


def test_half_precision_is_close():
    nri = make_nri().float()
    x = trajectories().float()
    with torch.autocast("cpu", torch.bfloat16):
        graph, rollout = nri.graph(x), nri.forecast(x[:, :, -1], nri.graph(x), 3)
    assert graph.dtype == rollout.dtype == torch.float32
    assert torch.allclose(graph, nri.graph(x), atol=0.05)
    assert torch.allclose(rollout, nri.forecast(x[:, :, -1], nri.graph(x), 3), atol=0.05)


def test_wrong_input_is_said():
    with pytest.raises(ValueError, match=r"encoder input \(3, 4, 13, 3\), expected \[B, A, 14, 3\]"):
        make_nri().graph(trajectories(frames=13))
    with pytest.raises(ValueError, match="'cnn' is unknown, expected 'mlp' or 'conv'"):
        NRIConfig(FRAMES, FEATURES, encoder="cnn")
    with pytest.raises(ValueError, match="3 probabilities for 2 edge types"):
        NRIConfig(FRAMES, FEATURES, prior=[0.5, 0.3, 0.2])


# Roll-outs


@pytest.mark.parametrize("frames", [2, 10, 13, 14])
@pytest.mark.parametrize("every", [1, 4, 10, 50])
def test_predict_is_the_step_by_step_loop(frames, every):
    """True states are fed in at frames 0, every, 2 every, ..."""
    nri = make_nri(teacher_forcing=every)
    x, edges = trajectories(frames=frames), graphs()
    expected, state = [], None
    for frame in range(frames - 1):
        state = nri.decoder(x[:, :, frame] if frame % every == 0 else state, edges)
        expected.append(state)
    assert torch.allclose(nri.predict(x, edges), torch.stack(expected, 2), atol=1e-12)


@pytest.mark.parametrize("start", [0, 6, FRAMES - 1])
def test_forecast_goes_on_from_any_point(start):
    nri = make_nri()
    x, graph = trajectories(), incoming_to_matrix(graphs())
    state, expected = x[:, :, start], []
    for _ in range(4):
        state = nri.step(state, graph)
        expected.append(state)
    forecast = nri.forecast(x[:, :, start], graph, 4)
    assert torch.equal(forecast, torch.stack(expected, 2))
    one_on = kipf_step(nri.decoder, x[:, :, start], matrix_to_incoming(graph).flatten(1, 2))
    assert torch.allclose(forecast[:, :, 0], one_on)


# The evidence lower bound


class FixedLogits(nn.Module):
    """An encoder that says the same of every pair."""

    def __init__(self, *probabilities):
        super().__init__()
        self.logits = torch.tensor(probabilities).log()

    def forward(self, x):
        batch, agents = x.shape[:2]
        return self.logits.expand(batch, agents, agents - 1, -1)


def standing_nri(frames, **options) -> NRI:
    """A model that is sure that nothing moves, and that an edge has type 0 with probability 3/4."""
    nri = NRI(NRIConfig(frames, 1, output_gain=0.0, encoder_width=4, decoder_width=4, **options))
    nri.encoder = FixedLogits(0.75, 0.25)
    return nri


PAIR = torch.tensor([[[0.0], [1.0], [3.0]], [[0.0], [0.0], [2.0]]]).unsqueeze(0)  # two agents, three frames


def test_likelihood_by_hand():
    """Steps of 1 and 2 and of 0 and 2: (1 + 4 + 0 + 4) / (2 variance) / 2 agents; from frame 0 on 1 + 9 + 0 + 4."""
    for variance in (0.5, 5e-5):
        loss, parts = standing_nri(3, variance=variance, teacher_forcing=1).elbo_loss(PAIR)
        assert float(parts["nll"]) == pytest.approx(9 / (2 * variance) / 2)
        assert float(parts["mse"]) == pytest.approx(9 / 4)
        assert loss.item() == pytest.approx(float(parts["nll"] + parts["kl"]))
        _, parts = standing_nri(3, variance=variance, teacher_forcing=10).elbo_loss(PAIR)
        assert float(parts["nll"]) == pytest.approx(14 / (2 * variance) / 2)


@pytest.mark.parametrize(
    "prior, divergence",
    [
        (None, 0.75 * math.log(1.5) + 0.25 * math.log(0.5)),
        ([0.5, 0.5], 0.75 * math.log(1.5) + 0.25 * math.log(0.5)),
        ([0.9, 0.1], 0.75 * math.log(0.75 / 0.9) + 0.25 * math.log(2.5)),
        ([0.75, 0.25], 0.0),
    ],
)
def test_divergence_by_hand(prior, divergence):
    """Summed over the edges of a sample, divided by its agents: two edges for two agents, six for three."""
    nri = standing_nri(3, prior=prior)
    assert float(nri.elbo_loss(PAIR)[1]["kl"]) == pytest.approx(divergence, abs=1e-6)
    three = torch.cat([PAIR, PAIR[:, :1]], 1)
    assert float(nri.elbo_loss(three.expand(5, -1, -1, -1))[1]["kl"]) == pytest.approx(2 * divergence, abs=1e-6)


def test_loss_is_per_agent_whatever_the_batch():
    nri = standing_nri(3)
    assert nri.elbo_loss(PAIR.expand(6, -1, -1, -1))[0].item() == pytest.approx(nri.elbo_loss(PAIR)[0].item())


def test_loss_moves_encoder_and_decoder():
    nri = make_nri().float().train()
    loss, _ = nri.elbo_loss(trajectories().float())
    loss.backward()
    for name, parameter in nri.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def plain_loss(nri, x, every):
    """The bound as Kipf et al. write it, on the whole batch at once."""
    logits = kipf_encoder(nri.encoder, x).float().view(*x.shape[:2], x.shape[1] - 1, -1)
    edges, squared, state = nri.sample(logits).flatten(1, 2), 0, None
    for frame in range(x.shape[2] - 1):
        state = kipf_step(nri.decoder, x[:, :, frame] if frame % every == 0 else state, edges.double())
        squared = squared + (state - x[:, :, frame + 1]).square().sum()
    probabilities = logits.softmax(-1)
    divergence = (probabilities * (probabilities * logits.shape[-1]).log()).sum()
    return (squared / (2 * nri.config.variance) + divergence) / (x.shape[0] * x.shape[1])


def loss_and_gradients(nri, loss, x):
    torch.manual_seed(3)  # one sample of the edges
    value = loss()
    return [value, *torch.autograd.grad(value, [x, *nri.parameters()])]


@pytest.mark.parametrize("pairs", [1, 25, 80, 10_000])
@pytest.mark.parametrize("options", [{}, {"edge_types": 3, "skip_first": False}, {"tied": True}])
def test_loss_and_its_gradients_are_those_of_the_plain_form(monkeypatch, pairs, options):
    """In parts of one sample, of two, of all samples from two frames, and as whole as can be."""
    monkeypatch.setitem(PAIRS_AT_ONCE, "cpu", pairs)
    nri = make_nri(teacher_forcing=4, **options).train()
    x = trajectories().requires_grad_()
    found = loss_and_gradients(nri, lambda: nri.elbo_loss(x)[0], x)
    if not nri.config.tied:  # whose logits the reference does not know
        expected = loss_and_gradients(nri, lambda: plain_loss(nri, x, 4), x)
    else:
        monkeypatch.setitem(PAIRS_AT_ONCE, "cpu", 10_000)
        expected = loss_and_gradients(nri, lambda: nri.elbo_loss(x)[0], x)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4 * float(other.detach().abs().max()))
    assert all(float(gradient.detach().abs().max()) > 0 for gradient in found)


@pytest.mark.parametrize(("batch", "agents", "size"), [(128, 7, 128), (128, 10, 64), (8, 31, 4), (3, 90, 1)])
def test_parts_of_a_batch_are_of_one_size(batch, agents, size):
    parts = make_nri()._parts(torch.zeros(batch, agents, FRAMES, FEATURES), [0])
    assert [(part.start, part.stop) for _, part in parts] == [(k, k + size) for k in range(0, batch, size)]


def test_parts_of_a_batch_with_gaps_and_random_starts_add_up(monkeypatch):
    nri, x = make_nri(teacher_forcing=4).train(), trajectories().requires_grad_()
    known = torch.rand(x.shape) > 0.02
    results = []
    for pairs in (1, 10_000):
        monkeypatch.setitem(PAIRS_AT_ONCE, "cpu", pairs)
        results.append(loss_and_gradients(nri, lambda: nri.elbo_loss(x, 3, known)[0], x))
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6 * float(other.detach().abs().max()))


def test_half_precision_has_the_gradients_of_the_whole():
    nri, x = NRI(NRIConfig(FRAMES, FEATURES)).train(), 0.3 * torch.randn(16, AGENTS, FRAMES, FEATURES)
    gradients = []
    for enabled in (False, True):
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = nri.elbo_loss(x)[0]
        gradients.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(nri.parameters()))]))
    assert F.cosine_similarity(*gradients, dim=0) > 0.999


def test_random_starts_weigh_as_the_regular_ones():
    """In steady motion every start costs the same, so one random start is exact."""
    nri = standing_nri(11, teacher_forcing=5)
    x = torch.arange(11.0).view(1, 1, 11, 1) * torch.tensor([1.0, 2.0]).view(1, 2, 1, 1)
    regular = nri.elbo_loss(x)[1]["nll"]
    assert float(regular) == pytest.approx(2 * (1 + 4) * (1 + 4 + 9 + 16 + 25) / (2 * 5e-5) / 2)
    for starts in (1, 3):
        assert float(nri.elbo_loss(x, starts)[1]["nll"]) == pytest.approx(float(regular))


def test_random_starts_are_unbiased():
    """The mean over draws is that over all starts with room for a whole roll-out, times the roll-outs in a window."""
    nri = standing_nri(9, teacher_forcing=3, variance=0.5)
    x = torch.randn(2, 3, 9, 1)
    x[:, :, 0], x[:, :, -1] = 5, -5  # the first and the last start matter most
    costs = [(x[:, :, begin + 1 : begin + 4] - x[:, :, begin : begin + 1]).square().sum() / 6 for begin in range(6)]
    expected = float(torch.stack(costs).mean()) * 8 / 3
    with torch.no_grad():
        assert float(nri.elbo_loss(x, 10_000)[1]["nll"]) == pytest.approx(expected, rel=0.05)


# Sampling


def test_samples_have_the_probabilities_of_the_logits():
    nri = NRI(NRIConfig(FRAMES, FEATURES, edge_types=3))
    probabilities = torch.tensor([0.6, 0.3, 0.1])
    drawn = nri.sample(probabilities.log().expand(2000, 5, 4, 3)).argmax(-1)
    shares = torch.bincount(drawn.flatten(), minlength=3) / drawn.numel()
    assert torch.allclose(shares, probabilities, atol=0.01)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_sets_how_soft_a_sample_is(temperature):
    """Two types: log odds of a sample are (logit + logistic noise) / tau, so P(z > 0.9) = sigmoid(logit - tau ln 9)."""
    nri = NRI(NRIConfig(FRAMES, FEATURES, temperature=temperature))
    z = nri.sample(torch.tensor([0.0, 0.7]).expand(4000, 5, 4, 2))
    assert torch.allclose(z.sum(-1), torch.ones(4000, 5, 4), atol=1e-5)
    expected = torch.sigmoid(torch.tensor(0.7 - temperature * math.log(9)))
    assert float((z[..., 1] > 0.9).float().mean()) == pytest.approx(float(expected), abs=0.01)


def test_hard_samples_are_one_hot_with_the_gradient_of_soft_ones():
    logits = torch.randn(5, AGENTS, AGENTS - 1, 3, requires_grad=True)
    weights = torch.randn_like(logits)
    gradients, samples = [], []
    for hard in (False, True):
        nri = NRI(NRIConfig(FRAMES, FEATURES, edge_types=3, hard=hard))
        torch.manual_seed(4)
        samples.append(nri.sample(logits))
        gradients.append(torch.autograd.grad((samples[-1] * weights).sum(), logits)[0])
    soft, hard = samples
    assert torch.allclose(hard, F.one_hot(soft.argmax(-1), 3).float(), atol=1e-6)
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6) and gradients[0].abs().mean() > 0.01


def test_tied_samples_are_symmetric_and_pairs_independent():
    nri = NRI(NRIConfig(FRAMES, FEATURES, tied=True))
    z = incoming_to_matrix(nri.sample(torch.tensor([0.0, 1.0]).expand(4000, 3, 2, 2)))
    assert torch.equal(z, z.transpose(1, 2))
    pairs = torch.stack([z[:, 0, 1, 1], z[:, 0, 2, 1], z[:, 1, 2, 1]])
    assert (torch.corrcoef(pairs) - torch.eye(3)).abs().max() < 0.06
    assert float((pairs > 0.5).float().mean()) == pytest.approx(1 / (1 + math.exp(-1)), abs=0.015)


def test_free_samples_differ_by_direction():
    z = incoming_to_matrix(NRI(NRIConfig(FRAMES, FEATURES)).sample(torch.zeros(4000, 3, 2, 2)))
    assert abs(float(torch.corrcoef(torch.stack([z[:, 0, 1, 1], z[:, 1, 0, 1]]))[0, 1])) < 0.06
