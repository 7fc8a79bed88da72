"""The script for a machine with a GPU, on the CPU: its checks hold for the project's modules, and see what is off."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from offline_training import gpu


def test_modules_in_single_precision_are_those_in_double():
    checks = gpu.module_checks("cpu")
    assert {name for name in (check["name"] for check in checks) if name.startswith("HSP")} == {
        "HSP-sa, loss and gradients",
        "HSP-sg, loss and gradients",
        "HSP-sa, convolutions, loss and gradients",
    }
    for check in checks:
        assert check["ok"], check
    assert max(check["difference"] for check in checks) > 0  # it is not the same precision that is compared


def test_the_loop_is_compared_with_the_eager_one():
    checks = gpu.captured_checks("cpu")
    assert len(checks) == 3 and all(check["ok"] for check in checks)


class Off(nn.Module):
    """Wrong by a given share wherever it runs in single precision."""

    def __init__(self, share):
        super().__init__()
        self.share, self.weight = share, nn.Parameter(torch.tensor([2.0, 4.0]))

    def forward(self, x):
        return [x * self.weight * (1 + self.share * (x.dtype == torch.float32))]


@pytest.mark.parametrize("share, ok", [(0.0, True), (1e-3, False)])
def test_a_difference_is_a_share_of_the_largest_number(share, ok):
    check = gpu.compared("off", Off(share), "cpu", lambda network, x: network(x), torch.tensor([1.0, 0.5]))
    assert check["ok"] == ok and check["difference"] == pytest.approx(share, abs=1e-7)


def test_no_gpu_is_said(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--device", "cuda"]) == 2
    assert "no CUDA device" in capsys.readouterr().err
