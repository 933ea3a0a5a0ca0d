"""The column that a report leads with: the run's main average near the primary speed-up, or its only task."""

from __future__ import annotations

import math
from dataclasses import dataclass

from exitbench.benchmarks.results.operating_point import FINAL, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import Name, Pair, task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata, Group, counted_tasks
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.pairs import both_ways, pairs_of
from exitbench.reports.verdict.standings import ColumnKey, Standings

FAMILIAR = "right-tool"
"""What differences are counted from where nothing else is asked for: the largest softmax probability."""


@dataclass(frozen=True)
class MainColumn:
    """Where the headline is read: the ``caches`` of one model under one protocol, averaged if they are several."""

    run: FinishedRun
    group: Group
    protocol: str
    point: OperatingPoint

    @property
    def caches(self) -> tuple[CacheMetadata, ...]:
        return self.group.caches

    @property
    def is_average(self) -> bool:
        return len(self.caches) > 1

    @property
    def measure(self) -> str:
        return self.group.average_measure if self.is_average else self.caches[0].measure

    @property
    def question(self) -> ColumnKey:
        """The key of the column, as standings are asked for."""
        cache = "" if self.is_average else self.caches[0].name
        return cache, self.group.model, self.group.split, self.protocol, self.point, None, "", self.measure

    @property
    def title(self) -> str:
        """What the column is, inside a sentence."""
        if self.is_average:
            return f"average of {counted_tasks(self.caches)}, {self.run.group_title(self.group)}"
        return task_with_model(self.run, self.caches[0])

    def row(self, signal: str, parameters: str, measure: str = "", layer: int | None = None) -> Row | None:
        """The row of an entry or a bound in this column: its score, or another measure there."""
        point = FINAL if signal == "final" else self.point
        return self.row_at(point, signal, parameters, measure or self.measure, layer)

    def row_at(
        self, point: OperatingPoint, signal: str, parameters: str, measure: str, layer: int | None = None
    ) -> Row | None:
        """The row of an entry or a bound at any operating point of these caches."""
        if self.is_average:
            return self.run.average_row(self.group, self.protocol, signal, parameters, measure, point, layer)
        return self.run.row(self.caches[0], self.protocol, signal, parameters, measure, point, layer)

    def differences(self) -> dict[tuple[Name, Name], tuple[Pair, int]]:
        """The paired tests of the column: (first, second) to the pair and its sign, either way round."""
        cache = "" if self.is_average else self.caches[0].name
        return both_ways(pairs_of(self.run, self.group, self.protocol, (cache, self.point, None, "", self.measure)))


def main_column(standings: Standings) -> MainColumn | None:
    """The column of the verdict's headline: the first that has a best; None for a run without any results."""
    run = standings.run
    if not run.protocols:
        return None
    protocol, point = run.leading_protocol(), at_speed_up(float(run.suite["primary_speed_up"]))
    scores = standings.at_speed_up(point.number, protocol)
    groups = run.groups_under(protocol)
    if not groups:
        return None
    if not scores:
        return MainColumn(run, groups[0], protocol, point)
    cache, model, split, *_ = scores[0].question
    group = next(group for group in groups if (group.model, group.split) == (model, split))
    if cache:
        group = Group(model, split, tuple(member for member in group.caches if member.name == cache))
    return MainColumn(run, group, protocol, point)


def reference_of(column: MainColumn, subject: RunEntry | None = None) -> RunEntry | None:
    """The entry that differences are counted from: the subject, else the familiar one, else the first compared."""
    tested = {name for names in column.differences() for name in names}
    compared = [entry for entry in column.run.entries if (entry.signal, entry.parameters) in tested]
    if subject is not None:
        return subject if subject in compared else None
    familiar = [entry for entry in compared if entry.signal == FAMILIAR]
    return next(iter([*familiar, *compared]), None)


def whole_score(column: MainColumn) -> Row | None:
    """The full network's score; None where it is not known."""
    row = column.row("final", "")
    return None if row is None or math.isnan(row.value) else row
