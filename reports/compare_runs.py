"""What differs between two runs over the same caches, with paired tests where the files hold both runs' samples.

Task scores at an operating point are compared sample by sample: McNemar's exact test on the answers that are right
in one run only, and a sign test on the exit layers; where a cache has groups, both turn whole groups around. For other
numbers (DIS, rates, areas) a run keeps no samples; their differences are listed without a test. P-values are adjusted
together by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import BOUNDS, CERTIFIED
from exitbench.benchmarks.suites.suite import entries_named
from exitbench.errors import InputError, did_you_mean
from exitbench.reports.paired_points import Paired, adjusted, paired_points
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry

NOISE = 1e-9
"""Numbers closer than this are the same: two ways of adding up the same samples."""


@dataclass(frozen=True)
class Moved:
    """A number that is not the same in both runs and has no paired test; None where a run has no value."""

    cache: str
    protocol: str
    signal_a: str
    signal_b: str
    point: OperatingPoint
    layer: int | None
    decisions: str
    measure: str
    a: float | None
    b: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side: operating points in pairs, other numbers that moved, and what only one of them has."""

    run_a: str
    run_b: str
    paired: tuple[Paired, ...]
    moved: tuple[Moved, ...]
    same: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """Whether nothing differs in what both runs have, and neither has anything else."""
        return not (self.moved or self.only_a or self.only_b or any(pair.differs for pair in self.paired))

    def to_json(self) -> dict[str, Any]:
        """Plain values, with null for what is not a number."""
        record = asdict(self) | {"identical": self.identical}
        for record_row in (*record["paired"], *record["moved"]):
            for name, value in record_row.items():
                if isinstance(value, float) and not math.isfinite(value):
                    record_row[name] = None
        return record


def compare_runs(path_a: Path, path_b: Path, signals: tuple[str, str] | None = None) -> Comparison:
    """Compare two runs; raises InputError when they share no cache or a shared cache differs in its hash.

    With ``signals`` the first of them in ``path_a`` is compared with the second in ``path_b``, which may be the same
    run; otherwise every signal with itself, or the only signals of both where they have none in common.
    """
    a, b = FinishedRun(path_a), FinishedRun(path_b)
    shared = shared_caches(a, b)
    entries = list(shared_entries(a, b)) if signals is None else [(entry_in(a, signals[0]), entry_in(b, signals[1]))]
    if not entries and len(a.entries) == len(b.entries) == 1:
        entries = [(a.entries[0], b.entries[0])]
    if not entries:
        raise InputError(
            f"{path_a} and {path_b} have no signal in common; --signals A,B compares one of the first with one of the "
            "second"
        )
    protocols = [protocol for protocol in a.protocols if protocol in b.protocols]
    paired = list(paired_points(a, b, shared, protocols, entries))
    moved: list[Moved] = []
    same = 0
    for first, second in entries:
        for moved_number in other_numbers(a, b, shared, protocols, first, second):
            if moved_number is None:
                same += 1
            else:
                moved.append(moved_number)
    return Comparison(
        run_a=path_a.name,
        run_b=path_b.name,
        paired=tuple(adjusted(paired)),
        moved=tuple(moved),
        same=same,
        only_a=tuple(only_in(a, b, {first for first, _ in entries} if signals is None else set(a.entries))),
        only_b=tuple(only_in(b, a, {second for _, second in entries} if signals is None else set(b.entries))),
    )


def entry_in(run: FinishedRun, name: str) -> RunEntry:
    """The entry of a run that a name stands for; InputError where none, or several, do."""
    named = entries_named(name, [(entry.text, entry.signal) for entry in run.entries])
    if len(named) == 1:
        return run.entries[named[0]]
    texts = [entry.text for entry in run.entries]
    expected = f"expected one signal of {run.path} in --signals, found {name!r}"
    if named:
        raise InputError(f"{expected}, which may be any of {', '.join(texts[number] for number in named)}")
    raise InputError(f"{expected}.{did_you_mean(name, texts)} It has {', '.join(texts)}")


def shared_caches(a: FinishedRun, b: FinishedRun) -> list[CacheMetadata]:
    """The caches that both runs are over; each must be the same to the byte."""
    caches_of_b = b.record["caches"]
    shared = [cache for cache in a.caches if cache.name in caches_of_b]
    for cache in shared:
        hashes = [run.record["caches"][cache.name]["manifest_sha256"] for run in (a, b)]
        if hashes[0] != hashes[1]:
            raise InputError(
                f"the runs are over different caches named {cache.name}: manifest {hashes[0][:12]} in {a.path}, "
                f"{hashes[1][:12]} in {b.path}"
            )
        other = next(candidate for candidate in b.caches if candidate.name == cache.name)
        if cache.target != other.target:
            raise InputError(
                f"{cache.name} is judged by other answers: expected one target in both runs, found {cache.target} in "
                f"{a.path}, {other.target} in {b.path}"
            )
    if not shared:
        raise InputError(f"{a.path} and {b.path} have no cache in common")
    return shared


def shared_entries(a: FinishedRun, b: FinishedRun) -> Iterator[tuple[RunEntry, RunEntry]]:
    """Entries that belong together: the same signal and parameters, else the only two left of one signal."""
    entries_of_b = {(entry.signal, entry.parameters): entry for entry in b.entries}
    ours = {(entry.signal, entry.parameters) for entry in a.entries}
    for entry in a.entries:
        if (entry.signal, entry.parameters) in entries_of_b:
            yield entry, entries_of_b[entry.signal, entry.parameters]
            continue
        left_a = [
            candidate
            for candidate in a.entries
            if candidate.signal == entry.signal and (candidate.signal, candidate.parameters) not in entries_of_b
        ]
        left_b = [
            candidate
            for candidate in b.entries
            if candidate.signal == entry.signal and (candidate.signal, candidate.parameters) not in ours
        ]
        if len(left_a) == len(left_b) == 1:
            yield entry, left_b[0]


def only_in(run: FinishedRun, other: FinishedRun, entries: set[RunEntry]) -> list[str]:
    """What the other run has nothing to compare with, in words."""
    unmatched = [f"cache {cache.name}" for cache in run.caches if cache.name not in other.record["caches"]]
    unmatched += [f"signal {entry.text}" for entry in run.entries if entry not in entries]
    return unmatched + [f"protocol {protocol}" for protocol in run.protocols if protocol not in other.protocols]


def other_numbers(
    a: FinishedRun,
    b: FinishedRun,
    caches: list[CacheMetadata],
    protocols: list[str],
    first: RunEntry,
    second: RunEntry,
) -> Iterator[Moved | None]:
    """Numbers of one entry that no samples are kept of: None for each that is the same, :class:`Moved` otherwise."""
    names = {cache.name for cache in caches}
    comparable_areas = a.suite.get("area_range") == b.suite.get("area_range")

    def of(run: FinishedRun, entry: RunEntry) -> dict[tuple[Any, ...], Row]:
        return {
            (row.cache, row.protocol, row.operating_point, row.layer, row.decisions, row.measure): row
            for row in run.rows.values()
            if (row.signal, row.parameters) == (entry.signal, entry.parameters)
            and row.cache in names
            and row.protocol in (*protocols, CERTIFIED)
            and row.signal not in BOUNDS
            and is_unpaired(row)
            and (row.measure != "area" or comparable_areas)
        }

    rows_a, rows_b = of(a, first), of(b, second)
    for key in dict.fromkeys((*rows_a, *rows_b)):
        x, y = (value_of(rows.get(key)) for rows in (rows_a, rows_b))
        if x == y or (x is not None and y is not None and abs(x - y) <= NOISE * max(abs(x), abs(y), 1.0)):
            yield None
        else:
            cache, protocol, point, layer, decisions, measure = key
            yield Moved(
                cache=cache,
                protocol=protocol,
                signal_a=first.text,
                signal_b=second.text,
                point=point,
                layer=layer,
                decisions=decisions,
                measure=measure,
                a=x,
                b=y,
            )


def is_unpaired(row: Row) -> bool:
    """Whether a number is not one of those that :func:`paired` compares sample by sample."""
    kept = row.operating_point.kind in ("speed_up", "loss") and not row.decisions
    return not (kept and row.measure in ("accuracy", "speed_up", "max_speed_up"))


def value_of(row: Row | None) -> float | None:
    """A row's number, None where there is none."""
    return None if row is None or math.isnan(row.value) else row.value
