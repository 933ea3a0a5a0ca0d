"""A table for the terminal, by rich: the text of every cell without its interval, which would not fit the width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.table import Table as TerminalTable
from rich.text import Text

from exitbench.printable import printable
from exitbench.reports.tables.table import Cell, Table

LEGEND = (
    "* best, or not shown to be worse; † not near the speed-up; § all exit at one layer; ¶ cannot exit at this layer; "
    "‡ unreliable; – undefined; smallest difference: what the paired tests could show in 4 of 5 cases"
)
"""What the marks mean; a caller prints it once, below all its tables."""


LABEL_WIDTH = 24
"""The most that a column of names takes of a width that is too small for the whole table; it is folded."""
GAP = 2
"""Signs between two columns."""


def fitting_parts(table: Table, width: int) -> list[Table]:
    """The table, or parts of it that fit ``width``: each has all columns of names and some of numbers."""
    names = [index for index, column in enumerate(table.columns) if column.is_label]
    numbers = [index for index, column in enumerate(table.columns) if not column.is_label]
    sizes = [column_width(table, index) for index in range(len(table.columns))]
    if sum(sizes) <= width or not numbers:
        return [table]
    room = width - sum(min(sizes[index], LABEL_WIDTH + GAP) for index in names)
    shares: list[list[int]] = [[]]
    for index in numbers:
        if shares[-1] and sum(sizes[each] for each in (*shares[-1], index)) > room:
            shares.append([])
        shares[-1].append(index)
    return [some_columns(table, [*names, *share], again=number > 0) for number, share in enumerate(shares)]


def column_width(table: Table, index: int) -> int:
    """The signs that a column takes unfolded, and the gap to the next."""
    column = table.columns[index]
    texts = [column.group, column.title, *(terminal_cell(row.cells[index]).plain for row in table.rows)]
    return GAP + max(cell_len(printable(text)) for text in texts)


def some_columns(table: Table, chosen: Sequence[int], *, again: bool) -> Table:
    """The table with some of its columns; a part after the first says so in its title."""
    kept = sorted(chosen)
    return replace(
        table,
        title=f"{table.title}, continued" if again else table.title,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(replace(row, cells=tuple(row.cells[index] for index in kept)) for row in table.rows),
    )


def terminal_table(table: Table) -> TerminalTable:
    """The table under its title; a heading that columns share is repeated above each, kinds of rows are set apart.

    Nothing in a name is read as markup. Where the width is short, names are folded and numbers stay whole.
    """
    shown = TerminalTable(
        title=Text(printable(table.title), style="bold"), title_justify="left", box=box.SIMPLE, pad_edge=False
    )
    for column in table.columns:
        heading = Text("\n".join(map(printable, filter(None, (column.group, column.title)))))
        if column.is_label:
            shown.add_column(heading, overflow="fold", vertical="bottom")
        else:
            shown.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    for row, following in zip(table.rows, [*table.rows[1:], None], strict=True):
        last_of_kind = following is not None and following.kind != row.kind
        shown.add_row(*map(terminal_cell, row.cells), end_section=last_of_kind)
    return shown


def terminal_cell(cell: Cell) -> Text:
    """A cell with its marks; the best is bold as well, where the terminal can."""
    marked = cell.best or cell.tied
    return Text(f"{printable(cell.text)}{cell.mark}{'*' if marked else ''}", style="bold" if cell.best else "")
