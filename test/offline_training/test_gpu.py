"""The script for a machine with a GPU, on the CPU: its checks hold for the project's modules, and see what is off."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from offline_training import gpu, springs
from offline_training.config import load_config
from siha_ros.estimator import load_estimator
from siha_ros.model.bundle import load_bundle
from siha_ros.resources import bundle_path


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


class Clock:
    """Seconds that pass when the parts of a run say so."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def parts(monkeypatch):
    """A run whose checks take 100 s and whose trainings take their time and 10 s: (hidden, seconds) of each."""
    clock, trained = Clock(), []

    def checks(device):
        clock.now += 100
        exact = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
        return [{"name": "module", "difference": 0.0, "ok": exact == ("highest", False)}]

    def headline(device, seconds, out, hidden, budget):
        trained.append((hidden, seconds))
        clock.now += seconds + 10
        return {}

    precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    monkeypatch.setattr(gpu, "time", clock)
    for name, part in {"module_checks": checks, "captured_checks": lambda device: [], "headline": headline}.items():
        monkeypatch.setattr(gpu, name, part)
    for name, empty in {"BUNDLES": (), "ON_CPU": ()}.items():
        monkeypatch.setattr(gpu, name, empty)
    monkeypatch.setattr(gpu, "table", lambda report: "")
    yield trained
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = tf32


def test_the_time_that_is_left_goes_to_three_trainings(parts, tmp_path, capsys):
    """Of 480 s a fifth is kept and 100 are gone: half of the rest for two hidden, then half, then what is left. What
    the figures take is told as an overrun where it is one."""
    assert gpu.run("cpu", 480.0, tmp_path)
    assert parts == [(2, 142.0), (1, 66.0), (3, 56.0)]
    assert capsys.readouterr().out.splitlines()[-1] == "394 s"
    report = json.loads((tmp_path / "report.json").read_text())
    assert {"springs_1", "springs_2", "springs_3"} < set(report) and report["seconds"] == 394


def test_too_short_a_time_is_for_the_first_training_and_the_rest_is_said(parts, tmp_path, capsys):
    assert gpu.run("cpu", 120.0, tmp_path)
    assert parts == [(2, gpu.LEAST)]
    shown = capsys.readouterr().out.splitlines()
    assert shown[-2:] == ["Springs with 1, 3 hidden: no time is left", "140 s, 20 s more than the budget"]


HEADLINE = gpu.headline
TINY = [
    "hidden=2", "training=64", "validation=16", "nri_batch=8", "hsp_batch=8", "nri.encoder_width=8",
    "nri.decoder_width=8", "hsp.width=8", "stages.nri.steps=2", "stages.nri_visible.steps=2", "stages.hsp_sa.steps=2",
    "stages.hsp_sg.steps=2",
]  # fmt: skip


def test_it_runs_to_its_end(parts, tmp_path, monkeypatch, capsys):
    """All of it but checks and benches, in the small: figures, and a bundle that loads and names the command."""
    monkeypatch.setattr(gpu, "headline", HEADLINE)
    monkeypatch.setattr(gpu, "HEADLINE", (2,))
    monkeypatch.setattr(gpu, "TESTED", 80)
    monkeypatch.setattr(gpu, "fit_budget", lambda config, *given: load_config("springs", None, TINY))
    monkeypatch.setattr(springs, "CHECKS", 160)
    assert gpu.main(["--device", "cpu", "--budget", "2m", "--out", str(tmp_path)]) == 0
    done = json.loads((tmp_path / "report.json").read_text())["springs_2"]
    assert {"hsp_sa", "siha_paper"} <= set(done["figures"]) and (done["windows"], done["tested"]) == (64, 20)
    assert json.loads((tmp_path / "springs_2.json").read_text())["figures"] == done["figures"]
    bundle = load_estimator(tmp_path / done["bundle"], "cpu").bundle.config
    assert bundle.training.command == "python -m offline_training.gpu --device cpu --budget 120s"
    assert capsys.readouterr().out.splitlines()[-1] == "100 s"


def test_what_another_machine_or_budget_trained_is_not_told_as_this_one(parts, tmp_path, monkeypatch, capsys):
    """A trial on the CPU leaves trained networks; nothing slow runs before that is said."""
    arguments = ["--device", "cpu", "--budget", "2m", "--out", str(tmp_path)]
    assert gpu.main(arguments) == 0 and len(parts) == 1
    (tmp_path / "work_2" / "nri.pt").write_bytes(b"trained")
    assert gpu.main(arguments) == 0 and len(parts) == 2  # the same goes on
    assert gpu.main(["--device", "cpu", "--budget", "8m", "--out", str(tmp_path)]) == 2
    other = "holds a training with budget 120.0 (now 480.0): choose another folder, or remove it"
    assert capsys.readouterr().err == f"gpu: {tmp_path / 'work_2'} {other}\n"
    monkeypatch.setattr(gpu, "machine", lambda device: {"processor": "another"})
    assert gpu.main(arguments) == 2 and "(now another)" in capsys.readouterr().err
    assert len(parts) == 2


@pytest.mark.parametrize("name", gpu.BUNDLES)
def test_a_window_has_its_share_of_the_limit(name, monkeypatch, capsys):
    """Of 4 GFLOP/s in 50 ms. The messages' second layers alone, by hand: of each step of the forecast, of all pairs."""
    monkeypatch.setattr(gpu, "window_times", lambda estimator, repeats: {"paper_loop": {"p50": 50.0}})
    monkeypatch.setattr(gpu, "matrix_rates", lambda precision, device: (4e9, 1.0))
    loop = gpu.one_window(name, "cpu")["paper_loop"]
    assert loop["percent_of_matrix_rate"] == pytest.approx(100 * loop["gflop"] / 0.05 / 4)
    bundle = load_bundle(bundle_path(name))
    pairs = bundle.config.count * (bundle.config.count - 1)
    messages = 1e-9 * bundle.config.horizon * 2 * pairs * bundle.nri().config.decoder_width ** 2
    assert messages < loop["gflop"] < 10 * messages
    assert f"{name}, the paper's loop: 50.0 ms, {loop['gflop']:.2g} GFLOP" in capsys.readouterr().out


def test_no_gpu_is_said(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--device", "cuda"]) == 2
    assert "no CUDA device" in capsys.readouterr().err
