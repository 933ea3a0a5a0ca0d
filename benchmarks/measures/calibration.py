"""Calibration of one layer: how near a stated probability of being right is to how often the answer is right.

*Brier score*: the mean squared distance of the probability p from what happened (1 right, 0 wrong). *ECE*, the expected
calibration error: over 15 bins of equal width on [0, 1], the distance between the mean probability and the share of
right answers in the bin, weighted by its samples. Both times 100, so 0 is perfect. Bins of equal width are the
published convention and do not depend on the data, so folds may be merged. ECE is never negative, and with few samples
in a bin it is above 0 for a perfectly calibrated probability too: compare it at equal numbers of samples only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exitbench.errors import InputError

BINS = 15
"""Bins of equal width of the expected calibration error."""

CALIBRATION = ("ece", "brier")


def calibration_errors(
    probability: NDArray[np.float64], right: NDArray[np.bool_]
) -> dict[str, tuple[float, NDArray[np.float64]]]:
    """ECE and Brier score in points, each with its influence values [samples].

    ``probability`` [samples] is that of a right answer, ``right`` [samples] whether it was right. The root of the sum
    of squared influence values is the standard error; of two signals, that of their differences.
    """
    if not ((probability >= 0.0) & (probability <= 1.0)).all():
        raise InputError(
            f"a probability of being right must lie in 0..1, found {probability.min():g}..{probability.max():g}"
        )
    gap = probability - right
    bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    side = np.sign(np.bincount(bins, weights=gap, minlength=BINS))[bins]
    terms = {"ece": 100.0 * side * gap, "brier": 100.0 * gap * gap}
    return {measure: (float(term.mean()), (term - term.mean()) / len(term)) for measure, term in terms.items()}
