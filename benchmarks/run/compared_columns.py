"""The columns of a comparison: paired differences of all entries, and which may be called best.

A column of a table is one question (operating point, layer, decisions, measure) under one protocol; its contestants are
the suite's entries. Only entries whose status is ``ok`` take part.

In-sample, an entry that chose among several parameters chose on the very samples that are scored, which flatters it by
up to a point: it is marked neither best nor tied, and its differences are reported outside the tests of the column.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from exitbench.benchmarks.replay.operating_points import ROUNDING
from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference, joined
from exitbench.benchmarks.results.vocabulary import (
    ADJUSTED,
    BOUNDS,
    DETECTABLE,
    EQUAL_SHARE,
    EXIT_RATES,
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
)
from exitbench.benchmarks.run.contestants import INFLUENCES, Contestant
from exitbench.benchmarks.run.measurements import Question, question_of
from exitbench.benchmarks.scoring.groups import summed_by_group
from exitbench.benchmarks.statistics.deals import paired_deal_errors
from exitbench.benchmarks.statistics.delong import influence_differences
from exitbench.benchmarks.statistics.intervals import score_differences
from exitbench.benchmarks.statistics.multiple_comparisons import ColumnMarks, column_marks
from exitbench.benchmarks.statistics.power import POWER, claimable

FLATTERED = "its parameters were chosen on the scored samples, which flatters it: no mark and no test"
"""Why an entry of a grid takes no part in a contest under the protocol ``in-sample``."""


def is_compared(question: Question) -> bool:
    """Whether a column is a contest: more or less is better, and the entries stand at comparable points."""
    point, layer, decisions, measure = question
    single_layer_reached = decisions == "reached" and layer is not None  # has no resamples
    # At equal shares both rates of one layer are the same count of errors, which DIS and AURC judge already.
    single_layer_share = decisions == EQUAL_SHARE and layer is not None
    if point.kind == "tau" or decisions == "randomised" or single_layer_reached or single_layer_share:
        return False
    if point.kind == "loss":
        return measure == "max_speed_up"
    return measure in HIGHER_IS_BETTER | LOWER_IS_BETTER


def compare(
    columns: Mapping[str, Any],
    contestants: Sequence[Contestant],
    rows: Mapping[tuple[str, str, Question], Row],
) -> tuple[dict[tuple[Any, ...], Row], list[dict[str, Any]]]:
    """Rows with their marks, by key, and the pairs of all columns."""
    contestants = [contestant for contestant in contestants if contestant.signal not in BOUNDS]
    names = {contestant.name for contestant in contestants}
    questions = dict.fromkeys(
        question for signal, parameters, question in rows if is_compared(question) and (signal, parameters) in names
    )
    marked: dict[tuple[Any, ...], Row] = {}
    pairs: list[dict[str, Any]] = []
    for question in questions:
        column = [(contestant, rows.get((*contestant.name, question))) for contestant in contestants]
        present = [(contestant, row) for contestant, row in column if row is not None and row.status == "ok"]
        if not present or has_no_errors(question, [contestant for contestant, _ in present]):
            continue
        flattered = [contestant.flattered for contestant, _ in present]
        judged = at_exactly(present, rows)
        tests = without_flattered(tested(judged), flattered)
        marks = column_marks(
            [np.nan if out else row.value for (_, row), out in zip(judged, flattered, strict=True)],
            {pair: test.p_value if test.status == "ok" else np.nan for pair, test in tests.items()},
            larger_is_better=question[3] in HIGHER_IS_BETTER,
        )
        for number, (contestant, row) in enumerate(present):
            marked[row.key] = marked_row(row, marks, number, flattered=contestant.flattered)
        pairs += pair_rows(
            columns, question, [contestant.name for contestant, _ in present], tests, marks, present[0][1].n
        )
    return marked, pairs


def has_no_errors(question: Question, contestants: Sequence[Contestant]) -> bool:
    """Whether a column has nothing to test with: exit rates at speed-ups where they have no resamples."""
    point, _, _, measure = question
    is_rate = measure in EXIT_RATES and point.kind == "speed_up"
    return is_rate and all(contestant.resampled.get(question) is None for contestant in contestants)


def at_exactly(
    present: Sequence[tuple[Contestant, Row]], rows: Mapping[tuple[str, str, Question], Row]
) -> Sequence[tuple[Contestant, Row]]:
    """The column at exactly its speed-up, where all entries have such a value with resamples: under ``held-out``.

    There each entry realises another speed-up, and a faster one would look worse than it is.
    """
    point, layer, _, measure = question_of(present[0][1])
    question = (point, layer, "randomised", measure)
    exact = [rows.get((*contestant.name, question)) for contestant, _ in present]
    if any(contestant.resampled.get(question) is None for contestant, _ in present):
        return present
    return [(contestant, row) for (contestant, _), row in zip(present, exact, strict=True) if row is not None]


def without_flattered(
    tests: Mapping[tuple[int, int], Difference], flattered: Sequence[bool]
) -> dict[tuple[int, int], Difference]:
    """The tests of a column; those of a flattered entry stay as differences that nothing is claimed from."""
    return {
        (a, b): replace(test, status="unreliable", reason=FLATTERED)
        if (flattered[a] or flattered[b]) and test.status == "ok"
        else test
        for (a, b), test in tests.items()
    }


def marked_row(row: Row, marks: ColumnMarks, number: int, *, flattered: bool) -> Row:
    """A row with its marks, or with why it has none."""
    if flattered:
        return row._replace(reason=joined(row.reason, FLATTERED))
    return row._replace(best=bool(marks.best[number]), tied_with_best=bool(marks.tied_with_best[number]))


def pair_rows(
    columns: Mapping[str, Any],
    question: Question,
    names: Sequence[tuple[str, str]],
    tests: Mapping[tuple[int, int], Difference],
    marks: ColumnMarks,
    n: int,
) -> list[dict[str, Any]]:
    """The rows of ``pairs.parquet`` of one column, with Holm's adjustment over all of its pairs."""
    point, layer, decisions, measure = question
    rows = []
    for pair, test in tests.items():
        rows.append(
            {
                **columns,
                "operating_point": point.text,
                "layer": layer,
                "decisions": decisions,
                "measure": measure,
                "signal_a": names[pair[0]][0],
                "parameters_a": names[pair[0]][1],
                "signal_b": names[pair[1]][0],
                "parameters_b": names[pair[1]][1],
                "difference": test.value,
                "low": test.low,
                "high": test.high,
                "std_err": test.std_err,
                "n": n,
                "p_value": test.p_value,
                "p_adjusted": marks.adjusted[pair],
                "p_against_best": marks.adjusted[pair] if marks.first_best in pair else None,
                "status": test.status,
                "reason": test.reason,
            }
        )
    return rows


def tested(present: Sequence[tuple[Contestant, Row]]) -> dict[tuple[int, int], Difference]:
    """The paired differences of all entries of one column: DeLong and influence values, or the bootstrap."""
    pairs = list(itertools.combinations(range(len(present)), 2))
    if not pairs:  # nobody to differ from, so that no sample's influence is needed
        return {}
    values = np.array([row.value for _, row in present])
    question = question_of(present[0][1])
    _, layer, decisions, measure = question
    deals = [contestant.deals.get(question, np.array([row.value])) for contestant, row in present]
    fitting = [contestant.fit_errors.get(question, 0.0) for contestant, _ in present]
    # Fits of two signals on the same samples may err alike; taken as independent, they claim rather too little.
    between_deals = paired_deal_errors(deals, pairs).tolist()
    errors = np.array(
        [math.hypot(error, fitting[a], fitting[b]) for error, (a, b) in zip(between_deals, pairs, strict=True)]
    )
    if decisions == EQUAL_SHARE:
        tests = influence_differences(
            values,
            [
                summed_by_group(contestant.equal_share.influence(measure), contestant.ranking.groups)
                for contestant, _ in present
            ],
            pairs,
            errors,
        )
    elif measure in INFLUENCES and layer is not None:
        influence = [contestant.influence(layer, measure) for contestant, _ in present]
        tests = influence_differences(values, influence, pairs, errors)
    else:
        draws = np.stack([contestant.resampled[question] for contestant, _ in present])
        by_answers = [contestant.score_influence.get(question) for contestant, _ in present]
        tests = score_differences(values, draws, by_answers, pairs, errors=errors)
    return dict(zip(pairs, tests, strict=True))


def smallest_difference_rows(columns: Mapping[str, Any], pairs: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The smallest difference that each column of ``pairs`` could show: for one pair, and for one of all its pairs.

    Each pair has its own standard error; the median of those that are not 0, but for rounding, stands for all: signals
    with the same answers tell nothing. The first row is the smallest true difference that a test of one pair claims at
    5% in four cases of five, the second (``adjusted``) the same with the adjustment that the marks of the best have.
    ``columns`` say which cache and protocol it is.
    """
    questions: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for pair in pairs:
        question = pair["operating_point"], pair["layer"], pair["decisions"], pair["measure"]
        questions.setdefault(question, []).append(pair)
    rows: list[Row] = []
    for (point, layer, decisions, measure), tested_pairs in questions.items():
        errors = [float(pair["std_err"]) for pair in tested_pairs if pair["std_err"] > ROUNDING]
        tests = sum(not np.isnan(pair["p_value"]) for pair in tested_pairs)
        if not errors or not tests:
            continue
        error = float(np.median(errors))
        blank = Row(
            **columns,
            signal=DETECTABLE,
            parameters="",
            operating_point=operating_point(point),
            layer=layer,
            decisions=decisions,
            measure=measure,
            n=int(tested_pairs[0]["n"]),
        )
        typical = f"with a power of {POWER:.0%}, from the median standard error {error:.3g} of {len(errors)} pairs"
        rows.append(blank._replace(value=claimable(error), reason=f"one pair at 5% {typical}"))
        every_pair = f"one of {tests} pairs, adjusted by Holm's method, {typical}"
        rows.append(blank._replace(parameters=ADJUSTED, value=claimable(error, tests), reason=every_pair))
    return rows
