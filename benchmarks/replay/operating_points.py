"""Operating points on a trade-off curve: at a threshold, near a speed-up, within a loss; and the area below the curve.

Each is a real operating point, reported with the threshold that realises it and the speed-up it really has. Where
the target speed-up is missed by more than 2% it is ``unmatched``, and has the value at exactly that speed-up too:
the expected counts of a policy that randomises, sample by sample, between the two neighbouring points so that the mean
cost comes out right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.status import Status
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.errors import InputError

MATCH_TOLERANCE = 0.02
"""An operating point counts as being at speed-up s when it lies within this share of s."""

ROUNDING = 1e-9
"""Scores in percent that differ by less than this are equal; counts decide, not the last bit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PointValue:
    """What a signal gives at one operating point; an ``undefined`` one has NaN throughout.

    ``threshold`` realises it, and is NaN where several parts have their own. ``randomised`` holds the sums at exactly
    the speed-up that was asked for, where the curve reaches it.
    """

    threshold: float
    tally: Tally
    status: Status = "ok"
    reason: str = ""
    randomised: Tally | None = None

    @property
    def speed_up(self) -> float:
        return float(self.tally.speed_up)

    def score(self, measure: Measure) -> float:
        """The task score in percent; NaN where the value is undefined."""
        return float(self.tally.score(measure))


def undefined_point(curve: Curve, reason: str) -> PointValue:
    """No operating point answers the question."""
    nan = np.asarray(np.nan)
    cost = None if curve.outcomes.costs is None else nan
    f1 = None if curve.outcomes.actual_positive is None else nan
    empty = Tally(curve.depth, nan, nan, nan, f1, f1, f1, cost)
    return PointValue(threshold=float("nan"), tally=empty, status="undefined", reason=reason)


def value_at_threshold(curve: Curve, threshold: float) -> PointValue:
    """The operating point of a user's threshold; refuses one that the signal cannot have."""
    point = int(curve.points_at(threshold))
    return PointValue(threshold=float(threshold), tally=curve.tally[point])


def nearest_point(curve: Curve, speed_up: float) -> int:
    """The operating point whose speed-up is nearest; of two equally near, the faster one.

    Of several points with that very speed-up (integers only), the first: the most cautious.
    """
    return int(nearest_points(curve, np.array([speed_up]))[0])


def nearest_points(curve: Curve, speed_ups: NDArray[np.float64]) -> NDArray[np.int64]:
    """The same for many speed-ups at once, [speed_ups]."""
    if not (speed_ups > 0).all():
        raise InputError(f"expected a speed-up above 0, found {speed_ups[~(speed_ups > 0)][0]}")
    right = np.minimum(curve.first_as_fast(speed_ups), curve.points - 1)
    left = np.maximum(right - 1, 0)
    before, after = curve.speed_up_at(left), curve.speed_up_at(right)
    return curve.first_as_fast(np.where(speed_ups - before < after - speed_ups, before, after))


def matched(
    curve: Curve, speed_up: float, tolerance: float = MATCH_TOLERANCE, *, point: int | None = None
) -> PointValue:
    """The operating point nearest to a speed-up; ``unmatched`` when it is more than ``tolerance`` away.

    ``point`` is that of :func:`nearest_point`, where the caller has it already.
    """
    point = nearest_point(curve, speed_up) if point is None else point
    tally, exactly = curve.tally[point], randomised(curve, speed_up)
    threshold, realised = threshold_at(curve, point), float(tally.speed_up)
    if abs(realised - speed_up) <= (tolerance + ROUNDING) * speed_up:
        return PointValue(threshold=threshold, tally=tally, randomised=exactly)
    slowest, fastest = curve.speed_up_at(np.array([0, curve.points - 1]))
    reach = f", and the signal only reaches {slowest:.2f}x to {fastest:.2f}x"
    reason = (
        f"the nearest operating point is at {realised:.2f}x, more than {tolerance:.0%} from {speed_up:.2f}x"
        f"{reach if exactly is None else ''}"
    )
    return PointValue(threshold=threshold, tally=tally, status="unmatched", reason=reason, randomised=exactly)


def randomised(curve: Curve, speed_up: float) -> Tally | None:
    """The expected tally at exactly this speed-up, between the two neighbouring points; ``None`` out of range."""
    slowest, fastest = curve.speed_up_at(np.array([0, curve.points - 1]))
    if not slowest <= speed_up <= fastest:
        return None
    right = int(curve.first_as_fast(speed_up))
    here = curve.tally[right]
    if here.speed_up == speed_up:
        return here
    before = curve.tally[right - 1]
    target = here.full_cost / speed_up
    share = (before.mean_paid - target) / (before.mean_paid - here.mean_paid)
    return before.towards(here, share)


def value_within_loss(curve: Curve, loss: float, measure: Measure) -> PointValue:
    """The largest speed-up within a loss (points) against the last layer.

    Coming from full depth, the last point before the score first falls more than ``loss`` below the last
    layer's; what the curve does after that does not count, for nobody would tune through a dip.
    """
    if not loss >= 0:
        raise InputError(f"expected a loss of at least 0 points, found {loss}")
    floor = float(curve.final.score(measure)) - loss - ROUNDING
    point = curve.first_below(measure, floor) - 1
    if point < 0:
        return undefined_point(curve, f"already the most cautious threshold loses more than {loss:g} points")
    return PointValue(threshold=threshold_at(curve, point), tally=curve.tally[point])


def threshold_at(curve: Curve, point: int) -> float:
    """The threshold of one operating point."""
    return float(curve.thresholds_at(np.array(point)))


def area_below(cost: NDArray[np.float64], score: NDArray[np.float64], low: float, high: float) -> float:
    """The integral of a polyline with rising ``cost`` [points] from ``low`` to ``high``."""
    inner = (cost > low) & (cost < high)
    x = np.concatenate([[low], cost[inner], [high]])
    y = np.concatenate([[np.interp(low, cost, score)], score[inner], [np.interp(high, cost, score)]])
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def mean_below(cost: NDArray[np.float64], score: NDArray[np.float64], final: float, low: float, high: float) -> float:
    """The mean score of a curve between two costs: the area below it over the length of the range.

    The points come in any order. The curve ends at full cost in the last layer, whose score is ``final``: one may
    randomise between its dearest point and that. Below its least cost its cheapest point stands in.
    """
    order = np.argsort(cost, kind="stable")
    rising, scores = cost[order], score[order]
    if rising[-1] < 1.0:
        rising, scores = np.append(rising, 1.0), np.append(scores, final)
    return area_below(rising, scores, low, high) / (high - low)


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
