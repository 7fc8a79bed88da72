"""Package for machines with no ROS: `pip install .` gives the command `siha` to train, evaluate and replay.

The ROS 2 package, with messages and node, is built by CMakeLists.txt. constraints.txt pins versions that work together.
"""

import xml.etree.ElementTree
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = xml.etree.ElementTree.parse(ROOT / "package.xml").findtext("version")
SHIPPED = {  # become package data
    "siha_ros.bundles": "bundles",
    "siha_ros.config": "config",
    "siha_ros.interfaces": "msg",
}

setup(
    name="siha_ros",
    version=VERSION,
    description="Live recovery of the hidden members of an interacting team or body",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=[
        *find_packages(include=["siha_ros", "siha_ros.*", "offline_training", "offline_training.*"]),
        *SHIPPED,
    ],
    package_dir=SHIPPED,
    package_data={**{package: ["*", "*/*"] for package in SHIPPED}, "offline_training": ["configs/*.yaml"]},
    install_requires=[
        "torch>=2.4",
        "numpy>=1.26",
        "scipy>=1.11",
        "numba>=0.59",
        "safetensors>=0.4",
        "PyYAML>=6.0",
        "matplotlib>=3.6",
        "rich>=13.0",
        "tqdm>=4.60",
        "rosbags>=0.11",
    ],
    extras_require={
        "viewer": ["viser>=1.1"],
        "tensorboard": ["tensorboard>=2.14"],  # curves of a training while it runs
        "c3d": ["ezc3d>=1.5"],  # recordings in .c3d, for siha train FOLDER
        "pypots": ["pypots>=1.0"],  # SAITS and BRITS, for siha reproduce baselines
        "test": [
            "pytest>=7.4",
            "pytest-rerunfailures>=12",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
            "mypy>=1.11",
            "types-PyYAML",
        ],
    },
    entry_points={"console_scripts": ["siha = siha_ros.cli:main"]},
    zip_safe=False,
)
