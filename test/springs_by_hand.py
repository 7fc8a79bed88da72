"""A decoder whose weights, set by hand, are linear springs exactly; those springs in plain numpy; a bundle of it.

All constants are powers of two, so that half precision holds the weights without rounding.
"""

from __future__ import annotations

import numpy as np
import torch

from siha_ros.model.bundle import BundleConfig, ErrorTable, Ranges, Training
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, Decoder, NRIConfig

DT = 0.125  # s
SPRING = 0.125  # 1/s^2, for unit masses
SCALE = Scale(4.0, 2.0)


def spring_nri(frames: int, dims: int = 2, width: int = 8, tied: bool = True) -> NRI:
    """An NRI with an untrained encoder and the decoder of :func:`set_springs`."""
    torch.manual_seed(0)
    nri = NRI(NRIConfig(frames, 2 * dims, encoder_width=width, decoder_width=4 * dims, tied=tied))
    set_springs(nri.decoder, dims)
    return nri.eval().requires_grad_(False)


@torch.no_grad()
def set_springs(decoder: Decoder, dims: int) -> None:
    """Messages: positive and negative part of sender minus receiver. Update: those of the change of velocity dv and of
    v + dv. So v' = v + dt k sum, x' = x + dt v'."""
    for parameter in decoder.parameters():
        parameter.zero_()
    eye, width = torch.eye(dims), 4 * dims
    positions, velocities = slice(0, dims), slice(dims, 2 * dims)
    plus, minus = slice(0, dims), slice(dims, 2 * dims)
    message1, message2 = decoder.message1[0], decoder.message2[0]
    for part, sign in ((plus, 1), (minus, -1)):
        message1.sender.weight[part, positions] = sign * eye
        message1.receiver.weight[part, positions] = -sign * eye
    message2.weight.copy_(torch.eye(width))
    heard = slice(2 * dims + plus.start, 2 * dims + plus.stop), slice(2 * dims + minus.start, 2 * dims + minus.stop)
    gain = DT * SPRING * SCALE.position / SCALE.velocity
    for unit, sign, moving in ((0, 1, 1), (1, -1, 1), (2, 1, 0), (3, -1, 0)):
        rows = slice(unit * dims, (unit + 1) * dims)
        decoder.update1.weight[rows, velocities] = moving * sign * eye
        decoder.update1.weight[rows, heard[0]] = sign * gain * eye
        decoder.update1.weight[rows, heard[1]] = -sign * gain * eye
    decoder.update2.weight.copy_(torch.eye(width))
    for unit, sign in ((0, 1), (1, -1)):
        columns = slice(unit * dims, (unit + 1) * dims)
        decoder.update3.weight[positions, columns] = sign * DT * SCALE.velocity / SCALE.position * eye
        decoder.update3.weight[velocities, slice((unit + 2) * dims, (unit + 3) * dims)] = sign * eye


def simulate(positions, velocities, edges, frames):
    """f8[A, T, P] positions (m) and velocities (m/s) from f8[A, P] on, edges bool[A, A] (sender, receiver): kick and
    drift in steps of DT."""
    x, v = [np.array(positions, float)], [np.array(velocities, float)]
    for _ in range(frames - 1):
        pull = np.zeros_like(x[0])
        for sender, receiver in np.argwhere(edges):
            pull[receiver] += x[-1][sender] - x[-1][receiver]
        v.append(v[-1] + DT * SPRING * pull)
        x.append(x[-1] + DT * v[-1])
    return np.stack(x, 1), np.stack(v, 1)


def harmonic(positions, velocities, edges, times, spring=SPRING):
    """f8[A, len(times), P] positions (m) of the same springs in continuous time, by their modes. Symmetric edges."""
    stiffness = spring * (np.diag(edges.sum(0)) - edges.astype(float))
    squared, modes = np.linalg.eigh(stiffness)
    rate = np.sqrt(np.maximum(squared, 0))[:, None]
    phase = rate * np.asarray(times)
    swing = np.where(rate > 1e-6, np.sin(phase) / np.maximum(rate, 1e-6), np.asarray(times))
    amplitudes = np.cos(phase)[..., None] * (modes.T @ positions)[:, None]
    amplitudes = amplitudes + swing[..., None] * (modes.T @ velocities)[:, None]
    return np.einsum("am,mtp->atp", modes, amplitudes)


def states(positions, velocities) -> torch.Tensor:
    """f8[A, T, P] (m, m/s) as normalised states ``[1, A, T, 2 P]`` in float64."""
    return SCALE.features(torch.from_numpy(positions), torch.from_numpy(velocities))[None]


def graph(edges) -> torch.Tensor:
    """bool[A, A] as edge types ``[1, A, A, 2]`` in float64, type 1 where there is an edge."""
    on = torch.from_numpy(np.asarray(edges, float))
    off = (1 - on).fill_diagonal_(0)
    return torch.stack([off, on], -1)[None]


def small_bundle_parts(frames=20, width=8):
    """Config, networks and tensors of a bundle of 7 agents and up to 2 hidden ones: the decoder by hand, untrained
    guesses that weigh next to nothing."""
    torch.manual_seed(0)
    networks: dict[str, NRI | HiddenStatePredictor] = {"nri": spring_nri(frames, width=width)}
    noise = {"step_variance": torch.full((4,), 1e-8)}
    for count in (1, 2):
        sizes = {"frames": frames, "features": 4, "hidden": count, "width": width, "heads": 2}
        networks[f"hsp_sa_{count}"] = HiddenStatePredictor(HSPConfig(**sizes)).eval()
        networks[f"hsp_sg_{count}"] = HiddenStatePredictor(HSPConfig(**sizes, alphas=[0.0, 1e9])).eval()
        noise[f"guess_variance_{count}"] = torch.full((4,), 1.0)
    for network in networks.values():
        network.requires_grad_(False)
    seconds = [0.0, 1.0, 4.0]
    errors = {
        "siha": ErrorTable(seconds, [0.01, 0.03, 0.05], [0.02, 0.07, 0.1]),
        "hsp": ErrorTable([0.0], [0.4], [1.0]),
        "constant_velocity": ErrorTable(seconds, [0.01, 0.2, 2.0], [0.03, 0.5, 5.0]),
        "forecast": ErrorTable(seconds, [0.0, 0.1, 0.4], [0.0, 0.3, 1.2]),
    }
    config = BundleConfig(
        format=1,
        name="by_hand",
        system="springs",
        purpose="tests: 7 agents on springs",
        count=7,
        agent_names=[],
        limbs={},
        dims=2,
        dt=DT,
        window=frames,
        horizon=8,
        frame="team",
        velocity="backward_difference",
        scale=SCALE,
        edge_types=["none", "spring"],
        max_hidden=2,
        hidden_sets=[],
        rounds=3,
        ranges=Ranges(agents=[7, 7], rate=[8.0, 1000.0], speed=3.0, extent=6.0),
        errors=errors,
        training=Training("none", "none", 0, [], {"nri": 1}, {"nri": 0.5}, "unknown", {"torch": "any"}),
        metrics={"mse": 0.1, "by_set": {"any": None}},
    )
    return config, networks, {"noise": noise}
