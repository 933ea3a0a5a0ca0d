"""The units of a run, one class per stage; each carries paths, texts and numbers only.

A unit's folder is named after a digest of everything its result depends on, the code included, so that a run taken up
again uses what is finished and nothing that is stale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import exitbench
from exitbench.benchmarks.suites.questions import Questions
from exitbench.errors import InputError


@dataclass(frozen=True)
class ScoreUnit:
    """Stage one on one cache: every configuration of every signal."""

    folder: Path
    label: str
    cache: Path
    calibration: Path | None
    signals: tuple[str, ...]
    directories: tuple[str, ...]
    questions: Questions

    def work(self) -> None:
        """Score and leave the files that :class:`exitbench.benchmarks.scoring.score_store.ScoredCache` reads."""
        import torch

        from exitbench.benchmarks.run.score_stage import write_scores
        from exitbench.cache import Cache
        from exitbench.signals.registry.discovery import load_registry

        registry = load_registry(self.directories)
        made = [registry.make(text) for text in self.signals]
        calibration = None if self.calibration is None else Cache(self.calibration)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the same sums for any number of jobs
        try:
            write_scores(self.folder, Cache(self.cache), made, self.questions, calibration)
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class MeasureUnit:
    """Stage two on one cache and one signal; ``groups`` are the configurations of each of its entries."""

    folder: Path
    label: str
    scored: Path
    groups: tuple[tuple[int, ...], ...]
    questions: Questions

    def work(self) -> None:
        """Measure and leave one parquet file per table."""
        import pyarrow as pa  # type: ignore[import-untyped]

        from exitbench.benchmarks.run.measure_stage import write_measures
        from exitbench.benchmarks.scoring.score_store import ScoredCache

        write_measures(self.folder, ScoredCache(self.scored), self.groups, self.questions)
        # Arrow keeps the room of tables that are gone: on a large cache 0.25 GB, which the next unit lacks.
        pa.default_memory_pool().release_unused()


@dataclass(frozen=True)
class PairUnit:
    """Stage three on one cache: what its measure units left is compared."""

    folder: Path
    label: str
    scored: Path
    measured: tuple[Path, ...]
    questions: Questions

    def work(self) -> None:
        """Compare and leave the cache's final results and pairs; units that failed are passed over."""
        from exitbench.benchmarks.run.compare_stage import write_pairs
        from exitbench.benchmarks.scoring.score_store import ScoredCache
        from exitbench.workers import DONE

        finished = [unit for unit in self.measured if (unit / DONE).is_file()]
        if not finished:
            raise InputError("no signal could be measured on this cache")
        write_pairs(self.folder, ScoredCache(self.scored), finished, self.questions)


@dataclass(frozen=True)
class JoinUnit:
    """One result file: the tables of many units, one after another."""

    folder: Path
    label: str
    table: str
    parts: tuple[Path, ...]
    target: Path

    def work(self) -> None:
        """Write the file at its final place, whole or not at all."""
        from exitbench.benchmarks.results.files import join_tables

        join_tables(self.target, self.table, self.parts)


def code_digest(directories: Sequence[str]) -> str:
    """A digest of the sources that results depend on: three rooms, what lies below them, and further signals."""
    # Without symbolic links the rooms lie beside the package: see exitbench/__init__.py.
    package, beside = Path(exitbench.__file__).parent, Path(__file__).parents[2]
    rooms = [beside / "benchmarks", beside / "signals", package / "cache", *map(Path, directories)]
    seen = hashlib.sha256()
    for below in (package / "exit_rule.py", package / "head_algebra.py"):
        seen.update(below.read_bytes())
    for room in rooms:
        for file in _sources(room):
            seen.update(file.relative_to(room).as_posix().encode())
            seen.update(file.read_bytes())
    return seen.hexdigest()[:20]


def _sources(room: Path) -> Iterator[Path]:
    yield from sorted(
        path for path in room.rglob("*.py") if "speed" not in path.parts and not path.name.startswith("test_")
    )
