"""``exitbench run``: the main job."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.ctrl_c import stopping
from exitbench.cli.fit_cache_option import FitCacheOption, fit_cache
from exitbench.cli.loading.garbage_collection import search_garbage_rarely
from exitbench.cli.options.executor_option import ExecutorOption, chosen_executor
from exitbench.cli.options.jobs_option import processes_for
from exitbench.cli.options.memory_option import MemoryOption, use_memory
from exitbench.cli.options.part_option import PartOption, parse_part
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo, echo_few, terminal_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exitbench.benchmarks.suites.suite import Suite
    from exitbench.executors.executor import Executor
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.signals.registry.registry import Registry

MODULES = (
    "exitbench.benchmarks.run.measure_stage",
    "exitbench.benchmarks.run.compare_stage",
)
"""What every worker will need, so that it is loaded while the first process is still reading the suite."""


@stopping("stopped; the same command goes on where this one was")
def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CACHE_OR_SUITE",
            help="Caches and suites, by name or path; none: the suite published.",
            show_default=False,
        ),
    ] = None,
    signals: Annotated[
        list[str] | None,
        typer.Option(help="Instead of the suite's signals: a,b, or the option again.", show_default=False),
    ] = None,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    no_fit_cache: FitCacheOption = False,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Instead of the suite's protocols; may be repeated.", show_default=False)
    ] = None,
    speed_ups: Annotated[
        str | None, typer.Option(help="Instead of the suite's speed-ups, such as 2,3,4.", show_default=False)
    ] = None,
    target: TargetOption = None,
    resamples: Annotated[int | None, typer.Option(help="Instead of the suite's resamples.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the suite's seed.", show_default=False)] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes; default: one per core, just one for little work.", show_default=False),
    ] = None,
    executor: ExecutorOption = "local",
    part: PartOption = None,
    memory: MemoryOption = None,
    out: Annotated[
        str | None, typer.Option(help="Where to, a folder or a URL; default: out/SUITE.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a finished run.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Only the result files: no page, no tables.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print a table for every task, too.")] = False,
    subject: Annotated[
        str | None,
        typer.Option(help="The signal that verdict, picture and findings are about.", show_default=False),
    ] = None,
) -> None:
    """Run a suite, or the paper's questions on caches of your own, and write all results.

    A run that was interrupted goes on where it stopped; a finished one is kept unless --force is given. The last thing
    printed is the verdict; the page is written after it. A subject changes no result, only what is said of them.

    **Examples**

    `exitbench run`

    `exitbench run paper`

    `exitbench run my-cache --signals 'deebert,cap[alpha=0.1|1]' --out out/mine`

    `exitbench run my-suite.toml --jobs 4`

    `exitbench run my-cache --signals-dir my-signals --signals margin,cap --subject margin`

    `exitbench run my-suite.toml --executor tcp://10.0.0.1:8786 --out /shared/out`

    `exitbench run my-suite.toml --part 3/16 --out /shared/out`
    """
    fit_cache(off=no_fit_cache)
    use_memory(memory)
    from exitbench.cache.object_store import is_url
    from exitbench.cli.copied_run import copy_run, only_copied
    from exitbench.cli.loading.declared_names import refuse_unknown_names
    from exitbench.cli.signals_option import load, separate_signals
    from exitbench.errors import InputError
    from exitbench.executors.pandas_later import load_pandas_later
    from exitbench.executors.worker_processes import one_thread_per_process

    share = parse_part(part)
    named = separate_signals(signals)
    refuse_unknown_names(named, signals_dir or [])
    one_thread_per_process()
    load_pandas_later()

    options = {
        "protocols": tuple(protocol) if protocol else None,
        "speed_ups": None if speed_ups is None else parse_numbers(speed_ups),
        "resamples": resamples,
        "seed": seed,
        "target": target_name(target),
    }
    changes = {name: value for name, value in options.items() if value is not None}
    suites = [suite.asking(**changes) for suite in suites_of(targets)]
    if named:
        suites = [suite.with_signals(tuple(named)) for suite in suites]
    if out is not None and len(suites) > 1:
        raise InputError(f"--out names one folder, found {len(suites)} suites to run")
    url = out if out is not None and is_url(out) else None
    refuse_unknown_subject(subject, suites)
    for suite in suites:
        suite.require_caches()
    if url is not None and only_copied(suites[0], url, signals_dir or [], in_parts=share is not None, force=force):
        return
    complete = True
    default_jobs = processes_for(suites) if executor == "local" else os.cpu_count() or 1
    with chosen_executor(executor, jobs, default_jobs, MODULES) as workers:
        workers.start()
        from exitbench.benchmarks.run.plan import refuse_signals_that_run_nowhere

        registry = load(signals_dir)  # also for its warnings; every process loads its own signals
        if named:
            caches = [path for suite in suites for path in suite.caches]
            refuse_signals_that_run_nowhere(named, caches, registry, target_name(target))
        if signals_dir:
            try_own_signals(suites, registry)
        for suite in suites:
            folder = Path("out") / suite.name if out is None or url is not None else Path(out)
            if share is not None:
                complete = do_part(suite, folder, share, workers, signals_dir or [], force=force) and complete
                continue
            whole = run_and_report(
                suite,
                folder,
                workers,
                signals_dir or [],
                force=force,
                report=not no_report,
                verbose=verbose,
                subject=subject,
            )
            complete = complete and whole
            if url is not None:
                copy_run(suite, folder, url, signals_dir or [])
    if not complete:
        raise typer.Exit(1)


def refuse_unknown_subject(name: str | None, suites: Sequence[Suite]) -> None:
    """Raise InputError for a subject that one of the suites has no entry of, before anything is scored."""
    from exitbench.benchmarks.suites.suite import entry_of_subject, signal_name

    if name is not None:
        for suite in suites:
            entry_of_subject(name, [(text, signal_name(text)) for text in suite.signals], f"suite {suite.name}")


def try_own_signals(suites: Sequence[Suite], registry: Registry) -> None:
    """Score a few rows with the signals that are not exitbench's: a crash ends the run before it has begun."""
    from exitbench.benchmarks.scoring.trial import try_signals
    from exitbench.cache import Cache
    from exitbench.errors import InputError
    from exitbench.signals.registry.discovery import PACKAGE

    for suite in suites:
        made = [signal for text in suite.signals for signal in registry.expand(text)]
        own = [signal for signal in made if not Path(registry.origin(signal.name)).is_relative_to(PACKAGE)]
        for path in suite.caches if own else ():
            try:
                cache = Cache(path)
            except InputError:  # the run names it, and goes on with the others
                continue
            try_signals(cache, own)
            break


def run_and_report(
    suite: Suite,
    folder: Path,
    executor: Executor,
    signals_dirs: list[Path],
    *,
    force: bool,
    report: bool = True,
    verbose: bool = False,
    subject: str | None = None,
) -> bool:
    """Run one suite, print its summary and make its report; whether everything in it could be computed."""
    from exitbench.benchmarks.run.run_suite import run_suite
    from exitbench.output_folder import claimed
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.reports.run_summary import summary_lines, verdict_lines

    search_garbage_rarely()
    with claimed(folder):  # until its report is written
        arguments = ["exitbench", *sys.argv[1:]]
        outcome = run_suite(
            suite, folder, executor=executor, directories=signals_dirs, force=force, arguments=arguments
        )
        run = FinishedRun(outcome.path, subject)
        if verbose:
            print_tasks(run)
        echo(*summary_lines(run), "")
        echo_few([f"note: left out: {line}" for line in outcome.left_out], "run.json under 'notes'")
        for line in outcome.failed_checks:
            echo(f"warning: {line}; see exitbench test-signal", err=True)
        echo_few([f"failed: {failure.label}: {failure.reason}" for failure in outcome.failures], "run.json")
        where = f"{'results' if outcome.complete else 'incomplete results'} in {outcome.path}"
        echo(f"{where}, report in {outcome.path / 'report.html'}" if report else where)
        echo(*verdict_lines(run))
        if report:
            from exitbench.reports.write_views import write_views

            again = f" --subject {shlex.quote(subject)}" if subject else ""
            with stopping(f"stopped; `exitbench report {outcome.path}{again}` makes the report"):
                write_views(run)
        return outcome.complete


def do_part(
    suite: Suite,
    folder: Path,
    part: tuple[int, int],
    executor: Executor,
    signals_dirs: list[Path],
    *,
    force: bool,
) -> bool:
    """Do one part of a suite, and say how it is joined; whether everything in it could be computed."""
    from exitbench.benchmarks.run.run_suite import run_part

    count, failures = run_part(suite, folder, part, executor=executor, directories=signals_dirs, force=force)
    for failure in failures:  # all: a part leaves no run.json
        echo(f"failed: {failure.label}: {failure.reason}", err=True)
    echo(
        f"part {part[0]} of {part[1]} in {folder}: {count} signals on caches; "
        "once all parts have ended, the same command without --part joins them"
    )
    return not failures


def suites_of(targets: list[str] | None) -> list[Suite]:
    """The suites that are named, by default one; all caches that are named together make one more.

    A bare word that names a suite or a cache of the clone is that, whatever lies in the current folder: a folder of the
    same name is meant by ``./word``.
    """
    from exitbench.benchmarks.suites.suite_file import DEFAULT, known_suites, load_suite, suite_of_caches
    from exitbench.cache.object_store import fetched_cache, is_url
    from exitbench.errors import InputError, did_you_mean
    from exitbench.places import cache_directories

    suites, caches = [], []
    for target in targets or [DEFAULT]:
        if is_url(target):
            caches.append(fetched_cache(target))
            continue
        path, fixtures = Path(target), {path.name: path for path in cache_directories()}
        if target in known_suites() or target in fixtures:
            if (path / "manifest.json").is_file():
                kind = "suite" if target in known_suites() else "cache of the clone"
                echo(f"note: {target} is the {kind}; the cache in this folder is ./{target}", err=True)
            if target in known_suites():
                suites.append(load_suite(target))
            else:
                caches.append(fixtures[target])
        elif path.is_dir():
            # `.` and `..` have no name of their own; links keep theirs.
            caches.append(path.resolve() if path.name in ("", "..") else path)
        elif target.endswith(".toml"):
            suites.append(load_suite(target))
        else:
            near = did_you_mean(target, [*known_suites(), *fixtures])
            raise InputError(f"{target!r} is neither a cache nor a suite.{near}")
    return [*suites, *([suite_of_caches(caches)] if caches else [])]


def parse_numbers(text: str) -> tuple[float, ...]:
    """Comma-separated numbers."""
    from exitbench.errors import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"expected numbers such as 2,3,4 for --speed-ups, found {text!r}") from None


def print_tasks(run: FinishedRun) -> None:
    """Print a table per task: DIS at the suite's layers, rates, the score at the primary speed-up."""
    from exitbench.reports.formats.terminal import LEGEND, terminal_table
    from exitbench.reports.tables.per_task import summary_table

    if not run.protocols:
        return
    measured = {cache for (cache,) in run.rows.distinct("cache")}
    console = terminal_console()
    for cache in run.caches:
        if cache.name in measured:
            console.print(terminal_table(summary_table(run, cache, run.leading_protocol([cache]))))
    echo(f"{LEGEND}; prem., del.: exit rates", "")
