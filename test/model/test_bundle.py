"""Bundles: written and read back the same, and every fault said in one line that names the file."""

from __future__ import annotations

import copy
import hashlib
import pickle
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch
import yaml
from springs_by_hand import small_bundle_parts

from siha_ros.model.bundle import (
    LARGEST_YAML,
    BundleConfig,
    BundleError,
    ErrorTable,
    check_place,
    load_bundle,
    load_config,
    save_bundle,
)

FRAMES = 6


@pytest.fixture(scope="module")
def parts():
    return small_bundle_parts(FRAMES)


@pytest.fixture(scope="module")
def pristine(parts, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "small"
    save_bundle(path, *copy.deepcopy(parts))
    return path


@pytest.fixture
def bundle(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "small")


def content(bundle) -> dict:
    return yaml.safe_load((bundle / "bundle.yaml").read_text())


def change(bundle, *keys, to=None, remove=False) -> None:
    """Set (or remove) one entry of bundle.yaml, reached by keys."""
    everything = content(bundle)
    place = everything
    for key in keys[:-1]:
        place = place[key]
    if remove:
        del place[keys[-1]]
    else:
        place[keys[-1]] = to
    (bundle / "bundle.yaml").write_text(yaml.safe_dump(everything, sort_keys=False))


def put(bundle, name: str, data: bytes) -> None:
    """Another NAME.safetensors, its sum in bundle.yaml as a careful attacker would have it."""
    (bundle / f"{name}.safetensors").write_bytes(data)
    change(bundle, "modules", name, "sha256", to=hashlib.sha256(data).hexdigest())


def refused(bundle, file="bundle.yaml") -> str:
    """The one line with which it is refused, which names the file."""
    with pytest.raises(BundleError) as caught:
        load_bundle(bundle)
    message = str(caught.value)
    assert message.startswith(f"{bundle / file}: ") and "\n" not in message and len(message) < 600
    return message


# round trip


def test_what_is_loaded_computes_what_was_saved(parts, pristine):
    config, networks, arrays = parts
    loaded = load_bundle(str(pristine))
    assert set(loaded.networks) == set(networks) and loaded.path == pristine
    torch.manual_seed(2)
    x = torch.randn(2, 7, FRAMES, 4)
    structure = torch.rand(2, 7, 7)
    rounded = copy.deepcopy(networks)
    for network in rounded.values():
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(tensor.half())
    torch.testing.assert_close(loaded.nri().graph(x), rounded["nri"].graph(x), rtol=0, atol=0)
    edges = loaded.nri().graph(x)
    torch.testing.assert_close(loaded.nri().step(x[:, :, 0], edges), networks["nri"].step(x[:, :, 0], edges))
    for count in (1, 2):
        visible = x[:, : 7 - count]
        for name, graph in ((f"hsp_sa_{count}", None), (f"hsp_sg_{count}", structure)):
            predicted = loaded.predictor(name)(visible, graph)
            torch.testing.assert_close(predicted, rounded[name](visible, graph), rtol=0, atol=0)
            torch.testing.assert_close(predicted, networks[name](visible, graph), rtol=0, atol=5e-3)
    for name, tensor in arrays["noise"].items():
        torch.testing.assert_close(loaded.arrays["noise"][name], tensor, rtol=0, atol=0)  # in full precision


def test_config_comes_back_and_networks_are_ready(parts, pristine):
    loaded = load_bundle(pristine)
    config = parts[0]
    assert {key: value for key, value in vars(loaded.config).items() if key != "modules"} == {
        key: value for key, value in vars(config).items() if key != "modules"
    }
    assert load_config(pristine) == loaded.config
    assert not loaded.config.identified
    for network in loaded.networks.values():
        assert not network.training
        for tensor in network.parameters():
            assert not tensor.requires_grad and tensor.dtype == torch.float32
    alphas = loaded.predictor("hsp_sg_2").alphas
    assert alphas.tolist() == [0.0, 1e9]  # not stored as a weight: half precision cannot hold it


def test_weights_are_stored_in_half_precision(pristine):
    tensors = safetensors.torch.load_file(pristine / "nri.safetensors")
    kinds = {tensor.dtype for tensor in tensors.values()}
    assert kinds == {torch.float16, torch.int64}  # the latter: batch counts of the normalisations


# writing


def test_a_bundle_replaces_the_one_before_as_a_whole(parts, bundle):
    config, networks, arrays = copy.deepcopy(parts)
    (bundle / "left_over.safetensors").write_bytes(b"")
    config.purpose = "newer"
    save_bundle(bundle, config, {"nri": networks["nri"]}, arrays)
    assert load_bundle(bundle).config.purpose == "newer"
    assert sorted(file.name for file in bundle.iterdir()) == [
        "bundle.yaml",
        "noise.safetensors",
        "nri.safetensors",
    ]
    assert [folder.name for folder in bundle.parent.iterdir()] == ["small"]


@pytest.mark.parametrize("value", [1e6, float("nan")])
def test_what_half_precision_cannot_hold_is_refused_and_nothing_changes(parts, bundle, value):
    config, networks, arrays = copy.deepcopy(parts)
    networks["hsp_sa_2"].out[0].bias[3] = value
    before = {file.name: file.read_bytes() for file in bundle.iterdir()}
    with pytest.raises(BundleError, match=r"^small: hsp_sa_2: out.0.bias holds numbers that are not finite[^\n]*$"):
        save_bundle(bundle, config, networks, arrays)
    assert {file.name: file.read_bytes() for file in bundle.iterdir()} == before
    assert [folder.name for folder in bundle.parent.iterdir()] == ["small"]


def test_a_writer_that_dies_leaves_the_bundle_before(parts, bundle, monkeypatch):
    def dies(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(yaml, "safe_dump", dies)
    with pytest.raises(KeyboardInterrupt):
        save_bundle(bundle, *copy.deepcopy(parts))
    monkeypatch.undo()
    assert load_bundle(bundle).config.count == 7
    with pytest.raises(BundleError):
        load_bundle(bundle.with_name("small.part"))


def test_what_is_no_bundle_is_not_overwritten(parts, bundle, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "small.old").mkdir()
    (tmp_path / "small.old" / "notes.md").write_text("mine")
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    for name, taken in (("precious", "precious"), ("file", "file"), ("small", "small.old")):
        with pytest.raises(
            BundleError, match=f"/{taken} is no bundle, and would be overwritten: choose another folder"
        ):
            save_bundle(tmp_path / name, *copy.deepcopy(parts))
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
    (tmp_path / "empty").mkdir()
    save_bundle(tmp_path / "empty", *copy.deepcopy(parts))
    assert load_bundle(tmp_path / "empty").config.count == 7


def test_a_bundle_that_was_being_replaced_is_kept_until_the_new_one_is_there(parts, bundle, monkeypatch):
    bundle.rename(old := bundle.with_name("small.old"))  # killed between the two renamings

    def dies(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(yaml, "safe_dump", dies)
    with pytest.raises(KeyboardInterrupt):
        save_bundle(bundle, *copy.deepcopy(parts))
    assert load_bundle(old).config.count == 7
    monkeypatch.undo()
    save_bundle(bundle, *copy.deepcopy(parts))
    assert [folder.name for folder in bundle.parent.iterdir()] == ["small"]


def test_a_place_for_a_bundle_is_tried_and_left_as_it_was(tmp_path):
    check_place(tmp_path / "deep" / "down")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        check_place(tmp_path / "file" / "bundle")


# bundle.yaml


@pytest.mark.parametrize(
    "keys",
    [
        ("surprise",),
        ("scale", "surprise"),
        ("ranges", "surprise"),
        ("errors", "siha", "surprise"),
        ("training", "surprise"),
        ("modules", "nri", "surprise"),
        ("modules", "nri", "config", "surprise"),
        ("modules", "hsp_sg_1", "config", "surprise"),
    ],
)
def test_an_unknown_key_at_any_level(bundle, keys):
    change(bundle, *keys, to=1)
    assert "unknown key 'surprise'" in refused(bundle)


@pytest.mark.parametrize(
    "keys",
    [
        ("dt",),
        ("agent_names",),
        ("scale", "velocity"),
        ("ranges", "rate"),
        ("errors", "siha", "radius"),
        ("training", "versions"),
        ("modules", "nri", "sha256"),
        ("modules", "nri", "config", "frames"),
    ],
)
def test_a_missing_key_at_any_level(bundle, keys):
    change(bundle, *keys, remove=True)
    assert f"key {keys[-1]!r} is missing" in refused(bundle)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("count",), "seven"),
        (("count",), 7.0),
        (("count",), True),
        (("dt",), "0.1"),
        (("dt",), True),
        (("dt",), None),
        (("name",), 5),
        (("agent_names",), "a b c"),
        (("agent_names",), [1, 2]),
        (("limbs",), []),
        (("scale",), 4.0),
        (("errors", "siha", "seconds"), [0.0, "one", 2.0]),
        (("errors", "siha"), [1.0]),
        (("training", "samples"), {"nri": 1.5}),
        (("training", "samples"), {5: 1}),
        (("modules",), ["nri"]),
        (("modules", "nri"), "nri"),
        (("modules", "nri", "config", "frames"), "6"),
        (("modules", "nri", "config", "skip_first"), 1),
        (("modules", "hsp_sg_1", "config", "alphas"), [0.0, None]),
    ],
)
def test_a_wrong_type(bundle, keys, value):
    change(bundle, *keys, to=value)
    message = refused(bundle)
    assert "expected" in message and str(keys[-1]) in message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
@pytest.mark.parametrize("keys", [("dt",), ("ranges", "speed"), ("modules", "hsp_sg_1", "config", "alphas")])
def test_a_number_that_is_not_finite(bundle, keys, value):
    change(bundle, *keys, to=[value, 0.0] if keys[-1] == "alphas" else value)
    assert "is not finite" in refused(bundle) and keys[-1] in refused(bundle)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("dims",), 4),
        (("dt",), 0.0),
        (("window",), 1),
        (("horizon",), 0),
        (("count",), 1),
        (("frame",), "moon"),
        (("velocity",), "guessed"),
        (("scale", "position"), 0.0),
        (("agent_names",), ["a", "a"]),
        (("max_hidden",), 7),
        (("hidden_sets",), ["arm"]),
        (("limbs",), {"arm": ["hand"]}),
        (("rounds",), -1),
        (("ranges", "agents"), [7]),
        (("ranges", "agents"), [7, 5]),
        (("ranges", "rate"), [0.0, 10.0]),
        (("ranges", "speed"), 0.0),
        (("errors", "siha", "seconds"), [0.0, 2.0, 1.0]),
        (("errors", "siha", "radius"), [0.0, 1.0]),
        (("errors", "siha", "half_width"), [0.0, -1.0, 1.0]),
        (("modules", "nri", "kind"), "lstm"),
        (("modules", "nri", "config", "encoder"), "rnn"),
        (("modules", "hsp_sg_1", "config", "alphas"), [1.0, 1.0, 1.0]),
        (("modules", "hsp_sg_1", "config", "heads"), 3),
        (("modules", "hsp_sg_1", "config", "heads"), 0),
        (("modules", "nri", "config", "encoder_width"), -8),
        (("modules", "nri", "config", "encoder_width"), 10**12),
        (("modules", "hsp_sa_1", "config", "width"), 10**30),
    ],
)
def test_a_value_that_makes_no_sense(bundle, keys, value):
    change(bundle, *keys, to=value)
    assert keys[0] in refused(bundle)


def test_another_format(bundle):
    change(bundle, "format", to=2)
    change(bundle, "of_the_future", to=1)  # whatever it holds, the version is what to say
    assert "format 2, this version reads format 1" in refused(bundle)
    (bundle / "bundle.yaml").write_text("- just\n- a list\n")
    assert "expected a mapping with the key format" in refused(bundle)


def test_yaml_cannot_execute(bundle, tmp_path):
    mark = tmp_path / "executed"
    for text in (
        f"format: 1\nname: !!python/object/apply:os.system ['touch {mark}']\n",
        f"format: !!python/object/new:pathlib.Path ['{mark}']\n",
        "format: 1\nname: !!python/name:os.system\n",
    ):
        (bundle / "bundle.yaml").write_text(text)
        assert "cannot be read as YAML" in refused(bundle)
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: b: c",
        "\tformat: 1",
        "format: 1\nx: !!timestamp soon",
        "format: 1\nx: !!int ''",
        "format: 1\n? [a]\n: b",
    ]
    + ["format: 2020-13-45", "[" * 5000, "format: *nowhere", "format: 1\nname: !!binary '*'", ""],
)
def test_text_that_is_no_bundle(bundle, text):
    (bundle / "bundle.yaml").write_text(text)
    refused(bundle)


def test_bytes_that_are_no_text(bundle):
    (bundle / "bundle.yaml").write_bytes(b"format: 1\nname: \xff\xfe\x00")
    refused(bundle)
    (bundle / "bundle.yaml").write_bytes(b"#" * (LARGEST_YAML + 1))
    assert "no bundle.yaml is that large" in refused(bundle)
    (bundle / "bundle.yaml").unlink()
    assert "no such file, expected a bundle folder" in refused(bundle)
    (bundle / "bundle.yaml").mkdir()
    refused(bundle)


def test_flipped_bytes_of_the_yaml_are_refused_or_harmless(bundle):
    good = (bundle / "bundle.yaml").read_bytes()
    short = (
        good[good.index(b"format:") : good.index(b"modules:")] + b"modules: {}\n"
    )  # without its sum, and nothing to load: a thousand times quicker
    random = np.random.default_rng(0)
    refusals = 0
    for place in random.choice(len(short), 60, replace=False):
        data = bytearray(short)
        data[place] ^= 1 << random.integers(8)
        (bundle / "bundle.yaml").write_bytes(data)
        try:
            config = load_config(bundle)
        except BundleError as error:
            assert str(error).startswith(f"{bundle / 'bundle.yaml'}: ") and "\n" not in str(error)
            refusals += 1
        else:
            assert isinstance(config, BundleConfig)
    assert refusals > 20


@pytest.mark.parametrize("name", ["../nri", "a/b", "", "nri\n"])
def test_a_module_is_a_file_of_the_folder(bundle, name):
    everything = content(bundle)
    everything["modules"][name] = everything["modules"].pop("nri")
    (bundle / "bundle.yaml").write_text(yaml.safe_dump(everything))
    assert "is no name of a file" in refused(bundle)


# tensors


def test_a_missing_file(bundle):
    (bundle / "nri.safetensors").unlink()
    assert "cannot be read (No such file" in refused(bundle, "nri.safetensors")


def test_truncated_and_flipped_files(bundle):
    change(bundle, "modules", to={"nri": content(bundle)["modules"]["nri"]})
    good = (bundle / "nri.safetensors").read_bytes()
    random = np.random.default_rng(1)
    for end in (0, 5, 100, len(good) - 1):
        (bundle / "nri.safetensors").write_bytes(good[:end])
        assert "damaged or exchanged" in refused(bundle, "nri.safetensors")
    for place in random.choice(len(good), 20, replace=False):
        data = bytearray(good)
        data[place] ^= 1 << random.integers(8)
        (bundle / "nri.safetensors").write_bytes(data)
        assert "damaged or exchanged" in refused(bundle, "nri.safetensors")


def test_a_damaged_file_with_the_right_sum(bundle):
    """The checks behind the sum: each damage is refused, or the numbers are other but finite ones."""
    change(bundle, "modules", to={"noise": content(bundle)["modules"]["noise"]})  # little to load: quick
    good = (bundle / "noise.safetensors").read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    random = np.random.default_rng(2)
    for end in (0, 5, header, len(good) - 1):
        put(bundle, "noise", good[:end])
        assert "no safetensors file" in refused(bundle, "noise.safetensors")
    for place in random.choice(header, 40, replace=False):
        data = bytearray(good)
        data[place] ^= 1 << random.integers(8)
        put(bundle, "noise", bytes(data))
        try:
            loaded = load_bundle(bundle)
        except BundleError as error:
            assert str(error).startswith(f"{bundle}") and "\n" not in str(error)
        else:
            assert all(tensor.float().isfinite().all() for tensor in loaded.arrays["noise"].values())


def test_a_pickle_cannot_execute(bundle, tmp_path):
    mark = tmp_path / "executed"

    class Bomb:
        def __reduce__(self):
            return mark.touch, ()

    put(bundle, "nri", pickle.dumps(Bomb()))
    assert "no safetensors file" in refused(bundle, "nri.safetensors")
    torch.save({"weight": Bomb()}, tmp_path / "weights.pt")
    put(bundle, "nri", (tmp_path / "weights.pt").read_bytes())
    assert "no safetensors file" in refused(bundle, "nri.safetensors")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda t: t.pop("encoder.out.bias"), "tensor encoder.out.bias is missing"),
        (lambda t: t.update(extra=torch.zeros(2)), "tensor 'extra' is unknown to the module"),
        (
            lambda t: t.update({"decoder.update2.weight": torch.zeros(8, 9)}),
            "tensor decoder.update2.weight has shape (8, 9), expected (8, 8)",
        ),
        (
            lambda t: t.update({"decoder.update2.weight": torch.zeros(8, 8, dtype=torch.int16)}),
            "tensor decoder.update2.weight holds torch.int16",
        ),
        (lambda t: t["decoder.update1.bias"].fill_(torch.nan), "tensor decoder.update1.bias is not finite"),
        (lambda t: t["encoder.pair1.norm.running_var"].fill_(torch.inf), "running_var is not finite"),
    ],
)
def test_tensors_that_do_not_fit(bundle, edit, said):
    tensors = safetensors.torch.load_file(bundle / "nri.safetensors")
    edit(tensors)
    put(bundle, "nri", safetensors.torch.save(tensors))
    assert said in refused(bundle, "nri.safetensors")


def test_plain_tensors_are_finite(bundle):
    put(bundle, "noise", safetensors.torch.save({"step_variance": torch.tensor([1.0, torch.nan])}))
    assert "tensor step_variance is not finite" in refused(bundle, "noise.safetensors")


def test_the_networks_that_bundle_yaml_describes(bundle):
    change(bundle, "modules", "nri", "config", "encoder_width", to=9)
    assert "expected (9" in refused(bundle, "nri.safetensors")
    change(bundle, "modules", "nri", "config", "encoder_width", to=8)
    change(bundle, "modules", "nri", "kind", to="hsp")
    assert "modules.nri.config: unknown key" in refused(bundle)
    change(bundle, "modules", "nri", remove=True)
    change(bundle, "modules", "hsp_sg_2", "kind", to="arrays")
    loaded = load_bundle(bundle)
    with pytest.raises(BundleError, match="bundle.yaml: modules: expected nri of kind nri$"):
        loaded.nri()
    with pytest.raises(BundleError, match="bundle.yaml: modules: expected hsp_sg_2 of kind hsp$"):
        loaded.predictor("hsp_sg_2")


# deviations


def test_error_table_is_linear_between_its_times_and_held_beyond():
    table = ErrorTable(seconds=[0.5, 1.0, 3.0], half_width=[0.1, 0.2, 0.6], radius=[0.3, 0.5, 2.5])
    width, radius = table.at(np.array([0.0, 0.5, 0.75, 1.5, 3.0, 60.0, np.inf]))
    np.testing.assert_allclose(width, [0.1, 0.1, 0.15, 0.3, 0.6, 0.6, 0.6])
    np.testing.assert_allclose(radius, [0.3, 0.3, 0.4, 1.0, 2.5, 2.5, 2.5])
    assert table.at(np.ones((2, 3)))[0].shape == (2, 3)
    width, radius = table.at(np.array([0.75, 3.0, 6.0, np.inf]), growing=True)
    np.testing.assert_allclose(width, [0.15, 0.6, 1.2, 0.6])
    np.testing.assert_allclose(radius, [0.4, 2.5, 5.0, 2.5])


def test_predicted_deviations_scale_the_table():
    table = ErrorTable([1.0, 3.0], [0.1, 0.2], [0.3, 0.6], spread=[0.02, 0.04], exponent=0.5)
    seconds = np.array([1.0, 1.0, 1.0, 2.0, 1.0])
    width, radius = table.at(seconds, spread=np.array([0.02, 0.08, np.nan, 0.03, 1e9]))
    np.testing.assert_allclose(width, [0.1, 0.2, 0.1, 0.15, 0.1 * 10**0.5])
    np.testing.assert_allclose(radius, 3 * width)
    np.testing.assert_allclose(table.at(seconds)[0], [0.1, 0.1, 0.1, 0.15, 0.1])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (([], [], []), "one entry each"),
        (([0.0, 1.0], [0.1], [0.1, 0.2]), "one entry each"),
        (([0.0, 0.0], [0.1, 0.1], [0.1, 0.2]), "must ascend"),
        (([0.0], [-0.1], [0.2]), "must not be negative"),
        (([0.0], [0.1], [0.2], [0.1, 0.1]), "one entry above 0 for each time"),
        (([0.0], [0.1], [0.2], [0.0]), "one entry above 0 for each time"),
        (([0.0], [0.1], [0.2], [], 0.5), "0 without spread"),
    ],
)
def test_error_tables_are_checked(table, said):
    with pytest.raises(ValueError, match=said):
        ErrorTable(*table)
