"""The rows of ``across.parquet``: what several tasks and networks say about signals, per model, split and protocol.

From six tasks on, average ranks by score and by DIS with Nemenyi's critical difference. From three tasks with five
networks each on, normalised scores: interquartile mean, performance profile, probability of improvement. For every
average difference the posterior probabilities of better, practically the same and worse. For every entry the parts of
variance from rows, networks and tasks. Entries whose parameters were chosen on the scored samples take no part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import BOUNDS
from exitbench.benchmarks.run.across_caches.average_errors import AveragedCache, AverageErrors
from exitbench.benchmarks.run.across_caches.averages import (
    MeanColumn,
    Name,
    average_measure,
    counted_rows,
    mean_columns,
    source_key,
)
from exitbench.benchmarks.run.contestants import is_flattered
from exitbench.benchmarks.statistics import average_ranks, networks_and_tasks
from exitbench.benchmarks.statistics.networks_and_tasks import MARGIN, Array, WithInterval

LEVELS = 41
"""Normalised scores at which a profile is read."""

AcrossRow = dict[str, Any]


@dataclass(frozen=True)
class AcrossGroup:
    """The caches of one model and split under one protocol, with the columns of their results."""

    model: str
    split: str
    protocol: str
    caches: Sequence[AveragedCache]
    columns: Mapping[tuple[str, str, Any], MeanColumn]
    entries: Sequence[Name]
    errors: AverageErrors
    primary: OperatingPoint

    @property
    def measure(self) -> str:
        """The name of the average of the tasks' own scores."""
        return average_measure(cache.metric for cache in self.caches)

    def values(self, name: Name, question: Any) -> dict[str, Row] | None:
        """The row of every cache that answers a question; ``None`` where one has no value that counts."""
        column = self.columns.get((*name, question))
        counted = {} if column is None else counted_rows(column)
        return counted if len(counted) == len(self.caches) else None

    def by_task(self, values: Mapping[str, float]) -> list[Array]:
        """One value per cache as the values of each task's different networks, copies of one network averaged."""
        tasks: dict[str, dict[str, list[float]]] = {}
        for cache in self.caches:
            networks = tasks.setdefault(cache.task, {})
            networks.setdefault(cache.network or cache.cache, []).append(values[cache.cache])
        return [np.array([np.mean(several) for several in networks.values()]) for networks in tasks.values()]

    def row(self, statistic: str, *, measure: str = "", point: OperatingPoint = NOWHERE, **columns: Any) -> AcrossRow:
        """A row with the columns that say what it is about."""
        names = dict.fromkeys(("signal_a", "parameters_a", "signal_b", "parameters_b"), "")
        numbers = dict.fromkeys(("level", "value", "low", "high"), math.nan)
        return {
            "model": self.model,
            "split": self.split,
            "protocol": self.protocol,
            "statistic": statistic,
            "operating_point": point.text,
            "measure": measure,
            **names,
            **numbers,
            "tasks": self.errors.tasks,
            "networks": min(self.errors.networks),
            **columns,
        }


def across_rows(
    rows: Sequence[Row],
    tests: Iterable[Mapping[str, Any]],
    caches: Sequence[AveragedCache],
    entries: Sequence[Name],
    *,
    primary: float,
    resamples: int,
    seed: int,
) -> list[AcrossRow]:
    """All rows; ``tests`` are the pairs of the averages, ``entries`` the (signal, parameters) that are compared."""
    groups: dict[tuple[str, str], list[AveragedCache]] = {}
    for cache in caches:
        groups.setdefault((cache.model, cache.split), []).append(cache)
    tests_of: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for test in tests:
        tests_of.setdefault((test["model"], test["split"], test["protocol"]), []).append(test)
    rows_of: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        rows_of.setdefault((row.model, row.split), []).append(row)
    across: list[AcrossRow] = []
    for (model, split), several in groups.items():
        if len(several) < 2:
            continue
        names = [cache.cache for cache in several]
        metrics = {cache.cache: cache.metric for cache in several}
        own = rows_of.get((model, split), [])
        for protocol in dict.fromkeys(row.protocol for row in own):
            columns = mean_columns(own, protocol, names, metrics, entries)
            flattered = {
                (row.signal, row.parameters)
                for row in own
                if row.protocol == protocol and is_flattered(protocol, chose=row.chosen is not None)
            }
            group = AcrossGroup(
                model,
                split,
                protocol,
                several,
                {(column.signal, column.parameters, column.question): column for column in columns},
                [name for name in entries if name not in flattered and name[0] not in BOUNDS],
                AverageErrors(several),
                at_speed_up(primary),
            )
            across += rank_rows(group)
            across += normalised_rows(group, resamples, seed)
            across += practical_rows(group, tests_of.get((model, split, protocol), []))
            across += variance_rows(group)
    return across


def score_values(group: AcrossGroup) -> dict[Name, dict[str, Row]]:
    """The scores of every entry at the primary speed-up that has one on each cache."""
    question = (group.primary, None, "", group.measure)
    scores = {name: group.values(name, question) for name in group.entries}
    return {name: rows for name, rows in scores.items() if rows is not None}


def dis_values(group: AcrossGroup) -> dict[Name, dict[str, float]]:
    """The mean over the tables' layers of every entry's DIS on each cache."""
    layers = sorted({question[1] for _, _, question in group.columns if question[3] == "dis"})
    means: dict[Name, dict[str, float]] = {}
    for name in group.entries:
        by_layer = [group.values(name, (NOWHERE, layer, "", "dis")) for layer in layers]
        known = [rows for rows in by_layer if rows is not None]
        if known and len(known) == len(layers):
            means[name] = {cache: float(np.mean([rows[cache].value for rows in known])) for cache in known[0]}
    return means


def rank_rows(group: AcrossGroup) -> list[AcrossRow]:
    """Average ranks by score and by DIS, with half the critical difference on either side, and Friedman's p-value."""
    if group.errors.tasks < average_ranks.FEWEST_TASKS:
        return []
    scores = {name: {cache: row.value for cache, row in rows.items()} for name, rows in score_values(group).items()}
    across: list[AcrossRow] = []
    for measure, point, values in ((group.measure, group.primary, scores), ("dis", NOWHERE, dis_values(group))):
        if len(values) < 2:
            continue
        matrix = np.array([[task.mean() for task in group.by_task(of_entry)] for of_entry in values.values()]).T
        ranked = average_ranks.average_ranks(matrix)
        half = ranked.critical_difference / 2
        for (signal, parameters), rank in zip(values, ranked.ranks.tolist(), strict=True):
            across.append(
                group.row(
                    "average_rank",
                    measure=measure,
                    point=point,
                    signal_a=signal,
                    parameters_a=parameters,
                    value=rank,
                    low=rank - half,
                    high=rank + half,
                )
            )
        shared: dict[str, Any] = {"measure": measure, "point": point}
        across.append(group.row("critical_difference", **shared, value=ranked.critical_difference))
        across.append(group.row("friedman_p", **shared, value=ranked.p_value))
    return across


def normalised(group: AcrossGroup, rows: Mapping[str, Row]) -> dict[str, float] | None:
    """Scores between exiting at random at the same speed-up (0) and the oracle (1); ``None`` where that is no range."""
    random = group.values(("random", ""), (group.primary, None, "", group.measure))
    oracle = group.values(("oracle", ""), (NOWHERE, None, "", group.measure))
    if random is None or oracle is None:
        return None
    ranges = {cache: oracle[cache].value - random[cache].value for cache in rows}
    if min(ranges.values()) <= 0:
        return None
    return {cache: (row.value - random[cache].value) / ranges[cache] for cache, row in rows.items()}


def normalised_rows(group: AcrossGroup, resamples: int, seed: int) -> list[AcrossRow]:
    """Interquartile means, profiles and probabilities of improvement of normalised scores."""
    enough = min(group.errors.networks) >= networks_and_tasks.FEWEST_NETWORKS
    if not enough or group.errors.tasks < networks_and_tasks.FEWEST_TASKS:
        return []
    tasks: dict[Name, list[Array]] = {}
    for name, rows in score_values(group).items():
        scores = normalised(group, rows)
        if scores is not None:
            tasks[name] = group.by_task(scores)
    if not tasks:
        return []
    counts = [len(task) for task in next(iter(tasks.values()))]
    draws = networks_and_tasks.stratified_draws(counts, resamples, seed)
    shared: dict[str, Any] = {"measure": group.measure, "point": group.primary}
    lowest = min(0.0, *(float(task.min()) for of_entry in tasks.values() for task in of_entry))
    levels = np.linspace(lowest, 1.0, LEVELS)
    across: list[AcrossRow] = []
    for (signal, parameters), of_entry in tasks.items():
        named = {**shared, "signal_a": signal, "parameters_a": parameters}
        mean = networks_and_tasks.iqm_estimate(of_entry, draws)
        across.append(group.row("interquartile_mean", **named, **interval_columns(mean)))
        for level, share in zip(levels.tolist(), networks_and_tasks.profile(of_entry, levels, draws), strict=True):
            across.append(group.row("profile", **named, level=level, **interval_columns(share)))
    for (first, a), (second, b) in itertools.permutations(tasks.items(), 2):
        chance = networks_and_tasks.improvement(a, b, draws)
        across.append(group.row("improvement", **shared, **pair_columns(first, second), **interval_columns(chance)))
    return across


def interval_columns(estimate: WithInterval) -> dict[str, Any]:
    """The columns of a value with its interval."""
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def pair_columns(first: Name, second: Name) -> dict[str, Any]:
    """The columns that name two entries."""
    return dict(zip(("signal_a", "parameters_a", "signal_b", "parameters_b"), (*first, *second), strict=True))


def practical_rows(group: AcrossGroup, tests: Collection[Mapping[str, Any]]) -> list[AcrossRow]:
    """Better, practically the same and worse by the score at the primary speed-up, for every tested average pair."""
    across: list[AcrossRow] = []
    for test in tests:
        asked = (test["operating_point"], test["decisions"], test["measure"], test["status"])
        if asked != (group.primary.text, "", group.measure, "ok") or test["layer"] is not None:
            continue
        difference, std_err = float(test["difference"]), float(test["std_err"])
        quantile = (float(test["high"]) - float(test["low"])) / (2 * std_err) if std_err > 0 else math.inf
        chances = networks_and_tasks.practical_probabilities(difference, std_err, quantile)
        named = pair_columns((test["signal_a"], test["parameters_a"]), (test["signal_b"], test["parameters_b"]))
        for statistic, value in (("better", chances.better), ("same", chances.same), ("worse", chances.worse)):
            row = group.row(statistic, measure=group.measure, point=group.primary, **named, level=MARGIN, value=value)
            across.append(row)
    return across


def variance_rows(group: AcrossGroup) -> list[AcrossRow]:
    """The variance of one network's score on one task from rows, networks and tasks, in squared points."""
    across: list[AcrossRow] = []
    for (signal, parameters), rows in score_values(group).items():
        values = {cache: row.value for cache, row in rows.items()}
        row_errors = group.errors.by_task(
            values,
            {cache: row.std_err for cache, row in rows.items()},
            {cache: source_key(row) for cache, row in rows.items()},
        )
        parts = networks_and_tasks.variance_parts(group.by_task(values), row_errors)
        named: dict[str, Any] = {
            "measure": group.measure,
            "point": group.primary,
            "signal_a": signal,
            "parameters_a": parameters,
        }
        across += [
            group.row(f"variance_{part}", **named, value=getattr(parts, part)) for part in ("rows", "networks", "tasks")
        ]
    return across
