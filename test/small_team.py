"""An untrained team bundle, small enough to be made and run within a test: 5 agents, windows of 8 frames, 2 hidden."""

from __future__ import annotations

from pathlib import Path

import torch

from siha_ros.model.bundle import BundleConfig, ErrorTable, Ranges, Training, save_bundle
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig

AGENTS, FRAMES, HORIZON = 5, 8, 50


def save_small_team(path: Path, agents: int = AGENTS) -> Path:
    """Write the bundle; its networks have random weights of seed 0."""
    torch.manual_seed(0)
    networks: dict[str, NRI | HiddenStatePredictor] = {
        "nri": NRI(NRIConfig(FRAMES, 4, encoder_width=16, decoder_width=16, output_gain=0.05, tied=True)),
        "nri_visible": NRI(NRIConfig(FRAMES, 4, encoder_width=16, decoder_width=16, output_gain=0.05, tied=True)),
    }
    for hidden in (1, 2):
        networks[f"hsp_sa_{hidden}"] = HiddenStatePredictor(HSPConfig(FRAMES, 4, hidden, width=16, heads=2))
        networks[f"hsp_sg_{hidden}"] = HiddenStatePredictor(
            HSPConfig(FRAMES, 4, hidden, width=16, heads=2, alphas=[0.0, 1e9])
        )
    table = ErrorTable([0.1, 1.0], [0.01, 0.1], [0.03, 0.3])
    config = BundleConfig(
        format=1,
        name="small_team",
        system="springs",
        purpose="tests",
        count=agents,
        agent_names=[],
        limbs={},
        dims=2,
        dt=0.1,
        window=FRAMES,
        horizon=HORIZON,
        frame="team",
        velocity="backward_difference",
        scale=Scale(4.0, 2.0),
        edge_types=["none", "spring"],
        max_hidden=2,
        hidden_sets=[],
        rounds=2,
        ranges=Ranges([agents, agents], [10.0, 1000.0], 100.0, 100.0),
        errors=dict.fromkeys(("siha", "hsp", "constant_velocity", "forecast"), table),
        training=Training("none", "none", 0, [], {"nri": 0}, {"nri": 0.5}, "none", {"torch": "2"}),
        metrics={"test": {"nri": {"accuracy": 50.0}}},
    )
    noise = {"step_variance": torch.full((4,), 1e-4), **{f"guess_variance_{h}": torch.full((4,), 0.1) for h in (1, 2)}}
    save_bundle(path, config, networks, {"noise": noise})
    return path
