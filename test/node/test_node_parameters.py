"""Parameters: a check says name, value and what was expected, in one line; the documented table is the declared one."""

from __future__ import annotations

from pathlib import Path

import pytest

from siha_ros.node.parameters import DECLARATIONS, ParameterError, Parameters, markdown_table


def test_whole_number_for_a_float_is_accepted_as_float():
    rate = Parameters.checked({"rate": 50}).rate
    assert rate == 50.0 and type(rate) is float


def test_an_axis_y_that_yaml_takes_for_yes_is_the_axis():
    assert Parameters.checked({"input.up_axis": True}).input_up_axis == "y"
    with pytest.raises(ParameterError, match="parameter input.up_axis is False: expected one of z, y"):
        Parameters.checked({"input.up_axis": False})


def test_lists_become_tuples_without_the_empty_text_that_ros_writes_for_an_empty_list():
    parameters = Parameters.checked({"input.agents": ["r1", "r2"], "name_map": [""]})
    assert parameters.input_agents == ("r1", "r2")
    assert parameters.name_map == ()


def test_name_map_reads_as_a_dictionary():
    assert Parameters.checked({"name_map": ["LeftHand:lhand", "Head:head"]}).names == {
        "LeftHand": "lhand",
        "Head": "head",
    }


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("rate", 0.0, "parameter rate is 0.0: expected a number from 0.1 to 200"),
        ("rate", 200.1, "parameter rate is 200.1: expected a number from 0.1 to 200"),
        ("rate", float("nan"), "parameter rate is nan: expected a number from 0.1 to 200"),
        ("rate", "fast", "parameter rate is 'fast': expected a number from 0.1 to 200"),
        ("rate", True, "parameter rate is True: expected a number from 0.1 to 200"),
        ("autostart", "true", "parameter autostart is 'true': expected true or false"),
        ("autostart", 1, "parameter autostart is 1: expected true or false"),
        ("input.depth", 2.5, "parameter input.depth is 2.5: expected a whole number from 1 to 10000"),
        ("stamp_source", "clock", "parameter stamp_source is 'clock': expected one of header, arrival"),
        ("device", "tpu", "parameter device is 'tpu': expected auto, cpu, cuda or cuda:N"),
        ("input.agents", ["a", "b", "a"], "parameter input.agents is ['a', 'b', 'a']: expected each name once"),
        ("input.agents", "a", "parameter input.agents is 'a': expected a list of texts"),
        ("name_map", ["a"], "parameter name_map has 'a': expected 'stream_name:bundle_name'"),
        ("name_map", ["a:x", "b:x"], "parameter name_map is ['a:x', 'b:x']: expected each name once on either side"),
    ],
)
def test_error_is_one_line_with_name_value_and_expectation(name, value, line):
    with pytest.raises(ParameterError) as error:
        Parameters.checked({name: value})
    assert str(error.value) == line


def test_edges_of_a_range_are_inside():
    assert Parameters.checked({"rate": 0.1}).rate == 0.1
    assert Parameters.checked({"rate": 200.0}).rate == 200.0


def test_every_default_passes_its_own_check_and_is_described():
    for declaration in DECLARATIONS:
        assert declaration.check(declaration.default) == declaration.default
        assert declaration.description.endswith(".")


def test_documented_table_is_the_declared_one():
    text = (Path(__file__).parents[2] / "docs" / "node.md").read_text()
    assert markdown_table() in text
