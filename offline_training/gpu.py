"""``python -m offline_training.gpu``: all that a machine with a GPU is wanted for, prepared to fit in one short loan.

In this order, most telling first: every module against the same one on the CPU in float64; the captured loop of a
window against the eager one; the benches; then Springs at the largest budget that is left, with two hidden agents and
a bundle of it, with one and with three. Everything goes to one folder as soon as it is known. ``--device cpu --budget
2m`` tries it out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from offline_training.config import load_config
from offline_training.configured import fit_budget, load_windows
from offline_training.experiments.lab import ROUNDS, Lab, Setting, space_of
from offline_training.experiments.measure import all_figures
from offline_training.springs import finish_bundle
from offline_training.stages.logs import claim
from offline_training.team import train_team
from siha_ros.arguments import budget as budget_type
from siha_ros.bench import body_loops, stream_window, team_loops, window_times
from siha_ros.bench_train import CASES, matrix_rates, measure, table
from siha_ros.body_estimator import BodyEstimator
from siha_ros.estimator import TeamEstimator, choose_device, load_estimator
from siha_ros.machine import machine, precisions
from siha_ros.memory import keep_freed_memory
from siha_ros.model.captured import Captured
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig, align, reconstruction_error
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.refinement import Refinement
from siha_ros.replay.evaluate import network_answers

LIMIT = 1e-4  # of a float32 result, as a share of its largest number
METRES = 1e-3  # between estimates of two devices
REPEATS = {"cuda": 100, "cpu": 10}  # windows that are timed
RESERVE = 0.2  # of the budget, for figures and bundle after training
FULL = 480.0  # s of a budget from which on figures and deviations are of all their windows, else of a share
TESTED = 2000  # windows
HEADLINE = (2, 1, 3)  # hidden agents of Springs, of which the first gets half of the time and a bundle
LEAST = 30.0  # s that the first is trained for, however little is left, and without which no other is begun
MOST = 100.0  # times the config's schedule that a budget may buy
ON_CPU = ("nri_5", "hsp_sa_7", "hsp_sg_7")  # benches of a trial run
BUNDLES = ("springs_team", "body")


def run(device: str, budget: float, out: Path) -> bool:
    """Do it all within ``budget`` seconds, more or less; false where a check failed. Goes on from what is trained in
    ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    report: dict[str, Any] = {"schema": 1, "machine": machine(device), "device": device, "budget_s": budget}

    def done(part: str, content: Any) -> None:
        report[part] = content
        report["seconds"] = time.monotonic() - began
        (out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
        print(f"[{report['seconds']:.0f} s] {part}", flush=True)

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False  # convolutions
    checks = module_checks(device) + [estimator_check(name, device) for name in BUNDLES] + captured_checks(device)
    for check in checks:
        print(f"  {'ok  ' if check['ok'] else 'FAIL'} {check['name']}: {check['difference']:.1e}", flush=True)
    done("checks", checks)
    done("windows", {name: one_window(name, device) for name in BUNDLES})
    cases = ON_CPU if torch.device(device).type == "cpu" else tuple(CASES)
    seconds = min(2.0, budget / 300)
    kinds = precisions(torch.device(device).type)
    rows = [measure(case, precision, seconds, device) for case in cases for precision in kinds]
    trained = {"machine": report["machine"], "threads": torch.get_num_threads(), "device": device, "rows": rows}
    print(table(trained), flush=True)
    done("training", trained)
    for number, hidden in enumerate(HEADLINE):
        left = (1 - RESERVE) * budget - (time.monotonic() - began)
        if number and left < LEAST:
            print(f"Springs with {', '.join(map(str, HEADLINE[number:]))} hidden: no time is left", flush=True)
            break
        last = number + 1 == len(HEADLINE)
        done(f"springs_{hidden}", headline(device, max(LEAST, left if last else left / 2), out, hidden, budget))
    report["seconds"] = time.monotonic() - began
    over = report["seconds"] - budget
    print(f"{report['seconds']:.0f} s" + (f", {over:.0f} s more than the budget" if over > 0 else ""), flush=True)
    return all(check["ok"] for check in checks)


def claim_all(device: str, budget: float, out: Path) -> None:
    """Raises ValueError, in one line, where something is trained in ``out`` already, on another machine or in another
    time: the report would tell it as this run's."""
    for hidden in HEADLINE:
        claim(work_of(out, hidden), hidden=hidden, device=device, processor=machine(device)["processor"], budget=budget)


def work_of(out: Path, hidden: int) -> Path:
    """Where the networks for so many hidden agents are trained."""
    return out / f"work_{hidden}"


# correctness


def check(name: str, found: Sequence[Tensor], expected: Sequence[Tensor], limit: float = LIMIT) -> dict[str, Any]:
    """The largest difference, as a share of the largest expected number."""
    shares = [
        float((one.cpu().double() - other.double()).abs().max() / other.abs().max().clamp_min(1e-12))
        for one, other in zip(found, expected, strict=True)
    ]
    return {"name": name, "difference": max(shares), "limit": limit, "ok": max(shares) <= limit}


def compared(
    name: str, network: nn.Module, device: str, function: Callable[..., Sequence[Tensor]], *inputs: Tensor
) -> dict[str, Any]:
    """``function(network, *inputs)`` in float64 on the CPU and in float32 on the device."""
    expected = [tensor.detach() for tensor in function(network.double(), *(x.double() for x in inputs))]
    network = network.float().to(device)
    found = [tensor.detach() for tensor in function(network, *(x.float().to(device) for x in inputs))]
    return check(name, found, expected)


def module_checks(device: str) -> list[dict[str, Any]]:
    """Every module on random weights and inputs; losses with their gradients."""
    torch.manual_seed(0)
    agents, frames, features, seen = 7, 50, 4, 5
    x = 0.3 * torch.randn(6, agents, frames, features)
    graph = torch.rand(6, agents, agents - 1, 2).softmax(-1)
    noise = torch.empty(6, agents, agents - 1, 2).exponential_()
    # exact in half precision, as the structure cache holds it, and no two alike, between which alpha 1e9 would let
    # rounding choose
    upper = torch.triu_indices(agents, agents, 1)
    structure = torch.zeros(6, agents, agents)
    for sample in structure:
        sample[upper[0], upper[1]] = torch.randperm(upper.shape[1]) / 64
    structure = structure + structure.transpose(1, 2)

    def gradients(loss: Tensor, network: nn.Module) -> list[Tensor]:
        """The loss and its gradient as one vector: some of its parts are 0, and rounding is all that is in them."""
        return [loss, torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(network.parameters()))])]

    found = []
    for title, options in {
        "": {},
        ", convolutions": {"encoder": "conv"},
        ", tied, differences": {"tied": True, "difference_gain": 30.0},
    }.items():
        nri = NRI(NRIConfig(frames, features, **options)).eval()  # type: ignore[arg-type]
        found.append(compared(f"NRI encoder{title}", nri, device, lambda nri, x: [nri.encoder(x)], x))
    nri = NRI(NRIConfig(frames, features, output_gain=0.1)).eval()
    found.append(compared("NRI decoder, rolled out", nri, device, lambda nri, x, e: [nri.predict(x, e)], x, graph))

    def bound(nri: NRI, x: Tensor, noise: Tensor) -> list[Tensor]:
        return gradients(nri.elbo_loss(x, noise=noise)[0], nri)

    found.append(compared("NRI loss and gradients", nri, device, bound, x, noise))
    for title, embedding, alphas in (("sa", "mlp", ()), ("sg", "mlp", PAPER_ALPHAS), ("sa, convolutions", "conv", ())):
        hsp = HiddenStatePredictor(HSPConfig(frames, features, agents - seen, alphas=list(alphas), embedding=embedding))

        def loss(hsp: nn.Module, x: Tensor, a: Tensor) -> list[Tensor]:
            guess = hsp(x[:, :seen], a if hsp.config.alphas else None)  # type: ignore[union-attr, operator]
            return [guess, *gradients(reconstruction_error(guess, x[:, seen:]).mean(), hsp)]

        found.append(compared(f"HSP-{title}, loss and gradients", hsp, device, loss, x, structure))
    for slots in (3, 6):
        one, other = torch.randn(2, 8, slots, 20)
        found.append(
            check(f"slots matched, {slots}", [align(one.to(device), other.to(device))], [align(one, other)], 0.0)
        )
    return found


def estimator_check(name: str, device: str) -> dict[str, Any]:
    """Whole estimates of a shipped bundle on the device and on the CPU, in metres."""
    largest = 0.0
    here, there = load_estimator(name, "cpu"), load_estimator(name, device)
    for lost_at in (None, 0, here.bundle.config.window // 2):
        window = stream_window(here, 0.0, lost_at)
        one, other = here.estimate(window), there.estimate(window)
        largest = max(largest, float(abs(one.positions - other.positions).max()))
    return {"name": f"estimates of {name} (m)", "difference": largest, "limit": METRES, "ok": largest <= METRES}


def captured_checks(device: str) -> list[dict[str, Any]]:
    """The recorded refinement and forecast against the eager ones, for windows other than the recorded one."""
    torch.manual_seed(0)
    agents, frames, features, seen = 7, 50, 4, 5
    alphas = [0.0, 1.0, 5.0, 5.0]  # 1e9 makes a choice of what rounding decides
    hsp_sa, hsp_sg = (
        HiddenStatePredictor(HSPConfig(frames, features, agents - seen, alphas=part)).eval().to(device)
        for part in ([], alphas)
    )
    nri = NRI(NRIConfig(frames, features, output_gain=0.1)).eval().to(device)
    refinement = Refinement(hsp_sa, hsp_sg, nri, ROUNDS)

    @torch.inference_mode()
    def loop(visible: Tensor) -> tuple[Tensor, ...]:
        hidden, moved, graph, done, change = refinement.loop(visible, None, 0.0, stop_early=False)
        newest = torch.cat([visible[:, :, -1], hidden[:, :, -1]], 1)
        return hidden, moved, graph, done, change, nri.forecast(newest, graph, frames)

    captured = Captured(loop)
    captured(0.3 * torch.randn(1, seen, frames, features, device=device))
    found = []
    for number in range(3):
        visible = 0.3 * torch.randn(1, seen, frames, features, device=device)
        expected = [tensor.cpu() for tensor in loop(visible)]
        found.append(check(f"captured loop, window {number + 1}", captured(visible), expected))
    on_gpu = torch.device(device).type == "cuda"
    recorded = all(kept is not None for kept in captured._kept.values()) and bool(captured._kept)
    if on_gpu:
        found.append({"name": "the loop was captured", "difference": float(not recorded), "limit": 0.0, "ok": recorded})
    return found


# speed and accuracy


def one_window(name: str, device: str) -> dict[str, Any]:
    """ms of one window of a shipped bundle, as ``siha bench`` gives them; of the paper's loop also its operations in
    matrix products, and the share of the device's limit."""
    estimator = load_estimator(name, device)
    estimator.warm_up()
    times: dict[str, Any] = window_times(estimator, REPEATS[torch.device(device).type])
    assert isinstance(estimator, TeamEstimator | BodyEstimator)
    _, eager = team_loops(estimator) if isinstance(estimator, TeamEstimator) else body_loops(estimator)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        eager()
    loop, work = times["paper_loop"], float(counter.get_total_flops())
    share = 100 * work / (loop["p50"] / 1e3) / matrix_rates("float32", device)[0]
    times["paper_loop"] = loop | {"gflop": work / 1e9, "percent_of_matrix_rate": share}
    shown = f"{work / 1e9:.2g} GFLOP, {share:.2g} % of the matrix rate in float32"
    print(f"  {name}, the paper's loop: {loop['p50']:.1f} ms, {shown}", flush=True)
    return times


def headline(device: str, seconds: float, out: Path, hidden: int, budget: float) -> dict[str, Any]:
    """Springs trained in so many seconds: figures of the paper's table; and a bundle of the first."""
    work = work_of(out, hidden)
    work.mkdir(parents=True, exist_ok=True)
    config = fit_budget(load_config("springs", None, [f"hidden={hidden}"]), work, None, seconds, MOST, device, False)
    training, validation, _ = load_windows(config, None)
    plan = config.plan(len(training), training.agents, hidden, len(validation))
    modules = train_team(plan, training, validation, work, scale=1.0, seed=config.seed, device=device)
    share = min(1.0, budget / FULL)
    setting = Setting("springs", hidden)
    task = Lab(out / "lab", round(share * TESTED), device).task(setting)
    networks = {name: network.to(device) for name, network in modules.networks().items()}
    figures = all_figures(network_answers(networks, ROUNDS, task), task, space_of(setting))
    for network in networks.values():
        network.to("cpu")
    made = {"windows": len(training), "tested": len(task.states), "budget_s": seconds, "figures": figures}
    (out / f"springs_{hidden}.json").write_text(json.dumps(made, indent=2) + "\n")
    if hidden == HEADLINE[0]:
        command = f"python -m offline_training.gpu --device {device} --budget {budget:g}s"
        finish_bundle("fresh", out / "springs_fresh", work, modules, command, seed=config.seed, share=share)
        made["bundle"] = "springs_fresh"
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where all checks hold, 1 where one does not, 2 where it cannot run."""
    parser = argparse.ArgumentParser("python -m offline_training.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (default: %(default)s)")
    parser.add_argument("--budget", type=budget_type, default=480.0, metavar="8m", help="(default: 8m)")
    parser.add_argument("--out", type=Path, default=None, metavar="DIR", help="(default: gpu/DEVICE)")
    options = parser.parse_args(arguments)
    out = options.out or Path("gpu") / options.device
    keep_freed_memory()
    try:
        choose_device(options.device)
        claim_all(options.device, options.budget, out)
    except ValueError as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 2
    return 0 if run(options.device, options.budget, out) else 1


if __name__ == "__main__":
    sys.exit(main())
