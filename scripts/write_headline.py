"""Writes the README's table from the rows of a run of ``paper`` that ``fixtures/findings`` keeps (write_findings.py).

    python scripts/write_headline.py

It is the first table of that run's report without the columns that are about services; a test compares.
"""

from collections.abc import Sequence
from pathlib import Path

from exitbench.atomic_files import write_text
from exitbench.reports.formats.markdown import markdown_cell, markdown_text
from exitbench.reports.formats.records import heading
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.tables.table import Cell, Table
from exitbench.reports.verdict.lead_table import lead_table
from exitbench.reports.verdict.main_column import main_column
from exitbench.reports.verdict.standings import Standings

ROOT = Path(__file__).resolve().parents[1]
README, KEPT = ROOT / "README.md", ROOT / "fixtures" / "findings" / "paper"
BEGIN, END = "<!-- headline: python scripts/write_headline.py -->\n", "<!-- end of headline -->\n"


def headline() -> str:
    """The table as Markdown: a signal's score near the primary speed-up and its DIS, then the bounds."""
    column = main_column(Standings(SourceRows(FinishedRun(KEPT))))
    assert column is not None, f"expected a run with results in {KEPT}"
    table = lead_table(column)
    shown = [
        number for number, heads in enumerate(table.columns) if number == 0 or heads.measure in (column.measure, "dis")
    ]
    return "\n".join([*markdown_rows(table, shown), ""])


def markdown_rows(table: Table, shown: list[int]) -> list[str]:
    """Some columns of a table, its headings first."""
    columns = [table.columns[number] for number in shown]
    return [
        "| " + " | ".join(markdown_text(heading(column)) for column in columns) + " |",
        "|" + "|".join(" :-- " if column.is_label else " --: " for column in columns) + "|",
        *("| " + " | ".join(shown_cell(row.cells, number) for number in shown) + " |" for row in table.rows),
    ]


def shown_cell(cells: Sequence[Cell], number: int) -> str:
    """A cell; the interval in it stays on one line where the page is narrow."""
    before, bracket, interval = markdown_cell(cells[number]).rpartition("\\[")
    return f"{before}{bracket}{interval.replace(', ', ',&nbsp;') if number else interval}"


def with_headline(text: str) -> str:
    """The README's text with the table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{headline()}\n{END}{after}"


if __name__ == "__main__":
    write_text(README, with_headline(README.read_text(encoding="utf-8")))
