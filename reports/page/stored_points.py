"""What is stored at the matched operating points of a curve: exits by layer, rates, score and threshold."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.results.operating_point import OperatingPoint, operating_point
from exitbench.benchmarks.results.schema import Row
from exitbench.reports.page.grouped_columns import grouped_columns

CURVE_KEY = ("cache", "protocol", "signal", "parameters")
CurveKey = tuple[str, str, str, str]
RATES = ("premature_all", "delayed_all", "premature_reached", "delayed_reached")


def threshold_text(value: float) -> float | str | None:
    """A threshold for JSON: seven digits, infinity as a sign."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return float(f"{value:.7g}")


Stored = dict[CurveKey, dict[OperatingPoint, dict[str, Any]]]


def stored_rates(rows: Iterable[Row], score: str) -> Stored:
    """Rates over all layers, score and speed-up at every matched operating point: by curve, point and column.

    ``rows`` are those of a cache whose task is judged by the measure ``score``.
    """
    rates: Stored = {}
    for row in rows:
        if row.layer is not None or row.operating_point.kind != "speed_up" or math.isnan(row.value):
            continue
        curve_key = (row.cache, row.protocol, row.signal, row.parameters)
        if row.measure in ("premature_rate", "delayed_rate"):
            column = f"{row.measure.removesuffix('_rate')}_{row.decisions}"
        elif row.measure in ("speed_up", score) and not row.decisions:
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


ExitCounts = dict[str, list[int]]
"""Operating point, as the files write it, to how many samples exit at each layer."""


def exits_of_curves(histograms: pa.Table) -> dict[CurveKey, ExitCounts]:
    """The exit counts of every curve's stored operating points."""
    stored = grouped_columns(histograms, (*CURVE_KEY, "kind", "operating_point"))
    counts: dict[CurveKey, ExitCounts] = {}
    for (cache, protocol, signal, parameters, kind, point), rows in stored.rows_of.items():
        if kind == "exits":
            order = np.argsort(stored.numbers("layer", rows), kind="stable")
            of_layers = stored.numbers("count", rows)[order].astype(np.int64).tolist()
            counts.setdefault((cache, protocol, signal, parameters), {})[point] = of_layers
    return counts


def stored_points(exits: ExitCounts, rates: dict[OperatingPoint, dict[str, Any]]) -> list[dict[str, Any]]:
    """Exit counts, rates, and score with its interval at the stored matched operating points.

    A bound has a score there and no exits: without its point, the curve's nearest one would stand in the table.
    """
    counts_at = {operating_point(text): counts for text, counts in exits.items()}
    points: list[dict[str, Any]] = []
    for point in dict.fromkeys([*counts_at, *rates]):
        if point.kind != "speed_up":
            continue
        at_point = rates.get(point, {})
        points.append(
            {
                "at": point.number,
                "exits": counts_at.get(point),
                "rates": [at_point.get(name) for name in RATES],
                "speed_up": at_point.get("speed_up"),
                **{name: at_point.get(name) for name in ("score", "low", "high", "status", "threshold")},
            }
        )
    return points
