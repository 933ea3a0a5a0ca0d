"""What figures and explorers are drawn from: thinned curves with bands, histograms, risk against coverage.

Curves keep one operating point per 1/2000 of relative cost, the two ends, and every point that a reading
names; between them the exact curve moves by less than a screen can show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import rates_everywhere
from exitbench.benchmarks.protocols.merged_parts import Merged
from exitbench.benchmarks.replay.bounds import random_curve
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import columns_table, table_of
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.scoring.score_store import Samples

RESOLUTION = 2000
COVERAGES = 200
BINS = 40


def thinned(curve: Curve, named: Sequence[float]) -> NDArray[np.int64]:
    """The operating points to keep, ascending; ``named`` are thresholds whose points must be among them."""
    cell = np.floor(curve.relative_cost * RESOLUTION)
    first = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]]))
    points = curve.points_at(np.array([one for one in named if not np.isnan(one)], dtype=np.float64))
    return np.unique(np.concatenate([first, points, [0, curve.points - 1]])).astype(np.int64)


def exit_counts(curve: Curve, points: NDArray[np.int64]) -> NDArray[np.int32]:
    """How many samples leave at each layer at some operating points, [points, layers]."""
    events = curve.events
    marks = events.ends[points]
    cell = np.searchsorted(marks, np.arange(len(events.samples)), side="right")
    change = np.zeros((len(marks) + 1, curve.depth), dtype=np.int64)
    np.add.at(change, (cell, events.earlier - 1), 1)
    np.add.at(change, (cell, events.later - 1), -1)
    change[0, -1] += curve.outcomes.samples
    return np.cumsum(change, axis=0)[:-1].astype(np.int32)


def exact_points(place: Mapping[str, Any], curve: Curve, measure: Measure, named: Sequence[float]) -> pa.Table:
    """The thinned exact curve as rows of ``curves.parquet``."""
    points = thinned(curve, named)
    every, reached = rates_everywhere(curve, "all"), rates_everywhere(curve, "reached")
    return columns_table(
        "curves",
        {
            **place,
            "kind": "point",
            "threshold": curve.thresholds[points],
            "cost": curve.relative_cost[points],
            "speed_up": curve.speed_up[points],
            "score": curve.score(measure)[points],
            "premature_all": every.premature[points],
            "delayed_all": every.delayed[points],
            "premature_reached": reached.premature[points],
            "delayed_reached": reached.delayed[points],
            "exits": list(exit_counts(curve, points)),
        },
        len(points),
    )


def band_rows(place: Mapping[str, Any], merged: Merged, measure: Measure, *, points: bool) -> pa.Table:
    """The band at fixed costs; with ``points`` also the curve itself there, for protocols without a threshold axis."""
    tally, resampled = merged.band
    kept = merged.reaches
    if not kept.any():  # a signal with a single operating point has no band
        return empty("curves")
    scores = resampled.score(measure)[kept]
    # Both give the same; the one that looks for NaN goes row by row.
    quantile = np.nanquantile if np.isnan(scores).any() else np.quantile
    low, high = quantile(scores, [0.025, 0.975], axis=1)
    columns = {
        **place,
        "cost": tally.relative_cost[kept][::-1],
        "speed_up": tally.speed_up[kept][::-1],
        "score": tally.score(measure)[kept][::-1],
    }
    count = int(kept.sum())
    band = columns_table("curves", {**columns, "kind": "band", "low": low[::-1], "high": high[::-1]}, count)
    if not points:
        return band
    return pa.concat_tables([columns_table("curves", {**columns, "kind": "point"}, count), band])


def coin_rows(place: Mapping[str, Any], samples: Samples) -> pa.Table:
    """The expected trade-off of a coin, as a curve of the bound ``random``."""
    tally = random_curve(samples.outcomes)
    columns = {
        **place,
        "kind": "point",
        "cost": tally.relative_cost,
        "speed_up": tally.speed_up,
        "score": tally.score(samples.measure),
    }
    return columns_table("curves", columns, len(tally.relative_cost))


def sample_rows(
    place: Mapping[str, Any], point: OperatingPoint, exits: NDArray[np.int64], samples: Samples
) -> pa.Table:
    """Exit layer, answer and right or wrong of every sample at one reading."""
    said = samples.predictions[exits - 1, np.arange(samples.size)]
    return columns_table(
        "samples",
        {
            **place,
            "operating_point": point.text,
            "id": samples.ids,
            "exit_layer": exits.astype(np.int32),
            "prediction": said.astype(np.int32),
            "label": samples.labels.astype(np.int32),
            "right": said == samples.labels,
        },
        samples.size,
    )


def exit_histogram_rows(
    place: Mapping[str, Any], point: OperatingPoint, exits: NDArray[np.int64], samples: Samples
) -> pa.Table:
    """How many samples leave at each layer at one reading, right and wrong."""
    right = samples.outcomes.correct[exits - 1, np.arange(samples.size)]
    layers = np.arange(1, samples.depth + 1)
    rights, wrongs = (np.bincount(exits[kind], minlength=samples.depth + 1)[1:] for kind in (right, ~right))
    columns = {**place, "kind": "exits", "operating_point": point.text, "layer": layers.astype(np.int32)}
    return columns_table(
        "histograms", {**columns, "right": rights, "wrong": wrongs, "count": rights + wrongs}, len(layers)
    )


def score_histogram_rows(
    place: Mapping[str, Any], values: NDArray[np.float64], right: NDArray[np.bool_], layer: int
) -> pa.Table:
    """The scores of one layer in equal bins from the smallest to the largest, right and wrong predictions apart."""
    low, high = float(values.min()), float(values.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    rights, wrongs = (np.histogram(values[kind], edges)[0] for kind in (right, ~right))
    columns = {**place, "kind": "scores", "operating_point": "", "layer": layer, "low": edges[:-1], "high": edges[1:]}
    return columns_table("histograms", {**columns, "right": rights, "wrong": wrongs, "count": rights + wrongs}, BINS)


def risk_coverage_rows(
    place: Mapping[str, Any],
    certainty: NDArray[np.float64],
    right: NDArray[np.bool_],
    folds: NDArray[np.int64] | None,
    layer: int,
) -> pa.Table:
    """Risk in percent against coverage at one layer; with folds, their mean weighted by size."""
    parts = [np.arange(len(right))] if folds is None else [np.flatnonzero(folds == one) for one in np.unique(folds)]
    coverages = np.unique(np.ceil(np.linspace(1 / COVERAGES, 1, COVERAGES) * len(right))) / len(right)
    risk = np.zeros(len(coverages))
    for rows in parts:
        own = risk_at(certainty[rows], ~right[rows])
        taken = np.maximum(np.ceil(coverages * len(rows) - 1e-9).astype(np.int64), 1)
        risk += own[taken - 1] * len(rows) / len(right)
    columns = {**place, "layer": layer, "coverage": coverages, "risk": 100 * risk}
    return columns_table("risk_coverage", columns, len(coverages))


def risk_at(certainty: NDArray[np.float64], wrong: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The expected error rate among the k most certain samples, k = 1..n, [samples]; tied samples in random order."""
    order = np.argsort(-certainty, kind="stable")
    ranked = certainty[order]
    group = np.concatenate([[0], np.cumsum(ranked[1:] != ranked[:-1])])
    share = np.bincount(group, weights=wrong[order].astype(np.float64)) / np.bincount(group)
    return np.asarray(np.cumsum(share[group]) / np.arange(1, len(order) + 1))


def empty(name: str) -> pa.Table:
    """A table of the named file without rows."""
    return table_of(name, [])
