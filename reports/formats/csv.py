"""A table as CSV for a spreadsheet: numbers at full precision, intervals in columns of their own, nothing that runs.

A spreadsheet takes a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula; such a text gets an apostrophe
in front. Numbers are written as numbers, so a negative one stays what it is.
"""

from __future__ import annotations

import csv
import io
import math

from exitbench.printable import printable
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.table import Cell, Table, TableColumn

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings that make a spreadsheet compute; the full-width forms count in some locales."""


def safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula, with what a terminal would obey as visible escapes.

    >>> safe("=1+1"), safe("CAP"), safe("  @x")
    ("'=1+1", 'CAP', "'  @x")
    """
    return printable(f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text)


def real(value: float | None) -> str:
    """A number as the shortest text that reads back as the same number; empty for none."""
    return "" if value is None or math.isnan(value) else repr(float(value))


def heading(column: TableColumn) -> str:
    """A column's heading with the one it shares with its neighbours."""
    return f"{column.group}: {column.title}" if column.group else column.title


def second_name(table: Table, position: int, number: int) -> str:
    """What the further numbers of a column are called, from where they were read."""
    for row in table.rows:
        numbers = row.cells[position].numbers
        if len(numbers) > number:
            return measure_name(numbers[number])
    return ""


def measure_name(number: Number) -> str:
    """The measure of a number, for a column's name."""
    if number.source == "results":
        *_, decisions, measure = number.key
        return f"{measure} {decisions}".strip()
    return number.column


def csv_table(table: Table) -> str:
    """The table as CSV: for each column of numbers its value, interval, further numbers, mark and status."""
    counts = [max((len(row.cells[at].numbers) for row in table.rows), default=0) for at in range(len(table.columns))]
    header: list[str] = []
    for at, column in enumerate(table.columns):
        name = heading(column)
        header.append(name)
        if counts[at]:
            header += [f"{name} low", f"{name} high"]
            header += [f"{name} {second_name(table, at, number)}" for number in range(1, counts[at])]
            header += [f"{name} mark", f"{name} status"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([safe(title) for title in header])
    for row in table.rows:
        writer.writerow([field for cell, count in zip(row.cells, counts, strict=True) for field in fields(cell, count)])
    return text.getvalue()


def fields(cell: Cell, count: int) -> list[str]:
    """The fields of one cell in a column of up to ``count`` numbers."""
    if not count:
        return [safe(cell.text)]
    values = [real(number.value) for number in cell.numbers] + [""] * (count - len(cell.numbers))
    mark = "best" if cell.best else "tied with best" if cell.tied else ""
    return [values[0], real(cell.low), real(cell.high), *values[1:], mark, safe(cell.status)]
