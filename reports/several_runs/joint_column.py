"""One column of several runs: scores of all contenders, and paired tests of all pairs on the same rows.

Values are the stored ones. The error of a difference comes from the stored answers, row by row (the influence function
of the task score, summed over what belongs together), as within a run; what a stored error has beyond that of its
answers is added where the entry chose among parameters, and elsewhere (a fit, deals of folds) where it is more than a
quarter. Rows of caches of the same task and split with the same ids are taken as the same rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference
from exitbench.benchmarks.statistics.delong import normal_difference
from exitbench.benchmarks.statistics.intervals import CONFIRMED
from exitbench.benchmarks.statistics.multiple_comparisons import ColumnMarks, column_marks
from exitbench.reports.several_runs.common_ground import Content
from exitbench.reports.several_runs.joint_runs import Contender, JointRuns
from exitbench.reports.several_runs.stored_answers import StoredAnswers, refuse_other_rows


@dataclass(frozen=True, eq=False)
class JointColumn:
    """The mean score over some caches of the contenders that count on each of them.

    ``values`` and ``beyond`` (the variance that answers do not show) are [contenders], ``gram`` holds the products of
    their influence values, [contenders, contenders].
    """

    caches: tuple[Content, ...]
    contenders: tuple[Contender, ...]
    values: NDArray[np.float64]
    gram: NDArray[np.float64]
    beyond: NDArray[np.float64]
    rows: int

    def std_err(self, position: int) -> float:
        """The standard error of one contender's value."""
        return math.sqrt(max(float(self.gram[position, position]), 0.0) + float(self.beyond[position]))

    def difference(self, first: int, second: int) -> Difference:
        """First less second, with its interval and p-value, not adjusted."""
        gram = self.gram
        paired = float(gram[first, first] + gram[second, second] - 2 * gram[first, second])
        extra = 0.0 if first == second else float(self.beyond[first] + self.beyond[second])
        value = float(self.values[first] - self.values[second])
        return normal_difference(value, math.sqrt(max(paired, 0.0) + extra))

    @cached_property
    def tests(self) -> dict[tuple[int, int], Difference]:
        """The differences of all pairs."""
        pairs = itertools.combinations(range(len(self.contenders)), 2)
        return {(first, second): self.difference(first, second) for first, second in pairs}

    @cached_property
    def marks(self) -> ColumnMarks:
        """Who is best, who is level with the best, and Holm's adjustment over all pairs."""
        return column_marks(self.values, {pair: test.p_value for pair, test in self.tests.items()})

    def adjusted(self, first: int, second: int) -> float:
        """The p-value of a pair with Holm's adjustment."""
        return self.marks.adjusted[min(first, second), max(first, second)]


def counts(row: Row | None, contender: Contender, protocol: str) -> bool:
    """Whether a stored score takes part: matched, and not flattered by a choice on the scored rows."""
    flattered = protocol == "in-sample" and contender.entry.is_grid
    return row is not None and row.status == "ok" and not math.isnan(row.value) and not flattered


def joint_column(joint: JointRuns, caches: Sequence[Content]) -> JointColumn:
    """The column of the mean over ``caches``; contenders whose score on one of them does not count take no part."""
    chosen = []
    for contender in joint.contenders:
        every = [(joint.row(contender, content), joint.answers_of(contender, content)) for content in caches]
        if all(counts(row, contender, joint.ground.protocol) and answers is not None for row, answers in every):
            chosen.append(contender)
    size = len(chosen)
    values, beyond, gram, rows = np.zeros(size), np.zeros(size), np.zeros((size, size)), 0
    for block in caches_by_rows(joint, caches):
        moved: list[NDArray[np.float64]] = []
        units: list[NDArray[np.int64]] = []
        for content in block:
            every_answer = [
                answers for contender in chosen if (answers := joint.answers_of(contender, content)) is not None
            ]
            for answers in every_answer[1:]:
                refuse_other_rows(joint.titles[content], every_answer[0], answers)
            measure = joint.owner(content)[1].measure
            for position, (contender, answers) in enumerate(zip(chosen, every_answer, strict=True)):
                row = joint.row(contender, content)
                assert row is not None
                values[position] += row.value / len(caches)
                added = added_variance(row, answers, measure, chose=contender.entry.is_grid)
                beyond[position] += added / len(caches) ** 2
            if every_answer:
                rows += len(every_answer[0].ids)
                moved.append(np.stack([answers.influence(measure) for answers in every_answer]) / len(caches))
                units.append(every_answer[0].units)
        if moved:
            _, number = np.unique(np.concatenate(units), return_inverse=True)
            together = np.concatenate(moved, axis=1)
            summed = np.stack([np.bincount(number, weights=line) for line in together])
            gram += summed @ summed.T
    return JointColumn(tuple(caches), tuple(chosen), values, gram, beyond, rows)


def caches_by_rows(joint: JointRuns, caches: Sequence[Content]) -> list[list[Content]]:
    """The caches by task and split, and by whether they have groups: within one, equal ids are taken as one row."""
    blocks: dict[tuple[str, str, bool], list[Content]] = {}
    for content in caches:
        first, cache = joint.owner(content)
        any_answers = next(
            (joint.answers_of(contender, content) for contender in joint.contenders if first in contender.runs), None
        )
        grouped = any_answers is not None and any_answers.groups is not None
        blocks.setdefault((cache.task, cache.split, grouped), []).append(content)
    return list(blocks.values())


def added_variance(row: Row, answers: StoredAnswers, measure: str, *, chose: bool) -> float:
    """What the stored error of a score has beyond the error of its answers, as a variance.

    For an entry that ``chose`` among parameters all of it counts, since choosing moves the score; otherwise it is
    taken for the coarser steps of resampled curves where it is little, as within a run.
    """
    own = answers.std_err(measure)
    stored = 0.0 if row.std_err is None or math.isnan(row.std_err) else row.std_err
    return stored**2 - own**2 if stored > (1.0 if chose else CONFIRMED) * own else 0.0
