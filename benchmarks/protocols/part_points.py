"""One configuration of a signal under one protocol: every reading, part by part, with its resamples.

For each part a threshold is chosen on the training samples and applied to the test samples. Point readings
come from exact curves. Resamples come from ``resampled_curves``: each repeats the choice of
the threshold on its own training weights. Sums are kept per part, so that a choice among configurations can
be made afterwards, part by part and resample by resample, before anything is merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import RateTally, rates_at_threshold
from exitbench.benchmarks.protocols.part_curves import ConfigurationCurves, WeightedPart
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.operating_points import (
    MATCH_TOLERANCE,
    ROUNDING,
    at_threshold,
    matched,
    nearest_point,
    nearest_points,
    within_loss,
)
from exitbench.benchmarks.replay.tally import Tally, tally_at
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.status import Status
from exitbench.benchmarks.results.vocabulary import MEDIAN
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.resampled_curves import resampled_exits
from exitbench.benchmarks.statistics.resampled_points import gather
from exitbench.benchmarks.statistics.resampled_rates import reached_tally, weighted_rates
from exitbench.benchmarks.suites.questions import Questions, band_costs


@dataclass(frozen=True, eq=False)
class PartReading:
    """A reading on the test samples of one part: ``exits`` [test samples], ``resampled`` sums [resamples]."""

    threshold: float
    exits: NDArray[np.int64] | None
    tally: Tally
    resampled: Tally
    status: Status = "ok"
    reason: str = ""
    randomised: Tally | None = None


@dataclass(frozen=True, eq=False)
class PartRates:
    """Decisions at the rates' speed-up: ``every`` [layers - 1] with [layers - 1, resamples], ``reached`` likewise."""

    every: RateTally
    every_resampled: RateTally
    reached: RateTally
    reached_resampled: RateTally


@dataclass(frozen=True, eq=False)
class PartResult:
    """Everything about one configuration in one part.

    ``primary`` is the training score that a choice looks at (NaN where the signal never gets near that speed-up),
    ``primary_resampled`` [resamples]; the band has
    sums [costs] and [costs, resamples] and says which costs the signal ``reaches``; ``certainty`` is
    [layers - 1, test samples].
    """

    primary: float
    primary_resampled: NDArray[np.float64]
    points: dict[OperatingPoint, PartReading]
    rates: PartRates
    band: Tally
    band_resampled: Tally
    reaches: NDArray[np.bool_]
    certainty: NDArray[np.float64]


def evaluate_part(
    curves: ConfigurationCurves, part: Part, questions: Questions, operating_points: Sequence[OperatingPoint]
) -> PartResult:
    """Read everything off one configuration in one part."""
    measure = curves.scored.samples("test").measure
    train = curves.exact(part.variant, part.train_side, part.train)
    test = train if part.in_sample else curves.exact(part.variant, "test", part.test)
    weighted = curves.weighted(part)
    asked = [point.number for point in operating_points if point.kind == "speed_up"]
    costs = np.array(band_costs(train.depth))
    wanted = np.array([*asked, questions.primary_speed_up, questions.rates_speed_up, *(1 / costs)])
    index = weighted.nearest(wanted)
    position = {speed_up: row for row, speed_up in enumerate(asked)}
    final = curves.draws.final(part.train_side, part.train, curves.whole(part.variant, part.train_side).outcomes)
    losses = [point.number for point in operating_points if point.kind == "loss"]
    within = iter(weighted.within(measure, final.score(measure), losses))
    points: dict[OperatingPoint, PartReading] = {}
    for point in operating_points:
        if point.kind == "speed_up":
            rows = index[position[point.number]]
            points[point] = _at_speed_up(train, test, point.number, gather(weighted.test, rows))
        elif point.kind == "loss":
            points[point] = _within_loss(train, test, point.number, measure, weighted.test, next(within))
        else:
            threshold = threshold_of(point, curves.whole(part.variant, "test").scores)
            whole = curves.whole(part.variant, "test")
            at_threshold(whole, threshold)  # refuses a threshold that the signal cannot have
            exits = exit_layers(whole.scores, threshold)
            resampled = resampled_exits(exits, whole.outcomes, curves.draws.some("test", part.test))
            tally = tally_at(exits[part.test], test.outcomes)
            points[point] = PartReading(threshold, exits[part.test], tally, resampled)
    at_primary, at_rates, band = index[len(asked)], index[len(asked) + 1], index[len(asked) + 2 :]
    nearest = nearest_points(train, 1 / costs)
    low, high = train.cost_range
    return PartResult(
        primary=matched_score(train, questions.primary_speed_up, measure),
        primary_resampled=resampled_matched_score(weighted.train_at(at_primary), questions.primary_speed_up, measure),
        points=points,
        rates=_rates(curves, part, train, test, weighted, questions.rates_speed_up, at_rates),
        band=test.tally[test.points_at(train.thresholds[nearest])],
        band_resampled=gather(weighted.test, band),
        reaches=(costs >= low - ROUNDING) & (costs <= high + ROUNDING),
        certainty=test.scores.certainty,
    )


def matched_score(curve: Curve, speed_up: float, measure: Measure) -> float:
    """The score at a speed-up, NaN for a signal that is never near it: it has no score there to be chosen for."""
    found = matched(curve, speed_up)
    return found.score(measure) if found.status == "ok" else float("nan")


def resampled_matched_score(tally: Tally, speed_up: float, measure: Measure) -> NDArray[np.float64]:
    """The same in every resample, [resamples]."""
    near = np.abs(tally.speed_up - speed_up) <= MATCH_TOLERANCE * speed_up
    return np.where(near, tally.score(measure), np.nan)


def threshold_of(point: OperatingPoint, scores: SignalScores) -> float:
    """A threshold as a number; ``median`` is the lower median of the scores at the first layer that may exit."""
    if point.value == MEDIAN:
        first = np.sort(scores.values[scores.first_exit_layer - 1])
        return float(first[(len(first) - 1) // 2])
    return point.number


def _at_speed_up(train: Curve, test: Curve, speed_up: float, resampled: Tally) -> PartReading:
    found = matched(train, speed_up)
    exactly = found.randomised
    if exactly is not None and test is not train:
        exactly = _randomised_elsewhere(train, test, speed_up)
    exits = exit_layers(test.scores, found.threshold)
    tally = tally_at(exits, test.outcomes)
    return PartReading(found.threshold, exits, tally, resampled, found.status, found.reason, exactly)


def _randomised_elsewhere(train: Curve, test: Curve, speed_up: float) -> Tally:
    """The coin between two neighbouring thresholds, weighted on the training samples, thrown on the test samples."""
    right = int(np.searchsorted(train.speed_up, speed_up))
    if train.speed_up[right] == speed_up:
        return test.tally[int(test.points_at(train.thresholds[right]))]
    slower, faster = train.tally[right - 1].mean_exit_layer, train.tally[right].mean_exit_layer
    share = (slower - train.depth / speed_up) / (slower - faster)
    before, here = test.points_at(train.thresholds[right - 1 : right + 1])
    return test.tally[int(before)].towards(test.tally[int(here)], share)


def _within_loss(
    train: Curve, test: Curve, loss: float, measure: Measure, sums: Tally, marks: NDArray[np.int64]
) -> PartReading:
    found = within_loss(train, loss, measure)
    resampled = gather(sums, np.maximum(marks, 0))
    here = np.where(marks < 0, np.nan, 1.0)  # both scores and the speed-up rest on one of these two
    hits = None if resampled.hits is None else resampled.hits * here
    resampled = dataclasses.replace(resampled, samples=resampled.samples * here, hits=hits)
    if found.status == "undefined":
        return PartReading(float("nan"), None, found.tally, resampled, found.status, found.reason)
    exits = exit_layers(test.scores, found.threshold)
    return PartReading(found.threshold, exits, tally_at(exits, test.outcomes), resampled, found.status, found.reason)


def _rates(
    curves: ConfigurationCurves,
    part: Part,
    train: Curve,
    test: Curve,
    weighted: WeightedPart,
    speed_up: float,
    index: NDArray[np.int64],
) -> PartRates:
    threshold = float(train.thresholds[nearest_point(train, speed_up)])
    whole = curves.whole(part.variant, "test")
    drawn = curves.draws.some("test", part.test)
    decisions = curves.draws.decisions("test", part.test, whole.outcomes)
    return PartRates(
        rates_at_threshold(test.scores, test.outcomes, threshold, "all"),
        weighted_rates(whole.scores, whole.outcomes, weighted.thresholds, index, drawn, decisions),
        rates_at_threshold(test.scores, test.outcomes, threshold, "reached"),
        reached_tally(whole, weighted.marks, index, drawn),
    )
