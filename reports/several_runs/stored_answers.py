"""The answers that a run stores at one operating point: what each signal said of each row, and how that scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.tally import influence_of_counts
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.scoring.groups import summed_by_group
from exitbench.errors import InputError
from exitbench.reports.run_data.finished_run import FinishedRun

if TYPE_CHECKING:
    import pandas as pd

AnswersOf = Mapping[tuple[str, str, str], "StoredAnswers"]
"""Cache, signal and parameters to the answers of that entry."""


@dataclass(frozen=True, eq=False)
class StoredAnswers:
    """One entry on one cache, each array [samples] in the order of the ids; ``groups`` is None where there are none."""

    ids: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    exit_layer: NDArray[np.int64]
    prediction: NDArray[np.int64]
    label: NDArray[np.int64]

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.prediction == self.label)

    @property
    def units(self) -> NDArray[np.int64]:
        """What the samples are drawn by, [samples]: their groups, else the samples themselves."""
        return self.ids if self.groups is None else self.groups

    def score(self, measure: str) -> float:
        """The task score of the answers, in percent: accuracy, or F1 of class 1 (0 where nothing is of that class)."""
        if measure == "accuracy":
            return 100.0 * float(self.right.mean())
        predicted, actual = self.prediction == 1, self.label == 1
        size = int(predicted.sum()) + int(actual.sum())
        return 200.0 * int((predicted & actual).sum()) / size if size else 0.0

    def influence(self, measure: str) -> NDArray[np.float64]:
        """How much each sample moves the task score, in points, [samples]; the norm over groups is its error."""
        predicted, actual = self.prediction == 1, self.label == 1
        return influence_of_counts(self.right, measure, predicted & actual, predicted, actual)

    def std_err(self, measure: str) -> float:
        """The standard error of the task score that the answers alone give."""
        return float(np.linalg.norm(summed_by_group(self.influence(measure), self.groups)))

    def same_as(self, other: StoredAnswers) -> bool:
        """Whether two entries exit and answer alike on every row."""
        return np.array_equal(self.exit_layer, other.exit_layer) and np.array_equal(self.prediction, other.prediction)


def stored_answers(run: FinishedRun, protocol: str, point: OperatingPoint) -> AnswersOf:
    """Every entry's answers near one operating point under one protocol, by cache, signal and parameters."""
    frame = run.files.samples_at(protocol, point.text).to_pandas()
    answers = {}
    for (cache, signal, parameters), part in frame.groupby(["cache", "signal", "parameters"], sort=False):
        answers[str(cache), str(signal), str(parameters)] = answers_in(part.sort_values("id"))
    return answers


def answers_in(rows: pd.DataFrame) -> StoredAnswers:
    """Rows of ``samples.parquet`` of one entry, in the order of their ids, as arrays."""
    ids, exits, predictions, labels = (
        rows[name].to_numpy(np.int64) for name in ("id", "exit_layer", "prediction", "label")
    )
    groups = None if rows["group"].isna().any() else rows["group"].to_numpy(np.int64)
    return StoredAnswers(ids, groups, exits, predictions, labels)


def refuse_other_rows(cache: str, first: StoredAnswers, second: StoredAnswers) -> None:
    """InputError where two runs over one cache hold different rows of it: their files are not what they say."""
    if not (np.array_equal(first.ids, second.ids) and np.array_equal(first.label, second.label)):
        raise InputError(f"expected the same rows of {cache} in both runs, found others")
