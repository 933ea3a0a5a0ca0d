"""One configuration under one protocol: its value at every operating point, part by part, with resamples.

For each part a threshold is chosen on the training samples and applied to the test samples. Point values come from
exact curves. Resamples come from :mod:`~exitbench.benchmarks.statistics.resampled_curves`: each repeats the choice of
the threshold on the weights of its training samples. Sums are kept per part, so that a choice among configurations
can be made afterwards, part by part and resample by resample, before anything is merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import RateTally, rates_at_threshold
from exitbench.benchmarks.protocols.part_curves import PartCurves, ResampledPart
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.operating_points import (
    MATCH_TOLERANCE,
    ROUNDING,
    PointValue,
    at_threshold,
    matched,
    nearest_point,
    nearest_points,
    randomised,
    within_loss,
)
from exitbench.benchmarks.replay.tally import Tally, tally_at
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up
from exitbench.benchmarks.results.vocabulary import MEDIAN
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.resampled_curves import resampled_exits
from exitbench.benchmarks.statistics.resampled_points import exactly_at, gather
from exitbench.benchmarks.statistics.resampled_rates import reached_tally, weighted_rates
from exitbench.benchmarks.suites.questions import Questions, band_costs


@dataclass(frozen=True, eq=False, kw_only=True)
class ResampledPoint(PointValue):
    """A value at an operating point on some test samples: ``exits`` [samples], ``resampled`` sums [resamples].

    Where another cache chose, ``exactly`` and ``exactly_resampled`` are the sums at exactly the speed-up that was asked
    for, on the test samples' own curve: signals that realise different speed-ups are compared there.
    """

    exits: NDArray[np.int64] | None
    resampled: Tally
    exactly: Tally | None = None
    exactly_resampled: Tally | None = None


@dataclass(frozen=True, eq=False)
class Criterion:
    """What a choice among configurations looks at on the training samples, the larger the better; NaN: not there.

    A number with its resamples [resamples], or along a curve [costs] and [costs, resamples].
    """

    value: NDArray[np.float64]
    resampled: NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PartRates:
    """Decisions at the rates' speed-up: ``every`` [layers - 1] with [layers - 1, resamples], ``reached`` likewise."""

    every: RateTally
    every_resampled: RateTally
    reached: RateTally
    reached_resampled: RateTally


@dataclass(frozen=True, eq=False, kw_only=True)
class PartResult:
    """Everything about one configuration in one part.

    ``criteria`` are those of the operating points with something to choose: the training score near a speed-up (none
    where the signal never gets near it), the training speed-up within a loss. The band has sums [costs] and
    [costs, resamples] and says which costs the signal ``reaches``; ``certainty`` is [layers - 1, test samples];
    ``final`` is the last layer on the test samples.
    """

    criteria: dict[OperatingPoint, Criterion]
    band_criteria: Criterion
    points: dict[OperatingPoint, ResampledPoint]
    rates: PartRates
    band: Tally
    band_resampled: Tally
    reaches: NDArray[np.bool_]
    certainty: NDArray[np.float64]
    final: Tally
    final_resampled: Tally


def evaluate_part(
    curves: PartCurves, part: Part, questions: Questions, operating_points: Sequence[OperatingPoint]
) -> PartResult:
    """Evaluate one configuration in one part at every operating point."""
    measure = curves.scored.samples("test").measure
    train = curves.exact(part.variant, part.train_role, part.train)
    test = train if part.in_sample else curves.exact(part.variant, "test", part.test)
    resampled = curves.resampled(part)
    speed_ups = [point for point in operating_points if point.kind == "speed_up"]
    losses = [point for point in operating_points if point.kind == "loss"]
    targets = np.array([*(point.number for point in speed_ups), *(1 / np.array(band_costs(train.depth)))])
    nearest = resampled.nearest(targets)
    final = curves.weights.final(part.train_role, part.train, curves.whole(part.variant, part.train_role).outcomes)
    within = resampled.within(measure, final.score(measure), [point.number for point in losses])
    nearest_to, last_within = dict(zip(speed_ups, nearest, strict=False)), dict(zip(losses, within, strict=True))
    points: dict[OperatingPoint, ResampledPoint] = {}
    for point in operating_points:
        if point.kind == "speed_up":
            points[point] = _at_speed_up(train, test, point.number, gather(resampled.test, nearest_to[point]))
            if part.train_role == "calibration":
                points[point] = _with_exact_speed_up(points[point], test, point.number, resampled.test)
        elif point.kind == "loss":
            points[point] = _within_loss(train, test, point.number, measure, resampled.test, last_within[point])
        else:
            points[point] = _at_threshold(curves, part, test, point)
    near = near_scores(train, resampled, targets, nearest, measure)
    band, at_band = slice(len(speed_ups), None), nearest[len(speed_ups) :]
    rates_point = at_speed_up(questions.rates_speed_up)
    low, high = train.cost_range
    costs = 1 / targets[band]
    return PartResult(
        criteria={
            **{point: Criterion(near.value[row], near.resampled[row]) for row, point in enumerate(speed_ups)},
            **{point: speed_up_within(train, resampled, point.number, measure, last_within[point]) for point in losses},
        },
        band_criteria=Criterion(near.value[band], near.resampled[band]),
        points=points,
        rates=_rates(curves, part, train, test, resampled, questions.rates_speed_up, nearest_to[rates_point]),
        band=test.tally[test.points_at(train.thresholds[nearest_points(train, 1 / costs)])],
        band_resampled=gather(resampled.test, at_band),
        reaches=(costs >= low - ROUNDING) & (costs <= high + ROUNDING),
        certainty=test.scores.certainty,
        final=test.final,
        final_resampled=curves.weights.final("test", part.test, curves.whole(part.variant, "test").outcomes),
    )


def near_scores(
    train: Curve,
    resampled: ResampledPart,
    speed_ups: NDArray[np.float64],
    nearest: NDArray[np.int64],
    measure: Measure,
) -> Criterion:
    """The training score near each speed-up, NaN for a signal that is never near it: it has none to be chosen for.

    ``nearest`` [speed_ups, resamples] are the nearest points of the resamples; the result is [speed_ups] and the same.
    """
    tally = train.tally[nearest_points(train, speed_ups)]
    tally_resampled = resampled.train_at(nearest)
    return Criterion(
        np.where(is_near(tally.speed_up, speed_ups), tally.score(measure), np.nan),
        np.where(is_near(tally_resampled.speed_up, speed_ups[:, None]), tally_resampled.score(measure), np.nan),
    )


def is_near(realised: NDArray[np.float64], asked: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether speed-ups count as those that were asked for."""
    return np.asarray(np.abs(realised - asked) <= (MATCH_TOLERANCE + ROUNDING) * asked)


def speed_up_within(
    train: Curve, resampled: ResampledPart, loss: float, measure: Measure, last: NDArray[np.int64]
) -> Criterion:
    """The largest speed-up within a loss on the training samples; ``last`` [resamples] are its points, -1 for none."""
    realised = resampled.train_at(np.maximum(last, 0)).speed_up
    return Criterion(np.asarray(within_loss(train, loss, measure).speed_up), np.where(last < 0, np.nan, realised))


def threshold_of(point: OperatingPoint, scores: SignalScores) -> float:
    """A threshold as a number; ``median`` is the lower median of the scores at the first layer that can exit."""
    if point.value == MEDIAN:
        may_exit = scores.first_exit_layer - 1
        first = np.sort(scores.values[may_exit + int(np.argmin(scores.silent[may_exit:]))])
        return float(first[(len(first) - 1) // 2])
    return point.number


def _applied(value: PointValue, test: Curve, resampled: Tally, expected: Tally | None = None) -> ResampledPoint:
    """A point chosen on the training samples, applied to the test samples."""
    exits = exit_layers(test.scores, value.threshold)
    return ResampledPoint(
        threshold=value.threshold,
        exits=exits,
        tally=tally_at(exits, test.outcomes),
        resampled=resampled,
        status=value.status,
        reason=value.reason,
        randomised=expected,
    )


def _at_speed_up(train: Curve, test: Curve, speed_up: float, resampled: Tally) -> ResampledPoint:
    value = matched(train, speed_up)
    expected = value.randomised
    if expected is not None and test is not train:
        expected = _randomised_elsewhere(train, test, speed_up)
    return _applied(value, test, resampled, expected)


def _with_exact_speed_up(value: ResampledPoint, test: Curve, speed_up: float, sums: Tally) -> ResampledPoint:
    """The value with what the test samples' own curve has at exactly the speed-up, if it reaches that far."""
    exactly = randomised(test, speed_up)
    if exactly is None:
        return value
    return dataclasses.replace(value, exactly=exactly, exactly_resampled=exactly_at(sums, speed_up))


def _randomised_elsewhere(train: Curve, test: Curve, speed_up: float) -> Tally:
    """Randomising between two neighbouring thresholds, with the shares of the training samples, on the test samples."""
    right = int(np.searchsorted(train.speed_up, speed_up))
    if train.speed_up[right] == speed_up:
        return test.tally[int(test.points_at(train.thresholds[right]))]
    slower, faster = train.tally[right - 1].mean_exit_layer, train.tally[right].mean_exit_layer
    share = (slower - train.depth / speed_up) / (slower - faster)
    before, after = test.points_at(train.thresholds[right - 1 : right + 1])
    return test.tally[int(before)].towards(test.tally[int(after)], share)


def _within_loss(
    train: Curve, test: Curve, loss: float, measure: Measure, sums: Tally, points: NDArray[np.int64]
) -> ResampledPoint:
    value = within_loss(train, loss, measure)
    resampled = gather(sums, np.maximum(points, 0))
    defined = np.where(points < 0, np.nan, 1.0)  # both scores and the speed-up rest on one of these two
    true_positives = None if resampled.true_positives is None else resampled.true_positives * defined
    resampled = dataclasses.replace(resampled, samples=resampled.samples * defined, true_positives=true_positives)
    if value.status == "undefined":
        return ResampledPoint(
            threshold=value.threshold,
            exits=None,
            tally=value.tally,
            resampled=resampled,
            status=value.status,
            reason=value.reason,
        )
    return _applied(value, test, resampled)


def _at_threshold(curves: PartCurves, part: Part, test: Curve, point: OperatingPoint) -> ResampledPoint:
    whole = curves.whole(part.variant, "test")
    value = at_threshold(whole, threshold_of(point, whole.scores))
    exits = exit_layers(whole.scores, value.threshold)
    resampled = resampled_exits(exits, whole.outcomes, curves.weights.some("test", part.test))
    return _applied(value, test, resampled)


def _rates(
    curves: PartCurves,
    part: Part,
    train: Curve,
    test: Curve,
    resampled: ResampledPart,
    speed_up: float,
    index: NDArray[np.int64],
) -> PartRates:
    threshold = float(train.thresholds[nearest_point(train, speed_up)])
    whole = curves.whole(part.variant, "test")
    weights = curves.weights.some("test", part.test)
    decisions = curves.weights.decisions("test", part.test, whole.outcomes)
    return PartRates(
        every=rates_at_threshold(test.scores, test.outcomes, threshold, "all"),
        every_resampled=weighted_rates(whole.scores, whole.outcomes, resampled.thresholds, index, weights, decisions),
        reached=rates_at_threshold(test.scores, test.outcomes, threshold, "reached"),
        reached_resampled=reached_tally(whole, resampled.event_indices, index, weights),
    )
