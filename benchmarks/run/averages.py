"""The average over tasks: mean score and mean speed-up per model and split, blank if a task is missing.

Tasks are independent samples, so the standard error of a mean over T tasks is the root of the sum of squared errors,
over T; paired differences between signals average in the same way, which gives averages their own tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference
from exitbench.benchmarks.results.vocabulary import AVERAGE, BOUNDS, HIGHER_IS_BETTER, NORMAL_QUANTILE
from exitbench.benchmarks.run.compared_columns import Question, normal_difference, pair_row, paired_p_value, question_of
from exitbench.benchmarks.statistics.multiple_comparisons import against_best, holm

AVERAGED = ("accuracy", "speed_up", "max_speed_up")
Metrics = Mapping[str, str]
"""Cache name to its task's own score."""


@dataclass(frozen=True)
class CachePlace:
    """Where a cache belongs: what it is averaged with, and by which score."""

    cache: str
    model: str
    split: str
    metric: str


def averages(
    rows: Sequence[Row],
    pairs: Iterable[Mapping[str, Any]],
    places: Sequence[CachePlace],
    entries: Sequence[tuple[str, str]],
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Average rows and their pairs, over all ``places`` of one model and split, also those that failed.

    Rows and pairs of single layers are passed over. ``entries`` are the (signal, parameters) that the suite compares.
    """
    metrics = {place.cache: place.metric for place in places}
    groups: dict[tuple[str, str], list[str]] = {}
    for place in places:
        groups.setdefault((place.model, place.split), []).append(place.cache)
    found: list[Row] = []
    tests: list[dict[str, Any]] = []
    listed = list(pairs)
    for (model, split), caches in groups.items():
        if len(caches) < 2:
            continue
        mine = [row for row in rows if (row.model, row.split) == (model, split)]
        for protocol in dict.fromkeys(row.protocol for row in mine):
            where = {"cache": "", "model": model, "task": AVERAGE, "split": split, "protocol": protocol}
            means = [mean for column in columns_of(mine, protocol, caches, metrics)
                     for mean in mean_rows(where, column, caches, metrics)]  # fmt: skip
            marked, compared = compare_means(where, means, caches, listed, metrics, entries)
            found += [marked.get(row.key, row) for row in means]
            tests += compared
    return found, tests


Column = tuple[str, str, Question, dict[str, Row]]
"""Signal, parameters, question, and the row of each cache that has one."""


def columns_of(rows: Sequence[Row], protocol: str, caches: Sequence[str], metrics: Metrics) -> list[Column]:
    """What can be averaged: readings without a layer, gathered over caches."""
    found: dict[tuple[str, str, Question], dict[str, Row]] = {}
    own = {metrics[cache] for cache in caches}
    for row in rows:
        if row.protocol != protocol or row.layer is not None or row.decisions or row.operating_point.kind == "tau":
            continue
        if row.measure in AVERAGED:
            found.setdefault((row.signal, row.parameters, question_of(row)), {})[row.cache] = row
        if row.measure == metrics[row.cache] and own != {"accuracy"}:
            # Where tasks differ in metric, the paper's average takes each task's own; see results.schema.
            name = "f1" if own == {"f1"} else "mean_accuracy_f1"
            question = (row.operating_point, row.layer, row.decisions, name)
            found.setdefault((row.signal, row.parameters, question), {})[row.cache] = row
    return [(signal, parameters, question, given) for (signal, parameters, question), given in found.items()]


def mean_rows(place: Mapping[str, Any], column: Column, caches: Sequence[str], metrics: Metrics) -> list[Row]:
    """The average of one column, blank when a cache has no value that counts."""
    signal, parameters, (point, layer, decisions, measure), given = column
    blank = Row(
        **place,
        signal=signal,
        parameters=parameters,
        operating_point=point,
        layer=layer,
        decisions=decisions,
        measure=measure,
    )
    counts = {
        cache: row for cache, row in given.items() if row.status in ("ok", "unreliable") and not np.isnan(row.value)
    }
    missing = [cache for cache in caches if cache not in counts]
    if missing:
        return [blank._replace(status="undefined", reason=f"no reading for {', '.join(missing)}")]
    values = np.array([counts[cache].value for cache in caches])
    errors = np.array([counts[cache].std_err for cache in caches])
    value, error = float(values.mean()), float(np.sqrt(np.square(errors).sum()) / len(caches))
    reach = NORMAL_QUANTILE * error
    return [
        blank._replace(
            value=value, low=value - reach, high=value + reach, std_err=error,
            n=sum(counts[cache].n for cache in caches), reason=meaning(measure, caches, metrics),
        )
    ]  # fmt: skip


def meaning(measure: str, caches: Sequence[str], metrics: Metrics) -> str:
    """What was averaged, in words."""
    if measure != "mean_accuracy_f1":
        return f"mean over {len(caches)} tasks"
    f1 = sum(metrics[cache] == "f1" for cache in caches)
    return f"mean of each task's own score: accuracy on {len(caches) - f1} tasks, F1 on {f1}"


def compare_means(
    place: Mapping[str, Any],
    means: Sequence[Row],
    caches: Sequence[str],
    pairs: Sequence[Mapping[str, Any]],
    metrics: Metrics,
    entries: Sequence[tuple[str, str]],
) -> tuple[dict[tuple[Any, ...], Row], list[dict[str, Any]]]:
    """Marks and pairs of the averages, from the pairs of the single tasks."""
    known = {
        (pair["cache"], (pair["signal_a"], pair["parameters_a"]), (pair["signal_b"], pair["parameters_b"]),
         (operating_point(pair["operating_point"]), pair["layer"], pair["decisions"], pair["measure"])): pair
        for pair in pairs if pair["protocol"] == place["protocol"]
    }  # fmt: skip
    marked: dict[tuple[Any, ...], Row] = {}
    found: list[dict[str, Any]] = []
    for question in dict.fromkeys(question_of(row) for row in means):
        point, layer, decisions, measure = question
        present = [row for row in means if question_of(row) == question and row.status == "ok"
                   and (row.signal, row.parameters) in entries and row.signal not in BOUNDS]  # fmt: skip
        if measure not in HIGHER_IS_BETTER or (point.kind == "loss" and measure != "max_speed_up") or not present:
            continue
        tests: dict[tuple[int, int], Difference] = {}
        for a, b in itertools.combinations(range(len(present)), 2):
            first, second = ((row.signal, row.parameters) for row in (present[a], present[b]))
            single = []
            for cache in caches:
                name = metrics[cache] if measure in ("f1", "mean_accuracy_f1") else measure
                single.append(known.get((cache, first, second, (point, layer, decisions, name))))
            errors = [float("nan") if one is None else float(one["std_err"]) for one in single]
            error = float(np.sqrt(np.square(errors).sum()) / len(caches))
            tests[a, b] = normal_difference(present[a].value - present[b].value, error)
        marks = against_best([row.value for row in present], paired_p_value(tests))
        adjusted = holm([test.p_value for test in tests.values()])
        best = int(np.flatnonzero(marks.best)[0])
        for number, row in enumerate(present):
            flags = bool(marks.best[number]), bool(marks.tied_with_best[number])
            marked[row.key] = row._replace(best=flags[0], tied_with_best=flags[1])
        for (pair, test), over_pairs in zip(tests.items(), adjusted, strict=True):
            other = pair[1] if pair[0] == best else pair[0]
            against = float(marks.adjusted[other]) if best in pair else None
            names = [(present[one].signal, present[one].parameters) for one in pair]
            found.append(pair_row(place, question, names[0], names[1], test, present[0].n, float(over_pairs), against))
    return marked, found
