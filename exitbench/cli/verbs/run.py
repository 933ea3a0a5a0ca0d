"""``exitbench run``: the main job."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.ctrl_c import stopping
from exitbench.cli.fit_cache_option import FitCacheOption, fit_cache
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo, terminal_console

if TYPE_CHECKING:
    from exitbench.benchmarks.suites.suite import Suite
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.workers import Workers

MODULES = (
    "exitbench.benchmarks.run.measure_stage",
    "exitbench.benchmarks.run.compare_stage",
    "exitbench.reports.figures.render",
)
"""What every worker will need, so that it is loaded while the first process is still reading the suite."""


@stopping("stopped; the same command goes on where this one was")
def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CACHE_OR_SUITE",
            help="Caches and suites, by name or path; none: the paper suite.",
            show_default=False,
        ),
    ] = None,
    signals: Annotated[
        list[str] | None, typer.Option(help="Instead of the suite's signals; may be repeated.", show_default=False)
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
        int | None, typer.Option(min=1, help="Processes; default: one per core.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to; default: out/SUITE.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a finished run.")] = False,
) -> None:
    """Run a suite, or the paper's questions on caches of your own, and write all results.

    A run that was interrupted goes on where it stopped; a finished one is kept unless --force is given.

    **Examples**

    `exitbench run`

    `exitbench run my-cache --signals deebert --signals 'cap[alpha=0.1|1]' --out out/mine`

    `exitbench run my-suite.toml --jobs 4`
    """
    fit_cache(off=no_fit_cache)
    from exitbench.worker_processes import one_thread_per_process
    from exitbench.workers import Workers

    one_thread_per_process()
    from exitbench.benchmarks.run.plan import refuse_signals_that_run_nowhere
    from exitbench.cli.signals_option import load
    from exitbench.errors import InputError

    options = {
        "protocols": tuple(protocol) if protocol else None,
        "speed_ups": None if speed_ups is None else parse_numbers(speed_ups),
        "resamples": resamples,
        "seed": seed,
        "target": target_name(target),
    }
    changes = {name: value for name, value in options.items() if value is not None}
    suites = [suite.asking(**changes) for suite in suites_of(targets or ["paper"])]
    if signals:
        suites = [suite.with_signals(tuple(signals)) for suite in suites]
    if out is not None and len(suites) > 1:
        raise InputError(f"--out names one folder, found {len(suites)} suites to run")
    for suite in suites:
        suite.require_caches()
    complete = True
    with Workers(jobs or os.cpu_count() or 1, modules=MODULES) as workers:
        workers.start()
        registry = load(signals_dir)  # also for its warnings; every process loads its own signals
        if signals:
            caches = [path for suite in suites for path in suite.caches]
            refuse_signals_that_run_nowhere(signals, caches, registry, target_name(target))
        for suite in suites:
            folder = out or Path("out") / suite.name
            complete = run_and_report(suite, folder, workers, signals_dir or [], force=force) and complete
    if not complete:
        raise typer.Exit(1)


def run_and_report(suite: Suite, folder: Path, workers: Workers, signals_dirs: list[Path], *, force: bool) -> bool:
    """Run one suite, print its summary and make its report; whether everything in it could be computed."""
    from exitbench.benchmarks.run.run_suite import run_suite
    from exitbench.output_folder import claimed
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.reports.write_views import PAGE, write_views

    with claimed(folder):  # until its report is written
        arguments = ["exitbench", *sys.argv[1:]]
        outcome = run_suite(suite, folder, workers=workers, directories=signals_dirs, force=force, arguments=arguments)
        run = FinishedRun(outcome.path)
        print_summary(run)
        for line in outcome.left_out:
            echo(f"note: left out: {line}", err=True)
        for failure in outcome.failures:
            echo(f"failed: {failure.label}: {failure.reason}", err=True)
        echo(f"{'results' if outcome.complete else 'incomplete results'} in {outcome.path}")
        with stopping(f"stopped; `exitbench report {outcome.path}` makes the report"):
            write_views(run, workers)
        echo(f"report in {outcome.path / PAGE}")
        return outcome.complete


def suites_of(targets: list[str]) -> list[Suite]:
    """The suites that are named; all caches that are named together make one more.

    A bare word that names a suite or a cache of the clone is that, whatever lies in the current folder: a folder of the
    same name is meant by ``./word``.
    """
    from exitbench.benchmarks.suites.suite_file import known_suites, load_suite, suite_of_caches
    from exitbench.errors import InputError, did_you_mean
    from exitbench.places import cache_directories

    suites, caches = [], []
    for target in targets:
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


def print_summary(run: FinishedRun) -> None:
    """Print a table per task: DIS at the suite's layers, rates, the score at the primary speed-up."""
    from exitbench.reports.formats.terminal import LEGEND, terminal_table
    from exitbench.reports.tables.per_task import summary_table
    from exitbench.reports.tables.table_parts import cache_notes
    from exitbench.reports.verdict.learning import learning_lines

    if not run.protocols:
        return
    measured = {row.cache for row in run.rows.values()}
    console = terminal_console()
    for cache in run.caches:
        if cache.name in measured:
            console.print(terminal_table(summary_table(run, cache, run.leading_protocol([cache]))))
    echo(*learning_lines(run), *cache_notes(run, None))
    echo(
        f"{LEGEND}; prem., del.: exit rates",
        "DIS: Difficulty Inversion Score, the share in percent of pairs of a wrong and a right prediction of one layer "
        "in which the signal is more certain of the right one; 50 is chance",
    )
