"""Recordings, with a recorder that needs no GPU: static buffers, one recording a shape, and what happens where it
fails. scripts for a GPU check the real one."""

from __future__ import annotations

import pytest
import torch

from siha_ros.model.captured import Captured, Recording
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.refinement import Refined, Refinement


class Tape:
    """Plays a function back on static buffers, as a CUDA graph does."""

    def __init__(self, function, inputs, off=0.0):
        self.function, self.inputs, self.off, self.played = function, inputs, off, 0
        self.outputs = tuple(x.clone() for x in function(*inputs))

    def replay(self):
        self.played += 1
        for static, value in zip(self.outputs, self.function(*self.inputs), strict=True):
            static.copy_(value + self.off)


def recorder(tapes, off=0.0):
    def record(function, inputs):
        static = tuple(x.clone() for x in inputs)
        tapes.append(Tape(function, static, off))
        return Recording(tapes[-1], static, tapes[-1].outputs)

    return record


def test_each_shape_is_recorded_once_and_played_back():
    tapes = []
    captured = Captured(lambda a, b: (a + b, a * b), record=recorder(tapes))
    one, two = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])
    first = captured(one, two)
    second = captured(two, two)
    assert [x.tolist() for x in first] == [[6, 9], [5, 14]]  # the second call has not written over them
    assert [x.tolist() for x in second] == [[10, 14], [25, 49]]
    assert len(tapes) == 1 and tapes[0].played == 3  # one of them the check
    captured(torch.ones(3), torch.ones(3))
    assert len(tapes) == 2 and captured(one, two)[0].tolist() == [6, 9]


def test_a_wrong_recording_is_not_used():
    tapes = []
    captured = Captured(lambda a: (2 * a,), eager=lambda a: (a + a,), record=recorder(tapes, off=0.01))
    with pytest.warns(UserWarning, match=r"uncaptured and slower \(it differs by 1.0e-02\)"):
        assert captured(torch.ones(2))[0].tolist() == [2, 2]
    assert captured(torch.ones(2))[0].tolist() == [2, 2] and len(tapes) == 1


def test_what_cannot_be_recorded_goes_on_eagerly():
    def record(function, inputs):
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    captured = Captured(lambda a: (2 * a,), record=record)
    with pytest.warns(UserWarning, match="RuntimeError: operation not permitted when stream"):
        assert captured(torch.ones(2))[0].tolist() == [2, 2]


def test_on_a_cpu_the_eager_form_is_called():
    captured = Captured(lambda a: (2 * a,), eager=lambda a: (3 * a,))
    assert captured(torch.ones(1))[0].item() == 3


@pytest.mark.parametrize("tolerance", [0.0, 1e-3])
def test_a_recorded_refinement_is_the_eager_one(tolerance):
    """Also where the eager one stops early: the rounds after that change nothing."""
    torch.manual_seed(5)
    size = {"frames": 8, "features": 4}
    sa = HiddenStatePredictor(HSPConfig(**size, hidden=2, width=16)).eval()
    sg = HiddenStatePredictor(HSPConfig(**size, hidden=2, width=16, alphas=list(PAPER_ALPHAS))).eval()
    refinement = Refinement(sa, sg, NRI(NRIConfig(**size, encoder_width=16)).eval(), rounds=8)
    captured = Captured(lambda x: refinement.loop(x, None, tolerance, stop_early=False), record=recorder([]))
    stopped = []
    for _ in range(3):
        visible = torch.randn(1, 4, 8, 4)
        found, expected = Refined.of(*captured(visible)), refinement(visible, tolerance=tolerance)
        stopped.append(expected.rounds < 8)
        assert (found.rounds, found.change) == (expected.rounds, expected.change)
        for name in ("hidden", "moved", "graph"):
            assert torch.equal(getattr(found, name), getattr(expected, name))
    assert any(stopped) == (tolerance > 0)
