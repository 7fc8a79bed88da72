"""Training in two real processes under torchrun: the same as in one, and one of them writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from offline_training.stages import processes
from siha_ros.cli import main

ROOT = Path(__file__).parents[2]
SETTINGS = [
    "training=400", "validation=8", "frames=16", "nri_batch=8", "hsp_batch=8", "nri.encoder_width=8",
    "nri.decoder_width=8", "hsp.width=8", "warmup_epochs=0.05", "refresh_epochs=0.05", "seed=3", "visible_only=false",
    "stages.*.steps=12",
]  # fmt: skip


NO_GRADIENT = {  # but for rounding, whose sign Adam follows: biases before batch normalisation and softmax
    "encoder.node.second.bias",
    "encoder.node.norm.running_mean",
    "encoder.mix.second.bias",
    "encoder.mix.norm.running_mean",
    "encoder.pair1.0.attention.bias",
}


def arguments(folder: Path) -> list[str]:
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["kuramoto.yaml", "--paper", "--threads", "1", "--work", str(folder), *settings]


def test_two_processes_train_as_one_does(tmp_path, capsys):
    """Batch normalisation, sampling noise, cache refreshes and all: same losses, same weights within rounding."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "offline_training"]
    run = subprocess.run(
        [*command, *arguments(tmp_path / "together")],
        capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}, timeout=500,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert sum("nri 12/12" in line for line in run.stdout.splitlines()) == 1  # one of them speaks
    assert main(["train", *arguments(tmp_path / "alone")]) == 0
    together, alone = (json.loads((tmp_path / place / "result.json").read_text()) for place in ("together", "alone"))
    for stage, row in alone["stages"].items():
        mine = together["stages"][stage]
        assert mine["samples"] == row["samples"] == 12 * 8
        for key in ("train_loss", "mse"):
            assert mine[key] == pytest.approx(row[key], rel=1e-4)
    written = [
        {path.name for path in (tmp_path / place).rglob("*") if not path.name.startswith("events.")}  # of TensorBoard
        for place in ("together", "alone")
    ]
    assert written[0] == written[1]
    for name in ("nri", "hsp_sa_2"):
        ours, theirs = (
            load_file(tmp_path / place / "weights" / f"{name}.safetensors") for place in ("together", "alone")
        )
        apart = {key for key, value in theirs.items() if not torch.allclose(ours[key], value, atol=1e-5)}
        assert apart <= NO_GRADIENT
    ours, theirs = (
        torch.load(tmp_path / place / "hsp_sg_2.pt")["kept"][0]["structure"] for place in ("together", "alone")
    )
    assert ours.shape == (400, 7, 7) and torch.allclose(ours.float(), theirs.float(), atol=0.02)


def test_one_process_shares_with_nobody():
    batch = torch.arange(6.0)
    assert torch.equal(processes.share(batch), batch) and torch.equal(processes.mean(batch), batch)
    assert processes.agreed(lambda: 5) == 5
    with pytest.raises(OSError, match="disk"):
        processes.agreed(lambda: (_ for _ in ()).throw(OSError("disk")))


@pytest.mark.parametrize("shape", [(12, 3), (4, 5, 3)])
def test_batch_normalisation_by_all_processes_is_pytorchs_where_there_is_one(shape, monkeypatch):
    """With all_reduce as the identity; the features are the last axis of two, the middle one of three."""
    monkeypatch.setattr(processes, "all_reduce", lambda tensor: tensor)
    torch.manual_seed(0)
    plain, ours = (nn.BatchNorm1d(5 if len(shape) == 3 else 3) for _ in range(2))
    for _ in range(3):
        x = torch.randn(shape, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        expected, found = plain(x), processes._normalise(ours, y)
        assert torch.allclose(found, expected, atol=1e-5)
        (expected.square() * torch.arange(shape[-1])).sum().backward()
        (found.square() * torch.arange(shape[-1])).sum().backward()
        assert torch.allclose(x.grad, y.grad, atol=1e-4)
    assert all(torch.allclose(ours.state_dict()[key], value, atol=1e-6) for key, value in plain.state_dict().items())
    assert torch.allclose(processes._normalise(ours.eval(), x), plain.eval()(x), atol=1e-5)


def test_batches_are_shared_out_in_order(monkeypatch):
    batch = torch.arange(6)
    monkeypatch.setattr(processes, "count", lambda: 3)
    parts = []
    for number in range(3):
        monkeypatch.setattr(processes, "number", lambda number=number: number)
        parts.append(processes.share(batch).tolist())
    assert parts == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="a batch of 5 cannot be shared out evenly to 3 processes"):
        processes.share(batch[:5])
