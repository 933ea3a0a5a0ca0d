"""The risk-coverage curve behind AURC: the error rate among the most certain, at every coverage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.placements import placements
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.errors import InputError


def risk_coverage(ranking: Ranking, layer: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coverage (percent) and expected risk (percent) at ``layer`` (from 1), both [samples], for 1..n most certain.

    Within a tied group the expected number of errors grows evenly. The mean of the risks is the AURC.
    """
    if ranking.folds is not None:
        raise InputError("a risk-coverage curve needs one order of all samples; this ranking is split into folds")
    if not ranking.scored[layer - 1]:
        raise InputError(f"the signal has no score at layer {layer}, so there is no risk-coverage curve")
    placed = placements(ranking.certainty[layer - 1], ranking.right[layer - 1])
    errors = np.cumsum(~placed.easy_ranked[::-1])
    kept = np.arange(1, len(errors) + 1)
    expected = errors.astype(np.float64)
    if placed.sizes is not None:
        ends = np.concatenate([[0], np.cumsum(placed.sizes[::-1])])
        expected = np.interp(kept, ends, np.concatenate([[0], errors])[ends])
    return 100.0 * kept / len(errors), 100.0 * expected / kept
