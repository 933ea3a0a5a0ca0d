"""How steady the order of the signals is: Kendall's tau between two caches that differ in one thing only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.reports.findings.choices import USED
from exitbench.reports.findings.evidence.contested_runs import ContestedRun
from exitbench.reports.findings.evidence.estimates import (
    CacheValue,
    TasksEstimate,
    mean_over_task_pairs,
    mean_over_tasks,
)
from exitbench.reports.findings.paper_order import kendall_tau
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry

Change = Literal["seed", "task", "model", "split"]
CHANGES: dict[Change, str] = {
    "seed": "another seed",
    "task": "another task",
    "model": "another model",
    "split": "shifted rows",
}
"""What two caches differ in, in words."""

FEWEST = 4
"""Signals that an order must have to say something about its steadiness."""


@dataclass(frozen=True)
class OrderPair:
    """The orders on two caches: Kendall's tau-b, and whether a signal that comes first on one does so on the other."""

    change: Change
    by: str
    caches: tuple[CacheMetadata, CacheMetadata]
    tau: float
    same_first: bool
    signals: int
    run: str = ""

    @property
    def tasks(self) -> tuple[str, str]:
        return self.caches[0].task, self.caches[1].task

    @property
    def models(self) -> tuple[str, str]:
        """The models, in the order of their names."""
        first, second = sorted(cache.model for cache in self.caches)
        return first, second


def change_between(first: CacheMetadata, second: CacheMetadata) -> Change | None:
    """The one thing that two caches differ in; None where it is several."""
    differ = [name for name in ("model", "task", "split") if getattr(first, name) != getattr(second, name)]
    if not differ:
        return "seed"
    return {"model": "model", "task": "task", "split": "split"}[differ[0]] if len(differ) == 1 else None  # type: ignore[return-value]


def entry_values(run: FinishedRun, cache: CacheMetadata, protocol: str, by: str) -> dict[RunEntry, float]:
    """What the signals of a run are ordered by on a cache: the score at the primary speed-up, or the mean DIS."""
    questions: list[tuple[str, OperatingPoint, int | None]]
    if by == "score":
        questions = [(cache.measure, at_speed_up(float(run.suite["primary_speed_up"])), None)]
    else:
        questions = [("dis", NOWHERE, layer) for layer in cache.table_layers]
    values: dict[RunEntry, float] = {}
    for entry in run.entries:
        rows = [run.row(cache, protocol, entry.signal, entry.parameters, *question) for question in questions]
        known = [row.value for row in rows if row is not None and row.status in USED and not math.isnan(row.value)]
        if len(known) == len(questions):
            values[entry] = math.fsum(known) / len(known)
    return values


def order_pairs(run: FinishedRun) -> list[OrderPair]:
    """Every pair of caches that differ in one thing, by score and by DIS, under the run's leading protocol."""
    protocol = run.leading_protocol()
    pairs = []
    for by in ("score", "DIS"):
        values = {cache.name: entry_values(run, cache, protocol, by) for cache in run.caches}
        for first, second in itertools.combinations(run.caches, 2):
            change = change_between(first, second)
            before, after = values[first.name], values[second.name]
            shared = [entry for entry in before if entry in after]
            if change is None or len(shared) < FEWEST:
                continue
            tau = kendall_tau([before[entry] for entry in shared], [after[entry] for entry in shared])
            if not math.isnan(tau):
                same = bool(leaders(before, shared) & leaders(after, shared))
                pairs.append(OrderPair(change, by, (first, second), tau, same, len(shared), str(run.suite["name"])))
    return pairs


def leaders(values: dict[RunEntry, float], shared: Sequence[RunEntry]) -> set[RunEntry]:
    """The signals with the highest value."""
    top = max(values[entry] for entry in shared)
    return {entry for entry in shared if math.isclose(values[entry], top, abs_tol=1e-9)}


def every_order_pair(contests: Iterable[ContestedRun]) -> list[OrderPair]:
    """The pairs of all runs; two caches that stand in several runs count in the first."""
    pairs: dict[tuple[str, str, str], OrderPair] = {}
    for contest in contests:
        for pair in order_pairs(contest.run):
            pairs.setdefault((pair.by, pair.caches[0].name, pair.caches[1].name), pair)
    return list(pairs.values())


def mean_tau(pairs: Sequence[OrderPair]) -> TasksEstimate:
    """The mean of tau over tasks; of pairs of tasks, over those pairs, with a jackknife over tasks."""
    if any(pair.change == "task" for pair in pairs):
        return mean_over_task_pairs([(*pair.tasks, pair.tau) for pair in pairs])
    return mean_over_tasks([CacheValue(pair.tasks[0], " and ".join(pair.models), pair.tau) for pair in pairs])
