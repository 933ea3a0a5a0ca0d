"""The sign test of paired samples, by group where samples belong together.

Of each sample it is known which of two runs is ahead. If neither were better, a group's sum of signs would be as likely
with the other sign: the p-value is exact over all ways to turn whole groups around (a sign-flip permutation test).
Where each sample is a group of its own this is the sign test, on right and wrong answers McNemar's exact test.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import _ufuncs

from exitbench.benchmarks.scoring.groups import summed_by_group


def binomial_pmf(successes: NDArray[np.int64], trials: int, chance: float) -> NDArray[np.float64]:
    """The chance of exactly so many successes, for numbers of them from 0 to ``trials``.

    This is the kernel of ``scipy.stats.binom``, to the last bit: loading ``scipy.stats`` takes as long as a small run.
    """
    return np.asarray(_ufuncs._binom_pmf(successes, trials, chance))


def binomial_cdf(successes: int, trials: int, chance: float) -> float:
    """The chance of at most so many successes, 0 for fewer than none; the kernel of ``scipy.stats.binom`` as above."""
    if successes < 0 or successes >= trials:
        return float(successes >= trials)
    return float(_ufuncs._binom_cdf(successes, trials, chance))


def sign_test(signs: NDArray[np.int64], groups: NDArray[np.int64] | None = None) -> float:
    """The two-sided p-value of ``signs`` [samples], each -1, 0 or 1, drawn in ``groups`` [samples] if there are any.

    >>> round(sign_test(np.array([1, 1, 1, 1, 1, 1, 0])), 6)
    0.03125
    >>> round(sign_test(np.array([1, 1, 1, 1, 1, 1, 0]), np.array([1, 1, 2, 2, 3, 3, 3])), 6)
    0.25
    """
    sums = np.rint(summed_by_group(signs.astype(np.float64), groups)).astype(np.int64)
    sizes, counts = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        # How many of the groups of one size have a plus: each moves the total by twice its size.
        plus = np.zeros(size * count + 1)
        plus[::size] = binomial_pmf(np.arange(count + 1), count, 0.5)
        chances = np.convolve(chances, plus)
    totals = 2 * np.arange(len(chances)) - (len(chances) - 1)
    return min(float(chances[np.abs(totals) >= abs(int(sums.sum()))].sum()), 1.0)
