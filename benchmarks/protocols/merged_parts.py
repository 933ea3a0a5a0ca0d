"""Choosing among configurations, and merging the parts of a protocol into one set of answers.

A choice is one configuration per part, made on that part's training samples; in a resample it is made
again on the resampled training samples. Merging adds up the parts' sums, so that a task score is computed
once, over the predictions of all test samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import RateTally
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.choice import Choice
from exitbench.benchmarks.protocols.part_points import PartReading, PartResult
from exitbench.benchmarks.protocols.splits import Part, fold_numbers
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.status import Status

S = TypeVar("S", Tally, RateTally)


@dataclass(frozen=True, eq=False)
class MergedReading:
    """A reading over all test samples; ``threshold`` is NaN where the parts have different ones."""

    threshold: float
    exits: NDArray[np.int64] | None
    tally: Tally
    resampled: Tally
    status: Status
    reason: str
    randomised: Tally | None


class Merged:
    """One entry of a suite under one protocol: the parts' results, each with its chosen configuration.

    ``results`` are [configurations][parts]; properties are computed on first use.
    """

    def __init__(self, results: Sequence[Sequence[PartResult]], parts: tuple[Part, ...], choice: Choice) -> None:
        self.results, self.parts, self.choice = results, parts, choice
        self._readings: dict[OperatingPoint, MergedReading] = {}
        self._chosen = [results[int(choice.parts[number])][number] for number in range(len(parts))]

    @property
    def points(self) -> list[OperatingPoint]:
        return list(self._chosen[0].points)

    def reading(self, point: OperatingPoint) -> MergedReading:
        """What the signal gives at an operating point, over all parts."""
        if point not in self._readings:
            self._readings[point] = self._merged_reading(point)
        return self._readings[point]

    def _merged_reading(self, point: OperatingPoint) -> MergedReading:
        found = [result.points[point] for result in self._chosen]
        status, reason = worst(found)
        thresholds = {reading.threshold for reading in found}
        exits: NDArray[np.int64] | None = None
        if status != "undefined":
            exits = np.zeros(len(self.parts[0].test), dtype=np.int64)
            for part, reading in zip(self.parts, found, strict=True):
                assert reading.exits is not None
                exits[part.test] = reading.exits
        randomised = [reading.randomised for reading in found]
        return MergedReading(
            thresholds.pop() if len(thresholds) == 1 else float("nan"),
            exits,
            added([reading.tally for reading in found]),
            self._resampled(lambda result: result.points[point].resampled),
            status,
            reason,
            None if any(one is None for one in randomised) else added([one for one in randomised if one is not None]),
        )

    @cached_property
    def every_decision(self) -> tuple[RateTally, RateTally]:
        """Decisions ``all``: [layers - 1], and [layers - 1, resamples]."""
        return added([one.rates.every for one in self._chosen]), self._resampled(lambda one: one.rates.every_resampled)

    @cached_property
    def reached_decisions(self) -> tuple[RateTally, RateTally]:
        """Decisions ``reached``: [layers - 1], and over all layers [resamples]."""
        return (
            added([one.rates.reached for one in self._chosen]),
            self._resampled(lambda one: one.rates.reached_resampled),
        )

    @cached_property
    def band(self) -> tuple[Tally, Tally]:
        """Sums at the band's costs: [costs], and [costs, resamples]."""
        return added([one.band for one in self._chosen]), self._resampled(lambda one: one.band_resampled)

    @property
    def reaches(self) -> NDArray[np.bool_]:
        """The band's costs that every part reaches, [costs]."""
        return np.asarray(np.logical_and.reduce([one.reaches for one in self._chosen]))

    @cached_property
    def certainty(self) -> NDArray[np.float64]:
        """Each test sample's certainty under its part's configuration, [layers - 1, samples].

        A layer at which some part has no score has none.
        """
        merged = np.empty((self._chosen[0].certainty.shape[0], len(self.parts[0].test)))
        for part, result in zip(self.parts, self._chosen, strict=True):
            merged[:, part.test] = result.certainty
        merged[np.isnan(merged).any(axis=1)] = np.nan
        return merged

    def ranking(self, right: NDArray[np.bool_]) -> Ranking:
        """The ranking at every internal layer, for ``right`` [layers - 1, samples]; pairs within a part."""
        return Ranking(self.certainty, right, fold_numbers(self.parts))

    def _resampled(self, read: Callable[[PartResult], S]) -> S:
        if self.choice.resampled is None:
            return added([read(result) for result in self._chosen])
        return added(
            [
                picked([read(parts[number]) for parts in self.results], self.choice.resampled[number])
                for number in range(len(self.parts))
            ]
        )


def worst(readings: Sequence[PartReading]) -> tuple[Status, str]:
    """The most serious status among the parts, with the reason that came with it first."""
    order: tuple[Status, ...] = ("undefined", "unmatched", "unreliable")
    for status in order:
        for reading in readings:
            if reading.status == status:
                return status, reading.reason
    return "ok", ""


def added(parts: Sequence[S]) -> S:
    """The sum of the parts."""
    return reduce(lambda mine, theirs: mine + theirs, parts)


def picked(candidates: Sequence[S], choice: NDArray[np.int64]) -> S:
    """In each resample the sums of the candidate that was chosen there; ``choice`` is [resamples]."""
    first = candidates[0]
    columns = np.arange(len(choice))
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(first):
        values = [getattr(one, field.name) for one in candidates]
        if isinstance(values[0], np.ndarray):
            stacked = np.stack(values)
            changed[field.name] = np.moveaxis(stacked, 0, -2)[..., choice, columns]
    return dataclasses.replace(first, **changed)
