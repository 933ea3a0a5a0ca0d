"""``exitbench report``: the main tables and the page again, from stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo


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
) -> None:
    """Render the main tables and the page of a run again; several runs side by side on one page.

    Nothing is computed again: the views show what the result files hold. Each run's own folder gets its tables and
    page; a page for several runs, or one asked for with --out, is written beside that. `exitbench table` and
    `exitbench figure` make all other tables and the figures.

    **Examples**

    `exitbench report out/paper`

    `exitbench report out/before out/after --out out/both`

    `exitbench report out/paper --subject nsp`
    """
    from exitbench.benchmarks.results.files import RunFiles
    from exitbench.errors import InputError
    from exitbench.output_folder import claimed, refuse_foreign
    from exitbench.reports.page.page import write_page
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.reports.write_views import PAGE, write_views

    if len({run.resolve() for run in runs}) < len(runs):
        raise InputError("expected different runs, found the same folder twice")
    if out is not None:
        refuse_foreign(out)  # before anything is drawn
    for run in runs:
        if not RunFiles(run).record.get("complete"):
            echo(f"{run} is incomplete: its views show what is there", err=True)
    finished = [FinishedRun(run, subject) for run in runs]
    for run_views in finished:
        _ = run_views.subject  # an unknown one is refused before anything is written
    for run_views in finished:
        write_views(run_views)
    page = runs[0] / PAGE
    if out is not None or len(runs) > 1:
        folder = out or Path("out") / "report"
        page = folder / PAGE
        with claimed(folder) as claim:
            claim.begin("page", [PAGE])
            write_page(runs, page, subject)
    echo(f"report in {page}")
