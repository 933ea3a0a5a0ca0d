"""``exitbench run``: the main job."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.ctrl_c import stopping

if TYPE_CHECKING:
    from exitbench.benchmarks.results.schema import Row
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
    protocol: Annotated[
        list[str] | None, typer.Option(help="Instead of the suite's protocols; may be repeated.", show_default=False)
    ] = None,
    speed_ups: Annotated[
        str | None, typer.Option(help="Instead of the suite's speed-ups, such as 2,3,4.", show_default=False)
    ] = None,
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
    from exitbench.workers import Workers, one_thread_per_process

    one_thread_per_process()
    from dataclasses import replace

    from exitbench.cli.signals_option import load
    from exitbench.errors import InputError

    changes: dict[str, object] = {}
    if protocol:
        changes["protocols"] = tuple(protocol)
    if speed_ups is not None:
        changes["speed_ups"] = numbers(speed_ups)
    if resamples is not None:
        changes["resamples"] = resamples
    if seed is not None:
        changes["seed"] = seed
    suites = [suite.asking(**changes) for suite in suites_of(targets or ["paper"])]
    if signals:
        suites = [replace(suite, signals=tuple(signals)) for suite in suites]
    if out is not None and len(suites) > 1:
        raise InputError(f"--out names one folder, found {len(suites)} suites to run")
    for suite in suites:
        suite.require_caches()
    complete = True
    with Workers(jobs or os.cpu_count() or 1, modules=MODULES) as workers:
        workers.start()
        load(signals_dir)  # for its warnings; every process loads its own signals
        for suite in suites:
            folder = out or Path("out") / suite.name
            command_line = " ".join(["exitbench", *sys.argv[1:]])
            complete = run_one(suite, folder, workers, signals_dir or [], command_line, force=force) and complete
    if not complete:
        raise typer.Exit(1)


def run_one(
    suite: Suite, folder: Path, workers: Workers, signals_dirs: list[Path], command_line: str, *, force: bool
) -> bool:
    """Run one suite, print its summary and make its report; whether everything in it could be computed."""
    from exitbench.benchmarks.run.run_suite import run_suite
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.reports.write_views import PAGE, write_views

    if force:
        (folder / PAGE).unlink(missing_ok=True)  # a page must never stand beside results it does not show
    outcome = run_suite(suite, folder, workers=workers, directories=signals_dirs, force=force, command=command_line)
    run = FinishedRun(outcome.path)
    summary(run)
    for failure in outcome.failures:
        typer.echo(f"failed: {failure.label}: {failure.reason}", err=True)
    typer.echo(f"{'results' if outcome.complete else 'incomplete results'} in {outcome.path}")
    with stopping(f"stopped; `exitbench report {outcome.path}` makes the report"):
        write_views(run, workers)
    typer.echo(f"report in {outcome.path / PAGE}")
    return outcome.complete


def suites_of(targets: list[str]) -> list[Suite]:
    """The suites that are named; all caches that are named together make one more."""
    from exitbench.benchmarks.suites.suite_file import known_suites, load_suite, suite_of_caches
    from exitbench.errors import InputError, did_you_mean
    from exitbench.places import CACHES

    suites, caches = [], []
    for target in targets:
        fixture = CACHES / target
        if Path(target).is_dir():
            path = Path(target)
            # `.` and `..` have no name of their own; links keep theirs.
            caches.append(path.resolve() if path.name in ("", "..") else path)
        elif target in known_suites() or target.endswith(".toml"):
            suites.append(load_suite(target))
        elif fixture.is_dir() and Path(target).name == target:
            caches.append(fixture)
        else:
            fixtures = [path.name for path in CACHES.glob("*") if path.is_dir()]
            near = did_you_mean(target, [*known_suites(), *fixtures])
            raise InputError(f"{target!r} is neither a cache nor a suite.{near}")
    return [*suites, *([suite_of_caches(caches)] if caches else [])]


def numbers(text: str) -> tuple[float, ...]:
    """Comma-separated numbers."""
    from exitbench.errors import InputError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"expected numbers such as 2,3,4 for --speed-ups, found {text!r}") from None


def summary(run: FinishedRun) -> None:
    """Print a table per task: DIS at the suite's layers, rates, the score at the primary speed-up."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up

    record = run.record
    suite = record["suite"]
    protocol = "cross-fit" if "cross-fit" in suite["protocols"] else suite["protocols"][-1]
    found = {
        (row.cache, row.signal, row.parameters, row.operating_point, row.layer, row.decisions, row.measure): row
        for row in run.rows.values()
        if row.protocol == protocol
    }
    rates, primary = suite["rates_speed_up"], suite["primary_speed_up"]
    for cache, facts in record["caches"].items():
        metric = facts["metric"]
        columns = [(f"DIS {layer}", (NOWHERE, layer, "", "dis")) for layer in facts["table_layers"]]
        columns += [
            (f"{short} {rates:g}x", (at_speed_up(rates), None, "all", f"{kind}_rate"))
            for short, kind in (("prem.", "premature"), ("del.", "delayed"))
        ]
        columns += [
            (f"{metric} {primary:g}x", (at_speed_up(primary), None, "", metric)),
            ("at", (at_speed_up(primary), None, "", "speed_up")),
        ]
        table = Table(
            box=box.SIMPLE,
            pad_edge=False,
            title=Text(f"{facts['task']} · {facts['model']} · {facts['rows']} samples · {protocol}"),
        )
        table.add_column("signal", overflow="fold")
        for name, _ in columns:
            table.add_column(name, justify="right")
        for entry in record["entries"]:
            key = (cache, entry["signal"], entry["parameters"])
            cells = [shown(found.get((*key, *question))) for _, question in columns]
            table.add_row(Text(entry["text"]), *cells)
        Console().print(table)
    typer.echo("* best, or not shown to be worse; ! unmatched, unreliable or undefined; prem., del.: exiting rates")


def shown(row: Row | None) -> str:
    """One cell: the value, ``*`` for the best and what is tied with it, ``!`` for a status that is not ok."""
    if row is None or row.value != row.value:
        return "–"
    if row.status != "ok":
        return f"{row.value:.2f}!"
    return f"{row.value:.2f}{'*' if row.tied_with_best else ' '}"
