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


@dataclass(frozen=True, kw_only=True)
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
        """Score, and leave the files of a scored cache; refuse a file that is not what the manifest lists."""
        import torch

        from exitbench.benchmarks.run.score_stage import reads_features, score_signals
        from exitbench.benchmarks.scoring.score_store import ScoreFiles, save_scored_cache
        from exitbench.cache import Cache
        from exitbench.signals.registry.discovery import load_registry

        registry = load_registry(self.directories)
        signals = [registry.make(text) for text in self.signals]
        calibration = None if self.calibration is None else Cache(self.calibration)
        cache = Cache(self.cache)
        for source in (cache, *([] if calibration is None else [calibration])):
            source.require_unchanged(features=reads_features(source, signals))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the same sums for any number of jobs
        try:
            store = ScoreFiles(self.folder)
            scored = score_signals(cache, signals, self.questions, calibration=calibration, store=store)
            save_scored_cache(self.folder, scored)
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True, kw_only=True)
class MeasureUnit:
    """Stage two on one cache and one signal; ``groups`` are the configurations of each of its entries.

    ``tables`` names the result files that the run is to make.
    """

    folder: Path
    label: str
    scored: Path
    groups: tuple[tuple[int, ...], ...]
    questions: Questions
    tables: tuple[str, ...]

    def work(self) -> None:
        """Measure, and leave the files of the measurements."""
        import pyarrow as pa  # type: ignore[import-untyped]

        from exitbench.benchmarks.run.across_caches.average_errors import save_sources
        from exitbench.benchmarks.run.measure_stage import measure_signal
        from exitbench.benchmarks.run.measurements import save_measurements
        from exitbench.benchmarks.scoring.score_store import load_scored_cache

        measured = measure_signal(load_scored_cache(self.scored), self.groups, self.questions, self.tables)
        save_measurements(self.folder, measured)
        save_sources(self.folder, measured.sources)
        # Arrow keeps the room of tables that are gone: on a large cache 0.25 GB, which the next unit lacks.
        pa.default_memory_pool().release_unused()


@dataclass(frozen=True, kw_only=True)
class CompareUnit:
    """Stage three on one cache: what its measure units left is compared."""

    folder: Path
    label: str
    scored: Path
    measured: tuple[Path, ...]
    questions: Questions
    tables: tuple[str, ...]

    def work(self) -> None:
        """Compare, and leave the cache's final rows, pairs and bounds; units that failed are passed over."""
        from exitbench.benchmarks.results.files import write_part
        from exitbench.benchmarks.results.schema import rows_table, table_of
        from exitbench.benchmarks.run.across_caches.average_errors import save_sources
        from exitbench.benchmarks.run.compare_stage import compare_signals
        from exitbench.benchmarks.run.measurements import SavedMeasurements
        from exitbench.benchmarks.scoring.score_store import load_scored_cache
        from exitbench.executors.unit import DONE

        finished = [SavedMeasurements(folder) for folder in self.measured if (folder / DONE).is_file()]
        if not finished:
            raise InputError("no signal could be measured on this cache")
        compared = compare_signals(load_scored_cache(self.scored), finished, self.questions, self.tables)
        write_part(self.folder / "results.parquet", rows_table(compared.rows))
        write_part(self.folder / "pairs.parquet", table_of("pairs", compared.pairs))
        write_part(self.folder / "curves.parquet", compared.curves)
        save_sources(self.folder, compared.sources)


@dataclass(frozen=True, kw_only=True)
class JoinUnit:
    """One result file: the tables of many units, one after another."""

    folder: Path
    label: str
    table: str
    parts: tuple[Path, ...]
    target: Path

    def work(self) -> None:
        """Write the file, whole or not at all."""
        from exitbench.benchmarks.results.files import join_tables

        join_tables(self.target, self.table, self.parts)


def code_digest(directories: Sequence[str]) -> str:
    """A digest of the sources that results depend on: three rooms, what lies below them, and further signals."""
    # Without symbolic links the rooms lie beside the package: see exitbench/__init__.py.
    package, checkout = Path(exitbench.__file__).parent, Path(__file__).parents[2]
    rooms = [checkout / "benchmarks", checkout / "signals", package / "cache", *map(Path, directories)]
    digest = hashlib.sha256()
    for below in (package / "exit_rule.py", package / "head_algebra.py"):
        digest.update(below.read_bytes())
    for room in rooms:
        for file in _sources(room):
            digest.update(file.relative_to(room).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:20]


def _sources(room: Path) -> Iterator[Path]:
    yield from sorted(
        path
        for path in room.rglob("*.py")
        if "speed" not in path.relative_to(room).parts and not path.name.startswith("test_")
    )
