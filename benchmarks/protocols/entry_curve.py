"""The exact in-sample curve of an entry: that of its one configuration, or pieces of those chosen cost by cost.

A grid's curve is what its tables read: at each cost the configuration that was chosen there. A piece holds the
operating points of one configuration around the costs it was chosen for, and every point that a table names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.suites.questions import band_costs


@dataclass(frozen=True, eq=False)
class CurvePiece:
    """Some operating ``points`` of one configuration's ``curve``, ascending; ``named`` are those that a table reads."""

    curve: Curve
    points: NDArray[np.int64]
    named: NDArray[np.int64]


def in_sample_pieces(curves: Sequence[Curve], merged: MergedParts) -> list[CurvePiece]:
    """The pieces of an entry whose configurations have these exact ``curves``; one that is never chosen has none."""
    costs = np.array(band_costs(curves[0].outcomes.cheapest))
    step = costs[1] - costs[0] or 1.0  # where all layers cost the same, so do all of these
    chosen = merged.choices.along_costs.parts[0]
    named: list[list[float]] = [[] for _ in curves]
    for point in merged.operating_points:
        value = merged.at(point)
        if point.kind != "tau" and not np.isnan(value.threshold):
            named[int(merged.choices.at(point).parts[0])].append(value.threshold)
    pieces = []
    for number, (curve, thresholds) in enumerate(zip(curves, named, strict=True)):
        # Costs are evenly spaced, so the nearest one is found by rounding.
        nearest = np.rint((curve.relative_cost - costs[0]) / step).astype(np.int64)
        read = np.unique(curve.points_at(np.array(thresholds, dtype=np.float64)))
        is_kept = chosen[nearest] == number
        is_kept[read] = True
        points = np.flatnonzero(is_kept)
        if len(points):
            pieces.append(CurvePiece(curve, points, read))
    return pieces


def rising_curve(pieces: Sequence[CurvePiece], measure: Measure) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cost and score of all pieces together, cost rising."""
    cost = np.concatenate([piece.curve.relative_cost[piece.points][::-1] for piece in pieces])
    score = np.concatenate([piece.curve.score(measure)[piece.points][::-1] for piece in pieces])
    order = np.argsort(cost, kind="stable")
    return cost[order], score[order]
