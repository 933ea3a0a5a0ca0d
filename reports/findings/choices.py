"""What the choices around a signal change: the value of the subject's parameter, and the protocol that chooses."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import number_cell
from exitbench.reports.tables.table import Table, TableColumn, TableRow, label

USED = ("ok", "unreliable")
"""Statuses of numbers that are compared; an unmatched value is at another speed-up, a degenerate one a fixed layer."""


@dataclass(frozen=True)
class Spread:
    """One number of one cache for every value of a grid; a value that has none is None."""

    task: str
    where: str
    values: tuple[Row | None, ...]
    rival: Row | None
    chosen: str

    @property
    def used(self) -> list[Row]:
        return [row for row in self.values if row is not None and row.status in USED and not math.isnan(row.value)]

    @property
    def width(self) -> float:
        """Largest less smallest value; NaN with fewer than two."""
        values = [row.value for row in self.used]
        return max(values) - min(values) if len(values) > 1 else math.nan

    @property
    def std_err(self) -> float:
        """The median standard error of the single values."""
        errors = [row.std_err for row in self.used if not math.isnan(row.std_err)]
        return statistics.median(errors) if errors else math.nan

    @property
    def within_error(self) -> bool:
        """Whether the whole spread is smaller than the standard error of one value."""
        return self.width < self.std_err

    def best(self, values: Sequence[str]) -> list[str]:
        """The values, by name, that reach the highest number."""
        top = max((row.value for row in self.used), default=math.nan)
        return [
            name
            for name, row in zip(values, self.values, strict=True)
            if row is not None and row in self.used and math.isclose(row.value, top, abs_tol=1e-9)
        ]


def choice_text(entry: RunEntry, row: Row | None) -> str:
    """Which values of a grid the protocol chose, and in how many folds where they differ."""
    if row is None or row.chosen is None:
        return "–"
    counts: dict[str, int] = json.loads(row.chosen)
    values = {entry.varied_text(parameters): count for parameters, count in counts.items()}
    if len(values) == 1:
        return next(iter(values))
    first, *others = [f"{value} in {count}" for value, count in values.items()]
    return ", ".join([f"{first} of {sum(values.values())} folds", *others])


def score_spreads(run: FinishedRun, entry: RunEntry, rival: RunEntry, protocol: str) -> list[Spread]:
    """Task score near the primary speed-up of every value, per cache."""
    speed_up = float(run.suite["primary_speed_up"])
    return [
        spread(run, cache, entry, rival, protocol, f"near {speed_up:g}×", cache.measure, at_speed_up(speed_up))
        for cache in run.caches
    ]


def dis_spreads(run: FinishedRun, entry: RunEntry, rival: RunEntry, protocol: str) -> list[Spread]:
    """DIS of every value, per cache and layer."""
    return [
        spread(run, cache, entry, rival, protocol, f"layer {layer} of {cache.layers}", "dis", NOWHERE, layer)
        for cache in run.caches
        for layer in cache.table_layers
    ]


def spread(
    run: FinishedRun,
    cache: CacheMetadata,
    entry: RunEntry,
    rival: RunEntry,
    protocol: str,
    where: str,
    measure: str,
    point: OperatingPoint,
    layer: int | None = None,
) -> Spread:
    """One number of every value of a grid on one cache."""

    def row_of(signal: str, parameters: str) -> Row | None:
        return run.row(cache, protocol, signal, parameters, measure, point, layer)

    return Spread(
        task=task_with_model(run, cache),
        where=where,
        values=tuple(row_of(entry.signal, value) for value in entry.values),
        rival=row_of(rival.signal, rival.parameters),
        chosen=choice_text(entry, row_of(entry.signal, entry.parameters)),
    )


def spread_table(run: FinishedRun, entry: RunEntry, rival: RunEntry, spreads: Sequence[Spread], what: str) -> Table:
    """One row per spread: each value with its interval, their range, a standard error, and what was chosen."""
    rows = []
    for spread in spreads:
        cells = [number_cell(row) for row in (spread.rival, *spread.values)]
        more = [label(fixed(spread.width, 1)), label(fixed(spread.std_err, 1)), label(spread.chosen)]
        rows.append(TableRow(cells=(label(spread.task), label(spread.where), *cells, *more), kind="other"))
    name, beside_name = run.label(entry.signal, entry.parameters), run.label(rival.signal, rival.parameters)
    values = [entry.varied_text(value) for value in entry.values]
    columns = [
        TableColumn("Task"),
        TableColumn("At"),
        *(TableColumn(title=title, measure="value") for title in (beside_name, *values)),
    ]
    columns += [
        TableColumn(title="max − min", measure="value"),
        TableColumn(title="standard error", measure="value"),
        TableColumn("chosen"),
    ]
    return Table(
        name="",
        title=f"{name} by {' and '.join(entry.varied)}: {what}",
        question=f"What does each value of {name}'s grid give?",
        topic="parameters",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            f"{beside_name} is beside for comparison and is not part of max − min. Standard error: the median of "
            "those of the single values.",
        ),
    )


@dataclass(frozen=True)
class ProtocolChange:
    """One entry near the primary speed-up: second protocol less first, on the caches that have a value under both."""

    name: str
    tasks: tuple[str, ...]
    scores: tuple[float, ...]
    speed_ups: tuple[float, ...]


def protocol_changes(run: FinishedRun, first: str, second: str) -> list[ProtocolChange]:
    """The change of every entry from the first protocol to the second."""
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    changes = []
    for entry in run.entries:
        tasks, scores, speed_ups = [], [], []
        for cache in run.caches:
            moved = []
            for measure in (cache.measure, "speed_up"):
                before, after = (
                    run.row(cache, protocol, entry.signal, entry.parameters, measure, at)
                    for protocol in (first, second)
                )
                if before is None or after is None or before.status not in USED or after.status not in USED:
                    break
                moved.append(after.value - before.value)
            if len(moved) == 2 and not any(map(math.isnan, moved)):
                tasks.append(task_with_model(run, cache))
                scores.append(moved[0])
                speed_ups.append(moved[1])
        name = run.label(entry.signal, entry.parameters)
        changes.append(ProtocolChange(name, tuple(tasks), tuple(scores), tuple(speed_ups)))
    return changes


def furthest_from_zero(values: Sequence[float]) -> float:
    """The value furthest from zero, with its sign; NaN without any."""
    return max(values, key=abs, default=math.nan)


def mean(values: Sequence[float]) -> float:
    """The mean; NaN without any value."""
    return math.fsum(values) / len(values) if values else math.nan


def change_table(run: FinishedRun, changes: Sequence[ProtocolChange], first: str, second: str) -> Table:
    """One row per entry: mean and largest change of score and speed-up."""
    rows = []
    for change in changes:
        moved = [signed(mean(change.scores), 2), signed(furthest_from_zero(change.scores), 2)]
        where = (
            change.tasks[change.scores.index(furthest_from_zero(change.scores))]
            if change.scores and furthest_from_zero(change.scores)
            else "–"
        )
        pace = [signed(mean(change.speed_ups), 3), signed(furthest_from_zero(change.speed_ups), 3)]
        rows.append(
            TableRow(cells=tuple(map(label, (change.name, str(len(change.tasks)), *moved, where, *pace))), kind="other")
        )
    columns = [TableColumn("Signal"), TableColumn(title="caches", measure="change")]
    columns += [
        TableColumn(title="mean", group="score", measure="change"),
        TableColumn(title="largest", group="score", measure="change"),
        TableColumn(title="largest on", group="score"),
    ]
    columns += [
        TableColumn(title="mean", group="speed-up", measure="change"),
        TableColumn(title="largest", group="speed-up", measure="change"),
    ]
    speed_up = f"{float(run.suite['primary_speed_up']):g}×"
    return Table(
        name="",
        title=f"{second} less {first}, near {speed_up}",
        question="What changes when nothing is chosen on the rows that are scored?",
        topic="main",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            "Scores in points, speed-ups as ratios. Values more than 2% away from the wanted speed-up are left out.",
        ),
    )


def signed(value: float, decimals: int) -> str:
    """A change with its sign, none on zero.

    >>> signed(0.25, 1), signed(-0.04, 1), signed(float("nan"), 1)
    ('+0.2', '0.0', '–')
    """
    text = fixed(value, decimals)
    return text if text[0] in "-–" or not text.strip("0.") else f"+{text}"
