"""Task scores from counts, so that folds can be pooled, resamples weighted and neighbours interpolated.

Accuracy, the F1 of class 1 and their mean are functions of a few sums over samples; so is the speed-up. A
:class:`Tally` holds those sums (for one point, for all points of a curve, or for all resamples) and is the
only thing that is ever added or interpolated; scores are read off at the end, in percent.

F1 is ``2 TP / (predicted + actual)``; where both are empty it is 0, as scikit-learn has it, and
:func:`verdict` says that nothing was there to find.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.scoring.signal_scores import Rows
from exitbench.errors import InputError

Measure = Literal["accuracy", "f1", "mean_accuracy_f1"]
TASK_SCORES: tuple[Measure, ...] = ("accuracy", "f1", "mean_accuracy_f1")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What every layer's answer is worth: ``correct`` [layers, samples].

    For F1 also ``flagged`` [layers, samples] (class 1 was predicted), ``positive`` [samples] (class 1 is
    true) and ``hit`` [layers, samples] (both); all three or none.
    """

    correct: NDArray[np.bool_]
    hit: NDArray[np.bool_] | None = None
    flagged: NDArray[np.bool_] | None = None
    positive: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, predictions: ArrayLike, labels: ArrayLike, positive_class: int | None = None) -> Outcomes:
        """From ``predictions`` [layers, samples] and ``labels`` [samples]; a ``positive_class`` adds F1."""
        said, true = np.asarray(predictions), np.asarray(labels)
        if said.ndim != 2 or true.shape != said.shape[1:]:
            raise InputError(
                f"expected predictions [layers, samples] and labels [samples], found {said.shape} and {true.shape}"
            )
        correct = said == true
        if positive_class is None:
            return cls(correct)
        flagged, positive = said == positive_class, true == positive_class
        return cls(correct, flagged & positive, flagged, positive)

    @classmethod
    def of_task(cls, predictions: ArrayLike, labels: ArrayLike, metric: str) -> Outcomes:
        """For a task judged by ``metric``: with F1 of class 1 where that is ``f1``."""
        return cls.of(predictions, labels, 1 if metric == "f1" else None)

    @property
    def depth(self) -> int:
        return int(self.correct.shape[0])

    @property
    def samples(self) -> int:
        return int(self.correct.shape[1])

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The task scores that these outcomes allow."""
        return TASK_SCORES if self.positive is not None else ("accuracy",)

    def take(self, rows: Rows) -> Outcomes:
        """The outcomes of the samples at ``rows`` only."""
        if self.hit is None or self.flagged is None or self.positive is None:
            return Outcomes(self.correct[:, rows])
        return Outcomes(self.correct[:, rows], self.hit[:, rows], self.flagged[:, rows], self.positive[rows])

    @property
    def counted(self) -> dict[str, NDArray[np.bool_]]:
        """The per-layer truths whose sums make a tally, each [layers, samples], under the tally's names."""
        if self.hit is None or self.flagged is None:
            return {"correct": self.correct}
        return {"correct": self.correct, "hits": self.hit, "flagged": self.flagged}
