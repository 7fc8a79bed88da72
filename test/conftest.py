"""What all tests share: recorded data, a ROS domain of the test's own, and one thread per library."""

from __future__ import annotations

import os
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before numpy and torch are imported

import pytest  # noqa: E402
from domains import own_domain  # noqa: E402

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded data: SIHA_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("SIHA_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no recorded data in {folder} (SIHA_DATA names another folder)")
    return folder


@pytest.fixture
def ros_domain(monkeypatch: pytest.MonkeyPatch) -> int:
    """A ROS domain that this test has to itself, heard on this machine only; the child processes inherit it."""
    domain = own_domain()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    return domain


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long runs to `make soak`, whatever else is asked for."""
    if "soak" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("soak")])
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    if config.pluginmanager.hasplugin("rerunfailures"):  # on a busy machine DDS may take longer than any limit to find
        for item in items:  # a process: a second try, which the summary lists; what fails twice fails
            if item.get_closest_marker("ros") and not item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.flaky(reruns=1))
