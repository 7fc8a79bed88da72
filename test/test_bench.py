"""The benches on a small bundle and on small cases: every time is there, and the tables show them."""

from __future__ import annotations

import json

import pytest
import torch
from small_team import save_small_team

from siha_ros import bench, bench_train
from siha_ros.bench_train import CASES, Case, Step
from siha_ros.cli import main
from siha_ros.machine import machine
from siha_ros.model import hidden_state

SMALL = {"nri_7": Case("nri", 3, batch=2, frames=12), "hsp_sa_7": Case("hsp_sa", 3, hidden=1, batch=2, frames=12)}


def test_bench_times_windows_and_training(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.training_speeds, "__defaults__", (0.0,))
    for name in bench.TRAINED:
        monkeypatch.setitem(CASES, name, Case(CASES[name].stage, 7, CASES[name].hidden, batch=2))
    report = bench.bench([str(save_small_team(tmp_path / "small_team"))], repeats=3, threads=[1])
    times = report["windows"]["small_team"]["1"]
    assert set(times) == {"paper_loop", "paper_loop_eager", "never_seen", "all_seen", "lost"}
    assert all(0 < figures["least"] <= figures["p50"] <= figures["p99"] for figures in times.values())
    speeds = report["training_samples_per_second"]["1"]
    assert set(speeds) == {"nri", "hsp_sa", "hsp_sg"} and min(speeds.values()) > 0
    assert report["peak_memory_mb"]["training"] >= report["peak_memory_mb"]["windows"] > 0
    text = bench.table(report)
    assert "small_team, 1 threads, ms" in text and "paper_loop_eager" in text and "nri" in text and "MB" in text


def test_flops_of_a_step_by_hand():
    """Two (a multiply, an add) for each weight and what it is applied to, three times: a forward and two backward
    products; and the sums of messages. The decoder makes 48 steps, in 5 roll-outs."""
    agents, pairs, width, features = 7, 7 * 6, 256, 4
    node = 2 * features * width + (features + width) * width + width**2 + width * features
    decoder = pairs * (width**2 + width) + agents * node
    first = agents * (49 * features * width + width**2) + agents * 2 * width**2 + pairs * width**2
    encoder = first + agents * 2 * width**2 + agents * 2 * width**2 + pairs * 2 * width**2 + pairs * width * 2
    expected = 6 * (48 * decoder + encoder)
    assert Step(Case("nri", 7, batch=2), "float32", "cpu").flops() / 2 == pytest.approx(expected, rel=0.002)
    assert expected == pytest.approx(1.14e9, rel=0.01)


def test_rows_hold_what_was_measured(tmp_path, monkeypatch):
    for name, case in SMALL.items():
        monkeypatch.setitem(CASES, name, case)
    rows = [bench_train.measure(name, "bf16", 0.0, "cpu", tmp_path) for name in SMALL]
    for row in rows:
        assert row["samples_per_second"] == pytest.approx(2e3 / sum(row["ms"].values()))
        share = (
            row["gflop_per_sample"] * row["samples_per_processor_second"] / row["matrix_gflops_per_processor_second"]
        )
        assert row["share_of_matrix_rate"] == pytest.approx(share)
        assert row["peak_memory_mb"] >= row["memory_at_start_mb"] > 0
    assert set(rows[1]["assignment_ms"]) == {"permutations", "scipy"} and "assignment_ms" not in rows[0]
    assert hidden_state.ENUMERATION_LIMIT == 5
    assert "aten::" in (tmp_path / "nri_7_bf16.txt").read_text()
    shares = [one["percent"] for one in rows[0]["operations"]]
    assert shares == sorted(shares, reverse=True) and len(shares) == bench_train.SHOWN and 0 < sum(shares) <= 100
    report = {"rows": rows[:1], "machine": machine("cpu"), "threads": 1, "device": "cpu"}
    for load, busy in ((0.0, False), (report["machine"]["cores"], True)):
        report["machine"]["load_before"] = [load] * 3
        assert ("busy with other work" in bench_train.head_line(report)) == busy
    first = rows[0]["operations"][0]
    assert f"{first['operation']} " in bench_train.table(report).split("where the time of nri_7, bf16 goes")[1]
    rows[0]["reference"] = {"samples_per_second": 50.0, "peak_memory_gb": 2.0}
    rows[0]["samples_per_second"] = 100.0
    shown = bench_train.table_rows({"rows": rows})
    assert shown[1][-3:] == ["50", "2.00", "2000"] and shown[2][-3:] == ["-", "-", "-"]


def test_the_peak_is_that_of_the_steps(monkeypatch):
    """The matrix rate is measured first; what the process held then is told apart."""
    monkeypatch.setitem(CASES, "nri_7", SMALL["nri_7"])
    asked = []
    rates, step = bench_train.matrix_rates, bench_train.Step
    monkeypatch.setattr(bench_train, "matrix_rates", lambda *given: (asked.append("rates"), rates(*given))[1])
    monkeypatch.setattr(bench_train, "Step", lambda *given: (asked.append("step"), step(*given))[1])
    monkeypatch.setattr(
        bench_train, "memory_mb", lambda device: (asked.append("memory"), 100.0 * asked.count("memory") ** 2)[1]
    )
    row = bench_train.measure("nri_7", "float32", 0.0, "cpu")
    assert asked == ["rates", "memory", "step", "memory"]
    head, shown = bench_train.table_rows({"rows": [row]})
    assert [shown[head.index(title)] for title in ("peak MB", "above start")] == ["400", "300"]


def test_bench_train_runs_each_case_in_a_process(tmp_path, capsys):
    files = ["--json", str(tmp_path / "train.json"), "--markdown", str(tmp_path / "train.md")]
    chosen = ["--cases", "hsp_sa_7", "--precision", "bf16", "--seconds", "0.01", "--threads", "1"]
    assert main(["bench", "train", *chosen, *files]) == 0
    report = json.loads((tmp_path / "train.json").read_text())
    assert [(row["case"], row["precision"]) for row in report["rows"]] == [("hsp_sa_7", "bf16")]
    assert report["threads"] == 1 and report["machine"]["torch"] == torch.__version__
    assert "| hsp_sa_7 | bf16 |" in (tmp_path / "train.md").read_text() and "hsp_sa_7" in capsys.readouterr().out


def test_what_cannot_be_benched_is_said(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "train", "--json", str(tmp_path / "none" / "train.json")])
    assert "does not exist" in capsys.readouterr().err
