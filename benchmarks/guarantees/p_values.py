"""P-values of the hypothesis that a risk, the mean of a bounded loss, lies above a limit.

A small p-value is evidence that the limit is kept. All three are valid for any distribution and any number of samples;
which one fits depends on the loss: the exact binomial one where it is 0 or 1, Hoeffding-Bentkus where it lies
between, and a test by betting (Waudby-Smith and Ramdas) where it may be negative too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from exitbench.benchmarks.arrays.roomy_array import arange
from exitbench.benchmarks.statistics.paired_signs import binomial_cdf

Losses = NDArray[np.float64]
"""The loss of every sample, [samples], at most 1."""

ROUNDING = 9
"""Decimals to which a sum of losses is rounded before it is compared with whole numbers."""


def binomial_p_value(losses: Losses, limit: float) -> float:
    """The exact one: the probability of so few losses, each 0 or 1, if they came at the rate ``limit``.

    >>> round(binomial_p_value(np.zeros(230), 0.01), 4)
    0.0991
    """
    return binomial_cdf(int(np.rint(losses.sum())), len(losses), limit)


def hoeffding_bentkus_p_value(losses: Losses, limit: float) -> float:
    """The smaller of Hoeffding's and Bentkus' bound, for losses in [0, 1]."""
    count, total = len(losses), float(losses.sum())
    mean = min(total / count, limit)
    # With 0 log 0 = 0, as a mean of exactly 0 needs it.
    divergence = xlogy(mean, mean / limit) + xlogy(1 - mean, (1 - mean) / (1 - limit))
    bentkus = math.e * binomial_cdf(math.ceil(round(total, ROUNDING)), count, limit)
    return min(1.0, math.exp(-count * float(divergence)), bentkus)


def betting_p_value(losses: Losses, limit: float, level: float) -> float:
    """One over the largest wealth of a gambler who bets, sample by sample, that the mean is below ``limit``.

    Losses are at most 1 and may be negative without end. A stake depends on the losses before it only, and is at most
    1, so that the wealth never falls below 0 and, if the mean is the limit or more, is not expected to grow; Ville's
    inequality makes its largest value a p-value. ``level`` is the one that the p-value will be compared with: stakes
    are best there. The result depends on the order of the losses, which must not depend on them.
    """
    count = len(losses)
    seen = arange(count + 1, 1)
    means = (0.5 + np.cumsum(losses)) / (seen + 1)
    variances = (0.25 + np.cumsum((losses - means) ** 2)) / (seen + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    stakes = np.minimum(1.0, np.sqrt(2 * math.log(1 / level) / (count * before)))
    with np.errstate(divide="ignore"):  # a loss of 1 at a limit of 0 takes all
        wealth = np.cumsum(np.log1p(-stakes * (losses - limit)))
    return float(min(1.0, math.exp(-max(0.0, float(wealth.max())))))
