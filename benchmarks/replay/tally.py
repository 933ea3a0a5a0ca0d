"""Sums over samples along a curve: the one thing that is added or interpolated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.arrays.roomy_array import arange
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.results.status import Verdict
from exitbench.benchmarks.scoring.outcomes import FULL_COST, TASK_SCORES, Measure, Outcomes
from exitbench.errors import InputError, did_you_mean

Sums = NDArray[Any]
"""Counts, or weighted counts, of any one shape."""


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over samples: how many, the sum of their exit layers, and how many of their answers were right.

    ``cost`` is the sum of what they paid, in units of which the last layer costs ``FULL_COST``; ``None`` where a layer
    costs what a layer costs, and the sum of layers says it all.

    All arrays have one shape: () for one operating point, [points] along a curve, [resamples] in a bootstrap (then
    sums of weights). The last three, of class 1, are ``None`` where
    F1 is not asked for.
    """

    depth: int
    samples: Sums
    layers: Sums
    correct: Sums
    true_positives: Sums | None = None
    predicted_positives: Sums | None = None
    actual_positives: Sums | None = None
    cost: Sums | None = None

    @property
    def paid(self) -> Sums:
        """The sum of what the samples paid: of their exit layers, unless costs are given."""
        return self.layers if self.cost is None else self.cost

    @property
    def full_cost(self) -> int:
        """What a sample pays at the last layer, in the units of :attr:`paid`."""
        return self.depth if self.cost is None else FULL_COST

    @property
    def mean_paid(self) -> NDArray[np.float64]:
        """What a sample paid on average, in the units of :attr:`paid`."""
        return _ratio(self.paid, self.samples)

    @property
    def mean_exit_layer(self) -> NDArray[np.float64]:
        return _ratio(self.layers, self.samples)

    @property
    def relative_cost(self) -> NDArray[np.float64]:
        """Mean cost paid over the cost of the last layer (by default mean exit layer over depth), in (0, 1]."""
        return self.mean_paid / self.full_cost

    @property
    def speed_up(self) -> NDArray[np.float64]:
        """Cost of the last layer over mean cost paid, by default depth over mean exit layer: its one meaning here."""
        return _ratio(self.full_cost * self.samples, self.paid)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """In percent."""
        return _ratio(100.0 * self.correct, self.samples)

    @property
    def f1(self) -> NDArray[np.float64]:
        """F1 of class 1 in percent; 0 where class 1 is neither predicted nor present."""
        if self.true_positives is None or self.predicted_positives is None or self.actual_positives is None:
            raise InputError("F1 was asked for, but this task counts no positive class")
        size = np.asanyarray(self.predicted_positives + self.actual_positives).astype(np.float64, copy=False)
        return np.divide(200.0 * self.true_positives, size, out=np.zeros_like(size), where=size != 0)

    @property
    def mean_accuracy_f1(self) -> NDArray[np.float64]:
        return (self.accuracy + self.f1) / 2

    def score(self, measure: Measure) -> NDArray[np.float64]:
        """The task score called ``measure``, in percent."""
        if measure not in TASK_SCORES:
            raise InputError(f"unknown task score {measure!r}.{did_you_mean(measure, TASK_SCORES)}")
        score: NDArray[np.float64] = getattr(self, measure)
        return score

    def __getitem__(self, index: Any) -> Tally:
        """The tally at some points or resamples."""
        return self._each(lambda sums: np.asanyarray(sums)[index])

    def __add__(self, other: Tally) -> Tally:
        """Both sets of samples together."""
        return self._both(other, lambda here, there: here + there)

    def towards(self, other: Tally, share: ArrayLike) -> Tally:
        """The expected counts when a ``share`` of the samples is treated as in ``other``, the rest as here."""
        part = np.asarray(share, dtype=np.float64)
        return self._both(other, lambda here, there: here * (1 - part) + there * part)

    def _each(self, change: Any) -> Tally:
        changed: dict[str, Any] = {name: None if sums is None else change(sums) for name, sums in self._sums().items()}
        return Tally(self.depth, **changed)

    def _both(self, other: Tally, join: Any) -> Tally:
        other_sums = other._sums()
        joined: dict[str, Any] = {
            name: None if sums is None or other_sums[name] is None else join(sums, other_sums[name])
            for name, sums in self._sums().items()
        }
        return Tally(self.depth, **joined)

    def _sums(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "layers": self.layers,
            "correct": self.correct,
            "true_positives": self.true_positives,
            "predicted_positives": self.predicted_positives,
            "actual_positives": self.actual_positives,
            "cost": self.cost,
        }


def _ratio(part: Sums, whole: Sums) -> NDArray[np.float64]:
    """One sum over another, NaN in a resample that drew no sample: on a few rows that happens, and is no fault."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asanyarray(np.true_divide(part, whole), dtype=np.float64)


def tally_at(exits: NDArray[np.int64], outcomes: Outcomes) -> Tally:
    """The tally of the merged answers when sample i exits at layer ``exits[i]``, [samples] from 1."""
    sums = {name: np.asarray(right_at(truth, exits)) for name, truth in outcomes.counted.items()}
    actual_positives = None if outcomes.actual_positive is None else np.asarray(outcomes.actual_positive.sum())
    return Tally(
        outcomes.depth,
        np.asarray(outcomes.samples),
        np.asarray(exits.sum()),
        actual_positives=actual_positives,
        cost=None if outcomes.costs is None else np.asarray(outcomes.paid(exits).sum()),
        **sums,
    )


def tally_of_layer(layer: int, outcomes: Outcomes) -> Tally:
    """The tally when every sample exits at one ``layer``, from 1."""
    sums = {name: np.asarray(truth[layer - 1].sum()) for name, truth in outcomes.counted.items()}
    return Tally(
        outcomes.depth,
        np.asarray(outcomes.samples),
        np.asarray(layer * outcomes.samples),
        actual_positives=None if outcomes.actual_positive is None else np.asarray(outcomes.actual_positive.sum()),
        cost=None if outcomes.costs is None else np.asarray(outcomes.costs[layer - 1] * outcomes.samples),
        **sums,
    )


def right_at(truth: NDArray[np.bool_], exits: NDArray[np.int64]) -> np.int64:
    """How many samples have a ``truth`` [layers, samples] at the layers ``exits`` [samples], from 1."""
    counts = [
        truth[:, some][exits[some] - 1, np.arange(some.stop - some.start)].sum() for some in element_blocks(len(exits))
    ]
    return np.int64(sum(counts))


def score_influence(exits: NDArray[np.int64], outcomes: Outcomes, measure: Measure) -> NDArray[np.float64]:
    """Influence function of a task score in percent: how much each sample moves it, [samples].

    Its norm is the standard error of the score, the norm of a difference of two that of the paired difference. F1 is
    linearised: ``2 TP / (predicted + actual)`` moves by ``(2 tp - F1 (predicted + actual))`` over the
    mean of ``predicted + actual``.
    """
    samples = arange(outcomes.samples)
    counted = {name: truth[exits - 1, samples] for name, truth in outcomes.counted.items()}
    if measure == "accuracy" or outcomes.actual_positive is None:
        return influence_of_counts(counted["correct"], "accuracy")
    hits, predicted = counted["true_positives"], counted["predicted_positives"]
    return influence_of_counts(counted["correct"], measure, hits, predicted, outcomes.actual_positive)


def influence_of_counts(
    correct: NDArray[Any],
    measure: str,
    true_positives: NDArray[Any] | None = None,
    predicted_positives: NDArray[Any] | None = None,
    actual_positives: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """The influence function of a task score from what each sample counts, 0 or 1, all [samples].

    The positives are those of class 1, and needed by F1 only.
    """
    right = np.asanyarray(correct).astype(np.float64, copy=False)
    accuracy = right - right.mean()
    if measure == "accuracy" or true_positives is None or predicted_positives is None or actual_positives is None:
        return np.asanyarray(100.0 * accuracy / len(right))
    hits = np.asanyarray(true_positives).astype(np.float64, copy=False)
    size = np.asanyarray(predicted_positives).astype(np.float64, copy=False) + actual_positives
    f1 = 2 * hits.sum() / size.sum() if size.any() else 0.0
    moved = (2 * hits - f1 * size) / size.mean() if size.any() else np.zeros_like(size)
    both = moved if measure == "f1" else (moved + accuracy) / 2
    return np.asanyarray(100.0 * both / len(right))


def score_verdict(tally: Tally, measure: Measure) -> Verdict:
    """Whether a task score means anything on these samples."""
    if measure != "accuracy" and tally.actual_positives is not None and not np.any(tally.actual_positives):
        return Verdict("undefined", "no sample of class 1, so F1 has nothing to find")
    return Verdict()
