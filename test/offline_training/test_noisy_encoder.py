"""NRI's encoder and noise: what it is shown is what the estimator shows it, and what it learns leaves the decoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from offline_training.datasets.simulated import springs_windows
from offline_training.springs import springs_plan
from offline_training.stages.logs import plot_curves, stage_rows
from offline_training.stages.loop import Schedule
from offline_training.stages.noisy_encoder import DEVIATIONS, NoisyWindows, train_noisy_encoder
from siha_ros.model.denoise import Noise
from siha_ros.model.edges import matrix_to_incoming
from siha_ros.model.nri import NRI, NRIConfig, cross_entropy
from siha_ros.window.grid import backward_difference

USUAL = 6.5e-8  # m^2


@pytest.fixture(scope="module")
def data():
    return springs_windows("any", "train", 64)


def noisy_windows(data) -> NoisyWindows:
    return NoisyWindows(data.positions.shape[2], USUAL, data.scale, data.dt)


def normal(states) -> torch.Tensor:
    return torch.randn(*states.shape[:3], 2, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("level", [1, 5, len(DEVIATIONS)])
def test_noise_is_smoothed_as_the_estimator_does(data, level):
    states = data.states(slice(0, 3), 5)
    noise = normal(states)
    found = noisy_windows(data).of(states, torch.full((3,), level), noise)
    deviation = DEVIATIONS[level - 1]
    for number in range(3):
        positions = (data.scale.split(states)[0][number] + deviation * noise[number]).double().numpy()
        smoothed = Noise(deviation**2, USUAL).smooth(positions, np.ones(positions.shape[:2], dtype=bool))
        expected = data.scale.features(torch.from_numpy(smoothed), torch.from_numpy(backward_difference(smoothed, 0.1)))
        torch.testing.assert_close(found[number].double(), expected, rtol=0, atol=2e-5)
    assert (found - states).abs().max() > 1e-4


def test_without_noise_windows_stay_as_they_are(data):
    states = data.states(slice(0, 3), 5)
    found = noisy_windows(data).of(states, torch.zeros(3, dtype=torch.long), normal(states))
    torch.testing.assert_close(found, states, rtol=0, atol=2e-5)


def test_half_of_the_windows_have_noise_and_half_precision_does_not_reach_it(data):
    windows, states = noisy_windows(data), data.states(slice(0, 2), 5)
    levels, noise = windows.draw(states, 2000, torch.Generator().manual_seed(0))
    assert noise.shape == (2000, *states.shape[1:3], 2)
    assert 900 < int((levels == 0).sum()) < 1100
    assert set(levels.tolist()) == set(range(len(DEVIATIONS) + 1))
    precise = windows.of(states, levels[:2], noise[:2])
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(windows.of(states, levels[:2], noise[:2]), precise, rtol=0, atol=0)


def test_cross_entropy_by_hand():
    logits = torch.tensor([[[[0.0, np.log(3.0)]], [[0.0, 0.0]]]])  # one window, two agents, one sender each
    taught = torch.tensor([[[[0.25, 0.75]], [[1.0, 0.0]]]])
    expected = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75) + np.log(0.5)) / 2
    assert float(cross_entropy(logits, taught)) == pytest.approx(expected)


def test_the_encoder_learns_and_the_decoder_stays(data, tmp_path):
    torch.manual_seed(0)
    nri = NRI(NRIConfig(data.positions.shape[2], 4, encoder_width=32, decoder_width=16, difference_gain=30.0))
    before = {name: weight.clone() for name, weight in nri.state_dict().items()}
    states = data.states(slice(None), 5)
    true = matrix_to_incoming(torch.nn.functional.one_hot(data.edges.long(), 2).float())
    by_window = {row[0, 0].tobytes(): edges for row, edges in zip(states.numpy(), true, strict=True)}

    def taught_by(states, known):
        return torch.stack([by_window[row[0, 0].tobytes()] for row in states.numpy()])

    metrics = train_noisy_encoder(
        "nri_noisy",
        tmp_path,
        nri,
        noisy_windows(data),
        taught_by,
        sample=lambda generator: states[torch.randint(0, len(states), (32,), generator=generator)],
        validation=states,
        edges=data.edges,
        schedule=Schedule(60, rate=3e-3, validate_every=20),
        batch=32,
    )
    changed = {name.split(".")[0] for name, weight in nri.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == {"encoder"}
    plot_curves(tmp_path)
    assert (tmp_path / "curves.png").stat().st_size > 1000
    rows = stage_rows(tmp_path)
    assert rows["nri_noisy"]["step"] == 60
    at_random = (nri.config.edge_types - 1) * 6 * np.log(2)
    assert metrics["missed_both"] == metrics["missed"] + metrics["missed_noisy"] < 2 * 0.9 * at_random
    assert metrics["accuracy"] > 65
    assert metrics["accuracy_noisy"] > 55


def test_noise_is_met_beside_the_model_that_teaches_alone():
    plan = springs_plan("any", (1,))
    with pytest.raises(ValueError, match="noisy 0.25: expected evidence above 0"):
        replace(plan, evidence=0.0)
    assert replace(plan, evidence=0.0, noisy=0.0).nri == plan.nri
