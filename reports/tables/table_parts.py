"""What all tables share: file names, rows of entries and bounds, and the notes that their cells need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from exitbench.benchmarks.results.vocabulary import ADJUSTED, DETECTABLE, FIT_SIZES, TRAINING_ROWS
from exitbench.benchmarks.statistics.power import POWER
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.identical import Identical
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.sentences import listed
from exitbench.reports.tables.table import Cell, LaterTable, Table, TableRow, label

CellOf = Callable[[str, str], list[Cell]]
"""(signal, parameters) to the cells of its row, without the label."""

MARK_NOTES = {
    "unmatched": "† on the scored rows more than 2% away from the wanted speed-up, or more than two standard errors "
    "beyond the wanted loss: takes no part in best, tests and averages; behind a speed-up the expected value at "
    "exactly it.",
    "degenerate": "§ every sample exits at one and the same layer: a fixed layer, not the signal; takes no part in "
    "best, tests and averages.",
    "no-exit": "¶ cannot exit at this layer yet, so what its score says there decides nothing: takes no part in best "
    "and tests.",
    "unreliable": "‡ too few samples of one kind or no spread: to be read with care.",
}
AGREEMENT_NOTE = "Right means: agrees with the last layer{which}; labels play no part."
COST_NOTE = "Speed-up{which}: the cost of the last layer over the mean cost paid, by the costs that the cache holds."
TRAINING_NOTE = "The network was trained on the scored rows{which}."
MOST_NAMES = 12
"""As many caches as a note names; of more, the first ones."""
ABSENT_NOTE = "Cannot run here and have no row: {}."
BEST_NOTE = (
    "Bold: best of the column. Underlined: not significantly worse than the best (p > 0.05 with Holm's adjustment "
    "over all pairs of the column)."
)

FOOT_NOTE = (
    f"Smallest difference shown: the true difference between two signals that the paired test of the column claims in "
    f"{POWER:.0%} of cases at 5%, from the median standard error of its pairs; for one pair by itself, and with Holm's "
    "adjustment over all pairs of the column."
)


FLATTERED_NOTE = (
    "In-sample, {} chose among several parameters on the very samples that are scored, which flatters: marked neither "
    "best nor level, and not tested."
)


def entry_rows(run: FinishedRun, cells: CellOf) -> list[TableRow]:
    """One row per entry of the suite."""
    return [
        TableRow(
            (label(run.label(entry.signal, entry.parameters), entry.text), *cells(entry.signal, entry.parameters)),
            signal=entry.signal,
        )
        for entry in run.entries
    ]


def bound_table_rows(run: FinishedRun, bounds: Iterable[str], cells: CellOf) -> list[TableRow]:
    """Rows of bounds, without those the run has nothing of."""
    rows = [
        TableRow(cells=(label(run.label(bound)), *cells(bound, "")), kind="bound", signal=bound) for bound in bounds
    ]
    return [row for row in rows if any(cell.numbers for cell in row.cells)]


def foot_rows(run: FinishedRun, cells: CellOf) -> list[TableRow]:
    """The last rows of a table: the smallest difference each column could show, for one pair and among all pairs."""
    title = run.label(DETECTABLE)
    rows = [
        TableRow(cells=(label(text), *cells(DETECTABLE, parameters)), kind="foot", signal=DETECTABLE)
        for text, parameters in ((f"{title}, one pair", ""), (f"{title}, all pairs", ADJUSTED))
    ]
    return [row for row in rows if any(cell.numbers for cell in row.cells)]


def where(run: FinishedRun, group: Group, protocol: str) -> str:
    """Model and protocol of a table, for its title."""
    return f"{run.group_title(group)}, {protocol}"


def finished(run: FinishedRun, table: Table, group: Group | None = None) -> Table:
    """The table with the notes its cells need behind its own."""
    identical = run.identical_on(() if group is None else group.caches, table.protocol)
    absent = absent_names(run, table, group)
    rows = tuple(row for row in table.rows if row.cells[0].text not in absent)
    own = [*table.notes, *flattered_notes(run, table), *training_notes(run, table, group), *cache_notes(run, group)]
    if absent:
        own.append(ABSENT_NOTE.format(", ".join(absent)))
    return replace(table, rows=rows, notes=notes_of(rows, identical, run, *own))


def absent_names(run: FinishedRun, table: Table, group: Group | None) -> list[str]:
    """The rows of a table that would be empty: entries that can run on none of its caches."""
    caches = [cache for cache in run.caches if table.model in ("", cache.model)] if group is None else group.caches
    shown = {row.cells[0].text for row in table.rows if row.kind == "signal"}
    names = [
        run.label(entry.signal, entry.parameters)
        for entry in run.entries
        if caches and all((entry.signal, entry.parameters) in cache.left_out for cache in caches)
    ]
    return [name for name in names if name in shown]


def flattered_notes(run: FinishedRun, table: Table) -> list[str]:
    """Why entries of a grid have no mark in an in-sample table that compares signals."""
    if table.protocol != "in-sample" or not any(column.better for column in table.columns):
        return []
    shown = {row.cells[0].text for row in table.rows}
    names = [run.label(entry.signal, entry.parameters) for entry in run.entries if entry.is_grid]
    shown_names = [name for name in names if name in shown]
    return [FLATTERED_NOTE.format(", ".join(shown_names))] if shown_names else []


def training_notes(run: FinishedRun, table: Table, group: Group | None) -> list[str]:
    """Which entries of a table learned from rows that the network was trained on."""
    caches = run.caches if group is None else group.caches
    shown = {row.cells[0].text for row in table.rows}
    names = [
        title
        for entry in run.entries
        if (title := run.label(entry.signal, entry.parameters)) in shown
        and any(learned_from_training(run, cache, table.protocol, entry.signal, entry.parameters) for cache in caches)
    ]
    return [f"{TRAINING_ROWS.capitalize()}: {', '.join(names)}."] if names else []


def learned_from_training(run: FinishedRun, cache: CacheMetadata, protocol: str, signal: str, parameters: str) -> bool:
    """Whether a signal was fitted, for its numbers on a cache, on rows that the network was trained on."""
    row = run.row(cache, protocol, signal, parameters, FIT_SIZES[1])
    return row is not None and TRAINING_ROWS in row.reason


def cache_notes(run: FinishedRun, group: Group | None) -> list[str]:
    """What is unusual about the caches of a table, or of a run: what counts as right, and what costs what."""
    caches = run.caches if group is None else group.caches
    notes = []
    for unusual, sentence in (
        ([cache for cache in caches if cache.target == "final"], AGREEMENT_NOTE),
        ([cache for cache in caches if cache.costs is not None], COST_NOTE),
        ([cache for cache in caches if cache.role == "train"], TRAINING_NOTE),
    ):
        if unusual:
            names = [cache.name for cache in unusual]
            few = ", ".join(names) if len(names) <= MOST_NAMES else listed(names)
            which = "" if len(unusual) == len(caches) else f" (on {few})"
            notes.append(sentence.format(which=which))
    return notes


def notes_of(rows: Sequence[TableRow], identical: Iterable[Identical], run: FinishedRun, *more: str) -> tuple[str, ...]:
    """Notes for some rows: ``more``, what marks mean, which entries are one, and why cells are empty."""
    cells = [cell for row in rows for cell in row.cells]
    notes = list(more)
    if any(row.kind == "foot" for row in rows):
        notes.append(FOOT_NOTE)
    if any(cell.tied for cell in cells):
        notes.append(BEST_NOTE)
    notes += [note for status, note in MARK_NOTES.items() if any(cell.status == status for cell in cells)]
    notes += [twins.sentence(run) for twins in identical]
    empty: dict[str, list[str]] = {}
    for row in rows:
        for cell in row.cells:
            if cell.status in ("undefined", "missing") and row.kind == "signal" and cell.reason:
                empty.setdefault(cell.reason, []).append(row.cells[0].text)
    return (*notes, *(f"– {', '.join(dict.fromkeys(names))}: {reason}." for reason, names in empty.items()))


def says_something(table: Table) -> bool:
    """Whether any cell of a table holds a measurement; one that is made later was not planned without one."""
    if isinstance(table, LaterTable):
        return True
    return any(cell.status == "ok" or cell.status in MARK_NOTES for row in table.rows for cell in row.cells)
