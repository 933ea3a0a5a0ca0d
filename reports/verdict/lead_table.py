"""The table that a report leads with: one row per signal, the best first, with what one chooses by."""

from __future__ import annotations

import math
from collections.abc import Mapping

from exitbench.benchmarks.measures.cost_file import TimedSignal, read_cost
from exitbench.benchmarks.results.operating_point import NOWHERE, within_harm
from exitbench.benchmarks.results.vocabulary import (
    ADJUSTED,
    CERTIFIED,
    CERTIFIED_SPEED_UP,
    DETECTABLE,
    FIT_SIZES,
    PROMISED_CONFIDENCE,
    PROMISED_HARMS,
)
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import number
from exitbench.reports.run_data.provenance import Name
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import dis_cell, number_cell, result_number, score_at_speed
from exitbench.reports.tables.ranking import averaged_layers
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing
from exitbench.reports.tables.table_parts import finished
from exitbench.reports.tables.task_scores import score_cell
from exitbench.reports.verdict.main_column import MainColumn

HARM = PROMISED_HARMS[0]
"""The harm that the certified speed-ups of this table allow, in points."""
UNASKED = "not in this run"
"""What stands for a signal of which an older run did not record what the conformance checks say."""


def lead_table(column: MainColumn) -> Table:
    """Score, DIS, certified speed-up and cost of every signal, sorted by score; then the full network and bounds."""
    run = column.run
    layers = averaged_layers(column.group) if column.is_average else column.caches[0].table_layers
    timed = timed_signals(run)
    rows = sorted(
        (
            TableRow(
                (
                    label(run.label(entry.signal, entry.parameters), entry.text),
                    lead_score(column, entry.signal, entry.parameters),
                    *(dis(column, entry, layer) for layer in layers),
                    certified(column, entry),
                    cost(column, entry, timed),
                    conformance(run, entry),
                ),
                signal=entry.signal,
            )
            for entry in run.entries
        ),
        key=by_score,
    )
    blank = (Cell("·"),) * (len(layers) + 3)
    bounds = [
        TableRow((label(run.label(bound)), lead_score(column, bound, ""), *blank), kind="bound", signal=bound)
        for bound in ("final", "fixed", "random")
    ]
    feet = [
        TableRow(
            (
                label(f"Smallest difference, {which}"),
                number_cell(column.row(DETECTABLE, parameters)),
                *(number_cell(column.row_at(NOWHERE, DETECTABLE, parameters, "dis", layer)) for layer in layers),
                *blank[:3],
            ),
            kind="foot",
            signal=DETECTABLE,
        )
        for which, parameters in (("one pair", ""), ("all pairs", ADJUSTED))
    ]
    others = [row for row in (*bounds, *feet) if row.cells[1].numbers]
    columns = [
        TableColumn("Signal"),
        TableColumn(f"Score near {column.point.short}", measure=column.measure, better="higher"),
        *(TableColumn(f"layer {layer}", group="DIS", measure="dis", better="higher") for layer in layers),
        TableColumn("Certified speed-up", measure=CERTIFIED_SPEED_UP, better="higher"),
        TableColumn("Cost"),
        TableColumn("Checks"),
    ]
    table = Table(
        name="lead",
        title=f"Signals near {column.point.short}: {column.title}, {column.protocol}",
        question="Which signal to take?",
        topic="main",
        columns=tuple(columns),
        rows=(*rows, *others),
        notes=lead_notes(column, measured=bool(timed)),
        protocol=column.protocol,
        model=column.group.model,
    )
    return finished(run, table, Group(column.group.model, column.group.split, column.caches))


def by_score(row: TableRow) -> tuple[bool, bool, float]:
    """What counts comes first, what misses the speed-up after it, what has no score last; the best of each first."""
    cell = row.cells[1]
    return cell.value is None, cell.status != "ok", -(cell.value or 0.0)


def lead_score(column: MainColumn, signal: str, parameters: str) -> Cell:
    """The score at the speed-up it really has."""
    if not column.is_average:
        return score_cell(column.run, column.caches[0], column.protocol, signal, parameters, column.point)
    return score_at_speed(column.row(signal, parameters), column.row(signal, parameters, "speed_up"))


def dis(column: MainColumn, entry: RunEntry, layer: int) -> Cell:
    """The DIS at one layer, averaged where the column is."""
    row = column.row_at(NOWHERE, entry.signal, entry.parameters, "dis", layer)
    if column.is_average:
        return dis_cell(row, None)
    return dis_cell(row, column.row_at(NOWHERE, entry.signal, entry.parameters, "tied_share", layer))


def certified(column: MainColumn, entry: RunEntry) -> Cell:
    """The certified speed-up; over several tasks the least and the most, and on how many nothing is promised."""
    name, harm = (entry.signal, entry.parameters), within_harm(HARM)
    titles = {cache.name: column.run.task_title(cache) for cache in column.caches}
    every = (column.run.row(cache, CERTIFIED, *name, CERTIFIED_SPEED_UP, harm) for cache in column.caches)
    rows = [row for row in every if row is not None]
    promised = [row for row in rows if not math.isnan(row.value)]
    if not promised:
        return missing(rows[0].reason if rows else "nothing was promised in this run")
    least, most = (chosen(promised, key=lambda row: row.value) for chosen in (min, max))
    low, high = result_number(least, digits=2), result_number(most, digits=2)
    if len(column.caches) == 1:
        return Cell(f"{low.text}×", (low,), status="ok", reason="", notes=(least.reason,) if least.reason else ())
    where = ", ".join(f"{titles[row.cache]} {row.value:.2f}×" for row in promised)
    bare = tuple(number(shown.value, key=shown.key, digits=2) for shown in (low, high))
    span = f"{low.text}–{high.text}×" if low.text != high.text else f"{low.text}×"
    part = f", {len(promised)} of {len(column.caches)}" if len(promised) < len(column.caches) else ""
    return Cell(f"{span}{part}", bare if low.text != high.text else bare[:1], status="ok", notes=(where,))


def cost(column: MainColumn, entry: RunEntry, timed: Mapping[str, TimedSignal]) -> Cell:
    """What a signal costs: the time of asking it where that was measured, and what it was fitted on if it learns."""
    name = (entry.signal, entry.parameters)
    words = []
    own = timed.get(entry.signal)
    if own is not None:
        words.append(f"+{own.overhead:.1f}% [{own.overhead_low:.1f}, {own.overhead_high:.1f}]")
    parameters, rows = (fitted_span(column, name, measure) for measure in FIT_SIZES)
    if parameters:
        words.append(f"{parameters}\u00a0parameters, {rows}\u00a0rows")
    elif own is None:
        words.append("no fit")
    return Cell("; ".join(words))


def fitted_span(column: MainColumn, name: Name, measure: str) -> str:
    """A count over the caches of the column, as one number or from the least to the most; empty where it has none."""
    rows = (column.run.row(cache, column.protocol, *name, measure) for cache in column.caches)
    counts = [row.value for row in rows if row is not None]
    if not counts:
        return ""
    low, high = f"{min(counts):.0f}", f"{max(counts):.0f}"
    return low if low == high else f"{low}–{high}"


def timed_signals(run: FinishedRun) -> dict[str, TimedSignal]:
    """The signals whose time ``exitbench cost`` measured for this run, by their names."""
    measured = read_cost(run.path)
    if measured is None or measured.timing is None:
        return {}
    return {timed.signal: timed for timed in measured.timing.rows}


def conformance(run: FinishedRun, entry: RunEntry) -> Cell:
    """How many of the conformance checks a signal passes."""
    result = run.conformance.get(entry.signal)
    if result is None:
        return missing(UNASKED)
    text = f"{result.passed}/{result.asked}"
    notes = (*result.failures, *(f"declared exception: {name}" for name in result.exceptions))
    status = "unreliable" if result.failures else ""
    return Cell(text, status=status, reason="; ".join(result.failures), notes=notes)


def lead_notes(column: MainColumn, *, measured: bool) -> tuple[str, ...]:
    """What the columns mean."""
    tasks = "; over several tasks from the least to the most" if column.is_average else ""
    costs = "time of asking the signal, by exitbench cost" if measured else "time was not measured: exitbench cost"
    return (
        f"Certified: with {PROMISED_CONFIDENCE:.0%} confidence at most {HARM:g} points of the last layer's right "
        f"answers are lost, on a split of its own{tasks}. Cost: what was fitted; {costs}. Checks: conformance checks "
        "passed, of exitbench's own signals by the record that its tests hold.",
    )
