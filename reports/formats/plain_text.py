"""A table as lines of plain text that no terminal of a given width has to wrap.

Columns that do not fit beside each other follow below, each block with the names again; a name that is too long goes on
in the next line, so that no two rows look alike.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from exitbench.printable import printable
from exitbench.reports.tables.table import Cell, Table, TableRow

LONGEST_NAME = 32
GAP = "  "
AFTER = " ,|=]"
"""Signs that a name is broken behind, where there is one in the last two thirds of a line."""


def cells_wide(text: str) -> int:
    """How many columns of a terminal a text takes.

    >>> cells_wide("CAP"), cells_wide("日本"), cells_wide("e\u0301")
    (3, 4, 1)
    """
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def beginning(text: str, width: int) -> str:
    """As much of a text, from its first sign on, as takes at most ``width`` columns."""
    kept = ""
    for sign in text:
        if cells_wide(kept + sign) > width:
            break
        kept += sign
    return kept


def cut(text: str, width: int) -> str:
    """A text that takes at most ``width`` columns."""
    return text if cells_wide(text) <= width else f"{beginning(text, width - 1)}…"


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most ``width`` columns, the second and later ones set in by two.

    >>> folded("cap[alpha=0.1|1,center=true]", 18)
    ['cap[alpha=0.1|1,', '  center=true]']
    """
    lines, rest = [], text
    while cells_wide(rest) > width:
        start = beginning(rest, width)
        broken = max(start.rfind(sign) for sign in AFTER) + 1
        taken = broken if broken > len(start) // 3 else len(start)
        lines.append(rest[:taken].rstrip())
        rest = f"{GAP}{rest[taken:].lstrip()}"
    return [*lines, rest]


def filled_up(text: str, width: int, *, left: bool = False) -> str:
    """A text with blanks before it, or behind it with ``left``, up to ``width`` columns."""
    blanks = " " * (width - cells_wide(text))
    return text + blanks if left else blanks + text


def marked_text(cell: Cell, *, intervals: bool) -> str:
    """A cell with its marks, and its interval if there is room for one."""
    interval = f" {cell.interval}" if intervals and cell.interval else ""
    return printable(f"{cell.text}{cell.mark}{'*' if cell.best or cell.tied else ''}{interval}")


def table_lines(table: Table, width: int) -> list[str]:
    """The title and the rows; intervals where all columns have room for them in one block."""
    names = row_names(table)
    name_width = widest(names)
    headings = column_headings(table)
    texts, widths = column_texts(table, width - name_width)
    lines = [cut(printable(table.title), width)]
    for block in blocks_of(widths, width - name_width):
        for level in (0, 1):
            if level or table.is_grouped:
                parts = [filled_up(cut(headings[at][level], widths[at]), widths[at]) for at in block]
                lines.append((" " * name_width + GAP + GAP.join(parts)).rstrip())
        lines += block_rows(table.rows, names, texts, widths, block)
    return lines


def row_names(table: Table) -> list[list[str]]:
    """The names of the rows, each in as many lines as it needs."""
    return [folded(printable(row.cells[0].text), LONGEST_NAME) for row in table.rows]


def widest(names: Sequence[Sequence[str]]) -> int:
    """The columns that the names of the rows take."""
    return max((cells_wide(line) for name in names for line in name), default=0)


def column_headings(table: Table) -> list[list[str]]:
    """The two lines above every column but that of the names."""
    return [[printable(column.group), printable(column.title)] for column in table.columns[1:]]


def column_texts(table: Table, room: int) -> tuple[list[list[str]], list[int]]:
    """The cells as texts, [rows][columns], with intervals if all have room for them; and the widths."""
    for intervals in (True, False):
        texts = [[marked_text(cell, intervals=intervals) for cell in row.cells[1:]] for row in table.rows]
        widths = [
            min(max(map(cells_wide, [*heading, *(row[at] for row in texts)])), room - len(GAP))
            for at, heading in enumerate(column_headings(table))
        ]
        if sum(widths) + len(GAP) * len(widths) <= room:
            break
    return texts, widths


def columns_beside(table: Table, width: int) -> list[int]:
    """The positions of the columns, but for the names, that a terminal of this width has room for side by side."""
    room = width - widest(row_names(table))
    _, widths = column_texts(table, room)
    return blocks_of(widths, room)[0]


def blocks_of(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns that stand beside each other, by position."""
    blocks: list[list[int]] = [[]]
    for at in range(len(widths)):
        taken = sum(widths[other] + len(GAP) for other in blocks[-1])
        if blocks[-1] and taken + widths[at] + len(GAP) > room:
            blocks.append([])
        blocks[-1].append(at)
    return blocks


def block_rows(
    rows: Sequence[TableRow],
    names: Sequence[Sequence[str]],
    texts: Sequence[Sequence[str]],
    widths: Sequence[int],
    block: Sequence[int],
) -> list[str]:
    """The rows of one block; bounds are set apart from signals by an empty line."""
    lines = []
    name_width = widest(names)
    kind = rows[0].kind if rows else ""
    for row, name, cells in zip(rows, names, texts, strict=True):
        if row.kind != kind:
            lines.append("")
            kind = row.kind
        parts = [filled_up(cut(cells[at], widths[at]), widths[at]) for at in block]
        lines.append((filled_up(name[0], name_width, left=True) + GAP + GAP.join(parts)).rstrip())
        lines += name[1:]
    return lines
