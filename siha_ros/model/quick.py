"""Networks made quick for one window at a time on a CPU, where the cost is not arithmetic but the many small calls.

:func:`quick_nri` and :func:`quick_predictor` give networks of the same classes, with the same weights, that trace
themselves for each shape of input they meet with a batch of one (a moment each time: warm up). What is traced is
checked against the network itself; where it differs, or cannot be traced, the network itself goes on, and a warning
says so. Larger batches, training and other devices use the network itself; on a GPU a forecast is one CUDA graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from siha_ros.model.captured import Captured
from siha_ros.model.hidden_state import HiddenStatePredictor
from siha_ros.model.nri import NRI, Decoder, PairLinear

TOLERANCE = 1e-4  # largest difference, in normalised units, that a traced network may have
LARGEST_TRACES = 64  # shapes kept for each network


class Traced(nn.Module):
    """A network behind the same call, traced for each shape of its inputs; ``shape_of`` decides what may be traced."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network
        self._traces: dict[object, Callable[..., Tensor]] = {}

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """As the network's, which is called with these arguments."""
        given = [x for x in inputs if x is not None]
        if self.training or torch.is_grad_enabled() or given[0].device.type != "cpu" or given[0].shape[0] != 1:
            result: Tensor = self.network(*inputs)
            return result
        key = tuple(None if x is None else (tuple(x.shape), x.dtype) for x in inputs)
        trace = self._traces.get(key)
        if trace is None:
            if len(self._traces) >= LARGEST_TRACES:
                self._traces.clear()
            trace = self._traces[key] = self._trace(inputs, given)
        return trace(*given)

    def _trace(self, inputs: tuple[Tensor | None, ...], given: list[Tensor]) -> Callable[..., Tensor]:
        present = tuple(x is not None for x in inputs)
        plain = _Present(self.network, present).eval()
        try:
            with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
                warnings.simplefilter("ignore")  # that shapes become constants is what is wanted
                example = tuple(x.clone() for x in given)
                traced: Callable[..., Tensor] = torch.jit.freeze(torch.jit.trace(plain, example, check_trace=False))
                for _ in range(2):  # the second call is the one that is optimised
                    difference = float(torch.sub(traced(*example), plain(*example)).abs().max())
        except Exception as error:  # whatever a version of PyTorch may not like
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        else:
            if difference <= TOLERANCE:
                return traced
            reason = f"it differs by {difference:.1e}"
        warnings.warn(f"{type(self.network).__name__} runs untraced and slower ({reason})", stacklevel=2)
        return plain


class _Present(nn.Module):
    """A network called with those of its arguments that are given, None in place of the others."""

    def __init__(self, network: nn.Module, present: tuple[bool, ...]):
        super().__init__()
        self.network, self.present = network, present

    def forward(self, *given: Tensor) -> Tensor:
        left = iter(given)
        result: Tensor = self.network(*(next(left) if there else None for there in self.present))
        return result


class Rollout(nn.Module):
    """Open loop of a decoder over a number of steps for one window: the decoder's sums with the maps of a state merged
    into one, and pairs laid out as a full matrix, so that a step is a dozen calls."""

    def __init__(self, decoder: Decoder, steps: int):
        super().__init__()
        self.decoder, self.steps = decoder, steps

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        """States ``[1, A, D]`` and graph ``[1, A, A, K]`` to ``[1, A, steps, D]``."""
        decoder, agents, features = self.decoder, x.shape[1], x.shape[2]
        width = decoder.update2.in_features
        first: list[Tensor] = [decoder.update1.weight[:, :features]]
        bias: list[Tensor] = [decoder.update1.bias]
        for layer in decoder.message1:
            assert isinstance(layer, PairLinear)
            first += [layer.sender.weight, layer.receiver.weight]
            bias += [torch.zeros_like(layer.receiver.bias), layer.receiver.bias]
        merged, merged_bias = torch.cat(first).t().contiguous(), torch.cat(bias)
        second: list[tuple[Tensor, Tensor]] = []
        for linear in decoder.message2:
            assert isinstance(linear, nn.Linear)
            second.append((linear.weight.t().contiguous(), linear.bias))
        strengths = [graph[0, :, :, kind].t().unsqueeze(1).contiguous() for kind in decoder.used]  # receiver, 1, sender
        heard = decoder.update1.weight[:, features:].t().contiguous()
        inner, outer = decoder.update2.weight.t().contiguous(), decoder.update3.weight.t().contiguous()
        state, out = x[0], []
        for _ in range(self.steps):
            parts = torch.addmm(merged_bias, state, merged).split(width, 1)
            received = None
            for number, ((weight, shift), strength) in enumerate(zip(second, strengths, strict=True)):
                sender, receiver = parts[1 + 2 * number], parts[2 + 2 * number]
                message = torch.relu(sender.unsqueeze(0) + receiver.unsqueeze(1)).view(agents * agents, width)
                message = torch.relu(torch.addmm(shift, message, weight)).view(agents, agents, width)
                summed = torch.bmm(strength, message).squeeze(1)
                received = summed if received is None else received + summed
            assert received is not None
            hidden = torch.relu(torch.addmm(parts[0], received, heard))
            hidden = torch.relu(torch.addmm(decoder.update2.bias, hidden, inner))
            state = state + torch.addmm(decoder.update3.bias, hidden, outer)
            out.append(state)
        return torch.stack(out, 1).unsqueeze(0)


class QuickNRI(NRI):
    """An NRI, see :func:`quick_nri`."""

    def __init__(self, nri: NRI):
        nn.Module.__init__(self)
        self.config, self.decoder = nri.config, nri.decoder
        self.encoder = Traced(nri.encoder)  # type: ignore[assignment]
        self._rollouts: dict[int, Traced] = {}
        self._captured: dict[int, Captured] = {}
        self.eval()

    def forecast(self, x: Tensor, graph: Tensor, steps: int) -> Tensor:
        """As NRI's."""
        if not steps or torch.is_grad_enabled():
            return super().forecast(x, graph, steps)
        if x.device.type == "cuda":
            if steps not in self._captured:
                plain = super().forecast
                self._captured[steps] = Captured(lambda x, graph: (plain(x, graph, steps),))
            return self._captured[steps](x, graph)[0]
        if x.shape[0] != 1 or x.device.type != "cpu":
            return super().forecast(x, graph, steps)
        if steps not in self._rollouts:
            self._rollouts[steps] = Traced(Rollout(self.decoder, steps)).eval()
        result: Tensor = self._rollouts[steps](x, graph)
        return result


class QuickPredictor(HiddenStatePredictor):
    """A hidden-state predictor, see :func:`quick_predictor`."""

    def __init__(self, predictor: HiddenStatePredictor):
        nn.Module.__init__(self)
        self.config = predictor.config
        self._traced = Traced(_Unpacked(predictor))
        self.eval()

    def forward(
        self, visible: Tensor, structure: Tensor | None = None, names: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """As HiddenStatePredictor's."""
        seen, hidden = names or (None, None)
        result: Tensor = self._traced(visible, structure, seen, hidden)
        return result


class _Unpacked(nn.Module):
    """A predictor whose names come as two arguments."""

    def __init__(self, predictor: HiddenStatePredictor):
        super().__init__()
        self.predictor = predictor

    def forward(self, visible: Tensor, structure: Tensor | None, seen: Tensor | None, hidden: Tensor | None) -> Tensor:
        names = None if seen is None or hidden is None else (seen, hidden)
        result: Tensor = self.predictor(visible, structure, names)
        return result


def quick_nri(nri: NRI) -> NRI:
    """The same NRI, quick in ``encoder``, ``graph`` and ``forecast`` for a batch of one; it shares the weights, which
    must not change.
    """
    return QuickNRI(nri)


def quick_predictor(predictor: HiddenStatePredictor) -> HiddenStatePredictor:
    """The same hidden-state predictor, quick for a batch of one; it shares the weights, which must not change."""
    return QuickPredictor(predictor)
