"""The parts of a protocol merged into one set of answers, each with its chosen configuration.

Merging adds up the parts' sums, so that a task score is computed once, over the predictions of all test samples.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import empty, full
from exitbench.benchmarks.arrays.set_aside import set_aside
from exitbench.benchmarks.measures.exit_rates import RateTally
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.choice import Choice, Choices
from exitbench.benchmarks.protocols.part_result import PartResult, ResampledPoint
from exitbench.benchmarks.protocols.splits import Part, fold_numbers
from exitbench.benchmarks.replay.operating_points import MATCH_TOLERANCE, ROUNDING
from exitbench.benchmarks.replay.tally import Tally, score_influence
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.status import Status
from exitbench.benchmarks.scoring.groups import clustering, standard_error
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.statistics.deals import mean_over_deals

Sums = TypeVar("Sums", Tally, RateTally)


class MergedParts:
    """One entry of a suite under one protocol.

    ``choices`` say which configuration each part uses where; ``samples`` are the scored ones; ``deals`` are the same
    entry under further deals of folds, which a status is judged on too. Properties are computed on first use.
    """

    def __init__(
        self, choices: Choices, parts: tuple[Part, ...], samples: Samples, deals: Sequence[MergedParts] = ()
    ) -> None:
        self.choices, self.parts, self.samples, self.deals = choices, parts, samples, tuple(deals)
        self._points: dict[OperatingPoint, ResampledPoint] = {}

    @property
    def operating_points(self) -> list[OperatingPoint]:
        return list(self.choices.results[0][0].points)

    @property
    def further_speed_ups(self) -> list[OperatingPoint]:
        """The speed-ups at which exit rates have neither resamples nor layers."""
        return [point for point in self.operating_points if point.kind == "speed_up" and point != self.choices.rates]

    def at(self, point: OperatingPoint) -> ResampledPoint:
        """The value at an operating point over all parts; its threshold is NaN where the parts have different ones."""
        if point not in self._points:
            self._points[point] = self._merged(point)
        return self._points[point]

    def _merged(self, point: OperatingPoint) -> ResampledPoint:
        values = [result.points[point] for result in self.choices.chosen(point)]
        status, reason = worst(values)
        thresholds = {value.threshold for value in values}
        alike = len(set(self.choices.chosen_names(point))) == 1
        exits: NDArray[np.int64] | None = None
        if status != "undefined":
            exits = empty(len(self.parts[0].test), np.int64)
            for part, value in zip(self.parts, values, strict=True):
                assert value.exits is not None
                exits[part.test] = value.exits
            exits = set_aside(exits)
        randomised = [value.randomised for value in values if value.randomised is not None]
        merged = ResampledPoint(
            threshold=thresholds.pop() if len(thresholds) == 1 else float("nan"),
            exits=exits,
            tally=summed([value.tally for value in values]),
            resampled=self._resampled(self.choices.at(point), lambda result: result.points[point].resampled),
            status=status,
            reason=reason,
            randomised=summed(randomised) if len(randomised) == len(values) else None,
            middle_threshold=lower_median([value.threshold for value in values]) if alike else float("nan"),
            **self._exactly(point, values),
        )
        if status == "undefined":
            return merged
        judged = self._with_one_layer(merged) if self.parts[0].in_sample else self.with_realised_status(point, merged)
        # A given threshold involves no choice, so that folds change nothing about it.
        return judged if point.kind == "tau" or not self.deals else self._over_deals(point, judged)

    def _over_deals(self, point: OperatingPoint, first: ResampledPoint) -> ResampledPoint:
        """The value of the first deal with the status of all: by the mean of what was realised, or the majority."""
        every = [first, *(deal.at(point) for deal in self.deals)]
        one_layer = [value for value in every if value.status == "degenerate"]
        if 2 * len(one_layer) > len(every):
            return dataclasses.replace(first, status="degenerate", reason=one_layer[0].reason)
        status, reason = first.status, first.reason
        if point.kind == "speed_up":
            realised = mean_over_deals([value.speed_up for value in every])
            status, reason = realised_speed_up(realised, point.number, self._speed_up_error(first))
        elif point.kind == "loss":
            lost = mean_over_deals([self.loss(value)[0] for value in every])
            status, reason = realised_loss(lost, point.number, self._loss_error(first))
        return dataclasses.replace(first, status=status, reason=reason)

    def _exactly(self, point: OperatingPoint, values: Sequence[ResampledPoint]) -> dict[str, Tally]:
        """The sums at exactly a speed-up, where another cache chose and every configuration reaches that far."""
        every = [part.points[point] for parts in self.choices.results for part in parts]
        exact = [value.exactly for value in values if value.exactly is not None]
        if not exact or any(value.exactly_resampled is None for value in every):
            return {}

        def sums_of(result: PartResult) -> Tally:
            sums = result.points[point].exactly_resampled
            assert sums is not None
            return sums

        return {"exactly": summed(exact), "exactly_resampled": self._resampled(self.choices.at(point), sums_of)}

    def with_realised_status(self, point: OperatingPoint, value: ResampledPoint) -> ResampledPoint:
        """A value with the status that follows from what happened on the scored rows."""
        status, reason = self._realised(point, value)
        return self._with_one_layer(dataclasses.replace(value, status=status, reason=reason))

    def _with_one_layer(self, value: ResampledPoint) -> ResampledPoint:
        """The value, degenerate where all samples of each part exit at one layer."""
        assert value.exits is not None
        layers = []
        for part in self.parts:
            exits = value.exits[part.test]
            layers.append(int(exits[0]))
            if (exits != exits[0]).any():
                return value
        words = one_layer(layers, self.samples.depth)
        return dataclasses.replace(value, status="degenerate", reason="; ".join(filter(None, (words, value.reason))))

    def _realised(self, point: OperatingPoint, value: ResampledPoint) -> tuple[Status, str]:
        """The status by what happened on the scored rows, where other rows chose the threshold."""
        if point.kind == "speed_up":
            return realised_speed_up(value.speed_up, point.number, self._speed_up_error(value))
        if point.kind == "loss":
            return realised_loss(self.loss(value)[0], point.number, self._loss_error(value))
        return value.status, value.reason

    def _speed_up_error(self, value: ResampledPoint) -> float:
        """The standard error of a speed-up between the rows that chose and the scored ones; 0 in one cache.

        Closed forms here and below: a status must not depend on how many resamples are drawn.
        """
        if self.parts[0].train_role == "test" or value.exits is None:
            return 0.0
        chosen_on, scored = int(self.parts[0].train.sum()), len(value.exits)
        paid = self.samples.outcomes.paid(value.exits)
        spread = float(paid.std()) * np.sqrt(1 / chosen_on + 1 / scored)
        spread *= clustering(paid.astype(np.float64), self.samples.groups)
        return float(self.samples.outcomes.full_cost / paid.mean() ** 2 * spread)

    def _loss_error(self, value: ResampledPoint) -> float:
        """The standard error of a loss, from the influence of each scored row on both scores."""
        assert value.exits is not None
        outcomes, measure = self.samples.outcomes, self.samples.measure
        last = full(self.samples.size, self.samples.depth, np.int64)
        moves = score_influence(last, outcomes, measure) - score_influence(value.exits, outcomes, measure)
        return standard_error(moves, self.samples.groups)

    def loss(self, value: ResampledPoint) -> tuple[float, NDArray[np.float64]]:
        """The points of task score that a value loses against the last layer, and the same in every resample."""
        final, final_resampled = self.final
        measure = self.samples.measure
        lost = float(final.score(measure)) - value.score(measure)
        draws = value.resampled.score(measure)
        return lost, final_resampled.score(measure) - draws if len(draws) else draws

    @cached_property
    def final(self) -> tuple[Tally, Tally]:
        """The last layer on all test samples: (), and [resamples]."""
        first = self.choices.results[0]
        return summed([result.final for result in first]), summed([result.final_resampled for result in first])

    @cached_property
    def every_decision(self) -> tuple[RateTally, RateTally]:
        """Decisions ``all``: [layers - 1], and [layers - 1, resamples]."""
        rates = self.choices.rates
        exact = summed([result.rates.every for result in self.choices.chosen(rates)])
        return exact, self._resampled(self.choices.at(rates), lambda result: result.rates.every_resampled)

    @cached_property
    def reached_decisions(self) -> tuple[RateTally, RateTally]:
        """Decisions ``reached``: [layers - 1], and over all layers [resamples]."""
        rates = self.choices.rates
        exact = summed([result.rates.reached for result in self.choices.chosen(rates)])
        return exact, self._resampled(self.choices.at(rates), lambda result: result.rates.reached_resampled)

    def decisions_at(self, point: OperatingPoint) -> tuple[RateTally, RateTally]:
        """Decisions ``all`` and ``reached`` at a speed-up other than the rates' own, each [layers - 1]."""
        there = [result.rates.elsewhere[point] for result in self.choices.chosen(point)]
        return summed([every for every, _ in there]), summed([reached for _, reached in there])

    @cached_property
    def band(self) -> tuple[Tally, Tally]:
        """Sums at the band's costs, each with the parameters chosen for that cost: [costs], and [costs, resamples]."""
        choice, results = self.choices.along_costs, self.choices.results
        exact = summed(
            [
                picked([parts[number].band for parts in results], choice.parts[number])
                for number in range(len(self.parts))
            ]
        )
        return exact, self._resampled(choice, lambda result: result.band_resampled)

    @property
    def reaches(self) -> NDArray[np.bool_]:
        """The band's costs that every part reaches, [costs]."""
        reaches = np.array([[part.reaches for part in parts] for parts in self.choices.results])
        chosen = np.take_along_axis(reaches, self.choices.along_costs.parts[None], axis=0)[0]
        return np.asarray(chosen.all(axis=0))

    @cached_property
    def certainty(self) -> NDArray[np.float64]:
        """Each test sample's certainty under its part's configuration at the primary speed-up, [layers - 1, samples].

        A layer at which some part has no score has none.
        """
        chosen = self.choices.chosen(self.choices.primary)
        merged = empty((chosen[0].certainty.shape[0], len(self.parts[0].test)), np.float64)
        for part, result in zip(self.parts, chosen, strict=True):
            merged[:, part.test] = result.certainty
        merged[[bool(np.isnan(row).any()) for row in merged]] = np.nan
        return set_aside(merged)

    def ranking(self, right: NDArray[np.bool_]) -> Ranking:
        """The ranking at every internal layer, for ``right`` [layers - 1, samples]; pairs within a part."""
        return Ranking(self.certainty, right, fold_numbers(self.parts), self.samples.groups)

    def _resampled(self, choice: Choice, sums_of: Callable[[PartResult], Sums]) -> Sums:
        results = self.choices.results
        if choice.resampled is None:
            return summed([sums_of(part) for part in results[0]])
        return summed(
            [
                picked([sums_of(parts[number]) for parts in results], choice.resampled[number])
                for number in range(len(self.parts))
            ]
        )


def lower_median(values: Sequence[float]) -> float:
    """The median, of an even number the lower of the middle two: one of the values, also where some are infinite.

    >>> lower_median([3.0, float("inf"), 1.0, 2.0]), lower_median([0.5, float("nan")])
    (2.0, nan)
    """
    return float("nan") if np.isnan(values).any() else sorted(values)[(len(values) - 1) // 2]


def realised_speed_up(realised: float, asked: float, error: float) -> tuple[Status, str]:
    """Whether the speed-up on the scored rows is the one asked for: within 2%, or within two standard errors."""
    if abs(realised - asked) <= max((MATCH_TOLERANCE + ROUNDING) * asked, 2 * error):
        return "ok", ""
    return "unmatched", f"{realised:.2f}x on the scored rows, more than {MATCH_TOLERANCE:.0%} from {asked:.2f}x"


def realised_loss(lost: float, asked: float, error: float) -> tuple[Status, str]:
    """Whether the loss on the scored rows keeps to the one asked for, up to two standard errors."""
    over = lost - asked
    if over <= ROUNDING:
        return "ok", ""
    if over > 2 * error:
        return (
            "unmatched",
            f"loses {lost:.2f} points on the scored rows, more than two standard errors beyond {asked:g}",
        )
    return "ok", f"over by {over:.2f}: loses {lost:.2f} points on the scored rows"


def one_layer(layers: Sequence[int], depth: int) -> str:
    """Why an operating point is degenerate, where every sample of each part exits at that part's layer.

    >>> one_layer([6, 6], depth=12)
    'every sample exits at layer 6: a fixed layer, not a signal'
    >>> one_layer([6, 5], depth=12)
    'every sample of a fold exits at one layer (6 or 5): fixed layers, not a signal'
    >>> one_layer([12], depth=12)
    'every sample exits at layer 12, the last: no early exit'
    """
    if len(set(layers)) > 1:
        listed = " or ".join(map(str, dict.fromkeys(layers)))
        return f"every sample of a fold exits at one layer ({listed}): fixed layers, not a signal"
    if layers[0] == depth:
        return f"every sample exits at layer {depth}, the last: no early exit"
    return f"every sample exits at layer {layers[0]}: a fixed layer, not a signal"


def worst(values: Sequence[ResampledPoint]) -> tuple[Status, str]:
    """The most serious status among the parts, with the reason that came with it first."""
    order: tuple[Status, ...] = ("undefined", "unmatched", "unreliable")
    for status in order:
        for value in values:
            if value.status == status:
                return status, value.reason
    return "ok", ""


def summed(parts: Sequence[Sums]) -> Sums:
    """The sum of the parts."""
    return reduce(operator.add, parts)


def picked(candidates: Sequence[Sums], choice: NDArray[np.int64]) -> Sums:
    """The sums of the candidate that was chosen; ``choice`` has the last axes of the sums, such as [resamples]."""
    first = candidates[0]
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(first):
        values = [getattr(candidate, field.name) for candidate in candidates]
        if isinstance(values[0], np.ndarray):
            shape = values[0].shape
            numbers = np.broadcast_to(choice, shape).ravel()
            positions = numbers * numbers.size + np.arange(numbers.size)
            changed[field.name] = np.stack(values).ravel().take(positions, mode="clip").reshape(shape)
    return dataclasses.replace(first, **changed)
