"""Tables of the commands, as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines in which the first column stands left and the others stand right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, of which the first row is the head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]]
