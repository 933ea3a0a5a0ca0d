"""The choice among the configurations of a grid: anew for every operating point, part by part and resample by resample.

Whoever wants a speed-up picks the parameters for that speed-up. So each operating point has its own choice: near a
speed-up the configuration with the highest training score there, within a loss the one with the largest speed-up on the
training samples; ties go to the default. A configuration whose training samples would all exit at one layer, a fixed
layer and not the signal, is chosen only where no other is there. Curves are chosen cost by cost. What belongs to no
operating point (DIS, AURC) uses the choice at the primary speed-up, exit rates use the choice at theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.protocols.part_result import Criterion, PartResult
from exitbench.benchmarks.protocols.splits import choice_counts, describe_choice
from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up
from exitbench.benchmarks.statistics.intervals import choose_resampled
from exitbench.benchmarks.suites.questions import Questions

Results = Sequence[Sequence[PartResult]]
"""Everything about some configurations, [configurations][parts]."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Which configuration each part uses, [parts], and each part in each resample, [parts, resamples].

    Along a curve both have one more axis, the costs: [parts, costs] and [parts, costs, resamples].
    """

    parts: NDArray[np.int64]
    resampled: NDArray[np.int64] | None

    @classmethod
    def only(cls, configuration: int, parts: int) -> Choice:
        """The same configuration everywhere: nothing was chosen."""
        return cls(np.full(parts, configuration, dtype=np.int64), None)


def choose(results: Results, default: int, criterion_of: Callable[[PartResult], Criterion]) -> Choice:
    """The configuration with the largest criterion, ties to ``default``, the position of the default configuration.

    Among others that tie without it, the first one wins; the default also where no configuration has a criterion.
    """
    chosen = [_choose_in_part(list(map(criterion_of, of_part)), default) for of_part in zip(*results, strict=True)]
    return Choice(np.stack([exact for exact, _ in chosen]), np.stack([resampled for _, resampled in chosen]))


def _choose_in_part(criteria: Sequence[Criterion], default: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The choice in one part, and in each of its resamples, among configurations with these ``criteria``."""
    exact = [criterion.value for criterion in criteria], [criterion.one_layer for criterion in criteria]
    resampled = (
        [criterion.resampled for criterion in criteria],
        [criterion.one_layer_resampled for criterion in criteria],
    )
    first, second = (
        choose_resampled(signals_first(np.stack(values), np.stack(one_layer)), default)
        for values, one_layer in (exact, resampled)
    )
    return first, second


def signals_first(values: NDArray[np.float64], one_layer: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Criteria [configurations, ...] without those that are a fixed layer, where any other configuration has one.

    >>> signals_first(np.array([[85.7, 85.7], [85.1, np.nan]]), np.array([[True, True], [False, False]])).tolist()
    [[nan, 85.7], [85.1, nan]]
    """
    if not one_layer.any():
        return values
    others = (~np.isnan(values) & ~one_layer).any(axis=0)
    return np.where(one_layer & others, np.nan, values)


class Choices:
    """The choices of one entry of a suite under one protocol, each made on first use.

    ``results`` are [configurations][parts] and ``names`` the parameters of each configuration; a single configuration
    needs no choice.
    """

    def __init__(self, results: Results, names: Sequence[str], default: int, questions: Questions) -> None:
        self.results, self.names, self.default = results, tuple(names), default
        self.primary, self.rates = at_speed_up(questions.primary_speed_up), at_speed_up(questions.rates_speed_up)
        self._points: dict[OperatingPoint, Choice] = {}

    @property
    def parts(self) -> int:
        return len(self.results[0])

    @property
    def single(self) -> bool:
        """Whether there is nothing to choose from."""
        return len(self.results) == 1

    def at(self, point: OperatingPoint) -> Choice:
        """The choice for an operating point; the primary one for what is none, or is a given threshold."""
        asked = point if point.kind in ("speed_up", "loss") else self.primary
        if self.single:
            return Choice.only(0, self.parts)
        if asked not in self._points:
            self._points[asked] = choose(self.results, self.default, lambda part: part.criteria[asked])
        return self._points[asked]

    @cached_property
    def along_costs(self) -> Choice:
        """The choice at each of the band's costs."""
        if self.single:
            costs = len(self.results[0][0].reaches)
            return Choice(np.zeros((self.parts, costs), dtype=np.int64), None)
        return choose(self.results, self.default, lambda part: part.band_criteria)

    def chosen(self, point: OperatingPoint) -> list[PartResult]:
        """The result of each part's configuration at an operating point, [parts]."""
        return [self.results[int(number)][part] for part, number in enumerate(self.at(point).parts)]

    def chosen_names(self, point: OperatingPoint) -> list[str]:
        """The parameters that each part uses at an operating point, [parts]."""
        return [self.names[int(number)] for number in self.at(point).parts]

    def described(self, point: OperatingPoint) -> tuple[str, str | None]:
        """What was chosen in words, and as the column ``chosen`` of the results has it; nothing where nothing was."""
        if self.single:
            return "", None
        names = self.chosen_names(point)
        return describe_choice(names), json.dumps(choice_counts(names))
