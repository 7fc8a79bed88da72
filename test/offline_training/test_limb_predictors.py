"""Predictors over the linear path: they learn what it lacks, from its own side of the mirror, and only that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from offline_training.body import best_share
from offline_training.datasets.body_states import BodyWindows
from offline_training.stages.limb_predictors import (
    Limb,
    LimbCache,
    centimetres,
    measure_gain,
    refine,
    split,
    train_limb_hsp_sa,
    train_limb_hsp_sg,
)
from offline_training.stages.loop import Schedule
from siha_ros.body_estimator import SETTLED
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig

AGENTS, FRAMES = 4, 5
LIMBS = {"left": Limb.of(np.array([2]), AGENTS), "right": Limb.of(np.array([3]), AGENTS)}
CONFIG = HSPConfig(FRAMES, 6, hidden=1, width=32, identities=AGENTS)


def windows(count, seed):
    """Joints 2 and 3 mirror each other; the linear path lacks the square of joint 1's height."""
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randn(count, AGENTS, 1, 3, generator=generator).repeat(1, 1, FRAMES, 1) * 0.3
    errors = torch.zeros_like(positions)
    errors[:, 2:, :, 0] = positions[:, 1, None, :, 2] ** 2
    return BodyWindows(positions, errors, torch.tensor([0, 1, 3, 2]), Scale(2.0, 4.0), 1 / 30)


def test_split_takes_the_completion_apart_from_the_truth():
    data = windows(3, 0)
    visible, first, truth = split(data, *data.batch(slice(None)), LIMBS["right"])
    torch.testing.assert_close(visible[:, 2, 0, :3], data.positions[:, 2, 0] / 2)
    torch.testing.assert_close((truth - first)[..., :3], data.errors[:, [3]] / 2)
    assert centimetres(data, first, truth) == pytest.approx(
        float(data.errors[:, 3].norm(dim=-1).mean()) * 100, rel=1e-4
    )


def test_batches_are_mirrored_as_a_whole():
    data = windows(6, 1)
    generator = torch.Generator().manual_seed(0)
    seen = {bool(torch.equal(data.batch(slice(None), generator)[0], data.positions)) for _ in range(12)}
    assert seen == {True, False}
    for _ in range(6):
        positions, errors = data.batch(slice(None), generator)
        if not torch.equal(positions, data.positions):
            torch.testing.assert_close(positions[:, 2], data.positions[:, 3] * torch.tensor([1.0, -1.0, 1.0]))
            torch.testing.assert_close(errors[:, 3], data.errors[:, 2] * torch.tensor([1.0, -1.0, 1.0]))


def test_the_gain_is_the_size_of_what_is_lacking():
    data = windows(400, 2)
    hidden = data.errors[::4, 2:]
    expected = float((hidden / 2).square().mean().sqrt())
    gain = measure_gain(data, LIMBS)
    assert gain.shape == (6,) and float(gain[0]) == pytest.approx(expected, rel=1e-4) and float(gain[3]) == 0.0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("limbs")
    data, validation = windows(512, 3), windows(100, 4)
    gain = torch.full((6,), float(measure_gain(data, LIMBS)[0]))
    hsp_sa = HiddenStatePredictor(CONFIG)
    schedule = Schedule(250, rate=3e-3, average=0.9, validate_every=50, bf16=False)
    figures = train_limb_hsp_sa("hsp_sa", folder, hsp_sa, data, validation, LIMBS, gain, schedule, batch=64)
    return folder, data, validation, gain, hsp_sa, figures


def test_hsp_sa_learns_what_the_linear_path_lacks(trained):
    *_, validation, _, _, figures = trained
    lacking = float(validation.errors[:, 2:].norm(dim=-1).mean()) * 100
    assert figures["cm"] < 0.4 * lacking
    assert figures["cm"] == pytest.approx((figures["cm_left"] + figures["cm_right"]) / 2)


def test_hsp_sg_goes_on_from_there_under_its_cache(trained):
    folder, data, validation, gain, hsp_sa, before = trained
    nri = NRI(NRIConfig(FRAMES, 6, encoder_width=8, decoder_width=8)).eval()
    hsp_sg = HiddenStatePredictor(replace(CONFIG, alphas=list(PAPER_ALPHAS)))
    hsp_sg.load_state_dict(hsp_sa.state_dict(), strict=False)
    cache = LimbCache(nri, data, LIMBS, gain)
    cache.fill(hsp_sa)
    assert cache.kept["left"].shape == (512, AGENTS, AGENTS)
    assert not cache.kept["left"].diagonal(dim1=1, dim2=2).any()
    schedule = Schedule(60, rate=1e-3, average=0.9, validate_every=30, bf16=False)
    figures = train_limb_hsp_sg(
        "hsp_sg", folder, hsp_sg, hsp_sa, nri, data, validation, LIMBS, gain, schedule,
        batch=64, warmup_epochs=3, refresh_epochs=2, rounds=2,
    )  # fmt: skip
    assert figures["cm"] < 1.5 * before["cm"]
    found = refine(validation, hsp_sa, hsp_sg, nri, LIMBS["left"], gain, rounds=2)
    _, _, truth = split(validation, *validation.batch(slice(None)), LIMBS["left"])
    assert centimetres(validation, found, truth) == pytest.approx(figures["cm_left"], rel=1e-3)


class Halving:
    """Networks of one number a sample: hidden states are the graph's, and the graph is half of them and a quarter."""

    def __init__(self, guided):
        self.guided = guided

    def __call__(self, visible, structure=None, names=None):
        value = structure[:, 0, 1] if self.guided else torch.zeros(len(visible))
        return value.view(-1, 1, 1, 1).expand(-1, 1, FRAMES, 6)

    @staticmethod
    def graph(states):
        return (0.5 * states[:, -1].mean((1, 2)) + 0.25).view(-1, 1, 1, 1).expand(-1, AGENTS, AGENTS, 2)


def test_windows_are_refined_until_they_settle_as_at_run_time():
    validation, limb = windows(40, 5), LIMBS["left"]
    validation = replace(validation, positions=10 * validation.positions, errors=0 * validation.errors)
    found = refine(validation, Halving(False), Halving(True), Halving(True), limb, torch.ones(6), rounds=8)
    _, first, _ = split(validation, *validation.batch(slice(None)), limb)
    took = []
    for sample, start in zip(found, first.mean((1, 2, 3)), strict=True):
        graphs = [0.5 * start + 0.25]
        while len(graphs) < 2 or abs(graphs[-1] - graphs[-2]) > SETTLED:
            graphs.append(0.5 * (start + graphs[-1]) + 0.25)
        assert float(sample.mean()) == pytest.approx(float(start + graphs[-2]), abs=1e-5)
        took.append(len(graphs) - 1)
    assert min(took) < max(took) < 8


def test_the_share_is_the_least_squares_one_within_bounds():
    rng = np.random.default_rng(0)
    added = rng.normal(size=(50, 2, 3))
    assert best_share(0.3 * added, added) == pytest.approx(0.3)
    assert best_share(-added, added) == 0.0 and best_share(3 * added, added) == 1.0
