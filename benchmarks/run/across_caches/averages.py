"""Averages over the caches of one model and split, and over those of one task and split: scores, speed-ups, DIS.

An average is blank if a cache has no value. Every task counts once, whatever the number of its caches; over models,
every model. Errors and paired tests, also over caches that share rows, come from
:mod:`exitbench.benchmarks.run.across_caches.average_errors`. An average over tasks has the task ``average``, also where
all caches are of one task, and one over models the model ``average``. DIS is not averaged over models: a layer of one
is not that of another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference, joined
from exitbench.benchmarks.results.vocabulary import BOUNDS, DETECTABLE, HIGHER_IS_BETTER
from exitbench.benchmarks.run.across_caches.average_errors import AveragedCache, AverageErrors, SourceKey
from exitbench.benchmarks.run.across_caches.averaged_groups import averaged_groups
from exitbench.benchmarks.run.compared_columns import marked_row, pair_rows, smallest_difference_rows, without_flattered
from exitbench.benchmarks.run.contestants import is_flattered
from exitbench.benchmarks.run.measurements import Question, question_of
from exitbench.benchmarks.run.rows.per_layer_rows import mean_pairs
from exitbench.benchmarks.statistics.crossed_errors import ENOUGH_NETWORKS, MeanError, mean_difference
from exitbench.benchmarks.statistics.multiple_comparisons import column_marks
from exitbench.benchmarks.suites.questions import TARGETS

AVERAGED = ("accuracy", "speed_up", "max_speed_up")
Metrics = Mapping[str, str]
"""Cache name to its task's own score."""

Name = tuple[str, str]
"""Signal and parameters."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class MeanColumn:
    """One signal at one question, with the row of each cache that has one."""

    signal: str
    parameters: str
    question: Question
    rows: Mapping[str, Row]


class CacheIndex(Generic[Item]):
    """Rows or pairs by their cache: groups of caches are many, and each would otherwise search everything."""

    def __init__(self, items: Sequence[Item], cache_of: Callable[[Item], str]) -> None:
        self._items = items
        self._positions: dict[str, list[int]] = {}
        for position, item in enumerate(items):
            self._positions.setdefault(cache_of(item), []).append(position)

    def of(self, caches: Collection[str]) -> list[Item]:
        """Those of some caches, in the order in which they were given."""
        positions = sorted(position for cache in caches for position in self._positions.get(cache, ()))
        return [self._items[position] for position in positions]


def averages(
    rows: Sequence[Row],
    pairs: Sequence[Mapping[str, Any]],
    caches: Sequence[AveragedCache],
    entries: Sequence[Name],
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Average rows and their pairs, over all ``caches`` of one model or task and split, also those that failed.

    Under each protocol over those that are measured under it, so that no average mixes two; an average over caches
    whose right answers are not the same thing (labels, agreement) is blank and says so. Of single layers only DIS is
    averaged, over tasks, at the layers that all caches have rows of. ``entries`` are the (signal, parameters) that the
    suite compares.
    """
    metrics = {cache.cache: cache.metric for cache in caches}
    means: list[Row] = []
    tests: list[dict[str, Any]] = []
    rows_on, pairs_on = CacheIndex(rows, lambda row: row.cache), CacheIndex(pairs, lambda pair: str(pair["cache"]))
    by_protocol = {}
    for protocol in dict.fromkeys(row.protocol for row in rows):
        groups = averaged_groups([cache for cache in caches if protocol in cache.protocols])
        by_protocol[protocol] = {group.key: group for group in groups}
    for key in (group.key for group in averaged_groups(caches)):
        for protocol, own_groups in by_protocol.items():
            if key not in own_groups:
                continue
            group = own_groups[key]
            names = group.names
            own_pairs = [pair for pair in pairs_on.of(names) if pair["protocol"] == protocol]
            columns = {"cache": "", **group.key_columns, "protocol": protocol}
            errors = AverageErrors(group.caches, group.over)
            group_rows = rows_on.of(names)
            with_dis = entries if group.over == "task" else ()
            means_of = mean_columns(group_rows, protocol, names, metrics, with_dis)
            averaged = [mean_row(columns, column, names, metrics, errors) for column in means_of]
            if refusal := different_targets(group.caches):
                means += [blanked(row, refusal) for row in averaged]
                continue
            flattered = {
                (row.signal, row.parameters)
                for row in group_rows
                if row.protocol == protocol and is_flattered(protocol, chose=row.chosen is not None)
            }
            marked, compared = compare_means(columns, averaged, means_of, own_pairs, errors, entries, flattered)
            means += [marked.get(row.key, row) for row in averaged]
            tests += compared
            means += smallest_difference_rows(columns, compared)
            tests += mean_pairs(columns, own_pairs, errors, average_measure(metrics[name] for name in names))
    return means, tests


def different_targets(caches: Sequence[AveragedCache]) -> str:
    """Why caches have no average: their right answers are not the same thing; empty where they are."""
    by_target = {target: [cache.cache for cache in caches if cache.target == target] for target in TARGETS}
    if not all(by_target.values()):
        return ""
    labels, final = (", ".join(by_target[target]) for target in TARGETS)
    return f"not averaged: right means the label on {labels}, agreement with the last layer on {final}"


def blanked(row: Row, reason: str) -> Row:
    """The row without its number."""
    nothing = float("nan")
    return row._replace(
        value=nothing, low=nothing, high=nothing, std_err=nothing, n=0, status="undefined", reason=reason
    )


def average_measure(metrics: Iterable[str]) -> str:
    """What the average of tasks with these metrics is called."""
    different = set(metrics)
    return different.pop() if len(different) == 1 else "mean_accuracy_f1"


def mean_columns(
    rows: Sequence[Row], protocol: str, caches: Sequence[str], metrics: Metrics, entries: Collection[Name]
) -> list[MeanColumn]:
    """What can be averaged: values without a layer, and the DIS of ``entries``, gathered over caches.

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
        if row.protocol != protocol or row.decisions or row.operating_point.kind == "tau":
            continue
        if row.signal == DETECTABLE:  # its average comes from the tests of the averages
            continue
        if row.layer is not None:
            if row.measure == "dis" and (row.signal, row.parameters) in entries:
                gathered.setdefault((row.signal, row.parameters, question_of(row)), {})[row.cache] = row
            continue
        averaged = exactly.get(row.key, row)
        if row.measure in AVERAGED:
            gathered.setdefault((row.signal, row.parameters, question_of(row)), {})[row.cache] = averaged
        if row.measure == metrics[row.cache] and task_scores != {"accuracy"}:
            # Where tasks differ in metric, the paper's average takes each task's own; see results.schema.
            question = (row.operating_point, row.layer, row.decisions, average_measure(task_scores))
            gathered.setdefault((row.signal, row.parameters, question), {})[row.cache] = averaged
    return [
        MeanColumn(signal, parameters, question, by_cache)
        for (signal, parameters, question), by_cache in gathered.items()
        if question[1] is None or set(by_cache) == set(caches)
    ]


def counted_rows(column: MeanColumn) -> dict[str, Row]:
    """The rows of a column that have a value which counts."""
    return {
        cache: row
        for cache, row in column.rows.items()
        if row.status in ("ok", "unreliable") and not np.isnan(row.value)
    }


def mean_row(
    columns: Mapping[str, Any], column: MeanColumn, caches: Sequence[str], metrics: Metrics, errors: AverageErrors
) -> Row:
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
    counted = counted_rows(column)
    missing = [cache for cache in caches if cache not in counted]
    if missing:
        return blank._replace(status="undefined", reason=f"no value for {', '.join(missing)}")
    values = {cache: row.value for cache, row in counted.items()}
    error = errors.of_value(
        values,
        {cache: row.std_err for cache, row in counted.items()},
        {cache: source_key(row) for cache, row in counted.items()},
    )
    value, reach = errors.mean(values), error.quantile * error.std_err
    return blank._replace(
        value=value,
        low=value - reach,
        high=value + reach,
        std_err=error.std_err,
        n=errors.count({cache: row.n for cache, row in counted.items()}),
        reason=joined(meaning(measure, metrics, errors), scope(errors, error)),
    )


def source_key(row: Row) -> SourceKey:
    """Where the source of a row's error is found."""
    return row.protocol, row.signal, row.parameters, question_of(row)


def meaning(measure: str, metrics: Metrics, errors: AverageErrors) -> str:
    """What was averaged, in words."""
    tasks = {cache.task: metrics[cache.cache] for cache in errors.caches}
    f1 = sum(metric == "f1" for metric in tasks.values())
    several = f"{len(errors.caches)} caches" if errors.members < len(errors.caches) else ""
    if measure == "mean_accuracy_f1":
        own = f"mean of each task's own score: accuracy on {len(tasks) - f1} tasks, F1 on {f1}"
        return joined(own, several)
    if errors.over == "model":
        over = f"{errors.members} models"
    else:
        over = f"{errors.tasks} tasks" if errors.tasks > 1 else "one task"
    return f"mean over {several} of {over}" if several else f"mean over {over}"


def scope(errors: AverageErrors, error: MeanError) -> str:
    """What an average is about: these networks, or networks trained like them."""
    fewest = min(errors.networks)
    if fewest < ENOUGH_NETWORKS or errors.over == "model":
        return "for these networks only"
    law = "" if np.isinf(error.degrees) else f", Student's t with {error.degrees:.1f} degrees of freedom"
    return f"for networks trained alike: rows crossed with at least {fewest} networks{law}"


def compare_means(
    columns: Mapping[str, Any],
    means: Sequence[Row],
    means_of: Sequence[MeanColumn],
    pairs: Sequence[Mapping[str, Any]],
    errors: AverageErrors,
    entries: Sequence[Name],
    flattered: Collection[Name] = (),
) -> tuple[dict[tuple[Any, ...], Row], list[dict[str, Any]]]:
    """Marks and pairs of the averages, from those of the single caches; a flattered entry has none, as there.

    ``means_of`` are the columns behind ``means``, in their order.
    """
    metrics = {cache.cache: cache.metric for cache in errors.caches}
    single = {pair_identity(pair): float(pair["std_err"]) for pair in pairs if pair["cache"] in metrics}
    columns_of = {(column.signal, column.parameters, column.question): column for column in means_of}
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
        counted = [counted_rows(columns_of[*name, question]) for name in names]
        keys = [{cache: source_key(row) for cache, row in rows.items()} for rows in counted]
        for a, b in itertools.combinations(range(len(present)), 2):
            values = {cache: row.value - counted[b][cache].value for cache, row in counted[a].items()}
            std_errs = {
                cache: single.get((cache, names[a], names[b], task_question(question, metrics[cache])), float("nan"))
                for cache in values
            }
            error = errors.of_difference(values, std_errs, keys[a], keys[b])
            differences[a, b] = mean_difference(present[a].value - present[b].value, error)
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
