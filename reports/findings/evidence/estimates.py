"""Means over caches that share rows and tasks, with intervals that know it.

Every task counts once, in it every model once, and in that every network. From three tasks on, tasks are what is
drawn: the interval is Student's, from the spread of the tasks' means, whatever the number of networks behind each, and
says what to expect of another task like these. With fewer tasks it is about these tasks: the error from the rows, as
if all networks of a task erred alike on its rows, and, from five networks of every model on, that from training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.benchmarks.statistics.crossed_errors import (
    ENOUGH_NETWORKS,
    MeanError,
    mean_difference,
    network_variance,
)
from exitbench.benchmarks.statistics.multiple_comparisons import holm
from exitbench.reports.findings.choices import mean, signed
from exitbench.reports.findings.sentences import counted

FEWEST_DRAWN = 3
"""From so many tasks on, their spread says something about other tasks."""


@dataclass(frozen=True)
class CacheValue:
    """A number of one cache: the task and model it belongs to, and its standard error from the rows."""

    task: str
    model: str
    value: float
    std_err: float = math.nan


@dataclass(frozen=True)
class TasksEstimate:
    """A mean over tasks with its 95% interval and p-value (NaN where there is no error), and what the interval holds.

    ``p_adjusted`` is the p-value among those of a table's column, by Holm's method; before that, NaN.
    """

    value: float
    low: float
    high: float
    p_value: float
    tasks: int
    caches: int
    about: str
    p_adjusted: float = field(default=math.nan)

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low + self.high)

    @property
    def side(self) -> int:
        """Whether the mean is shown to be above zero (1) or below (-1); 0 where it is not shown."""
        return (1 if self.value > 0 else -1) if is_claimed(self.p_adjusted) else 0

    def text(self, places: int = 1) -> str:
        """The mean with its interval.

        >>> TasksEstimate(1.25, 0.5, 2.0, 0.01, 3, 3, "").text()
        '+1.2 [0.5, 2.0]'
        """
        if not self.has_interval:
            return signed(self.value, places)
        return f"{signed(self.value, places)} [{interval_end(self.low, places)}, {interval_end(self.high, places)}]"


def interval_end(value: float, places: int) -> str:
    """An end of an interval; no zero has a sign.

    >>> interval_end(-0.04, 1), interval_end(-1.25, 1)
    ('0.0', '-1.2')
    """
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def nested(values: Iterable[CacheValue]) -> dict[str, dict[str, list[CacheValue]]]:
    """The values by task, and in each by model."""
    tasks: dict[str, dict[str, list[CacheValue]]] = {}
    for value in values:
        tasks.setdefault(value.task, {}).setdefault(value.model, []).append(value)
    return tasks


def mean_over_tasks(values: Sequence[CacheValue]) -> TasksEstimate:
    """The mean over tasks of the mean over models of the mean over networks; NaN without any value."""
    known = [value for value in values if not math.isnan(value.value)]
    tasks = nested(known)
    task_means = [
        mean([mean([each.value for each in networks]) for networks in models.values()]) for models in tasks.values()
    ]
    if len(tasks) >= FEWEST_DRAWN:
        value, low, high, p_value = student(task_means)
        return TasksEstimate(value, low, high, p_value, len(tasks), len(known), counted(len(tasks), "task"))
    value = mean(task_means)
    error, about = error_on_these_tasks(tasks)
    if error is None:
        return TasksEstimate(value, math.nan, math.nan, math.nan, len(tasks), len(known), about)
    test = mean_difference(value, error)
    return TasksEstimate(value, test.low, test.high, test.p_value, len(tasks), len(known), about)


def student(means: Sequence[float]) -> tuple[float, float, float, float]:
    """The mean of independent values with Student's 95% interval and p-value.

    >>> [round(number, 3) for number in student([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484, 0.074]
    """
    value = mean(means)
    std_err = float(np.std(means, ddof=1)) / math.sqrt(len(means))
    degrees = len(means) - 1
    if std_err == 0:
        return value, value, value, 1.0 if value == 0 else math.nan
    reach = float(stdtrit(degrees, 0.975)) * std_err
    return value, value - reach, value + reach, 2 * float(stdtr(degrees, -abs(value) / std_err))


def error_on_these_tasks(tasks: Mapping[str, Mapping[str, Sequence[CacheValue]]]) -> tuple[MeanError | None, str]:
    """The error of a mean over tasks that stay as they are, and what it is about; None where a row error is missing."""
    networks = sum(len(cell) for models in tasks.values() for cell in models.values())
    about = "these rows" if networks == 1 else f"these {networks} networks"
    rows, parts, spread = 0.0, [], 0.0
    from_networks = bool(tasks) and all(
        len(cell) >= ENOUGH_NETWORKS for models in tasks.values() for cell in models.values()
    )
    for models in tasks.values():
        share = 1 / len(tasks)
        rows += (share * mean([mean([each.std_err for each in cell]) for cell in models.values()])) ** 2
        if from_networks:
            for cell in models.values():
                part = (share / len(models)) ** 2 * network_variance([each.value for each in cell])
                parts.append(part)
                spread += part**2 / (len(cell) - 1)
    if math.isnan(rows) or not tasks:
        return None, about
    if not from_networks:
        return MeanError(math.sqrt(rows)), about
    total = rows + sum(parts)
    degrees = total**2 / spread if spread > 0 else math.inf
    return MeanError(math.sqrt(rows), math.sqrt(sum(parts)), degrees), f"rows and {networks} networks"


def mean_over_task_pairs(pairs: Sequence[tuple[str, str, float]]) -> TasksEstimate:
    """The mean of values that belong to two tasks each, with the interval of a jackknife over tasks.

    Pairs of tasks that occur several times (several networks) count once, by their mean.
    """
    by_pair: dict[frozenset[str], list[float]] = {}
    for first, second, value in pairs:
        by_pair.setdefault(frozenset((first, second)), []).append(value)
    means = {key: mean(several) for key, several in by_pair.items()}
    tasks = sorted({task for key in means for task in key})
    value, count = mean(list(means.values())), len(tasks)
    without = [mean([each for key, each in means.items() if task not in key]) for task in tasks]
    if count <= FEWEST_DRAWN or any(map(math.isnan, without)):
        return TasksEstimate(value, math.nan, math.nan, math.nan, count, len(pairs), "these tasks")
    variance = (count - 1) / count * math.fsum((each - mean(without)) ** 2 for each in without)
    reach = float(stdtrit(count - 1, 0.975)) * math.sqrt(variance)
    return TasksEstimate(value, value - reach, value + reach, math.nan, count, len(pairs), counted(count, "task"))


def holm_adjusted(estimates: Sequence[TasksEstimate]) -> list[TasksEstimate]:
    """The estimates of one column with p-values adjusted by Holm's method."""
    p_values = holm([estimate.p_value for estimate in estimates])
    return [replace(estimate, p_adjusted=float(p)) for estimate, p in zip(estimates, p_values, strict=True)]
