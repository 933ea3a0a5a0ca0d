"""The subject of the findings against each of its opponents: what the paired tests of a run say, column by column.

Nothing is tested again here. A duel is a row of ``pairs.parquet``, negated where the subject comes second, and its
verdict is that of the row's adjusted p-value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.vocabulary import AVERAGE, LOWER_IS_BETTER, is_claimed
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import Name, Pair, task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata, counted_tasks
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import pair_cell
from exitbench.reports.tables.pairs import pair_key
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label

DuelVerdict = Literal["better", "worse", "not distinguishable", "not compared"]
VERDICTS: tuple[DuelVerdict, ...] = ("better", "worse", "not distinguishable", "not compared")
DuelColumn = tuple[str, str, str, OperatingPoint, int | None, str, str]
"""What a pair is about, apart from its protocol: cache, model, split, operating point, layer, decisions, measure."""


@dataclass(frozen=True)
class Duel:
    """The subject against one other signal in one column of results.

    ``pair`` is the row of ``pairs.parquet``, None when the two were not compared; ``sign`` is -1 when the subject is
    its second signal. ``tests`` counts the pairs that share the column, over which p-values are adjusted.
    """

    task: str
    where: str
    other: RunEntry
    question: DuelColumn
    pair: Pair | None
    sign: int = 1
    tests: int = 0

    @property
    def is_average(self) -> bool:
        return not self.question[0]

    @property
    def difference(self) -> float:
        """The subject less the other, in points; NaN when the two were not compared."""
        return math.nan if self.pair is None else self.sign * float(self.pair["difference"])

    @property
    def std_err(self) -> float:
        return math.nan if self.pair is None else float(self.pair["std_err"])

    @property
    def verdict(self) -> DuelVerdict:
        """Whether the subject is better or worse by more than chance explains, adjusted for many comparisons."""
        if self.pair is None or math.isnan(self.pair["p_adjusted"]):
            return "not compared"
        if not is_claimed(self.pair["p_adjusted"]):
            return "not distinguishable"
        gain = -self.difference if self.question[-1] in LOWER_IS_BETTER else self.difference
        return "better" if gain > 0 else "worse"

    def cell(self) -> Cell:
        """The difference with its interval and adjusted p-value; bold where the subject is better."""
        if self.pair is None:
            return Cell("–", status="missing", reason="unmatched, degenerate, undefined, unreliable or without an exit")
        return replace(pair_cell(self.pair, pair_key(self.pair), self.sign), best=self.verdict == "better")


class Duels:
    """All duels of one run under one protocol."""

    def __init__(self, run: FinishedRun, protocol: str, subject: RunEntry, others: Sequence[RunEntry]) -> None:
        self.run, self.protocol, self.subject, self.others = run, protocol, subject, tuple(others)
        self._columns: dict[DuelColumn, tuple[dict[tuple[Name, Name], Pair], int]] = {}

    def _column(self, question: DuelColumn) -> tuple[dict[tuple[Name, Name], Pair], int]:
        """The pairs of a column that the subject is one of, by their entries, and how many tests the column has."""
        if question not in self._columns:
            cache, model, split, *asked = question
            pairs = self.run.pair_rows.of_column((cache, model, split, self.protocol, *asked))
            tests = sum(not math.isnan(pair["p_value"]) for pair in pairs)
            subject = (self.subject.signal, self.subject.parameters)
            between = {
                names: pair
                for pair in pairs
                if subject
                in (names := ((pair["signal_a"], pair["parameters_a"]), (pair["signal_b"], pair["parameters_b"])))
            }
            self._columns[question] = between, tests
        return self._columns[question]

    def duel(self, task: str, where: str, other: RunEntry, question: DuelColumn) -> Duel:
        """The subject against ``other`` in one column."""
        between, tests = self._column(question)
        first, second = (self.subject.signal, self.subject.parameters), (other.signal, other.parameters)
        if (first, second) in between:
            return Duel(
                task=task,
                where=where,
                other=other,
                question=question,
                pair=between[first, second],
                sign=1,
                tests=tests,
            )
        return Duel(
            task=task,
            where=where,
            other=other,
            question=question,
            pair=between.get((second, first)),
            sign=-1,
            tests=tests,
        )

    def of_cache(
        self,
        cache: CacheMetadata,
        other: RunEntry,
        where: str,
        *,
        measure: str,
        point: OperatingPoint = NOWHERE,
        layer: int | None = None,
        decisions: str = "",
    ) -> Duel:
        """The subject against ``other`` on one cache."""
        question = (cache.name, cache.model, cache.split, point, layer, decisions, measure)
        return self.duel(task_with_model(self.run, cache), where, other, question)

    def score(self, other: RunEntry, speed_up: float) -> list[Duel]:
        """By task score near a speed-up: every cache, then the averages over tasks."""
        at, where = at_speed_up(speed_up), f"near {speed_up:g}×"
        duels = [self.of_cache(cache, other, where, measure=cache.measure, point=at) for cache in self.run.caches]
        for group in self.run.groups:
            if len(group.caches) > 1:
                question = ("", group.model, group.split, at, None, "", group.average_measure)
                task = f"{AVERAGE} of {counted_tasks(group.caches)}, {self.run.group_title(group)}"
                duels.append(self.duel(task, where, other, question))
        return duels

    def dis(self, other: RunEntry) -> list[Duel]:
        """By DIS at the suite's layers of every cache."""
        return [
            self.of_cache(cache, other, f"layer {layer} of {cache.layers}", measure="dis", layer=layer)
            for cache in self.run.caches
            for layer in cache.table_layers
        ]


def single(duels: Iterable[Duel]) -> list[Duel]:
    """The duels on single caches, without those on averages."""
    return [duel for duel in duels if not duel.is_average]


def tally(duels: Iterable[Duel]) -> dict[DuelVerdict, int]:
    """How often each verdict falls, in the order of :data:`VERDICTS`."""
    counts = Counter(duel.verdict for duel in duels)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def tally_text(duels: Sequence[Duel]) -> str:
    """How often the subject is better and worse, in words; comparisons that could not be made only where there are any.

    >>> tally_text([])
    'better on 0, worse on 0 and not distinguishable on 0 of 0'
    """
    counts = tally(duels)
    text = (
        f"better on {counts['better']}, worse on {counts['worse']} and not distinguishable on "
        f"{counts['not distinguishable']} of {len(duels)}"
    )
    return f"{text} ({counts['not compared']} could not be compared)" if counts["not compared"] else text


def duel_table(duels: Sequence[Duel], subject: str, other: str, what: str) -> Table:
    """One row per duel: where, the difference, the verdict."""
    rows = [
        TableRow(cells=(label(duel.task), label(duel.where), duel.cell(), label(duel.verdict)), kind="other")
        for duel in duels
    ]
    columns = (
        TableColumn("Task"),
        TableColumn("At"),
        TableColumn(title=f"{subject} less {other}", measure="difference"),
        TableColumn("Verdict"),
    )
    question = f"Is {subject} better than {other} by more than chance explains?"
    return Table(
        name="",
        title=f"{what}: {subject} less {other}",
        question=question,
        topic="pairs",
        columns=columns,
        rows=tuple(rows),
    )


def tally_table(rows: Sequence[tuple[str, Sequence[Sequence[Duel]]]], subject: str, others: Sequence[str]) -> Table:
    """How often each verdict falls: one row per question, one group of columns per opponent."""
    shown = []
    for what, by_other in rows:
        counts = [str(tally(single(duels))[verdict]) for duels in by_other for verdict in VERDICTS[:3]]
        shown.append(TableRow(cells=tuple(map(label, (what, str(len(single(by_other[0]))), *counts))), kind="other"))
    columns = [TableColumn("By"), TableColumn(title="comparisons", measure="wins")]
    columns += [
        TableColumn(title=verdict, group=f"against {other}", measure="wins")
        for other in others
        for verdict in VERDICTS[:3]
    ]
    note = "Comparisons are caches, for DIS pairs of cache and layer; averages over tasks are not counted."
    question = f"On how many caches is {subject} better, on how many worse?"
    return Table(
        name="",
        title="How often",
        question=question,
        topic="pairs",
        columns=tuple(columns),
        rows=tuple(shown),
        notes=(note,),
    )
