"""The columns of a comparison: paired differences of all entries, and which may be called best."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference
from exitbench.benchmarks.results.vocabulary import BOUNDS, HIGHER_IS_BETTER, LOWER_IS_BETTER, NORMAL_QUANTILE, Ties
from exitbench.benchmarks.statistics.aurc_influence import risk_influence
from exitbench.benchmarks.statistics.delong import two_sided
from exitbench.benchmarks.statistics.intervals import differences
from exitbench.benchmarks.statistics.multiple_comparisons import against_best, holm

INFLUENCES = ("dis", "aurc", "excess_aurc")
"""Measures of one layer, whose errors come from influence values."""


Question = tuple[OperatingPoint, int | None, str, str]
"""The columns ``operating_point``, ``layer``, ``decisions`` and ``measure``."""


@dataclass(frozen=True, eq=False)
class Compared:
    """One entry under one protocol, as stage two left it."""

    signal: str
    parameters: str
    reason: str
    resampled: dict[Question, NDArray[np.float64]]
    ranking: Ranking
    polyline: tuple[NDArray[np.float64], NDArray[np.float64]]
    band: tuple[NDArray[np.float64], NDArray[np.float64]]
    band_resampled: tuple[NDArray[np.float64], NDArray[np.float64]]
    ties: Ties = "half"

    @property
    def name(self) -> tuple[str, str]:
        return self.signal, self.parameters

    def influence(self, layer: int) -> dict[str, NDArray[np.float64]]:
        """What each sample adds to the error of the measures of one layer, by measure, each [samples]."""
        if layer not in self._influence:
            ranking = self.ranking.some_layers(slice(layer - 1, layer))
            area, excess = risk_influence(ranking, 1)
            self._influence[layer] = {"dis": ranking.influence(1, self.ties), "aurc": area, "excess_aurc": excess}
        return self._influence[layer]

    @cached_property
    def _influence(self) -> dict[int, dict[str, NDArray[np.float64]]]:
        return {}


def question_of(row: Row) -> Question:
    """The part of a row's key that makes it a column of a table."""
    return row.operating_point, row.layer, row.decisions, row.measure


def is_compared(question: Question) -> bool:
    """Whether a column is a contest: more or less is better, and the entries stand at comparable points."""
    point, layer, decisions, measure = question
    single_layer_reached = decisions == "reached" and layer is not None  # has no resamples
    if point.kind == "tau" or decisions == "randomised" or single_layer_reached:
        return False
    if point.kind == "loss":
        return measure == "max_speed_up"
    return measure in HIGHER_IS_BETTER | LOWER_IS_BETTER


def compare(
    place: Mapping[str, Any], entries: Sequence[Compared], rows: Mapping[tuple[str, str, Question], Row]
) -> tuple[dict[tuple[Any, ...], Row], list[dict[str, Any]]]:
    """Rows with their marks, by key, and the pairs of all columns."""
    entries = [one for one in entries if one.signal not in BOUNDS]
    questions = dict.fromkeys(
        question for (signal, parameters, question) in rows
        if is_compared(question) and any(one.name == (signal, parameters) for one in entries)
    )  # fmt: skip
    marked: dict[tuple[Any, ...], Row] = {}
    pairs: list[dict[str, Any]] = []
    for question in questions:
        column = [(entry, rows.get((*entry.name, question))) for entry in entries]
        present = [(entry, row) for entry, row in column if row is not None and row.status == "ok"]
        if not present:
            continue
        measure = question[3]
        tests = tested(present)
        p_value = paired_p_value(tests)
        values = [row.value for _, row in present]
        marks = against_best(values, p_value, larger_is_better=measure in HIGHER_IS_BETTER)
        for number, (_, row) in enumerate(present):
            best, tied = bool(marks.best[number]), bool(marks.tied_with_best[number])
            marked[row.key] = row._replace(best=best, tied_with_best=tied)
        adjusted = holm([test.p_value for test in tests.values()])
        first = int(np.flatnonzero(marks.best)[0]) if marks.best.any() else -1
        for (pair, test), over_pairs in zip(tests.items(), adjusted, strict=True):
            other = pair[1] if pair[0] == first else pair[0]
            against = float(marks.adjusted[other]) if first in pair else None
            pairs.append(pair_row(place, question, present[pair[0]][0].name, present[pair[1]][0].name, test,
                                  present[0][1].n, float(over_pairs), against))  # fmt: skip
    return marked, pairs


def paired_p_value(tests: Mapping[tuple[int, int], Difference]) -> Callable[[int, int], float]:
    """The p-value of a pair, in either order."""
    return lambda a, b: tests[min(a, b), max(a, b)].p_value


def pair_row(
    place: Mapping[str, Any],
    question: Question,
    first: tuple[str, str],
    second: tuple[str, str],
    test: Difference,
    n: int,
    adjusted: float,
    against_best: float | None,
) -> dict[str, Any]:
    """One row of ``pairs.parquet``."""
    point, layer, decisions, measure = question
    return {
        **place, "operating_point": point.text, "layer": layer, "decisions": decisions, "measure": measure,
        "signal_a": first[0], "parameters_a": first[1], "signal_b": second[0], "parameters_b": second[1],
        "difference": test.value, "low": test.low, "high": test.high, "std_err": test.std_err, "n": n,
        "p_value": test.p_value, "p_adjusted": adjusted, "p_against_best": against_best,
        "status": test.status, "reason": test.reason,
    }  # fmt: skip


def tested(present: Sequence[tuple[Compared, Row]]) -> dict[tuple[int, int], Difference]:
    """The paired differences of all entries of one column: DeLong and influence values, or the bootstrap."""
    pairs = list(itertools.combinations(range(len(present)), 2))
    values = np.array([row.value for _, row in present])
    question = question_of(present[0][1])
    _, layer, _, measure = question
    if measure in INFLUENCES and layer is not None:
        influence = [entry.influence(layer)[measure] for entry, _ in present]
        errors = (float(np.linalg.norm(influence[a] - influence[b])) for a, b in pairs)
        found = [
            normal_difference(float(values[a] - values[b]), one) for (a, b), one in zip(pairs, errors, strict=True)
        ]
    else:
        found = differences(values, np.stack([entry.resampled[question] for entry, _ in present]), pairs)
    return dict(zip(pairs, found, strict=True))


def normal_difference(value: float, std_err: float) -> Difference:
    """A difference tested with the normal law; without variance, p is 1 if equal and undefined otherwise."""
    nan = float("nan")
    if np.isnan(std_err) or np.isnan(value):
        return Difference(value, nan, nan, nan, nan, "undefined", "there is no paired test for one of the tasks")
    p_value = float(two_sided(np.array(value), np.array(std_err)))
    if np.isnan(p_value):
        return Difference(value, nan, nan, std_err, nan, "undefined", "the difference has no variance but is not zero")
    reach = NORMAL_QUANTILE * std_err
    return Difference(value, value - reach, value + reach, std_err, p_value)
