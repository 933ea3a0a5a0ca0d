"""One configuration of a signal under one protocol: every reading, part by part, with its resamples.

For each part a threshold is chosen on the training samples and applied to the test samples. Point readings
come from exact curves. Resamples come from :mod:`benchmarks.weighted_curve`: each repeats the choice of
the threshold on its own training weights. Sums are kept per part, so that a choice among configurations can
be made afterwards, part by part and resample by resample, before anything is merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.curve import Curve, trade_off_curve
from benchmarks.operating import MATCH_TOLERANCE, ROUNDING, at_threshold, matched, nearest_point, within_loss
from benchmarks.protocols import Part
from benchmarks.rates import RateTally, rates_at_threshold
from benchmarks.replay import exit_layers
from benchmarks.scored import PLAIN, ScoredCache, Side
from benchmarks.scores import SignalScores
from benchmarks.status import Status
from benchmarks.suite import MEDIAN
from benchmarks.task_score import Measure, Outcomes, Tally, tally_at
from benchmarks.weighted_curve import (
    Drawn,
    Weights,
    gather,
    listed_points,
    marks_within_losses,
    nearest_marks,
    reached_tally,
    resampled_exits,
    weighted_rates,
    weighted_tally,
    without,
)


@dataclass(frozen=True)
class Question:
    """Where to read: ``at`` as in the results, with the number it stands for."""

    at: str
    kind: Literal["speed_up", "loss", "tau"]
    value: float | str


@dataclass(frozen=True)
class Questions:
    """All that is read off one configuration's curve; ``costs`` are relative costs of the band."""

    readings: tuple[Question, ...]
    primary: float
    rates_at: float
    costs: tuple[float, ...]

    def without_thresholds(self) -> Questions:
        """The same without the thresholds that were given."""
        return dataclasses.replace(self, readings=tuple(one for one in self.readings if one.kind != "tau"))


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
    readings: dict[str, PartReading]
    rates: PartRates
    band: Tally
    band_resampled: Tally
    reaches: NDArray[np.bool_]
    certainty: NDArray[np.float64]


class Draws:
    """The bootstrap weights [samples, resamples] of both sides, and those of every part, each cut out once."""

    def __init__(self, weights: dict[Side, Weights]) -> None:
        self.weights = weights
        self._drawn: dict[tuple[Side, bytes], Drawn] = {}
        self._final: dict[tuple[Side, bytes], Tally] = {}

    def some(self, side: Side, rows: NDArray[np.bool_]) -> Drawn:
        """The weights of the samples at ``rows``, a mask."""
        key = (side, rows.tobytes())
        if key not in self._drawn:
            self._drawn[key] = Drawn.of(self.weights[side], rows)
        return self._drawn[key]

    def all(self, side: Side) -> Drawn:
        """The weights of all samples of one side."""
        return self.some(side, np.ones(len(self.weights[side]), dtype=bool))

    def final(self, side: Side, rows: NDArray[np.bool_], outcomes: Outcomes) -> Tally:
        """The last layer's resampled sums over some samples, [resamples]; the same for every signal."""
        key = (side, rows.tobytes())
        if key not in self._final:
            last = np.full(outcomes.samples, outcomes.depth)
            self._final[key] = resampled_exits(last, outcomes, self.all(side), rows)
        return self._final[key]


class ConfigurationCurves:
    """The curves of one configuration: exact ones per part, and weighted sums shared between parts."""

    def __init__(self, scored: ScoredCache, index: int, draws: Draws, speed_ups: Sequence[float]) -> None:
        self.scored, self.index, self.draws, self.speed_ups = scored, index, draws, tuple(speed_ups)
        self.learns = scored.configurations[index].learns
        self._curves: dict[tuple[str, Side], Curve] = {}
        self._whole: dict[tuple[str, Side], Tally] = {}

    def scores(self, variant: str, side: Side) -> SignalScores:
        return self.scored.scores(self.index, variant, side)

    def whole(self, variant: str, side: Side) -> Curve:
        """The curve of all samples of one side."""
        key = (variant if self.learns else PLAIN, side)
        if key not in self._curves:
            self._curves[key] = trade_off_curve(self.scores(variant, side), self.scored.samples(side).outcomes)
        return self._curves[key]

    def exact(self, variant: str, side: Side, rows: NDArray[np.bool_]) -> Curve:
        """The curve of some samples of one side."""
        whole = self.whole(variant, side)
        return whole if rows.all() else trade_off_curve(whole.scores.take(rows), whole.outcomes.take(rows))

    def weighted(self, part: Part) -> WeightedPart:
        """The resampled sums of a part's training and test samples at the same list of thresholds."""
        test = self.whole(part.variant, "test")
        train = self.whole(part.variant, part.train_side)
        points = listed_points(train, self.speed_ups)
        thresholds = train.thresholds[points]
        if part.train_side == "calibration":
            marks = test.events.ends[test.points_at(thresholds)]
            train_sums = weighted_tally(train, train.events.ends[points], self.draws.all("calibration"))
            return WeightedPart(thresholds, marks, train_sums, weighted_tally(test, marks, self.draws.all("test")))
        marks = test.events.ends[points]
        if part.in_sample:
            sums = self._all(part.variant, marks)
            return WeightedPart(thresholds, marks, sums, sums)
        fold = weighted_tally(test, marks, self.draws.some("test", part.test))
        return WeightedPart(thresholds, marks, without(self._all(part.variant, marks), fold), fold)

    def _all(self, variant: str, marks: NDArray[np.int64]) -> Tally:
        key: tuple[str, Side] = (variant if self.learns else PLAIN, "test")
        if key not in self._whole:
            self._whole = {key: weighted_tally(self.whole(variant, "test"), marks, self.draws.all("test"))}
        return self._whole[key]


@dataclass(frozen=True, eq=False)
class WeightedPart:
    """Sums [marks, resamples] at the listed ``thresholds``; ``marks`` are positions among the test events."""

    thresholds: NDArray[np.float64]
    marks: NDArray[np.int64]
    train: Tally
    test: Tally


def evaluate_part(curves: ConfigurationCurves, part: Part, questions: Questions) -> PartResult:
    """Read everything off one configuration in one part."""
    measure = curves.scored.samples("test").measure
    train = curves.exact(part.variant, part.train_side, part.train)
    test = train if part.in_sample else curves.exact(part.variant, "test", part.test)
    weighted = curves.weighted(part)
    asked = [float(one.value) for one in questions.readings if one.kind == "speed_up"]
    wanted = np.array([*asked, questions.primary, questions.rates_at, *(1 / cost for cost in questions.costs)])
    index = nearest_marks(weighted.train, wanted)
    position = {speed_up: row for row, speed_up in enumerate(asked)}
    final = curves.draws.final(part.train_side, part.train, curves.whole(part.variant, part.train_side).outcomes)
    losses = [float(one.value) for one in questions.readings if one.kind == "loss"]
    within = iter(marks_within_losses(weighted.train, measure, final.score(measure), losses, ROUNDING))
    readings: dict[str, PartReading] = {}
    for question in questions.readings:
        if question.kind == "speed_up":
            rows = index[position[float(question.value)]]
            readings[question.at] = _at_speed_up(train, test, float(question.value), gather(weighted.test, rows))
        elif question.kind == "loss":
            readings[question.at] = _within_loss(
                train, test, float(question.value), measure, weighted.test, next(within)
            )
        else:
            threshold = threshold_of(question.value, curves.whole(part.variant, "test").scores)
            whole = curves.whole(part.variant, "test")
            at_threshold(whole, threshold)  # refuses a threshold that the signal cannot have
            exits = exit_layers(whole.scores, threshold)
            resampled = resampled_exits(exits, whole.outcomes, curves.draws.some("test", part.test))
            tally = tally_at(exits[part.test], test.outcomes)
            readings[question.at] = PartReading(threshold, exits[part.test], tally, resampled)
    at_primary, at_rates, band = index[len(asked)], index[len(asked) + 1], index[len(asked) + 2 :]
    points = np.array([nearest_point(train, 1 / cost) for cost in questions.costs], dtype=np.int64)
    low, high = train.cost_range
    costs = np.array(questions.costs)
    return PartResult(
        primary=matched_score(train, questions.primary, measure),
        primary_resampled=resampled_matched_score(gather(weighted.train, at_primary), questions.primary, measure),
        readings=readings,
        rates=_rates(curves, part, train, test, weighted, questions.rates_at, at_rates),
        band=test.tally[test.points_at(train.thresholds[points])],
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


def threshold_of(value: float | str, scores: SignalScores) -> float:
    """A threshold as a number; ``median`` is the lower median of the scores at the first layer that may exit."""
    if value == MEDIAN:
        first = np.sort(scores.values[scores.first_exit_layer - 1])
        return float(first[(len(first) - 1) // 2])
    return float(value)


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
    return PartRates(
        rates_at_threshold(test.scores, test.outcomes, threshold, "all"),
        weighted_rates(whole.scores, whole.outcomes, weighted.thresholds, index, drawn),
        rates_at_threshold(test.scores, test.outcomes, threshold, "reached"),
        reached_tally(whole, weighted.marks, index, drawn),
    )
