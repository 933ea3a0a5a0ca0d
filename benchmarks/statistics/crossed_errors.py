"""The error of an average over networks that were scored on the same rows: rows crossed with networks (seeds).

A value of network s on rows i has an error from the rows, which all networks share, and one from the network's
training. Networks on the same rows have the same bootstrap weights (or influence values by sample), so the rows' part
is the error of the *averaged* resamples: 48 copies of one network have exactly the error of one. The networks' part is
the variance between their values (divisor k - 1) over k. Both are added, which counts the interaction of rows and
networks twice in its smallest term and errs on the wide side.

With few networks the second part is itself uncertain: quantiles are Student's, with Satterthwaite's degrees of freedom
``total^2 / sum(part^2 / (k - 1))``, infinite where only rows play a part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from exitbench.benchmarks.results.status import Difference
from exitbench.benchmarks.statistics.deals import deal_error, stretched

ENOUGH_NETWORKS = 5
"""From this many networks on, their spread tells something about networks that were not trained."""

NAN = float("nan")


@dataclass(frozen=True, eq=False)
class ErrorSource:
    """What the error of one number is made of: resamples [resamples] or, for ``influence``, what each unit adds
    [units]; and the values of every deal of folds, [deals], where there are several."""

    spread: NDArray[np.float64]
    deals: NDArray[np.float64]
    influence: bool = False

    def __sub__(self, other: ErrorSource) -> ErrorSource:
        """The source of a difference; where one was dealt more often, the deals cannot be paired and are passed on."""
        paired = len(self.deals) == len(other.deals)
        deals = self.deals - other.deals if paired else unpaired_deals(self.deals, other.deals)
        return ErrorSource(self.spread - other.spread, deals, self.influence)

    def std_err(self, value: float) -> float:
        """The standard error around ``value``; NaN without resamples."""
        added = float(deal_error(self.deals)) if len(self.deals) else 0.0
        if self.influence:
            return float(np.hypot(np.linalg.norm(self.spread), added))
        draws = self.spread[~np.isnan(self.spread)]
        if len(draws) < 2:
            return NAN
        draws = stretched(draws, value, added)
        return float(draws.std(ddof=1)) if np.ptp(draws) > 0 else 0.0


def unpaired_deals(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two values whose error as deals is that of both means together: what they share cannot be told."""
    error = math.hypot(*(float(deal_error(deals)) if len(deals) else 0.0 for deals in (first, second)))
    return np.array([-error, error])


def mean_source(sources: Sequence[ErrorSource], weights: NDArray[np.float64]) -> ErrorSource:
    """The source of the weighted mean over networks on the same rows: resample by resample, unit by unit, deal by
    deal."""
    fewest = min(len(source.deals) for source in sources)
    dealt = [source.deals[:fewest] for source in sources]
    deals = np.average(dealt, axis=0, weights=weights) if fewest else np.zeros(0)
    spread = np.average([source.spread for source in sources], axis=0, weights=weights)
    return ErrorSource(spread, deals, sources[0].influence)


@dataclass(frozen=True)
class MeanError:
    """The standard error of an average, its parts, and the degrees of freedom of its quantiles."""

    rows: float
    networks: float = 0.0
    degrees: float = math.inf

    @property
    def std_err(self) -> float:
        return float(np.hypot(self.rows, self.networks))

    @property
    def quantile(self) -> float:
        """Standard errors from a value to the end of its 95% interval."""
        return float(ndtri(0.975)) if math.isinf(self.degrees) else float(stdtrit(self.degrees, 0.975))


def network_variance(values: Sequence[float]) -> float:
    """The variance between networks (divisor k - 1) over k: what it adds to the variance of their mean.

    >>> network_variance([1.0, 3.0])
    1.0
    """
    return float(np.var(values, ddof=1)) / len(values)


@dataclass(frozen=True)
class NetworksOnRows:
    """Networks on the same rows, with the share of the average that they have.

    ``rows`` is the standard error of their mean from the rows; ``values`` has one value per different network.
    """

    share: float
    rows: float
    values: tuple[float, ...]


def mean_error(blocks: Iterable[NetworksOnRows]) -> MeanError:
    """The error of an average over blocks that share no rows.

    Where every block has :data:`ENOUGH_NETWORKS`, networks are a sample of all that could be trained, and their spread
    is part of the error; otherwise the average is about these networks only, and its error is that of the rows.
    """
    every = list(blocks)
    rows = math.sqrt(sum((block.share * block.rows) ** 2 for block in every))
    if min(len(block.values) for block in every) < ENOUGH_NETWORKS:
        return MeanError(rows)
    parts = [block.share**2 * network_variance(block.values) for block in every]
    total = rows**2 + sum(parts)
    spread = sum(part**2 / (len(block.values) - 1) for part, block in zip(parts, every, strict=True))
    degrees = total**2 / spread if spread > 0 else math.inf
    return MeanError(rows, math.sqrt(sum(parts)), degrees)


def mean_difference(value: float, error: MeanError) -> Difference:
    """The test of an average difference; without variance, p is 1 if equal and undefined otherwise."""
    std_err = error.std_err
    if np.isnan(std_err) or np.isnan(value):
        return Difference(value, NAN, NAN, NAN, NAN, "undefined", "there is no paired test for one of the tasks")
    if std_err == 0.0:
        if value == 0.0:
            return Difference(value, value, value, std_err, 1.0)
        return Difference(value, NAN, NAN, std_err, NAN, "undefined", "the difference has no variance but is not zero")
    reach = error.quantile * std_err
    tail = -abs(value) / std_err
    p_value = 2.0 * float(ndtr(tail) if math.isinf(error.degrees) else stdtr(error.degrees, tail))
    return Difference(value, value - reach, value + reach, std_err, p_value)
