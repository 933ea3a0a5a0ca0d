"""Readings off a trade-off curve: at a threshold, a speed-up, a task score, a loss; and the area below it.

Every reading is a real operating point, printed with the threshold that realises it and the speed-up it
really has. Where the wanted speed-up is missed by more than 2% the reading is ``unmatched``, and the value at
exactly that speed-up stands beside it: the expected counts when each sample is treated by a coin as at the one
or the other neighbouring point, with the coin weighted so that the mean exit layer comes out right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.status import Status
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.errors import InputError

MATCH_TOLERANCE = 0.02
"""A reading counts as being at speed-up s when it lies within this share of s."""

ROUNDING = 1e-9
"""Scores in percent that differ by less than this are equal; counts decide, not the last bit."""


@dataclass(frozen=True, eq=False)
class Reading:
    """One operating point, or none (``point`` -1, ``undefined``).

    ``randomised`` is the tally at exactly the speed-up that was asked for, where the curve reaches it.
    """

    point: int
    threshold: float
    tally: Tally
    status: Status = "ok"
    reason: str = ""
    randomised: Tally | None = None

    @property
    def speed_up(self) -> float:
        return float(self.tally.speed_up)

    def score(self, measure: Measure) -> float:
        """The task score in percent; NaN where the reading is undefined."""
        return float(self.tally.score(measure))


def _reading(
    curve: Curve, point: int, status: Status = "ok", reason: str = "", randomised: Tally | None = None
) -> Reading:
    return Reading(point, float(curve.thresholds[point]), curve.tally[point], status, reason, randomised)


def _nothing(curve: Curve, reason: str) -> Reading:
    nan = np.asarray(np.nan)
    empty = Tally(curve.depth, nan, nan, nan, *([nan] * 3 if curve.outcomes.positive is not None else []))
    return Reading(-1, float("nan"), empty, "undefined", reason)


def at_threshold(curve: Curve, threshold: float) -> Reading:
    """The reading at a threshold the user gives; its ``threshold`` is the one given."""
    point = int(curve.points_at(threshold))
    return Reading(point, float(threshold), curve.tally[point])


def nearest_point(curve: Curve, speed_up: float) -> int:
    """The operating point whose speed-up is nearest; of two equally near, the faster one.

    Of several points with that very speed-up (integers only), the first: the most cautious.
    """
    return int(nearest_points(curve, np.array([speed_up]))[0])


def nearest_points(curve: Curve, speed_ups: NDArray[np.float64]) -> NDArray[np.int64]:
    """The same for many speed-ups at once, [wanted]."""
    if not (speed_ups > 0).all():
        raise InputError(f"expected a speed-up above 0, found {speed_ups[~(speed_ups > 0)][0]}")
    speeds = curve.speed_up
    right = np.minimum(np.searchsorted(speeds, speed_ups), curve.points - 1)
    left = np.maximum(right - 1, 0)
    best = np.where(speed_ups - speeds[left] < speeds[right] - speed_ups, left, right)
    return np.searchsorted(speeds, speeds[best]).astype(np.int64)


def matched(curve: Curve, speed_up: float, tolerance: float = MATCH_TOLERANCE) -> Reading:
    """The operating point nearest to a speed-up; ``unmatched`` when it is more than ``tolerance`` away."""
    point = nearest_point(curve, speed_up)
    found = float(curve.speed_up[point])
    exactly = randomised(curve, speed_up)
    if abs(found - speed_up) <= (tolerance + ROUNDING) * speed_up:
        return _reading(curve, point, randomised=exactly)
    beyond = (
        f", and the signal only reaches {curve.speed_up[0]:.2f}x to {curve.speed_up[-1]:.2f}x"
        if exactly is None
        else ""
    )
    reason = f"the nearest operating point is at {found:.2f}x, more than {tolerance:.0%} from {speed_up:.2f}x{beyond}"
    return _reading(curve, point, "unmatched", reason, exactly)


def randomised(curve: Curve, speed_up: float) -> Tally | None:
    """The expected tally at exactly this speed-up, between the two neighbouring points; ``None`` out of range."""
    speeds = curve.speed_up
    if not speeds[0] <= speed_up <= speeds[-1]:
        return None
    right = int(np.searchsorted(speeds, speed_up))
    here = curve.tally[right]
    if speeds[right] == speed_up:
        return here
    before = curve.tally[right - 1]
    wanted = curve.depth / speed_up
    share = (before.mean_exit_layer - wanted) / (before.mean_exit_layer - here.mean_exit_layer)
    return before.towards(here, share)


def for_score(curve: Curve, score: float, measure: Measure) -> Reading:
    """The fastest operating point that still has at least this task score (percent)."""
    enough = np.flatnonzero(curve.score(measure) >= score - ROUNDING)
    if not len(enough):
        best = float(curve.score(measure).max())
        return _nothing(curve, f"no operating point reaches {score:.2f}; the best is {best:.2f}")
    return _reading(curve, int(enough[-1]))


def within_loss(curve: Curve, loss: float, measure: Measure) -> Reading:
    """The largest speed-up within a loss (points) against the last layer.

    Coming from full depth, the last point before the score first falls more than ``loss`` below the last
    layer's; what the curve does after that does not count, for nobody would tune through a dip.
    """
    if not loss >= 0:
        raise InputError(f"expected a loss of at least 0 points, found {loss}")
    floor = float(curve.final.score(measure)) - loss - ROUNDING
    fallen = np.flatnonzero(curve.score(measure) < floor)
    point = (int(fallen[0]) if len(fallen) else curve.points) - 1
    if point < 0:
        return _nothing(curve, f"already the most cautious threshold loses more than {loss:g} points")
    return _reading(curve, point)


def common_cost_range(curves: Sequence[Curve]) -> tuple[float, float] | None:
    """The relative costs that all the curves reach, or ``None`` when there are none."""
    ranges = [curve.cost_range for curve in curves]
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    return (low, high) if low < high else None


def area(curve: Curve, measure: Measure, low: float, high: float) -> float:
    """The area under task score (percent) against relative cost, straight between points, from ``low`` to ``high``."""
    cheapest, dearest = curve.cost_range
    if not cheapest - ROUNDING <= low <= high <= dearest + ROUNDING:
        raise InputError(
            f"expected a cost range within the curve's {cheapest:.4f}..{dearest:.4f}, found {low:.4f}..{high:.4f}"
        )
    return area_below(curve.relative_cost[::-1], curve.score(measure)[::-1], low, high)


def area_below(cost: NDArray[np.float64], score: NDArray[np.float64], low: float, high: float) -> float:
    """The integral of a polyline with rising ``cost`` [points] from ``low`` to ``high``."""
    inner = (cost > low) & (cost < high)
    x = np.concatenate([[low], cost[inner], [high]])
    y = np.concatenate([[np.interp(low, cost, score)], score[inner], [np.interp(high, cost, score)]])
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def areas_below(
    costs: NDArray[np.float64], scores: NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """The area below each of many polylines [points, resamples] from ``low`` to ``high``, level beyond their ends."""
    order = np.argsort(costs, axis=0, kind="stable")
    x, y = np.take_along_axis(costs, order, axis=0), np.take_along_axis(scores, order, axis=0)
    width = np.diff(x, axis=0)
    slope = np.divide(np.diff(y, axis=0), width, out=np.zeros_like(width), where=width > 0)
    left, right = np.clip(x[:-1], low, high), np.clip(x[1:], low, high)
    middle = y[:-1] + ((left + right) / 2 - x[:-1]) * slope
    ends = np.maximum(np.minimum(x[0], high) - low, 0) * y[0] + np.maximum(high - np.maximum(x[-1], low), 0) * y[-1]
    return np.asarray(((right - left) * middle).sum(axis=0) + ends)
