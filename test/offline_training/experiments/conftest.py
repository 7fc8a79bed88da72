"""A laboratory in the small: networks of width 16 and schedules of ten steps, so that an experiment takes seconds."""

from __future__ import annotations

import pytest

from offline_training.experiments import baselines
from offline_training.experiments.cells import Options
from offline_training.experiments.lab import Lab

SETTINGS = ("nri.encoder_width=16", "nri.decoder_width=16", "hsp.width=16", "nri_batch=8", "hsp_batch=8")
OPTIONS = Options(scale=1e-3, samples=60, systems=("springs",), hidden=(1,))


@pytest.fixture(scope="session")
def tiny_lab(tmp_path_factory):
    """One for all tests, as sessions of a user share one: what a test trains the next one finds."""
    return Lab(tmp_path_factory.mktemp("experiments"), test=12, settings=SETTINGS)


@pytest.fixture
def own_lab(tiny_lab, tmp_path):
    """One in which nothing is trained yet."""
    return Lab(tmp_path, test=tiny_lab.test, settings=tiny_lab.settings)


@pytest.fixture
def tiny_options() -> Options:
    """The shortest schedules."""
    return OPTIONS


@pytest.fixture(autouse=True)
def few_live(monkeypatch):
    """Windows for the node's estimator, which answers them one by one."""
    monkeypatch.setattr(baselines, "LIVE", 2)
