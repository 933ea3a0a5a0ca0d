"""Holm's adjustment for the many comparisons of a table column, and which entries may be called best.

In a column one entry has the best value. Every other entry is tested against it; Holm's step-down procedure keeps
the chance of even one false claim of inferiority at 5%, whatever the dependence between the tests. An entry whose
adjusted p-value stays above that is *tied with the best*: not shown to be worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.results.vocabulary import SIGNIFICANCE


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm-adjusted p-values in the same order, [tests]; NaN (no test) stays NaN and does not count as a test.

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
    """Per entry: is it the best, is it tied with the best (the best itself is), its adjusted p-value against it."""

    best: NDArray[np.bool_]
    tied_with_best: NDArray[np.bool_]
    adjusted: NDArray[np.float64]


def against_best(
    values: ArrayLike,
    p_value: Callable[[int, int], float],
    *,
    larger_is_better: bool = True,
    alpha: float = SIGNIFICANCE,
) -> ColumnMarks:
    """Mark the best of ``values`` [entries] and all entries not significantly worse.

    A NaN value takes no part (undefined, unmatched). ``p_value(best, other)`` is called once for every other entry;
    NaN from it means that the test is undefined, so nothing is shown and the entry is not called tied. Entries
    that equal the best value are all best; each of them is compared with the first.
    """
    entries = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(entries)
    p_values = np.full(entries.shape, np.nan)
    if not defined.any():
        return ColumnMarks(defined.copy(), defined.copy(), p_values)
    oriented = np.where(defined, entries if larger_is_better else -entries, -np.inf)
    first = int(np.argmax(oriented))
    for other in np.flatnonzero(defined):
        if other != first:
            p_values[other] = p_value(first, int(other))
    adjusted = holm(p_values)
    best = defined & (oriented == oriented[first])
    with np.errstate(invalid="ignore"):
        tied = defined & (best | (adjusted > alpha))
    return ColumnMarks(best, tied, adjusted)
