"""Which caches are averaged: those of one model over its tasks, and those of one task over its models.

An average over tasks belongs to a model, and its task is ``average``; one over models belongs to a task, and its model
is ``average``. Either belongs to a split: numbers on different splits are answers to different questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.benchmarks.results.vocabulary import AVERAGE
from exitbench.benchmarks.run.across_caches.average_errors import AveragedCache, Over


@dataclass(frozen=True)
class AveragedGroup:
    """Caches with one average, the columns its rows have, and what counts alike in it: every task, or every model."""

    model: str
    task: str
    split: str
    caches: tuple[AveragedCache, ...]
    over: Over

    @property
    def names(self) -> list[str]:
        return [cache.cache for cache in self.caches]

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells a group from others."""
        return self.model, self.task, self.split

    @property
    def key_columns(self) -> dict[str, str]:
        """The columns that say which average a row is."""
        return dict(zip(("model", "task", "split"), self.key, strict=True))


def averaged_groups(caches: Sequence[AveragedCache]) -> list[AveragedGroup]:
    """Every group of at least two caches: first by model and split, then by task and split with at least two models."""
    over_tasks: dict[tuple[str, str], list[AveragedCache]] = {}
    over_models: dict[tuple[str, str], list[AveragedCache]] = {}
    for cache in caches:
        over_tasks.setdefault((cache.model, cache.split), []).append(cache)
        over_models.setdefault((cache.task, cache.split), []).append(cache)
    groups = [
        AveragedGroup(model, AVERAGE, split, tuple(several), "task")
        for (model, split), several in over_tasks.items()
        if len(several) > 1
    ]
    groups += [
        AveragedGroup(AVERAGE, task, split, tuple(several), "model")
        for (task, split), several in over_models.items()
        if len({cache.model for cache in several}) > 1
    ]
    return groups
