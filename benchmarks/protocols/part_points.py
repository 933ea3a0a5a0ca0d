"""One configuration under one protocol: its value at every operating point, part by part, with resamples.

For each part a threshold is chosen on the training samples and applied to the test samples. Point values come from
exact curves. Resamples come from :mod:`~exitbench.benchmarks.statistics.resampled_curves`: each repeats the choice of
the threshold on the weights of its training samples. Sums are kept per part, so that a choice among configurations
can be made afterwards, part by part and resample by resample, before anything is merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.set_aside import set_aside
from exitbench.benchmarks.measures.exit_rates import DECISIONS, RateTally, rates_at_threshold
from exitbench.benchmarks.protocols.part_curves import PartCurves, ResampledPart
from exitbench.benchmarks.protocols.part_result import Criterion, PartRates, PartResult, ResampledPoint
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.operating_points import (
    MATCH_TOLERANCE,
    ROUNDING,
    PointValue,
    matched,
    nearest_points,
    randomised,
    threshold_at,
    value_at_threshold,
    value_within_loss,
)
from exitbench.benchmarks.replay.tally import Tally, tally_at
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up
from exitbench.benchmarks.results.vocabulary import MEDIAN
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.resampling.resampled_curves import resampled_exits
from exitbench.benchmarks.statistics.resampling.resampled_points import exactly_at
from exitbench.benchmarks.statistics.resampling.resampled_rates import reached_tally, weighted_rates
from exitbench.benchmarks.suites.questions import Questions, band_costs


def evaluate_part(
    curves: PartCurves, part: Part, questions: Questions, operating_points: Sequence[OperatingPoint]
) -> PartResult:
    """Evaluate one configuration in one part at every operating point."""
    measure = curves.scored.samples("test").measure
    train, test = curves.train_and_test(part)
    resampled = curves.resampled(part)
    speed_ups = [point for point in operating_points if point.kind == "speed_up"]
    losses = [point for point in operating_points if point.kind == "loss"]
    targets = np.array([*(point.number for point in speed_ups), *(1 / np.array(band_costs(train.outcomes.cheapest)))])
    nearest = resampled.nearest(targets)
    final = curves.weights.final(part.train_role, part.train, curves.whole(part.variant, part.train_role).outcomes)
    within = resampled.within(measure, final.score(measure), [point.number for point in losses])
    chosen_on, drawn = resampled.sums_at(nearest)
    within_on, within_drawn = resampled.sums_at(np.maximum(within, 0))
    near_points = nearest_points(train, targets)
    points: dict[OperatingPoint, ResampledPoint] = {}
    last: dict[OperatingPoint, PointValue] = {}
    for point in operating_points:
        if point.kind == "speed_up":
            row = speed_ups.index(point)
            points[point] = _at_speed_up(train, test, point.number, int(near_points[row]), drawn[row])
            if part.train_role == "calibration":
                points[point] = _with_exact_speed_up(points[point], test, point.number, resampled.test)
        elif point.kind == "loss":
            row = losses.index(point)
            last[point] = value_within_loss(train, point.number, measure)
            points[point] = _within_loss(last[point], test, _defined(within_drawn[row], within[row]))
        else:
            points[point] = _at_threshold(curves, part, test, point)
    near = near_scores(train, targets, near_points, measure)
    near_resampled = np.where(is_near(chosen_on.speed_up, targets[:, None]), chosen_on.score(measure), np.nan)
    band = slice(len(speed_ups), None)
    near_one_layer, drawn_one_layer = train.one_layer_at(near_points), one_layer_drawn(train, chosen_on)
    criteria = {
        point: Criterion(near[row], near_resampled[row], near_one_layer[row], drawn_one_layer[row])
        for row, point in enumerate(speed_ups)
    }
    for row, point in enumerate(losses):
        criteria[point] = Criterion(
            np.asarray(last[point].speed_up),
            np.where(within[row] < 0, np.nan, within_on[row].speed_up),
            _exits_at_one_layer(train, last[point]),
            one_layer_drawn(train, within_on[row]),
        )
    rates_point = at_speed_up(questions.rates_speed_up)
    every, reached = _resampled_rates(curves, part, resampled, nearest[speed_ups.index(rates_point)])
    return PartResult(
        criteria=criteria,
        band_criteria=Criterion(near[band], near_resampled[band], near_one_layer[band], drawn_one_layer[band]),
        points=points,
        rates=_rates(train, test, near_points, speed_ups, rates_point, every, reached),
        band=_band(train, test, near_points[band]),
        band_resampled=drawn[band],
        reaches=_reaches(train, 1 / targets[band]),
        certainty=set_aside(test.scores.certainty),
        final=test.final,
        final_resampled=curves.weights.final("test", part.test, curves.whole(part.variant, "test").outcomes),
    )


def evaluate_part_exactly(
    curves: PartCurves, part: Part, questions: Questions, operating_points: Sequence[OperatingPoint]
) -> PartResult:
    """The same without resamples, whose arrays have no length: for deals of folds that repeat point values only."""
    measure = curves.scored.samples("test").measure
    train, test = curves.train_and_test(part)
    none, costs = np.zeros(0), np.array(band_costs(train.outcomes.cheapest))
    speed_ups = [point for point in operating_points if point.kind == "speed_up"]
    targets, band = np.array([*(point.number for point in speed_ups), *(1 / costs)]), slice(len(speed_ups), None)
    near_points = nearest_points(train, targets)
    near, near_one_layer = near_scores(train, targets, near_points, measure), train.one_layer_at(near_points)
    no_draws, no_rates = Tally(train.depth, *[none] * 6), RateTally(*[none] * 4)
    rates_point = at_speed_up(questions.rates_speed_up)
    points: dict[OperatingPoint, ResampledPoint] = {}
    criteria: dict[OperatingPoint, Criterion] = {}
    for row, point in enumerate(speed_ups):
        points[point] = _at_speed_up(train, test, point.number, int(near_points[row]), no_draws)
        criteria[point] = Criterion(near[row], none, near_one_layer[row], none.astype(bool))
    for point in operating_points:
        if point.kind != "speed_up":
            last = value_within_loss(train, point.number, measure)
            points[point] = _within_loss(last, test, no_draws)
            one_layer = _exits_at_one_layer(train, last)
            criteria[point] = Criterion(np.asarray(last.speed_up), none, one_layer, none.astype(bool))
    along_costs = np.zeros((len(costs), 0))
    return PartResult(
        criteria=criteria,
        band_criteria=Criterion(near[band], along_costs, near_one_layer[band], along_costs.astype(bool)),
        points=points,
        rates=_rates(train, test, near_points, speed_ups, rates_point, no_rates, no_rates),
        band=_band(train, test, near_points[band]),
        band_resampled=Tally(train.depth, *[along_costs] * 6),
        reaches=_reaches(train, costs),
        certainty=set_aside(test.scores.certainty),
        final=test.final,
        final_resampled=no_draws,
    )


def _exits_at_one_layer(train: Curve, value: PointValue) -> NDArray[np.bool_]:
    """Whether all samples exit at one layer at a point of their curve; not where there is no such point."""
    defined = value.status != "undefined"
    return np.asarray(train.one_layer_at(train.points_at(value.threshold)) if defined else False)


def _band(train: Curve, test: Curve, points: NDArray[np.int64]) -> Tally:
    """The sums of the test samples at the thresholds of some points of the training samples."""
    return test.tally[test.points_at(train.thresholds_at(points))]


def _reaches(train: Curve, costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    low, high = train.cost_range
    return np.asarray((costs >= low - ROUNDING) & (costs <= high + ROUNDING))


def near_scores(
    train: Curve, speed_ups: NDArray[np.float64], points: NDArray[np.int64], measure: Measure
) -> NDArray[np.float64]:
    """The training score at the ``points`` nearest to each speed-up.

    NaN for a signal that is never near it: it has none to be chosen for.
    """
    tally = train.tally[points]
    return np.where(is_near(tally.speed_up, speed_ups), tally.score(measure), np.nan)


def one_layer_drawn(train: Curve, drawn: Tally) -> NDArray[np.bool_]:
    """Where all training samples that a resample drew exit at one layer, in the shape of ``drawn``.

    That is the last layer or the earliest at which any sample can exit: their sum says that nobody is elsewhere.
    """
    earliest, last = train.earliest_exit * drawn.samples, train.depth * drawn.samples
    return np.asarray((drawn.layers == earliest) | (drawn.layers == last))


def is_near(realised: NDArray[np.float64], asked: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether speed-ups count as those that were asked for."""
    return np.asarray(np.abs(realised - asked) <= (MATCH_TOLERANCE + ROUNDING) * asked)


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
        exits=set_aside(exits),
        tally=tally_at(exits, test.outcomes),
        resampled=resampled,
        status=value.status,
        reason=value.reason,
        randomised=expected,
    )


def _at_speed_up(train: Curve, test: Curve, speed_up: float, point: int, resampled: Tally) -> ResampledPoint:
    """The value near a speed-up; ``point`` is the training samples' nearest."""
    value = matched(train, speed_up, point=point)
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
    right = int(train.first_as_fast(speed_up))
    before, after = test.points_at(train.thresholds_at(np.array([max(right - 1, 0), right])))
    if train.tally[right].speed_up == speed_up:
        return test.tally[int(after)]
    slower, faster = train.tally[right - 1].mean_paid, train.tally[right].mean_paid
    share = (slower - train.outcomes.full_cost / speed_up) / (slower - faster)
    return test.tally[int(before)].towards(test.tally[int(after)], share)


def _defined(drawn: Tally, points: NDArray[np.int64]) -> Tally:
    """Resampled sums, NaN where a resample has no such point (-1): scores and speed-up rest on one of these two."""
    defined = np.where(points < 0, np.nan, 1.0)
    true_positives = None if drawn.true_positives is None else drawn.true_positives * defined
    return dataclasses.replace(drawn, samples=drawn.samples * defined, true_positives=true_positives)


def _within_loss(value: PointValue, test: Curve, resampled: Tally) -> ResampledPoint:
    """The last point within a loss on the training samples, applied to the test samples."""
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
    value = value_at_threshold(whole, threshold_of(point, whole.scores))
    exits = exit_layers(whole.scores, value.threshold)
    resampled = resampled_exits(exits, whole.outcomes, curves.weights.some("test", part.test))
    return _applied(value, test, resampled)


def _resampled_rates(
    curves: PartCurves, part: Part, resampled: ResampledPart, index: NDArray[np.int64]
) -> tuple[RateTally, RateTally]:
    """Decisions ``all`` [layers - 1, resamples] and ``reached`` [resamples] at one point per resample."""
    whole = curves.whole(part.variant, "test")
    weights = curves.weights.some("test", part.test)
    decisions = curves.weights.decisions("test", part.test, whole.outcomes)
    every = weighted_rates(whole.scores, whole.outcomes, resampled.thresholds, index, weights, decisions)
    return every, reached_tally(whole, resampled.event_indices, index, weights)


def _rates(
    train: Curve,
    test: Curve,
    points: NDArray[np.int64],
    speed_ups: Sequence[OperatingPoint],
    rates_point: OperatingPoint,
    every: RateTally,
    reached: RateTally,
) -> PartRates:
    """Decisions of the test samples at the training samples' ``points``, of which the first are near ``speed_ups``."""
    there = {
        point: _decisions_at(test, threshold_at(train, int(nearest)))
        for point, nearest in zip(speed_ups, points[: len(speed_ups)], strict=True)
    }
    exactly_every, exactly_reached = there.pop(rates_point)
    return PartRates(
        every=exactly_every,
        every_resampled=every,
        reached=exactly_reached,
        reached_resampled=reached,
        elsewhere=there,
    )


def _decisions_at(test: Curve, threshold: float) -> tuple[RateTally, RateTally]:
    """Decisions of kind ``all`` and ``reached``, each [layers - 1]."""
    every, reached = (rates_at_threshold(test.scores, test.outcomes, threshold, kind) for kind in DECISIONS)
    return every, reached
