"""The smallest differences that the columns of a run can show, and the rows and networks it takes to show a given one.

Taken from the rows ``detectable`` of a run's results, which come from the standard errors of its paired tests. Averages
over several networks (seeds) of a task also have a spread between networks, from the differences on each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exitbench.benchmarks.results.files import RunFiles
from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import ADJUSTED, AVERAGE, DETECTABLE
from exitbench.benchmarks.statistics.crossed_errors import ENOUGH_NETWORKS
from exitbench.benchmarks.statistics.power import claimable, networks_needed, rows_needed
from exitbench.errors import InputError

SCORES = ("accuracy", "f1", "mean_accuracy_f1")


@dataclass(frozen=True)
class DetectableDifference:
    """What one column can show: the smallest difference of ``one_pair``, and of the largest of ``all_pairs``.

    ``networks`` is the number of networks for each task, ``spread`` what their spread adds to the smallest difference
    of one pair with one network each; 0 where there is one network only, whose spread nobody knows.
    """

    cache: str
    model: str
    task: str
    split: str
    protocol: str
    operating_point: str
    layer: int | None
    measure: str
    rows: int
    one_pair: float
    all_pairs: float
    networks: int = 1
    spread: float = 0.0

    @property
    def from_networks(self) -> float:
        """The part of ``one_pair`` that more rows do not make smaller."""
        counted = self.networks >= ENOUGH_NETWORKS
        return min(self.spread / math.sqrt(self.networks), self.one_pair) if counted else 0.0

    def rows_needed(self, difference: float) -> int | None:
        """Rows that show ``difference`` for one pair, with as many networks; ``None`` where no number is enough."""
        return rows_needed(self.rows, self.one_pair, difference, not_from_rows=self.from_networks)

    def networks_needed(self, difference: float) -> int | None:
        """Networks for each task that show ``difference`` for one pair, on these rows; ``None`` where none do."""
        from_rows = math.sqrt(max(self.one_pair**2 - self.from_networks**2, 0.0))
        return networks_needed(from_rows, self.spread, difference)

    def to_json(self, difference: float | None = None) -> dict[str, Any]:
        """Plain values, with what it takes to show ``difference`` where one is given."""
        record: dict[str, Any] = {
            "cache": self.cache,
            "model": self.model,
            "task": self.task,
            "split": self.split,
            "protocol": self.protocol,
            "operating_point": self.operating_point,
            "layer": self.layer,
            "measure": self.measure,
            "rows": self.rows,
            "networks": self.networks,
            "one_pair": self.one_pair,
            "all_pairs": self.all_pairs,
        }
        if difference is not None:
            record |= {
                "difference": difference,
                "rows_needed": self.rows_needed(difference),
                "networks_needed": self.networks_needed(difference) if self.spread > 0 else None,
            }
        return record


def detectable_differences(files: RunFiles) -> list[DetectableDifference]:
    """The score at the primary speed-up and DIS at the tables' layers, of every cache and average, by protocol."""
    record = files.record
    primary = at_speed_up(float(record["suite"]["primary_speed_up"]))
    adjusted: dict[tuple[Any, ...], float] = {}
    single: list[Row] = []
    for row in files.rows():
        if row.signal != DETECTABLE:
            continue
        if row.cache and row.cache not in record["caches"]:
            raise InputError(f"{files.path}: expected results of the caches in run.json, found those of {row.cache!r}")
        if not is_asked(row, primary, record["caches"]) or math.isnan(row.value):
            continue
        if row.parameters == ADJUSTED:
            adjusted[row._replace(parameters="").key] = row.value
        else:
            single.append(row)
    spreads = network_spreads(files) if any(not row.cache for row in single) else {}

    def spread_of(row: Row) -> tuple[int, float]:
        key = spread_key({**row._asdict(), "operating_point": row.operating_point.text})
        return (1, 0.0) if row.cache else spreads.get(key, (1, 0.0))

    return [
        DetectableDifference(
            row.cache,
            row.model,
            row.task,
            row.split,
            row.protocol,
            row.operating_point.text,
            row.layer,
            row.measure,
            row.n,
            row.value,
            adjusted.get(row.key, math.nan),
            *spread_of(row),
        )
        for row in single
    ]


def is_asked(row: Row, primary: Any, caches: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a row is one that power is reported for: the task's own score at ``primary``, or DIS at a table layer."""
    if row.decisions:
        return False
    if row.measure == "dis" and row.operating_point == NOWHERE:
        return not row.cache or row.layer in caches[row.cache]["table_layers"]
    if row.operating_point != primary or row.measure not in SCORES:
        return False
    if row.cache:
        return row.measure == ("f1" if caches[row.cache]["metric"] == "f1" else "accuracy")
    metrics = {
        "f1" if cache["metric"] == "f1" else "accuracy"
        for cache in caches.values()
        if cache["split"] == row.split
        and (cache["task"] == row.task if row.model == AVERAGE else cache["model"] == row.model)
    }
    return row.measure == (metrics.pop() if len(metrics) == 1 else "mean_accuracy_f1")


def spread_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Model, split, protocol and question of a row or pair; scores of tasks with different metrics are one."""
    layer = None if row["layer"] is None or np.isnan(row["layer"]) else int(row["layer"])
    measure = "score" if row["measure"] in SCORES else row["measure"]
    return row["model"], row["split"], row["protocol"], row["operating_point"], layer, measure


def network_spreads(files: RunFiles) -> dict[tuple[Any, ...], tuple[int, float]]:
    """For every average: the fewest networks of a task, and what their spread adds to its smallest difference.

    The variance of paired differences between the networks of each task (divisor k - 1), as it enters the average over
    tasks with one network each; the median over pairs stands for all.
    """
    own = {name: "f1" if cache["metric"] == "f1" else "accuracy" for name, cache in files.record["caches"].items()}
    columns: dict[tuple[Any, ...], dict[tuple[str, ...], dict[str, list[float]]]] = {}
    pairs: list[dict[Any, Any]] = files.table("pairs").to_dict("records")
    for pair in pairs:
        if pair["cache"] and not pair["decisions"] and pair["measure"] in ("dis", own.get(pair["cache"])):
            names = pair["signal_a"], pair["parameters_a"], pair["signal_b"], pair["parameters_b"]
            by_task = columns.setdefault(spread_key(pair), {}).setdefault(names, {})
            by_task.setdefault(pair["task"], []).append(float(pair["difference"]))
    spreads = {}
    for key, by_pair in columns.items():
        fewest = min(len(values) for by_task in by_pair.values() for values in by_task.values())
        if fewest > 1:
            variances = [mean_variance(list(by_task.values())) for by_task in by_pair.values()]
            spread = claimable(math.sqrt(float(np.nanmedian(variances))))
            spreads[key] = fewest, 0.0 if math.isnan(spread) else spread
    return spreads


def mean_variance(tasks: Sequence[Sequence[float]]) -> float:
    """The variance between the networks of each task (divisor k - 1) in a mean over tasks with one network each."""
    return float(sum(np.var(values, ddof=1) for values in tasks)) / len(tasks) ** 2


def heading_of(column: DetectableDifference) -> str:
    """Whose column it is."""
    whose = f"the models on {column.task}" if column.model == AVERAGE else column.model
    name = column.cache or f"average of {whose}, {column.split}"
    networks = f", {column.networks} networks" if column.networks > 1 else ""
    return f"{name} ({column.rows} rows{networks}, {column.protocol})"
