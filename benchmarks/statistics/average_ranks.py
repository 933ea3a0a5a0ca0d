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

from exitbench.benchmarks.results.vocabulary import SIGNIFICANCE

FEWEST_TASKS = 6
"""With fewer tasks, ranks could show nothing that is worth a diagram."""


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
    from scipy.stats import friedmanchisquare, rankdata, studentized_range  # a second to load, and few runs need it

    tasks, signals = scores.shape
    ranks = np.stack([rankdata(-row) for row in scores])
    if signals < 2:
        return AverageRanks(ranks.mean(axis=0), math.nan, math.nan)
    if signals == 2:  # Friedman's test begins at three; for two it is the sign test's normal form
        p_value = two_signals(ranks)
    elif np.ptp(ranks, axis=1).max() == 0:  # every task is one tie
        p_value = 1.0
    else:
        p_value = float(friedmanchisquare(*scores.T).pvalue)
    quantile = float(studentized_range.ppf(1 - SIGNIFICANCE, signals, np.inf)) / math.sqrt(2)
    return AverageRanks(ranks.mean(axis=0), p_value, quantile * math.sqrt(signals * (signals + 1) / (6 * tasks)))


def two_signals(ranks: NDArray[np.float64]) -> float:
    """The exact sign test on the tasks that tell two signals apart, ``ranks`` [tasks, 2]."""
    from scipy.stats import binomtest

    first, second = int((ranks[:, 0] < ranks[:, 1]).sum()), int((ranks[:, 0] > ranks[:, 1]).sum())
    return float(binomtest(first, first + second).pvalue) if first + second else 1.0
