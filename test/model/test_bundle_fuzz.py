"""Damaged bundles: every truncation and every flipped bit is refused in one line, or loads to the same result.

A sample in the suite; all of bundle.yaml, and of the smallest module, in `make soak`.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from springs_by_hand import small_bundle_parts

from siha_ros.model.bundle import Bundle, BundleError, load_bundle, save_bundle

FRAMES = 6


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "small"
    save_bundle(path, *small_bundle_parts(FRAMES))
    return path


def state(bundle: Bundle) -> dict:
    """All tensors of a bundle."""
    tensors = {(name, key): value for name, part in bundle.arrays.items() for key, value in part.items()}
    return tensors | {
        (n, key): value for n, part in bundle.networks.items() for key, value in part.state_dict().items()
    }


@pytest.mark.parametrize("file", ["bundle.yaml", "noise.safetensors"])
@pytest.mark.parametrize("share", [0.005, pytest.param(1.0, marks=pytest.mark.soak)])
def test_damage_is_refused_or_harmless(pristine, tmp_path, file, share):
    bundle = shutil.copytree(pristine, tmp_path / "small")
    good, whole = (bundle / file).read_bytes(), load_bundle(bundle)
    random, refusals, harmless = np.random.default_rng(0), 0, 0
    for data in damages(good, random, share):
        (bundle / file).write_bytes(data)
        try:
            loaded = load_bundle(bundle)
        except BundleError as error:
            message = str(error)
            assert message.startswith(f"{bundle}") and file in message and "\n" not in message and len(message) < 600
            refusals += 1
        else:
            assert loaded.config == whole.config
            for key, value in state(loaded).items():
                assert torch.equal(value, state(whole)[key])
            harmless += 1
    assert refusals > 20 * harmless


def damages(good: bytes, random: np.random.Generator, share: float):
    """Of all truncations and all flips of one bit, a share."""
    for end in np.flatnonzero(random.random(len(good)) < share):
        yield good[:end]
    for place in np.flatnonzero(random.random(8 * len(good)) < share):
        data = bytearray(good)
        data[place // 8] ^= 1 << (place % 8)
        yield bytes(data)
