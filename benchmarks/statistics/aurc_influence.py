"""The influence function of AURC, and standard errors from it: how much one sample moves the area.

AURC is the mean, over a sample s, of the error rate among the samples at least as certain as s. Seen as a
functional of the distribution of samples, its influence function has two terms: a sample is one of those whose
coverage is averaged, and it belongs to every coverage from its own rank on. Excess AURC also moves with the
error rate e through its optimum, ``e + (1 - e) ln(1 - e)``, whose derivative is ``-ln(1 - e)``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange, empty, zeros
from exitbench.benchmarks.arrays.set_aside import set_aside
from exitbench.benchmarks.measures.placements import Placements
from exitbench.benchmarks.measures.ranking import Ranking


def risk_influence(ranking: Ranking, layer: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Influence values of AURC and of excess AURC at ``layer`` (from 1), in percent, each [samples].

    The root of the sum of squares is the standard error; for two signals on the same samples, that of the differences
    is the standard error of the paired difference. The ranking's own sort is used. Zero where there are no scores.
    """
    samples = ranking.samples
    area, excess = (zeros(samples, np.float64) for _ in range(2))
    for rows, part in ranking.sorted_parts(layer):
        wrong = (~ranking.right[layer - 1, rows]).astype(np.float64)
        influence = _influence(part)
        share = float(wrong.mean())
        rate = min(share, 1 - 0.5 / len(wrong))
        area[rows] = influence
        excess[rows] = influence + np.log1p(-rate) * (wrong - share)
    return 100.0 * area / samples, 100.0 * excess / samples


def _influence(part: Placements) -> NDArray[np.float64]:
    """The influence of each sample on the area, [samples]; tied samples share the mean of their group."""
    order = part.order[::-1]
    wrong = (~part.easy_ranked[::-1]).astype(np.float64)
    rank, later = _coverages(len(order))
    influence = empty(len(order), np.float64)
    if part.sizes is None:
        risk = np.cumsum(wrong) / rank
        later_risk = np.cumsum((risk / rank)[::-1])[::-1]
        influence[order] = risk - risk.mean() + wrong * later - later_risk
        return influence
    sizes = part.sizes[::-1]
    group = np.repeat(np.arange(len(sizes)), sizes)

    def shared(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((np.bincount(group, weights=values) / sizes)[group])

    risk = np.cumsum(shared(wrong)) / rank
    later_risk = np.cumsum((risk / rank)[::-1])[::-1]
    influence[order] = shared(risk) - risk.mean() + wrong * shared(later) - shared(later_risk)
    return influence


@lru_cache(maxsize=64)
def _coverages(samples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The ranks 1..n, and for each the sum of 1/k over the ranks k from it on; the same for every layer of a cache."""
    rank = arange(samples + 1, 1)
    later = set_aside(np.cumsum((1 / rank)[::-1])[::-1])
    rank = set_aside(rank)
    rank.flags.writeable = later.flags.writeable = False
    return rank, later
