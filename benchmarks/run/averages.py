"""The average over tasks: mean score and mean speed-up per model and split, blank if a task is missing.

Tasks are independent samples, so the standard error of a mean over T tasks is the root of the sum of squared errors,
over T; paired differences between signals average in the same way, which gives averages their own tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference
from exitbench.benchmarks.results.vocabulary import AVERAGE, BOUNDS, DETECTABLE, HIGHER_IS_BETTER, NORMAL_QUANTILE
from exitbench.benchmarks.run.compared_columns import marked_row, pair_rows, smallest_difference_rows, without_flattered
from exitbench.benchmarks.run.contestants import is_flattered
from exitbench.benchmarks.run.measurements import Question, question_of
from exitbench.benchmarks.run.rows.per_layer_rows import mean_pairs
from exitbench.benchmarks.statistics.delong import normal_difference
from exitbench.benchmarks.statistics.multiple_comparisons import column_marks

AVERAGED = ("accuracy", "speed_up", "max_speed_up")
Metrics = Mapping[str, str]
"""Cache name to its task's own score."""

Name = tuple[str, str]
"""Signal and parameters."""


@dataclass(frozen=True)
class AveragedCache:
    """Where a cache belongs: what it is averaged with, and by which score."""

    cache: str
    model: str
    split: str
    metric: str


@dataclass(frozen=True)
class MeanColumn:
    """One signal at one question, with the row of each cache that has one."""

    signal: str
    parameters: str
    question: Question
    rows: Mapping[str, Row]


def averages(
    rows: Sequence[Row],
    pairs: Iterable[Mapping[str, Any]],
    caches: Sequence[AveragedCache],
    entries: Sequence[Name],
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Average rows and their pairs, over all ``caches`` of one model and split, also those that failed.

    Rows and pairs of single layers are passed over. ``entries`` are the (signal, parameters) that the suite compares.
    """
    metrics = {cache.cache: cache.metric for cache in caches}
    groups: dict[tuple[str, str], list[str]] = {}
    for cache in caches:
        groups.setdefault((cache.model, cache.split), []).append(cache.cache)
    means: list[Row] = []
    tests: list[dict[str, Any]] = []
    every_pair = list(pairs)
    for (model, split), names in groups.items():
        if len(names) < 2:
            continue
        group_rows = [row for row in rows if (row.model, row.split) == (model, split)]
        for protocol in dict.fromkeys(row.protocol for row in group_rows):
            columns = {"cache": "", "model": model, "task": AVERAGE, "split": split, "protocol": protocol}
            averaged = [
                mean_row(columns, column, names, metrics)
                for column in mean_columns(group_rows, protocol, names, metrics)
            ]
            own_pairs = [pair for pair in every_pair if pair["protocol"] == protocol]
            flattered = {
                (row.signal, row.parameters)
                for row in group_rows
                if row.protocol == protocol and is_flattered(protocol, chose=row.chosen is not None)
            }
            marked, compared = compare_means(columns, averaged, names, own_pairs, metrics, entries, flattered)
            means += [marked.get(row.key, row) for row in averaged]
            tests += compared
            means += smallest_difference_rows(columns, compared)
            tests += mean_pairs(columns, own_pairs, names, average_measure(metrics[name] for name in names))
    return means, tests


def average_measure(metrics: Iterable[str]) -> str:
    """What the average of tasks with these metrics is called."""
    different = set(metrics)
    return different.pop() if len(different) == 1 else "mean_accuracy_f1"


def mean_columns(rows: Sequence[Row], protocol: str, caches: Sequence[str], metrics: Metrics) -> list[MeanColumn]:
    """What can be averaged: values without a layer, gathered over caches.

    A score that has a value with an error at exactly its speed-up (``held-out``) is averaged there.
    """
    gathered: dict[tuple[str, str, Question], dict[str, Row]] = {}
    task_scores = {metrics[cache] for cache in caches}
    exactly = {
        row._replace(decisions="").key: row
        for row in rows
        if row.decisions == "randomised" and not np.isnan(row.std_err)
    }
    for row in rows:
        if row.protocol != protocol or row.layer is not None or row.decisions or row.operating_point.kind == "tau":
            continue
        if row.signal == DETECTABLE:  # its average comes from the tests of the averages
            continue
        averaged = exactly.get(row.key, row)
        if row.measure in AVERAGED:
            gathered.setdefault((row.signal, row.parameters, question_of(row)), {})[row.cache] = averaged
        if row.measure == metrics[row.cache] and task_scores != {"accuracy"}:
            # Where tasks differ in metric, the paper's average takes each task's own; see results.schema.
            question = (row.operating_point, row.layer, row.decisions, average_measure(task_scores))
            gathered.setdefault((row.signal, row.parameters, question), {})[row.cache] = averaged
    return [MeanColumn(*key, by_cache) for key, by_cache in gathered.items()]


def mean_row(columns: Mapping[str, Any], column: MeanColumn, caches: Sequence[str], metrics: Metrics) -> Row:
    """The average of one column, blank when a cache has no value that counts."""
    point, layer, decisions, measure = column.question
    blank = Row(
        **columns,
        signal=column.signal,
        parameters=column.parameters,
        operating_point=point,
        layer=layer,
        decisions=decisions,
        measure=measure,
    )
    counted = {
        cache: row
        for cache, row in column.rows.items()
        if row.status in ("ok", "unreliable") and not np.isnan(row.value)
    }
    missing = [cache for cache in caches if cache not in counted]
    if missing:
        return blank._replace(status="undefined", reason=f"no value for {', '.join(missing)}")
    values = np.array([counted[cache].value for cache in caches])
    errors = np.array([counted[cache].std_err for cache in caches])
    value, error = float(values.mean()), float(np.sqrt(np.square(errors).sum()) / len(caches))
    reach = NORMAL_QUANTILE * error
    return blank._replace(
        value=value,
        low=value - reach,
        high=value + reach,
        std_err=error,
        n=sum(counted[cache].n for cache in caches),
        reason=meaning(measure, caches, metrics),
    )


def meaning(measure: str, caches: Sequence[str], metrics: Metrics) -> str:
    """What was averaged, in words."""
    if measure != "mean_accuracy_f1":
        return f"mean over {len(caches)} tasks"
    f1 = sum(metrics[cache] == "f1" for cache in caches)
    return f"mean of each task's own score: accuracy on {len(caches) - f1} tasks, F1 on {f1}"


def compare_means(
    columns: Mapping[str, Any],
    means: Sequence[Row],
    caches: Sequence[str],
    pairs: Sequence[Mapping[str, Any]],
    metrics: Metrics,
    entries: Sequence[Name],
    flattered: Collection[Name] = (),
) -> tuple[dict[tuple[Any, ...], Row], list[dict[str, Any]]]:
    """Marks and pairs of the averages, from the pairs of the single tasks; a flattered entry has none, as there."""
    errors = {pair_identity(pair): float(pair["std_err"]) for pair in pairs}
    marked: dict[tuple[Any, ...], Row] = {}
    tests: list[dict[str, Any]] = []
    for question in dict.fromkeys(question_of(row) for row in means):
        point, _, _, measure = question
        if measure not in HIGHER_IS_BETTER or (point.kind == "loss" and measure != "max_speed_up"):
            continue
        present = [
            row
            for row in means
            if question_of(row) == question
            and row.status == "ok"
            and (row.signal, row.parameters) in entries
            and row.signal not in BOUNDS
        ]
        if not present:
            continue
        names = [(row.signal, row.parameters) for row in present]
        differences: dict[tuple[int, int], Difference] = {}
        for a, b in itertools.combinations(range(len(present)), 2):
            single = [
                errors.get((cache, names[a], names[b], task_question(question, metrics[cache])), float("nan"))
                for cache in caches
            ]
            error = float(np.sqrt(np.square(single).sum()) / len(caches))
            differences[a, b] = normal_difference(present[a].value - present[b].value, error)
        out = [name in flattered for name in names]
        differences = without_flattered(differences, out)
        marks = column_marks(
            [np.nan if excluded else row.value for row, excluded in zip(present, out, strict=True)],
            {pair: test.p_value if test.status == "ok" else np.nan for pair, test in differences.items()},
        )
        for number, row in enumerate(present):
            marked[row.key] = marked_row(row, marks, number, flattered=out[number])
        tests += pair_rows(columns, question, names, differences, marks, present[0].n)
    return marked, tests


def pair_identity(pair: Mapping[str, Any]) -> tuple[str, Name, Name, Question]:
    """Cache, both entries and question of a row of ``pairs.parquet``."""
    question = (operating_point(pair["operating_point"]), pair["layer"], pair["decisions"], pair["measure"])
    first, second = (pair["signal_a"], pair["parameters_a"]), (pair["signal_b"], pair["parameters_b"])
    return pair["cache"], first, second, question


def task_question(question: Question, metric: str) -> Question:
    """What a question about an average asks of one task: an average of scores asks for the task's own."""
    point, layer, decisions, measure = question
    return point, layer, decisions, metric if measure in ("f1", "mean_accuracy_f1") else measure
