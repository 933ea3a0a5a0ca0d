"""Run a suite: its units over any executor, then the result files.

Everything unfinished lies in ``<out>/.units``; ``run.json`` is written after all results, and only then is ``.units``
removed. A folder with a ``run.json`` that says ``complete`` is finished; anything else is taken up where it was left.
What an earlier run left (its page first, its record before its results) goes before anything new appears.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache as cached
from functools import partial
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.atomic_files import move_files, remove_folders
from exitbench.benchmarks.results.files import RunFiles, check_unique, table_in_pieces, write_json, write_table
from exitbench.benchmarks.results.schema import ACROSS, SCHEMAS, rows_table, table_of
from exitbench.benchmarks.run.across_caches.across_rows import across_rows
from exitbench.benchmarks.run.across_caches.average_errors import AveragedCache, load_sources
from exitbench.benchmarks.run.across_caches.averaged_tables import joined_pairs, joined_results
from exitbench.benchmarks.run.across_caches.averages import averages
from exitbench.benchmarks.run.across_caches.shared_rows import network_of, rows_of_caches, sharing_caches
from exitbench.benchmarks.run.conformance_record import conformance_record, failed_checks
from exitbench.benchmarks.run.plan import CacheUnits, Plan, cache_units, plan_run
from exitbench.benchmarks.run.run_record import run_record
from exitbench.benchmarks.run.shares import adopt_parts, part_folder, refuse_other_parts, refuse_parts_at_work, share_of
from exitbench.benchmarks.run.stages import may_take_long, perform_stages, require_same_world
from exitbench.benchmarks.run.units import JoinUnit
from exitbench.benchmarks.scoring.score_store import head_remarks, lacking_signals, left_out_signals
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.suites.suite import Suite
from exitbench.cache import Manifest, read_manifest
from exitbench.errors import InputError
from exitbench.executors.executor import Executor, Performance, Step
from exitbench.executors.local_pool import Workers
from exitbench.executors.unit import Failure, is_done
from exitbench.output_folder import ASKED, UNITS, VIEWS, claimed, locked
from exitbench.signals.registry.discovery import load_registry

PATIENCE = 60.0
"""Seconds that a part of a run waits for others that begin at the same moment."""
RECORD, JOINS, JOINED, ACROSS_FILE = "run.json", "joins", "joined", "across"


@dataclass(frozen=True)
class RunOutcome:
    """A run that has ended: where it is, what failed, and which signals had, on a cache or at a layer, no score.

    ``failed_checks`` has a line for every signal from elsewhere that fails a conformance check.
    """

    path: Path
    failures: tuple[Failure, ...]
    left_out: tuple[str, ...] = ()
    failed_checks: tuple[str, ...] = ()

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
    executor: Executor | None = None,
    directories: Sequence[Path | str] = (),
    force: bool = False,
    arguments: Sequence[str] = (),
    tables: Sequence[str] = tuple(SCHEMAS),
) -> RunOutcome:
    """Run a suite into ``out``; the result files are the same for any ``executor``, by default this process alone.

    ``tables`` names the result files to make, by default all; what only the others need is not computed.
    Raises InputError for a folder that holds a finished run (unless ``force``), other files than exitbench's, or a run
    that is going on; and for missing caches.
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    resolved = [str(Path(directory).resolve()) for directory in directories]
    plan, manifests = planned(suite, resolved)
    with claimed(out) as folder:
        refuse_finished(out, force=force)
        refuse_parts_at_work(out / UNITS)
        rows = rows_of_caches(suite.caches, manifests)
        units = cache_units(suite, plan, resolved, out.absolute() / UNITS, tables, sharing_caches(rows))
        if not force:
            refuse_other_parts(units, out.absolute() / UNITS)
        across = [f"{ACROSS_FILE}.parquet"] if "pairs" in tables else []
        folder.begin("run", [RECORD, *(f"{name}.parquet" for name in tables), *across], outdated=[VIEWS, ASKED])
        adopt_parts(units, out.absolute() / UNITS)
        executor = executor or Workers()
        require_same_world(executor, out.absolute() / UNITS, resolved)
        takes_long = may_take_long(plan.configurations)
        failures = perform_stages(units, executor, takes_long=takes_long)
        averaged = [
            AveragedCache(
                name,
                manifest.model.name,
                manifest.task.name,
                manifest.split,
                manifest.task.metric,
                rows.get(name, ""),
                network_of(manifest),
                cached(partial(load_sources, [*(unit.folder for unit in cache.measures), cache.compare.folder])),
                target=suite.questions.target or manifest.target,
                protocols=cache.score.questions.protocols,
            )
            for cache, (name, manifest) in zip(units, manifests.items(), strict=True)
        ]
        layers = {name: suite.layers_of(manifest.model.layers) for name, manifest in manifests.items()}
        failures += write_results(out, units, averaged, plan.names, executor, tables, layers, suite.questions)
        hashes = [cache.manifest_sha256 for cache in units]
        unscored = [cache.score.cache.name for cache in units if not is_done(cache.score)]
        left_out = signals_left_out(units)
        checks = conformance_record(plan.entries)
        broken = failed_checks(checks)
        notes = [*left_out, *broken]
        record = run_record(suite, plan.entries, plan.names, manifests, hashes, failures, unscored, notes)
        for cache in units:
            record["caches"][cache.score.cache.name]["left_out"] = entries_left_out(cache, plan)
        record |= {
            "signals_dirs": resolved,
            "conformance": checks,
            "command": shlex.join(arguments),
            "arguments": list(arguments),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - clock, 3),
            "jobs": executor.jobs,
        }
        write_json(out / UNITS / JOINED / RECORD, record)
        move_files(out / UNITS / JOINED, out, last=RECORD)
        if not failures:
            remove_folders(out / UNITS)
        return RunOutcome(out, tuple(failures), tuple(left_out), tuple(broken))


def run_part(
    suite: Suite,
    out: Path,
    part: tuple[int, int],
    *,
    executor: Executor | None = None,
    directories: Sequence[Path | str] = (),
    force: bool = False,
) -> tuple[int, list[Failure]]:
    """Do part i of n of a run into ``out``: how many units that were, and what failed.

    Other parts may work there at the same time. :func:`run_suite` on the same folder joins all that is done, and does
    what is not.
    """
    resolved = [str(Path(directory).resolve()) for directory in directories]
    plan, manifests = planned(suite, resolved)
    own = part_folder(out.absolute() / UNITS, part)
    with claimed(out, PATIENCE) as folder:
        refuse_finished(out, force=force)
        folder.add("run", [RECORD])  # so that the folder is known as a run's, before it has results
        own.mkdir(parents=True, exist_ok=True)
    with locked(own):
        executor = executor or Workers()
        sharing = sharing_caches(rows_of_caches(suite.caches, manifests))
        units = share_of(cache_units(suite, plan, resolved, own, tuple(SCHEMAS), sharing), part)
        require_same_world(executor, own, resolved)
        takes_long = may_take_long(plan.configurations)
        failures = perform_stages(units, executor, takes_long=takes_long)
    return sum(len(cache.measures) for cache in units), failures


def planned(suite: Suite, directories: Sequence[str]) -> tuple[Plan, dict[str, Manifest]]:
    """The suite's signals made, and the manifests of its caches by name; InputError for what cannot be run."""
    suite.require_caches()
    plan = plan_run(suite, load_registry(directories))
    manifests = {path.name: read_manifest(path) for path in suite.caches}
    for path, manifest in zip(suite.caches, manifests.values(), strict=True):
        if not manifest.complete:
            raise InputError(f"cache {path.name} is incomplete; resume its collection first")
        suite.layers_of(manifest.model.layers)
    return plan, manifests


def refuse_finished(out: Path, *, force: bool) -> None:
    """Raise InputError for a folder that holds a finished run, unless that is to be replaced."""
    if (out / RECORD).exists() and not force and RunFiles(out).record.get("complete"):
        shutil.rmtree(out / UNITS, ignore_errors=True)  # of a run that was killed while it removed them
        raise InputError(f"{out} holds a finished run; give another folder with --out, or --force to replace it")


def entries_left_out(units: CacheUnits, plan: Plan) -> list[tuple[str, str]]:
    """Signal and parameters of the entries of which nothing could run on a cache although nothing failed."""
    texts = left_out_signals(units.score.folder) if is_done(units.score) else set()
    entries = zip(plan.names, plan.entries, strict=True)
    return [name for name, entry in entries if all(signal.text in texts for signal in entry)]


def signals_left_out(units: Sequence[CacheUnits]) -> list[str]:
    """Why signals cannot run on some caches, or have no score at some layers, a line for each signal and cache."""
    scored = [cache.score.folder for cache in units if is_done(cache.score)]
    return list(dict.fromkeys(line for folder in scored for line in (*lacking_signals(folder), *head_remarks(folder))))


def write_results(
    out: Path,
    units: Sequence[CacheUnits],
    caches: Sequence[AveragedCache],
    entries: Sequence[tuple[str, str]],
    executor: Executor,
    tables: Sequence[str],
    layers: Mapping[str, Sequence[int]],
    questions: Questions,
) -> list[Failure]:
    """Put the units' tables together in the order of the suite, add averages, and write the parquet files.

    They lie among the units until the record is there too: results without a word on what failed would look whole.
    The large tables are joined by the ``executor`` while this process averages; the result is what could not be joined.
    ``layers`` are those of each cache's tables, at which DIS is averaged.
    """
    parts = table_parts(units, tables)
    averaged = {name: parts.pop(name, []) for name in ("results", "pairs")}
    joined = Performance(executor, [Step(unit) for unit in joins(out.absolute(), parts)], lambda _unit: None)
    with ExitStack() as files:
        add = {
            name: files.enter_context(table_in_pieces(out / UNITS / JOINED / f"{name}.parquet", name))
            for name in ("results", "pairs")
            if name in ("results", *tables)
        }
        rows = joined_results(averaged["results"], layers, add["results"])
        tests = joined_pairs(averaged["pairs"], layers, add.get("pairs", lambda _table: None))
        mean_rows, mean_pairs = averages(rows, tests, caches, entries)
        means = rows_table(mean_rows)
        check_unique(means)
        add["results"](means)
        if "pairs" in add:
            add["pairs"](table_of("pairs", mean_pairs))
    if "pairs" in tables:
        across = across_rows(
            rows,
            mean_pairs,
            caches,
            entries,
            primary=questions.primary_speed_up,
            resamples=questions.resamples,
            seed=questions.seed,
        )
        write_table(out / UNITS / JOINED / f"{ACROSS_FILE}.parquet", pa.Table.from_pylist(across, schema=ACROSS))
    return joined.wait()


def table_parts(units: Sequence[CacheUnits], tables: Sequence[str]) -> dict[str, list[Path]]:
    """The files of finished units that each result file is made of, in the order of the suite."""
    parts: dict[str, list[Path]] = {name: [] for name in tables}
    for cache in units:
        measured = [unit.folder for unit in cache.measures if is_done(unit)]
        compared = [cache.compare.folder] if is_done(cache.compare) else []
        for name in tables:
            if name in ("results", "pairs"):
                # Rows of a cache without comparisons have no marks, but are not lost.
                folders = compared or (measured if name == "results" else [])
            else:
                folders = [*measured, *(compared if name == "curves" else [])]
            parts[name] += [folder / f"{name}.parquet" for folder in folders]
    return parts


def joins(out: Path, parts: Mapping[str, Sequence[Path]]) -> list[JoinUnit]:
    """A unit for every table; never taken over from an earlier start, whose parts may have been others.

    What a worker writes lies among the units until it is whole: a worker ends with the run, and cleans nothing up.
    """
    for folder in (JOINS, JOINED):
        shutil.rmtree(out / UNITS / folder, ignore_errors=True)
    (out / UNITS / JOINED).mkdir(parents=True)
    return [
        JoinUnit(
            folder=out / UNITS / JOINS / name,
            label=f"{name}: joined",
            table=name,
            parts=tuple(files),
            target=out / UNITS / JOINED / f"{name}.parquet",
        )
        for name, files in sorted(parts.items(), key=lambda item: -sum(part.stat().st_size for part in item[1]))
    ]
