"""A table as lines of plain text that no terminal of a given width has to wrap.

Columns that do not fit beside each other follow below, each block with the names again; a name that is too long goes on
in the next line, so that no two rows look alike.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.printable import printable
from exitbench.reports.tables.table import Cell, Table, TableRow

LONGEST_NAME, SHORTEST_NAME = 32, 16
"""How wide names may be, and how narrow they are folded to bring all columns side by side."""
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


@dataclass(frozen=True)
class Layout:
    """How a table stands in a terminal: names folded, cells as texts [rows][columns], and which columns are in a block.

    ``widths`` are those of the columns, but for the names.
    """

    names: list[list[str]]
    texts: list[list[str]]
    widths: list[int]
    blocks: list[list[int]]

    @property
    def name_width(self) -> int:
        """The columns that the names of the rows take."""
        return max((cells_wide(line) for name in self.names for line in name), default=0)


def table_lines(table: Table, width: int) -> list[str]:
    """The title and the rows; intervals where all columns have room for them in one block.

    The names of groups of columns stand over all of their columns.
    """
    layout = table_layout(table, width)
    lines = [cut(printable(table.title), width)]
    before = " " * layout.name_width + GAP
    for block in layout.blocks:
        if table.is_grouped:
            spans = [(table.columns[span[0] + 1].group, span) for span in group_spans(table, block)]
            wide = [(group, span_width(layout.widths, span)) for group, span in spans]
            lines.append((before + GAP.join(filled_up(cut(printable(g), w), w, left=True) for g, w in wide)).rstrip())
        titles = [cut(printable(table.columns[at + 1].title), layout.widths[at]) for at in block]
        parts = [filled_up(title, layout.widths[at]) for title, at in zip(titles, block, strict=True)]
        lines.append((before + GAP.join(parts)).rstrip())
        lines += block_rows(table.rows, layout, block)
    return lines


def table_layout(table: Table, width: int) -> Layout:
    """Intervals where all columns have room for them; names narrower where that brings all columns side by side."""
    longest = names_within(table, LONGEST_NAME)
    name_width = widest(longest)
    for intervals in (True, False):
        texts = [[marked_text(cell, intervals=intervals) for cell in row.cells[1:]] for row in table.rows]
        widths = column_widths(table, texts, width - name_width - len(GAP))
        needed = span_width(widths, range(len(widths))) + len(GAP)
        if needed <= width - name_width:
            return Layout(longest, texts, widths, blocks_of(widths, width - name_width))
    names = names_within(table, width - needed) if width - needed >= SHORTEST_NAME else longest
    return Layout(names, texts, widths, blocks_of(widths, width - widest(names)))


def names_within(table: Table, width: int) -> list[list[str]]:
    """The names of the rows, each in as many lines as it needs."""
    return [folded(printable(row.cells[0].text), width) for row in table.rows]


def widest(names: Sequence[Sequence[str]]) -> int:
    """The columns that the names of the rows take."""
    return max((cells_wide(line) for name in names for line in name), default=0)


def column_widths(table: Table, texts: Sequence[Sequence[str]], most: int) -> list[int]:
    """The width of every column but that of the names; those of a group have room for its name together."""
    columns = table.columns[1:]
    widths = [
        min(max(map(cells_wide, [printable(column.title), *(row[at] for row in texts)])), most)
        for at, column in enumerate(columns)
    ]
    for span in group_spans(table, range(len(columns))):
        missing = cells_wide(printable(columns[span[0]].group)) - span_width(widths, span)
        widths[span[-1]] = min(widths[span[-1]] + max(missing, 0), most)
    return widths


def group_spans(table: Table, block: Sequence[int]) -> list[list[int]]:
    """The columns of a block that stand beside each other under one group's name, by position."""
    return [list(span) for _, span in itertools.groupby(block, key=lambda at: table.columns[at + 1].group)]


def span_width(widths: Sequence[int], span: Sequence[int]) -> int:
    """How wide some columns are together."""
    return sum(widths[at] for at in span) + len(GAP) * (len(span) - 1)


def columns_beside(table: Table, width: int) -> list[int]:
    """The positions of the columns, but for the names, that a terminal of this width has room for side by side."""
    return table_layout(table, width).blocks[0]


def blocks_of(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns that stand beside each other, by position."""
    blocks: list[list[int]] = [[]]
    for at in range(len(widths)):
        taken = sum(widths[other] + len(GAP) for other in blocks[-1])
        if blocks[-1] and taken + widths[at] + len(GAP) > room:
            blocks.append([])
        blocks[-1].append(at)
    return blocks


def block_rows(rows: Sequence[TableRow], layout: Layout, block: Sequence[int]) -> list[str]:
    """The rows of one block; bounds are set apart from signals by an empty line."""
    lines = []
    kind = rows[0].kind if rows else ""
    for row, name, cells in zip(rows, layout.names, layout.texts, strict=True):
        if row.kind != kind:
            lines.append("")
            kind = row.kind
        parts = [filled_up(cut(cells[at], layout.widths[at]), layout.widths[at]) for at in block]
        lines.append((filled_up(name[0], layout.name_width, left=True) + GAP + GAP.join(parts)).rstrip())
        lines += name[1:]
    return lines
