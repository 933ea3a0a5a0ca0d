"""What the terminal says of a run: one compact table of all tasks, what its marks mean, and the verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.printable import printable
from exitbench.reports.formats.plain_text import columns_beside, table_lines
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.tables.cells import AVERAGE, number_cell
from exitbench.reports.tables.table import MARKS, Cell, Table, TableColumn, TableRow, label
from exitbench.reports.tables.table_parts import bound_table_rows, cache_notes, foot_rows
from exitbench.reports.tables.task_scores import READ_AT
from exitbench.reports.verdict.learning import learning_lines
from exitbench.reports.verdict.standings import Standings
from exitbench.reports.verdict.verdict import Sentence, verdict_of

WIDTH = 100
"""Columns that nothing here goes beyond."""

SCREEN_LINES = 48
"""As many lines as the table may have; one that would be longer shows averages only."""

MOST_LEARNED = 6
"""As many lines on learned signals as a screen has room for beside the table and the verdict."""

ONE_PAIR = "Smallest difference, one pair"
"""What the last row is called, as on the first screen of a page."""

MARK_WORDS = {
    "unmatched": "not near the speed-up",
    "unreliable": "to be read with care",
    "degenerate": "all exit at one layer",
    "no-exit": "cannot exit at this layer",
}


def compact_table(run: FinishedRun, *, tasks: bool = True) -> Table:
    """One row per signal: its score near the primary speed-up, a model's average and then its tasks; for one also DIS.

    Each task is read under its own leading protocol; without ``tasks`` they stand only in averages. The fixed and the
    final layer are the last rows but one.
    """
    point = at_speed_up(float(run.suite["primary_speed_up"]))
    several_models = len(run.groups) > 1
    columns: list[TableColumn] = []
    read: list[tuple[Group | CacheMetadata, str, str, OperatingPoint, int | None]] = []
    for group in run.groups:
        heading = group.model if several_models else ""
        protocol = run.leading_protocol(group.caches)
        own = [part for part in run.groups_under(protocol) if (part.model, part.split) == (group.model, group.split)]
        if len(group.caches) > 1 and own:
            columns.append(TableColumn(AVERAGE, group=heading, measure="score"))
            read.append((own[0], protocol, group.average_measure, point, None))
        for cache in group.caches if tasks else ():
            columns.append(TableColumn(run.task_heading(cache), group=heading, measure="score"))
            read.append((cache, run.leading_protocol([cache]), cache.measure, point, None))
    if len(run.caches) == 1:
        cache = run.caches[0]
        protocol = run.leading_protocol([cache])
        for layer in cache.table_layers:
            columns.append(TableColumn(f"DIS {layer}", measure="dis"))
            read.append((cache, protocol, "dis", NOWHERE, layer))

    def cells(signal: str, parameters: str) -> list[Cell]:
        shown = []
        for source, protocol, measure, at, layer in read:
            stored = READ_AT.get(signal, at) if layer is None else at
            if isinstance(source, Group):
                row = run.average_row(source, protocol, signal, parameters, measure, stored)
            else:
                row = run.row(source, protocol, signal, parameters, measure, stored, layer)
            shown.append(number_cell(row))
        return shown

    rows = [
        TableRow((label(entry.text), *cells(entry.signal, entry.parameters)), signal=entry.signal)
        for entry in run.entries
    ]
    rows += bound_table_rows(run, ("fixed", "final"), cells)
    # Its whole name is longer than any column of names here.
    rows += [replace(row, cells=(label(ONE_PAIR), *row.cells[1:])) for row in foot_rows(run, cells)[:1]]
    protocols = dict.fromkeys(run.leading_protocol([cache]) for cache in run.caches)
    return Table(
        name="summary",
        title=f"{run.suite['name']}: score near {point.short}, {' and '.join(protocols)}",
        question="How much of the task score is left near the primary speed-up?",
        topic="main",
        columns=(TableColumn("signal"), *columns),
        rows=tuple(rows),
    )


def summary_lines(run: FinishedRun, width: int = WIDTH) -> list[str]:
    """The compact table, what its marks mean, and what learning was worth; nothing for a run without a number."""
    if not run.protocols:
        return []
    table, left_out = one_screen(run, width)
    words = mark_words(table)
    if len(run.caches) == 1:
        words.append("DIS: Difficulty Inversion Score, 50 is chance")
    notes = [left_out, "; ".join(words), *few_learned(run), *cache_notes(run, None)]
    return [*table_lines(table, width), *(line for note in notes if note for line in wrapped(note, width))]


def few_learned(run: FinishedRun) -> list[str]:
    """What learning was worth, a line for each learned signal and model; of many the first ones, and how many more."""
    lines = learning_lines(run)
    more = len(lines) - MOST_LEARNED
    if more <= 0:
        return lines
    rest = f"{more} more such lines: `exitbench table {run.path}` lists the tables of what learning gained."
    return [*lines[:MOST_LEARNED], rest]


def one_screen(run: FinishedRun, width: int) -> tuple[Table, str]:
    """As much of the compact table as a screen holds, and what to say of the rest; nothing where all of it fits.

    Tasks go first, then averages beyond those that stand beside each other.
    """
    whole = compact_table(run)
    if len(table_lines(whole, width)) <= SCREEN_LINES:
        return whole, ""
    averages = compact_table(run, tasks=False)
    table = first_block(averages if len(averages.columns) > 1 else whole, width)
    more = len(whole.columns) - len(table.columns)
    return table, f"{more} more columns: `exitbench table {run.path}` lists all tables, --verbose prints every task."


def first_block(table: Table, width: int) -> Table:
    """The columns of a table that stand beside each other."""
    kept = len(columns_beside(table, width)) + 1
    rows = tuple(replace(row, cells=row.cells[:kept]) for row in table.rows)
    return replace(table, columns=table.columns[:kept], rows=rows)


def mark_words(table: Table) -> list[str]:
    """What the signs in a table's lines mean."""
    cells = [cell for row in table.rows for cell in row.cells]
    words = ["* best, or not shown to be worse"] if any(cell.tied for cell in cells) else []
    words += [
        f"{MARKS[status]} {text}" for status, text in MARK_WORDS.items() if any(c.status == status for c in cells)
    ]
    return [*words, "– no such number"] if any(cell.text == "–" for cell in cells) else words


def verdict_lines(run: FinishedRun, width: int = WIDTH) -> list[str]:
    """The verdict, the last thing a run says."""
    if not run.protocols:
        return []
    return wrapped(f"Verdict: {spoken(verdict_of(Standings(SourceRows(run))).sentences)}", width)


def spoken(sentences: Sequence[Sentence]) -> str:
    """Sentences of a verdict as one text."""
    return " ".join(
        "".join(part if isinstance(part, str) else part.text for part in sentence) for sentence in sentences
    )


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most ``width`` columns."""
    return textwrap.wrap(printable(text), width, subsequent_indent="  ", break_on_hyphens=False)
