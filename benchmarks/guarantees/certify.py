"""One promise on one path of candidates: how far it can be kept, and how many rows would be needed where it cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import full
from exitbench.benchmarks.guarantees.candidates import Candidate, path_losses
from exitbench.benchmarks.guarantees.losses import Risk, unit_means
from exitbench.benchmarks.guarantees.procedures import (
    LossTest,
    conformal_consistency,
    fixed_sequence,
    risk_control,
    smallest_passing,
)
from exitbench.benchmarks.guarantees.split import betting_order
from exitbench.benchmarks.scoring.signal_scores import SignalScores

ProcedureName = Literal["learn-then-test", "risk-control", "conformal-consistency"]
PROCEDURES: tuple[ProcedureName, ...] = ("learn-then-test", "risk-control", "conformal-consistency")


@dataclass(frozen=True)
class Promise:
    """What is to be promised: a risk of at most ``limit``, in the unit of its loss.

    ``confidence`` is the probability, over the draw of the certifying rows, that it is kept: of learn then test only,
    the others promise the mean over such draws.
    """

    risk: Risk
    limit: float
    confidence: float = 0.9
    procedure: ProcedureName = "learn-then-test"

    @property
    def error_probability(self) -> float:
        """The probability that the promise is broken; 0.1 and not a little less at a confidence of 0.9."""
        return round(1 - self.confidence, 12)

    @property
    def scaled_limit(self) -> float:
        """The limit on losses that were divided by their bound."""
        return self.limit / self.risk.bound


@dataclass(frozen=True, eq=False)
class Evidence:
    """Some rows: the scores of every configuration, the loss of every layer [layers, rows], ids, and groups if any."""

    scores: Sequence[SignalScores]
    losses: NDArray[np.float64]
    ids: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """What is independent of each other, [units]: ids in the order of rows, or groups in rising order."""
        return self.ids if self.groups is None else np.unique(self.groups)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row, [rows]: each unit counts once."""
        if self.groups is None:
            return full(len(self.ids), 1.0, np.float64)
        _, number, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / sizes[number])


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What the certifying rows allow: the riskiest ``candidate`` that keeps the promise, ``None`` for no exit at all.

    ``passed`` of ``grid`` candidates were certified; conformal consistency has no grid, and its ``grid`` is ``None``.
    ``p_value`` is that of the candidate, or of the first one where none passed. ``units_needed``, where there is no
    candidate, is how many certifying units would do if more of them were like these; ``None`` where more would not.
    ``full_network_fails`` says that not even the last layer keeps the limit.
    """

    candidate: Candidate | None
    level: float | None
    method: str
    passed: int
    grid: int | None
    p_value: float | None
    units_needed: int | None = None
    full_network_fails: bool = False


def certify(
    path: Sequence[Candidate], evidence: Evidence, promise: Promise, *, looks: int = 1, seed: int
) -> Certificate:
    """The riskiest candidate of a ``path`` that was fixed before, on rows that nothing was chosen on.

    Where ``looks`` several paths are tested and the best result is taken, each is tested at its share of the level.
    """
    if promise.procedure == "conformal-consistency":
        return certify_consistency(evidence, promise)
    order = betting_order(evidence.units, seed)
    losses = path_losses(path, evidence.scores, evidence.losses, evidence.groups, order)
    final = unit_means(evidence.losses[-1], evidence.groups)[order]
    if promise.procedure == "risk-control":
        return controlled(path, np.array([final, *losses]), promise)
    values = "0 to 1" if evidence.groups is not None and promise.risk.values == "0 or 1" else promise.risk.values
    test = LossTest(values, promise.scaled_limit, promise.error_probability / looks)
    if not promise.risk.zero_at_the_last_layer and not test.passes(final):
        return Certificate(
            candidate=None,
            level=test.level,
            method=test.name,
            passed=0,
            grid=len(path),
            p_value=test.p_value(final),
            units_needed=needed_by(test, final),
            full_network_fails=True,
        )
    walk = fixed_sequence(losses, test)
    candidate = path[walk.passed - 1] if walk.passed else None
    first = next(iter(path_losses(path[:1], evidence.scores, evidence.losses, evidence.groups, order)), None)
    return Certificate(
        candidate=candidate,
        level=test.level,
        method=test.name,
        passed=walk.passed,
        grid=len(path),
        p_value=walk.p_value if candidate is not None else walk.failed_p_value,
        units_needed=None if candidate is not None or first is None else needed_by(test, first),
    )


def needed_by(test: LossTest, losses: NDArray[np.float64]) -> int | None:
    """How many units would pass the test if they lost as these do."""
    if losses.mean() >= test.limit:
        return None
    return smallest_passing(lambda count: test.passes(np.resize(losses, count)))


def controlled(path: Sequence[Candidate], losses: NDArray[np.float64], promise: Promise) -> Certificate:
    """Conformal risk control; ``losses`` [1 + candidates, units] begin with those of the last layer."""
    limit, count = promise.scaled_limit, losses.shape[1]
    passed = risk_control(losses, limit)
    candidate = path[passed - 2] if passed > 1 else None
    needed = None
    if candidate is None and len(losses) > passed:
        mean = float(losses[: passed + 1].max(axis=0).mean()) if count else 0.0
        needed = None if mean >= limit else math.ceil(round((1 - limit) / (limit - mean), 6))
    return Certificate(
        candidate=candidate,
        level=None,
        method="conformal risk control on the largest loss so far",
        passed=max(passed - 1, 0),
        grid=len(path),
        p_value=None,
        units_needed=needed,
        full_network_fails=passed == 0 and not promise.risk.zero_at_the_last_layer,
    )


def certify_consistency(evidence: Evidence, promise: Promise) -> Certificate:
    """Conformal consistency of the one configuration there is: the threshold comes from the certifying rows."""
    (scores,) = evidence.scores
    first = scores.first_exit_layer - 1
    level = conformal_consistency(scores.permitted, evidence.losses[first:-1] == 0, evidence.weights, promise.limit)
    threshold = threshold_above(scores, level)
    candidate = None
    if threshold is not None:
        candidate = Candidate(0, np.full(scores.depth - 1, threshold), math.nan, threshold)
    return Certificate(
        candidate=candidate,
        level=None,
        method="conformal quantile of the most certain layer that disagrees",
        passed=int(candidate is not None),
        grid=None,
        p_value=None,
        units_needed=math.ceil(round(1 / promise.limit - 1, 6)) if level == math.inf else None,
    )


def threshold_above(scores: SignalScores, certainty: float) -> float | None:
    """The lowest threshold on the scale of the score that only a larger certainty passes; ``None`` where none does."""
    if certainty == math.inf:
        return None
    largest = float(np.finfo(np.float64).max)
    if scores.integers is not None:
        passing = [threshold for threshold in scores.integers if not passes(scores, certainty, threshold)]
        return float(min(passing, key=lambda threshold: scores.sign * threshold)) if passing else None
    bound = max(certainty, -largest)
    return scores.sign * (bound if scores.strict else math.nextafter(bound, math.inf))


def passes(scores: SignalScores, certainty: float, threshold: float) -> bool:
    """Whether a certainty passes a threshold on the scale of the score."""
    level = scores.sign * threshold
    return certainty > level if scores.strict else certainty >= level
