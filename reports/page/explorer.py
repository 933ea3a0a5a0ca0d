"""Data for the explorer: the exact curves, thinned to what a screen can show, as small whole numbers.

Where ``curves.parquet`` stores exits and rates with each operating point (protocols with a threshold axis), the
explorer can move freely. Where it does not (merged folds have no common threshold), only the curve moves; rates and
exit histograms then come from the stored operating points, and the page says so.

Columns are coded as differences to the previous entry, in units of :data:`SCORE_UNIT` and :data:`RATE_UNIT`; the
speed-up of an exact point is not stored, since the exit counts give it exactly.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.results.operating_point import FINAL
from exitbench.reports.figures.looks import looks_of
from exitbench.reports.figures.style import colour, marker
from exitbench.reports.page.grouped_columns import GroupedColumns, grouped_columns
from exitbench.reports.page.packed import json_bytes
from exitbench.reports.page.page_room import PAGE_BYTES, PageRoom, by_network, group_names
from exitbench.reports.page.stored_points import (
    CURVE_KEY,
    RATES,
    CurveKey,
    exits_of_curves,
    stored_points,
    stored_rates,
    threshold_text,
)
from exitbench.reports.page.table_data import shown_text
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import figure_name
from exitbench.reports.run_data.protocol_order import cautious_first
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata

SCORE_UNIT, RATE_UNIT, COST_UNIT = 0.0001, 0.01, 0.00001
RESOLUTIONS = (400, 280, 200, 140, 100, 70, 50, 35)
"""Operating points kept per unit of relative cost, from fine to coarse; the first that fits the budget is taken."""
EXPLORER_SHARE = 0.7
"""How much of a page's free room the curves may take."""
JUDGED_TASKS = 48
"""As many tasks as are drawn at several resolutions to choose one."""
TOLERANCE = 0.0015
"""How far, as a share of the drawn height, a left-out point may lie from the line between its neighbours."""
DASHES: dict[object, list[int]] = {"-": [], "--": [0, 6, 3], "-.": [0, 7, 3, 2, 3], ":": [0, 2, 3]}


def explorer_data(run: FinishedRun, budget: int = 2_000_000, room: PageRoom | None = None) -> dict[str, Any]:
    """What the explorer of one run needs, as plain values; at most about ``budget`` characters of JSON.

    Where even the coarsest curves are more than a page has ``room`` for, some tasks have none.
    """
    tasks = explorer_tasks(run)
    data = {
        "units": {"score": SCORE_UNIT, "rate": RATE_UNIT, "cost": COST_UNIT},
        "primary": run.suite["primary_speed_up"],
        "signals": signal_looks(run),
    }
    resolution = finest_resolution(data, tasks, budget)
    room = room or PageRoom(PAGE_BYTES)
    room.spend([data, [task.metadata for task in tasks]])
    offered = ((number, partial(tasks[number].curve_data, resolution)) for number in first_opened(run, tasks))
    curves = room.kept(EXPLORER_SHARE, offered)
    shown = [
        task.metadata | ({"curves": curves[number]} if number in curves else {}) for number, task in enumerate(tasks)
    ]
    return data | {"resolution": resolution, "tasks": shown}


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
class Points:
    """A curve from full depth to the earliest exits, each array [points]; ``exits`` and ``rates`` where it is exact."""

    cost: NDArray[np.float64]
    score: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    named: NDArray[np.bool_]
    exits: NDArray[np.int64] | None
    rates: tuple[NDArray[np.float64], ...]
    band: dict[str, list[int | None]]

    def data(self, resolution: int) -> dict[str, Any]:
        """The points that are kept at a resolution, as the page reads them."""
        kept = thinned(self.cost, self.score, self.named, resolution)
        data: dict[str, Any] = {"score": steps(self.score[kept] / SCORE_UNIT)}
        if self.exits is not None:
            data["exits"] = [steps(counts) for counts in self.exits[kept].T]
            data["thresholds"] = [threshold_text(value) for value in self.thresholds[kept]]
            data["rates"] = [steps(rate[kept] / RATE_UNIT) for rate in self.rates]
        else:
            data["cost"] = steps(self.cost[kept] / COST_UNIT)
        return data | ({"band": self.band} if self.band else {})


@dataclass(frozen=True, eq=False)
class ExplorerTask:
    """A cache under a protocol: what is said of it, and its curves with what is said of each."""

    metadata: dict[str, Any]
    curves: list[tuple[dict[str, Any], Points]]

    def data(self, resolution: int) -> dict[str, Any]:
        """What the page reads, with the curves at a resolution."""
        return {**self.metadata, "curves": self.curve_data(resolution)}

    def curve_data(self, resolution: int) -> list[dict[str, Any]]:
        """The curves at a resolution, made once: the resolution that is chosen has been tried."""
        if resolution not in self._made:
            self._made[resolution] = [metadata | points.data(resolution) for metadata, points in self.curves]
        return self._made[resolution]

    @cached_property
    def _made(self) -> dict[int, list[dict[str, Any]]]:
        return {}


def explorer_tasks(run: FinishedRun) -> list[ExplorerTask]:
    """One per cache and protocol: caches in the suite's order, the most cautious protocol of each first."""
    numbers = {line: number for number, line in enumerate(lines_of(run))}
    drawn = grouped_columns(run.files.columns("curves"), CURVE_KEY)
    counted = exits_of_curves(run)
    rates = stored_rates(run)
    named = named_thresholds(run)
    keys: dict[tuple[str, str], list[CurveKey]] = {}
    for cache_name, protocol, signal, parameters in drawn.rows_of:
        keys.setdefault((cache_name, protocol), []).append((cache_name, protocol, signal, parameters))
    tasks = []
    for cache in run.caches:
        for protocol in cautious_first(run.protocols):
            if (cache.name, protocol) not in keys:
                continue
            lines: list[tuple[dict[str, Any], Points]] = []
            strokes = dashes(run, cache, protocol)
            for curve_key in keys[cache.name, protocol]:
                number = numbers.get(curve_key[2:])
                points = None if number is None else points_of(drawn, curve_key, named.get(curve_key, []))
                if points is not None:
                    dash = {"dash": strokes[curve_key[2:]]} if curve_key[2:] in strokes else {}
                    stored = stored_points(counted.get(curve_key, {}), rates.get(curve_key, {}))
                    lines.append(({"signal": number, **dash, **({"stored": stored} if stored else {})}, points))
            metadata = {
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
            tasks.append(ExplorerTask(metadata, sorted(lines, key=lambda line: line[0]["signal"])))
    return tasks


def final_score(run: FinishedRun, cache: CacheMetadata, protocol: str) -> float | None:
    """The last layer's score, which every curve starts from."""
    row = run.row(cache, protocol, "final", "", cache.measure, FINAL)
    return None if row is None or math.isnan(row.value) else round(row.value, 3)


def named_thresholds(run: FinishedRun) -> dict[tuple[str, str, str, str], list[float]]:
    """Thresholds in the results, by cache, protocol, signal and parameters: their points are kept."""
    thresholds: dict[tuple[str, str, str, str], list[float]] = {}
    for row in run.rows.values():
        if row.threshold is not None and row.layer is None and row.operating_point.kind in ("speed_up", "loss"):
            key = (row.cache, row.protocol, row.signal, row.parameters)
            thresholds.setdefault(key, []).append(row.threshold)
    return thresholds


def points_of(drawn: GroupedColumns, key: CurveKey, named: Sequence[float]) -> Points | None:
    """One signal's curve; None when it has no point."""
    rows = drawn.rows_of[key]
    is_point = drawn.is_text("kind", rows, "point")
    points, band = (cheapest_last(drawn, part) for part in (rows[is_point], rows[drawn.is_text("kind", rows, "band")]))
    if not len(points):
        return None
    cost, score, thresholds, *rates = (drawn.numbers(name, points) for name in ("cost", "score", "threshold", *RATES))
    edges = {
        name: steps(drawn.numbers(name, band) / unit)
        for name, unit in (("cost", COST_UNIT), ("low", SCORE_UNIT), ("high", SCORE_UNIT))
    }
    return Points(
        cost=cost,
        score=score,
        thresholds=thresholds,
        named=np.isin(thresholds, named),
        exits=drawn.lists("exits", points),
        rates=tuple(rates),
        band=edges if len(band) else {},
    )


def cheapest_last(drawn: GroupedColumns, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of a curve from full depth on; of equal cost in the order of the file."""
    return rows[np.argsort(-drawn.numbers("cost", rows), kind="stable")]


def thinned(
    cost: NDArray[np.float64], score: NDArray[np.float64], named: NDArray[np.bool_], resolution: int
) -> NDArray[np.int64]:
    """Which points to keep: one per cell of cost, the ends, the named ones, and the corners that a line would miss."""
    cell = np.floor(cost * resolution)
    keep = np.concatenate([[True], cell[1:] != cell[:-1]]) | named
    keep[[0, -1]] = True
    height = float(np.ptp(score)) or 1.0
    # Two rounds: the farthest point of each gap, then again within the halves; a screen shows no more.
    for _ in range(2):
        positions = np.flatnonzero(keep)
        line = np.interp(-cost, -cost[positions], score[positions])
        error = np.abs(score - line) / height * (200 / resolution if resolution < 200 else 1.0)
        error[positions] = -1.0
        worst = np.repeat(np.maximum.reduceat(error, positions), np.diff(positions, append=len(cost)))
        candidates = np.flatnonzero((error == worst) & (error > TOLERANCE * (400 / resolution) ** 2))
        # Of equally far points of a gap the first.
        _, first = np.unique(np.searchsorted(positions, candidates), return_index=True)
        keep[candidates[first]] = True
    return np.flatnonzero(keep)


def steps(values: NDArray[Any]) -> list[int | None]:
    """Rounded values, each as the difference to the last known one; None where there is no value.

    >>> steps(np.array([3.2, 4.9, float("nan"), 4.0]))
    [3, 2, None, -1]
    """
    rounded = np.rint(np.asarray(values, dtype=np.float64))
    present = ~np.isnan(rounded)
    known = rounded[present]
    coded = np.concatenate([known[:1], known[1:] - known[:-1]]).astype(np.int64).tolist()
    if present.all():
        return list(coded)
    left = iter(coded)
    return [next(left) if is_present else None for is_present in present]
