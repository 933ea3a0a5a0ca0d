"""What fitting adds to the error of a signal that learns: how much other fits change the same numbers.

DeLong's standard error takes scores as given. Those of a signal that learns come from fits, which would have been
others on other samples, and the fits of the folds share most of what they learned from. Each part of cross-fitting has
further fits: those of its inner folds, which score the part's training samples without having seen them. On these
samples, with the same pairs (those that both ways score with one fit each), the difference between a number by inner
fits and by the folds' fits is due to fitting alone; its root mean square over the parts is the error of the fit. It is
exactly 0 for a signal that learns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.deal_values import Values, certainty_values
from exitbench.benchmarks.protocols.splits import Part, fold_numbers, inner_folds
from exitbench.benchmarks.results.vocabulary import Ties

Certainties = NDArray[np.float64]
"""[layers - 1, samples]."""


def fit_errors(
    parts: tuple[Part, ...],
    certainty: Certainties,
    out_of_fold: Sequence[Certainties],
    right: NDArray[np.bool_],
    units: NDArray[np.int64],
    *,
    seed: int,
    ties: Ties = "half",
    is_probability: bool = False,
) -> Values:
    """The standard errors of fitting, by the question of each number that rests on scores alone.

    ``certainty`` is that of each sample by the fit of its part, ``out_of_fold`` those of each part, of which the ones
    of its training samples count; ``right`` is [layers - 1, samples], ``units`` [samples] are what folds go by.
    """
    outer = fold_numbers(parts)
    if outer is None:
        return {}
    changes: list[Values] = []
    for part, again in zip(parts, out_of_fold, strict=True):
        rows = np.flatnonzero(part.train)
        inner = inner_folds(part, units, seed)[rows]
        _, together = np.unique(np.stack([outer[rows], inner]), axis=1, return_inverse=True)
        before, after = (
            certainty_values(Ranking(scores[:, rows], right[:, rows], together), ties, is_probability=is_probability)
            for scores in (certainty, again)
        )
        changes.append({question: after[question] - value for question, value in before.items() if question in after})
    shared = [question for question in changes[0] if all(question in change for change in changes)]
    error = {question: float(np.sqrt(np.mean([change[question] ** 2 for change in changes]))) for question in shared}
    return {question: value for question, value in error.items() if not np.isnan(value)}
