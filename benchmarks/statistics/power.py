"""Power: how large a true difference must be for a paired test to show it, from the error of the differences found."""

from __future__ import annotations

import math

from scipy.special import ndtri

from exitbench.benchmarks.results.vocabulary import SIGNIFICANCE

POWER = 0.8
"""The chance of claiming a true difference that is asked for."""


def claimable(std_err: float, tests: int = 1) -> float:
    """The smallest true difference that is claimed four times in five, as the largest of ``tests`` comparisons.

    Holm's method holds the smallest p-value of a column against ``SIGNIFICANCE / tests``; NaN without a standard error.

    >>> round(claimable(1.0), 2), round(claimable(1.0, tests=28), 2)
    (2.8, 3.97)
    """
    if not std_err > 0 or tests < 1:
        return math.nan
    return float(ndtri(1 - SIGNIFICANCE / (2 * tests)) + ndtri(POWER)) * std_err
