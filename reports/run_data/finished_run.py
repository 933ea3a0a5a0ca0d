"""A finished run as views see it: rows by key, entries and tasks in the suite's order, and what they are called.

Names come from signals, tasks and classes that anybody may have written; they are passed on as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exitbench.benchmarks.results.files import RunFiles
from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, operating_point
from exitbench.benchmarks.results.rows_by_cache import RowsByCache
from exitbench.benchmarks.results.schema import KEY, Row
from exitbench.benchmarks.results.vocabulary import AVERAGE, DETECTABLE
from exitbench.benchmarks.suites.suite import entry_of_subject
from exitbench.reports.run_data.conformance_result import ConformanceResult, conformance_result
from exitbench.reports.run_data.identical import Identical, identical_entries
from exitbench.reports.run_data.protocol_order import leading_protocol
from exitbench.reports.run_data.run_caches import CacheMetadata, Group, cache_metadata
from exitbench.reports.run_data.run_entry import RunEntry, told_apart
from exitbench.reports.run_data.stored_columns import StoredColumns
from exitbench.reports.run_data.stored_rows import MANY, PlainPairs, PlainRows, StoredPairs, StoredRows

if TYPE_CHECKING:
    import pandas as pd

TASK_TITLES = {
    "sst2": "SST-2",
    "qnli": "QNLI",
    "rte": "RTE",
    "mrpc": "MRPC",
    "mnli": "MNLI",
    "qqp": "QQP",
    "cola": "CoLA",
    "stsb": "STS-B",
    "wnli": "WNLI",
}
"""How the tasks of GLUE are printed, and what the published tables call them."""

BOUND_TITLES = {
    "final": "Final layer",
    "oracle": "Oracle",
    "random": "Random",
    "fixed": "Fixed layer",
    DETECTABLE: "Smallest difference shown",
}


AcrossRow = dict[str, Any]
"""One row of ``across.parquet``."""


class FinishedRun:
    """A run on disk, with everything tables and figures ask of it. Raises InputError when it is no run."""

    def __init__(self, path: Path, subject: str | None = None) -> None:
        self.path, self._subject = path, subject
        self._by_cache: dict[str, RowsByCache] = {}
        self._frames: dict[str, tuple[str, pd.DataFrame]] = {}
        self.files = RunFiles(path)
        self.record: dict[str, Any] = self.files.record
        self.suite: dict[str, Any] = self.record["suite"]
        self.entries = [
            RunEntry(entry["signal"], entry["parameters"], entry["title"], entry["text"])
            for entry in self.record["entries"]
        ]

    @cached_property
    def subject(self) -> RunEntry | None:
        """The entry that verdict, picture and findings are about, if one was asked for.

        Raises InputError for a name that no entry has.
        """
        if self._subject is None:
            return None
        named = [(entry.text, entry.signal) for entry in self.entries]
        return self.entries[entry_of_subject(self._subject, named, "the run")]

    @cached_property
    def conformance(self) -> dict[str, ConformanceResult]:
        """What the conformance checks said of the signals that this run asked them of, by name."""
        return {name: conformance_result(result) for name, result in self.record.get("conformance", {}).items()}

    @cached_property
    def rows(self) -> PlainRows | StoredRows:
        """Every row of ``results.parquet`` by its key, in the order of the file."""
        if self.files.count("results") > MANY:
            return StoredRows(StoredColumns(self.files, "results", absent=None))
        return PlainRows((row.key, row) for row in self.files.rows())

    @cached_property
    def pair_rows(self) -> PlainPairs | StoredPairs:
        """The rows of ``pairs.parquet`` as plain values, with None for an empty layer."""
        if self.files.count("pairs") > MANY:
            return StoredPairs(StoredColumns(self.files, "pairs", absent=math.nan))
        rows = self.files.plain_rows("pairs")
        for row in rows:
            row["operating_point"] = operating_point(row["operating_point"])
        return PlainPairs(rows)

    @cached_property
    def across(self) -> list[AcrossRow]:
        """The rows of ``across.parquet`` in the order of the file; none where there was too little to compare."""
        return self.files.across()

    def across_of(self, group: Group, protocol: str) -> list[AcrossRow]:
        """Statistics across the tasks and networks of a group under one protocol."""
        wanted = (group.model, group.split, protocol)
        return [row for row in self.across if (row["model"], row["split"], row["protocol"]) == wanted]

    def frame_of(self, name: str, cache: CacheMetadata) -> pd.DataFrame:
        """The rows of one cache in the curves, histograms or risk curves; kept until those of another are read."""
        if name not in self._by_cache:
            self._by_cache[name] = self.files.by_cache(name, [each.name for each in self.caches])
        last, frame = self._frames.get(name, ("", None))
        if frame is None or last != cache.name:
            frame = by_category(self._by_cache[name].of(cache.name).to_pandas())
            self._frames[name] = cache.name, frame
        return frame

    @cached_property
    def protocols(self) -> list[str]:
        """The protocols that have rows, in the suite's order."""
        present = {protocol for (protocol,) in self.rows.distinct("protocol")}
        return [protocol for protocol in self.suite["protocols"] if protocol in present]

    @cached_property
    def caches(self) -> list[CacheMetadata]:
        """The caches in the suite's order, also those whose work failed."""
        return [
            cache_metadata(name, {"protocols": self.suite["protocols"]} | self.record["caches"][name])
            for name in self.suite["caches"]
        ]

    @cached_property
    def cache_named(self) -> dict[str, CacheMetadata]:
        """The caches by their names."""
        return {cache.name: cache for cache in self.caches}

    def leading_protocol(self, caches: Sequence[CacheMetadata] | None = None) -> str:
        """The protocol that some caches (default: all) are read under first: the most cautious of those most have."""
        own = [protocol for cache in (self.caches if caches is None else caches) for protocol in cache.protocols]
        chosen = [protocol for protocol in self.protocols if protocol in own and protocol != "in-sample"]
        most = max(map(own.count, chosen), default=0)
        return leading_protocol([protocol for protocol in chosen if own.count(protocol) == most])

    @cached_property
    def groups(self) -> list[Group]:
        """The caches by model and split, in the suite's order."""
        caches_of: dict[tuple[str, str], list[CacheMetadata]] = {}
        for cache in self.caches:
            caches_of.setdefault((cache.model, cache.split), []).append(cache)
        return [Group(model, split, tuple(caches)) for (model, split), caches in caches_of.items()]

    @cached_property
    def identical(self) -> list[Identical]:
        """Entries that agree in every number."""
        return identical_entries(self)

    @cached_property
    def _identical_on(self) -> dict[tuple[str, str], list[Identical]]:
        on: dict[tuple[str, str], list[Identical]] = {}
        for twins in self.identical:
            on.setdefault((twins.protocol, twins.cache.name), []).append(twins)
        return on

    def identical_on(self, caches: Iterable[CacheMetadata], protocol: str) -> list[Identical]:
        """Entries that agree in every number on some of the run's caches, under one protocol."""
        return [twins for cache in caches for twins in self._identical_on.get((protocol, cache.name), [])]

    def row(
        self,
        cache: CacheMetadata,
        protocol: str,
        signal: str,
        parameters: str,
        measure: str,
        point: OperatingPoint = NOWHERE,
        layer: int | None = None,
        decisions: str = "",
    ) -> Row | None:
        """One row of the results, None where the run has none."""
        return self.find(
            cache=cache.name,
            model=cache.model,
            task=cache.task,
            split=cache.split,
            protocol=protocol,
            signal=signal,
            parameters=parameters,
            operating_point=point,
            layer=layer,
            decisions=decisions,
            measure=measure,
        )

    def average_row(
        self,
        group: Group,
        protocol: str,
        signal: str,
        parameters: str,
        measure: str,
        point: OperatingPoint,
        layer: int | None = None,
    ) -> Row | None:
        """A row of the average over a group's tasks, None where there is none."""
        return self.find(
            cache="",
            model=group.model,
            task=AVERAGE,
            split=group.split,
            protocol=protocol,
            signal=signal,
            parameters=parameters,
            operating_point=point,
            layer=layer,
            decisions="",
            measure=measure,
        )

    def models_row(
        self, cache: CacheMetadata, protocol: str, signal: str, parameters: str, measure: str, point: OperatingPoint
    ) -> Row | None:
        """A row of the average over the models that have the task and split of a cache, None where there is none."""
        return self.find(
            cache="",
            model=AVERAGE,
            task=cache.task,
            split=cache.split,
            protocol=protocol,
            signal=signal,
            parameters=parameters,
            operating_point=point,
            layer=None,
            decisions="",
            measure=measure,
        )

    def find(self, **key: Any) -> Row | None:
        """The row with this key."""
        return self.rows.get(tuple(key[name] for name in KEY))

    @cached_property
    def _labels(self) -> dict[tuple[str, str], str]:
        taken = {*BOUND_TITLES.values()}
        labels: dict[tuple[str, str], str] = {}
        for entry in self.entries:
            inside = entry.text.partition("[")[2].removesuffix("]")
            namesakes = [other for other in self.entries if other.title == entry.title and other != entry]
            if inside and namesakes:
                inside = told_apart(entry, namesakes) or inside
            is_unique = not namesakes and entry.title not in taken
            text = entry.title if is_unique or not inside else f"{entry.title} [{inside}]"
            if text in labels.values() or text in taken:
                text = f"{entry.title} ({entry.text})"
            labels[entry.signal, entry.parameters] = text
        return labels

    def label(self, signal: str, parameters: str = "") -> str:
        """What an entry or a bound is called: its title, with parameters only where two entries share it."""
        label = self._labels.get((signal, parameters))
        if label is not None:
            return label
        if signal in BOUND_TITLES:
            return BOUND_TITLES[signal]
        title = next((entry.title for entry in self.entries if entry.signal == signal), signal)
        return f"{title} ({parameters})" if parameters else title

    @cached_property
    def _networks(self) -> Counter[tuple[str, str, str]]:
        """How many caches there are of a model, split and task."""
        return Counter((cache.model, cache.split, cache.task) for cache in self.caches)

    def task_title(self, cache: CacheMetadata) -> str:
        """The heading of a cache's columns among those of its model: the task, or the cache if tasks repeat."""
        if self._networks[cache.model, cache.split, cache.task] > 1:
            return cache.name
        return self.plain_task(cache)

    def plain_task(self, cache: CacheMetadata) -> str:
        """What the task of a cache is called, however many caches share it."""
        return TASK_TITLES.get(cache.task, cache.task)

    @cached_property
    def network_names(self) -> dict[str, str]:
        """What tells the caches of one model, split and task apart, by cache: the seeds of their networks.

        Where those are not recorded, or are not different, it is the name of the cache.
        """
        seeds = {cache.name: self.record["caches"][cache.name].get("network_seed") for cache in self.caches}
        alike = Counter((cache.model, cache.split, cache.task, seeds[cache.name]) for cache in self.caches)
        return {
            cache.name: cache.name
            if seeds[cache.name] is None or alike[cache.model, cache.split, cache.task, seeds[cache.name]] > 1
            else f"seed {seeds[cache.name]}"
            for cache in self.caches
        }

    def task_heading(self, cache: CacheMetadata) -> str:
        """A task with its measure, where that is not accuracy."""
        return f"{self.task_title(cache)} F1" if cache.is_f1 else self.task_title(cache)

    def group_title(self, group: Group) -> str:
        """The model of a group, with its split where two groups share the model."""
        several = [other.model for other in self.groups].count(group.model) > 1
        return f"{group.model}, {group.split}" if several else group.model

    def each(self) -> Iterator[tuple[Group, str]]:
        """Every group under every protocol, with the caches that are measured under it."""
        for protocol in self.protocols:
            for group in self.groups_under(protocol):
                yield group, protocol

    def groups_under(self, protocol: str) -> list[Group]:
        """The groups with the caches that are measured under a protocol, where there are any."""
        parts = [
            replace(group, caches=tuple(cache for cache in group.caches if protocol in cache.protocols))
            for group in self.groups
        ]
        return [part for part in parts if part.caches]


def by_category(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each text stored once: figures pick rows by these texts thousands of times."""
    texts = [name for name, kind in frame.dtypes.items() if kind == "str"]
    return frame.astype(dict.fromkeys(texts, "category"))
