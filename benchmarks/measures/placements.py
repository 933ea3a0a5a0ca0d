"""DeLong placements: one sort of one layer's certainties, and everything a ranking measure needs from it.

A sample is *hard* when its early prediction is wrong, *easy* when it is right. For each sample its placement is
counted among the samples of the other kind: how many pairs it is in the right order with (the easy one more certain),
and how many it is tied with. DIS is the sum of the placements; DeLong's variance is their spread; AURC needs only
the hard samples' ranks. All counts are integers, so rankings that agree give results that agree to the last bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange, empty
from exitbench.benchmarks.arrays.set_aside import set_aside

Moments = tuple[int, int, int]
"""How many samples, and the sum and the sum of squares of twice the pairs that each wins."""


LIMB = 19
"""Bits of a limb: products of two limbs of up to 2^25 samples add up below 2^63."""


def exact_dot(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """The sum of the products of counts, exactly: where 64 bits may not hold it, limb by limb.

    >>> exact_dot(np.array([2**40, 3]), np.array([2**40, 5])) == 2**80 + 15
    True
    """
    if len(left) * int(left.max(initial=0)) * int(right.max(initial=0)) < 2**63:
        return int(left @ right)
    return sum(
        int(first @ second) << (shift + other) for shift, first in _limbs(left) for other, second in _limbs(right)
    )


def _limbs(counts: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    bits = int(counts.max()).bit_length()
    return [(shift, (counts >> shift) & (2**LIMB - 1)) for shift in range(0, bits, LIMB)]


@dataclass(frozen=True, eq=False)
class KindPlacements:
    """The placements of one kind of sample, bottom up: ``doubled`` is twice the pairs in order plus the ties.

    ``tied`` are the ties and ``count`` how many samples share the entry; both ``None`` where no sample is tied at all.
    Then ``untied`` are the moments, where they are known already.
    """

    doubled: NDArray[np.int64]
    tied: NDArray[np.int64] | None = None
    count: NDArray[np.int64] | None = None
    untied: Moments | None = None

    def moments(self, *, strict: bool) -> Moments:
        """The moments of the placements; exact."""
        if self.untied is not None:
            return self.untied
        won = self.doubled - self.tied if strict and self.tied is not None else self.doubled
        if self.count is None:
            return len(won), int(won.sum()), exact_dot(won, won)
        weighted = self.count * won
        return int(self.count.sum()), int(weighted.sum()), exact_dot(weighted, won)


@dataclass(frozen=True, eq=False)
class Placements:
    """One sorted layer: ``order`` [samples] sorts it upwards, ``easy_ranked`` [samples] are the right ones so ordered.

    ``sizes`` [groups] are the sizes of the groups of equal certainty, ``None`` where all differ. ``risk_area`` is the
    sum over coverages 1/n..1 of the expected error rate among the most certain.
    """

    order: NDArray[np.intp]
    easy_ranked: NDArray[np.bool_]
    sizes: NDArray[np.int64] | None
    hard: KindPlacements
    easy: KindPlacements
    risk_area: float

    @property
    def easy_count(self) -> int:
        """How many samples are right."""
        return len(self.easy.doubled) if self.easy.count is None else int(self.easy.count.sum())

    @property
    def tied_pairs(self) -> int:
        """The number of (hard, easy) pairs of equal certainty."""
        if self.hard.tied is None or self.hard.count is None:
            return 0
        return int(self.hard.tied @ self.hard.count)

    def won(self, *, strict: bool) -> NDArray[np.int64]:
        """Twice the pairs each sample wins, in the order of the samples, [samples]."""
        ranked = empty(len(self.order), np.int64)
        for kind, of_kind in ((self.hard, ~self.easy_ranked), (self.easy, self.easy_ranked)):
            won = kind.doubled - kind.tied if strict and kind.tied is not None else kind.doubled
            ranked[of_kind] = won if self.sizes is None else np.repeat(won, self.sizes)[of_kind]
        by_sample = np.empty_like(ranked)
        by_sample[self.order] = ranked
        return by_sample


def placements(certainty: NDArray[np.float64], right: NDArray[np.bool_]) -> Placements:
    """The placement of every sample among those of the other kind, by one sort of ``certainty`` [samples]."""
    (placed,) = layer_placements(certainty[None], right[None])
    return placed


def layer_placements(certainty: NDArray[np.float64], right: NDArray[np.bool_]) -> list[Placements]:
    """The same for several layers, both [layers, samples]: on small caches a sort costs less than calls around it."""
    layers, size = certainty.shape
    order = np.argsort(certainty, axis=1)
    positions = order + size * np.arange(layers)[:, None]
    ranked, easy = certainty.ravel().take(positions), right.ravel().take(positions)
    new = ranked[:, 1:] != ranked[:, :-1]
    differ = new.all(axis=1)
    untied = iter(_untied_placements(order[differ], easy[differ]) if differ.any() else ())
    return [
        next(untied) if differs else _tied_placements(order[layer], easy[layer], new[layer])
        for layer, differs in enumerate(differ.tolist())
    ]


def _untied_placements(order: NDArray[np.intp], easy: NDArray[np.bool_]) -> list[Placements]:
    """Sorted layers without ties, both [layers, samples].

    Below position p are p samples; how many of them are of the same kind is its rank within the kind. The hard sample
    at position p is among the k most certain from k = samples - p on.
    """
    layers, size = order.shape
    harmonic = harmonic_numbers(size)
    hard_at, hard_rank, hard_ends = _of_kind(~easy)
    easy_at, easy_rank, easy_ends = _of_kind(easy)
    easies_of = np.diff(easy_ends) if layers == 1 else np.repeat(np.diff(easy_ends), np.diff(hard_ends))
    hard_doubled = 2 * (easies_of - hard_at + hard_rank)
    easy_doubled = 2 * (easy_at - easy_rank)
    hard_moments, easy_moments = _untied_moments(hard_doubled, hard_ends), _untied_moments(easy_doubled, easy_ends)
    covered = harmonic.take(size - 1 - hard_at)
    placed = []
    for layer in range(layers):
        hards, easies = (slice(ends[layer], ends[layer + 1]) for ends in (hard_ends, easy_ends))
        area = (hards.stop - hards.start) * harmonic[size] - covered[hards].sum()
        hard = KindPlacements(hard_doubled[hards], untied=hard_moments[layer])
        easy_kind = KindPlacements(easy_doubled[easies], untied=easy_moments[layer])
        placed.append(Placements(order[layer], easy[layer], None, hard, easy_kind, float(area)))
    return placed


def _untied_moments(doubled: NDArray[np.int64], ends: NDArray[np.int64]) -> Sequence[Moments | None]:
    """The moments of each layer, whose placements lie between its ``ends``; ``None`` where 64 bits may be too few."""
    if len(doubled) * int(doubled.max(initial=0)) ** 2 >= 2**63:
        return [None] * (len(ends) - 1)
    pieces = [doubled[start:end] for start, end in itertools.pairwise(ends.tolist())]
    return [(len(piece), int(piece.sum()), int(piece @ piece)) for piece in pieces]


def _of_kind(marked: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The positions of the ``marked`` samples [layers, samples] and their ranks among them, layer after layer.

    The third are the ends of the layers in both, from 0 on, [layers + 1].
    """
    layers, size = marked.shape
    counts = np.count_nonzero(marked, axis=1)
    ends = np.concatenate([[0], np.cumsum(counts)])
    at = np.flatnonzero(marked)
    rank = arange(len(at))
    for layer in range(1, layers):
        at[ends[layer] : ends[layer + 1]] -= size * layer
        rank[ends[layer] : ends[layer + 1]] -= ends[layer]
    return at, rank, ends


def _tied_placements(order: NDArray[np.intp], easy: NDArray[np.bool_], new: NDArray[np.bool_]) -> Placements:
    """One sorted layer with ties; ``new`` [samples - 1] says where another certainty begins."""
    size = len(order)
    bounds = np.concatenate([[0], np.flatnonzero(new) + 1, [size]])
    easy_until = np.concatenate([[0], np.cumsum(easy)])[bounds]
    sizes, easy_here = np.diff(bounds), np.diff(easy_until)
    hard_here = sizes - easy_here
    hard = KindPlacements(2 * (easy_until[-1] - easy_until[1:]) + easy_here, easy_here, hard_here)
    easies = KindPlacements(2 * (bounds[:-1] - easy_until[:-1]) + hard_here, hard_here, easy_here)
    area = _tied_risk_area(size - bounds[1:], sizes, hard_here, harmonic_numbers(size))
    return Placements(order, easy, sizes, hard, easies, area)


def _tied_risk_area(
    above: NDArray[np.int64], sizes: NDArray[np.int64], hard: NDArray[np.int64], harmonic: NDArray[np.float64]
) -> float:
    """The expected risk area when the order within each tied group is drawn at random.

    A group of g samples, h of them hard, takes the ranks a+1..a+g. At rank k inside it, the expected number of its
    hard samples so far is h (k - a) / g, and it is h at every rank below; dividing by k and summing gives
    h ((g - a (H(a+g) - H(a))) / g + H(n) - H(a+g)) with the harmonic numbers H.
    """
    within = 1 - above * (harmonic[above + sizes] - harmonic[above]) / sizes
    after = harmonic[-1] - harmonic[above + sizes]
    return float(np.sum(hard * (within + after)))


def best_risk_area(size: int, hard: int) -> float:
    """The smallest risk area that ``hard`` wrong predictions among ``size`` allow: all of them at the very bottom."""
    harmonic = harmonic_numbers(size)
    return float(hard - (size - hard) * (harmonic[size] - harmonic[size - hard]))


def harmonic_numbers(count: int) -> NDArray[np.float64]:
    """H(0)..H(count), [count + 1], not to be written to: the beginning of a longer row of them that is kept."""
    return _harmonic_numbers_below(1 << count.bit_length())[: count + 1]


@lru_cache(maxsize=32)
def _harmonic_numbers_below(limit: int) -> NDArray[np.float64]:
    numbers = set_aside(np.concatenate([[0.0], np.cumsum(1.0 / arange(limit, 1))]))
    numbers.flags.writeable = False
    return numbers
