"""Neural Relational Inference: the interaction graph from trajectories, and the dynamics under that graph.

Encoder and decoder of Kipf et al., "Neural Relational Inference for Interacting Systems" (ICML 2018), as the appendix
of the SIHA paper uses them. Shapes: trajectories ``[B, A, T, D]``, graphs as edge type probabilities ``[B, A, A, K]``
(sender row, receiver column, zero diagonal; see :mod:`siha_ros.model.edges`).

Layers on pairs of agents never see a concatenated pair: a linear map of ``[sender, receiver]`` is the sum of one linear
map of each, so it is computed once per agent and added per pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from siha_ros.model.edges import gather_senders, incoming_to_matrix, matrix_to_incoming
from siha_ros.model.frame import with_differences
from siha_ros.model.in_parts import sum_in_parts
from siha_ros.model.limits import above_zero, at_least

# Pairs of agents in a part of a batch that is rolled out at once, twice as many in half precision. Fewer take less
# memory and more time (docs/results.md); a GPU wants more.
PAIRS_AT_ONCE = {"cpu": 5800, "cuda": 2**18}
CONV_FRAMES = 14  # the least that two convolutions of 5 frames with pooling by 2 between leave anything of
CONVOLVED_AT_ONCE = 1000  # pairs, whose convolutions a processor's cache holds


@dataclass
class NRIConfig:
    """Hyper-parameters of an NRI model.

    frames: T, length of the encoded history. features: D, state size of an agent. edge_types: K.
    encoder: "mlp" (flattened trajectories) or "conv" (1-D convolutions over time with attentive pooling).
    difference_gain: 0 for the paper's encoder; otherwise frame differences times this gain go in as further features.
        Accelerations are some 100 times smaller than velocities in the normalised state, hard to find without.
    encoder_width, decoder_width: hidden sizes (paper: 256). dropout: paper 0.
    out_layers: of the encoder's last map, from pairs to edge types: 1 is Kipf's; the paper's encoder of motion capture
        has an MLP of 3 (appendix B), as static NRI has it there.
    skip_first: type 0 sends no message.
    tied: both directions of a pair share one sample (springs, charges); False in the paper. The divergence still counts
        both directions.
    output_gain: scale of the decoder's last layer at the start; 1 is PyTorch's default. Small steps start better.
    variance: fixed variance of the Gaussian likelihood. temperature, hard: of the Gumbel-Softmax sample.
    argmax_graph: the inferred graph A is the likeliest type of each edge instead of its probabilities.
    teacher_forcing: true states are fed in every so many steps.
    prior: edge type probabilities; None is uniform.
    """

    frames: int
    features: int
    edge_types: int = 2
    encoder: str = "mlp"
    difference_gain: float = 0.0
    encoder_width: int = 256
    decoder_width: int = 256
    dropout: float = 0.0
    out_layers: int = 1
    skip_first: bool = True
    tied: bool = False
    output_gain: float = 1.0
    variance: float = 5e-5
    temperature: float = 0.5
    hard: bool = False
    argmax_graph: bool = False
    teacher_forcing: int = 10
    prior: list[float] | None = None

    def __post_init__(self) -> None:
        if self.encoder not in ("mlp", "conv"):
            raise ValueError(f"encoder: {self.encoder!r} is unknown, expected 'mlp' or 'conv'")
        at_least(self, frames=2, features=1, edge_types=2, encoder_width=1, decoder_width=1, out_layers=1)
        at_least(self, teacher_forcing=1, difference_gain=0, dropout=0)
        above_zero(self, "variance", "temperature")
        if self.dropout >= 1:
            raise ValueError(f"dropout: {self.dropout:g}, expected less than 1")
        if self.encoder == "conv" and self.frames < CONV_FRAMES:
            raise ValueError(f"frames: {self.frames}, expected {CONV_FRAMES} or more with the encoder 'conv'")
        if self.prior is not None and len(self.prior) != self.edge_types:
            raise ValueError(f"prior: {len(self.prior)} probabilities for {self.edge_types} edge types")
        if self.prior is not None and (min(self.prior) < 0 or abs(sum(self.prior) - 1) > 1e-3):
            raise ValueError(f"prior: {self.prior}, expected probabilities that add up to 1")


class PairLinear(nn.Module):
    """A linear map of ``[sender, receiver]`` (and optionally of an edge feature), applied per agent and added per pair.

    Equal to ``nn.Linear(2 * features)(cat([sender, receiver]))`` on every ordered pair.
    """

    def __init__(self, features: int, out: int, edge_features: int = 0):
        super().__init__()
        self.sender = nn.Linear(features, out, bias=False)
        self.receiver = nn.Linear(features, out)
        self.edge = nn.Linear(edge_features, out, bias=False) if edge_features else None
        bound = 1.0 / math.sqrt(2 * features + edge_features)  # that of the concatenated layer
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, nodes: Tensor, edges: Tensor | None = None) -> Tensor:
        """``nodes [..., A, F]``, ``edges [..., A, A - 1, G]`` to ``[..., A, A - 1, out]`` (receiver, sender)."""
        out = gather_senders(self.sender(nodes)) + self.receiver(nodes).unsqueeze(-2)
        return out if self.edge is None or edges is None else out + self.edge(edges)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over all leading axes."""

    def forward(self, x: Tensor) -> Tensor:
        """``[..., F]``, normalised per feature."""
        return super().forward(x.flatten(0, -2)).view_as(x)


class MLP(nn.Module):
    """Two layers with ELU and batch normalisation (Kipf et al., appendix B); ``first`` is the first of them."""

    def __init__(self, first: nn.Module, width: int, dropout: float):
        super().__init__()
        self.first = first
        self.second = nn.Linear(width, width)
        self.norm = BatchNorm(width)
        self.dropout = dropout
        nn.init.xavier_normal_(self.second.weight)
        nn.init.constant_(self.second.bias, 0.1)

    def forward(self, *inputs: Tensor) -> Tensor:
        """What ``first`` takes to ``[..., width]``."""
        x = F.elu(self.first(*inputs))
        x = F.dropout(x, self.dropout, self.training)
        return self.norm(F.elu(self.second(x)))


class PairConvolution(nn.Module):
    """Convolutions over time on every ordered pair, pooled by attention to one vector a pair (Kipf's CNN encoder)."""

    def __init__(self, features: int, width: int, dropout: float):
        super().__init__()
        self.sender = nn.Conv1d(features, width, 5, bias=False)
        self.receiver = nn.Conv1d(features, width, 5)
        self.norm1 = nn.BatchNorm1d(width)
        self.conv2 = nn.Conv1d(width, width, 5)
        self.norm2 = nn.BatchNorm1d(width)
        self.value = nn.Conv1d(width, width, 1)
        self.attention = nn.Conv1d(width, 1, 1)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """``[B, A, T, F]`` to ``[B, A, A - 1, width]``."""
        if self.training or torch.is_grad_enabled() or x.is_cuda or torch.compiler.is_compiling():
            return self._all(x)
        pairs = x.shape[1] * (x.shape[1] - 1)
        # twice as fast as all at once, which goes through memory
        return torch.cat([self._all(part) for part in x.split(max(1, CONVOLVED_AT_ONCE // pairs))])

    def _all(self, x: Tensor) -> Tensor:
        batch, agents = x.shape[:2]
        series = x.flatten(0, 1).transpose(1, 2)
        sender = self.sender(series).view(batch, agents, -1)
        receiver = self.receiver(series).view(batch, agents, 1, -1)
        pairs = (gather_senders(sender) + receiver).view(batch * agents * (agents - 1), self.conv2.in_channels, -1)
        pairs = F.max_pool1d(self.norm1(F.relu(pairs)), 2)
        pairs = self.norm2(F.relu(self.conv2(F.dropout(pairs, self.dropout, self.training))))
        weights = torch.softmax(self.attention(pairs), -1)
        return (self.value(pairs) * weights).mean(-1).view(batch, agents, agents - 1, -1)


class Encoder(nn.Module):
    """Edge type logits from trajectories: two node-to-edge rounds with a skip connection (Kipf et al., eqs. 5-8)."""

    def __init__(self, config: NRIConfig):
        super().__init__()
        self.config = config
        width, dropout = config.encoder_width, config.dropout
        features = config.features * (2 if config.difference_gain else 1)
        if config.encoder == "mlp":
            self.embed = MLP(nn.Linear(config.frames * features, width), width, dropout)
            self.pair1: nn.Module = MLP(PairLinear(width, width), width, dropout)
        else:
            self.pair1 = nn.Sequential(PairConvolution(features, width, dropout))
            self.mix = MLP(nn.Linear(width, width), width, dropout)
        self.node = MLP(nn.Linear(width, width), width, dropout)
        self.pair2 = MLP(PairLinear(width, width, edge_features=width), width, dropout)
        sizes = [width] * config.out_layers + [config.edge_types]
        layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
        for layer in layers:
            nn.init.xavier_normal_(layer.weight)
            nn.init.constant_(layer.bias, 0.1)
        first, *more = layers
        self.out = nn.Sequential(first, *(part for layer in more for part in (nn.ELU(), layer))) if more else first

    def forward(self, x: Tensor) -> Tensor:
        """``[B, A, T, D]`` to logits ``[B, A, A - 1, K]`` (receiver, sender)."""
        agents, frames = x.shape[1:3]
        if frames != self.config.frames or x.shape[3] != self.config.features:
            raise ValueError(
                f"encoder input {tuple(x.shape)}, expected [B, A, {self.config.frames}, {self.config.features}]"
            )
        if self.config.difference_gain:
            x = with_differences(x, self.config.difference_gain)
        pairs = self.pair1(self.embed(x.flatten(2))) if self.config.encoder == "mlp" else self.mix(self.pair1(x))
        nodes = self.node(pairs.sum(2) / agents)
        logits = self.out(self.pair2(nodes, pairs)).float()
        if self.config.tied:
            matrix = incoming_to_matrix(logits)
            logits = matrix_to_incoming((matrix + matrix.transpose(1, 2)) / 2)
        return logits


class Decoder(nn.Module):
    """One step of the dynamics: messages by edge type, summed at the receiver, move it (Kipf et al., eqs. 10-12)."""

    def __init__(self, config: NRIConfig):
        super().__init__()
        self.config = config
        width = config.decoder_width
        self.used = range(1 if config.skip_first else 0, config.edge_types)
        self.message1 = nn.ModuleList(PairLinear(config.features, width) for _ in self.used)
        self.message2 = nn.ModuleList(nn.Linear(width, width) for _ in self.used)
        self.update1 = nn.Linear(config.features + width, width)
        self.update2 = nn.Linear(width, width)
        self.update3 = nn.Linear(width, config.features)
        with torch.no_grad():
            self.update3.weight.mul_(config.output_gain)
            self.update3.bias.mul_(config.output_gain)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """States ``[..., A, D]`` and edge types ``[..., A, A - 1, K]`` (receiver, sender) to the states one step on."""
        dropout = self.config.dropout
        received = x.new_zeros(())
        # layers see rows: what nn.Linear makes of more axes is a view, whose change in place costs a copy going back
        for layer, kind in enumerate(self.used):
            pairs = F.dropout(F.relu(self.message1[layer](x), inplace=True), dropout, self.training)
            message = F.relu(self.message2[layer](pairs.flatten(0, -2)), inplace=True).view(pairs.shape)
            received = received + (edges[..., kind].unsqueeze(-2).to(message.dtype) @ message).squeeze(-2)
        rows = torch.cat([x, received.to(x.dtype)], -1).flatten(0, -2)
        hidden = F.relu(self.update1(rows), inplace=True)
        hidden = F.relu(self.update2(F.dropout(hidden, dropout, self.training)), inplace=True)
        return x + self.update3(F.dropout(hidden, dropout, self.training)).to(x.dtype).view(x.shape)


class NRI(nn.Module):
    """Encoder, sampling and decoder with the evidence lower bound they are trained by."""

    def __init__(self, config: NRIConfig):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def graph(self, x: Tensor) -> Tensor:
        """Edge type probabilities ``[B, A, A, K]`` of trajectories ``[B, A, T, D]``, or the likeliest types one-hot:
        g_NRI of the paper."""
        logits = self.encoder(x)
        if self.config.argmax_graph:
            return incoming_to_matrix(F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype))
        return incoming_to_matrix(torch.softmax(logits, -1))

    def sample(self, logits: Tensor, noise: Tensor | None = None) -> Tensor:
        """Gumbel-Softmax sample of logits ``[B, A, A - 1, K]`` (appendix A.1); one-hot forward when ``hard``.

        noise: exponential, of the logits' shape; drawn where there is none.
        """
        noise = torch.empty_like(logits).exponential_() if noise is None else noise
        noise = noise.clamp_min(1e-20).log().neg()
        if self.config.tied:
            matrix = incoming_to_matrix(noise)
            upper = torch.triu(matrix.movedim(-1, 1), 1).movedim(1, -1)
            noise = matrix_to_incoming(upper + upper.transpose(1, 2))
        soft = torch.softmax((logits + noise) / self.config.temperature, -1)
        if not self.config.hard:
            return soft
        one_hot = F.one_hot(soft.argmax(-1), soft.shape[-1]).to(soft.dtype)
        return one_hot + soft - soft.detach()

    def step(self, x: Tensor, graph: Tensor) -> Tensor:
        """States ``[B, A, D]`` one step on under ``graph [B, A, A, K]``."""
        return self.decoder(x, matrix_to_incoming(graph))

    def forecast(self, x: Tensor, graph: Tensor, steps: int) -> Tensor:
        """Open loop from states ``[B, A, D]``: ``[B, A, steps, D]``, the first of them one step on."""
        edges = matrix_to_incoming(graph)
        out = []
        for _ in range(steps):
            x = self.decoder(x, edges)
            out.append(x)
        return torch.stack(out, 2)

    def predict(self, x: Tensor, edges: Tensor) -> Tensor:
        """Predictions of frames 1..T-1 of ``x [B, A, T, D]``, true states fed in every ``teacher_forcing`` steps.

        edges: ``[B, A, A - 1, K]``. Returns ``[B, A, T - 1, D]``.
        """
        frames, every = x.shape[2], self.config.teacher_forcing
        state = x[:, :, : frames - 1 : every].transpose(1, 2)  # [B, starts, A, D]
        edges = edges.unsqueeze(1)
        steps = []
        for _ in range(min(every, frames - 1)):
            state = self.decoder(state, edges)
            steps.append(state)
        return torch.stack(steps, 2).flatten(1, 2)[:, : frames - 1].transpose(1, 2)

    def elbo_loss(
        self, x: Tensor, starts: int | None = None, known: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Negative evidence lower bound per agent of trajectories ``[B, A, T, D]`` (appendix A.1).

        starts: None rolls out from every ``teacher_forcing``-th frame (the paper). A number rolls out from so many
        random frames instead, and scales the likelihood to the same weight, which is cheaper; frames near the ends are
        reached by fewer starts, so it is not quite the same bound.
        known: bool ``[B, A, T, D]``, false where a state was not measured; no such state is a target, and nothing that
        is rolled out from one counts. None: all were. noise: as in :meth:`sample`.
        Returns the loss and its parts (mean squared error, likelihood term, KL term).
        """
        config = self.config
        logits = self.encoder(x)
        probabilities = torch.softmax(logits, -1)
        likelihood, shown = self._likelihood(x, self.sample(logits, noise), starts, known)
        prior = probabilities.new_tensor(config.prior or [1.0 / config.edge_types] * config.edge_types)
        divergence = (probabilities * ((probabilities + 1e-16).log() - (prior + 1e-16).log())).sum()
        divergence = divergence / (x.shape[0] * x.shape[1])
        return likelihood + divergence, shown | {"kl": divergence.detach()}

    def taught_loss(
        self, x: Tensor, edges: Tensor, starts: int | None = None, known: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss per agent where something else says the edges, ``[B, A, A - 1, K]`` probabilities: the decoder moves
        under them, and the encoder learns to say them (cross-entropy). The rest: as in :meth:`elbo_loss`."""
        likelihood, shown = self._likelihood(x, edges, starts, known)
        missed = cross_entropy(self.encoder(x), edges)
        return likelihood + missed, shown | {"missed": missed.detach()}

    def _likelihood(
        self, x: Tensor, edges: Tensor, starts: int | None, known: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Negative log likelihood per agent of what is rolled out under ``edges``, and what is shown of it."""
        config = self.config
        (batch, agents, frames, features), every = x.shape, config.teacher_forcing
        if starts is None:
            begins, scale = list(range(0, frames - 1, every)), 1.0
        else:
            begins, scale = torch.randint(0, frames - every, (starts,)).tolist(), (frames - 1) / (starts * every)
        parts = self._parts(x, begins)
        squared = sum_in_parts(partial(self._squared, known), parts, [x, edges], list(self.decoder.parameters()))
        predicted = batch * agents * features * sum(min(every, frames - 1 - begin) for begin in begins)
        likelihood = scale * squared / (2 * config.variance) / (batch * agents)
        return likelihood, {"mse": squared.detach() / predicted, "nll": likelihood.detach()}

    def _parts(self, x: Tensor, begins: list[int]) -> list[tuple[list[int], slice]]:
        """Roll-outs of all samples from the frames ``begins``, as parts of some frames and samples: as large as
        :data:`PAIRS_AT_ONCE` says, and all of a part go over as many frames."""
        (batch, agents, frames, _), every = x.shape, self.config.teacher_forcing
        most = PAIRS_AT_ONCE[x.device.type] * (2 if torch.is_autocast_enabled(x.device.type) else 1)
        pairs = most // (agents * (agents - 1))
        samples = -(-batch // -(-batch // max(1, pairs)))  # parts of one size
        together = max(1, pairs // samples)
        whole = [begin for begin in begins if begin + every < frames]
        groups = [whole[first : first + together] for first in range(0, len(whole), together)]
        groups += [[begin] for begin in begins if begin + every >= frames]
        return [(group, slice(first, first + samples)) for group in groups for first in range(0, batch, samples)]

    def _squared(self, known: Tensor | None, x: Tensor, edges: Tensor, begins: list[int], samples: slice) -> Tensor:
        """Sum of the squared errors of roll-outs of some samples from their states in the frames ``begins``."""
        x, edges = x[samples], edges[samples].unsqueeze(1)
        state, target = x[:, :, begins].transpose(1, 2), _ahead(x, begins, self.config.teacher_forcing)
        rolled = []
        for _ in range(target.shape[3]):
            state = self.decoder(state, edges)
            rolled.append(state)
        squared = (torch.stack(rolled, 3) - target).square()
        if known is not None:
            known = known[samples]
            whole = known[:, :, begins].all(3).all(1)[:, :, None, None, None]
            squared = squared * (_ahead(known, begins, self.config.teacher_forcing) & whole)
        return squared.sum()


def _ahead(x: Tensor, begins: list[int], steps: int) -> Tensor:
    """The ``steps`` frames, or those there are, after each of S frames: ``[B, A, T, D]`` to ``[B, S, A, steps, D]``."""
    return torch.stack([x[:, :, begin + 1 : begin + 1 + steps] for begin in begins], 1)


def cross_entropy(logits: Tensor, edges: Tensor) -> Tensor:
    """Per agent, of logits ``[B, A, A - 1, K]`` with the probabilities of the edges that are taught."""
    return -(edges * torch.log_softmax(logits, -1)).sum() / (logits.shape[0] * logits.shape[1])
