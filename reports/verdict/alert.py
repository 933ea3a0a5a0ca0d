"""An alert: one warning with the places it concerns, and how the places of many cells are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import BOUNDS
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import task_with_model

MOST_PLACES = 24
"""As many tasks, or lines, as one list of an alert names."""

Severity = Literal["error", "caution", "note"]


@dataclass(frozen=True)
class Alert:
    """One warning: a headline, what it means, and the places it concerns."""

    severity: Severity
    kind: str
    headline: str
    meaning: str
    places: tuple[str, ...] = ()


def grouped(
    severity: Severity,
    kind: str,
    headline: str,
    meaning: str,
    rows: Iterable[Row],
    run: FinishedRun,
    where: Callable[[Row], str],
    noun: str = "cell",
) -> list[Alert]:
    """One alert for many cells: a line per signal, the tasks with their places in it, protocols together."""
    titles = {cache.name: task_with_model(run, cache) for cache in run.caches}
    lines: dict[str, dict[str, dict[str, None]]] = {}
    seen: set[tuple[str, str, str, str]] = set()
    for row in rows:
        if row.signal in BOUNDS:
            continue
        seen.add((row.signal, row.parameters, row.cache, where(row)))
        tasks = lines.setdefault(run.label(row.signal, row.parameters), {})
        tasks.setdefault(titles[row.cache], {})[where(row)] = None
    if not seen:
        return []
    places = tuple(
        f"{label}: " + "; ".join(few([f"{task} ({', '.join(spots)})" for task, spots in tasks.items()]))
        for label, tasks in lines.items()
    )
    return [
        Alert(
            severity=severity,
            kind=kind,
            headline=headline.format(plural(len(seen), noun)),
            meaning=meaning,
            places=places,
        )
    ]


def layer_or_point(row: Row) -> str:
    """Where a row stands: its layer, or its operating point."""
    if row.layer is not None:
        return f"layer {row.layer}"
    return row.operating_point.short if row.operating_point.kind in ("speed_up", "loss") else row.measure


def measure_and_layer(row: Row) -> str:
    """Where a row stands: its measure, and its layer if it has one."""
    where = f" at layer {row.layer}" if row.layer is not None else ""
    return f"{row.measure.replace('_', ' ')}{where}"


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "cell"), plural(3, "cell")
    ('1 cell', '3 cells')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def few(where: Sequence[str]) -> list[str]:
    """The first places of a list, and how many more there are; of hundreds of caches all would fill a page."""
    more = len(where) - MOST_PLACES
    return list(where) if more <= 0 else [*where[:MOST_PLACES], f"and {more} more"]


def first_few(where: Sequence[str], most: int = 6) -> str:
    """The first few of many places."""
    return ", ".join(where[:most]) + (f" and {len(where) - most} more" if len(where) > most else "")
