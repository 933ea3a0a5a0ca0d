"""A table in every format that is written to a file, each by the ending of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exitbench.reports.formats.csv import csv_table
from exitbench.reports.formats.latex import latex_table
from exitbench.reports.formats.markdown import markdown_table
from exitbench.reports.tables.table import Table

FORMATS = {"csv": csv_table, "tex": latex_table, "md": markdown_table}


@dataclass(frozen=True)
class FormattedTable:
    """A table, and its text by the ending of the file that holds it."""

    table: Table
    texts: Mapping[str, str]


def formatted(table: Table) -> FormattedTable:
    """The table in all formats."""
    return FormattedTable(table, {ending: text_of(table) for ending, text_of in FORMATS.items()})
