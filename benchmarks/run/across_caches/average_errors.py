"""What averages over caches are made of: which caches share rows, what each weighs, and the errors of their means.

Caches share rows where task, split, ids, labels and groups agree: several trainings (seeds) of one network, or several
networks, on one test set. Every task (in an average over models: every model) counts once, whatever the number of its
caches. What lies on different rows is independent; what shares rows is averaged resample by resample before its error
is taken (:mod:`exitbench.benchmarks.statistics.crossed_errors`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from exitbench.benchmarks.results.vocabulary import PROTOCOLS
from exitbench.benchmarks.run.measurements import Question, question_of, read_back, written
from exitbench.benchmarks.run.rows.measured import Measured
from exitbench.benchmarks.statistics.crossed_errors import (
    ENOUGH_NETWORKS,
    ErrorSource,
    MeanError,
    NetworksOnRows,
    mean_error,
    mean_source,
)

SourceKey = tuple[str, str, str, Question]
"""Protocol, signal, parameters and question of a number."""

Sources = Mapping[SourceKey, ErrorSource]

Over = Literal["task", "model"]
"""What an average is over: what counts once in it."""

SOURCES = "sources"
"""Asked for beside result files: what errors come from, of a cache whose rows another one shares."""


@dataclass(frozen=True)
class AveragedCache:
    """Where a cache belongs: what it is averaged with, by which score, towards which target, under which protocols.

    ``rows`` and ``network`` are digests, equal for caches with the same samples and of the same network; ``sources``
    are those of its numbers, needed where another cache has the same rows.
    """

    cache: str
    model: str
    task: str
    split: str
    metric: str
    rows: str = ""
    network: str = ""
    sources: Callable[[], Sources] = field(default=dict, compare=False)
    target: str = "labels"
    protocols: tuple[str, ...] = PROTOCOLS

    @property
    def row_set(self) -> tuple[str, str, str]:
        """Equal for caches that share rows."""
        return self.task, self.split, self.rows or f"only {self.cache}"


class AverageErrors:
    """The errors of averages over the caches of one group, and what each cache weighs in them.

    Models are not drawn from anything: an average ``over`` models is about these networks, and has the error of rows.
    """

    def __init__(self, caches: Sequence[AveragedCache], over: Over = "task") -> None:
        self.caches, self.over = caches, over
        self.tasks = len({cache.task for cache in caches})
        members = [cache.task if over == "task" else cache.model for cache in caches]
        self.members = len(set(members))
        self.weights = {
            cache.cache: 1 / (self.members * members.count(member))
            for cache, member in zip(caches, members, strict=True)
        }
        self.blocks: dict[tuple[str, str, str], list[AveragedCache]] = {}
        for cache in caches:
            self.blocks.setdefault(cache.row_set, []).append(cache)
        self._rows = [RowsBlock(block, self.weights) for block in self.blocks.values()]

    @property
    def shares_rows(self) -> bool:
        return len(self.blocks) < len(self.caches)

    @cached_property
    def networks(self) -> list[int]:
        """The number of different networks on each set of rows."""
        return [len(block.networks) for block in self._rows]

    @cached_property
    def _sources(self) -> dict[str, Sources]:
        """The sources of the caches that share rows, read once."""
        return {cache.cache: cache.sources() for block in self.blocks.values() if len(block) > 1 for cache in block}

    def mean(self, values: Mapping[str, float]) -> float:
        """The average of one value per cache: the mean over tasks (models) of the mean over the caches of each."""
        return float(sum(self.weights[cache.cache] * values[cache.cache] for cache in self.caches))

    def count(self, samples: Mapping[str, int]) -> int:
        """The number of different rows, from that of every cache."""
        return sum(samples[block[0].cache] for block in self.blocks.values())

    def of_value(
        self, values: Mapping[str, float], errors: Mapping[str, float], keys: Mapping[str, SourceKey]
    ) -> MeanError:
        """The error of the average of ``values`` with these standard errors; ``keys`` say where their sources are."""
        return self._error(values, errors, lambda cache: self._sources[cache].get(keys[cache]))

    def of_difference(
        self,
        values: Mapping[str, float],
        errors: Mapping[str, float],
        first: Mapping[str, SourceKey],
        second: Mapping[str, SourceKey],
    ) -> MeanError:
        """The error of the average of paired differences, from the sources of both numbers."""

        def source(cache: str) -> ErrorSource | None:
            a, b = self._sources[cache].get(first[cache]), self._sources[cache].get(second[cache])
            return None if a is None or b is None else a - b

        return self._error(values, errors, source)

    def by_task(
        self, values: Mapping[str, float], errors: Mapping[str, float], keys: Mapping[str, SourceKey]
    ) -> list[float]:
        """The standard error of every task's mean that comes from its rows, tasks in their order."""
        squares: dict[str, float] = {}
        for block in self._rows:
            rows = block.error(values, errors, lambda cache: self._sources[cache].get(keys[cache]))
            squares[block.task] = squares.get(block.task, 0.0) + (block.share * self.tasks * rows) ** 2
        return [float(np.sqrt(square)) for square in squares.values()]

    def of_correlated(self, values: Mapping[str, float], errors: Mapping[str, float]) -> MeanError:
        """The largest error that averages with these standard errors can have: caches on the same rows agree wholly."""
        return self._error(values, errors, lambda _: None)

    def _error(
        self,
        values: Mapping[str, float],
        errors: Mapping[str, float],
        source: Callable[[str], ErrorSource | None],
    ) -> MeanError:
        among_networks = self.over == "task" and min(self.networks) >= ENOUGH_NETWORKS
        return mean_error(
            NetworksOnRows(
                block.share,
                block.error(values, errors, source),
                block.network_values(values) if among_networks else (),
            )
            for block in self._rows
        )


class RowsBlock:
    """The caches of an average that share rows, with what they weigh: what every error of such an average asks for."""

    def __init__(self, caches: Sequence[AveragedCache], weights: Mapping[str, float]) -> None:
        self.task = caches[0].task
        self.names = [cache.cache for cache in caches]
        self.share = sum(weights[name] for name in self.names)
        self.networks: dict[str, list[str]] = {}
        for cache in caches:
            self.networks.setdefault(cache.network or cache.cache, []).append(cache.cache)
        self._weights = np.array([weights[name] for name in self.names])
        self._weight = self._weights.sum()

    def network_values(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """One value for each different network: the mean over its caches."""
        return tuple(float(np.mean([values[name] for name in names])) for names in self.networks.values())

    def error(
        self,
        values: Mapping[str, float],
        errors: Mapping[str, float],
        source: Callable[[str], ErrorSource | None],
    ) -> float:
        """The standard error, from the rows, of the mean of the caches' ``values``."""
        if len(self.names) == 1:
            return errors[self.names[0]]
        stated = self._mean([errors[name] for name in self.names])
        known: list[ErrorSource] = []
        for name in self.names:
            of_cache = source(name)
            if of_cache is None:
                return stated
            known.append(of_cache)
        together = mean_source(known, self._weights).std_err(self._mean([values[name] for name in self.names]))
        # Sources tell how the caches err together; how much each errs, its own test knows better.
        single = [source.std_err(values[name]) for source, name in zip(known, self.names, strict=True)]
        alone = self._mean(single)
        return together * stated / alone if alone > 0 and not np.isnan(stated) else together

    def _mean(self, numbers: Sequence[float]) -> float:
        """The weighted mean, as ``np.average`` has it, at a tenth of the time: averages take 10,000 of them."""
        return float(np.multiply(numbers, self._weights).sum() / self._weight)


def row_sources(rows: Iterable[Measured]) -> dict[SourceKey, ErrorSource]:
    """The sources of numbers that were read off curves; fixed thresholds and single layers are not averaged."""
    return {
        (row.protocol, row.signal, row.parameters, question_of(row)): ErrorSource(
            measured.resampled, np.zeros(0) if measured.deals is None else measured.deals
        )
        for measured in rows
        if (row := measured.row).layer is None
        and row.operating_point.kind != "tau"
        and measured.resampled is not None
        and not (row.decisions and row.decisions != "randomised")
    }


def save_sources(folder: Path, sources: Sources) -> None:
    """Write sources, if there are any, as the files that :func:`load_sources` reads."""
    if not sources:
        return
    # One array after another: opening hundreds of small ones takes longer than all else that an average does.
    arrays = [part for source in sources.values() for part in (source.spread, source.deals)]
    np.save(folder / f"{SOURCES}.npy", np.concatenate(arrays).astype(np.float64, copy=False))
    index = [
        {
            "entry": [protocol, signal, parameters],
            "question": written([question])[0],
            "influence": source.influence,
            "lengths": [len(source.spread), len(source.deals)],
        }
        for (protocol, signal, parameters, question), source in sources.items()
    ]
    (folder / f"{SOURCES}.json").write_text(json.dumps(index) + "\n", encoding="utf-8")


def load_sources(folders: Iterable[Path]) -> dict[SourceKey, ErrorSource]:
    """The sources in some folders of units; those without any are passed over."""
    sources: dict[SourceKey, ErrorSource] = {}
    for folder in folders:
        if not (folder / f"{SOURCES}.json").is_file():
            continue
        index = json.loads((folder / f"{SOURCES}.json").read_text(encoding="utf-8"))
        values = np.asarray(np.load(folder / f"{SOURCES}.npy", mmap_mode="r"))
        questions = read_back([record["question"] for record in index])
        start = 0
        for record, question in zip(index, questions, strict=True):
            protocol, signal, parameters = record["entry"]
            middle = start + record["lengths"][0]
            end = middle + record["lengths"][1]
            sources[protocol, signal, parameters, question] = ErrorSource(
                values[start:middle], values[middle:end], record["influence"]
            )
            start = end
    return sources
