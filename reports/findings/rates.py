"""The subject of the findings by its exit rates: a lower one is a gain only where the other one does not pay for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.vocabulary import EQUAL_SHARE
from exitbench.reports.findings.duels import Duel, Duels
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label


@dataclass(frozen=True)
class RateDuels:
    """Both exit rates of the subject against one other: a lower one is no gain where the other one rises for it."""

    premature: Duel
    delayed: Duel

    @property
    def is_lower(self) -> bool:
        """Whether the premature rate falls and the delayed one does not rise."""
        return self.premature.difference < 0 and self.delayed.difference <= 0

    @property
    def is_claimed(self) -> bool:
        """Whether that fall of the premature rate is more than chance explains."""
        return self.is_lower and self.premature.verdict == "better"

    @property
    def is_trade(self) -> bool:
        """Whether one rate falls at the cost of the other."""
        return self.premature.difference * self.delayed.difference < 0

    def cells(self) -> list[Cell]:
        """Difference and verdict of each rate; what is bought with the other rate is neither bold nor better."""
        cells = []
        for duel, other in ((self.premature, self.delayed), (self.delayed, self.premature)):
            bought = duel.verdict == "better" and other.difference > 0
            cells.append(replace(duel.cell(), best=duel.verdict == "better" and not bought))
            cells.append(label("lower, the other rises" if bought else duel.verdict))
        return cells


def rate_duels(duels: Duels, other: RunEntry) -> list[RateDuels]:
    """By both exit rates over all decisions, at the suite's speed-up for rates."""
    point = at_speed_up(float(duels.run.suite["rates_speed_up"]))
    return [both_rates(duels, cache, other, f"near {point.short}", point, "all") for cache in duels.run.caches]


def equal_share_duels(duels: Duels, other: RunEntry) -> list[RateDuels]:
    """By both exit rates when as many samples exit at each layer as it gets right."""
    where = "at equal exit shares"
    return [both_rates(duels, cache, other, where, NOWHERE, EQUAL_SHARE) for cache in duels.run.caches]


def both_rates(
    duels: Duels, cache: CacheMetadata, other: RunEntry, where: str, point: OperatingPoint, decisions: str
) -> RateDuels:
    """The premature and the delayed rate on one cache."""
    premature, delayed = (
        duels.of_cache(cache, other, where, measure=measure, point=point, decisions=decisions)
        for measure in ("premature_rate", "delayed_rate")
    )
    return RateDuels(premature, delayed)


def rates_table(rates: Sequence[Sequence[RateDuels]], subject: str, where: str, note: str) -> Table:
    """One row per cache and opponent: the differences of the premature and of the delayed rate, with their verdicts."""
    rows = [
        TableRow(cells=(label(both.premature.task), label(both.premature.other.title), *both.cells()), kind="other")
        for against in rates
        for both in against
    ]
    columns = [TableColumn("Task"), TableColumn("against")]
    for what in ("premature", "delayed"):
        columns += [
            TableColumn(title="difference", group=what, measure="difference"),
            TableColumn(title="verdict", group=what),
        ]
    return Table(
        name="",
        title=f"Premature and delayed exiting rates {where}: {subject} less the other",
        question=f"Does {subject} exit less often on wrong answers, and continue less often on right ones?",
        topic="rates",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(note,),
    )
