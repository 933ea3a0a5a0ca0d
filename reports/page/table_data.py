"""Tables as compact values for the page's scripts, which build a table when a reader opens it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from exitbench.printable import printable
from exitbench.reports.run_data.glossary import GLOSSARY
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.table import Cell, Table, TableRow

Origin = Callable[[Number], str]
FILES: Mapping[str, str] = {"results": "r", "pairs": "p", "across": "a"}
"""The first sign of a short key."""


def shown_text(text: str) -> str:
    """What the page shows of a text that anybody may have written: control and bidirectional signs as escapes."""
    return "\n".join(map(printable, text.split("\n")))


def cell_hint(cell: Cell) -> str:
    """What hovering adds to a cell: its reason and its notes, each once."""
    return "; ".join(filter(None, dict.fromkeys((cell.reason, *cell.notes))))


def short_key(origin: str) -> str:
    """Where a number was read, in few signs: the file's letter, the row, and the column unless it is ``value``.

    Where a table is of several runs, the run's number and a colon stand before it.

    >>> short_key("results/12/value"), short_key("pairs/3/-difference"), short_key("1/results/12/value"), short_key("")
    ('r12', 'p3/-difference', '1:r12', '')
    """
    if not origin:
        return ""
    *run, file, row, column = origin.split("/")
    return "".join(f"{number}:" for number in run) + f"{FILES[file]}{row}" + ("" if column == "value" else f"/{column}")


def cell_data(cell: Cell, origin: Origin) -> str | list[Any]:
    """A label as its text; another cell as text, flags (1 best, 2 level), status, interval, hint, and its numbers.

    Empty values at the end are left out. A number is its text, followed by where it was read.
    """
    flags = int(cell.best) + 2 * int(cell.tied)
    numbers: list[str] = []
    for number in cell.numbers:
        numbers += [number.text, short_key(origin(number))]
    status = "" if cell.status == "ok" else cell.status
    values = [shown_text(cell.text), flags, status, cell.interval, shown_text(cell_hint(cell)), numbers]
    while len(values) > 1 and not values[-1]:
        values.pop()
    return values[0] if len(values) == 1 else values  # type: ignore[return-value]


def row_data(row: TableRow, origin: Origin) -> list[Any]:
    """A row: its kind, then its cells."""
    return [row.kind, *(cell_data(cell, origin) for cell in row.cells)]


def named_table(table: Table) -> dict[str, Any]:
    """What a table is called, and what it is about."""
    return {
        "name": table.name,
        "title": shown_text(table.title),
        "question": table.question,
        "protocol": table.protocol,
    }


def table_data(table: Table, origin: Origin) -> dict[str, Any]:
    """A table as the scripts read it."""
    table = table.whole()
    measures = dict.fromkeys(column.measure for column in table.columns if column.measure in GLOSSARY)
    return named_table(table) | {
        "columns": [
            [shown_text(column.title), shown_text(column.group), column.measure, column.better]
            for column in table.columns
        ],
        "rows": [row_data(row, origin) for row in table.rows],
        "notes": [shown_text(note) for note in table.notes],
        "measures": list(measures),
    }
