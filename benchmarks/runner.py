"""Run a suite: three stages of units over any number of processes, then the result files.

Everything unfinished lies in ``<out>/.units``, which is removed when the run is complete; ``run.json`` is written last.
A folder with a ``run.json`` that says ``complete`` is finished; anything else is taken up where it was left.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchmarks.averages import CachePlace, averages
from benchmarks.executor import Failure, Workers, digest, is_done, progress_bar
from benchmarks.record import run_record
from benchmarks.results import (
    SCHEMAS,
    RunFiles,
    check_unique,
    rows_of,
    rows_table,
    table_of,
    write_json,
    write_table,
)
from benchmarks.scored import grid_text
from benchmarks.settings import Settings, check_thresholds
from benchmarks.suite import Suite
from benchmarks.units import JoinUnit, MeasureUnit, PairUnit, ScoreUnit, code_digest
from exitbench.cache import read_manifest
from exitbench.errors import InputError
from signals.contract import ExitSignal
from signals.registry import Registry, load_registry

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


@dataclass(frozen=True)
class Plan:
    """A suite with its signals made: entries as texts of configurations, in the suite's order."""

    suite: Suite
    settings: Settings
    directories: tuple[str, ...]
    entries: tuple[tuple[ExitSignal, ...], ...]

    @property
    def configurations(self) -> tuple[ExitSignal, ...]:
        """Every configuration once."""
        return tuple({signal.text: signal for entry in self.entries for signal in entry}.values())

    @property
    def groups(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Registry name to the configurations (positions) of each of its entries."""
        position = {signal.text: number for number, signal in enumerate(self.configurations)}
        found: dict[str, tuple[tuple[int, ...], ...]] = {}
        for entry in self.entries:
            group = tuple(position[signal.text] for signal in entry)
            found[entry[0].name] = (*found.get(entry[0].name, ()), group)
        return found

    @property
    def names(self) -> list[tuple[str, str]]:
        """(signal, parameters) of every entry, as the results call it."""
        return [(entry[0].name, grid_text(signal.parameters_text for signal in entry)) for entry in self.entries]


def plan_run(suite: Suite, directories: Sequence[Path | str] = (), registry: Registry | None = None) -> Plan:
    """Make the suite's signals; raises InputError for unknown ones and for entries that are the same."""
    registry = registry or load_registry(directories)
    entries = tuple(tuple(registry.expand(text)) for text in suite.signals)
    plan = Plan(suite, Settings.of(suite), tuple(str(Path(one).resolve()) for one in directories), entries)
    names = plan.names
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"suite {suite.name!r} lists the same signal twice: {suite.signals[number]}")
    for key in suite.thresholds:
        if key != "*":
            registry.get(key)
    check_thresholds(suite.thresholds, plan.configurations)
    return plan


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


@dataclass(frozen=True)
class Stages:
    """All units of a run; measure units are grouped by cache, in the order of the suite."""

    scores: tuple[ScoreUnit, ...]
    measures: tuple[tuple[MeasureUnit, ...], ...]
    pairs: tuple[PairUnit, ...]
    manifest_sha256: tuple[str, ...]


def stages_of(plan: Plan, folder: Path) -> Stages:
    """The units of a run; equal inputs have equal folders."""
    code = code_digest(plan.directories)
    settings = asdict(plan.settings)
    texts = tuple(signal.text for signal in plan.configurations)
    scores, measures, pairs, hashes = [], [], [], []
    for path in plan.suite.caches:
        calibration = plan.suite.held_out.get(path) if "held-out" in plan.suite.protocols else None
        sha = manifest_sha256(path)
        inputs: dict[str, Any] = {"code": code, "manifest": sha, "settings": settings, "cache": path.name}
        inputs["calibration"] = None if calibration is None else manifest_sha256(calibration)
        scored = ScoreUnit(
            folder / f"score-{digest(inputs | {'signals': texts})}",
            f"{path.name}: scores", path.absolute(), calibration, texts, plan.directories, plan.settings,
        )  # fmt: skip
        own = tuple(
            MeasureUnit(
                folder / f"measure-{digest(inputs | {'entries': [[texts[one] for one in group] for group in groups]})}",
                f"{path.name}: {name}",
                scored.folder,
                groups,
                plan.settings,
            )
            for name, groups in plan.groups.items()
        )
        folders = tuple(unit.folder for unit in own)
        scores.append(scored)
        measures.append(own)
        pairs.append(
            PairUnit(folder / f"pairs-{digest(inputs | {'measured': [one.name for one in folders]})}",
                     f"{path.name}: comparisons", scored.folder, folders, plan.settings)
        )  # fmt: skip
        hashes.append(sha)
    return Stages(tuple(scores), tuple(measures), tuple(pairs), tuple(hashes))


def perform_stages(stages: Stages, workers: Workers) -> list[Failure]:
    """Do all units, stage by stage; what rests on a failed unit is left out and not reported again."""
    total = len(stages.scores) + sum(map(len, stages.measures)) + len(stages.pairs)
    failures: list[Failure] = []
    with progress_bar(total, "run") as advance:
        failures += scorers(stages.scores, workers).run(stages.scores, advance)
        scored = {unit.folder for unit in stages.scores if is_done(unit)}
        failures += workers.run([unit for own in stages.measures for unit in own if unit.scored in scored], advance)
        for unit, own in zip(stages.pairs, stages.measures, strict=True):
            if not all(map(is_done, own)):
                shutil.rmtree(unit.folder, ignore_errors=True)  # made of fewer signals than there may be now
        ready = [
            unit
            for unit, own in zip(stages.pairs, stages.measures, strict=True)
            if unit.scored in scored and any(map(is_done, own))
        ]
        failures += workers.run(ready, advance)
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


def manifest_sha256(path: Path) -> str:
    """The sha256 of a cache's manifest, which pins every other file of it."""
    return hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
