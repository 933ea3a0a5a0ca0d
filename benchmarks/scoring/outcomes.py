"""Task scores from counts, so that folds can be pooled, resamples weighted and neighbours interpolated.

Accuracy, the F1 of class 1 and their mean are functions of a few sums over samples; so is the speed-up. A
:class:`Tally` holds those sums (for one point, for all points of a curve, or for all resamples) and is the
only thing that is ever added or interpolated; scores are read off at the end, in percent.

F1 is ``2 TP / (predicted + actual)``; where both are empty it is 0, as scikit-learn has it, and
:func:`verdict` says that nothing was there to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.arrays.roomy_array import empty, roomy
from exitbench.benchmarks.scoring.signal_scores import Rows
from exitbench.errors import InputError

FULL_COST = 1 << 30
"""The cost of the last layer in whole units. Costs are rounded to such units once (by less than 5e-10 of the last
layer's), so that every sum of them up to 2^53, of 8 million samples, is exact in float64 and in no particular order."""

Measure = Literal["accuracy", "f1", "mean_accuracy_f1"]
TASK_SCORES: tuple[Measure, ...] = ("accuracy", "f1", "mean_accuracy_f1")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Which of every layer's answers are right: ``correct`` [layers, samples].

    ``costs`` [layers] are the cumulative costs of exiting at each layer, whole numbers that end in :data:`FULL_COST`;
    ``None`` is layer over depth. For F1 also ``predicted_positive`` [layers, samples] (class 1 was predicted),
    ``actual_positive`` [samples] (class 1 is true) and ``true_positive`` [layers, samples] (both); all three or none.
    """

    correct: NDArray[np.bool_]
    true_positive: NDArray[np.bool_] | None = None
    predicted_positive: NDArray[np.bool_] | None = None
    actual_positive: NDArray[np.bool_] | None = None
    costs: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        predictions: ArrayLike,
        labels: ArrayLike,
        positive_class: int | None = None,
        costs: Sequence[float] | None = None,
    ) -> Outcomes:
        """From ``predictions`` [layers, samples] and ``labels`` [samples]; a ``positive_class`` adds F1.

        ``costs`` [layers] may be in any unit.
        """
        predicted, true = roomy(np.asarray(predictions)), np.asarray(labels)
        if predicted.ndim != 2 or true.shape != predicted.shape[1:]:
            raise InputError(
                f"expected predictions [layers, samples] and labels [samples], found {predicted.shape} and {true.shape}"
            )
        correct, units = predicted == true, None if costs is None else cost_units(costs, len(predicted))
        if positive_class is None:
            return cls(correct, costs=units)
        predicted_positive, actual_positive = predicted == positive_class, true == positive_class
        return cls(correct, predicted_positive & actual_positive, predicted_positive, actual_positive, units)

    @classmethod
    def of_task(
        cls, predictions: ArrayLike, labels: ArrayLike, metric: str, costs: Sequence[float] | None = None
    ) -> Outcomes:
        """For a task judged by ``metric``: with F1 of class 1 where that is ``f1``."""
        return cls.of(predictions, labels, 1 if metric == "f1" else None, costs)

    @property
    def depth(self) -> int:
        return int(self.correct.shape[0])

    @property
    def samples(self) -> int:
        return int(self.correct.shape[1])

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The task scores that these outcomes allow."""
        return TASK_SCORES if self.actual_positive is not None else ("accuracy",)

    @cached_property
    def right_so_far(self) -> NDArray[np.integer[Any]]:
        """How many internal layers up to each are right, [layers, samples]: what decisions up to an exit fall on."""
        counts = empty(self.correct.shape, np.int8 if self.depth <= np.iinfo(np.int8).max else np.int16)
        counts[0] = self.correct[0]
        for layer in range(1, self.depth - 1):
            np.add(counts[layer - 1], self.correct[layer], out=counts[layer])
        counts[-1] = counts[-2]
        return counts

    def take(self, rows: Rows) -> Outcomes:
        """The outcomes of the samples at ``rows`` only."""
        if self.true_positive is None or self.predicted_positive is None or self.actual_positive is None:
            return Outcomes(self.correct[:, rows], costs=self.costs)
        return Outcomes(
            correct=self.correct[:, rows],
            true_positive=self.true_positive[:, rows],
            predicted_positive=self.predicted_positive[:, rows],
            actual_positive=self.actual_positive[rows],
            costs=self.costs,
        )

    @property
    def full_cost(self) -> int:
        """What the last layer costs, in the units of :meth:`paid`: the depth, unless costs are given."""
        return self.depth if self.costs is None else FULL_COST

    @property
    def cheapest(self) -> float:
        """The cost of the first layer, relative to the last."""
        return 1 / self.depth if self.costs is None else float(self.costs[0] / FULL_COST)

    def paid(self, exits: NDArray[np.int64]) -> NDArray[np.int64]:
        """What exiting at the layers ``exits`` (from 1) costs, in their shape: those layers, unless costs are given."""
        return exits if self.costs is None else np.asarray(self.costs[exits - 1], dtype=np.int64)

    @property
    def layer_costs(self) -> NDArray[np.int64]:
        """What exiting at each layer costs, in the units of :meth:`paid`, [layers]."""
        return self.paid(np.arange(1, self.depth + 1))

    @property
    def counted(self) -> dict[str, NDArray[np.bool_]]:
        """The per-layer truths whose sums make a tally, each [layers, samples], under the tally's names."""
        if self.true_positive is None or self.predicted_positive is None:
            return {"correct": self.correct}
        return {
            "correct": self.correct,
            "true_positives": self.true_positive,
            "predicted_positives": self.predicted_positive,
        }


def cost_units(costs: Sequence[float], depth: int) -> NDArray[np.int64]:
    """Costs in any unit as whole numbers of :data:`FULL_COST` to the last layer's, [layers].

    >>> (cost_units([1.0, 2.0, 8.0], 3) * 8 // FULL_COST).tolist()
    [1, 2, 8]
    """
    values = np.asarray(costs, dtype=np.float64)
    if values.shape != (depth,) or not np.isfinite(values).all() or not values[0] > 0 or (np.diff(values) < 0).any():
        raise InputError(f"expected {depth} costs above 0 that never fall from layer to layer, found {list(costs)}")
    units: NDArray[np.int64] = np.maximum(np.rint(values / values[-1] * FULL_COST), 1).astype(np.int64)
    return units
