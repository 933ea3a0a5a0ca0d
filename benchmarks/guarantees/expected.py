"""What a certified threshold will cost and answer: estimates from the certifying rows, by influence functions.

The certifying rows chose the threshold along the path, but neither the path nor anything a signal learned; what that
choice flatters is far smaller than the interval.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.tally import score_influence, tally_at
from exitbench.benchmarks.results.status import Estimate
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE
from exitbench.benchmarks.scoring.groups import standard_error
from exitbench.benchmarks.scoring.outcomes import Measure, Outcomes


def speed_up_estimate(exits: NDArray[np.int64], outcomes: Outcomes, groups: NDArray[np.int64] | None) -> Estimate:
    """The speed-up with its 95% interval, which is that of the mean cost turned over; ``exits`` [samples] from 1."""
    costs = outcomes.paid(exits) / outcomes.full_cost
    mean, count = float(costs.mean()), len(costs)
    error = standard_error((costs - mean) / count, groups)
    reach = NORMAL_QUANTILE * error
    low, high = min(mean + reach, 1.0), max(mean - reach, outcomes.cheapest)
    return Estimate(1 / mean, 1 / low, 1 / high, error / mean**2, count)


def score_estimates(
    exits: NDArray[np.int64], outcomes: Outcomes, measure: Measure, groups: NDArray[np.int64] | None
) -> Mapping[str, Estimate]:
    """The task ``score`` in percent, and the ``loss`` in points against the last layer, with 95% intervals."""
    last = np.full_like(exits, outcomes.depth)
    score, final = (float(tally_at(layers, outcomes).score(measure)) for layers in (exits, last))
    influence, final_influence = (score_influence(layers, outcomes, measure) for layers in (exits, last))
    count = len(exits)
    return {
        "score": _normal(score, standard_error(influence, groups), count),
        "loss": _normal(final - score, standard_error(final_influence - influence, groups), count),
    }


def _normal(value: float, error: float, count: int) -> Estimate:
    reach = NORMAL_QUANTILE * error
    return Estimate(value, value - reach, value + reach, error, count)
