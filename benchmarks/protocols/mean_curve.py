"""The curve of an entry at fixed costs as the mean over its deals of folds, with its band.

So the curve passes where the tables read it. The band is made from the resamples of the first deal, moved to the mean
and stretched by the spread between deals, as every interval is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.statistics.deals import deal_error, stretched


@dataclass(frozen=True, eq=False)
class MeanCurve:
    """Relative cost, speed-up, task score and its 95% band at the costs that every deal reaches, [costs] each."""

    cost: NDArray[np.float64]
    speed_up: NDArray[np.float64]
    score: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def mean_curve(merged: MergedParts, measure: Measure) -> MeanCurve | None:
    """The curve of all deals; None for a signal that does not reach a single of the costs, such as one with one point.

    A band holds its curve: percentiles are widened to it where the resamples lie on one side.
    """
    every = [merged, *merged.deals]
    kept = np.all([deal.reaches for deal in every], axis=0)
    if not kept.any():
        return None
    tallies = [deal.band[0] for deal in every]
    scores = np.stack([tally.score(measure)[kept] for tally in tallies], axis=-1)
    score = scores.mean(axis=-1)
    draws = merged.band[1].score(measure)[kept] + (score - scores[:, 0])[:, None]
    draws = stretched(draws, score, deal_error(scores))
    # Both give the same; the one that looks for NaN goes row by row.
    quantile = np.nanquantile if np.isnan(draws).any() else np.quantile
    low, high = quantile(draws, [0.025, 0.975], axis=1)
    return MeanCurve(
        cost=np.mean([tally.relative_cost[kept] for tally in tallies], axis=0),
        speed_up=np.mean([tally.speed_up[kept] for tally in tallies], axis=0),
        score=score,
        low=np.minimum(low, score),
        high=np.maximum(high, score),
    )
