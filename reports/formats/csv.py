"""A table as CSV for a spreadsheet: numbers at full precision, intervals in columns of their own, nothing that runs.

A spreadsheet takes a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula; such a text gets an apostrophe
in front. Numbers are written as numbers, so a negative one stays what it is.
"""

from __future__ import annotations

import csv
import io
import math

from exitbench.printable import printable
from exitbench.reports.formats.records import PlainColumn, plain_columns
from exitbench.reports.tables.table import Table

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


def csv_table(table: Table) -> str:
    """The table as CSV: for each column of numbers its value, interval, further numbers, mark and status."""
    columns = plain_columns(table)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([safe(column.name) for column in columns])
    writer.writerows(zip(*map(fields, columns), strict=True))
    return text.getvalue()


def fields(column: PlainColumn) -> list[str]:
    """The values of a column as they are written."""
    return [safe(value) if isinstance(value, str) else real(value) for value in column.values]
