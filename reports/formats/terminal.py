"""A table for the terminal, by rich: the text of every cell without its interval, which would not fit the width."""

from __future__ import annotations

from rich import box
from rich.table import Table as TerminalTable
from rich.text import Text

from exitbench.printable import printable
from exitbench.reports.tables.table import Cell, Table

LEGEND = (
    "* best, or not shown to be worse; † not near the speed-up; § all exit at one layer; ¶ cannot exit at this layer; "
    "‡ unreliable; – undefined; smallest difference: what the paired tests could show in 4 of 5 cases"
)
"""What the marks mean; a caller prints it once, below all its tables."""


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
