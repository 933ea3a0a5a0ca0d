"""Procedures that turn losses along a path of policies into a policy that keeps a limit.

A path goes from the safest policy to the riskiest and is fixed before the certifying rows are looked at.

*Learn then test* with fixed-sequence testing (Angelopoulos and others) walks along it, to the first policy that it
cannot show to keep the limit. To end on one that breaks the limit it would have had to pass the first such policy,
which happens with probability ``level`` at most. The risk need not be monotone, and nothing is paid for the length of
the path, because its order is fixed.

*Conformal risk control* (Angelopoulos and others) promises the mean over draws instead. Its proof needs losses that
never fall along the path; those of early exit do (a sample may be right at layer 4, wrong at 6 and right again at 12),
so each is replaced by the largest so far, which is never below it.

*Conformal consistency* (Confident Adaptive Transformers) is the same promise for one loss, without a grid: a row is as
risky as the most certain of its layers that disagrees with the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.guarantees.losses import Range
from exitbench.benchmarks.guarantees.p_values import (
    ROUNDING,
    Losses,
    betting_p_value,
    binomial_p_value,
    hoeffding_bentkus_p_value,
)

MOST_ROWS = 10_000_000
"""With more rows than this nobody asks how many are needed."""


@dataclass(frozen=True)
class Walk:
    """How far a path was certified: ``passed`` policies, the p-value of the last of them and of the one that failed."""

    passed: int
    p_value: float | None
    failed_p_value: float | None


@dataclass(frozen=True)
class LossTest:
    """The p-value that fits a loss, compared with ``level``: losses at most 1, a ``limit`` on their mean."""

    values: Range
    limit: float
    level: float

    @property
    def name(self) -> str:
        return {"0 or 1": "exact binomial", "0 to 1": "Hoeffding-Bentkus", "up to 1": "betting"}[self.values]

    def p_value(self, losses: Losses) -> float:
        """Of the hypothesis that the mean lies above the limit; ``losses`` [units] in their testing order."""
        if self.values == "0 or 1":
            return binomial_p_value(losses, self.limit)
        if self.values == "0 to 1":
            return hoeffding_bentkus_p_value(losses, self.limit)
        return betting_p_value(losses, self.limit, self.level)

    def passes(self, losses: Losses) -> bool:
        """Whether the losses show that the limit is kept."""
        return self.p_value(losses) <= self.level


def fixed_sequence(path: Iterable[Losses], test: LossTest) -> Walk:
    """Test one policy after another until one fails; ``path`` has the losses [units] of each."""
    passed, last = 0, None
    for losses in path:
        p_value = test.p_value(losses)
        if p_value > test.level:
            return Walk(passed, last, p_value)
        passed, last = passed + 1, p_value
    return Walk(passed, last, None)


def risk_control(losses: NDArray[np.float64], limit: float) -> int:
    """How many policies of a path conformal risk control lets pass; ``losses`` [policies, units], at most 1.

    The last one before ``(sum + 1) / (units + 1)`` first exceeds the limit, the sum being that of the largest losses so
    far: the row that is still to come is taken to lose everything.
    """
    if not len(losses):
        return 0
    highest = np.maximum.accumulate(losses, axis=0).sum(axis=1)
    broken = np.flatnonzero(np.round(highest + 1, ROUNDING) > round(limit * (losses.shape[1] + 1), ROUNDING))
    return int(broken[0]) if len(broken) else len(losses)


def conformal_consistency(
    certainty: NDArray[np.float64], consistent: NDArray[np.bool_], weights: NDArray[np.float64], limit: float
) -> float:
    """The smallest certainty above which exits keep their disagreement with the last layer below ``limit``.

    ``certainty`` and ``consistent`` [layers that may exit, rows]; ``weights`` [rows] sum to the number of units, 1 for
    each row that is one by itself. Infinite where there are too few units.
    """
    riskiest = np.where(consistent, -np.inf, certainty).max(axis=0, initial=-np.inf)
    order = np.argsort(-riskiest, kind="stable")
    falling = riskiest[order]
    allowed = round(limit * (weights.sum() + 1) - 1, ROUNDING)
    if allowed < 0:
        return math.inf
    reached = np.round(np.cumsum(weights[order]), ROUNDING)
    # The first row that may not exit with the rows above it; all of its certainty stay.
    kept = int(np.searchsorted(reached, allowed, side="right"))
    return float(falling[kept]) if kept < len(falling) else -math.inf


def smallest_passing(passes: Callable[[int], bool]) -> int | None:
    """The smallest number of rows that ``passes``, if more rows pass more easily; ``None`` where no number does."""
    high = 1
    while not passes(high):
        high *= 2
        if high > MOST_ROWS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
