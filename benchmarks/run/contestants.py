"""The entries of a comparison, each with what its paired tests need: resamples, and influence values by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.set_aside import set_aside
from exitbench.benchmarks.measures.calibration import CALIBRATION, calibration_errors
from exitbench.benchmarks.measures.equal_share import EqualShareErrors, all_layers
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.vocabulary import Ties
from exitbench.benchmarks.run.measurements import ComparedEntry, Question, question_of
from exitbench.benchmarks.run.rows.measured import Measured
from exitbench.benchmarks.scoring.groups import summed_by_group
from exitbench.benchmarks.statistics.aurc_influence import risk_influence

INFLUENCES = ("dis", "aurc", "excess_aurc", *CALIBRATION)
"""Measures of one layer, whose errors come from influence values."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Contestant:
    """One entry under one protocol with what its paired tests need."""

    signal: str
    parameters: str
    resampled: Mapping[Question, NDArray[np.float64]]
    ranking: Ranking
    ties: Ties
    deals: Mapping[Question, NDArray[np.float64]]
    fit_errors: Mapping[Question, float]
    score_influence: Mapping[Question, NDArray[np.float64]]
    flattered: bool = False

    @classmethod
    def of(
        cls,
        entry: ComparedEntry,
        area: Measured,
        right: NDArray[np.bool_],
        folds: NDArray[np.int64] | None,
        ties: Ties,
        groups: NDArray[np.int64] | None = None,
    ) -> Contestant:
        """From an entry and its area; ``right`` [layers - 1, samples], ``folds`` and ``groups`` [samples] as its
        ranking has them."""
        resampled = dict(entry.resampled)
        deals = dict(entry.deals)
        if area.resampled is not None:
            resampled[question_of(area.row)] = area.resampled
        if area.deals is not None:
            deals[question_of(area.row)] = area.deals
        return cls(
            signal=entry.signal,
            parameters=entry.parameters,
            resampled=resampled,
            ranking=Ranking(entry.certainty, right, folds, groups),
            ties=ties,
            deals=deals,
            fit_errors=entry.fit_errors,
            score_influence={name: summed_by_group(values, groups) for name, values in entry.influence.items()},
            flattered=is_flattered(entry.protocol, chose=entry.chose),
        )

    @property
    def name(self) -> tuple[str, str]:
        return self.signal, self.parameters

    def influence(self, layer: int, measure: str) -> NDArray[np.float64]:
        """What each sample adds to the error of a measure of one layer, [samples]; each group, where there are some."""
        if layer not in self._influence:
            ranking, row = self.ranking.piece_of(layer)
            area, excess = risk_influence(ranking, row)
            by_sample = {"dis": ranking.influence(row, self.ties), "aurc": area, "excess_aurc": excess}
            self._influence[layer] = {
                name: set_aside(summed_by_group(values, ranking.groups)) for name, values in by_sample.items()
            }
        if measure in CALIBRATION and measure not in self._influence[layer]:
            errors = calibration_errors(self.ranking.certainty[layer - 1], self.ranking.right[layer - 1])
            self._influence[layer] |= {
                name: set_aside(summed_by_group(influence, self.ranking.groups))
                for name, (_, influence) in errors.items()
            }
        return self._influence[layer][measure]

    @cached_property
    def equal_share(self) -> EqualShareErrors:
        """Errors at equal exit shares, over all layers."""
        errors = all_layers(self.ranking)
        return EqualShareErrors(errors.count, *map(set_aside, (errors.errors, errors.wrong, errors.right)))

    @cached_property
    def _influence(self) -> dict[int, dict[str, NDArray[np.float64]]]:
        return {}


def is_flattered(protocol: str, *, chose: bool) -> bool:
    """Whether the samples that are scored have chosen an entry's parameters."""
    return chose and protocol == "in-sample"
