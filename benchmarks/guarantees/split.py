"""Which rows choose, which certify, and in which order they are bet on: functions of ids, never of row order or labels.

The choosing rows fit what learns, choose parameters and make the grid of thresholds; the certifying rows are seen by
nothing before they are tested, which is what every proof asks for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import order_of
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.statistics.hashed_randomness import sample_words
from exitbench.errors import InputError

SPLIT_STREAM = 0x73706C74
ORDER_STREAM = 0x6F726472
"""Separate the draws of the split and of the order from each other and from those of folds and resamples."""

CHOOSING = "choosing"
"""The variant of a signal that was fitted on the choosing rows."""


def choosing_rows(units: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """The half that everything is chosen on, a mask [samples]; samples of one of the ``units`` stay together."""
    return np.asanyarray(sample_words(seed, units, SPLIT_STREAM) % np.uint64(2) == 0)


def certifying_part(units: NDArray[np.int64], seed: int) -> Part:
    """The choosing rows as training samples and the certifying rows as test samples.

    Raises InputError where one of the halves has no row.
    """
    choosing = choosing_rows(units, seed)
    if choosing.all() or not choosing.any():
        raise InputError(f"a guarantee needs rows to choose on and rows to certify on, found {len(units)} in all")
    return Part("choosing half", CHOOSING, "test", choosing, ~choosing)


def betting_order(units: NDArray[np.int64], seed: int) -> NDArray[np.intp]:
    """The order in which distinct ``units`` [units] are bet on, as an index."""
    return order_of(sample_words(seed, units, ORDER_STREAM))
