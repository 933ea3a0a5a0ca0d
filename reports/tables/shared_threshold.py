"""Tables of what sharing one threshold between all layers costs, against thresholds of each layer's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up
from exitbench.benchmarks.results.vocabulary import PER_LAYER, SCHEDULES, Schedule
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.provenance import Name, Pair
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import AVERAGE, pair_cell
from exitbench.reports.tables.pairs import both_ways, pair_key, pairs_of
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing
from exitbench.reports.tables.table_parts import finished, where
from exitbench.reports.tables.task_scores import score_cells

TITLES: Mapping[Schedule, str] = {"shared": "one threshold", "quota": "exit quotas", "greedy": "greedy search"}
NOT_TESTED = "not tested: the shared or the per-layer thresholds miss the speed-up or exit at one layer"
NOTES = (
    "Cells: score (speed-up), and the difference to the one threshold that all layers share, in points, with the "
    "p-value adjusted by Holm's method over all differences of the column.",
    "Exit quotas: layer m lets a share proportional to q^m exit, with q for the speed-up. Greedy search: exits move "
    "between layers as long as the task score at the speed-up rises. Both are fitted where the protocol chooses.",
    "Intervals hold for the thresholds as they were fitted; resamples do not fit them again.",
    "Bold: better than the shared threshold with an adjusted p-value below 0.05.",
)
IN_SAMPLE_NOTE = "Fitted on the scored rows: the more thresholds, the more this flatters. Nothing is tested or marked."


def shared_threshold_tables(run: FinishedRun) -> list[Table]:
    """One table per speed-up, model and protocol; none in a suite that did not ask for per-layer thresholds."""
    measured = set(run.rows.distinct("signal", "parameters"))
    entries = [entry for entry in run.entries if schedule_name(entry, "shared") in measured]
    speeds = dict.fromkeys((float(run.suite["primary_speed_up"]), *map(float, run.suite["speed_ups"])))
    if not entries:
        return []
    return [
        shared_threshold_table(run, entries, group, protocol, at_speed_up(speed))
        for speed in speeds
        for group, protocol in run.each()
    ]


def schedule_name(entry: RunEntry, schedule: Schedule) -> Name:
    """What the results call an entry with one kind of thresholds."""
    return entry.signal, ",".join(filter(None, (entry.parameters, f"thresholds={schedule}")))


def shared_threshold_table(
    run: FinishedRun, entries: list[RunEntry], group: Group, protocol: str, point: OperatingPoint
) -> Table:
    """Every entry with its shared threshold, exit quotas and greedy thresholds, and what these gain."""
    questions = [(cache.name, cache.measure) for cache in group.caches]
    titles = [(run.task_heading(cache), cache.measure) for cache in group.caches]
    if len(group.caches) > 1:
        questions.append(("", group.average_measure))
        titles.append((AVERAGE, group.average_measure))
    tested = [
        both_ways(pairs_of(run, group, protocol, (cache, point, None, PER_LAYER, measure)))
        for cache, measure in questions
    ]
    rows = []
    for entry in entries:
        shared = schedule_name(entry, "shared")
        for schedule in SCHEDULES:
            name = schedule_name(entry, schedule)
            scores = score_cells(run, group, protocol, *name, point)
            gains = [gain_cell(pairs, name, shared) for pairs in tested]
            cells = [cell for both in zip(scores, gains, strict=True) for cell in both]
            title = f"{run.label(entry.signal, entry.parameters)}, {TITLES[schedule]}"
            rows.append(TableRow((label(title, entry.text), *cells), signal=entry.signal))
    fixed = score_cells(run, group, protocol, "fixed", "", point)
    beside = (cell for score in fixed for cell in (score, Cell("·")))
    rows.append(TableRow((label(run.label("fixed")), *beside), kind="bound", signal="fixed"))
    columns = [
        column
        for title, measure in titles
        for column in (
            TableColumn(title="score", group=title, measure=measure, better="higher"),
            TableColumn(title="difference", group=title, measure="difference", better="higher"),
        )
    ]
    base = f"shared-threshold-{point.number:g}".replace(".", "-")
    table = Table(
        name=table_name(run, base, group=group, protocol=protocol),
        title=f"What sharing one threshold costs near {point.short} ({where(run, group, protocol)})",
        question="How much better is a threshold of each layer's own than one that all layers share?",
        topic="thresholds",
        columns=(TableColumn("Signal and thresholds"), *columns),
        rows=tuple(rows),
        notes=(f"Protocol: {protocol}.", *((IN_SAMPLE_NOTE, *NOTES[:3]) if protocol == "in-sample" else NOTES)),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table)


def gain_cell(pairs: Mapping[tuple[Name, Name], tuple[Pair, int]], name: Name, shared: Name) -> Cell:
    """The paired difference of per-layer thresholds to the shared one; nothing for the shared one itself."""
    if name == shared:
        return Cell("·")
    pair, sign = pairs.get((name, shared), (None, 1))
    if pair is None:
        return missing(NOT_TESTED)
    cell = pair_cell(pair, pair_key(pair), sign)
    if not math.isnan(pair["p_value"]):
        return cell
    # Without a test only the difference is shown; the note below the table says why.
    return replace(cell, text=cell.text.partition(" (")[0], reason="", notes=(pair["reason"],))
