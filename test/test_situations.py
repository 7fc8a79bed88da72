"""docs/situations.md: a row for every situation from the field, and every test that it names is there."""

from __future__ import annotations

import ast
import re


def test_every_situation_has_a_test_that_exists(repository):
    text = (repository / "docs" / "situations.md").read_text(encoding="utf-8")
    rows = {int(row[1]): row[0] for row in re.finditer(r"^\| (\d+) \|.*$", text, re.MULTILINE)}
    assert sorted(rows) == list(range(1, 26))
    assert all("::test_" in row for row in rows.values())
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", text))
    assert len(named) > 40
    for file, test in named:
        path = repository / "test" / file
        functions = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
        assert test in functions, f"{file} has no {test}"
