"""Tables of paired comparisons: who beats whom on how many tasks, and every difference with its adjusted p-value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.schema import PAIR_KEY
from exitbench.benchmarks.results.vocabulary import AVERAGE, LOWER_IS_BETTER, SIGNIFICANCE, is_claimed
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import slug, table_name
from exitbench.reports.run_data.provenance import Name, Pair
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.tables.cells import pair_cell
from exitbench.reports.tables.table import Cell, LaterTable, Table, TableColumn, TableRow, label
from exitbench.reports.tables.table_parts import MARK_NOTES, cache_notes, finished, where

KEPT_TABLES = 64
"""Tables of differences that are kept once they were made: a run has one for every task."""


def pair_key(pair: Pair) -> tuple[Any, ...]:
    """The key of a row of ``pairs.parquet``."""
    return tuple(pair[name] for name in PAIR_KEY)


PairQuestion = tuple[str, OperatingPoint, int | None, str, str]
"""What is compared of a group under a protocol: cache, operating point, layer, decisions and measure."""


def pairs_of(run: FinishedRun, group: Group, protocol: str, question: PairQuestion) -> Sequence[Pair]:
    """The pairs of a group that answer a question; none where nothing was compared."""
    cache, *asked = question
    return run.pair_rows.of_column((cache, group.model, group.split, protocol, *asked))


def both_ways(pairs: Sequence[Pair]) -> dict[tuple[Name, Name], tuple[Pair, int]]:
    """(row, column) to the pair and its sign, for either order of the two."""
    by_names = {}
    for pair in pairs:
        first, second = (pair["signal_a"], pair["parameters_a"]), (pair["signal_b"], pair["parameters_b"])
        by_names[first, second] = pair, 1
        by_names[second, first] = pair, -1
    return by_names


def names_in(run: FinishedRun, pairs: Sequence[Pair]) -> list[Name]:
    """The entries that take part in some comparison, in the suite's order."""
    present = {(pair[f"signal_{side}"], pair[f"parameters_{side}"]) for pair in pairs for side in "ab"}
    return [(entry.signal, entry.parameters) for entry in run.entries if (entry.signal, entry.parameters) in present]


def wins_tables(run: FinishedRun) -> list[Table]:
    """Who beats whom, over tasks at the primary speed-up and over tasks and layers by DIS."""
    return [table for group, protocol in run.each() for table in wins_of(run, group, protocol)]


def wins_of(run: FinishedRun, group: Group, protocol: str) -> list[Table]:
    """The two tables of wins of one model and protocol; none when nothing is compared."""
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    score = [(cache.name, at, None, "", cache.measure) for cache in group.caches]
    dis = [(cache.name, NOWHERE, layer, "", "dis") for cache in group.caches for layer in cache.table_layers]
    tables = []
    for name, what, questions in (("score", f"task score near {at.short}", score), ("dis", "DIS", dis)):
        pairs = [pair for question in questions for pair in pairs_of(run, group, protocol, question)]
        names = names_in(run, pairs)
        if len(names) < 2:
            continue
        rows = [
            TableRow((label(run.label(*first)), *cells), signal=first[0])
            for first, cells in zip(names, wins_cells(names, pairs), strict=True)
        ]
        columns = [TableColumn(title=run.label(*second), group="against", measure="wins") for second in names]
        counted = "tasks" if name == "score" else "tasks and layers"
        table = Table(
            name=table_name(run, f"wins-{name}", group=group, protocol=protocol),
            title=f"Pairwise wins by {what} ({where(run, group, protocol)})",
            question="Between which signals can a difference be claimed at all?",
            topic="pairs",
            columns=(TableColumn("Signal"), *columns),
            rows=tuple(rows),
            notes=(
                f"Better : worse, counted over {len(questions)} {counted} where the Holm-adjusted p-value "
                f"is at most {SIGNIFICANCE}; the rest cannot be told apart. Protocol: {protocol}.",
                "Bold: some wins and no loss.",
            ),
            protocol=protocol,
            model=group.model,
        )
        tables.append(finished(run, table, group))
    return tables


def pairs_between(pairs: list[Pair]) -> dict[frozenset[Name], list[Pair]]:
    """Pairs by the two entries they compare, in one pass: a search of all pairs for each cell is quartic in entries."""
    between: dict[frozenset[Name], list[Pair]] = {}
    for pair in pairs:
        names = frozenset({(pair["signal_a"], pair["parameters_a"]), (pair["signal_b"], pair["parameters_b"])})
        between.setdefault(names, []).append(pair)
    return between


def wins_cells(names: Sequence[Name], pairs: list[Pair]) -> list[list[Cell]]:
    """The cells of a table of wins, [names][names]: each entry against each."""
    between = pairs_between(pairs)
    return [
        [wins_cell(between.get(frozenset((first, second)), []), first, second) for second in names] for first in names
    ]


def wins_cell(pairs: list[Pair], first: Name, second: Name) -> Cell:
    """Better : worse of one entry against another in their ``pairs``; counts, so the cell has no key of its own."""
    if first == second:
        return Cell("·")
    better = worse = 0
    for pair in pairs:
        as_first = (pair["signal_a"], pair["parameters_a"]) == first
        sign = (1 if as_first else -1) * (-1 if pair["measure"] in LOWER_IS_BETTER else 1)
        if is_claimed(pair["p_adjusted"]):
            better += sign * pair["difference"] > 0
            worse += sign * pair["difference"] < 0
    if not pairs:
        return Cell(
            "–",
            status="missing",
            reason="not compared: unmatched, degenerate, undefined, unreliable or without an exit",
        )
    return Cell(
        f"{better} : {worse}", best=better > 0 and worse == 0, status="ok", notes=(f"of {len(pairs)} comparisons",)
    )


def difference_tables(run: FinishedRun) -> list[Table]:
    """Every pair at the primary speed-up, one table per task and for the average."""
    tables: list[Table] = []
    made = lru_cache(KEPT_TABLES)(partial(difference_table, run))
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    for group, protocol in run.each():
        columns = [(cache.name, run.task_heading(cache), cache.measure) for cache in group.caches]
        if len(group.caches) > 1:
            columns.append(("", AVERAGE, group.average_measure))
        for cache, title, measure in columns:
            pairs = pairs_of(run, group, protocol, (cache, at, None, "", measure))
            if any(pair["status"] == "ok" or pair["status"] in MARK_NOTES for pair in pairs):
                column = DifferenceColumn(group, protocol, cache, title, measure)
                tables.append(
                    LaterTable(
                        partial(made, column),
                        name=column.name(run),
                        title=column.heading(run),
                        question="By how much do two signals differ on the same samples?",
                        topic="pairs",
                        protocol=protocol,
                        model=group.model,
                    )
                )
    return tables


@dataclass(frozen=True)
class DifferenceColumn:
    """A column of the main table: a cache, or the average where its name is empty, with its heading and measure."""

    group: Group
    protocol: str
    cache: str
    title: str
    measure: str

    def name(self, run: FinishedRun) -> str:
        """The name of the table of its differences."""
        group = None if self.cache else self.group
        return table_name(run, f"differences-{slug(self.cache or AVERAGE)}", group=group, protocol=self.protocol)

    def heading(self, run: FinishedRun) -> str:
        """The title of that table."""
        speed = f"{float(run.suite['primary_speed_up']):g}×"
        return f"Paired differences near {speed}: {self.title} ({where(run, self.group, self.protocol)})"


def difference_table(run: FinishedRun, column: DifferenceColumn) -> Table:
    """All paired differences of one column of the main table: row less column."""
    group, protocol, cache = column.group, column.protocol, column.cache
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    pairs = pairs_of(run, group, protocol, (cache, at, None, "", column.measure))
    names, by_names = names_in(run, pairs), both_ways(pairs)
    rows = []
    for first in names:
        cells = [label(run.label(*first))]
        for second in names:
            pair, sign = by_names.get((first, second), ({}, 1))
            cells.append(pair_cell(pair, pair_key(pair), sign) if pair else Cell("·"))
        rows.append(TableRow(tuple(cells), signal=first[0]))
    shown = replace(group, caches=tuple(held for held in group.caches if cache in ("", held.name)))
    return Table(
        name=column.name(run),
        title=column.heading(run),
        question="By how much do two signals differ on the same samples?",
        topic="pairs",
        columns=(
            TableColumn("Signal"),
            *(
                TableColumn(title=run.label(*name), group="less", measure="difference", better="higher")
                for name in names
            ),
        ),
        rows=tuple(rows),
        notes=(
            "Row less column in points, with the p-value adjusted by Holm's method over all pairs. "
            f"Protocol: {protocol}.",
            f"Bold: better with an adjusted p-value of at most {SIGNIFICANCE}.",
            *cache_notes(run, shown),
        ),
        protocol=protocol,
        model=group.model,
    )
