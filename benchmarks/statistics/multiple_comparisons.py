"""Many comparisons in one table column: Holm's adjustment, and which entries may be called best.

Holm's step-down procedure over all pairs of a column keeps the chance of even one false claim at 5%, whatever the
dependence between the tests. Over the pairs with the best alone it would not: which entry is best was seen on the same
samples, and eight equal signals then give a false claim in 12% to 15% of columns. An entry whose adjusted p-value
against the best stays above 5% is *tied with the best*: not shown to be worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.results.vocabulary import is_claimed


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm-adjusted p-values in the order given, [tests]; NaN (no test) stays NaN and does not count as a test.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(raw.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(raw))
    order = tested[np.argsort(raw[tested], kind="stable")]
    steps = raw[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


@dataclass(frozen=True, eq=False)
class ColumnMarks:
    """Per entry: is it the best, is it tied with the best (the best itself is); per pair, Holm's adjusted p-value."""

    best: NDArray[np.bool_]
    tied_with_best: NDArray[np.bool_]
    adjusted: Mapping[tuple[int, int], float]

    @property
    def first_best(self) -> int:
        """The position of the first entry that is best, -1 where none is."""
        return int(np.argmax(self.best)) if self.best.any() else -1


def column_marks(
    values: ArrayLike, p_values: Mapping[tuple[int, int], float], *, larger_is_better: bool = True
) -> ColumnMarks:
    """Mark the best of ``values`` [entries] and all entries not shown to be worse.

    ``p_values`` are those of all pairs (first, second) of entries with a value; NaN means that the test is undefined,
    so nothing is shown and the entry is not called tied. A NaN value takes no part. Entries that equal the best value
    are all best; the others are held against the first of them.
    """
    entries = np.asarray(values, dtype=np.float64)
    part = ~np.isnan(entries)
    adjusted = dict(zip(p_values, holm(list(p_values.values())).tolist(), strict=True))
    if not part.any():
        return ColumnMarks(part.copy(), part.copy(), adjusted)
    certain = np.where(part, entries if larger_is_better else -entries, -np.inf)
    first = int(np.argmax(certain))
    best = part & (certain == certain[first])
    tied = best.copy()
    for other in np.flatnonzero(part & ~best):
        p_value = adjusted[min(first, int(other)), max(first, int(other))]
        tied[other] = not (np.isnan(p_value) or is_claimed(p_value))
    return ColumnMarks(best, tied, adjusted)
