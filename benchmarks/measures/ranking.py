"""How well a signal ranks: DIS, tied share, AURC and their errors, for all layers of one signal.

DIS (Difficulty Inversion Score) at a layer: over all (hard, easy) pairs, the share in which the signal is more certain
of the easy one, ties one half, times 100; that is 100 x AUROC of certainty against correctness. AURC: the mean over
coverages 1/n..1 of the error rate among the most certain, in percent; excess AURC subtracts the smallest value that
this many errors allow. With folds, pairs are counted within a fold and pooled over folds (sum of pairs in order over
sum of pairs), and AURC is the mean of the folds' AURC weighted by their samples.

The standard error is DeLong's: the spread of the placements of the hard samples over their number, plus the same for
the easy ones. With folds each placement is measured from the pooled score, which is the same formula where there is one
fold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import zeros
from exitbench.benchmarks.measures.placements import Moments, Placements, best_risk_area, layer_placements
from exitbench.benchmarks.results.status import FEWEST_OF_A_KIND, Verdict
from exitbench.benchmarks.results.vocabulary import TIES, Ties
from exitbench.benchmarks.scoring.groups import summed_by_group
from exitbench.errors import InputError

TOGETHER = 1 << 16
"""Samples of a layer times layers that are ranked together; more would only take memory."""
FEW_FOLDS = 64


@dataclass(frozen=True, eq=False)
class Ranking:
    """One signal's ranking at each layer: ``certainty`` [layers, samples], ``right`` [layers, samples].

    ``folds`` [samples] restricts pairs to one fold; the errors let samples of one of the ``groups`` [samples] depend on
    each other. A layer without scores is a row of NaN. Every result is [layers],
    NaN where it is undefined; each layer (and fold) is sorted once, however many results are read.
    """

    certainty: NDArray[np.float64]
    right: NDArray[np.bool_]
    folds: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.certainty.ndim != 2 or self.certainty.shape != self.right.shape:
            raise InputError(
                f"expected certainty and correctness of one shape [layers, samples], "
                f"found {self.certainty.shape} and {self.right.shape}"
            )

    @property
    def layers(self) -> int:
        return int(self.certainty.shape[0])

    @property
    def samples(self) -> int:
        return int(self.certainty.shape[1])

    @cached_property
    def scored(self) -> NDArray[np.bool_]:
        """Which layers have scores, [layers]."""
        return ~np.isnan(self.certainty[:, 0])

    @cached_property
    def easy(self) -> NDArray[np.int64]:
        """How many samples each layer gets right, [layers]."""
        return np.asarray(self.right.sum(axis=1), dtype=np.int64)

    @cached_property
    def hard(self) -> NDArray[np.int64]:
        """How many samples each layer gets wrong, [layers]."""
        return self.samples - self.easy

    @cached_property
    def _parts(self) -> list[NDArray[np.intp] | slice]:
        if self.folds is None:
            return [slice(None)]
        first, last = int(self.folds.min(initial=0)), int(self.folds.max(initial=0))
        # A look for each of a few numbers is quicker than a search for those that are there.
        numbers = range(first, last + 1) if last - first < FEW_FOLDS else np.unique(self.folds)
        return [rows for rows in (np.flatnonzero(self.folds == fold) for fold in numbers) if len(rows)]

    @cached_property
    def _placed(self) -> list[list[Placements]]:
        """The sorted samples of every layer and fold; no fold at a layer without scores."""
        placed: list[list[Placements]] = [[] for _ in range(self.layers)]
        scored = np.flatnonzero(self.scored)
        together = max(TOGETHER // max(self.samples, 1), 1)
        for start in range(0, len(scored), together):
            layers = scored[start : start + together]
            certainty, right = self.certainty[layers], self.right[layers]
            for rows in self._parts:
                several = layer_placements(certainty[:, rows], right[:, rows])
                for layer, of_layer in zip(layers, several, strict=True):
                    placed[layer].append(of_layer)
        return placed

    def some_layers(self, layers: slice) -> Ranking:
        """The ranking at some layers, a slice of rows, so that nothing is computed for the others."""
        return Ranking(self.certainty[layers], self.right[layers], self.folds, self.groups)

    def pieces(self) -> Iterator[Ranking]:
        """The layers some at a time, as many as are sorted together without taking much memory.

        Few layers of few samples are one piece, the ranking itself, which sorts them once for all who ask.
        """
        if self.is_small:
            yield self
            return
        together = max(TOGETHER // self.samples, 1)
        for start in range(0, self.layers, together):
            yield self.some_layers(slice(start, start + together))

    def piece_of(self, layer: int) -> tuple[Ranking, int]:
        """A ranking with ``layer`` (from 1), and its number there: of a large one a single layer is sorted."""
        return (self, layer) if self.is_small else (self.some_layers(slice(layer - 1, layer)), 1)

    @property
    def is_small(self) -> bool:
        """Whether all layers are sorted together."""
        return self.samples * self.layers <= TOGETHER

    def sorted_parts(self, layer: int) -> list[tuple[NDArray[np.intp] | slice, Placements]]:
        """The samples of each fold with their placements at ``layer`` (from 1); none where there are no scores."""
        placed = self._placed[layer - 1]
        return list(zip(self._parts, placed, strict=True)) if placed else []

    def _moments_of(self, ties: Ties) -> list[list[tuple[Moments, Moments]]]:
        """The moments of hard and of easy samples in every layer and fold."""
        strict = _strict(ties)
        if strict not in self._moments:
            self._moments[strict] = [
                [(part.hard.moments(strict=strict), part.easy.moments(strict=strict)) for part in placed]
                for placed in self._placed
            ]
        return self._moments[strict]

    @cached_property
    def _moments(self) -> dict[bool, list[list[tuple[Moments, Moments]]]]:
        return {}

    @cached_property
    def _dis(self) -> dict[Ties, NDArray[np.float64]]:
        return {}

    @cached_property
    def _std_errs(self) -> dict[Ties, NDArray[np.float64]]:
        return {}

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """The number of (hard, easy) pairs that are compared, [layers]; 0 where there are no scores."""
        return np.array(
            [sum(hard * easy for hard, easy in map(_kinds, placed)) for placed in self._placed], dtype=np.int64
        )

    def dis(self, ties: Ties = "half") -> NDArray[np.float64]:
        """DIS in percent, [layers]; NaN without scores or without a pair to compare."""
        if ties not in self._dis:
            won = [sum(hard[1] for hard, _ in moments) for moments in self._moments_of(ties)]
            self._dis[ties] = _share(100.0 * np.array(won), 2 * self.pairs)
        return self._dis[ties]

    @cached_property
    def tied_share(self) -> NDArray[np.float64]:
        """The share of tied pairs in percent, [layers]."""
        tied = [sum(part.tied_pairs for part in placed) for placed in self._placed]
        return _share(100.0 * np.array(tied), self.pairs)

    @cached_property
    def aurc(self) -> NDArray[np.float64]:
        """AURC in percent, [layers]; ties as the expectation over orders within a tied group."""
        area = [sum(part.risk_area for part in placed) if placed else np.nan for placed in self._placed]
        return 100.0 * np.array(area) / self.samples

    @cached_property
    def excess_aurc(self) -> NDArray[np.float64]:
        """AURC less its exact optimum for this many samples and errors, in percent, [layers]."""
        best = [sum(best_risk_area(len(part.order), _kinds(part)[0]) for part in placed) for placed in self._placed]
        return self.aurc - 100.0 * np.array(best) / self.samples

    def std_err(self, ties: Ties = "half") -> NDArray[np.float64]:
        """DeLong's standard error of DIS in percent, [layers]; exactly 0 where no placement differs from another."""
        if ties not in self._std_errs:
            self._std_errs[ties] = (
                np.array([_std_err(moments) for moments in self._moments_of(ties)])
                if self.groups is None
                else np.array([self._clustered_std_err(row, ties) for row in range(self.layers)])
            )
        return self._std_errs[ties]

    def _clustered_std_err(self, row: int, ties: Ties) -> float:
        """The cluster-robust standard error of a row of layers: influence is summed within groups first."""
        if not self._placed[row] or self.pairs[row] == 0:
            return float("nan")
        return float(np.linalg.norm(summed_by_group(self.influence(row + 1, ties), self.groups)))

    def influence(self, layer: int, ties: Ties = "half") -> NDArray[np.float64]:
        """The influence values of DIS at ``layer`` (from 1): what each sample adds to its error, in percent, [samples].

        The sum of squares is DeLong's variance; for two signals, the sum of squares of the differences is the
        variance of the paired difference.
        """
        row = layer - 1
        won, others = (zeros(self.samples, np.float64) for _ in range(2))
        for rows, part in zip(self._parts, self._placed[row], strict=True):
            hard, easy = _kinds(part)
            won[rows] = part.won(strict=_strict(ties)) / 2
            others[rows] = np.where(self.right[row, rows], hard, easy)
        kind = np.where(self.right[row], self.easy[row], self.hard[row])
        score = self.dis(ties)[row] / 100.0
        spread = np.sqrt(kind / np.maximum(kind - 1, 1))
        return np.asanyarray(100.0 * spread * (won - score * others) / self.pairs[row])

    def verdict(self, layer: int) -> Verdict:
        """Whether DIS at ``layer`` (from 1) exists, and whether its error can be believed."""
        row = layer - 1
        hard, easy = int(self.hard[row]), int(self.easy[row])
        if not self.scored[row]:
            return Verdict("undefined", "the signal has no score at this layer")
        if hard == 0 or easy == 0:
            return Verdict("undefined", f"the layer has no {'hard' if hard == 0 else 'easy'} sample")
        if self.pairs[row] == 0:
            return Verdict("undefined", "no fold has both a hard and an easy sample")
        if min(hard, easy) < FEWEST_OF_A_KIND:
            return Verdict("unreliable", f"only {hard} hard and {easy} easy samples")
        if self.tied_share[row] == 100.0:
            return Verdict("unreliable", "all pairs are tied")
        return Verdict()


def _strict(ties: Ties) -> bool:
    if ties not in TIES:
        raise InputError(f"expected ties 'half' or 'strict', found {ties!r}")
    return ties == "strict"


def _kinds(part: Placements) -> tuple[int, int]:
    """The number of hard and of easy samples."""
    return len(part.order) - part.easy_count, part.easy_count


def _std_err(parts: list[tuple[Moments, Moments]]) -> float:
    """DeLong's standard error in percent from integer moments, so that no spread is exactly no spread.

    With W the doubled wins over all folds and T their pairs, a hard sample in a fold with E easy ones is off by
    w - (W / T) E; the squares of that sum to (T^2 sum w^2 - 2 W T sum E w + W^2 sum E^2) / T^2. Easy samples likewise.
    """
    sizes = [(hard[0], easy[0]) for hard, easy in parts]
    pairs = sum(hard * easy for hard, easy in sizes)
    if pairs == 0:
        return float("nan")
    variance = 0.0
    for kind, other in ((0, 1), (1, 0)):
        moments = [part[kind] for part in parts]
        won = sum(first for _, first, _ in moments)
        squares = sum(second for _, _, second in moments)
        cross = sum(size[other] * first for size, (_, first, _) in zip(sizes, moments, strict=True))
        others = sum(size[kind] * size[other] ** 2 for size in sizes)
        count = sum(size[kind] for size in sizes)
        off = pairs * pairs * squares - 2 * won * pairs * cross + won * won * others
        variance += off / (4 * pairs**4) * count / max(count - 1, 1)
    return 100.0 * math.sqrt(variance)


def _share(part: NDArray[np.float64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    size = whole.astype(np.float64)
    return np.divide(part, size, out=np.full_like(size, np.nan), where=size > 0)
