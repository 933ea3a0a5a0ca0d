"""The risk-coverage curve behind AURC: the error rate among the most certain samples, at every coverage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange


def risk_at(certainty: NDArray[np.float64], wrong: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The expected error rate among the k most certain samples, k = 1..n, [samples]; tied samples in random order.

    Within a tied group the expected number of errors grows evenly. The mean of all risks is the AURC.

    >>> risk_at(np.array([0.9, 0.5, 0.5, 0.1]), np.array([False, True, False, True])).tolist()
    [0.0, 0.25, 0.3333333333333333, 0.5]
    """
    order = np.argsort(-certainty, kind="stable")
    ranked = certainty[order]
    group = np.concatenate([[0], np.cumsum(ranked[1:] != ranked[:-1])])
    share = np.bincount(group, weights=wrong[order].astype(np.float64)) / np.bincount(group)
    return np.asanyarray(np.cumsum(share[group]) / arange(len(order) + 1, 1))
