"""``exitbench report``: the main tables and the page again, from stored results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.loading.garbage_collection import search_garbage_rarely
from exitbench.cli.options.executor_option import ExecutorOption, chosen_executor
from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.reports.run_data.finished_run import FinishedRun


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR", help="Folders of finished runs.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the page goes; default: the run's folder, or out/report for several.", show_default=False
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="The signal that verdict, picture and findings are about.", show_default=False),
    ] = None,
    executor: ExecutorOption = "local",
) -> None:
    """Render the main tables and the page of a run again, or compare all signals of several runs on one page.

    Of one run nothing is computed again: the views show what its result files hold. Several runs that share caches (by
    content) have one verdict, one picture and one table, with tests that are paired on the same rows; what they do not
    share is said. Each run's own folder gets its tables and page; the page of several, or one asked for with --out, is
    written beside that. `exitbench table` and `exitbench figure` make all other tables and the figures.

    **Examples**

    `exitbench report out/published`

    `exitbench report out/before out/after --out out/both`

    `exitbench report out/published --subject nsp`
    """
    from exitbench.benchmarks.results.files import RunFiles
    from exitbench.errors import InputError
    from exitbench.output_folder import refuse_foreign
    from exitbench.reports.joint_views import write_joint_views
    from exitbench.reports.run_summary import verdict_lines
    from exitbench.reports.write_views import PAGE, write_views

    search_garbage_rarely()
    if len({run.resolve() for run in runs}) < len(runs):
        raise InputError("expected different runs, found the same folder twice")
    if out is not None:
        refuse_foreign(out)  # before anything is drawn
    for run in runs:
        if not RunFiles(run).record.get("complete"):
            echo(f"{run} is incomplete: its views show what is there", err=True)
    finished = runs_about(runs, subject)
    with chosen_executor(executor, None, 1) as workers:
        # Elsewhere the current folder is another one.
        views = runs_about([run.absolute() for run in runs], subject) if workers.is_remote else finished
        workers.call_each(write_views, [(run,) for run in views])
    lines, page = verdict_lines(finished[0]), runs[0] / PAGE
    if out is not None or len(runs) > 1:
        folder = out or Path("out") / "report"
        lines, page = write_joint_views(finished, folder), folder / PAGE
    echo(f"report in {page}", *lines)


def runs_about(paths: list[Path], subject: str | None) -> list[FinishedRun]:
    """The runs; those that have the subject are about it. Raises InputError where none of them has it."""
    from exitbench.benchmarks.suites.suite import entries_named
    from exitbench.reports.run_data.finished_run import FinishedRun

    runs = [FinishedRun(path) for path in paths]
    if subject is None:
        return runs
    having = [bool(entries_named(subject, [(entry.text, entry.signal) for entry in run.entries])) for run in runs]
    about = [
        FinishedRun(run.path, subject) if has_it or not any(having) else run
        for run, has_it in zip(runs, having, strict=True)
    ]
    for run in about:
        _ = run.subject  # an unknown one is refused before anything is written
    return about
