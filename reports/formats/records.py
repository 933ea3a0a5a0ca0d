"""A table as plain columns, one per number that it shows: what CSV and Parquet are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.table import Cell, Table, TableColumn

Value = str | float | None


@dataclass(frozen=True)
class PlainColumn:
    """A named column: texts, or numbers (None where there is none)."""

    name: str
    is_number: bool
    values: Sequence[Value]


def heading(column: TableColumn) -> str:
    """A column's heading with the one it shares with its neighbours."""
    return f"{column.group}: {column.title}" if column.group else column.title


def plain_columns(table: Table) -> list[PlainColumn]:
    """For each column of numbers its value, interval, further numbers, mark and status; labels as they are."""
    columns = []
    for at, column in enumerate(table.columns):
        cells = [row.cells[at] for row in table.rows]
        count = max((len(cell.numbers) for cell in cells), default=0)
        name = heading(column)
        if not count:
            columns.append(PlainColumn(name, is_number=False, values=[cell.text for cell in cells]))
            continue
        columns += [
            PlainColumn(name, is_number=True, values=[nth_number(cell, 0) for cell in cells]),
            PlainColumn(f"{name} low", is_number=True, values=[cell.low for cell in cells]),
            PlainColumn(f"{name} high", is_number=True, values=[cell.high for cell in cells]),
        ]
        columns += [
            PlainColumn(
                f"{name} {second_name(cells, number)}",
                is_number=True,
                values=[nth_number(cell, number) for cell in cells],
            )
            for number in range(1, count)
        ]
        columns += [
            PlainColumn(f"{name} mark", is_number=False, values=[mark_of(cell) for cell in cells]),
            PlainColumn(f"{name} status", is_number=False, values=[cell.status for cell in cells]),
        ]
    return columns


def nth_number(cell: Cell, number: int) -> float | None:
    """One of a cell's numbers, None where it has fewer."""
    return cell.numbers[number].value if number < len(cell.numbers) else None


def mark_of(cell: Cell) -> str:
    """What bold and underlined print means, in words."""
    return "best" if cell.best else "tied with best" if cell.tied else ""


def second_name(cells: Sequence[Cell], number: int) -> str:
    """What the further numbers of a column are called, from where they were read."""
    return next((measure_name(cell.numbers[number]) for cell in cells if len(cell.numbers) > number), "")


def measure_name(number: Number) -> str:
    """The measure of a number, for a column's name."""
    if number.source == "results":
        *_, decisions, measure = number.key
        return f"{measure} {decisions}".strip()
    return number.column
