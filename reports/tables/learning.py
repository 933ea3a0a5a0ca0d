"""Tables of what learning is worth: the size of each fit, and what it gained over the plain largest probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.vocabulary import ADJUSTED, DETECTABLE, FIT_SIZES
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.provenance import Name, Pair
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import AVERAGE, number_cell, pair_cell
from exitbench.reports.tables.pairs import PairQuestion, both_ways, pair_key, pairs_of
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing
from exitbench.reports.tables.table_parts import finished, where

REFERENCE = "right-tool"
"""The signal that every learned one has to beat: the largest softmax probability, with nothing fitted."""

NO_REFERENCE = f"the run has no {REFERENCE} without a fit to compare with"
NOT_TESTED = "not tested: one of the two misses the speed-up, exits at one layer, or has too few samples"
NOTES = (
    "Parameters: the numbers that a fit gave the signal; rows: the samples it was fitted on. Both are means over the "
    "fits of the protocol.",
    "Gains: the signal less the largest softmax probability on the same samples, in points, with a 95% interval and "
    "the p-value adjusted by Holm's method over all pairs of signals in that column. Bold: at most 0.05.",
    "Resamples repeat the choice of the threshold, not the fit.",
)


@dataclass(frozen=True)
class Gain:
    """A column of gains: its heading, and the question whose pairs it shows; ``None`` stands for the task's score."""

    title: str
    group: str
    point: OperatingPoint
    layer: int | None
    measure: str | None

    def question(self, cache: str, measure: str) -> PairQuestion:
        """The question of one cache, judged by ``measure``."""
        return cache, self.point, self.layer, "", self.measure or measure


def learned_entries(run: FinishedRun) -> list[RunEntry]:
    """The entries that were fitted."""
    fitted = {(row.signal, row.parameters) for row in run.rows.where(measure=FIT_SIZES)}
    return [entry for entry in run.entries if (entry.signal, entry.parameters) in fitted]


def reference_entry(run: FinishedRun) -> RunEntry | None:
    """The entry that gains are counted from; ``None`` where the run has none."""
    learned = learned_entries(run)
    return next((entry for entry in run.entries if entry.signal == REFERENCE and entry not in learned), None)


def learning_tables(run: FinishedRun) -> list[Table]:
    """One table per model and protocol; none where nothing was fitted."""
    entries = learned_entries(run)
    tables = [learning_table(run, entries, group, protocol) for group, protocol in run.each()] if entries else []
    return [table for table in tables if table.rows]


def learning_table(run: FinishedRun, entries: Sequence[RunEntry], group: Group, protocol: str) -> Table:
    """Every learned entry on every task: its parameters, its rows, and its gains over the reference."""
    gains = gain_columns(run, group)
    reference = reference_entry(run)
    rows = []
    for entry in entries:
        name = (entry.signal, entry.parameters)
        fitted_on = [cache for cache in group.caches if run.row(cache, protocol, *name, FIT_SIZES[1]) is not None]
        for cache in fitted_on:
            questions = [gain.question(cache.name, cache.measure) for gain in gains]
            pairs = [both_ways(pairs_of(run, group, protocol, question)) for question in questions]
            cells = [
                *size_cells(run, cache, protocol, name),
                *(learned_gain_cell(own, name, reference) for own in pairs),
            ]
            rows.append(row_of(run, entry, run.task_heading(cache), cells))
        if len(group.caches) > 1 and len(fitted_on) == len(group.caches):
            tested = [pairs_of(run, group, protocol, gain.question("", group.average_measure)) for gain in gains]
            averaged = [learned_gain_cell(both_ways(own), name, reference) if own else Cell("·") for own in tested]
            rows.append(row_of(run, entry, AVERAGE, [Cell("·"), Cell("·"), *averaged]))
    rows += smallest_gain_rows(run, group, protocol, gains) if rows else []
    heading = "" if reference is None else f" over {run.label(reference.signal, reference.parameters)}"
    columns = [
        TableColumn("Signal"),
        TableColumn("Task"),
        TableColumn("parameters", group="Fitted", measure="fitted_parameters"),
        TableColumn("rows", group="Fitted", measure="fitted_rows"),
        *(TableColumn(gain.title, group=gain.group, measure="gain", better="higher") for gain in gains),
    ]
    table = Table(
        name=table_name(run, "learning", group=group, protocol=protocol),
        title=f"What learning gained{heading} ({where(run, group, protocol)})",
        question="Is a signal that learns worth its calibration samples?",
        topic="learning",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(f"Protocol: {protocol}.", *NOTES),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def gain_columns(run: FinishedRun, group: Group) -> list[Gain]:
    """The score near each speed-up, the primary one first, the mean score over costs, and DIS at the suite's layers."""
    primary = float(run.suite["primary_speed_up"])
    points = [at_speed_up(speed) for speed in dict.fromkeys((primary, *map(float, run.suite["speed_ups"])))]
    layers = dict.fromkeys(layer for cache in group.caches for layer in cache.table_layers)
    return [
        *(Gain(f"near {point.short}", "Gain in score", point, None, None) for point in points),
        Gain("area", "Gain in score", NOWHERE, None, "area"),
        *(Gain(f"layer {layer}", "Gain in DIS", NOWHERE, layer, "dis") for layer in layers),
    ]


def smallest_gain_rows(run: FinishedRun, group: Group, protocol: str, gains: Sequence[Gain]) -> list[TableRow]:
    """On every task the smallest gain that the tests of a column, adjusted for all its pairs, could have shown."""
    rows = []
    for cache in group.caches:
        shown = [
            run.row(cache, protocol, DETECTABLE, ADJUSTED, gain.measure or cache.measure, gain.point, gain.layer)
            for gain in gains
        ]
        if any(shown):
            cells = [Cell("·") if row is None else number_cell(row) for row in shown]
            names = (label(f"{run.label(DETECTABLE)}, all pairs"), label(run.task_heading(cache)))
            rows.append(TableRow((*names, Cell("·"), Cell("·"), *cells), kind="foot", signal=DETECTABLE))
    return rows


def row_of(run: FinishedRun, entry: RunEntry, task: str, cells: Sequence[Cell]) -> TableRow:
    """A row of one entry on one task, or of its average."""
    names = (label(run.label(entry.signal, entry.parameters), entry.text), label(task))
    return TableRow((*names, *cells), signal=entry.signal)


def size_cells(run: FinishedRun, cache: CacheMetadata, protocol: str, name: Name) -> list[Cell]:
    """How many parameters were fitted, and on how many samples."""
    return [number_cell(run.row(cache, protocol, *name, measure), digits=0) for measure in FIT_SIZES]


def learned_gain_cell(
    pairs: Mapping[tuple[Name, Name], tuple[Pair, int]], name: Name, reference: RunEntry | None
) -> Cell:
    """The paired difference of a learned entry to the reference."""
    if reference is None:
        return missing(NO_REFERENCE)
    pair, sign = pairs.get((name, (reference.signal, reference.parameters)), (None, 1))
    return missing(NOT_TESTED) if pair is None else pair_cell(pair, pair_key(pair), sign)
