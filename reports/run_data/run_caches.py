"""The caches of a run as views see them: what a run records of each, and which of them make one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CacheMetadata:
    """What a run records of one cache: its manifest, in short, the layers that tables show, and what ran on it.

    ``left_out`` are the signals and parameters of entries that cannot run there; ``recipe`` is what its network was
    trained by and ``method`` what its answers are derived by, as texts, empty where that is not recorded.
    """

    name: str
    model: str
    task: str
    split: str
    metric: str
    layers: int
    classes: tuple[str, ...]
    rows: int
    table_layers: tuple[int, ...]
    target: str = "labels"
    role: str = "test"
    costs: tuple[float, ...] | None = None
    protocols: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    recipe: str = ""
    method: str = ""

    @property
    def is_f1(self) -> bool:
        """Whether the task is judged by F1 of class 1 rather than by accuracy."""
        return self.metric == "f1"

    @property
    def measure(self) -> str:
        """The measure by which the task is judged, as the result files call it."""
        return "f1" if self.is_f1 else "accuracy"

    @property
    def measure_title(self) -> str:
        """The measure by which the task is judged, as it is printed."""
        return "F1" if self.is_f1 else "Accuracy"

    @property
    def layer_costs(self) -> tuple[float, ...]:
        """What exiting at each layer costs: the layers themselves, unless the cache has costs."""
        return tuple(range(1, self.layers + 1)) if self.costs is None else self.costs


@dataclass(frozen=True)
class Group:
    """The caches of one model and split: what one table shows, and is averaged."""

    model: str
    split: str
    caches: tuple[CacheMetadata, ...]

    @property
    def average_measure(self) -> str:
        """The measure of the average over tasks; each task counts by its own where they differ."""
        measures = {cache.measure for cache in self.caches}
        return measures.pop() if len(measures) == 1 else "mean_accuracy_f1"


def counted_tasks(caches: Sequence[CacheMetadata]) -> str:
    """How many tasks some caches are of; with the number of networks where a task has several."""
    tasks = len({cache.task for cache in caches})
    count = f"{tasks} task{'s' if tasks > 1 else ''}"
    return count if tasks == len(caches) else f"{len(caches)} networks on {count}"


def cache_metadata(name: str, record: dict[str, Any]) -> CacheMetadata:
    """What ``run.json`` records of the cache ``name``."""
    return CacheMetadata(
        name=name,
        model=record["model"],
        task=record["task"],
        split=record["split"],
        metric=record["metric"],
        layers=record["layers"],
        classes=tuple(record["classes"]),
        rows=record["rows"],
        table_layers=tuple(record["table_layers"]),
        target=record.get("target", "labels"),
        role=record.get("role", "test"),
        costs=None if record.get("costs") is None else tuple(record["costs"]),
        protocols=tuple(record["protocols"]),
        left_out=tuple((signal, parameters) for signal, parameters in record.get("left_out", [])),
        recipe=str(record.get("recipe", "")),
        method=str(record.get("method", "")),
    )
