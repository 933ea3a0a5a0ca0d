"""Figure data: thinned curves with bands, histograms, risk against coverage, and every sample's exit.

Curves keep one operating point per 1/2000 of relative cost, the two ends, and every point that a result names; between
them the exact curve moves by less than a screen can show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.measures.exit_rates import DECISIONS, rates_at_points
from exitbench.benchmarks.measures.risk_coverage import risk_at
from exitbench.benchmarks.protocols.entry_curve import CurvePiece
from exitbench.benchmarks.protocols.mean_curve import mean_curve
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.splits import fold_numbers
from exitbench.benchmarks.replay.bounds import fixed_curve, random_curve
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import ENTRY_COLUMNS, Row, columns_table, table_of
from exitbench.benchmarks.run.rows.sample_readings import SampleReadings
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.suites.questions import layers_at

RESOLUTION = 2000
COVERAGES = 200
BINS = 40
FIGURE_TABLES = ("curves", "samples", "histograms", "risk_coverage")
"""The result files that hold figure data."""


class FigureData:
    """Collects the figure data of one signal's entries, for those of ``wanted`` that are figure data."""

    def __init__(self, samples: Samples, layers: Sequence[int | Fraction], wanted: Collection[str]) -> None:
        self.samples = samples
        self.layers = layers_at(layers, samples.depth)
        self._tables: dict[str, list[pa.Table]] = {
            name: [empty_table(name)] for name in FIGURE_TABLES if name in wanted
        }
        self._readings = SampleReadings(samples)

    def tables(self) -> dict[str, Iterable[pa.Table]]:
        """The wanted tables by the name of their file, each in parts that may be made only when they are asked for."""
        tables: dict[str, Iterable[pa.Table]] = {
            name: [pa.concat_tables(parts)] for name, parts in self._tables.items()
        }
        return {**tables, "samples": self._readings} if "samples" in tables else tables

    def add(
        self,
        blank: Row,
        merged: MergedParts,
        points: Sequence[OperatingPoint],
        *,
        sign: int,
        pieces: Sequence[CurvePiece],
    ) -> None:
        """Take in one entry; ``pieces`` make up its exact curve, if any, ``sign`` turns certainty into its score."""
        if not self._tables:
            return
        columns = {name: getattr(blank, name) for name in ENTRY_COLUMNS}
        values = {point: merged.at(point) for point in points if point.kind != "tau"}
        for point, value in values.items():
            if value.exits is not None:
                if "samples" in self._tables:
                    self._readings.add(columns, point, value.exits)
                self._keep("histograms", exit_histogram_rows(columns, point, value.exits, self.samples))
        measure = self.samples.measure
        for piece in pieces:
            self._keep("curves", exact_points(columns, piece, measure, thresholds=len(pieces) == 1))
        self._keep("curves", band_rows(columns, merged, measure, points=not pieces))
        folds = fold_numbers(merged.parts)
        for layer in self.layers:
            certainty, right = merged.certainty[layer - 1], self.samples.outcomes.correct[layer - 1]
            if not np.isnan(certainty[0]):
                self._keep("histograms", score_histogram_rows(columns, sign * certainty, right, layer))
                self._keep("risk_coverage", risk_coverage_rows(columns, certainty, right, folds, layer))

    def _keep(self, name: str, table: pa.Table) -> None:
        if name in self._tables:
            self._tables[name].append(table)


def kept_points(piece: CurvePiece) -> NDArray[np.int64]:
    """The operating points of a piece to keep, ascending: those that tables name are among them."""
    cell = np.floor(piece.curve.relative_cost[piece.points] * RESOLUTION)
    first = piece.points[np.concatenate([[True], cell[1:] != cell[:-1]])]
    return np.unique(np.concatenate([first, piece.named, piece.points[[0, -1]]])).astype(np.int64)


def exit_counts(curve: Curve, points: NDArray[np.int64]) -> NDArray[np.int32]:
    """How many samples exit at each layer at some operating points, [points, layers]."""
    events = curve.events
    event_indices = events.ends[points]
    change = np.zeros((len(event_indices) + 1, curve.depth), dtype=np.int64)
    for some in element_blocks(len(events.samples)):
        cell = np.searchsorted(event_indices, np.arange(some.start, some.stop), side="right")
        np.add.at(change, (cell, events.earlier[some] - 1), 1)
        np.add.at(change, (cell, events.later[some] - 1), -1)
    change[0, -1] += curve.outcomes.samples
    return np.cumsum(change, axis=0)[:-1].astype(np.int32)


def exact_points(columns: Mapping[str, Any], piece: CurvePiece, measure: Measure, *, thresholds: bool) -> pa.Table:
    """A thinned piece of an exact curve as rows of ``curves.parquet``.

    Without ``thresholds`` where the pieces belong to several configurations: a threshold alone would say nothing.
    """
    curve, points = piece.curve, kept_points(piece)
    every, reached = (rates_at_points(curve, points, decisions) for decisions in DECISIONS)
    return columns_table(
        "curves",
        {
            **columns,
            "kind": "point",
            "threshold": curve.thresholds_at(points) if thresholds else None,
            "cost": curve.relative_cost_at(points),
            "speed_up": curve.speed_up_at(points),
            "score": curve.tally[points].score(measure),
            "premature_all": every.premature,
            "delayed_all": every.delayed,
            "premature_reached": reached.premature,
            "delayed_reached": reached.delayed,
            "exits": list(exit_counts(curve, points)),
        },
        len(points),
    )


def band_rows(columns: Mapping[str, Any], merged: MergedParts, measure: Measure, *, points: bool) -> pa.Table:
    """The band at fixed costs; with ``points`` also the curve itself there, for protocols without a threshold axis."""
    curve = mean_curve(merged, measure)
    if curve is None:
        return empty_table("curves")
    values = {
        **columns,
        "cost": curve.cost[::-1],
        "speed_up": curve.speed_up[::-1],
        "score": curve.score[::-1],
    }
    count = len(curve.cost)
    band = columns_table("curves", {**values, "kind": "band", "low": curve.low[::-1], "high": curve.high[::-1]}, count)
    if not points:
        return band
    return pa.concat_tables([columns_table("curves", {**values, "kind": "point"}, count), band])


def random_exit_rows(columns: Mapping[str, Any], samples: Samples) -> pa.Table:
    """The expected trade-off of exiting at random, as a curve of the bound ``random``."""
    return _bound_rows(columns, random_curve(samples.outcomes), samples)


def fixed_layer_rows(columns: Mapping[str, Any], samples: Samples) -> pa.Table:
    """The trade-off of fixed layers, randomised between two neighbours, as a curve of the bound ``fixed``."""
    return _bound_rows(columns, fixed_curve(samples.outcomes), samples)


def _bound_rows(columns: Mapping[str, Any], tally: Tally, samples: Samples) -> pa.Table:
    values = {
        **columns,
        "kind": "point",
        "cost": tally.relative_cost,
        "speed_up": tally.speed_up,
        "score": tally.score(samples.measure),
    }
    return columns_table("curves", values, len(tally.relative_cost))


def exit_histogram_rows(
    columns: Mapping[str, Any], point: OperatingPoint, exits: NDArray[np.int64], samples: Samples
) -> pa.Table:
    """How many samples exit at each layer at one operating point, right and wrong."""
    right = samples.outcomes.correct[exits - 1, arange(samples.size)]
    layers = np.arange(1, samples.depth + 1)
    rights, wrongs = (np.bincount(exits[kind], minlength=samples.depth + 1)[1:] for kind in (right, ~right))
    values = {**columns, "kind": "exits", "operating_point": point.text, "layer": layers.astype(np.int32)}
    return columns_table(
        "histograms", {**values, "right": rights, "wrong": wrongs, "count": rights + wrongs}, len(layers)
    )


def score_histogram_rows(
    columns: Mapping[str, Any], values: NDArray[np.float64], right: NDArray[np.bool_], layer: int
) -> pa.Table:
    """The scores of one layer in equal bins from the smallest to the largest, right and wrong predictions apart."""
    low, high = float(values.min()), float(values.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    rights, wrongs = (np.histogram(values[kind], edges)[0] for kind in (right, ~right))
    bins = {**columns, "kind": "scores", "operating_point": "", "layer": layer, "low": edges[:-1], "high": edges[1:]}
    return columns_table("histograms", {**bins, "right": rights, "wrong": wrongs, "count": rights + wrongs}, BINS)


def risk_coverage_rows(
    columns: Mapping[str, Any],
    certainty: NDArray[np.float64],
    right: NDArray[np.bool_],
    folds: NDArray[np.int64] | None,
    layer: int,
) -> pa.Table:
    """Risk in percent against coverage at one layer; with folds, their mean weighted by size."""
    parts = [arange(len(right))] if folds is None else [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    coverages = np.unique(np.ceil(np.linspace(1 / COVERAGES, 1, COVERAGES) * len(right))) / len(right)
    risk = np.zeros(len(coverages))
    for rows in parts:
        fold_risk = risk_at(certainty[rows], ~right[rows])
        taken = np.maximum(np.ceil(coverages * len(rows) - 1e-9).astype(np.int64), 1)
        risk += fold_risk[taken - 1] * len(rows) / len(right)
    values = {**columns, "layer": layer, "coverage": coverages, "risk": 100 * risk}
    return columns_table("risk_coverage", values, len(coverages))


def empty_table(name: str) -> pa.Table:
    """A table of the named file without rows."""
    return table_of(name, [])
