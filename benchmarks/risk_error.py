"""Standard errors of AURC from influence values: how much one sample moves the area.

AURC is the mean, over a sample s, of the error rate among the samples at least as certain as s. Seen as a
functional of the distribution of samples, its influence function has two terms: a sample is one of those whose
coverage is averaged, and it belongs to every coverage from its own rank on. Excess AURC also moves with the
error rate e through its optimum, ``e + (1 - e) ln(1 - e)``, whose derivative is ``-ln(1 - e)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def risk_influence(
    certainty: NDArray[np.float64], right: NDArray[np.bool_], folds: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each sample adds to the error of AURC and of excess AURC at one layer, in percent, each [samples].

    ``certainty`` and ``right`` are [samples]. The root of the sum of squares is the standard error; for two
    signals on the same samples, that of the differences is the standard error of the paired difference.
    """
    samples = len(certainty)
    area, excess = np.zeros(samples), np.zeros(samples)
    parts = [np.arange(samples)] if folds is None else [np.flatnonzero(folds == one) for one in np.unique(folds)]
    for rows in parts:
        wrong = (~right[rows]).astype(np.float64)
        area[rows] = _influence(certainty[rows], wrong)
        rate = min(float(wrong.mean()), 1 - 0.5 / len(rows))
        excess[rows] = area[rows] + np.log1p(-rate) * (wrong - wrong.mean())
    return 100.0 * area / samples, 100.0 * excess / samples


def _influence(certainty: NDArray[np.float64], wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    """The influence of each sample on the area, [samples]; tied samples share the mean of their group."""
    samples = len(certainty)
    order = np.argsort(-certainty, kind="stable")
    ranked = certainty[order]
    group = np.concatenate([[0], np.cumsum(ranked[1:] != ranked[:-1])])
    sizes = np.bincount(group)

    def shared(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((np.bincount(group, weights=values) / sizes)[group])

    place = np.arange(1, samples + 1)
    risk = np.cumsum(shared(wrong[order])) / place
    later = np.cumsum((1 / place)[::-1])[::-1]
    later_risk = np.cumsum((risk / place)[::-1])[::-1]
    found = np.empty(samples)
    found[order] = shared(risk) - risk.mean() + wrong[order] * shared(later) - shared(later_risk)
    return found
