"""The configs that come with the package against the paper's appendix, options by name, and what is wrong in a file."""

from __future__ import annotations

import pytest
import torch

from offline_training.config import FOLDER, load_config, set_key
from offline_training.team import new_networks, warm_start
from siha_ros.model.nri import NRI

WINDOWS, VALIDATION = 200_000, 50_000


@pytest.mark.parametrize(
    ("name", "encoder", "decay"), [("springs", "mlp", 1e-6), ("charged", "conv", 1e-5), ("kuramoto", "conv", 1e-5)]
)
def test_configs_of_the_simulated_systems_are_the_papers(name, encoder, decay):
    config = load_config(name, options=[])
    assert (config.visible, config.frames, config.training, config.validation) == (5, 50, 200_000, 50_000)
    plan = config.plan(WINDOWS, 8, 3, VALIDATION)
    epoch = 200_000 / 128
    lengths = {stage: steps / epoch for stage, steps in plan.steps.items()}
    assert lengths == pytest.approx({"nri": 200, "nri_visible": 200, "hsp_sa": 500, "hsp_sg": 500}, rel=1e-3)
    assert (plan.nri_batch, plan.hsp_batch, plan.cached, plan.hidden_counts) == (128, 128, WINDOWS, (3,))
    for stage, schedule in plan.schedules.items():
        assert (schedule.optimiser, schedule.rate, schedule.rate_at(7)) == ("adam", 5e-4, 5e-4)
        assert schedule.weight_decay == (decay if stage.startswith("hsp") else 0.0)
        assert (schedule.average, schedule.bf16, schedule.validate_every) == (0.0, False, 1562)
    assert (plan.warmup_epochs, plan.refresh_epochs) == (90, 10)  # the first epoch over 80 that is a multiple of 10
    assert plan.rounds is None and plan.starts is None and not (plan.rotate or plan.warm or plan.ordered)
    assert (plan.nri.encoder, plan.nri.encoder_width, plan.nri.decoder_width) == (encoder, 256, 256)
    assert (plan.nri.edge_types, plan.nri.temperature, plan.nri.difference_gain) == (2, 0.5, 0.0)
    assert (plan.hsp.embedding, plan.hsp.width, plan.hsp.heads, plan.hsp.difference_gain) == (encoder, 256, 4, 0.0)
    assert plan.nri.features == plan.hsp.features == (3 if name == "kuramoto" else 4)


def test_config_of_the_body_is_the_papers():
    config = load_config("cmu35.yaml", options=[])
    plan = config.plan(800, 31, 7, 100)
    assert plan.steps == dict.fromkeys(("nri", "nri_visible", "hsp_sa", "hsp_sg"), 500 * 100)
    assert {stage: schedule.rate for stage, schedule in plan.schedules.items()} == {
        "nri": 5e-4, "nri_visible": 5e-4, "hsp_sa": 1e-4, "hsp_sg": 1e-4,
    }  # fmt: skip
    assert (plan.nri_batch, plan.hsp_batch, config.seed, config.frames, plan.ordered) == (8, 8, 1, 49, True)
    assert (plan.warmup_epochs, plan.refresh_epochs) == (60, 20)
    assert plan.nri.skip_first and plan.nri.teacher_forcing == 10 and plan.hsp.features == 6


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_usual_options_are_all_there_and_each_changes_something(path):
    paper = load_config(path, options=[])
    usual = load_config(path)
    steps = usual.plan(50_000, 7, 2, 2000).steps
    assert sum(steps.values()) < sum(paper.plan(50_000, 7, 2, 2000).steps.values()) / 5
    for name in (
        "accelerations",
        "small_steps",
        "narrow_decoder",
        "one_start",
        "warm",
        "muon",
        "decay",
        "bf16",
        "short",
    ):
        assert load_config(path, options=[name]) != paper
    assert load_config(path, ["narrow_decoder"]).nri["decoder_width"] == 128


@pytest.mark.parametrize("system", ["charged", "kuramoto"])
def test_small_encoders_keep_the_convolutions_of_nri(system):
    paper, usual = (load_config(system, options).plan(50_000, 7, 2, 2000) for options in ([], None))
    assert (paper.nri.encoder, paper.nri.encoder_width, paper.hsp.embedding) == ("conv", 256, "conv")
    assert (usual.nri.encoder, usual.nri.encoder_width, usual.hsp.embedding) == ("conv", 64, "mlp")
    assert usual.hsp.width == paper.hsp.width == 256
    assert load_config(system, more=["mlp"]).plan(50_000, 7, 2, 2000).nri.encoder_width == 256  # that of Springs


def test_agents_seen_in_a_part_of_the_window_are_an_option_of_like_agents():
    plan = load_config("springs", more=["partly_seen"]).plan(50_000, 7, 2, 2000)
    modules = new_networks(plan)
    assert modules.hsp_sa[2].config.seen_frames and not modules.hsp_sg[2].config.seen_frames
    warm_start(modules.hsp_sg[2], modules.hsp_sa[2])
    weights = modules.hsp_sa[2].state_dict()
    assert all(torch.equal(value, weights[key]) for key, value in modules.hsp_sg[2].state_dict().items())
    with pytest.raises(ValueError, match="hsp.seen_frames: expected without system cmu, whose joints have names"):
        load_config("cmu35", settings=["hsp.seen_frames=true"])


def test_settings_overrule_options(tmp_path):
    config = load_config("springs", ["muon"], ["hidden=4", "stages.nri.rate=0.002", "cached=60000"])
    assert (config.hidden, config.cached) == (4, 60_000)
    assert [config.stages[stage].rate for stage in ("nri", "nri_visible", "hsp_sg")] == [0.002, 1e-3, 7e-4]
    assert config.stages["hsp_sa"].optimiser == "muon"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("hiden=3", "springs.yaml: unknown key 'hiden'"),
        ("nri.decoder_widht=3", "springs.yaml: nri: unknown key 'decoder_widht'"),
        ("nri.encoder=lstm", "springs.yaml: nri: encoder: 'lstm' is unknown, expected 'mlp' or 'conv'"),
        ("stages.hsp_sa.rate=fast", "springs.yaml: stages.hsp_sa: rate: expected float, got 'fast'"),
        ("stages.hsp_sa.epochs=0", "springs.yaml: stages.hsp_sa: expected epochs or steps above 0"),
        ("system=gravity", "springs.yaml: system: expected one of springs, charged, kuramoto, cmu"),
        ("training=0", "springs.yaml: training, validation: expected numbers of windows above 0"),
        ("hidden=0", "springs.yaml: hidden: 0, expected 1 or more"),
        ("visible=1", "springs.yaml: visible: 1, expected 2 or more"),
        ("frames=1", "springs.yaml: nri: frames: 1, expected 2 or more"),
        ("nri.decoder_width=0", "springs.yaml: nri: decoder_width: 0, expected 1 or more"),
        ("nri.variance=0", "springs.yaml: nri: variance: 0.0, expected a number above 0"),
        ("nri.teacher_forcing=0", "springs.yaml: nri: teacher_forcing: 0, expected 1 or more"),
        ("nri.dropout=1", "springs.yaml: nri: dropout: 1, expected less than 1"),
        ("nri.prior=[0.5, 0.6]", "springs.yaml: nri: prior: [0.5, 0.6], expected probabilities that add up to 1"),
        ("hsp.heads=3", "springs.yaml: hsp: width: 256, expected a multiple of the 3 heads"),
        ("hsp.heads=0", "springs.yaml: hsp: heads: 0, expected 1 or more"),
        ("hsp_batch=-8", "springs.yaml: hsp_batch: -8, expected 1 or more"),
        ("starts=-1", "springs.yaml: starts: -1, expected 1 or more"),
        ("cached=0", "springs.yaml: cached: 0, expected 1 or more"),
        ("refresh_epochs=0", "springs.yaml: refresh_epochs: 0.0, expected a number above 0"),
        ("stages.nri.steps=-1", "springs.yaml: stages.nri: steps: -1, expected 0 or more"),
        ("stages.nri.rate=0", "springs.yaml: stages.nri: rate: 0.0, expected a number above 0"),
        ("stages.nri.warmup=2", "springs.yaml: stages.nri: warmup: 2, expected a share of 1"),
        ("stages.nri.average=1", "springs.yaml: stages.nri: average: 1, expected less than 1"),
        ("hsp.identities=3", "springs.yaml: hsp.identities: expected with system cmu alone, whose joints have names"),
        ("hidden=2020-13-45", "'hidden=2020-13-45': cannot be read as YAML (month must be in 1..12)"),
        ("hidden=-1" + "0" * 400, "hidden: -" + "1" + "0" * 58 + " is too large"),
        ("stages.nri.optimiser=sgd", "springs.yaml: stages.nri: optimiser: 'sgd' is unknown, expected adam or muon"),
        ("hidden", "'hidden': expected key=value, such as hidden=3"),
        ("data.folder=x", "--set: data.folder: there is no data"),
        ("hidden={", "line 1, column 2: { ^)"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change, expected):
    with pytest.raises(ValueError) as fault:
        load_config("springs", [], [change])
    assert str(fault.value).endswith(expected) and "\n" not in str(fault.value)


def test_roll_outs_and_convolutions_need_their_frames():
    assert load_config("springs", ["one_start"], ["frames=11"]).frames == 11
    with pytest.raises(ValueError, match="frames: 10, expected more than the 10 that each of the starts rolls out"):
        load_config("springs", ["one_start"], ["frames=10"])
    shortest = load_config("charged", [], ["frames=14"]).plan(100, 7, 2, 10).nri
    assert NRI(shortest).encoder(torch.zeros(1, 3, 14, 4)).shape == (1, 3, 2, 2)
    with pytest.raises(ValueError, match="frames: 13, expected 14 or more with the encoder 'conv'"):
        load_config("charged", [], ["frames=13"])


def test_files_that_are_no_configs(tmp_path):
    with pytest.raises(ValueError, match="none of the package's configs: charged.yaml, cmu35.yaml, kuramoto.yaml"):
        load_config("gravity.yaml")
    with pytest.raises(ValueError, match="options: 'swift' is unknown, expected of accelerations, "):
        load_config("springs", ["swift"])
    broken = tmp_path / "broken.yaml"
    broken.write_text("system: [springs")
    with pytest.raises(ValueError, match="broken.yaml: cannot be read as YAML"):
        load_config(broken)
    broken.write_text("[" * 1500)
    with pytest.raises(ValueError, match="broken.yaml: cannot be read as YAML .maximum recursion"):
        load_config(broken)
    broken.write_text("springs")
    with pytest.raises(ValueError, match="broken.yaml: expected a mapping, got str"):
        load_config(broken)


def test_keys_reach_into_mappings():
    content = {"a": {"x": {"r": 1}, "y": {"r": 2, "s": 3}}}
    set_key(content, "a.*.r", 5, "here")
    set_key(content, "a.y.s", None, "here")
    assert content == {"a": {"x": {"r": 5}, "y": {"r": 5}}}
