"""Data for the explorer: the exact curves, thinned to what a screen can show, as small whole numbers.

Where ``curves.parquet`` stores exits and rates with each operating point (protocols with a threshold axis), the
explorer can move freely. Where it does not (merged folds have no common threshold), only the curve moves; rates and
exit histograms then come from the stored operating points, and the page says so.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from exitbench.benchmarks.results.operating_point import FINAL
from exitbench.benchmarks.results.schema import Row
from exitbench.reports.figures.looks import looks_of
from exitbench.reports.figures.style import colour, marker
from exitbench.reports.page.curve_points import COST_UNIT, RATE_UNIT, SCORE_UNIT, Points, points_of
from exitbench.reports.page.grouped_columns import GroupedColumns, grouped_columns
from exitbench.reports.page.packed import json_bytes
from exitbench.reports.page.page_room import PAGE_BYTES, PageRoom, by_network, group_names
from exitbench.reports.page.stored_points import (
    CURVE_KEY,
    CurveKey,
    ExitCounts,
    Stored,
    exits_of_curves,
    stored_points,
    stored_rates,
)
from exitbench.reports.page.table_data import shown_text
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import figure_name
from exitbench.reports.run_data.protocol_order import cautious_first
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata

RESOLUTIONS = (400, 280, 200, 140, 100, 70, 50, 35)
"""Operating points kept per unit of relative cost, from fine to coarse; the first that fits the budget is taken."""
EXPLORER_SHARE = 0.7
"""How much of a page's free room the curves may take."""
JUDGED_TASKS = 48
"""As many tasks as are drawn at several resolutions to choose one."""
DASHES: dict[object, list[int]] = {"-": [], "--": [0, 6, 3], "-.": [0, 7, 3, 2, 3], ":": [0, 2, 3]}


def explorer_data(run: FinishedRun, budget: int = 2_000_000, room: PageRoom | None = None) -> dict[str, Any]:
    """What the explorer of one run needs, as plain values; at most about ``budget`` characters of JSON.

    Where even the coarsest curves are more than a page has ``room`` for, some tasks have none.
    """
    return Explorer(run).data(budget, room or PageRoom(PAGE_BYTES))


def finest_resolution(data: dict[str, Any], tasks: Sequence[ExplorerTask], budget: int) -> int:
    """The finest resolution at which tasks fit a budget, judged by the first ones where there are many."""
    some = tasks[:JUDGED_TASKS]
    budget = budget * len(some) // max(1, len(tasks))

    def fits(resolution: int) -> bool:
        return len(json_bytes(data | {"tasks": [task.data(resolution) for task in some]})) <= budget

    # The coarser, the smaller: the finest that fits is found by halving, the coarsest of all is taken as it is.
    return RESOLUTIONS[bisect.bisect_left(RESOLUTIONS[:-1], True, key=fits)]


def first_opened(run: FinishedRun, tasks: Sequence[ExplorerTask]) -> list[int]:
    """The numbers of tasks by importance: the leading protocols first, and one network of every model and task."""
    rank = {cache.name: number for number, cache in enumerate(by_network(run.caches))}
    leading = {cache.name: run.leading_protocol([cache]) for cache in run.caches}

    def importance(number: int) -> tuple[bool, int, int]:
        cache, protocol = tasks[number].metadata["cache"], tasks[number].metadata["protocol"]
        return protocol != leading[cache], rank[cache], number

    return sorted(range(len(tasks)), key=importance)


def lines_of(run: FinishedRun) -> list[tuple[str, str]]:
    """(signal, parameters) of everything that is drawn: the entries, then fixed layers and random exits."""
    return list(
        dict.fromkeys([*((entry.signal, entry.parameters) for entry in run.entries), ("fixed", ""), ("random", "")])
    )


def signal_looks(run: FinishedRun) -> list[dict[str, str]]:
    """Label, colour and marker of every line, as in the figures, and what a suite calls it (nothing for a bound)."""
    looks = {(look.entry.signal, look.entry.parameters): look for look in looks_of(run)}
    lines = []
    for signal, parameters in lines_of(run):
        look = looks.get((signal, parameters))
        tint, sign = (colour(signal), marker(signal)) if look is None else (look.colour, look.marker)
        text = "" if look is None else look.entry.text
        label = shown_text(run.label(signal, parameters))
        lines.append({"label": label, "colour": tint, "marker": sign, "text": text})
    return lines


def dashes(run: FinishedRun, cache: CacheMetadata, protocol: str) -> dict[tuple[str, str], list[int]]:
    """Offset and strokes of every line that is not drawn through: repeated entries, and entries that are one here."""
    strokes_of: dict[tuple[str, str], list[int]] = {}
    for look in looks_of(run, cache, protocol):
        if look.line in DASHES:
            strokes = DASHES[look.line]
        else:
            offset, pattern = look.line
            strokes = [int(offset), *map(int, pattern)]
        if strokes:
            strokes_of[look.entry.signal, look.entry.parameters] = strokes
    return strokes_of


@dataclass(frozen=True, eq=False)
class ExplorerTask:
    """A cache under a protocol: what is said of it, and its curves, which are read when somebody asks for them."""

    metadata: dict[str, Any]
    read: Callable[[], list[tuple[dict[str, Any], Points]]]

    def data(self, resolution: int) -> dict[str, Any]:
        """What the page reads, with the curves at a resolution."""
        return {**self.metadata, "curves": self.curve_data(resolution)}

    def curve_data(self, resolution: int) -> list[dict[str, Any]]:
        """The curves at a resolution, made once: the resolution that is chosen has been tried."""
        if resolution not in self._made:
            self._made[resolution] = [metadata | points.data(resolution) for metadata, points in self._lines]
        return self._made[resolution]

    def chosen_data(self, resolution: int) -> list[dict[str, Any]]:
        """The same when no other resolution is asked for any more: what it was made from is given up."""
        data = self.curve_data(resolution)
        self._made.clear()
        self._made[resolution] = data
        self.__dict__.pop("_lines", None)
        return data

    @cached_property
    def _lines(self) -> list[tuple[dict[str, Any], Points]]:
        return self.read()

    @cached_property
    def _made(self) -> dict[int, list[dict[str, Any]]]:
        return {}


class Explorer:
    """The explorer of one run. Of result files only the rows of those caches are read that a page has room for."""

    def __init__(self, run: FinishedRun) -> None:
        self.run = run
        order = [cache.name for cache in by_network(run.caches)]
        self._curves = run.files.by_cache("curves", order)
        self._histograms = run.files.by_cache("histograms", order)
        self._last: StoredCurves | None = None
        self._resolutions: dict[int, int] = {}
        self._numbers = {line: number for number, line in enumerate(lines_of(run))}

    def data(self, budget: int, room: PageRoom) -> dict[str, Any]:
        """What the page reads, as plain values; at most about ``budget`` characters of JSON.

        Where even the coarsest curves are more than a page has ``room`` for, some tasks have none.
        """
        tasks = self.tasks
        data = {
            "units": {"score": SCORE_UNIT, "rate": RATE_UNIT, "cost": COST_UNIT},
            "primary": self.run.suite["primary_speed_up"],
            "signals": signal_looks(self.run),
        }
        resolution = self._resolution(data, budget)
        room.spend([data, [task.metadata for task in tasks]])
        offered = ((number, partial(tasks[number].chosen_data, resolution)) for number in first_opened(self.run, tasks))
        curves = room.kept(EXPLORER_SHARE, offered)
        shown = [
            task.metadata | ({"curves": curves[number]} if number in curves else {})
            for number, task in enumerate(tasks)
        ]
        return data | {"resolution": resolution, "tasks": shown}

    @cached_property
    def tasks(self) -> list[ExplorerTask]:
        """One per cache and protocol: caches in the suite's order, the most cautious protocol of each first."""
        stored = self._curves.words("protocol")
        return [
            ExplorerTask(self._metadata(cache, protocol), partial(self._lines, cache, protocol))
            for cache in self.run.caches
            for protocol in cautious_first(self.run.protocols)
            if protocol in stored.get(cache.name, ())
        ]

    def _resolution(self, data: dict[str, Any], budget: int) -> int:
        if budget not in self._resolutions:
            in_turn = [self.tasks[number] for number in first_opened(self.run, self.tasks)]
            chosen = self._resolutions[budget] = finest_resolution(data, in_turn, budget)
            for task in in_turn[:JUDGED_TASKS]:
                task.chosen_data(chosen)
        return self._resolutions[budget]

    def _metadata(self, cache: CacheMetadata, protocol: str) -> dict[str, Any]:
        """What is said of a cache under a protocol."""
        run = self.run
        return {
            "label": shown_text(task_with_model(run, cache)),
            "cache": cache.name,
            "protocol": protocol,
            "group": list(map(shown_text, group_names(run, cache))),
            "figure": figure_name(run, "trade-off", cache, protocol),
            "layers": cache.layers,
            "rows": cache.rows,
            "costs": list(range(1, cache.layers + 1) if cache.costs is None else cache.costs),
            "own_costs": cache.costs is not None,
            "score": cache.measure,
            "final": final_score(run, cache, protocol),
        }

    def _lines(self, cache: CacheMetadata, protocol: str) -> list[tuple[dict[str, Any], Points]]:
        """What is said of every curve of a cache under a protocol, and its points; in the order of the lines."""
        stored = self._stored(cache)
        strokes = dashes(self.run, cache, protocol)
        lines: list[tuple[dict[str, Any], Points]] = []
        for name, of, signal, parameters in stored.drawn.rows_of:
            key, line = (name, of, signal, parameters), (signal, parameters)
            number = self._numbers.get(line) if of == protocol else None
            points = None if number is None else points_of(stored.drawn, key, stored.named.get(key, []))
            if points is not None:
                dash = {"dash": strokes[line]} if line in strokes else {}
                at_points = stored_points(stored.exits.get(key, {}), stored.rates.get(key, {}))
                lines.append(({"signal": number, **dash, **({"stored": at_points} if at_points else {})}, points))
        return sorted(lines, key=lambda line: line[0]["signal"])

    def _stored(self, cache: CacheMetadata) -> StoredCurves:
        """What the result files hold of a cache, kept until another is asked for: it has several protocols."""
        if self._last is None or self._last.cache != cache.name:
            rows = self.run.rows.of_cache(cache.name)
            self._last = StoredCurves(
                cache.name,
                grouped_columns(self._curves.of(cache.name), CURVE_KEY),
                exits_of_curves(self._histograms.of(cache.name)),
                stored_rates(rows, cache.measure),
                named_thresholds(rows),
            )
        return self._last


@dataclass(frozen=True, eq=False)
class StoredCurves:
    """What the result files hold of a cache: the points of its curves, and by curve exits, rates and thresholds."""

    cache: str
    drawn: GroupedColumns
    exits: dict[CurveKey, ExitCounts]
    rates: Stored
    named: dict[CurveKey, list[float]]


def final_score(run: FinishedRun, cache: CacheMetadata, protocol: str) -> float | None:
    """The last layer's score, which every curve starts from."""
    row = run.row(cache, protocol, "final", "", cache.measure, FINAL)
    return None if row is None or math.isnan(row.value) else round(row.value, 3)


def named_thresholds(rows: Iterable[Row]) -> dict[CurveKey, list[float]]:
    """Thresholds in the results of a cache, by cache, protocol, signal and parameters: their points are kept."""
    thresholds: dict[CurveKey, list[float]] = {}
    for row in rows:
        if row.threshold is not None and row.layer is None and row.operating_point.kind in ("speed_up", "loss"):
            key = (row.cache, row.protocol, row.signal, row.parameters)
            thresholds.setdefault(key, []).append(row.threshold)
    return thresholds
