"""Everything a verb prints goes through here: lines, JSON and tables, none of which a name can break.

Names come from files of strangers, so every text passes :func:`exitbench.printable.printable`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from exitbench.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDE = 120
"""Columns when the output is no terminal, where nothing else limits them."""

MOST_REMARKS = 10
"""As many failures or notes of one kind as a terminal is told."""

UNLIMITED = 1_000_000
"""A width that no row reaches."""


def echo(*lines: str, err: bool = False) -> None:
    """Print lines on standard output or standard error; a line feed inside one of them is printed as an escape."""
    stream = sys.stderr if err else sys.stdout
    for line in lines:
        stream.write(f"{printable(line)}\n")
    stream.flush()


def echo_few(lines: Sequence[str], rest: str) -> None:
    """Print the first lines on standard error; ``rest`` says where the others are, which are only counted."""
    echo(*lines[:MOST_REMARKS], err=True)
    if len(lines) > MOST_REMARKS:
        echo(f"and {len(lines) - MOST_REMARKS} more, in {rest}", err=True)


def echo_json(value: Any) -> None:
    """Print a value as JSON in ASCII, which every terminal and encoding leaves as it is."""
    echo(*json.dumps(value, indent=2).split("\n"))


def terminal_console() -> Console:
    """A console for tables on standard output: texts are printed as they are, without markup or highlighting."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, WIDE)
    return console


def cell_text(value: object, style: str = "") -> Text:
    """A value for a cell or the title of a rich table: no markup, no control characters."""
    from rich.text import Text

    return Text(printable(str(value)), style=style)


def column_lines(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Rows in columns as lines of text that no terminal width cuts, the headings first.

    Columns in ``numbers`` are aligned on the right.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="right" if position in numbers else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(cell_text, row))
    text = io.StringIO()
    Console(file=text, width=UNLIMITED, color_system=None).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]
