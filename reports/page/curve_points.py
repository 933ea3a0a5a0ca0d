"""One curve as the page keeps it: thinned to what a screen can show, as small whole numbers.

Columns are coded as differences to the previous entry, in units of :data:`SCORE_UNIT` and :data:`RATE_UNIT`; the
speed-up of an exact point is not stored, since the exit counts give it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.reports.page.grouped_columns import GroupedColumns
from exitbench.reports.page.stored_points import RATES, CurveKey, threshold_text

SCORE_UNIT, RATE_UNIT, COST_UNIT = 0.0001, 0.01, 0.00001
TOLERANCE = 0.0015
"""How far, as a share of the drawn height, a left-out point may lie from the line between its neighbours."""


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
