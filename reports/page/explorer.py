"""Data for the explorer: the exact curves, thinned to what a screen can show, as small whole numbers.

Where ``curves.parquet`` stores exits and rates with each operating point (protocols with a threshold axis), the
explorer can move freely. Where it does not (merged folds have no common threshold), only the curve moves; rates and
exit histograms then come from the stored operating points, and the page says so.

Columns are coded as differences to the previous entry, in units of :data:`SCORE_UNIT` and :data:`RATE_UNIT`; the
speed-up of an exact point is not stored, since the exit counts give it exactly.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.results.operating_point import FINAL, OperatingPoint, operating_point
from exitbench.reports.figures.looks import looks_of
from exitbench.reports.figures.style import colour, marker
from exitbench.reports.page.table_data import shown_text
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.protocol_order import cautious_first
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata

if TYPE_CHECKING:
    import pandas as pd

SCORE_UNIT, RATE_UNIT, COST_UNIT = 0.0001, 0.01, 0.00001
RESOLUTIONS = (400, 280, 200, 140, 100, 70, 50, 35)
"""Operating points kept per unit of relative cost, from fine to coarse; the first that fits the budget is taken."""
TOLERANCE = 0.0015
"""How far, as a share of the drawn height, a left-out point may lie from the line between its neighbours."""
DASHES: dict[object, list[int]] = {"-": [], "--": [0, 6, 3], "-.": [0, 7, 3, 2, 3], ":": [0, 2, 3]}
RATES = ("premature_all", "delayed_all", "premature_reached", "delayed_reached")


def explorer_data(run: FinishedRun, budget: int = 2_000_000) -> dict[str, Any]:
    """What the explorer of one run needs, as plain values; at most about ``budget`` characters of JSON."""
    data: dict[str, Any] = {}
    tasks = explorer_tasks(run)
    for resolution in RESOLUTIONS:
        data = {
            "units": {"score": SCORE_UNIT, "rate": RATE_UNIT, "cost": COST_UNIT},
            "resolution": resolution,
            "primary": run.suite["primary_speed_up"],
            "signals": signal_looks(run),
            "tasks": [task.data(resolution) for task in tasks],
        }
        if len(json.dumps(data, separators=(",", ":"), ensure_ascii=False)) <= budget:
            break
    return data


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
        return {**self.metadata, "curves": [metadata | points.data(resolution) for metadata, points in self.curves]}


def explorer_tasks(run: FinishedRun) -> list[ExplorerTask]:
    """One per cache and protocol: caches in the suite's order, the most cautious protocol of each first."""
    numbers = {line: number for number, line in enumerate(lines_of(run))}
    drawn = dict(list(run.curves.groupby(["cache", "protocol"], sort=False)))
    counted = dict(list(run.histograms[run.histograms["kind"] == "exits"].groupby(["cache", "protocol"], sort=False)))
    rates = stored_rates(run)
    named = named_thresholds(run)
    tasks = []
    for cache in run.caches:
        for protocol in cautious_first(run.protocols):
            curves = drawn.get((cache.name, protocol))
            if curves is None:
                continue
            exits = counted.get((cache.name, protocol))
            lines: list[tuple[dict[str, Any], Points]] = []
            strokes = dashes(run, cache, protocol)
            for (signal, parameters), curve in curves.groupby(["signal", "parameters"], sort=False):
                number = numbers.get((str(signal), str(parameters)))
                if number is None:
                    continue
                curve_key = (cache.name, protocol, str(signal), str(parameters))
                points = points_of(curve, named.get(curve_key, []))
                if points is not None:
                    dash = {"dash": strokes[curve_key[2:]]} if curve_key[2:] in strokes else {}
                    stored = stored_points(curve_key, exits, rates)
                    lines.append(({"signal": number, **dash, **({"stored": stored} if stored else {})}, points))
            metadata = {
                "label": shown_text(task_with_model(run, cache)),
                "cache": cache.name,
                "protocol": protocol,
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


def points_of(curve: pd.DataFrame, named: Sequence[float]) -> Points | None:
    """One signal's curve; None when it has no point."""
    points = curve[curve["kind"] == "point"]
    if points.empty:
        return None
    points = points.sort_values("cost", ascending=False, kind="stable")
    cost, score, thresholds, *rates = (
        points[name].to_numpy(np.float64) for name in ("cost", "score", "threshold", *RATES)
    )
    exact = bool(points["exits"].notna().all())
    band = curve[curve["kind"] == "band"].sort_values("cost", ascending=False, kind="stable")
    edges = {
        name: steps(band[name].to_numpy(np.float64) / unit)
        for name, unit in (("cost", COST_UNIT), ("low", SCORE_UNIT), ("high", SCORE_UNIT))
    }
    return Points(
        cost=cost,
        score=score,
        thresholds=thresholds,
        named=np.isin(thresholds, named),
        exits=np.array(points["exits"].tolist(), dtype=np.int64) if exact else None,
        rates=tuple(rates),
        band={} if band.empty else edges,
    )


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
        for start, stop in itertools.pairwise(positions):
            if stop - start > 1:
                worst = start + 1 + int(np.argmax(error[start + 1 : stop]))
                keep[worst] |= error[worst] > TOLERANCE * (400 / resolution) ** 2
    return np.flatnonzero(keep)


def steps(values: NDArray[Any]) -> list[int | None]:
    """Rounded values, each as the difference to the last known one; None where there is no value.

    >>> steps(np.array([3.2, 4.9, float("nan"), 4.0]))
    [3, 2, None, -1]
    """
    rounded = np.rint(np.asarray(values, dtype=np.float64))
    present = ~np.isnan(rounded)
    coded = np.diff(rounded[present], prepend=0).astype(np.int64).tolist()
    if present.all():
        return list(coded)
    left = iter(coded)
    return [next(left) if is_present else None for is_present in present]


def threshold_text(value: float) -> float | str | None:
    """A threshold for JSON: seven digits, infinity as a sign."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return float(f"{value:.7g}")


Stored = dict[tuple[str, str, str, str], dict[OperatingPoint, dict[str, Any]]]


def stored_rates(run: FinishedRun) -> Stored:
    """Rates over all layers, score and speed-up at every matched operating point: by curve, point and column."""
    score_measures = {cache.name: cache.measure for cache in run.caches}
    rates: Stored = {}
    for row in run.rows.values():
        if row.layer is not None or row.operating_point.kind != "speed_up" or math.isnan(row.value):
            continue
        curve_key = (row.cache, row.protocol, row.signal, row.parameters)
        if row.measure in ("premature_rate", "delayed_rate"):
            column = f"{row.measure.removesuffix('_rate')}_{row.decisions}"
        elif row.measure in ("speed_up", score_measures.get(row.cache)) and not row.decisions:
            column = "speed_up" if row.measure == "speed_up" else "score"
        else:
            continue
        at_point = rates.setdefault(curve_key, {}).setdefault(row.operating_point, {})
        at_point[column] = round(row.value, 4)
        if column == "score":
            ends = {name: end for name, end in (("low", row.low), ("high", row.high)) if end is not None}
            at_point |= {name: round(end, 3) for name, end in ends.items() if not math.isnan(end)}
            at_point |= {
                "status": row.status,
                "threshold": threshold_text(math.nan if row.threshold is None else row.threshold),
            }
    return rates


def stored_points(
    curve_key: tuple[str, str, str, str], exits: pd.DataFrame | None, rates: Stored
) -> list[dict[str, Any]]:
    """Exit counts, rates, and score with its interval at the stored matched operating points."""
    if exits is None:
        return []
    counts_of_signal = exits[(exits["signal"] == curve_key[2]) & (exits["parameters"] == curve_key[3])]
    points: list[dict[str, Any]] = []
    for text, group in counts_of_signal.groupby("operating_point", sort=False):
        point = operating_point(str(text))
        if point.kind != "speed_up":
            continue
        rates_at_point = rates.get(curve_key, {}).get(point, {})
        counts: Iterable[Any] = group.sort_values("layer")["count"]
        points.append(
            {
                "at": point.number,
                "exits": [int(count) for count in counts],
                "rates": [rates_at_point.get(name) for name in RATES],
                "speed_up": rates_at_point.get("speed_up"),
                **{name: rates_at_point.get(name) for name in ("score", "low", "high", "status", "threshold")},
            }
        )
    return points
