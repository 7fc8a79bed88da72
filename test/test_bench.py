"""The bench on a small bundle: every time is there, and the table shows them."""

from __future__ import annotations

from small_team import save_small_team

from siha_ros import bench


def test_bench_times_windows_and_training(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "TRAINING_SECONDS", 0.0)
    monkeypatch.setattr(bench, "BATCH", 2)
    monkeypatch.setattr(bench.training_speeds, "__defaults__", (0.0,))
    report = bench.bench([str(save_small_team(tmp_path / "small_team"))], repeats=3, threads=[1])
    times = report["windows"]["small_team"]["1"]
    assert set(times) == {"paper_loop", "paper_loop_eager", "never_seen", "all_seen", "lost"}
    assert all(0 < figures["least"] <= figures["p50"] <= figures["p99"] for figures in times.values())
    speeds = report["training_samples_per_second"]["1"]
    assert set(speeds) == {"nri", "hsp_sa", "hsp_sg"} and min(speeds.values()) > 0
    assert report["peak_memory_mb"]["training"] >= report["peak_memory_mb"]["windows"] > 0
    text = bench.table(report)
    assert "small_team, 1 threads, ms" in text and "paper_loop_eager" in text and "nri" in text and "MB" in text
