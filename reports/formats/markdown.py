"""A table as Markdown (GitHub's dialect): names are text, whatever signs they hold."""

from __future__ import annotations

import re

from exitbench.printable import printable
from exitbench.reports.formats.records import heading
from exitbench.reports.tables.table import Cell, Table

INLINE = "\\`*_[]|~$#^@"
"""Signs that mean something within a line."""

ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

WRITTEN = str.maketrans({**{sign: f"\\{sign}" for sign in INLINE}, **ENTITIES})
"""What stands for each sign that would mean something: one pass over a text, of which a page has 40,000."""

ITEM = re.compile(r"^(\d+)([.)])(?=\s|$)")
"""How a numbered item begins."""

BULLETS = ("-", "+", "=")
"""How an item of a list begins, or a line below a heading."""


def markdown_text(text: str) -> str:
    r"""A text that Markdown shows as it is, on one line; also where it begins a line or an item.

    >>> print(markdown_text("a|b <script>"), markdown_text("F-PABEE"), markdown_text("- x"), markdown_text("2. x"))
    a\|b &lt;script&gt; F-PABEE \- x 2\. x
    """
    flat = printable(" ".join(text.split())).translate(WRITTEN)
    return f"\\{flat}" if flat.startswith(BULLETS) else ITEM.sub(r"\1\\\2", flat)


def markdown_cell(cell: Cell) -> str:
    """A cell: the best bold, those tied with it in italics, the interval behind."""
    text = markdown_text(cell.text)
    if cell.best:
        text = f"**{text}**"
    elif cell.tied:
        text = f"*{text}*"
    interval = f" {markdown_text(cell.interval)}" if cell.interval else ""
    return f"{text}{cell.mark}{interval}"


def markdown_table(table: Table) -> str:
    """The table under its title, with the question before it and the notes behind it."""
    lines = [f"### {markdown_text(table.title)}", "", markdown_text(table.question), ""]
    lines.append("| " + " | ".join(markdown_text(heading(column)) for column in table.columns) + " |")
    lines.append("|" + "|".join(" :-- " if column.is_label else " --: " for column in table.columns) + "|")
    lines += ["| " + " | ".join(markdown_cell(cell) for cell in row.cells) + " |" for row in table.rows]
    notes = [markdown_text(note.replace("Underlined:", "Italic:")) for note in table.notes]
    if any(cell.interval for row in table.rows for cell in row.cells):
        notes.append(markdown_text("In brackets: 95% interval."))
    return "\n".join([*lines, "", *(f"* {note}" for note in notes), ""])
