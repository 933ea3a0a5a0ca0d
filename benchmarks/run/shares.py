"""A share of a run's units, for job arrays: parts that know nothing of each other, and a last run that joins them.

Part i of n does the i-th stretch of all (cache, signal) pairs in a folder of its own below ``.units``, with the scores
that these need; a cache that two parts cut is scored by both, to the same bytes. The comparisons of a cache are a
part's when all of its signals are. A run of the whole suite first moves to its own place whatever the parts have done.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from exitbench.benchmarks.run.plan import CacheUnits
from exitbench.errors import InputError
from exitbench.executors.unit import DONE, Unit, is_done
from exitbench.output_folder import locked

PART = re.compile(r"part-[0-9]+-of-[0-9]+")


def part_folder(units: Path, part: tuple[int, int]) -> Path:
    """Where a part leaves what it does."""
    return units / f"part-{part[0]}-of-{part[1]}"


def share_of(units: Sequence[CacheUnits], part: tuple[int, int]) -> list[CacheUnits]:
    """The stretch of a part, cache by cache; the stretches of all parts have every signal of every cache once.

    Where a part has only some of a cache's signals, it does not compare them.
    """
    total, (number, count) = sum(len(cache.measures) for cache in units), part
    start, stop = (number - 1) * total // count, number * total // count
    shares, before = [], 0
    for cache in units:
        own = cache.measures[max(start - before, 0) : max(stop - before, 0)]
        if own:
            shares.append(replace(cache, measures=own, compared=own == cache.measures))
        before += len(cache.measures)
    return shares


def parts_below(folder: Path) -> list[Path]:
    """The folders of the parts that have begun."""
    return sorted(path for path in folder.glob("part-*-of-*") if PART.fullmatch(path.name) and path.is_dir())


def refuse_parts_at_work(folder: Path) -> None:
    """Raise InputError while a part below ``folder`` is at work."""
    for part in parts_below(folder):
        try:
            with locked(part):
                pass
        except InputError as error:
            name = part.name.replace("-", " ")
            raise InputError(f"{name} is still at work in {folder.parent}: wait for it") from error


def refuse_other_parts(units: Sequence[CacheUnits], folder: Path) -> None:
    """Raise InputError where a part below ``folder`` has done units and none of them is of this run.

    They would be removed unused: hours of others' work, for an option that was forgotten.
    """
    wanted = {unit.folder.name for cache in units for unit in _units_of(cache)}
    for part in parts_below(folder):
        done = {path.parent.name for path in part.glob(f"*/{DONE}")}
        if done and not done & wanted:
            name = part.name.replace("-", " ")
            raise InputError(
                f"expected {name} in {folder.parent} to be of this run, found units of another one (caches, options, "
                "signals or version): give the command of the parts without --part, or --force to do without them"
            )


def adopt_parts(units: Sequence[CacheUnits], folder: Path) -> None:
    """Move what parts below ``folder`` have done to where the units of the whole run look for it."""
    parts = parts_below(folder)
    for unit in (unit for cache in units for unit in _units_of(cache)):
        done = [part / unit.folder.name for part in parts if (part / unit.folder.name / DONE).is_file()]
        if done and not is_done(unit):
            shutil.rmtree(unit.folder, ignore_errors=True)
            done[0].rename(unit.folder)
    for part in parts:
        shutil.rmtree(part, ignore_errors=True)


def _units_of(cache: CacheUnits) -> Iterator[Unit]:
    yield cache.score
    yield from cache.measures
    yield cache.compare
