"""Premature and delayed exits at equal exit shares: as many samples exit at a layer as the layer gets right.

At one speed-up two signals exit different shares of the samples of a layer, so that their rates over all decisions
belong to different thresholds. Here the share is the same for every signal and needs no threshold: at each internal
layer (and in each fold) the R most certain samples exit, where R is how many of its predictions are right. A perfect
signal then makes no error of either kind. Wrong exits and right continuations are equally many, so the premature rate
(over the wrong predictions) and the delayed rate (over the right ones) move together: neither can be bought with the
other. Samples tied at the cut exit with equal probability, and what is counted is the expectation.

The standard error is that of the influence function. With e the chance that a sample exits, and c the error rate among
samples at the cut, a sample adds ``e [wrong] + c ([right] - e)`` to the errors: its own, and what it moves the cut by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange, empty
from exitbench.benchmarks.measures.placements import Placements
from exitbench.benchmarks.measures.ranking import Ranking

FEWEST_AT_THE_CUT = 5
"""At least so many samples on either side tell the error rate at the cut."""


@dataclass(frozen=True, eq=False)
class EqualShareErrors:
    """Errors at equal exit shares, of one layer or of several together.

    ``count`` is the expected number of wrong exits, which is that of right continuations. Per sample [samples], summed
    over the layers: ``errors``, what it adds to that number, and how many ``wrong`` and ``right`` predictions it has.
    """

    count: float
    errors: NDArray[np.float64]
    wrong: NDArray[np.float64]
    right: NDArray[np.float64]

    def __add__(self, other: EqualShareErrors) -> EqualShareErrors:
        return EqualShareErrors(
            self.count + other.count, self.errors + other.errors, self.wrong + other.wrong, self.right + other.right
        )

    def decisions(self, measure: str) -> NDArray[np.float64]:
        """What a rate is a share of, per sample: decisions on wrong predictions, or on right ones."""
        return self.wrong if measure == "premature_rate" else self.right

    def rate(self, measure: str) -> float:
        """The premature or the delayed rate in percent; NaN where no decision falls on such a prediction."""
        total = float(self.decisions(measure).sum())
        return 100.0 * self.count / total if total else float("nan")

    def influence(self, measure: str) -> NDArray[np.float64]:
        """The influence values of a rate in percent, [samples]; the root of their sum of squares is its error."""
        decisions = self.decisions(measure)
        return np.asanyarray((100.0 * self.errors - self.rate(measure) * decisions) / decisions.sum())


def equal_share_errors(ranking: Ranking, layer: int) -> EqualShareErrors:
    """The errors at ``layer`` (from 1); where it has no scores, all samples are tied."""
    right = ranking.right[layer - 1].astype(np.float64)
    parts = ranking.sorted_parts(layer)
    if not ranking.scored[layer - 1]:
        here = ranking.some_layers(slice(layer - 1, layer))
        parts = Ranking(np.zeros_like(here.certainty), here.right, here.folds).sorted_parts(1)
    errors, count = empty(ranking.samples, np.float64), 0.0
    for rows, part in parts:
        shares, at_the_cut = exit_shares(part), error_rate_at_the_cut(part)
        easy = part.easy_ranked.astype(np.float64)
        ranked = shares * (1 - easy) + at_the_cut * (easy - shares)
        count += _wrong_exits_in(part)
        by_sample = np.empty_like(ranked)
        by_sample[part.order] = ranked
        errors[rows] = by_sample
    return EqualShareErrors(count, errors, 1 - right, right)


def wrong_exits(ranking: Ranking) -> NDArray[np.float64]:
    """The expected number of wrong exits at every layer, [layers], from the sort that DIS uses, without its error."""
    return np.array([_wrong_exits_at(ranking, layer) for layer in range(1, ranking.layers + 1)])


def _wrong_exits_at(ranking: Ranking, layer: int) -> float:
    if not ranking.scored[layer - 1]:
        return equal_share_errors(ranking, layer).count
    return sum(_wrong_exits_in(part) for _, part in ranking.sorted_parts(layer))


def _wrong_exits_in(part: Placements) -> float:
    if part.sizes is None or part.hard.count is None:
        return float(np.count_nonzero(~part.easy_ranked[cut_of(part) :]))
    return float((_shares_of_groups(part, part.sizes) * part.hard.count).sum())


def all_layers(ranking: Ranking) -> EqualShareErrors:
    """The errors of all layers together."""
    layers = [equal_share_errors(piece, layer) for piece in ranking.pieces() for layer in range(1, piece.layers + 1)]
    return sum(layers[1:], start=layers[0])


def exit_shares(part: Placements) -> NDArray[np.float64]:
    """The chance of each sample to exit, from the least certain on, [samples]; they sum to the right predictions."""
    if part.sizes is None:
        return (arange(len(part.order)) >= cut_of(part)).astype(np.float64)
    return np.repeat(_shares_of_groups(part, part.sizes), part.sizes)


def _shares_of_groups(part: Placements, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The chance to exit that the samples of each group of tied ones have, [groups]."""
    return np.asanyarray(np.clip((np.cumsum(sizes) - cut_of(part)) / sizes, 0.0, 1.0))


def cut_of(part: Placements) -> int:
    """How many samples continue: those from here on, from the least certain, exit."""
    return len(part.order) - part.easy_count


def error_rate_at_the_cut(part: Placements) -> float:
    """The share of wrong predictions among samples about as certain as the cut: nearest neighbours, or its ties.

    Of tied samples that are neighbours only in part, each is so with the same chance: their order means nothing.
    """
    size, cut = len(part.order), cut_of(part)
    half = max(FEWEST_AT_THE_CUT, round(size ** (2 / 3) / 2))
    low, high = max(cut - half, 0), min(cut + half, size)
    if part.sizes is None or part.hard.count is None:
        return float(np.mean(~part.easy_ranked[low:high]))
    ends = np.cumsum(part.sizes)
    group = min(int(np.searchsorted(ends, cut, side="right")), len(ends) - 1)
    start, end = int(ends[group] - part.sizes[group]), int(ends[group])
    if start < cut and end - start > high - low:
        low, high = start, end
    wrong_below = np.interp([low, high], np.append(0, ends), np.append(0, np.cumsum(part.hard.count)))
    return float(np.diff(wrong_below)[0] / (high - low))
