"""Who leads a column of results, by how much, and from whom no difference can be claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.schema import PAIR_KEY, Row
from exitbench.benchmarks.results.vocabulary import LOWER_IS_BETTER
from exitbench.reports.run_data.numbers import Number, number, p_text
from exitbench.reports.run_data.provenance import SourceRows, key_of, task_with_model
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import result_number

ColumnKey = tuple[str, str, str, str, OperatingPoint, int | None, str, str]
"""What makes a column: cache, model, split, protocol, operating point, layer, decisions, measure."""
"""From the protocol that promises least to the one that flatters most."""


@dataclass(frozen=True)
class Lead:
    """The best of a column against another entry: best minus other, and the p-value adjusted within the column."""

    other: str
    difference: Number
    p_value: Number


@dataclass(frozen=True)
class ColumnStanding:
    """One column: its best entry, those level with it, and its lead over the best entry that is clearly worse.

    ``shared`` are other entries with the very same best value, ``level`` those that are lower but not clearly so, and
    ``absent`` those that take no part.
    """

    task: str
    question: ColumnKey
    best: str
    signal: str
    score: Number
    speed_up: Number | None
    level: tuple[str, ...]
    behind: Lead | None
    compared: int
    shared: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def cache(self) -> str:
        """The cache's name, empty for an average."""
        return self.question[0]

    @property
    def alone(self) -> bool:
        """Whether the best is better than every other entry by more than chance explains."""
        return self.compared > 1 and not self.level and not self.shared

    @property
    def leaders(self) -> tuple[str, ...]:
        return (self.best, *self.shared, *self.level)


class Standings:
    """The columns of one run in which entries are compared."""

    def __init__(self, source: SourceRows) -> None:
        self.source, self.run = source, source.run

    def standing(self, question: ColumnKey) -> ColumnStanding | None:
        """The standing of one column; None when nothing in it was compared."""
        column = self.run.rows.compared(question)
        best = next((row for row in column if row.best), None)
        if best is None:
            return None
        shared = [row for row in column if row.best and row is not best]
        level = [row for row in column if row.tied_with_best and not row.best]
        worse = [row for row in column if not row.tied_with_best]
        worse.sort(key=lambda row: row.value, reverse=best.measure not in LOWER_IS_BETTER)
        pace = self.run.rows.get(best._replace(measure="speed_up").key)
        return ColumnStanding(
            task=self.task_of(question),
            question=question,
            best=self.label(best),
            signal=best.signal,
            score=result_number(best),
            speed_up=None if pace is None or math.isnan(pace.value) else result_number(pace, digits=2),
            level=tuple(self.label(row) for row in level),
            behind=self.lead(best, worse[0]) if worse else None,
            compared=len(column),
            shared=tuple(self.label(row) for row in shared),
            absent=tuple(self.run.label(entry.signal, entry.parameters) for entry in self.absent(question)),
        )

    def absent(self, question: ColumnKey) -> list[RunEntry]:
        """The entries that take no part in a column: not matched there, degenerate, or an average without a task."""
        compared = {(row.signal, row.parameters) for row in self.run.rows.compared(question)}
        return [entry for entry in self.run.entries if (entry.signal, entry.parameters) not in compared]

    def task_of(self, question: ColumnKey) -> str:
        cache = self.run.cache_named.get(question[0])
        return f"average of {question[1]}" if cache is None else task_with_model(self.run, cache)

    def label(self, row: Row) -> str:
        return self.run.label(row.signal, row.parameters)

    def lead(self, best: Row, other: Row) -> Lead | None:
        """The tested difference of the best and another entry; None when that pair was not tested."""
        first, second = ((row.signal, row.parameters) for row in (best, other))
        for pair in self.source.pairs.of_column(column_of(best)):
            p_value = pair["p_against_best"]
            if p_value is None or math.isnan(p_value):
                continue
            sides = [(pair[f"signal_{side}"], pair[f"parameters_{side}"]) for side in "ab"]
            if sides not in ([first, second], [second, first]):
                continue
            sign = 1 if sides[0] == first else -1
            low, high = sorted((sign * pair["low"], sign * pair["high"]))
            key: tuple[Any, ...] = key_of(PAIR_KEY, pair)
            gap = number(sign * pair["difference"], low, high, source="pairs", key=key, column="difference")
            p = Number(p_value, p_text(p_value), source="pairs", key=key, column="p_against_best")
            return Lead(self.label(other), gap, p)
        return None

    def at_speed_up(self, speed_up: float, protocol: str) -> list[ColumnStanding]:
        """Task score at a matched speed-up: averages first, then one standing per cache."""
        at = at_speed_up(speed_up)
        questions: list[ColumnKey] = [
            ("", group.model, group.split, protocol, at, None, "", group.average_measure)
            for group in self.run.groups_under(protocol)
        ]
        questions += [
            (cache.name, cache.model, cache.split, protocol, at, None, "", cache.measure) for cache in self.run.caches
        ]
        standings = (self.standing(question) for question in questions)
        return [standing for standing in standings if standing is not None]

    def at_layers(self, protocol: str) -> list[ColumnStanding]:
        """DIS at the suite's layers of every cache."""
        questions: list[ColumnKey] = [
            (cache.name, cache.model, cache.split, protocol, NOWHERE, layer, "", "dis")
            for cache in self.run.caches
            for layer in cache.table_layers
        ]
        standings = (self.standing(question) for question in questions)
        return [standing for standing in standings if standing is not None]


def column_of(row: Row) -> ColumnKey:
    """The column that a row of the results belongs to."""
    return row.cache, row.model, row.split, row.protocol, row.operating_point, row.layer, row.decisions, row.measure
