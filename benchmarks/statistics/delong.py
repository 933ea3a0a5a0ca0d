"""DeLong: intervals and paired tests for DIS, from the placements that the ranking already has.

Intervals are symmetric on the logit scale, so they stay inside 0..100, longer towards 50 near the ends. The
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
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE, Ties

NAN = float("nan")


def dis_estimate(ranking: Ranking, layer: int, ties: Ties = "half", level: float = 0.95) -> Estimate:
    """DIS at ``layer`` (from 1) with its DeLong error and logit-scale interval, in percent."""
    verdict = ranking.verdict(layer)
    if verdict.status == "undefined":
        return Estimate(NAN, NAN, NAN, NAN, ranking.samples, verdict.status, verdict.reason)
    value, std_err = float(ranking.dis(ties)[layer - 1]), float(ranking.std_err(ties)[layer - 1])
    if std_err == 0.0:
        reason = verdict.reason or "no placement differs from another, so the standard error is 0"
        return Estimate(value, value, value, std_err, ranking.samples, "unreliable", reason)
    low, high = logit_interval(value, std_err, level)
    return Estimate(value, low, high, std_err, ranking.samples, verdict.status, verdict.reason)


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


def influence_differences(
    values: NDArray[np.float64],
    influence: Sequence[NDArray[np.float64]],
    pairs: Sequence[tuple[int, int]],
    errors: NDArray[np.float64] | None = None,
) -> list[Difference]:
    """Paired differences among ``values`` [entries], whose influence values [samples] are of the same samples.

    What both entries share cancels sample by sample: for DIS this is DeLong's test. ``errors`` [pairs] are added, such
    as those between deals of folds.
    """
    added = np.zeros(len(pairs)) if errors is None else errors
    paired = [np.linalg.norm(influence[a] - influence[b]) for a, b in pairs]
    value = [float(values[a] - values[b]) for a, b in pairs]
    return normal_differences(np.array(value), np.hypot(np.array(paired), added))


def normal_difference(value: float, std_err: float) -> Difference:
    """A difference tested with the normal law; without variance, p is 1 if equal and undefined otherwise."""
    (difference,) = normal_differences(np.array([value]), np.array([std_err]))
    return difference


def normal_differences(values: NDArray[np.float64], std_errs: NDArray[np.float64]) -> list[Difference]:
    """The same for many differences [differences]."""
    p_values = two_sided(values, std_errs)
    reach = NORMAL_QUANTILE * std_errs
    numbers = zip(
        *(column.tolist() for column in (values, values - reach, values + reach, std_errs, p_values)), strict=True
    )
    return [_tested(*each) for each in numbers]


def _tested(value: float, low: float, high: float, std_err: float, p_value: float) -> Difference:
    """The difference, with a reason where it has no test."""
    if math.isnan(std_err) or math.isnan(value):
        return Difference(value, NAN, NAN, NAN, NAN, "undefined", "there is no paired test for one of the tasks")
    if math.isnan(p_value):
        return Difference(value, NAN, NAN, std_err, NAN, "undefined", "the difference has no variance but is not zero")
    return Difference(value, low, high, std_err, p_value)
