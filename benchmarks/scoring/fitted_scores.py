"""Scores by signals fitted on some samples of a cache, where parts that ask for the same fit share it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import flat_true
from exitbench.benchmarks.scoring.kept_scores import kept_scores
from exitbench.benchmarks.scoring.score_cache import fitted, score_each
from exitbench.benchmarks.scoring.score_store import Role, Scores
from exitbench.cache import Cache, Target
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal

FitSize = tuple[int, int]
"""How many parameters a fit gave a signal, and on how many samples."""


class FittedScores:
    """Fits on the caches of one unit, by role; ``order`` has the rows of each by id, in which all masks count."""

    def __init__(self, caches: Mapping[Role, Cache], order: Mapping[Role, NDArray[np.intp]], target: Target) -> None:
        self.caches, self.order, self.target = caches, order, target
        self._learner: ExitSignal | None = None
        self._remembered: dict[tuple[Role, bytes], tuple[Scores, FitSize]] = {}

    def fit(self, signal: ExitSignal, role: Role, seen: NDArray[np.bool_]) -> tuple[ExitSignal, FitSize]:
        """The signal fitted on the samples ``seen``: in the order of ids, so that sums do not see the cache's order."""
        ready = fitted(signal, self.caches[role], self.order[role][seen], target=self.target)
        return ready, (ready.fitted_parameters, int(seen.sum()))

    def scores(self, signal: ExitSignal, role: Role, wanted: NDArray[np.bool_] | None = None) -> Scores:
        """The scores of a fitted signal on the ``wanted`` samples of a role (by default all), [layers - 1, samples].

        They are ordered by id, as the mask ``wanted`` is.
        """
        rows = self.order[role] if wanted is None else self.order[role][wanted]
        mask = np.zeros(self.caches[role].rows, dtype=bool)
        mask[rows] = True
        (outcome,) = score_each(self.caches[role], [signal], mask)
        if isinstance(outcome, InputError):
            raise outcome
        return np.asanyarray(outcome[:, np.searchsorted(flat_true(mask), rows)])

    def unseen(self, signal: ExitSignal, role: Role, seen: NDArray[np.bool_]) -> tuple[Scores, FitSize]:
        """The scores of all samples but those ``seen``, by a fit on these, and its size.

        Asked again for the same signal, it answers from memory; in another run from the fit cache's folder.
        """
        if signal != self._learner:
            self._learner, self._remembered = signal, {}
        key = (role, np.packbits(seen).tobytes())
        if key not in self._remembered:
            cache, rows = self.caches[role], self.order[role]
            labels = cache.truth(self.target)[rows[seen]]

            def fit_and_score() -> tuple[Scores, int]:
                ready, (parameters, _) = self.fit(signal, role, seen)
                return self.scores(ready, role, ~seen), parameters

            scores, parameters = kept_scores(signal, cache, rows[seen], labels, rows[~seen], fit_and_score)
            self._remembered[key] = scores, (parameters, int(seen.sum()))
        return self._remembered[key]
