"""Entries that no table can tell apart: with two classes, several signals are one ranking under different names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exitbench.benchmarks.results.schema import Row

if TYPE_CHECKING:
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.reports.run_data.run_caches import CacheMetadata


TELLING = ("dis", "accuracy", "speed_up")
"""Measures of the ranking and the scores."""


@dataclass(frozen=True)
class Identical:
    """Entries whose rankings and scores agree in every number, under one protocol on one cache."""

    cache: CacheMetadata
    protocol: str
    members: tuple[tuple[str, str], ...]

    def sentence(self, run: FinishedRun) -> str:
        """What a reader should know of it."""
        *first, last = [run.label(*member) for member in self.members]
        why = ": with two classes they rank samples in the same order" if len(self.cache.classes) == 2 else ""
        return f"{run.task_title(self.cache)}: {', '.join(first)} and {last} agree in every number{why}."


def identical_entries(run: FinishedRun) -> list[Identical]:
    """Groups of two or more entries that agree everywhere, by protocol and cache."""
    entries = {(entry.signal, entry.parameters) for entry in run.entries}
    numbers_of: dict[tuple[str, str], dict[tuple[str, str], list[Any]]] = {}
    for row in run.rows.where(measure=TELLING, decisions=("",)):
        if (row.signal, row.parameters) in entries and row.cache and is_telling(row):
            of_cache = numbers_of.setdefault((row.protocol, row.cache), {})
            value = None if row.status == "undefined" else round(row.value, 9)
            of_cache.setdefault((row.signal, row.parameters), []).append(
                (row.operating_point, row.layer, row.decisions, row.measure, value)
            )
    groups: list[Identical] = []
    for protocol in run.protocols:
        for cache in run.caches:
            alike: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
            for entry in run.entries:
                numbers = numbers_of.get((protocol, cache.name), {}).get((entry.signal, entry.parameters))
                if numbers:
                    alike.setdefault(tuple(sorted(numbers, key=repr)), []).append((entry.signal, entry.parameters))
            groups += [Identical(cache, protocol, tuple(members)) for members in alike.values() if len(members) > 1]
    return groups


def is_telling(row: Row) -> bool:
    """Whether a number belongs to the ranking or the scores, rather than to a threshold somebody chose."""
    return row.measure in TELLING and row.operating_point.kind != "tau" and not row.decisions
