"""Intervals and paired tests for DIS, from the placements that the ranking already has.

Intervals are symmetric on the logit scale, so they stay inside 0..100 and lean the right way near the ends. The
difference of two signals on the same samples takes its variance from the differences of the two signals' placements:
what both share cancels sample by sample, which is DeLong's covariance without ever forming the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.status import Difference, Estimate
from exitbench.benchmarks.results.vocabulary import Ties
from exitbench.errors import InputError

NAN = float("nan")


def dis_estimate(ranking: Ranking, layer: int, ties: Ties = "half", level: float = 0.95) -> Estimate:
    """DIS at ``layer`` (from 1) with its DeLong error and logit-scale interval, in percent."""
    said = ranking.verdict(layer)
    if said.status == "undefined":
        return Estimate(NAN, NAN, NAN, NAN, ranking.samples, said.status, said.reason)
    value, std_err = float(ranking.dis(ties)[layer - 1]), float(ranking.std_err(ties)[layer - 1])
    if std_err == 0.0:
        reason = said.reason or "no placement differs from another, so the standard error is 0"
        return Estimate(value, value, value, std_err, ranking.samples, "unreliable", reason)
    low, high = logit_interval(value, std_err, level)
    return Estimate(value, low, high, std_err, ranking.samples, said.status, said.reason)


def logit_interval(value: float, std_err: float, level: float = 0.95) -> tuple[float, float]:
    """An interval in percent around ``value``, symmetric on the logit scale; the value itself at 0 and 100."""
    share = value / 100.0
    if not 0.0 < share < 1.0:
        return value, value
    centre = math.log(share) - math.log1p(-share)
    reach = float(ndtri(0.5 + level / 2)) * std_err / 100.0 / (share * (1.0 - share))
    return 100.0 * _sigmoid(centre - reach), 100.0 * _sigmoid(centre + reach)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def two_sided(value: NDArray[np.float64], std_err: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided normal p-values; without spread, 1 where there is no difference and NaN (undefined) elsewhere."""
    with np.errstate(invalid="ignore", divide="ignore"):
        tested = 2.0 * ndtr(-np.abs(value) / std_err)
    return np.where(std_err > 0, tested, np.where(value == 0, 1.0, np.nan))


def dis_difference(a: Ranking, b: Ranking, layer: int, ties: Ties = "half", level: float = 0.95) -> Difference:
    """DIS of ``a`` less DIS of ``b`` at ``layer`` (from 1), tested in pairs on the same samples."""
    _same_samples(a, b, layer)
    saids = (a.verdict(layer), b.verdict(layer))
    for said in saids:
        if said.status == "undefined":
            return Difference(NAN, NAN, NAN, NAN, NAN, said.status, said.reason)
    value = float(a.dis(ties)[layer - 1] - b.dis(ties)[layer - 1])
    std_err = float(np.linalg.norm(a.influence(layer, ties) - b.influence(layer, ties)))
    p_value = float(two_sided(np.array(value), np.array(std_err)))
    if math.isnan(p_value):
        reason = "the difference has no variance but is not zero"
        return Difference(value, NAN, NAN, std_err, NAN, "undefined", reason)
    reach = float(ndtri(0.5 + level / 2)) * std_err
    worst = max(saids, key=lambda said: said.status == "unreliable")
    return Difference(value, value - reach, value + reach, std_err, p_value, worst.status, worst.reason)


def dis_differences(
    rankings: Sequence[Ranking], layer: int, ties: Ties = "half"
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """All pairs of signals at one layer: differences (row less column), standard errors, p-values.

    Each is [signals, signals], NaN where either DIS is undefined.
    """
    for other in rankings[1:]:
        _same_samples(rankings[0], other, layer)
    scores = np.array([ranking.dis(ties)[layer - 1] for ranking in rankings])
    known = np.flatnonzero(~np.isnan(scores))
    influence = {int(index): rankings[int(index)].influence(layer, ties) for index in known}
    std_errs = np.full((len(rankings), len(rankings)), np.nan)
    for place, first in enumerate(known):
        std_errs[first, first] = 0.0
        for second in known[place + 1 :]:
            apart = influence[int(first)] - influence[int(second)]
            std_errs[first, second] = std_errs[second, first] = np.linalg.norm(apart)
    values = scores[:, None] - scores[None, :]
    p_values = np.where(np.isnan(std_errs), np.nan, two_sided(values, std_errs))
    return values, std_errs, p_values


def _same_samples(a: Ranking, b: Ranking, layer: int) -> None:
    if a.right.shape != b.right.shape or not np.array_equal(a.right[layer - 1], b.right[layer - 1]):
        raise InputError("a paired difference needs two signals on the same samples and predictions")
