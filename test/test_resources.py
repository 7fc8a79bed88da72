"""Shipped bundles and parameter files are found in each kind of install, and versions agree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import siha_ros
from siha_ros.resources import bundle_path, config_path, message_files


def make_bundle(folder):
    folder.mkdir(parents=True)
    (folder / "bundle.yaml").write_text("name: x\n")
    return folder


@pytest.fixture
def installed(tmp_path, repository):
    """A copy of siha_ros with no source tree around it; runs code there and returns what it prints."""
    packages = tmp_path / "site-packages"
    (packages / "siha_ros").mkdir(parents=True)
    for name in ("__init__.py", "resources.py"):
        shutil.copy(repository / "siha_ros" / name, packages / "siha_ros")

    def run(code, **environment):
        done = subprocess.run(
            [sys.executable, "-c", f"from siha_ros.resources import *; {code}"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(packages), "_ROS_WHEELS_BOOTSTRAP_COMPLETE": "1", **environment},
            capture_output=True,
            text=True,
        )
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    run.packages = packages
    return run


def test_a_path_to_a_bundle_is_taken_as_it_is(tmp_path):
    folder = make_bundle(tmp_path / "mine")
    assert bundle_path(folder) == folder
    assert bundle_path(str(folder)) == folder


def test_a_name_is_found_as_package_data_of_a_pip_install(installed):
    folder = make_bundle(installed.packages / "siha_ros" / "bundles" / "team")
    assert installed("print(bundle_path('team'))") == str(folder)


def test_a_name_is_found_in_the_share_folder_of_an_ament_install(installed, tmp_path):
    folder = make_bundle(tmp_path / "prefix" / "share" / "siha_ros" / "bundles" / "team")
    assert installed("print(bundle_path('team'))", AMENT_PREFIX_PATH=f"/other:{tmp_path / 'prefix'}") == str(folder)


def test_a_name_in_a_symlinked_install_is_found_in_the_source_tree(installed, tmp_path):
    source = tmp_path / "source"
    folder = make_bundle(source / "bundles" / "team")
    (source / "package.xml").touch()
    (source / "siha_ros").mkdir()
    module = installed.packages / "siha_ros" / "resources.py"
    shutil.move(module, source / "siha_ros" / "resources.py")
    module.symlink_to(source / "siha_ros" / "resources.py")
    assert installed("print(bundle_path('team'))") == str(folder)


def test_an_unknown_name_lists_the_shipped_ones(installed):
    make_bundle(installed.packages / "siha_ros" / "bundles" / "team")
    make_bundle(installed.packages / "siha_ros" / "bundles" / "body")
    assert installed("bundle_path('boddy')") == (
        "FileNotFoundError: no bundle 'boddy': expected a folder with a bundle.yaml, or one of body, team"
    )


def test_a_folder_that_is_no_bundle_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"{tmp_path} is not a bundle: it holds no bundle.yaml"):
        bundle_path(tmp_path)


def test_the_parameter_file_is_that_of_the_source_tree(repository):
    assert config_path("siha.yaml") == repository / "config" / "siha.yaml"
    with pytest.raises(FileNotFoundError, match=r"no config file 'none\.yaml' in "):
        config_path("none.yaml")


def test_message_definitions_are_found_in_every_install(installed, repository, tmp_path):
    assert message_files() == sorted((repository / "msg").glob("*.msg"))
    assert installed("message_files()").startswith("FileNotFoundError: the definitions of the messages")
    for folder in (tmp_path / "prefix" / "share" / "siha_ros" / "msg", installed.packages / "siha_ros" / "interfaces"):
        folder.mkdir(parents=True)
        (folder / "AgentState.msg").touch()
    generated = installed.packages / "siha_ros" / "msg"  # Python code beside the package, in an ament install
    generated.mkdir()
    (generated / "__init__.py").touch()
    assert installed("print(*message_files())") == str(
        installed.packages / "siha_ros" / "interfaces" / "AgentState.msg"
    )
    share = tmp_path / "prefix" / "share" / "siha_ros" / "msg" / "AgentState.msg"
    assert installed("print(*message_files())", AMENT_PREFIX_PATH=str(tmp_path / "prefix")) == str(share)


def test_package_and_code_have_one_version(repository):
    assert siha_ros.__version__ == ElementTree.parse(repository / "package.xml").findtext("version")
