"""config/siha.yaml: every parameter of the node with its default; launch and demo both start the node with it."""

from __future__ import annotations

import ast

import yaml

from siha_ros.node.parameters import DECLARATIONS, Parameters
from siha_ros.resources import config_path


def flat(tree, prefix=""):
    """ROS names and values of a nested mapping."""
    values = {}
    for key, value in tree.items():
        values |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return values


def parameter_file():
    return flat(yaml.safe_load(config_path("siha.yaml").read_text())["/**"]["ros__parameters"])


def test_the_file_has_every_parameter_with_its_default():
    values = parameter_file()
    assert sorted(values) == sorted(declaration.name for declaration in DECLARATIONS)
    assert Parameters.checked(values) == Parameters()


def test_launch_and_demo_start_the_node_with_the_same_file(repository):
    from siha_ros.demo.run import node_arguments

    arguments = node_arguments(repository / "bundles" / "team")
    demo = arguments[arguments.index("--params-file") + 1]

    launch_file = ast.parse((repository / "launch" / "siha.launch.py").read_text())  # readable where launch is absent
    assignments = (node for node in launch_file.body if isinstance(node, ast.Assign))
    table = next(node.value for node in assignments if node.targets[0].id == "ARGUMENTS")
    entries = {key.value: value.elts[0] for key, value in zip(table.keys, table.values, strict=True)}
    expression = compile(ast.Expression(entries["params_file"]), "launch", "eval")
    default = eval(expression, {"config_path": config_path})
    assert demo == default == str(repository / "config" / "siha.yaml")
