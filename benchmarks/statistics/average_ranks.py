"""Average ranks of signals over independent tasks: Friedman's test, and Nemenyi's critical difference.

On every task the signals are ranked, 1 for the best, ties sharing their mean rank. Friedman's test asks whether all of
them could be equal; if not, two signals differ where their average ranks are further apart than the critical difference
``q sqrt(k (k + 1) / (6 N))`` for k signals on N tasks, q the studentised range's 95% quantile over the root of 2, which
holds for all pairs at once (Demšar, *Statistical Comparisons of Classifiers over Multiple Data Sets*, 2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from exitbench.benchmarks.results.vocabulary import SIGNIFICANCE

FEWEST_TASKS = 6
"""With fewer tasks, ranks could show nothing that is worth a diagram."""

LARGEST_NORMAL = 12.0
"""Beyond it lies less of the normal law, even of the largest of a million draws, than a float64 can tell."""


@dataclass(frozen=True, eq=False)
class AverageRanks:
    """Average ranks [signals], 1 the best; Friedman's p-value, and the smallest gap that Nemenyi's test claims."""

    ranks: NDArray[np.float64]
    p_value: float
    critical_difference: float

    @property
    def cliques(self) -> list[tuple[int, ...]]:
        """The largest sets of signals that are not shown to differ, as positions from the best to the worst."""
        order = np.argsort(self.ranks, kind="stable")
        if not self.p_value <= SIGNIFICANCE:
            return [tuple(order.tolist())]
        cliques: list[tuple[int, ...]] = []
        for start, first in enumerate(order):
            near = [number for number in order[start:] if self.ranks[number] - self.ranks[first] <= self.gap]
            members = tuple(int(number) for number in near)
            if len(members) > 1 and not any(set(members) <= set(clique) for clique in cliques):
                cliques.append(members)
        return cliques

    @property
    def gap(self) -> float:
        """The critical difference, with room for rounding in ranks that are sixths and the like."""
        return self.critical_difference + 1e-12


def average_ranks(scores: NDArray[np.float64]) -> AverageRanks:
    """Ranks of ``scores`` [tasks, signals], larger being better, averaged over at least two tasks."""
    tasks, signals = scores.shape
    ranks = np.stack([mean_ranks(-row) for row in scores])
    if signals < 2:
        return AverageRanks(ranks.mean(axis=0), math.nan, math.nan)
    # Friedman's test begins at three; for two it is the sign test's normal form
    p_value = two_signals(ranks) if signals == 2 else friedman(ranks)
    quantile = studentised_range(1 - SIGNIFICANCE, signals) / math.sqrt(2)
    return AverageRanks(ranks.mean(axis=0), p_value, quantile * math.sqrt(signals * (signals + 1) / (6 * tasks)))


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each value, 1 for the smallest; values that are equal share the mean of their ranks.

    >>> mean_ranks(np.array([0.3, 0.1, 0.3, 0.2])).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    return np.asarray((last - (sizes - 1) / 2)[group])


def friedman(ranks: NDArray[np.float64]) -> float:
    """Friedman's p-value of ``ranks`` [tasks, signals >= 3], corrected for ties; 1 where every task is one tie."""
    tasks, signals = ranks.shape
    if np.ptp(ranks, axis=1).max() == 0:
        return 1.0
    sizes = np.concatenate([np.unique(row, return_counts=True)[1] for row in ranks]).astype(np.float64)
    untied = 1 - (sizes * (sizes**2 - 1)).sum() / (signals * (signals**2 - 1) * tasks)
    squares = (ranks.sum(axis=0) ** 2).sum()
    statistic = 12.0 / (signals * tasks * (signals + 1)) * squares - 3 * tasks * (signals + 1)
    return float(chdtrc(signals - 1, statistic / untied))


def studentised_range(level: float, signals: int) -> float:
    """The quantile of the range of so many independent standard normal variables: infinite degrees of freedom.

    Their range is below q with probability ``k ∫ φ(z) (Φ(z) - Φ(z - q))^(k-1) dz``, z the largest of the k. For so
    smooth an integrand the trapezoidal rule is exact to the last digits.

    >>> round(studentised_range(0.95, 2), 4), round(studentised_range(0.95, 10), 4)
    (2.7718, 4.4741)
    """
    step = 1 / 32
    largest = np.arange(-LARGEST_NORMAL, LARGEST_NORMAL + step, step)
    density = np.exp(-(largest**2) / 2) / math.sqrt(2 * math.pi)
    low, high = 0.0, 4 * LARGEST_NORMAL
    while low < (middle := (low + high) / 2) < high:
        between = (ndtr(largest) - ndtr(largest - middle)) ** (signals - 1)
        if signals * step * float((density * between).sum()) < level:
            low = middle
        else:
            high = middle
    return high


def two_signals(ranks: NDArray[np.float64]) -> float:
    """The exact sign test on the tasks that tell two signals apart, ``ranks`` [tasks, 2]."""
    from scipy.stats import binomtest  # a second to load: few runs have two signals on so many tasks

    first, second = int((ranks[:, 0] < ranks[:, 1]).sum()), int((ranks[:, 0] > ranks[:, 1]).sum())
    return float(binomtest(first, first + second).pvalue) if first + second else 1.0
