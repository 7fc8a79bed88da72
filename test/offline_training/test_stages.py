"""Training stages: killed and resumed runs, what is kept, schedule of the structure cache, no labels in training."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from offline_training.stages import hsp_sg as hsp_sg_module
from offline_training.stages import loop, precision, processes
from offline_training.stages.hsp_sa import hsp_sa_stage
from offline_training.stages.hsp_sg import StructureCache, hsp_sg_stage
from offline_training.stages.loop import Averaged, Schedule, Stage, optimisers, read_note, train, write_atomically
from offline_training.stages.nri import evaluate_nri, train_nri
from offline_training.stages.together import together
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig, reconstruction_error
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.refinement import Refinement

AGENTS, VISIBLE, FRAMES, FEATURES = 4, 3, 6, 2
COUNT, BATCH, STEPS = 8, 4, 16
SCHEDULE = Schedule(STEPS, rate=1e-2, validate_every=5)
FIRST, EVERY = 6, 4  # first refresh of the structure cache and steps between two: 3 and 2 epochs of two steps
KEEP_EVERY_STEP, KEEP_NONE = -1.0, 1e9  # seconds between checkpoints


def dataset() -> torch.Tensor:
    """``[COUNT, A, T, D]``; the hidden agent, the last one, is where the visible ones are on average."""
    states = torch.randn(COUNT, AGENTS, FRAMES, FEATURES, generator=torch.Generator().manual_seed(7))
    states[:, VISIBLE:] = states[:, :VISIBLE].mean(1, keepdim=True)
    return states


DATA = dataset()


def make_nri(seed) -> NRI:
    torch.manual_seed(seed)
    return NRI(NRIConfig(FRAMES, FEATURES, encoder_width=8, decoder_width=8, teacher_forcing=3)).eval()


def make_hsp(seed, *, guided=False) -> HiddenStatePredictor:
    torch.manual_seed(seed)
    alphas = list(PAPER_ALPHAS) if guided else []
    return HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, AGENTS - VISIBLE, width=8, alphas=alphas)).eval()


class Killed(BaseException):
    pass


class Source:
    """Training samples that note what was asked for, until the run is killed at a given draw."""

    def __init__(self, kill_at=None):
        self.kill_at, self.indices, self.numbers = kill_at, [], []

    def states(self, index, generator):
        if generator is not None:
            if len(self.indices) == self.kill_at:
                raise Killed
            self.indices.append(index)
        return DATA[index]

    def sample(self, generator):
        return self.states(torch.randint(0, COUNT, (BATCH,), generator=generator), generator)


def run_nri(folder, model_seed, schedule, source, edges=None):
    nri = make_nri(model_seed)
    metrics = train_nri("nri", folder, nri, source.sample, DATA, edges, schedule, batch=BATCH, starts=1)
    return nri, metrics


def run_hsp_sa(folder, model_seed, schedule, source):
    hsp = make_hsp(model_seed)
    stage = hsp_sa_stage(hsp, source.sample, DATA, visible=VISIBLE, batch=BATCH)
    return hsp, train("hsp_sa", folder, stage, schedule, batch=BATCH)


def run_partly_seen(folder, model_seed, schedule, source):
    torch.manual_seed(model_seed)
    hsp = HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, AGENTS - VISIBLE, width=8, seen_frames=True))
    stage = hsp_sa_stage(hsp, source.sample, DATA, visible=VISIBLE, batch=BATCH)
    metrics = train("hsp_sa", folder, stage, schedule, batch=BATCH)
    assert set(metrics) == {"mse", "mse_absent"}
    return hsp, metrics


def run_together(folder, model_seed, schedule, source):
    """Predictors of one and of two hidden agents in one stage; the hidden ones are where the others are on average."""
    torch.manual_seed(model_seed)
    stages = {}
    for hidden in (1, 2):
        hsp, visible, states = (
            HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, hidden, width=8)),
            AGENTS - hidden,
            DATA.clone(),
        )
        states[:, visible:] = states[:, :visible].mean(1, keepdim=True)

        def sample(generator, hidden=hidden, states=states):
            source.sample(generator)
            source.numbers.append(hidden)
            return states[source.indices[-1]]

        stages[hidden] = hsp_sa_stage(hsp.eval(), sample, states, visible=visible, batch=BATCH)
    stage = together(stages)
    return stage.model, train("hsp_sa", folder, stage, schedule, batch=BATCH)


def run_hsp_sg(folder, model_seed, schedule, source):
    hsp = make_hsp(model_seed, guided=True)
    stage = hsp_sg_stage(
        "hsp_sg", hsp, make_hsp(20), make_nri(21), source.states, COUNT, DATA,
        visible=VISIBLE, batch=BATCH, warmup_epochs=3, refresh_epochs=2, rounds=2,
    )  # fmt: skip
    return hsp, train("hsp_sg", folder, stage, schedule, batch=BATCH)


def run_together_guided(folder, model_seed, schedule, source):
    """HSP-sg of one and of two hidden agents in one stage, each with a structure cache of its own."""
    stages = {}
    for hidden in (1, 2):
        predictors = []
        for seed, alphas in ((model_seed, list(PAPER_ALPHAS)), (20, [])):
            torch.manual_seed(seed)
            config = HSPConfig(FRAMES, FEATURES, hidden, width=8, alphas=alphas)
            predictors.append(HiddenStatePredictor(config).eval())
        stages[hidden] = hsp_sg_stage(
            "hsp_sg", *predictors, make_nri(21), source.states, COUNT, DATA,
            visible=AGENTS - hidden, batch=BATCH, warmup_epochs=3, refresh_epochs=2, rounds=2,
        )  # fmt: skip
    stage = together(stages)
    return stage.model, train("hsp_sg", folder, stage, schedule, batch=BATCH)


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)


# The loop


@pytest.mark.parametrize(
    ("run", "optimiser"),
    [
        (run_nri, "adam"),
        (run_hsp_sa, "adam"),
        (run_hsp_sa, "muon"),
        (run_partly_seen, "muon"),
        (run_together, "muon"),
        (run_together_guided, "muon"),
    ],
)
def test_a_run_killed_twice_ends_as_one_that_never_was(run, optimiser, tmp_path):
    """Killed in step 7 right after a checkpoint, and in step 13 with the checkpoint of step 7."""
    schedule = replace(SCHEDULE, optimiser=optimiser)
    whole, metrics = run(tmp_path / "whole", 1, schedule, Source())
    for seed, kill_at, seconds in ((1, 7, KEEP_EVERY_STEP), (2, 6, KEEP_NONE)):  # draws are counted from the last start
        with pytest.raises(Killed):
            run(tmp_path / "killed", seed, replace(schedule, checkpoint_seconds=seconds), Source(kill_at))
    rest, log = Source(), next((tmp_path / "killed").glob("*.jsonl"))
    with log.open("a") as file:
        file.write('{"stage": "cut off by the ki')
    resumed, resumed_metrics = run(tmp_path / "killed", 3, schedule, rest)
    assert len(rest.indices) == STEPS - 7
    rows = [json.loads(line)["step"] for line in log.read_text().splitlines()]
    assert rows == [5, 10, 15, 16]  # the step validated twice is logged once
    assert same_weights(resumed, whole) and resumed_metrics == metrics
    assert not same_weights(run(tmp_path / "other", 2, schedule, Source())[0], whole)


def test_muon_orthogonalises_the_steps_of_matrices_and_leaves_the_rest_to_adam():
    torch.manual_seed(0)
    model = nn.Linear(6, 6)
    adam, muon = optimisers(model, Schedule(1, rate=0.1, optimiser="muon"))
    assert [weight.shape for weight in muon.param_groups[0]["params"]] == [(6, 6)]
    assert [weight.shape for weight in adam.param_groups[0]["params"]] == [(6,)]
    before = model.weight.detach().clone()
    left, right = (torch.linalg.qr(torch.randn(6, 6))[0] for _ in range(2))
    model.weight.grad = left @ torch.diag(2.0 ** torch.arange(6)) @ right  # very unequal directions
    muon.step()
    step = (before - model.weight).detach()
    lengths = torch.linalg.svdvals(step)
    assert lengths.max() < 2 * lengths.min()
    assert torch.allclose(step / step.norm(), left @ right / 6**0.5, atol=0.15)  # the same directions, all alike


def test_a_finished_run_is_not_repeated(tmp_path):
    whole, metrics = run_hsp_sa(tmp_path, 1, SCHEDULE, Source())
    again, again_metrics = run_hsp_sa(tmp_path, 2, SCHEDULE, Source(kill_at=0))
    assert same_weights(again, whole) and again_metrics == metrics


def test_a_kill_while_the_checkpoint_is_written_leaves_the_last_one(tmp_path, monkeypatch):
    with pytest.raises(Killed):
        run_hsp_sa(tmp_path / "killed", 1, replace(SCHEDULE, checkpoint_seconds=KEEP_EVERY_STEP), Source(kill_at=5))

    def half_written(content, path):
        path.write_bytes(b"PK")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(loop.torch, "save", half_written)
        with pytest.raises(Killed):
            run_hsp_sa(tmp_path / "killed", 2, replace(SCHEDULE, checkpoint_seconds=KEEP_EVERY_STEP), Source())
    resumed, _ = run_hsp_sa(tmp_path / "killed", 3, SCHEDULE, Source())
    assert same_weights(resumed, run_hsp_sa(tmp_path / "whole", 1, SCHEDULE, Source())[0])


def test_atomic_write_replaces_whole_files_only(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, lambda beside: beside.write_text("old"))

    def fails(beside):
        beside.write_text("ne")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fails)
    assert path.read_text() == "old"
    write_atomically(path, lambda beside: beside.write_text("new"))
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def train_scripted(folder, scores, **options):
    """Steps that move one weight by about 1, each validated with the next score; validated weights are noted."""
    model, seen = nn.Linear(1, 1, bias=False), []
    nn.init.zeros_(model.weight)

    def validate(averaged):
        seen.append(float(averaged.weight))
        return {"score": scores[len(seen) - 1]}

    schedule = Schedule(len(scores), rate=1.0, warmup=0, constant=True, validate_every=1, bf16=False, **options)
    stage = Stage(model, lambda step, generator: (model.weight.sum(), {}), validate, better="score")
    metrics = train("toy", folder, stage, schedule)
    return float(model.weight.detach()), seen, metrics


def test_the_best_validation_is_kept(tmp_path):
    weight, seen, metrics = train_scripted(tmp_path, [3.0, 1.0, 2.0, 1.0, 5.0], average=0.0)
    assert seen == pytest.approx([-1, -2, -3, -4, -5], abs=1e-3)
    assert weight == seen[1] and metrics == {"score": 1.0}
    rows = [json.loads(line) for line in (tmp_path / "toy.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["score"] for row in rows] == [3, 1, 2, 1, 5]


@pytest.mark.parametrize(("pays", "wanted"), [(True, True), (True, False), (False, True)])
def test_bf16_is_taken_where_it_is_wanted_and_pays(tmp_path, monkeypatch, capsys, pays, wanted):
    monkeypatch.setattr(precision, "bf16_pays", lambda kind: pays)
    precision.pays.cache_clear()
    model, types = nn.Linear(1, 1), []

    def loss(step, generator):
        value = model(torch.ones(1, 1))
        types.append(value.dtype)
        return value.sum(), {}

    schedule = Schedule(3, validate_every=3, bf16=wanted)
    train("toy", tmp_path, Stage(model, loss, lambda averaged: {"score": 0.0}, better="score"), schedule)
    precision.pays.cache_clear()
    assert types == [torch.bfloat16 if pays and wanted else torch.float32] * 3
    assert capsys.readouterr().out.count("bf16: not faster than float32 on this machine") == (wanted and not pays)


@pytest.mark.parametrize("scores", [[3.0, math.nan], [math.inf, math.inf]])
def test_a_run_that_diverged_says_so(tmp_path, scores):
    with pytest.raises(FloatingPointError, match=f"toy: score is {scores[1]} at step 2; lower the rate"):
        train_scripted(tmp_path, scores)


def test_a_run_may_come_back_from_infinity(tmp_path):
    assert train_scripted(tmp_path, [math.inf, 3.0, math.inf])[2] == {"score": 3.0}


def test_damaged_files_of_a_training_are_named(tmp_path):
    train_scripted(tmp_path, [3.0, 1.0])
    checkpoint, log = tmp_path / "toy.pt", tmp_path / "toy.jsonl"
    whole, rows = checkpoint.read_bytes(), log.read_text()
    others = []
    for content in ({"model": {}}, [1, 2], None, torch.zeros(2)):
        torch.save(content, file := io.BytesIO())
        others.append(file.getvalue())
    for damaged in (b"", whole[:-30], whole[: len(whole) // 2], b"no checkpoint", *others):
        checkpoint.write_bytes(damaged)
        with pytest.raises(ValueError, match="toy.pt: no checkpoint of this training .*: remove it, and the") as fault:
            train_scripted(tmp_path, [3.0, 1.0, 2.0])
        assert "\n" not in str(fault.value)
    checkpoint.write_bytes(whole)
    for damaged in ("{\n", "[1]\n", '{"stage": "toy"}\n', '{"step": Infinity}\n', "\udcff\n"):
        log.write_text(rows + damaged, errors="surrogateescape")
        with pytest.raises(ValueError, match="toy.jsonl:3: damaged, expected a row in JSON with its step, got "):
            train_scripted(tmp_path, [3.0, 1.0, 2.0])
    log.write_text(rows + '{"half a')
    train_scripted(tmp_path, [3.0, 1.0, 2.0])
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [1, 2, 3]


@pytest.mark.parametrize("error", [MemoryError(), PermissionError(13, "denied"), RuntimeError("can't allocate memory")])
def test_a_checkpoint_is_not_damaged_where_the_machine_fails(tmp_path, monkeypatch, error):
    train_scripted(tmp_path, [3.0, 1.0])

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(loop.torch, "load", fails)
    with pytest.raises(type(error)) as fault:
        train_scripted(tmp_path, [3.0, 1.0, 2.0])
    assert fault.value is error


def test_a_checkpoint_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    def full(content, path):
        raise RuntimeError("[enforce fail at inline_container.cc:672]\n unexpected pos 9008768 vs 9008656")

    monkeypatch.setattr(loop.torch, "save", full)
    with pytest.raises(OSError, match="toy.pt cannot be written: .enforce fail at inline_container") as fault:
        train_scripted(tmp_path, [3.0])
    assert "\n" not in str(fault.value)


def test_notes_are_mappings_of_the_kinds_asked_for(tmp_path):
    note = tmp_path / "budget.json"
    assert read_note(note, "mend it", scale=float) == {}
    note.write_text('{"scale": 0.5, "seconds": 3}')
    assert read_note(note, "mend it", scale=float) == {"scale": 0.5, "seconds": 3}
    for damaged in ("", "[]", "3", '{"scale": "0.5"}', "{}", '{"scale": 0.5', "[" * 5000):
        note.write_text(damaged)
        with pytest.raises(
            ValueError, match=r"budget.json: damaged, expected a mapping with scale \(float\) in JSON: mend it"
        ):
            read_note(note, "mend it", scale=float)


def test_averaged_weights_by_hand():
    """Decay (1 + step) / (10 + step) at first: 0.1 old and 0.9 new, then 2/11 and 9/11; later the decay given."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, affine=False))
    nn.init.zeros_(model[0].weight)
    average = Averaged(model, 0.999)
    for step, (value, expected) in enumerate([(10.0, 9.0), (20.0, 9 * 2 / 11 + 20 * 9 / 11)]):
        nn.init.constant_(model[0].weight, value)
        nn.init.constant_(model[1].running_mean, value)
        average.update(model, step)
        assert float(average.model[0].weight) == pytest.approx(expected)
        assert float(average.model[1].running_mean) == value  # statistics are copied
    before = float(average.model[0].weight)
    average.update(model, 100_000)
    assert float(average.model[0].weight) == pytest.approx(0.999 * before + 0.001 * 20)


def test_learning_rate_by_hand():
    schedule = Schedule(110, rate=2.0, warmup=10 / 110)
    rates = [schedule.rate_at(step) for step in (0, 4, 9, 10, 60, 110)]
    assert rates == pytest.approx([0.2, 1.0, 2.0, 2.0, 1.0, 0.0])
    assert replace(schedule, constant=True).rate_at(77) == 2.0


# NRI and HSP-sa


def test_nri_does_not_learn_from_labels(tmp_path):
    edges = (torch.rand(COUNT, AGENTS, AGENTS, generator=torch.Generator().manual_seed(9)) < 0.5).bool()
    labelled, metrics = run_nri(tmp_path / "labelled", 1, SCHEDULE, Source(), edges)
    scrambled, other_metrics = run_nri(tmp_path / "scrambled", 1, SCHEDULE, Source(), edges.flip(0).logical_not())
    unlabelled, bare_metrics = run_nri(tmp_path / "unlabelled", 1, SCHEDULE, Source())
    assert same_weights(labelled, scrambled) and same_weights(labelled, unlabelled)
    assert metrics["nll"] == other_metrics["nll"] == bare_metrics["nll"]
    assert "accuracy" in metrics and "accuracy" not in bare_metrics


def test_evaluation_of_nri_by_hand():
    """Agents move one unit a frame, the model expects them to stand: squared error 1 in each of two frames."""
    config = NRIConfig(3, 1, output_gain=0.0, variance=0.5, teacher_forcing=1, encoder_width=4, decoder_width=4)
    nri = NRI(config).eval()
    x = torch.arange(3.0).view(1, 1, 3, 1).expand(2, 3, 3, 1)
    truth = nri.graph(x).argmax(-1)
    assert evaluate_nri(nri, x, None) == pytest.approx({"mse": 1.0, "nll": 2.0})  # two frames, 1 / (2 variance)
    truth[0, 0, 1] = 1 - truth[0, 0, 1]
    assert evaluate_nri(nri, x, truth)["accuracy"] == pytest.approx(100 * 11 / 12)


def test_hsp_sa_learns_what_can_be_known(tmp_path):
    hsp, metrics = run_hsp_sa(tmp_path, 1, replace(SCHEDULE, steps=60), Source())
    with torch.no_grad():
        untrained = float(reconstruction_error(make_hsp(1)(DATA[:, :VISIBLE]), DATA[:, VISIBLE:]).mean())
        trained = float(reconstruction_error(hsp(DATA[:, :VISIBLE]), DATA[:, VISIBLE:]).mean())
    assert trained == pytest.approx(metrics["mse"]) and trained < 0.7 * untrained


def test_numbers_of_hidden_agents_learn_together(tmp_path):
    """All weights but the seeds are one; two hidden agents get twice the steps; both learn; what chooses the best
    validation is the geometric mean."""
    source = Source()
    _, early = run_together(tmp_path / "early", 1, replace(SCHEDULE, steps=5), Source())
    both, metrics = run_together(tmp_path / "both", 1, replace(SCHEDULE, steps=300, validate_every=300), source)
    assert len(source.numbers) == 300 and source.numbers.count(2) == pytest.approx(200, abs=30)
    weights, others = (dict(both[hidden].named_parameters()) for hidden in (1, 2))
    assert [name for name, weight in weights.items() if weight is not others[name]] == ["pool.seeds"]
    assert set(metrics) == {"mse_between", "mse_1", "mse_2"}
    assert metrics["mse_between"] == pytest.approx((metrics["mse_1"] * metrics["mse_2"]) ** 0.5)
    assert metrics["mse_1"] < 0.75 * early["mse_1"] and metrics["mse_2"] < 0.75 * early["mse_2"]
    row = json.loads((tmp_path / "both" / "hsp_sa.jsonl").read_text().splitlines()[-1])
    assert row["train_mse_1"] > 0 and 0 < row["train_mse_2"] < 2  # errors, beside the mean of their logarithms


def single(notes):
    """A stage whose model says one number w, with the error (w - 1)^2, and that notes what it is asked."""
    model = nn.Linear(1, 1, bias=False)
    loss = lambda step, generator: ((model.weight - 1).square().sum(), {})  # noqa: E731
    each_step = lambda step, averaged: notes["steps"].append(averaged)  # noqa: E731
    validate = lambda checked: notes["checked"].append(checked) or {"mse": 0.5}  # noqa: E731
    return Stage(model, loss, validate, better="mse", each_step=each_step)


def test_numbers_of_hidden_agents_go_down_the_logarithm_of_their_errors():
    """At w the gradient of log (w - 1)^2 is 2 / (w - 1)."""
    stage = together({hidden: single({}) for hidden in (1, 2)})
    weight = stage.model[1].weight
    assert weight is stage.model[2].weight
    with torch.no_grad():
        weight.fill_(3.0)
    for step in range(5):
        weight.grad = None
        value, parts = stage.loss(step, torch.Generator().manual_seed(step))
        value.backward()
        assert float(weight.grad) == pytest.approx(1.0)
        assert [float(part) for part in parts.values()] == [pytest.approx(4.0)]


def test_numbers_of_hidden_agents_are_validated_and_guided_by_their_averaged_networks():
    notes = {hidden: {"steps": [], "checked": []} for hidden in (1, 2)}
    stage = together({hidden: single(notes[hidden]) for hidden in (1, 2)})
    averaged = Averaged(stage.model, 0.9).model
    stage.each_step(0, averaged)
    assert stage.validate(averaged) == pytest.approx({"mse_between": 0.5, "mse_1": 0.5, "mse_2": 0.5})
    for hidden in (1, 2):
        assert notes[hidden] == {"steps": [averaged[hidden]], "checked": [averaged[hidden]]}


def test_one_number_of_hidden_agents_learns_by_itself():
    stage = hsp_sa_stage(make_hsp(1), Source().sample, DATA, visible=VISIBLE, batch=BATCH)
    assert together({1: stage}) is stage


def test_numbers_of_hidden_agents_need_one_process(monkeypatch):
    monkeypatch.setattr(processes, "count", lambda: 2)
    with pytest.raises(ValueError, match="2 numbers of hidden agents learn together in one process only"):
        together({hidden: single({}) for hidden in (1, 2)})


# HSP-sg and its structure cache


@pytest.fixture
def spied(monkeypatch):
    """When the cache was filled, with whom, and what it then held; and the structures that each training step got."""
    notes = {"fills": [], "guides": [], "source": Source()}
    fill = StructureCache.fill

    def spy(cache, hsp):
        with torch.no_grad():
            visible, guided = DATA[:, :VISIBLE], bool(hsp.config.alphas)
            hidden = hsp(visible, cache.kept["structure"].float()) if guided else hsp(visible)
            expected = cache.nri.graph(torch.cat([visible, hidden], 1))[..., 1]
        fill(cache, hsp)
        notes["fills"].append((len(notes["guides"]), "sg" if guided else "sa"))
        notes.setdefault("held", []).append(cache.kept["structure"].float())
        assert torch.allclose(cache.kept["structure"].float(), expected, atol=0.02)  # bfloat16 inside

    def note(module, args):
        if module.training and module.config.alphas:
            notes["guides"].append(args[1])

    monkeypatch.setattr(StructureCache, "fill", spy)
    monkeypatch.setattr(hsp_sg_module, "CHUNK", 3)
    handle = nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: note(module, args) if isinstance(module, HiddenStatePredictor) else None
    )
    yield notes
    handle.remove()


def test_structure_cache_is_filled_frozen_and_refreshed(spied, tmp_path):
    """By HSP-sa before the first step, by HSP-sg after the warm-up and then every few epochs; kept in between."""
    run_hsp_sg(tmp_path, 1, SCHEDULE, spied["source"])
    assert spied["fills"] == [(0, "sa"), (FIRST, "sg"), (FIRST + EVERY, "sg"), (FIRST + 2 * EVERY, "sg")]
    assert len(spied["guides"]) == STEPS
    for step, (guide, index) in enumerate(zip(spied["guides"], spied["source"].indices, strict=True)):
        held = spied["held"][0 if step < FIRST else 1 + (step - FIRST) // EVERY]
        assert torch.equal(guide, held[index])
    assert not torch.equal(spied["held"][0], spied["held"][1])


@pytest.mark.parametrize("kill_at", [3, FIRST, FIRST + 2, FIRST + EVERY])
def test_hsp_sg_killed_ends_as_if_it_had_not_been(kill_at, tmp_path):
    """In the warm-up, at its end, between two refreshes, at the second: the checkpoint holds the structure cache."""
    whole, metrics = run_hsp_sg(tmp_path / "whole", 1, SCHEDULE, Source())
    with pytest.raises(Killed):
        run_hsp_sg(tmp_path / "killed", 1, replace(SCHEDULE, checkpoint_seconds=KEEP_EVERY_STEP), Source(kill_at))
    resumed, resumed_metrics = run_hsp_sg(tmp_path / "killed", 2, SCHEDULE, Source())
    assert same_weights(resumed, whole) and resumed_metrics == metrics


def test_validation_of_hsp_sg_runs_the_whole_refinement(tmp_path):
    hsp, metrics = run_hsp_sg(tmp_path, 1, SCHEDULE, Source())
    refined = Refinement(make_hsp(20), hsp, make_nri(21), rounds=2)(DATA[:, :VISIBLE])
    assert metrics["mse"] == pytest.approx(float(reconstruction_error(refined.hidden, DATA[:, VISIBLE:]).mean()))


def test_validation_has_graphs_of_its_own_which_are_refreshed_with_the_others(tmp_path, monkeypatch):
    """The paper's way: one pass under the graph that each validation sample had at the last refresh."""
    filled = []
    fill = StructureCache.fill

    def spy(cache, hsp):
        fill(cache, hsp)
        filled.append({name: graphs.clone() for name, graphs in cache.kept.items()})

    monkeypatch.setattr(StructureCache, "fill", spy)
    hsp, checks = make_hsp(1, guided=True), DATA[:3] + 0.1
    stage = hsp_sg_stage(
        "hsp_sg", hsp, make_hsp(20), make_nri(21), Source().states, COUNT, checks,
        visible=VISIBLE, batch=BATCH, warmup_epochs=3, refresh_epochs=2, rounds=None,
    )  # fmt: skip
    metrics = train("hsp_sg", tmp_path, stage, replace(SCHEDULE, steps=FIRST + 1, validate_every=100), batch=BATCH)
    sizes = [{name: len(graphs) for name, graphs in kept.items()} for kept in filled]
    assert sizes == 2 * [{"structure": COUNT, "validation": 3}]
    assert torch.equal(torch.load(tmp_path / "hsp_sg.pt")["kept"][0]["validation"], filled[1]["validation"])
    assert not torch.equal(filled[0]["validation"], filled[1]["validation"])
    with torch.no_grad():
        found = hsp(checks[:, :VISIBLE], filled[1]["validation"].float())
        assert metrics["mse"] == pytest.approx(float(reconstruction_error(found, checks[:, VISIBLE:]).mean()))


def test_slots_of_named_agents_are_not_matched(tmp_path):
    """Two hidden agents that change places from sample to sample cannot be told apart by order: only matching can."""
    states = torch.zeros(COUNT, 4, FRAMES, FEATURES)
    states[::2, 2], states[1::2, 3] = 1.0, 1.0
    figures = {}
    for ordered in (False, True):
        torch.manual_seed(1)
        hsp = HiddenStatePredictor(HSPConfig(FRAMES, FEATURES, 2, width=8))
        schedule = replace(SCHEDULE, steps=80)
        draw = lambda generator: states[torch.randint(0, COUNT, (BATCH,), generator=generator)]  # noqa: E731
        stage = hsp_sa_stage(hsp, draw, states, visible=2, batch=BATCH, ordered=ordered)
        figures[ordered] = train("hsp_sa", tmp_path / str(ordered), stage, schedule, batch=BATCH)["mse"]
    assert figures[False] < 0.02 and figures[True] == pytest.approx(0.25, abs=0.02)  # the best guess of 0 or 1 is 1/2
