"""Run a suite: three stages of units over any number of processes, then the result files.

Everything unfinished lies in ``<out>/.units``, which is removed when the run is complete; ``run.json`` is written last.
A folder with a ``run.json`` that says ``complete`` is finished; anything else is taken up where it was left.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from exitbench.benchmarks.results.files import RunFiles, check_unique, write_json, write_table
from exitbench.benchmarks.results.schema import SCHEMAS, rows_of, rows_table, table_of
from exitbench.benchmarks.run.averages import CachePlace, averages
from exitbench.benchmarks.run.plan import Stages, plan_run, stages_of
from exitbench.benchmarks.run.run_record import run_record
from exitbench.benchmarks.run.units import JoinUnit, ScoreUnit
from exitbench.benchmarks.suites.suite import Suite
from exitbench.cache import read_manifest
from exitbench.errors import InputError
from exitbench.progress import ProgressBar
from exitbench.workers import Failure, Unit, Workers, is_done

UNITS, JOINS = ".units", "joins"
LITTLE = 64 * 2**20
"""Bytes of tensors that one process scores in less time than the others need to import torch."""


@dataclass(frozen=True)
class RunOutcome:
    """A run that has ended: where it is, and what failed."""

    path: Path
    failures: tuple[Failure, ...]

    @property
    def complete(self) -> bool:
        return not self.failures

    @property
    def files(self) -> RunFiles:
        return RunFiles(self.path)


def run_suite(
    suite: Suite,
    out: Path,
    *,
    workers: Workers | None = None,
    directories: Sequence[Path | str] = (),
    force: bool = False,
    command: str = "",
) -> RunOutcome:
    """Run a suite into ``out``; the result files are the same for any ``workers``, by default this process alone.

    Raises InputError for a folder that holds a finished run (unless ``force``) and for missing caches.
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    suite.require_caches()
    if (out / "run.json").exists() and not force and RunFiles(out).record.get("complete"):
        raise InputError(f"{out} holds a finished run; give another folder with --out, or --force to replace it")
    plan = plan_run(suite, directories)
    manifests = {path.name: read_manifest(path) for path in suite.caches}
    for path, manifest in zip(suite.caches, manifests.values(), strict=True):
        if not manifest.complete:
            raise InputError(f"cache {path.name} is incomplete; resume its collection first")
        suite.layers_of(manifest.model.layers)
    out.mkdir(parents=True, exist_ok=True)
    (out / "run.json").unlink(missing_ok=True)
    stages = stages_of(plan, out / UNITS)
    workers = workers or Workers()
    failures = perform_stages(stages, workers)
    places = [
        CachePlace(name, one.model.name, one.split, "f1" if one.task.metric == "f1" else "accuracy")
        for name, one in manifests.items()
    ]
    failures += write_results(out, stages, places, plan.names, workers)
    record = run_record(suite, plan.entries, plan.names, manifests, stages.manifest_sha256, failures) | {
        "signals_dirs": list(plan.directories),
        "command": command,
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 3),
        "jobs": workers.jobs,
    }
    if not failures:
        shutil.rmtree(out / UNITS)
    write_json(out / "run.json", record)
    return RunOutcome(out, tuple(failures))


def perform_stages(stages: Stages, workers: Workers) -> list[Failure]:
    """Do all units, stage by stage; what rests on a failed unit is left out and not reported again."""
    total = len(stages.scores) + sum(map(len, stages.measures)) + len(stages.pairs)
    failures: list[Failure] = []
    with ProgressBar("run", total, transient=True) as bar:

        def finished(unit: Unit) -> None:
            bar.advance(note=unit.label)

        failures += scorers(stages.scores, workers).run(stages.scores, finished)
        scored = {unit.folder for unit in stages.scores if is_done(unit)}
        failures += workers.run([unit for own in stages.measures for unit in own if unit.scored in scored], finished)
        for unit, own in zip(stages.pairs, stages.measures, strict=True):
            if not all(map(is_done, own)):
                shutil.rmtree(unit.folder, ignore_errors=True)  # made of fewer signals than there may be now
        ready = [
            unit
            for unit, own in zip(stages.pairs, stages.measures, strict=True)
            if unit.scored in scored and any(map(is_done, own))
        ]
        failures += workers.run(ready, finished)
    for unit, own in zip(stages.pairs, stages.measures, strict=True):
        if is_done(unit) and not all(map(is_done, own)):
            (unit.folder / "done.json").unlink()  # to be made again once the missing signals are there
    return failures


def scorers(units: Sequence[ScoreUnit], workers: Workers) -> Workers:
    """Who scores: this process, which knows the signals already, or for much to read all ``workers``.

    Nothing but scoring needs torch, so a process that never scores starts two seconds earlier.
    """
    size = sum(file.stat().st_size for unit in units for file in unit.cache.glob("**/*.safetensors"))
    return Workers() if size < LITTLE else workers


def write_results(
    out: Path,
    stages: Stages,
    places: Sequence[CachePlace],
    entries: Sequence[tuple[str, str]],
    workers: Workers,
) -> list[Failure]:
    """Put the units' tables together in the order of the suite, add averages, and write the parquet files.

    The large tables are joined by ``workers`` while this process averages; the result is what could not be joined.
    """
    files: dict[str, list[Path]] = {name: [] for name in SCHEMAS}
    for pair, own in zip(stages.pairs, stages.measures, strict=True):
        done = [unit.folder for unit in own if is_done(unit)]
        compared = (pair.folder / "results.parquet").is_file()
        for name in SCHEMAS:
            holders = done if name not in ("results", "pairs") else []
            if compared:
                holders = [*holders, *([pair.folder] if name in ("results", "pairs", "curves") else [])]
            elif name == "results":
                holders = done  # without marks, but not lost
            files[name] += [folder / f"{name}.parquet" for folder in holders]
    averaged = {name: files.pop(name) for name in ("results", "pairs")}
    joined = workers.begin(joins(out, files), lambda _unit: None)
    results, pairs = (
        pa.concat_tables([table_of(name, []), *map(pq.read_table, parts)]) for name, parts in averaged.items()
    )
    rows, tests = (table.filter(pc.is_null(table["layer"])) for table in (results, pairs))
    means, found = averages(rows_of(rows), tests.to_pylist(), places, entries)
    results = pa.concat_tables([results, rows_table(means)])
    check_unique(results)
    write_table(out / "results.parquet", results)
    write_table(out / "pairs.parquet", pa.concat_tables([pairs, table_of("pairs", found)]))
    return joined()


def joins(out: Path, files: Mapping[str, Sequence[Path]]) -> list[JoinUnit]:
    """A unit for every table; never taken over from an earlier start, whose parts may have been others."""
    shutil.rmtree(out / UNITS / JOINS, ignore_errors=True)
    return [
        JoinUnit(out / UNITS / JOINS / name, f"{name}: joined", name, tuple(parts), out / f"{name}.parquet")
        for name, parts in sorted(files.items(), key=lambda item: -sum(part.stat().st_size for part in item[1]))
    ]
